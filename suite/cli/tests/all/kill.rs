//! A run that is killed at any moment ends, after `--resume`, with the records of an uninterrupted one.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::server::{Script, Server};
use crate::common::{self, ends, files, ok, stable_records, until};

const KILLS: u64 = 20;
const TASK: &str = "lvbench";

pub(crate) fn run(out: &Path, server: &Server, resume: bool) -> std::process::Command {
    let mut command = common::run(&[TASK], out, &server.base_url);
    command.args(["--profile", "strict", "--nframes", "16", "--concurrency", "2"]);
    command.args(resume.then_some("--resume"));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

#[test]
fn sigkill_at_random_moments_loses_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Script { delay: Duration::from_millis(20), ..Script::default() });

    let undisturbed = dir.path().join("undisturbed");
    ok(run(&undisturbed, &server, false));
    let expected = stable_records(&undisturbed.join(TASK));
    assert!(expected.len() >= 6, "a run worth killing");

    let killed = dir.path().join("killed");
    let mut finished_early = 0;
    for kill in 0..KILLS {
        let mut child = run(&killed, &server, true).spawn().unwrap();
        // 10 to 400 ms in steps that share no factor with anything in the run.
        std::thread::sleep(Duration::from_millis(10 + kill * 97 % 391));
        if child.try_wait().unwrap().is_some() {
            finished_early += 1;
        }
        let _ = child.kill();
        child.wait().unwrap();
        if kill % 5 == 4 {
            // What a power cut in the middle of a write leaves behind.
            tear(&killed.join(TASK).join("journal.jsonl"));
        }
    }
    assert!(finished_early < KILLS, "no kill hit a running process");
    ok(run(&killed, &server, true));
    assert_eq!(stable_records(&killed.join(TASK)), expected);
    let summary = |run: &Path| std::fs::read_to_string(run.join(TASK).join("summary.json")).unwrap();
    assert_eq!(without_times(&summary(&killed)), without_times(&summary(&undisturbed)));
}

#[test]
fn a_report_that_was_killed_leaves_nothing_beside_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Script::default());
    let (runs, out) = (dir.path().join("runs"), dir.path().join("out"));
    ok(run(&runs, &server, false));
    let report = || {
        let mut command = common::bench();
        command.arg("report").arg(&runs).arg("-o").arg(&out).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let began = std::time::Instant::now();
    ok(report());
    let whole = files(&out);
    // Over the second half of its time, when it writes.
    let time = began.elapsed();
    for kill in 0..KILLS {
        let mut child = report().spawn().unwrap();
        std::thread::sleep(time.mul_f64(0.5 + 0.5 * kill as f64 / KILLS as f64));
        let _ = child.kill();
        child.wait().unwrap();
    }
    // And one that was certainly hit.
    std::fs::write(out.join("report.json.paravt-part"), "{").unwrap();
    ok(report());
    assert_eq!(files(&out), whole);
}

fn tear(journal: &Path) {
    let Ok(bytes) = std::fs::read(journal) else { return };
    if bytes.len() > 40 {
        std::fs::write(journal, &bytes[..bytes.len() - 30]).unwrap();
    }
}

/// A summary without its measured seconds.
fn without_times(summary: &str) -> String {
    summary.lines().filter(|line| !line.contains("seconds")).collect::<Vec<_>>().join("\n")
}

#[test]
fn two_processes_cannot_write_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Script { delay: Duration::from_millis(500), ..Script::default() });
    let mut first = run(dir.path(), &server, true).spawn().unwrap();
    let manifest = dir.path().join(TASK).join("manifest.json");
    until("the first one writes", 60, || manifest.exists());
    ends(3, run(dir.path(), &server, true), &["another process is writing this run"]);
    first.kill().unwrap();
    first.wait().unwrap();
}
