//! What a user does with runs: all splits, crops and sub-agents, replay, dry run, more samples.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use crate::common::server::{Script, Server};
use crate::common::{self, SPLITS, bench, ends, imported, ok, run_again, stable_records, text};
use paravt_suite::journal;
use paravt_suite::record::{RecordedPart, ToolOutcome};

fn run(tasks: &[&str], out: &Path, base_url: &str) -> Command {
    let mut command = common::run(tasks, out, base_url);
    command.args(["--nframes", "16"]);
    command
}

#[test]
fn every_split_under_every_profile() {
    let server = Server::start(Script::default());
    for profile in ["release", "paper", "strict"] {
        let dir = tempfile::tempdir().unwrap();
        ok(run(&["all"], dir.path(), &server.base_url).args(["--profile", profile]));
        for split in SPLITS {
            let records = stable_records(&dir.path().join(split));
            assert!(!records.is_empty(), "{split}");
            assert!(records.iter().all(|record| record.profile.as_str() == profile));
        }
        let titles = ["Video-MME", "LongVideoBench", "LVBench", "MLVU", "MMVU", "Charades"];
        ends(0, bench().arg("report").arg(dir.path()), &titles);
    }
}

#[test]
fn crops_are_of_the_samples_own_video_in_call_order() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let said = ok(run(&["lvbench"], dir.path(), &server.base_url)).stdout;
    let said = String::from_utf8(said).unwrap();
    assert!(said.starts_with("lvbench: ") && said.contains(" N 6, "), "the score: {said}");
    let records = stable_records(&dir.path().join("lvbench"));
    let calls: Vec<_> = records.iter().flat_map(|record| &record.transcript.tool_calls).collect();
    assert!(calls.len() >= 4, "the scripted model calls the tool");
    for call in &calls {
        // The scripted model asks for /etc/passwd: the argument is recorded and ignored.
        assert_eq!(call.call["arguments"]["video_path"], "/etc/passwd");
        assert!(matches!(&call.outcome, ToolOutcome::Frames { frames } if !frames.is_empty()), "{call:?}");
    }
    for record in &records {
        let indices: Vec<_> =
            record.transcript.tool_calls.iter().map(|call| (call.turn, call.index)).collect();
        assert!(indices.is_sorted(), "{indices:?}");
        let images = |parts: &[RecordedPart]| {
            parts.iter().filter(|part| matches!(part, RecordedPart::Image { .. })).count()
        };
        assert_eq!(images(&record.transcript.messages[1].parts), 16);
    }
}

#[test]
fn sub_agents_write_summaries() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    ok(run(&["lvbench"], dir.path(), &server.base_url).args(["--crop", "subagent"]));
    let records = stable_records(&dir.path().join("lvbench"));
    let with_calls: Vec<_> =
        records.iter().filter(|record| !record.transcript.tool_calls.is_empty()).collect();
    assert!(!with_calls.is_empty());
    for record in with_calls {
        for (call, sub) in record.transcript.tool_calls.iter().zip(["turn0/sub0", "turn0/sub1"]) {
            let ToolOutcome::Summary { text, .. } = &call.outcome else { panic!("{call:?}") };
            let made = record.transcript.calls.iter().find(|call| call.step == sub).unwrap();
            assert_eq!(&made.text, text);
        }
    }
}

#[test]
fn a_replay_scores_again_without_a_model() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = dir.path().join("recorded");
    {
        let server = Server::start(Script::default());
        ok(run(&["charades"], &recorded, &server.base_url));
    }
    let replayed = dir.path().join("replayed");
    ok(run_again(&["charades"], &replayed, &recorded).args(["--nframes", "16"]));
    assert_eq!(stable_records(&replayed.join("charades")), stable_records(&recorded.join("charades")));
    let compared = text(&bench().arg("compare").args([&recorded, &replayed]).output().unwrap());
    let line = compared.lines().find(|line| line.starts_with("charades")).unwrap();
    assert!(line.contains("no score differs") && !line.contains(" to "), "{compared}");
}

#[test]
fn a_dry_run_sends_nothing() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    ends(0, run(&["videomme_wsub"], dir.path(), &server.base_url).arg("--dry-run"), &["visual tokens"]);
    assert_eq!(server.requests.load(Ordering::Relaxed), 0);
    assert!(!dir.path().join("videomme_wsub").exists());
}

#[test]
fn a_run_of_a_few_samples_grows_to_the_whole_split_without_asking_twice() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let (grown, whole) = (dir.path().join("grown"), dir.path().join("whole"));
    let asked = |code: i32, out: &Path, flags: &[&str], words: &[&str]| {
        let before = server.requests.load(Ordering::Relaxed);
        ends(code, run(&["mlvu"], out, &server.base_url).args(flags), words);
        server.requests.load(Ordering::Relaxed) - before
    };
    let once = asked(0, &whole, &[], &[]);
    let first = asked(0, &grown, &["--limit", "2"], &[]);
    let second = asked(0, &grown, &["--limit", "3", "--resume"], &[]);
    let words = "--limit 3, now --limit 2: a run can gain samples";
    assert!(asked(2, &grown, &["--limit", "2", "--resume"], &[words]) <= 1);
    let third = asked(0, &grown, &["--resume"], &[]);
    assert!(first > 1 && second > 1 && third > 1, "{first}, {second}, {third} of {once}");
    assert_eq!(stable_records(&grown.join("mlvu")), stable_records(&whole.join("mlvu")));
    let recorded = std::fs::read_to_string(grown.join("mlvu/journal.jsonl")).unwrap();
    assert_eq!(recorded.lines().count(), stable_records(&whole.join("mlvu")).len(), "no sample twice");
    ends(0, bench().arg("compare").args([&whole, &grown]), &["no score differs"]);
}

#[test]
fn paper_is_the_profile_of_a_published_row_alone() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let profile = |name: &str, flags: &[&str]| {
        let out = dir.path().join(name);
        let mut run = run(&["mlvu"], &out, &server.base_url);
        ok(run.env("PARAVT_BENCH_CACHE", imported()).args(["--limit", "1"]).args(flags));
        let manifest = journal::read_manifest(&out.join("mlvu")).unwrap();
        (manifest.plan.profile().as_str(), manifest.paper_row)
    };
    let row = Some("ParaVT-8B".to_owned());
    assert_eq!(profile("mine", &[]), ("strict", None));
    assert_eq!(profile("row", &["--paper-row", "ParaVT-8B"]), ("paper", row.clone()));
    assert_eq!(profile("both", &["--paper-row", "ParaVT-8B", "--profile", "strict"]), ("strict", row));
    let mut unknown = run(&["mlvu"], dir.path(), &server.base_url);
    ends(2, unknown.args(["--paper-row", "ParaVT"]), &["no row `ParaVT`"]);
}

#[test]
fn a_start_that_fails_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("new/run");
    let start = || ends(3, run(&["mlvu"], &out, "http://127.0.0.1:9/v1").args(["--tries", "1"]), &[]);
    start();
    assert!(!dir.path().join("new").exists(), "{:?}", std::fs::read_dir(&out).map(Iterator::count));
    // What was there before stays.
    std::fs::create_dir_all(&out).unwrap();
    start();
    assert!(out.is_dir() && !out.join("mlvu").exists());
}
