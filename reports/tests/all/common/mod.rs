//! A small made-up set of runs that the tests of this room share.
#![allow(dead_code, reason = "examples share it")]

pub(crate) mod simulate;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_reports::{Report, Run, Training, page};
use paravt_suite::backend::{BackendInfo, Usage};
use paravt_suite::fixtures;
use paravt_suite::plan::{Channel, RunPlan};
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{PromptMode, Source};
use paravt_suite::record::{
    Measured, ModelCall, Outcome, RECORD_VERSION, Record, SampleError, SampleErrorClass, Score, Transcript,
};
use paravt_suite::run::{Host, Manifest, Selection, Sizes};
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::task::{Breakdown, Metric, TaskSpec};

/// The longest title of the seven splits.
pub(crate) const LONGEST_TITLE: &str = "Video-MME (w/o subtitles)";

/// A split with one breakdown.
pub(crate) fn spec(name: &str, title: &str, metric: Metric, rows: usize) -> TaskSpec {
    TaskSpec {
        name: name.into(),
        title: title.into(),
        expected_rows: rows,
        paper_rows: rows,
        expected_videos: rows,
        metric,
        breakdowns: vec![Breakdown {
            tag: "duration".into(),
            title: "Duration".into(),
            order: vec!["short".into(), "long".into()],
        }],
        ..fixtures::task_spec()
    }
}

/// The manifest of a run under the imported protocol.
pub(crate) fn manifest(task: TaskSpec, profile: Profile, expected: usize) -> Manifest {
    let sizes = Sizes { expected, ..Sizes::default() };
    let selection = Selection { split_rows: task.expected_rows, sizes, ..fixtures::manifest().selection };
    Manifest {
        plan: RunPlan { nframes: 64, ..fixtures::plan(profile) },
        protocol_hash: "0123".into(),
        protocol: "paravt".into(),
        protocol_source: Source {
            repository: "EvolvingLMMs-Lab/ParaVT".into(),
            commit: "cf55249".into(),
            files: BTreeMap::new(),
            pinned: true,
        },
        fidelity: None,
        data: BTreeMap::new(),
        constants: BTreeMap::new(),
        backend: BackendInfo { name: "openai".into(), model: "made-up-8b".into(), details: BTreeMap::new() },
        selection,
        host: Host { platform: "any".into(), cpu: None, cores: 1, gpus: Some(2), ffmpeg: "none".into() },
        started_at: 0.0,
        ended_at: Some(1800.0),
        task,
        ..fixtures::manifest()
    }
}

/// One sample; two share a video.
pub(crate) fn record(task: &str, profile: Profile, row: usize, value: f64) -> Record {
    let label = if row.is_multiple_of(2) { "short" } else { "long" };
    Record {
        version: RECORD_VERSION,
        profile,
        protocol: "0123".into(),
        sample: Sample {
            task: task.into(),
            uid: row.to_string(),
            id: row.to_string(),
            row,
            video: format!("videos/{}.mp4", row / 2).into(),
            images: Vec::new(),
            question: Question::default(),
            gold: Gold::Choice { answer: "B".into() },
            tags: Tags::from([("duration".to_owned(), vec![label.to_owned()])]),
            evidence: None,
            flags: vec![],
            defect: None,
        },
        epoch: 0,
        transcript: Transcript {
            calls: vec![ModelCall {
                step: "turn0".into(),
                conversation: "0".into(),
                text: "B".into(),
                usage: Some(Usage { prompt_tokens: 1000, completion_tokens: 10, ..Usage::default() }),
                ..ModelCall::default()
            }],
            final_text: "B".into(),
            ..Transcript::default()
        },
        score: Score { outcome: Outcome::Scored, value, prediction: Some("B".into()), rule: None },
        agent_score: None,
        error: None,
        measured: Measured { seconds: 0.5, ..Measured::default() },
    }
}

/// A complete run of a whole split under `paper`, right in `right` of `rows` rows.
pub(crate) fn whole(name: &str, title: &str, rows: usize, right: usize) -> Run {
    let task = spec(name, title, Metric::Accuracy { macro_over: None }, rows);
    let records =
        (0..rows).map(|row| record(name, Profile::Paper, row, f64::from(u8::from(row < right)))).collect();
    let manifest = manifest(task, Profile::Paper, rows);
    Run { path: PathBuf::from(name), manifest, records, torn_bytes: 0, training: Training::default() }
}

/// A strict grounding run that lost what a run can lose.
pub(crate) fn damaged() -> Run {
    let metric = Metric::Grounding { thresholds: vec![0.3, 0.5, 0.7] };
    let task = spec("charades", "Charades-STA (test)", metric, 8);
    let mut records: Vec<Record> = [0.8, 0.4, 0.0, 0.0]
        .into_iter()
        .enumerate()
        .map(|(row, iou)| record("charades", Profile::Strict, row, iou))
        .collect();
    for record in &mut records {
        record.sample.gold = Gold::Interval { start: 0.0, end: 1.0 };
    }
    records[0].transcript.tool_calls = vec![fixtures::crop(0, 0, (2.0, 6.0), vec![])];
    records[0].transcript.dropped_calls = 2;
    records[1].transcript.truncated = true;
    records[1].sample.flags = vec!["example_in_prompt".into()];
    records[2].score.outcome = Outcome::Unparsed;
    records[3].score.outcome = Outcome::Error;
    records[3].error = Some(SampleError {
        class: SampleErrorClass::ApiInLoop,
        message: "no connection".into(),
        step: "turn1".into(),
    });
    let manifest = manifest(task, Profile::Strict, 5);
    Run { path: "charades".into(), manifest, records, torn_bytes: 17, training: Training::default() }
}

/// The page of a report without frames.
pub(crate) fn page_of(report: &Report, runs: &[Run]) -> String {
    page::page(report, runs, &page::Thumbnails::default()).unwrap()
}

/// Frames of a video of a thousand, each the same picture.
pub(crate) fn jpegs(_: &Path, indices: &[usize]) -> Vec<(usize, Vec<u8>)> {
    let inside = indices.iter().filter(|index| **index < 1_000);
    inside.map(|index| (*index, include_bytes!("frame.jpg").to_vec())).collect()
}

/// Rows and videos of the published splits that tests need.
const PUBLISHED: [(&str, usize, usize); 7] = [
    ("videomme", 2_700, 900),
    ("videomme_wsub", 2_700, 900),
    ("longvideobench", 1_337, 753),
    ("lvbench", 1_549, 103),
    ("mlvu", 2_174, 1_122),
    ("mmvu", 625, 379),
    ("charades", 3_720, 1_334),
];

/// A run as the published one was made: all rows and videos, ParaVT-8B's settings, right in `percent`
/// of the rows (for Charades an IoU of 1 or 0), spread over the videos.
pub(crate) fn published(name: &str, percent: f64) -> Run {
    let (_, rows, videos) = PUBLISHED.into_iter().find(|split| split.0 == name).unwrap();
    let grounding = name == "charades";
    let metric = match grounding {
        true => Metric::Grounding { thresholds: vec![0.5] },
        false => Metric::Accuracy { macro_over: None },
    };
    let right = (percent / 100.0 * rows as f64).round() as usize;
    let of_row = |row: usize| {
        // A prime step visits every row once.
        let value = f64::from(u8::from(row * 7_919 % rows < right));
        let mut record = record(name, Profile::Paper, row, value);
        record.sample.video = format!("videos/{}.mp4", row % videos).into();
        if grounding {
            record.sample.gold = Gold::Interval { start: 0.0, end: 1.0 };
        }
        // 156 of the 900 videos have no subtitles.
        if name == "videomme_wsub" && row % videos < 156 {
            record.sample.flags.push(paravt_suite::task::NO_SUBTITLES.to_owned());
        }
        record
    };
    let mut manifest = manifest(spec(name, name, metric, rows), Profile::Paper, rows);
    if grounding {
        manifest.plan.mode = PromptMode::named("agentic_minimal");
        manifest.plan.channel = Channel::Video;
    }
    Run {
        path: PathBuf::from(name),
        manifest,
        records: (0..rows).map(of_row).collect(),
        torn_bytes: 0,
        training: Training::default(),
    }
}
