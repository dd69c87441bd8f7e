//! A bad server costs time, never a score: the same records as without faults, or a named error.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::server::{Fault, Script, Server};
use crate::common::{self, bench, ends, ok, stable_records, text, until};
use paravt_suite::record::{Outcome, SampleErrorClass};

const TASK: &str = "mlvu";

fn plain(out: &Path, base_url: &str) -> Command {
    let mut command = common::run(&[TASK], out, base_url);
    command.args(["--nframes", "8"]);
    command
}

/// A run whose requests are soon given up and tried again.
fn run(out: &Path, server: &Server, extra: &[&str]) -> Command {
    let mut command = plain(out, &server.base_url);
    command.args(["--profile", "strict", "--concurrency", "3", "--retry-pause", "0.01"]);
    command.args(["--request-timeout", "2"]).args(extra);
    command
}

#[test]
fn thirty_percent_faults_of_every_kind_change_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let good = Server::start(Script::default());
    ok(run(&dir.path().join("good"), &good, &[]));
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
        ok(run(&out, &bad, &["--tries", "8"]));
        assert_eq!(stable_records(&out.join(TASK)), expected, "{fault:?}");
    }
}

/// A proxy of the environment sees requests to other machines, and none to this one.
#[test]
fn a_proxy_gets_no_request_to_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let [server, proxy] = [Server::start(Script::default()), Server::start(Script::default())];
    let of_proxy = proxy.base_url.trim_end_matches("/v1");
    let port = server.base_url.rsplit(':').next().unwrap();
    let others = "http://models.invalid:8000/v1".to_owned();
    let cases =
        [(server.base_url.clone(), &server), (format!("http://localhost:{port}"), &server), (others, &proxy)];
    for (number, (base_url, asked)) in cases.into_iter().enumerate() {
        let before = [&server, &proxy].map(|server| server.requests.load(Ordering::Relaxed));
        let mut command = plain(&dir.path().join(number.to_string()), &base_url);
        command.env("http_proxy", of_proxy).env("ALL_PROXY", of_proxy);
        ok(command.args(["--tries", "1"]).env_remove("no_proxy").env_remove("NO_PROXY"));
        let after = [&server, &proxy].map(|server| server.requests.load(Ordering::Relaxed));
        let is_server = std::ptr::eq(asked, &server);
        assert_eq!([after[0] > before[0], after[1] > before[1]], [is_server, !is_server], "{base_url}");
    }
}

#[test]
fn variables_that_cannot_be_used_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Script::default());
    for (name, value, words) in [
        ("TOKIO_WORKER_THREADS", "0", "TOKIO_WORKER_THREADS: expected a number > 0, got `0`"),
        ("TOKIO_WORKER_THREADS", "many", "TOKIO_WORKER_THREADS: expected a number > 0, got `many`"),
        ("SSL_CERT_FILE", "/etc/passwd", "SSL_CERT_FILE=/etc/passwd"),
    ] {
        let mut command = plain(dir.path(), &server.base_url);
        let output = command.env_remove("SSL_CERT_DIR").env(name, value).output().unwrap();
        assert!(matches!(output.status.code(), Some(2 | 3)), "{}", text(&output));
        assert!(text(&output).contains(words), "{}", text(&output));
    }
}

#[test]
fn no_home_and_a_split_named_twice_are_no_hindrance() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Script::default());
    let mut command = common::run(&[TASK, TASK], dir.path(), &server.base_url);
    command.args(["--nframes", "8"]);
    for name in ["HOME", "HF_HOME", "PARAVT_BENCH_CACHE", "XDG_CACHE_HOME"] {
        command.env_remove(name);
    }
    let output = ok(command);
    assert_eq!(text(&output).matches("recorded 6 of 6").count(), 1, "{}", text(&output));
    let manifest = std::fs::read_to_string(dir.path().join(TASK).join("protocol.json")).unwrap();
    assert!(manifest.contains("\"name\": \"native\""), "{manifest}");
}

#[test]
fn wrong_values_of_flags_are_wrong_usage() {
    for flag in ["request-timeout", "retry-pause"] {
        for value in ["-1", "NaN", "inf", "1e300", "", "x"] {
            let run = ["run", TASK, "--out", "o", "--base-url", "http://127.0.0.1:9/v1"];
            ends(2, bench().args(run).arg(format!("--{flag}={value}")), &[&format!("--{flag}")]);
        }
    }
}

/// Another program cuts the journal while the run goes on.
#[test]
fn records_that_are_gone_at_the_end_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Script { delay: Duration::from_millis(400), ..Script::default() });
    let mut command = plain(dir.path(), &server.base_url);
    command.args(["--concurrency", "1", "--allow-partial"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let journal = dir.path().join(TASK).join("journal.jsonl");
    until("the first record", 60, || std::fs::metadata(&journal).is_ok_and(|file| file.len() > 0));
    std::fs::File::options().write(true).open(&journal).unwrap().set_len(0).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(text(&output).contains("samples are recorded: another program"), "{}", text(&output));
}

#[test]
fn a_server_that_always_fails_is_an_error_by_name_and_resumes() {
    let dir = tempfile::tempdir().unwrap();
    for (fault, class) in
        [(Fault::Server, "server"), (Fault::EmptyChoices, "malformed"), (Fault::Garbage, "malformed")]
    {
        let bad = Server::start(Script { faults: vec![Some(fault)], ..Script::default() });
        let out = dir.path().join(format!("{fault:?}"));
        ends(4, run(&out, &bad, &["--tries", "2"]), &[]);
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
        ok(run(&out, &bad, &["--tries", "1", "--resume", "--allow-partial"]));

        // Failed samples are tried again.
        let good = Server::start(Script::default());
        ok(run(&out, &good, &["--resume"]));
        assert!(stable_records(&out.join(TASK)).iter().all(|record| record.error.is_none()));
    }
}
