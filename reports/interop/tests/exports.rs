//! What an export writes, and the dataset and results for the hub as its libraries read them.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use paravt_interop::export::{ExportError, Exported, Format, Options, export};
use paravt_reports::{Run, Training};
use paravt_suite::data::HubSource;
use paravt_suite::fixtures::{self, record};
use paravt_suite::record::{Record, SampleErrorClass};
use paravt_suite::run::{Manifest, Selection, Sizes};
use paravt_suite::task::TaskSpec;

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
