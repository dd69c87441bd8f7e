//! The upstream's own outputs, through the command that runs them.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use common::{bench, text};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[test]
fn every_case_passes() {
    for (name, count) in [("extraction_cases.json", 104), ("toolcall_cases.json", 104), ("reward_cases.json", 644)] {
        let output = bench().arg("conformance").arg(data(name)).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert!(text(&output).contains(&format!("{count} passed, 0 failed")), "{}", text(&output));
    }
}

#[test]
fn a_wrong_output_is_shown_and_fails() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cases.json");
    std::fs::write(&file, r#"[{"fn": "extract_letter", "input": "B", "output": "C"}]"#).unwrap();
    let output = bench().arg("conformance").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("expected \"C\""), "{}", text(&output));
}

#[test]
fn prompt_hashes_ask_for_the_import() {
    let output = bench().arg("conformance").arg(data("prompt_hashes.json")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("protocol import"), "{}", text(&output));
}
