//! Times of streamed replies and prices, from the command to the report.

use std::path::Path;

use paravt_suite::journal;
use paravt_suite::record::Measured;
use serde_json::Value;

use crate::common::server::{Script, Server};
use crate::common::{bench, ends, ok, run, stable_records, text};

fn report(dir: &Path, flags: &[&str]) -> (Value, String) {
    let output = bench().arg("report").arg(dir.join("run")).args(flags).output().unwrap();
    let json = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (json, text(&output))
}

#[test]
fn a_streamed_run_says_the_same_and_when() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str, flags: &[&str]| {
        ok(run(&["mmvu"], &dir.path().join(name), &server.base_url).args(flags));
        stable_records(&dir.path().join(name).join("mmvu"))
    };
    let (whole, streamed) = (of("whole", &[]), of("run", &["--stream"]));
    assert_eq!(whole.len(), streamed.len());
    for (a, b) in whole.iter().zip(&streamed) {
        assert_eq!(a.transcript, b.transcript, "{}", a.sample.uid);
    }
    let measured = |name: &str| {
        let records = journal::read(&dir.path().join(name).join("mmvu")).unwrap().records;
        records.into_iter().map(|record| record.measured)
    };
    for Measured { first_token_seconds: first, call_seconds: all, .. } in measured("run") {
        assert_eq!(first.len(), all.len());
        assert!(first.iter().zip(&all).all(|(first, all)| first.unwrap() <= *all), "{first:?} of {all:?}");
    }
    assert!(measured("whole").all(|measured| measured.first_token_seconds.is_empty()), "not recorded");

    let out = dir.path().join("report");
    let (_, said) = report(dir.path(), &["-v", "-o", out.to_str().unwrap()]);
    assert!(said.contains("  first token of "), "{said}");
    let table = std::fs::read_to_string(out.join("tables/latency.csv")).unwrap();
    assert!(table.starts_with("split,run,profile,model_calls,first_token_mean_seconds,"), "{table}");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let rate = rows[0].iter().position(|name| *name == "prompt_tokens_per_second").unwrap();
    assert!(rows[1][rate].parse::<f64>().unwrap() > 0.0, "{table}");
    let samples = std::fs::read_to_string(out.join("tables/samples.csv")).unwrap();
    assert!(samples.lines().next().unwrap().contains(",first_token_seconds,token_seconds,"), "{samples}");
    assert!(std::fs::read_to_string(out.join("index.html")).unwrap().contains("first token, median (s)"));
}

#[test]
fn prices_of_a_file_are_those_of_the_report() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    ok(&mut run(&["mmvu"], &dir.path().join("run"), &server.base_url));
    let prices = dir.path().join("prices.toml");
    let flag = ["--json", "--prices", prices.to_str().unwrap()];
    std::fs::write(&prices, "currency = \"EUR\"\n[models.scripted]\nprompt = 2.0\ncompletion = 8.0\n")
        .unwrap();
    let (priced, _) = report(dir.path(), &flag);
    let cell = &priced["cells"][0];
    let tokens = |field: &str| cell["summary"][field].as_f64().unwrap();
    let expected = (2.0 * tokens("prompt_tokens") + 8.0 * tokens("completion_tokens")) / 1e6;
    assert!(expected > 0.0);
    assert!((cell["price"]["tokens"].as_f64().unwrap() - expected).abs() < 1e-12, "{cell}");
    assert_eq!(cell["price"]["currency"], "EUR");

    std::fs::write(&prices, "currency = \"EUR\"\n[models.other]\nprompt = 2.0\ncompletion = 8.0\n").unwrap();
    let (_, said) = report(dir.path(), &flag);
    assert!(said.contains("no price for the tokens of the model `scripted`"), "{said}");
    for (wrong, found) in [
        ("currency = \"EUR\"\ngpu_hours = 2", "unknown field `gpu_hours`"),
        ("currency = \"EUR\"\ngpu_hour = -2", "gpu_hour: expected a price of 0 or more, found -2"),
        ("gpu_hour = 2", "missing field `currency`"),
    ] {
        std::fs::write(&prices, wrong).unwrap();
        ends(2, bench().arg("report").arg(dir.path().join("run")).args(flag), &[found]);
    }
}
