//! A bad server costs time, never a score: the same records as without faults, or a named error.

use std::path::Path;
use std::process::Output;

use crate::common::server::{Fault, Script, Server};
use crate::common::{bench, stable_records, text, world};
use paravt_suite::record::{Outcome, SampleErrorClass};

const TASK: &str = "mlvu";

fn run(out: &Path, server: &Server, extra: &[&str]) -> Output {
    bench()
        .args(["run", TASK, "--profile", "strict", "--nframes", "8", "--concurrency", "3"])
        .args(["--retry-pause", "0.01", "--request-timeout", "2", "--base-url", &server.base_url, "--data"])
        .arg(world())
        .arg("--out")
        .arg(out)
        .args(extra)
        .output()
        .unwrap()
}

#[test]
fn thirty_percent_faults_of_every_kind_change_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let good = Server::start(Script::default());
    let output = run(&dir.path().join("good"), &good, &[]);
    assert!(output.status.success(), "{}", text(&output));
    let expected = stable_records(&dir.path().join("good").join(TASK));
    for fault in [
        Fault::Drop,
        Fault::TooMany,
        Fault::Server,
        Fault::Garbage,
        Fault::HalfBody,
        Fault::Hang,
        Fault::EmptyChoices,
    ] {
        let mut faults = vec![None; 10];
        for place in [0, 3, 7] {
            faults[place] = Some(fault);
        }
        let bad = Server::start(Script { faults, ..Script::default() });
        let out = dir.path().join(format!("{fault:?}"));
        let output = run(&out, &bad, &["--tries", "8"]);
        assert!(output.status.success(), "{fault:?}: {}", text(&output));
        assert_eq!(stable_records(&out.join(TASK)), expected, "{fault:?}");
    }
}

#[test]
fn a_server_that_always_fails_is_an_error_by_name_and_resumes() {
    let dir = tempfile::tempdir().unwrap();
    for (fault, class) in
        [(Fault::Server, "server"), (Fault::EmptyChoices, "malformed"), (Fault::Garbage, "malformed")]
    {
        let bad = Server::start(Script { faults: vec![Some(fault)], ..Script::default() });
        let out = dir.path().join(format!("{fault:?}"));
        let output = run(&out, &bad, &["--tries", "2"]);
        assert_eq!(output.status.code(), Some(4), "{fault:?}: {}", text(&output));
        let records = stable_records(&out.join(TASK));
        assert!(!records.is_empty());
        for record in &records {
            assert_eq!(record.score.outcome, Outcome::Error);
            assert_eq!(record.score.value, 0.0);
            let error = record.error.as_ref().unwrap();
            assert_eq!(error.class, SampleErrorClass::ApiInLoop);
            let cause = record.transcript.calls.last().unwrap().error.as_ref().unwrap();
            assert_eq!(serde_json::to_value(cause.class).unwrap(), class, "{}", error.message);
        }
        let partial = run(&out, &bad, &["--tries", "1", "--resume", "--allow-partial"]);
        assert_eq!(partial.status.code(), Some(0), "{}", text(&partial));

        let good = Server::start(Script::default());
        let output = run(&out, &good, &["--resume"]);
        assert!(output.status.success(), "failed samples are tried again: {}", text(&output));
        assert!(stable_records(&out.join(TASK)).iter().all(|record| record.error.is_none()));
    }
}

#[test]
fn a_server_that_is_not_there_is_found_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let output = bench()
        .args([
            "run",
            TASK,
            "--base-url",
            "http://127.0.0.1:9/v1",
            "--tries",
            "1",
            "--retry-pause",
            "0.01",
            "--data",
        ])
        .arg(world())
        .arg("--out")
        .arg(dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("127.0.0.1:9"), "{}", text(&output));
}

#[test]
fn keys_reach_neither_log_nor_record() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Script { faults: vec![None, Some(Fault::Server)], ..Script::default() });
    let output = bench()
        .env("OPENAI_API_KEY", "sk-very-secret")
        .env("OPENAI_BASE_URL", &server.base_url)
        .args([
            "run",
            TASK,
            "--limit",
            "2",
            "--nframes",
            "8",
            "--tries",
            "5",
            "--retry-pause",
            "0.01",
            "--data",
        ])
        .arg(world())
        .arg("--out")
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(!text(&output).contains("sk-very-secret"));
    for file in ["manifest.json", "journal.jsonl", "summary.json"] {
        let content = std::fs::read_to_string(dir.path().join(TASK).join(file)).unwrap();
        assert!(!content.contains("sk-very-secret"), "{file}");
    }
}
