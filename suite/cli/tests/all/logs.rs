//! Diagnostics: what `-v` shows and what the log of a run holds.

use std::path::Path;
use std::process::Command;

use crate::common::server::{Fault, Script, Server};
use crate::common::{bench, ends, ok, world};

/// The server's address and key are those of the environment.
fn run(server: &Server, out: &Path, flags: &[&str]) -> Command {
    let mut command = bench();
    command.args(["run", "lvbench", "--nframes", "8", "--tries", "2", "--retry-pause", "0.01"]).args(flags);
    let place = server.base_url.strip_prefix("http://").unwrap();
    command.env("OPENAI_BASE_URL", format!("http://me:SECRET1@{place}")).env("OPENAI_API_KEY", "sk-SECRET2");
    command.arg("--data").arg(world()).arg("--out").arg(out);
    command
}

fn log(out: &Path) -> String {
    std::fs::read_to_string(out.join("lvbench/run.log")).unwrap()
}

#[test]
fn a_run_logs_its_failures_and_shows_them_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    let failing = Server::start(Script { faults: vec![Some(Fault::Server)], ..Script::default() });
    let quiet = ends(4, run(&failing, &dir.path().join("quiet"), &[]), &[]);
    let started = "info: run started task=\"lvbench\"";
    let shown = ends(4, run(&failing, &dir.path().join("shown"), &["-v"]), &[started]);
    for out in ["quiet", "shown"] {
        let log = log(&dir.path().join(out));
        for event in
            ["info: run started", "model call failed; trying again", "sample failed", "info: run ended"]
        {
            assert!(log.contains(event), "`{event}` in {log}");
        }
        assert!(log.contains("info: sample{uid=") && !log.contains("debug: "), "{log}");
        assert!(!log.contains("SECRET") && !log.contains(dir.path().to_str().unwrap()), "{log}");
        assert!(!log.contains(world().to_str().unwrap()), "{log}");
    }
    assert!(!quiet.contains("info: "), "{quiet}");
    assert!(!shown.contains("SECRET"), "{shown}");
}

#[test]
fn details_are_logged_on_demand_and_a_resumed_run_goes_on_in_the_same_log() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Script::default());
    ok(run(&server, dir.path(), &["-vv"]));
    let first = log(dir.path());
    assert!(first.contains("model call answered") && first.contains("debug: sample answered"), "{first}");
    ok(run(&server, dir.path(), &["--resume"]));
    let both = log(dir.path());
    assert!(both.starts_with(&first) && both[first.len()..].contains("info: run resumed"), "{both}");
}
