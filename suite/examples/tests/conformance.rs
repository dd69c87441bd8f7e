//! Upstream's own outputs against this implementation, through the program `conformance`.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The program, which Cargo builds with the tests into a folder beside theirs.
fn program() -> Command {
    let test = std::env::current_exe().unwrap();
    Command::new(test.parent().unwrap().parent().unwrap().join("examples/conformance"))
}

fn conformance(files: &[PathBuf]) -> Output {
    program().args(files).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A case file of one case, in a folder that lives as long as the caller holds it.
fn written(content: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cases.json");
    std::fs::write(&file, content).unwrap();
    (folder, file)
}

/// `oddities.json` holds random inputs (separators, scripts, half-written tags, numbers of any
/// size) with the outputs of the real functions under CPython 3.11. `pyvision_rewards.json` is written by
/// `ci/compare/pyvision_rewards.py CHECKOUT 1 200`.
#[test]
fn every_upstream_output_is_met() {
    for (name, cases) in [
        ("extraction_cases.json", 104),
        ("toolcall_cases.json", 104),
        ("reward_cases.json", 644),
        ("oddities.json", 1137),
        ("pyvision_rewards.json", 200),
    ] {
        let output = conformance(&[data(name)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        assert!(text(&output).contains(&format!("{cases} passed, 0 failed")), "{}", text(&output));
    }
}

/// `protocols.json` is written by `ci/compare/protocols CHECKOUTS --cases 16 --seed 7 --keep FILE`.
#[test]
fn every_output_of_agents_and_benchmarks_is_met() {
    let output = conformance(&[data("protocols.json")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    for function in ["conan_clips: 16", "videozoomer_calls: 16", "videomme_v2_logic: 48", "vsi_mra: 16"] {
        assert!(text(&output).contains(&format!("{function} passed, 0 failed")), "{}", text(&output));
    }
}

#[test]
fn a_function_that_is_not_there_is_named() {
    let overview = r#""conan_overview": [{"total": 1, "max": 16, "indices": [0]}]"#;
    for (list, named) in [
        (r#""conan_zoom": [{"text": "a", "indices": []}]"#, "no function `conan_zoom`"),
        (
            r#""conan_stamps": [{"fps": 1.0, "stamp": "00:00:00"}]"#,
            "no function `conan_stamps`, or none for this input",
        ),
        (
            r#""conan_stamps": [{"index": 0, "fps": 1.0}]"#,
            "no function `conan_stamps`, or none for this input",
        ),
        (r#""conan_stamps": {}"#, "no function `conan_stamps`"),
    ] {
        let (_folder, file) = written(&format!("{{{overview}, {list}}}"));
        let output = conformance(&[file]);
        assert_eq!(output.status.code(), Some(2), "{list}: {}", text(&output));
        assert!(text(&output).contains(named), "{named} in {}", text(&output));
        assert!(text(&output).contains("conan_overview: 1 passed, 0 failed"), "{}", text(&output));
    }
    let (_folder, file) = written(r#"{"about": "x", "conan_zoom": [{"text": "a"}]}"#);
    let output = conformance(&[file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("no function `conan_zoom`"), "{}", text(&output));
}

#[test]
fn a_difference_is_shown_and_ends_in_1() {
    let (_folder, file) = written(r#"[{"fn": "extract_letter", "input": "B", "output": "C"}]"#);
    let output = conformance(&[file]);
    assert_eq!(output.status.code(), Some(1));
    for part in ["extract_letter: 0 passed, 1 failed", "input    \"B\"", "expected \"C\"", "got      \"B\""] {
        assert!(text(&output).contains(part), "{part} in {}", text(&output));
    }
}

#[test]
fn nothing_is_skipped_in_silence() {
    for content in [
        r#"[{"fn": "no_such_function", "input": "B", "output": "no_such_function"}]"#,
        r#"[{"fn": "extract_letter", "input": 3, "output": null}]"#,
        r#"[{"fn": "extract_letter", "input": "B"}]"#,
        r#"{"configs": {}, "cases": [{"completion": "x", "no_such_output": 1}]}"#,
        r#"{"something": "else"}"#,
        "[]",
        "{",
    ] {
        let (_folder, file) = written(content);
        let output = conformance(&[file, data("extraction_cases.json")]);
        assert_eq!(output.status.code(), Some(2), "{content}: {}", text(&output));
        assert!(text(&output).contains("104 passed, 0 failed"), "the other file is still run");
    }
    assert_eq!(conformance(&[data("absent.json")]).status.code(), Some(2));
}

#[test]
fn case_files_may_hold_nan_and_infinity_as_python_writes_them() {
    let (_folder, file) = written(
        r#"[{"fn": "parse_time_val", "input": NaN, "output": NaN},
            {"fn": "parse_time_val", "input": 1e400, "output": "inf"},
            {"fn": "extract_letter", "input": "\ud800 B", "output": "B"}]"#,
    );
    let output = conformance(&[file]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn prompt_hashes_ask_for_the_import() {
    let empty = tempfile::tempdir().unwrap();
    let output =
        program().env("PARAVT_BENCH_CACHE", empty.path()).arg(data("prompt_hashes.json")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("protocol import"), "{}", text(&output));
}
