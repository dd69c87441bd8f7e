//! `doctor --for`: what a recipe needs and what this machine lacks, as a page and as JSON.

use std::path::Path;
use std::process::Output;

use crate::common::{bench, ends, text, world};
use crate::fetch::local::{Faults, TOKEN, TestHub};

/// The command on a machine without GPUs, without a token, and with this hub.
fn doctor(home: &Path, endpoint: &str, arguments: &[&str]) -> Output {
    let mut command = bench();
    command.arg("doctor").args(arguments).current_dir(home).env("HOME", home).env("HF_ENDPOINT", endpoint);
    // Also where there is a GPU, none is seen.
    command.env("CUDA_VISIBLE_DEVICES", "");
    for name in ["HF_HOME", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "OPENAI_BASE_URL"] {
        command.env_remove(name);
    }
    command.output().unwrap()
}

#[test]
fn a_machine_without_gpus_is_a_page_and_exit_code_3() {
    let home = tempfile::tempdir().unwrap();
    let files = [("README.md", b"x".to_vec())];
    let hub = TestHub::start_as("ParaVT/ParaVT-Source", &files, Faults { gated: true, ..Faults::default() });
    let output = doctor(home.path(), &hub.endpoint, &["--for", "paravt-8b-train"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.starts_with("preflight of paravt-8b-train: "), "{page}");
    for part in ["FAIL  GPUs: 8 GPUs required\n", "ParaVT/ParaVT-Source: gated", "accept the terms"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("panicked") && !page.contains("backtrace"), "{page}");
    let long: Vec<&str> = page.lines().filter(|line| line.chars().count() > 80).collect();
    // Addresses and paths are not broken.
    assert!(long.iter().all(|line| line.split_whitespace().any(|word| word.len() > 40)), "{long:#?}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "nothing is written");

    let output = doctor(home.path(), &hub.endpoint, &["--for", "paravt-8b-train", "--json"]);
    assert_eq!(output.status.code(), Some(3));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["level"], "refuse");
    let first = &report["findings"][0];
    assert_eq!(first["item"], "GPUs");
    assert!(["found", "how", "needed", "remedy"].iter().all(|field| first[field].is_string()), "{first}");
    assert!(!text(&output).contains(TOKEN));
}

#[test]
fn data_that_are_here_and_a_server_elsewhere_need_nothing() {
    let home = tempfile::tempdir().unwrap();
    // Nobody listens: nothing may be asked.
    let nowhere = "http://127.0.0.1:9";
    let data = world().to_str().unwrap();
    for recipe in [&["paravt-8b", "--engine", "candle", "--model", ".", "--data", data][..], &["paravt-nano"]]
    {
        let output = doctor(home.path(), nowhere, &[&["--json", "--for"], recipe].concat());
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap();
        // How full the disk of this machine is, is its own affair; no other item may refuse.
        let refused: Vec<_> = findings
            .iter()
            .filter(|finding| finding["level"] == "refuse" && finding["item"] != "disk")
            .collect();
        assert!(refused.is_empty(), "{refused:#?}");
        let full = findings.iter().any(|finding| finding["level"] == "refuse");
        assert_eq!(output.status.code(), Some(if full { 3 } else { 0 }), "{}", text(&output));
        let is_here = text(&output).contains("here: videomme");
        assert_eq!(is_here, recipe[0] == "paravt-8b", "{}", text(&output));
    }
    let output = doctor(home.path(), nowhere, &["--for", "no-such-recipe"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}

#[test]
fn a_recipe_stops_at_its_preflight_before_anything_is_downloaded() {
    let home = tempfile::tempdir().unwrap();
    let run = |extra: &[&str], offline: bool| {
        let mut command = bench();
        command
            .args(["reproduce", "paravt-8b"])
            .args(extra)
            .current_dir(home.path())
            .env("HOME", home.path());
        command.env("HF_ENDPOINT", "http://127.0.0.1:9").env("CUDA_VISIBLE_DEVICES", "");
        for name in ["HF_HOME", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "OPENAI_BASE_URL"] {
            command.env_remove(name);
        }
        if offline {
            command.env("HF_HUB_OFFLINE", "1");
        }
        command
    };
    ends(3, run(&[], false), &["FAIL", "GPUs", "--engine candle", "--skip-preflight"]);
    assert!(!home.path().join("runs/paravt-8b/stages").exists());
    // What was refused is met on the way; the prompts are this program's, which need no import.
    let skipped = run(&["--skip-preflight", "--protocol", "native"], true);
    ends(3, skipped, &["HF_HUB_OFFLINE is 1: cannot download"]);
}
