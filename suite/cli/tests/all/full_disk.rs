//! A disk that fills up in the middle of a run or a recipe, or that is too small for a download.
//!
//! The disk is a tmpfs of a given size in a mount namespace of its own (util-linux `unshare`).

use std::path::Path;
use std::process::Command;

use crate::common::recipes::{self, stage};
use crate::common::server::{Script, Server};
use crate::common::{bench, ends, ok, stable_records, world};
use crate::fetch::local::{Faults, TOKEN, TestHub};
use crate::fetch::lvbench;

/// Runs a command line in `dir`, whose folder `small` is a disk of this size; what it left there is then in `kept`.
fn on_small_disk(dir: &Path, size: &str, line: &str) -> Command {
    for folder in ["small", "kept"] {
        std::fs::create_dir_all(dir.join(folder)).unwrap();
    }
    let script = format!(
        "mount -t tmpfs -o size={size} none small && {bench} {line}; status=$?; cp -r small/. kept; exit $status",
        bench = env!("CARGO_BIN_EXE_paravt-bench"),
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).current_dir(dir);
    command
}

#[test]
#[ignore = "needs user namespaces: run by ci/test"]
fn a_disk_that_fills_up_stops_the_run_and_loses_nothing() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let line = format!(
        "run lvbench --protocol native --nframes 16 --concurrency 1 --base-url {} --data {}",
        server.base_url,
        world().display()
    );
    // Room for the manifest and a few records.
    let full = on_small_disk(dir.path(), "44k", &format!("{line} --out small"));
    ends(4, full, &["disk is full", "continue with --resume"]);
    let run = dir.path().join("kept/lvbench");
    let saved = stable_records(&run);

    let mut resumed = bench();
    resumed.args(line.split(' ')).args(["--out", "kept", "--resume"]).current_dir(dir.path());
    ok(resumed);
    let all = stable_records(&run);
    assert!(!saved.is_empty() && saved.len() < all.len(), "{} of {}", saved.len(), all.len());
    for record in &saved {
        assert!(all.contains(record), "{}", record.sample.uid);
    }
}

#[test]
#[ignore = "needs user namespaces: run by ci/test"]
fn a_disk_that_fills_up_stops_a_recipe_which_the_same_command_finishes() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let recipe = recipes::served("m", "engine = \"vllm\"");
    std::fs::write(dir.path().join("small.toml"), recipe).unwrap();
    let line = format!(
        "reproduce small.toml --protocol native --concurrency 1 --base-url {} --data {}",
        server.base_url,
        world().display()
    );
    // Full at the start: a page for the description of the recipe alone.
    let full = on_small_disk(dir.path(), "4k", &format!("{line} --out small/full"));
    ends(3, full, &["free some space, then repeat the command"]);
    // Room for one or two of the evaluations.
    let full = on_small_disk(dir.path(), "80k", &format!("{line} --out small/out"));
    let said = ends(4, full, &["No space left", "repeat the command"]);
    assert!(!said.contains("--resume"), "{said}");
    let out = dir.path().join("kept/out");
    assert!(stage(&out, "with-tool-mlvu").is_some(), "{said}");
    assert!(stage(&out, "no-tool-charades").is_none(), "the next evaluations are not begun: {said}");

    let mut again = bench();
    again.args(line.split(' ')).args(["--out", "kept/out"]).current_dir(dir.path());
    ok(again);
    assert!(stage(&out, "no-tool-charades").is_some() && out.join("report/index.html").is_file());
}

#[test]
#[ignore = "needs user namespaces: run by ci/test"]
fn a_disk_too_small_for_a_download_is_described_with_the_flags_of_the_command() {
    let hub = TestHub::start_as("lmms-eval/LVBench", &lvbench(&[]), Faults::default());
    let dir = tempfile::tempdir().unwrap();
    let recipe = "extends = \"served\"\nname = \"small\"\ntitle = \"small\"\nmodel = \"m\"\nfetch.enabled = true\n\
                  [serve]\nengine = \"vllm\"\n[evaluate]\nmode = \"native\"\n[matrix]\nsplit = [\"lvbench\"]\n";
    std::fs::write(dir.path().join("small.toml"), recipe).unwrap();
    let recipe =
        "reproduce small.toml --protocol native --base-url http://127.0.0.1:9/v1 --hf-home small --out out";
    for (line, flags, others) in [
        (
            "data fetch lvbench --dir small",
            "name another folder with --dir, or add --delete-archives",
            "--hf-home",
        ),
        (recipe, "name another folder with --hf-home or --data, or add --delete-archives", "--dir"),
    ] {
        let mut command = on_small_disk(dir.path(), "3m", line);
        command.env("HF_ENDPOINT", &hub.endpoint).env("HF_TOKEN", TOKEN).env_remove("HF_HUB_OFFLINE");
        command.env("HOME", dir.path());
        let said = ends(3, command, &["a reserve of 16.8 MB, 3.1 MB free", flags]);
        assert!(!said.contains(others), "{said}");
    }
}
