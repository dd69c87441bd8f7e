//! Ctrl-C: samples in flight finish, no other starts, and `--resume` goes on as if nothing had been.

use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::kill::run;
use crate::common::server::{Fault, Script, Server};
use crate::common::{ok, stable_records, text, until};

const TASK: &str = "lvbench";

fn interrupt(child: &Child) {
    ok(Command::new("kill").args(["-INT", &child.id().to_string()]));
}

#[test]
fn samples_in_flight_finish_and_resume_ends_like_an_undisturbed_run() {
    let dir = tempfile::tempdir().unwrap();
    let script = Script { delay: Duration::from_millis(300), ..Script::default() };
    let server = Server::start(script.clone());
    let undisturbed = dir.path().join("undisturbed");
    ok(run(&undisturbed, &server, false));
    let expected = stable_records(&undisturbed.join(TASK));
    let all_requests = server.requests.load(Ordering::Relaxed);

    let server = Server::start(script);
    let stopped = dir.path().join("stopped");
    let child = run(&stopped, &server, false).spawn().unwrap();
    let journal = stopped.join(TASK).join("journal.jsonl");
    until("the first record", 60, || std::fs::metadata(&journal).is_ok_and(|file| file.len() > 0));
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(text(&output).contains("--resume"), "{}", text(&output));

    let finished = stable_records(&stopped.join(TASK));
    assert!(!finished.is_empty() && finished.len() < expected.len(), "{} finished", finished.len());
    for record in &finished {
        assert!(record.error.is_none());
        assert!(expected.contains(record), "{} is not as in the undisturbed run", record.sample.uid);
    }
    let asked = server.requests.load(Ordering::Relaxed);
    let recorded: usize = finished.iter().map(|record| record.transcript.calls.len()).sum();
    assert_eq!(asked, recorded, "every request that was sent is in a finished record");

    ok(run(&stopped, &server, true));
    assert_eq!(stable_records(&stopped.join(TASK)), expected);
    assert_eq!(server.requests.load(Ordering::Relaxed), all_requests, "nothing is asked twice");
}

#[test]
fn a_second_interrupt_ends_the_process_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Script { faults: vec![Some(Fault::Hang)], ..Script::default() });
    let mut child = run(dir.path(), &server, false).spawn().unwrap();
    until("a request in flight", 60, || server.requests.load(Ordering::Relaxed) > 0);
    interrupt(&child);
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "the first one waits");
    interrupt(&child);
    let started = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
}
