//! What an export writes, and the dataset and results for the hub as its libraries read them.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use paravt_interop::export::{ExportError, Exported, Format, Options, export};
use paravt_reports::{Run, Training};
use paravt_suite::data::HubSource;
use paravt_suite::fixtures::{self, record};
use paravt_suite::profile::Profile;
use paravt_suite::record::{Record, SampleErrorClass, ToolCall, ToolOutcome};
use paravt_suite::run::{Manifest, Selection, Sizes};
use paravt_suite::task::TaskSpec;
use serde_json::{Value, json};

/// A run of a whole published split of three samples, two of them right.
fn run() -> Run {
    let hub = HubSource { repos: vec!["lab/rows".into()], ..fixtures::task_spec().hub };
    let records: Vec<Record> =
        ["a", "b", "c"].iter().enumerate().map(|(row, uid)| of_row(row, uid)).collect();
    let sizes = Sizes { expected: 3, ..Sizes::default() };
    let mut manifest = Manifest {
        task: TaskSpec { hub, ..fixtures::task_spec() },
        selection: Selection { split_rows: 3, sizes, ..fixtures::manifest().selection },
        started_at: 1_700_000_000.25,
        ended_at: Some(1_700_000_060.0),
        ..fixtures::manifest()
    };
    manifest.backend.model = "org/model".into();
    Run { path: "made_up".into(), manifest, records, torn_bytes: 0, training: Training::default() }
}

fn of_row(row: usize, uid: &str) -> Record {
    let mut record = record(uid, if row < 2 { 1.0 } else { 0.0 });
    record.sample.task = "made_up".into();
    record.sample.row = row;
    record.transcript.final_text = "<answer>B</answer>".into();
    record
}

/// The run with its last sample failed.
fn failed() -> Run {
    let mut run = run();
    let last = run.records.pop().unwrap();
    run.records.push(fixtures::failed(last, SampleErrorClass::Api));
    run.records[2].transcript.final_text = String::new();
    run
}

fn exported(run: Run, format: Format, dir: &Path) -> Result<Exported, ExportError> {
    export(&[run], Options { format, model: None, frames: None }, dir)
}

#[test]
fn two_exports_of_a_run_are_the_same_bytes() {
    for format in Format::ALL {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let one = exported(run(), format, first.path()).unwrap();
        let other = exported(run(), format, second.path()).unwrap();
        assert!(!one.files.is_empty());
        for (a, b) in one.files.iter().zip(&other.files) {
            assert_eq!(a.strip_prefix(first.path()).unwrap(), b.strip_prefix(second.path()).unwrap());
            assert!(std::fs::read(a).unwrap() == std::fs::read(b).unwrap(), "{}", a.display());
        }
    }
}

#[test]
fn a_failed_sample_is_left_out_where_there_is_no_field_for_errors() {
    for (format, ending, lines) in
        [(Format::LmmsEval, ".jsonl", 2), (Format::LmEval, ".jsonl", 2), (Format::VlmEvalKit, ".tsv", 3)]
    {
        let dir = tempfile::tempdir().unwrap();
        let written = exported(failed(), format, dir.path()).unwrap();
        assert_eq!(
            written.notes,
            ["made_up · agentic_general · org/model: of 3 samples left out: 1 without an answer"]
        );
        let file = written.files.iter().find(|file| file.to_str().unwrap().ends_with(ending)).unwrap();
        // A table has a header; its quoted texts hold line breaks, which begin no row of digits.
        let text = std::fs::read_to_string(file).unwrap();
        let rows =
            text.lines().filter(|line| line.starts_with(['{', '0', '1', '2']) || line.contains("\"index\""));
        assert_eq!(rows.count(), lines, "{text}");
    }
}

#[test]
fn two_runs_of_one_file_name_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { format: Format::LmmsEval, model: None, frames: None };
    let error = export(&[run(), run()], options, dir.path()).unwrap_err();
    assert!(error.to_string().contains("two of the runs would be written to this file"), "{error}");
}

#[test]
fn the_hub_gets_whole_runs_only() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |change: fn(&mut Run)| {
        let mut run = run();
        change(&mut run);
        exported(run, Format::Hf, dir.path()).unwrap_err().to_string()
    };
    for (change, words) in [
        ((|run| *run = failed()) as fn(&mut Run), "1 sample failed"),
        (|run| run.records.truncate(2), "2 of 3 samples are recorded"),
        (|run| run.manifest.selection.split_rows = 9, "3 of the 9 samples of the split"),
        (
            |run| (run.manifest.task.expected_rows, run.manifest.task.paper_rows) = (9, 9),
            "the published split 9",
        ),
        (|run| run.manifest.task.hub.repos.clear(), "names no dataset of the hub"),
        (|run| run.manifest.backend.model = "model".into(), "--model ORG/NAME"),
        (|run| run.manifest.plan.rules = Profile::Release.into(), "profile `release`"),
    ] {
        let message = refused(change);
        assert!(message.contains(words), "{words}: {message}");
    }
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing is written");
}

#[test]
fn commands_to_publish_are_quoted() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("a b");
    let mut run = run();
    run.manifest.backend.model = "o/n$(touch x); y".into();
    let written = exported(run, Format::Hf, &out).unwrap();
    for command in &written.commands {
        // A shell takes each word as it is meant.
        let shell = Command::new("sh").arg("-c").arg(format!("printf '%s\\n' {command}")).output().unwrap();
        let words = String::from_utf8(shell.stdout).unwrap();
        let words: Vec<&str> = words.lines().collect();
        assert!(words[2].starts_with("o/n$(touch x); y"), "{words:?}");
        assert!(Path::new(words[3]).starts_with(&out) && Path::new(words[3]).is_dir(), "{words:?}");
    }
}

mod readers {
    use super::*;

    /// What a tool finds in a folder.
    fn read_back(tool: &str, folder: &Path) -> Value {
        let python = std::env::var("PARAVT_READER").expect("PARAVT_READER is not set: run ci/exports");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/read_back.py");
        let output = Command::new(python).arg(script).arg(tool).arg(folder).output().unwrap();
        assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    #[test]
    #[ignore = "needs other harnesses: run by ci/exports"]
    fn the_hub_reads_results_and_dataset() {
        let dir = tempfile::tempdir().unwrap();
        let mut run = run();
        run.manifest.data_revision = Some("abc123".into());
        run.records[0].transcript.tool_calls = vec![ToolCall {
            turn: 0,
            index: 0,
            call: json!({ "name": "crop_video" }),
            start: Some(1.0),
            end: Some(2.0),
            outcome: ToolOutcome::CropFailed { reason: "made up".into() },
        }];
        let written = exported(run, Format::Hf, dir.path()).unwrap();
        assert!(written.commands[0].starts_with("hf upload org/model "), "{:?}", written.commands);
        let facts = read_back("hf", dir.path());
        let result = &facts["results"]["made_up_with_tools.yaml"];
        assert_eq!(
            (result["dataset"].as_str(), result["task"].as_str()),
            (Some("lab/rows"), Some("made_up"))
        );
        assert_eq!((result["value"].as_f64(), result["notes"].as_str()), (Some(66.67), Some("With tools")));
        let samples = &facts["tables"]["samples"];
        assert_eq!(samples["rows"], 3);
        assert!((samples["mean"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(facts["tables"]["calls"]["rows"], 1);
        let without = tempfile::tempdir().unwrap();
        exported(super::run(), Format::Hf, without.path()).unwrap();
        assert!(
            read_back("hf", without.path())["tables"].get("calls").is_none(),
            "a table without rows is left out"
        );
    }
}
