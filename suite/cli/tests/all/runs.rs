//! What a user does with runs: all splits, shards and merge, replay, dry run, a full disk.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use crate::common::server::{Script, Server};
use crate::common::{self, SPLITS, bench, imported, ok, stable_records, text, world};
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
        let output =
            run(&["all"], dir.path(), &server.base_url).args(["--profile", profile]).output().unwrap();
        assert!(output.status.success(), "{profile}: {}", text(&output));
        for split in SPLITS {
            let records = stable_records(&dir.path().join(split));
            assert!(!records.is_empty(), "{split}");
            assert!(records.iter().all(|record| record.profile.as_str() == profile));
        }
        let report = ok(bench().arg("report").arg(dir.path()));
        for title in ["Video-MME", "LongVideoBench", "LVBench", "MLVU", "MMVU", "Charades"] {
            assert!(text(&report).contains(title), "{title} in {}", text(&report));
        }
    }
}

#[test]
fn crops_are_of_the_samples_own_video_in_call_order() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    ok(run(&["lvbench"], dir.path(), &server.base_url));
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
fn shards_merge_into_the_undivided_run() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    assert!(run(&["mmvu"], &whole, &server.base_url).status().unwrap().success());
    let shards: Vec<_> = (1..=3).map(|shard| dir.path().join(format!("shard{shard}"))).collect();
    for (index, shard) in shards.iter().enumerate() {
        let flag = format!("{}/3", index + 1);
        ok(run(&["mmvu"], shard, &server.base_url).args(["--shard", &flag]));
    }
    let merged = dir.path().join("merged");
    let partial = bench()
        .arg("merge")
        .args(shards[..2].iter().map(|shard| shard.join("mmvu")))
        .arg("--out")
        .arg(dir.path().join("partial"))
        .output()
        .unwrap();
    assert_eq!(partial.status.code(), Some(4), "{}", text(&partial));
    ok(bench().arg("merge").args(shards.iter().map(|shard| shard.join("mmvu"))).arg("--out").arg(&merged));
    assert_eq!(stable_records(&merged), stable_records(&whole.join("mmvu")));
}

#[test]
fn a_replay_scores_again_without_a_model() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = dir.path().join("recorded");
    {
        let server = Server::start(Script::default());
        assert!(run(&["charades"], &recorded, &server.base_url).status().unwrap().success());
    }
    let replayed = dir.path().join("replayed");
    ok(bench()
        .args(["run", "charades", "--nframes", "16", "--backend", "replay", "--from"])
        .arg(&recorded)
        .arg("--data")
        .arg(world())
        .arg("--out")
        .arg(&replayed));
    assert_eq!(stable_records(&replayed.join("charades")), stable_records(&recorded.join("charades")));
    let compared = text(&bench().arg("compare").args([&recorded, &replayed]).output().unwrap());
    let line = compared.lines().find(|line| line.starts_with("charades")).unwrap();
    assert!(line.contains("no score differs") && !line.contains(" to "), "{compared}");
}

#[test]
fn a_dry_run_sends_nothing() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let output = ok(run(&["videomme_wsub"], dir.path(), &server.base_url).arg("--dry-run"));
    assert!(text(&output).contains("visual tokens"), "{}", text(&output));
    assert_eq!(server.requests.load(Ordering::Relaxed), 0);
    assert!(!dir.path().join("videomme_wsub").exists());
}

#[test]
fn a_run_of_a_few_samples_grows_to_the_whole_split_without_asking_twice() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let (grown, whole) = (dir.path().join("grown"), dir.path().join("whole"));
    let asked = |out: &Path, flags: &[&str], code: i32| {
        let before = server.requests.load(Ordering::Relaxed);
        let output = run(&["mlvu"], out, &server.base_url).args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        (server.requests.load(Ordering::Relaxed) - before, text(&output))
    };
    let once = asked(&whole, &[], 0).0;
    let (first, _) = asked(&grown, &["--limit", "2"], 0);
    let (second, _) = asked(&grown, &["--limit", "3", "--resume"], 0);
    let (sent, said) = asked(&grown, &["--limit", "2", "--resume"], 2);
    assert!(sent <= 1 && said.contains("--limit 3, now --limit 2: a run can gain samples"), "{said}");
    let (third, _) = asked(&grown, &["--resume"], 0);
    assert!(first > 1 && second > 1 && third > 1, "{first}, {second}, {third} of {once}");
    assert_eq!(stable_records(&grown.join("mlvu")), stable_records(&whole.join("mlvu")));
    let recorded = std::fs::read_to_string(grown.join("mlvu/journal.jsonl")).unwrap();
    assert_eq!(recorded.lines().count(), stable_records(&whole.join("mlvu")).len(), "no sample twice");
    let compared = bench().arg("compare").args([&whole, &grown]).output().unwrap();
    assert!(text(&compared).contains("no score differs"), "{}", text(&compared));
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
    let output =
        run(&["mlvu"], dir.path(), &server.base_url).args(["--paper-row", "ParaVT"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("no row `ParaVT`"), "{}", text(&output));
}

#[test]
fn another_plan_cannot_resume_a_run() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    assert!(run(&["mlvu"], dir.path(), &server.base_url).status().unwrap().success());
    let again = run(&["mlvu"], dir.path(), &server.base_url).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again).contains("--resume"), "{}", text(&again));
    let other =
        run(&["mlvu"], dir.path(), &server.base_url).args(["--resume", "--max-turns", "1"]).output().unwrap();
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other).contains("max_turns was 3, now 1"), "{}", text(&other));
}

#[test]
fn a_start_that_fails_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("new/run");
    let output = run(&["mlvu"], &out, "http://127.0.0.1:9/v1").args(["--tries", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(!dir.path().join("new").exists(), "{:?}", std::fs::read_dir(&out).map(Iterator::count));
    // What was there before stays.
    std::fs::create_dir_all(&out).unwrap();
    run(&["mlvu"], &out, "http://127.0.0.1:9/v1").args(["--tries", "1"]).output().unwrap();
    assert!(out.is_dir() && !out.join("mlvu").exists());
}
