//! `data fetch` against a hub on this machine: what it leaves is what the other commands read.

#[path = "../../../../reproduce/fetch/tests/all/common/mod.rs"]
pub(crate) mod local;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

use crate::common::{bench, ends, ok, text, world};
use local::{COMMIT, Faults, TOKEN, TestHub, ZipMember, noise, zip};

const ROWS: &str = "data/train-00000-of-00001.parquet";

/// The generated LVBench as it is published: rows, and archives of which all but two are empty.
pub(crate) fn lvbench(extra: &[ZipMember<'_>]) -> Vec<(&'static str, Vec<u8>)> {
    let read =
        |path: PathBuf| std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let snapshots = world().join("hub/datasets--lmms-eval--LVBench/snapshots");
    let rows = std::fs::read_dir(snapshots).unwrap().next().unwrap().unwrap().path().join(ROWS);
    let videos: Vec<Vec<u8>> =
        (0..3).map(|at| read(world().join(format!("lvbench/nanoLV_{at}.mp4")))).collect();
    let mut files = vec![(ROWS, read(rows))];
    for part in 1..=14 {
        let name: &'static str =
            Box::leak(format!("video_chunks/videos_chunk_{part:03}.zip").into_boxed_str());
        let members = match part {
            1 => vec![ZipMember::new("all_videos/nanoLV_0.mp4", &videos[0])],
            9 => vec![ZipMember::new("nanoLV_1.mp4", &videos[1]), ZipMember::new("nanoLV_2.mp4", &videos[2])],
            _ => vec![ZipMember::new("readme.txt", b"nothing here")],
        };
        files.push((name, zip(&members)));
    }
    if !extra.is_empty() {
        let members: Vec<ZipMember<'_>> = extra.iter().map(|member| ZipMember { ..*member }).collect();
        files.last_mut().unwrap().1 = zip(&members);
    }
    files
}

pub(crate) fn fetch(hub: &TestHub, dir: &Path, arguments: &[&str]) -> Command {
    let mut command = bench();
    command.args(["data", "fetch"]).args(arguments).arg("--dir").arg(dir).env("HF_ENDPOINT", &hub.endpoint);
    // No token of this machine.
    command.env("HOME", dir).env_remove("HF_TOKEN").env_remove("HF_TOKEN_PATH").env_remove("HF_HUB_OFFLINE");
    command
}

fn findings(dir: &Path, task: &str) -> serde_json::Value {
    let output = bench().args(["data", "check", task, "--json", "--data"]).arg(dir).output().unwrap();
    serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()[0].take()
}

#[test]
fn a_split_is_fetched_where_the_other_commands_find_it() {
    let hub = TestHub::start_as("lmms-eval/LVBench", &lvbench(&[]), Faults::default());
    let dir = tempfile::tempdir().unwrap();
    ends(0, fetch(&hub, dir.path(), &["lvbench", "--dry-run"]), &["videos_chunk_009.zip", COMMIT]);
    assert_eq!(hub.served.reads.load(Ordering::SeqCst), 0, "a plan downloads nothing");

    // The generated rows are fewer than the published ones, and it says so.
    let fetched = fetch(&hub, dir.path(), &["lvbench", "--jobs", "3", "--delete-archives"]);
    ends(1, fetched, &["6 of 1549 published rows"]);
    let check = findings(dir.path(), "lvbench");
    assert_eq!((&check["rows"], &check["videos"]), (&6.into(), &3.into()), "{check}");
    assert_eq!(check["missing_videos"], serde_json::json!([]));
    assert_eq!(check["unreadable_videos"], serde_json::json!([]));
    assert_eq!(check["revision"], COMMIT);
    for at in 0..3 {
        let name = format!("lvbench/nanoLV_{at}.mp4");
        assert!(
            std::fs::read(dir.path().join(&name)).unwrap() == std::fs::read(world().join(&name)).unwrap()
        );
    }
    let reads = hub.served.reads.load(Ordering::SeqCst);
    ends(1, fetch(&hub, dir.path(), &["lvbench"]), &[]);
    assert_eq!(hub.served.reads.load(Ordering::SeqCst), reads, "everything is there");
}

#[test]
fn refused_members_are_named_and_the_exit_code_says_so() {
    let attack = [ZipMember::new("../../escaped.mp4", b"x"), ZipMember::new("fine.mp4", b"y")];
    let hub = TestHub::start_as("lmms-eval/LVBench", &lvbench(&attack), Faults::default());
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a/b");
    let said = "refused: ../../escaped.mp4 in video_chunks/videos_chunk_014.zip";
    ends(1, fetch(&hub, &root, &["lvbench", "--only", "videos"]), &[said]);
    assert!(root.join("lvbench/fine.mp4").is_file() && root.join("lvbench/nanoLV_2.mp4").is_file());
    let outside: Vec<_> = [dir.path().to_owned(), dir.path().join("a")]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(outside, ["a", "b"]);
}

#[test]
fn exit_codes_and_messages_say_what_to_do() {
    let hub =
        TestHub::start_as("lmms-eval/LVBench", &lvbench(&[]), Faults { gated: true, ..Faults::default() });
    let dir = tempfile::tempdir().unwrap();
    let code = |arguments: &[&str], code: i32, words: &[&str]| {
        let said = ends(code, fetch(&hub, dir.path(), arguments), words);
        assert!(!said.contains(TOKEN) && !said.contains("Signature"), "{said}");
    };
    code(&["lvbench"], 3, &["/datasets/lmms-eval/LVBench", "HF_TOKEN"]);
    code(&["lvbench", "--revision", "v9"], 2, &["no such revision"]);
    code(&["model:tiny/none"], 2, &["no such repository"]);
    code(&["model:none"], 2, &["model:OWNER/NAME"]);
    code(&["lvbensh"], 2, &["did you mean `lvbench`"]);
    code(&["lvbench", "mlvu", "--revision", "v1"], 2, &["--revision"]);
    code(&["lvbench", "--jobs", "0"], 2, &["--jobs"]);
    code(&["mlvu"], 2, &["sy1998/MLVU_dev"]);
    let mut offline = bench();
    offline.args(["data", "fetch", "lvbench"]).env("HF_HUB_OFFLINE", "1").env("HF_HOME", dir.path());
    ends(3, offline, &[]);
}

#[test]
fn a_model_is_fetched_with_the_token_of_the_environment() {
    let files = [("config.json", b"{}".to_vec()), ("model.safetensors", noise(70_000, 1))];
    let faults = Faults { gated: true, accepted: true, ..Faults::default() };
    let hub = TestHub::start(&files, faults);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), format!("{TOKEN}\n")).unwrap();
    ok(fetch(&hub, dir.path(), &["model:tiny/bench"]));
    let snapshot = dir.path().join("hub/models--tiny--bench/snapshots").join(COMMIT);
    assert!(std::fs::read(snapshot.join("model.safetensors")).unwrap() == files[1].1);
    assert_eq!(hub.served.leaked.load(Ordering::SeqCst), 0);
}

#[test]
fn check_names_the_command_that_fetches_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let output =
        bench().args(["data", "check", "mlvu", "lvbench", "--data"]).arg(dir.path()).output().unwrap();
    let command = format!("paravt-bench data fetch mlvu lvbench --dir {}", dir.path().display());
    assert!(String::from_utf8_lossy(&output.stderr).contains(&command), "{}", text(&output));
}
