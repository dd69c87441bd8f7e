//! `merge` joins the shards of one selection, whole or not at all.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::server::{Script, Server};
use crate::common::{self, bench, ends, ok, run_again, stable_records, text};
use paravt_suite::journal;

const TASK: &str = "videomme";

fn run(server: &Server, tasks: &[&str], out: &Path, extra: &[&str]) {
    ok(common::run(tasks, out, &server.base_url).args(["--nframes", "8"]).args(extra));
}

fn shard(server: &Server, dir: &Path, name: &str, extra: &[&str]) -> PathBuf {
    let out = dir.join(name);
    run(server, &[TASK], &out, extra);
    out.join(TASK)
}

fn merge(shards: &[&Path], out: &Path) -> Command {
    let mut command = bench();
    command.arg("merge").args(shards).arg("--out").arg(out);
    command
}

#[test]
fn a_missing_shard_is_named_and_counted_also_where_one_id_names_several_rows() {
    let (server, dir) = (Server::start(Script::default()), tempfile::tempdir().unwrap());
    let (ids, second) = (["--ids", "nanoMME_0", "--shard", "1/2"], ["--ids", "nanoMME_0", "--shard", "2/2"]);
    let first = shard(&server, dir.path(), "first", &ids);
    let alone = dir.path().join("alone");
    ends(4, merge(&[&first], &alone), &["shard 2/2 is missing", "INCOMPLETE"]);
    let summary = std::fs::read_to_string(alone.join("summary.json")).unwrap();
    assert!(summary.contains("\"complete\": false") && summary.contains("\"n_expected\": 2"), "{summary}");
    let second = shard(&server, dir.path(), "second", &second);
    let both = dir.path().join("both");
    ok(merge(&[&second, &first], &both));
    let whole = shard(&server, dir.path(), "whole", &["--ids", "nanoMME_0"]);
    assert_eq!(stable_records(&both), stable_records(&whole));
    let (merged, undivided) =
        (journal::read_manifest(&both).unwrap(), journal::read_manifest(&whole).unwrap());
    assert_eq!(merged.selection, undivided.selection);
    assert_eq!(merged.inputs, undivided.inputs);
}

#[test]
fn folders_of_shards_are_merged_split_by_split() {
    let (server, dir) = (Server::start(Script::default()), tempfile::tempdir().unwrap());
    let run = |name: &str, extra: &[&str]| {
        let out = dir.path().join(name);
        run(&server, &["lvbench", "mlvu"], &out, extra);
        out
    };
    let (first, second) = (run("first", &["--shard", "1/2"]), run("second", &["--shard", "2/2"]));
    let (whole, merged) = (run("whole", &[]), dir.path().join("merged"));
    ok(merge(&[&first, &second], &merged));
    for split in ["lvbench", "mlvu"] {
        assert_eq!(stable_records(&merged.join(split)), stable_records(&whole.join(split)), "{split}");
    }
    ends(2, merge(&[&first, &second], &merged), &["not empty; choose another --out"]);
    let other = dir.path().join("other");
    let mixed = merge(&[&first, &second.join("mlvu")], &other);
    ends(2, mixed, &["second/mlvu: one run among folders of runs"]);
    ends(4, merge(&[&first], &other), &["other/mlvu: shard 2/2 is missing"]);
    // Runs two folders down are found.
    let shown = text(&bench().arg("report").arg(dir.path()).output().unwrap());
    assert!(shown.contains("LVBench") && shown.contains("MLVU"), "{shown}");
    // Of what a folder lacks, the splits that it has are named.
    std::fs::remove_dir_all(whole.join("mlvu")).unwrap();
    let mut replay = run_again(&["mlvu"], &dir.path().join("replayed"), &whole);
    let words = "whole: no run of mlvu in this folder; it has runs of lvbench";
    ends(2, replay.args(["--nframes", "8"]), &[words]);
}

#[test]
fn shards_of_different_selections_or_models_are_refused() {
    let (server, dir) = (Server::start(Script::default()), tempfile::tempdir().unwrap());
    let first = shard(&server, dir.path(), "first", &["--limit", "2", "--shard", "1/2"]);
    for (name, extra, said) in [
        ("limit", ["--limit", "6", "--shard", "2/2"], "selection.limit was 2, now 6"),
        ("all", ["--nframes", "8", "--shard", "2/2"], "selection.limit was 2, now not set"),
        ("ids", ["--ids", "nanoMME_1", "--shard", "2/2"], "selection.ids was not set, now"),
        ("number", ["--limit", "2", "--shard", "2/3"], "shard 2 of 3, but the others are shards of 2"),
        ("twice", ["--limit", "2", "--shard", "1/2"], "shard 1/2 is given twice"),
    ] {
        let extra: Vec<&str> =
            extra.into_iter().filter(|word| name != "all" || !["--nframes", "8"].contains(word)).collect();
        let other = shard(&server, dir.path(), name, &extra);
        let out = dir.path().join(format!("merged-{name}"));
        ends(2, merge(&[&first, &other], &out), &[said]);
        assert!(!out.exists(), "{name}");
    }
    let second = shard(&server, dir.path(), "second", &["--limit", "2", "--shard", "2/2"]);
    let manifest = second.join(journal::MANIFEST);
    let good = std::fs::read_to_string(&manifest).unwrap();
    for key in ["dtype", "weights"] {
        let changed = good.replacen("\"details\": {", &format!("\"details\": {{ \"{key}\": \"other\","), 1);
        assert_ne!(changed, good);
        std::fs::write(&manifest, changed).unwrap();
        let refused = merge(&[&first, &second], &dir.path().join("merged-model"));
        ends(2, refused, &[&format!("{key} was not set, now other")]);
    }
    std::fs::write(&manifest, good).unwrap();
    ok(merge(&[&first, &second], &dir.path().join("merged")));
}

#[test]
fn the_merged_run_appears_whole_or_not_at_all() {
    let (server, dir) = (Server::start(Script::default()), tempfile::tempdir().unwrap());
    let first = shard(&server, dir.path(), "first", &["--shard", "1/2"]);
    let second = shard(&server, dir.path(), "second", &["--shard", "2/2"]);
    let said = ends(2, merge(&[&first, &second], &first), &["not empty; choose another --out"]);
    assert!(!said.contains("--resume"), "{said}");
    paravt_files::rename(&first.join(journal::PROTOCOL), &dir.path().join("aside")).unwrap();
    let out = dir.path().join("out");
    ends(2, merge(&[&first, &second], &out), &[]);
    assert!(!out.exists());
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".merge")), "{left:?}");
    paravt_files::rename(&dir.path().join("aside"), &first.join(journal::PROTOCOL)).unwrap();
    std::fs::create_dir(&out).unwrap();
    ok(merge(&[&first, &second], &out));
    ends(2, merge(&[&first, &second], &out), &[]);
}
