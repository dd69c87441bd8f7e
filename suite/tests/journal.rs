//! The run directory: torn lines, damaged lines, locks, a full disk.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_suite::backend::BackendInfo;
use paravt_suite::journal::{self, JOURNAL, Journal, JournalError};
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{PromptMode, Source};
use paravt_suite::record::{Measured, Outcome, RECORD_VERSION, Record, Score, Transcript};
use paravt_suite::run::{Channel, CropMode, Host, Manifest, RUN_VERSION, RunPlan, Selection};
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::settings::{RequestSettings, ToolDialect};
use paravt_suite::task::{HubSource, Metric, TaskSpec};

fn manifest() -> Manifest {
    Manifest {
        version: RUN_VERSION,
        binary: "test".into(),
        command: vec![],
        task: TaskSpec {
            name: "made_up".into(),
            title: "Made up".into(),
            hub: HubSource {
                repos: vec![],
                config: None,
                split: "test".into(),
                revision: None,
                annotations: "rows.parquet".into(),
                media: vec![],
                license: "none".into(),
                gated: false,
            },
            expected_rows: 3,
            paper_rows: 3,
            expected_videos: 1,
            metric: Metric::Accuracy { macro_over: None },
            breakdowns: vec![],
        },
        plan: RunPlan {
            profile: Profile::Strict,
            switches: Profile::Strict.switches(),
            mode: PromptMode::Native,
            channel: Channel::Image,
            nframes: 8,
            max_turns: 3,
            max_parallel: 5,
            crop: CropMode::Frames,
            max_tokens: 64,
            temperature: 0.0,
            seed: None,
            dialect: ToolDialect::Text,
            request: RequestSettings::default(),
        },
        protocol_hash: "p".into(),
        protocol: "native".into(),
        protocol_source: Source {
            repository: "paravt-bench".into(),
            commit: "0".into(),
            files: BTreeMap::new(),
            pinned: true,
        },
        data: BTreeMap::from([("rows.parquet".into(), "d".into())]),
        data_revision: None,
        backend: BackendInfo { name: "none".into(), model: "m".into(), details: BTreeMap::new() },
        label: None,
        paper_row: None,
        selection: Selection {
            split_rows: 3,
            expected: 3,
            limit: None,
            ids: None,
            shard: None,
            open_ended: 0,
            groups: BTreeMap::new(),
        },
        host: Host { platform: "test".into(), cores: 1, gpus: None, ffmpeg: "0".into() },
        started_at: 1.0,
        ended_at: None,
    }
}

fn record(row: usize, value: f64) -> Record {
    Record {
        version: RECORD_VERSION,
        profile: Profile::Strict,
        protocol: "p".into(),
        sample: Sample {
            task: "made_up".into(),
            uid: format!("q{row}"),
            id: format!("q{row}"),
            row,
            video: PathBuf::from("v.mp4"),
            question: Question::default(),
            gold: Gold::Choice { answer: "A".into() },
            tags: Tags::new(),
            evidence: None,
            flags: vec![],
        },
        transcript: Transcript { final_text: "line one\nline \u{2028} two".into(), ..Transcript::default() },
        score: Score { outcome: Outcome::Scored, value, prediction: Some("A".into()), rule: None },
        error: None,
        measured: Measured::default(),
    }
}

#[test]
fn records_come_back_by_row_and_the_last_one_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(dir.path(), &manifest()).unwrap();
    journal.append(&[record(2, 0.0), record(0, 1.0)]).unwrap();
    journal.append(&[record(2, 1.0)]).unwrap();
    let contents = journal::read(dir.path()).unwrap();
    assert_eq!(contents.records, vec![record(0, 1.0), record(2, 1.0)]);
    assert_eq!(contents.torn_bytes, 0);
}

#[test]
fn a_journal_cut_anywhere_keeps_every_whole_record() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(dir.path(), &manifest()).unwrap();
    journal.append(&[record(0, 1.0), record(1, 0.0)]).unwrap();
    drop(journal);
    let path = dir.path().join(JOURNAL);
    let whole = std::fs::read(&path).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let (mut journal, _, contents) = Journal::resume(dir.path(), &manifest()).unwrap();
        assert_eq!(contents.records.len(), usize::from(length >= first), "cut at {length}");
        journal.append(&[record(2, 1.0)]).unwrap();
        drop(journal);
        let again = journal::read(dir.path()).unwrap();
        assert_eq!(again.records.last(), Some(&record(2, 1.0)), "cut at {length}");
        assert_eq!(again.torn_bytes, 0);
    }
}

#[test]
fn damage_before_the_end_is_named_by_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(dir.path(), &manifest()).unwrap();
    journal.append(&[record(0, 1.0), record(1, 0.0)]).unwrap();
    drop(journal);
    let path = dir.path().join(JOURNAL);
    let text = std::fs::read_to_string(&path).unwrap().replacen("\"version\"", "\"vers", 1);
    std::fs::write(&path, text).unwrap();
    let error = Journal::resume(dir.path(), &manifest()).unwrap_err();
    assert!(matches!(error, JournalError::Damaged { line: 1, .. }), "{error}");
}

#[test]
fn one_writer_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::create(dir.path(), &manifest()).unwrap();
    assert!(matches!(Journal::resume(dir.path(), &manifest()), Err(JournalError::Locked { .. })));
    drop(journal);
    assert!(matches!(Journal::create(dir.path(), &manifest()), Err(JournalError::Exists { .. })));
    let mut other = manifest();
    other.plan.nframes = 16;
    other.backend.model = "n".into();
    let error = Journal::resume(dir.path(), &other).unwrap_err().to_string();
    assert!(error.contains("nframes was 8, now 16") && error.contains("model was m, now n"), "{error}");
}

/// A journal on a device that is always full: nothing is lost, and the message says what to do.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_said_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(Path::new("/dev/full"), dir.path().join(JOURNAL)).unwrap();
    let mut journal = Journal::create(dir.path(), &manifest()).unwrap();
    let error = journal.append(&[record(0, 1.0)]).unwrap_err().to_string();
    assert!(error.contains("disk is full") && error.contains("--resume"), "{error}");
}
