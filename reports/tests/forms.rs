//! The report's three forms on a small made-up set of records.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use paravt_reports::{COLUMNS, Format as _, Json, Markdown, Report, Run, Terminal, Verdict};
use paravt_suite::backend::{BackendInfo, Usage};
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{PromptMode, Source};
use paravt_suite::record::{
    Measured, ModelCall, Outcome, RECORD_VERSION, Record, SampleError, SampleErrorClass, Score, ToolCall,
    ToolOutcome, Transcript,
};
use paravt_suite::run::{Channel, CropMode, GroupSizes, Host, Manifest, RUN_VERSION, RunPlan, Selection};
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::task::{Breakdown, HubSource, Metric, TaskSpec};

/// The longest title of the seven splits.
const LONGEST_TITLE: &str = "Video-MME (w/o subtitles)";

fn spec(name: &str, title: &str, metric: Metric, rows: usize) -> TaskSpec {
    TaskSpec {
        name: name.into(),
        title: title.into(),
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
        expected_rows: rows,
        paper_rows: rows,
        expected_videos: rows,
        metric,
        breakdowns: vec![Breakdown {
            tag: "duration".into(),
            title: "Duration".into(),
            order: vec!["short".into(), "long".into()],
        }],
    }
}

fn manifest(task: TaskSpec, profile: Profile, expected: usize) -> Manifest {
    Manifest {
        version: RUN_VERSION,
        binary: "test".into(),
        command: vec![],
        plan: RunPlan {
            profile,
            switches: profile.switches(),
            mode: PromptMode::AgenticGeneral,
            channel: Channel::Image,
            nframes: 64,
            max_turns: 3,
            max_parallel: 5,
            crop: CropMode::Frames,
            max_tokens: 2048,
            temperature: 0.0,
            seed: None,
        },
        protocol_hash: "0123".into(),
        protocol: "paravt".into(),
        protocol_source: Source {
            repository: "EvolvingLMMs-Lab/ParaVT".into(),
            commit: "cf55249".into(),
            files: BTreeMap::new(),
            pinned: true,
        },
        data: BTreeMap::new(),
        data_revision: None,
        backend: BackendInfo { name: "openai".into(), model: "made-up-8b".into(), details: BTreeMap::new() },
        paper_row: None,
        selection: Selection {
            split_rows: task.expected_rows,
            expected,
            limit: None,
            ids: None,
            shard: None,
            open_ended: 0,
            groups: GroupSizes::new(),
        },
        host: Host { platform: "any".into(), cores: 1, ffmpeg: "none".into() },
        started_at: 0.0,
        ended_at: None,
        task,
    }
}

fn record(task: &str, profile: Profile, row: usize, value: f64) -> Record {
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
            question: Question::default(),
            gold: Gold::Choice { answer: "B".into() },
            tags: Tags::from([("duration".to_owned(), vec![label.to_owned()])]),
            evidence: None,
            flags: vec![],
        },
        transcript: Transcript {
            calls: vec![ModelCall {
                step: "turn0".into(),
                conversation: "0".into(),
                text: "B".into(),
                finish_reason: None,
                usage: Some(Usage { prompt_tokens: 1000, completion_tokens: 10 }),
                error: None,
            }],
            final_text: "B".into(),
            ..Transcript::default()
        },
        score: Score { outcome: Outcome::Scored, value, prediction: Some("B".into()), rule: None },
        error: None,
        measured: Measured { seconds: 0.5, ..Measured::default() },
    }
}

/// A complete run of a whole split under `paper`, right in `right` of `rows` rows.
fn whole(name: &str, title: &str, rows: usize, right: usize) -> Run {
    let task = spec(name, title, Metric::Accuracy { macro_over: None }, rows);
    let records =
        (0..rows).map(|row| record(name, Profile::Paper, row, f64::from(u8::from(row < right)))).collect();
    let manifest = manifest(task, Profile::Paper, rows);
    Run { path: PathBuf::from(name), manifest, records, torn_bytes: 0 }
}

/// A strict grounding run that lost what a run can lose.
fn damaged() -> Run {
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
    records[0].transcript.tool_calls = vec![ToolCall {
        turn: 0,
        index: 0,
        call: serde_json::json!({}),
        start: Some(2.0),
        end: Some(6.0),
        outcome: ToolOutcome::Frames { frames: vec![] },
    }];
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
    Run { path: "charades".into(), manifest, records, torn_bytes: 17 }
}

fn report(runs: &[Run]) -> Report {
    Report::build(runs, Some("ParaVT-8B")).unwrap()
}

fn small() -> Report {
    report(&[damaged(), whole("videomme", "Video-MME (w/o subtitles)", 8, 5)])
}

fn assert_fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= COLUMNS, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn terminal() {
    let text = Terminal.render(&small());
    assert_fits(&text);
    insta::assert_snapshot!(text, @r#"
    split                     profile score        95 %         N paper   diff verdict
    Video-MME (w/o subtitles)   paper  62.5  21.9-100.0       8/8  62.1   +0.4 reproduced
    Charades-STA (test)        strict  24.0    0.0-65.6       4/5  50.1  -26.1 INCOMPLETE not comparable
    videomme_wsub             not run
    longvideobench            not run
    lvbench                   not run
    mlvu                      not run
    mmvu                      not run

    Video-MME (w/o subtitles) (paper, agentic_general, made-up-8b)
      accuracy 62.5 over N 8; nothing lost
      reproduced
      Duration
        short                              75.0  N 4
        long                               50.0  N 4
      tools: 0.00 calls a sample, 0.0 % of samples, 0 failed crops, 0 malformed, 0 forced answers
      cost: 8000 prompt and 80 completion tokens, 4.0 sample seconds

    Charades-STA (test) (strict, agentic_general, made-up-8b)
      mIoU 24.0 over N 5; 1 unparsed, 1 failed, 1 truncated, 2 dropped calls
      INCOMPLETE not comparable: profile strict, 5 of 8 rows, incomplete run
      the last record is torn and left out; resume the run to redo it
      R@0.3: 40.0
      R@0.5: 20.0
      R@0.7: 20.0
      Duration
        short                              40.0  N 2
        long                               20.0  N 2
      tools: 0.25 calls a sample, 25.0 % of samples, 0 failed crops, 0 malformed, 0 forced answers
      cost: 4000 prompt and 40 completion tokens, 2.0 sample seconds
      flagged example_in_prompt: 1
    "#);
}

#[test]
fn markdown() {
    insta::assert_snapshot!(Markdown.render(&small()), @r#"
    | split | profile | score | 95 % | N | lost | paper | diff | verdict |
    |---|---|--:|--:|--:|---|--:|--:|---|
    | Video-MME (w/o subtitles) | paper | 62.5 | 21.9-100.0 | 8/8 | nothing lost | 62.1 | +0.4 | reproduced |
    | Charades-STA (test) | strict | 24.0 | 0.0-65.6 | 4/5 | 1 unparsed, 1 failed, 1 truncated, 2 dropped calls | 50.1 | -26.1 | INCOMPLETE not comparable: profile strict, 5 of 8 rows, incomplete run |
    | videomme_wsub | | | | | | | | not run |
    | longvideobench | | | | | | | | not run |
    | lvbench | | | | | | | | not run |
    | mlvu | | | | | | | | not run |
    | mmvu | | | | | | | | not run |
    "#);
}

#[test]
fn json() {
    insta::assert_snapshot!(Json.render(&report(&[damaged()])), @r#"
    {
      "cells": [
        {
          "task": "charades",
          "title": "Charades-STA (test)",
          "profile": "strict",
          "mode": "agentic_general",
          "protocol": "paravt",
          "protocol_hash": "0123",
          "model": "made-up-8b",
          "summary": {
            "task": "charades",
            "metric": "mIoU",
            "value": 0.24000000000000005,
            "n": 5,
            "n_expected": 5,
            "n_recorded": 4,
            "n_scored": 2,
            "n_unparsed": 1,
            "n_errors": 1,
            "errors": {
              "api_in_loop": 1
            },
            "n_frame_loss": 0,
            "n_truncated": 1,
            "n_dropped_calls": 2,
            "value_over_expected": 0.24000000000000005,
            "macro_average": null,
            "recall_at": [
              [
                0.3,
                0.4
              ],
              [
                0.5,
                0.2
              ],
              [
                0.7,
                0.2
              ]
            ],
            "breakdowns": [
              {
                "tag": "duration",
                "title": "Duration",
                "groups": [
                  {
                    "label": "short",
                    "n": 2,
                    "value": 0.4
                  },
                  {
                    "label": "long",
                    "n": 2,
                    "value": 0.2
                  }
                ]
              }
            ],
            "open_ended": null,
            "tools": {
              "calls_per_sample": 0.25,
              "share_with_calls": 0.25,
              "mean_window_seconds": 4.0,
              "crop_failures": 0,
              "malformed": 0,
              "forced": 0
            },
            "prompt_tokens": 4000,
            "completion_tokens": 40,
            "sample_seconds": 2.0,
            "flags": {
              "example_in_prompt": 1
            },
            "complete": false
          },
          "interval": [
            0.0,
            0.6557711473049035
          ],
          "standard_error": 0.21213203435596428,
          "paper": {
            "row": "ParaVT-8B",
            "published": 50.1,
            "difference": -26.099999999999998,
            "tolerance": 35.35526834857855,
            "verdict": {
              "kind": "not_comparable",
              "why": [
                "profile strict",
                "5 of 8 rows",
                "incomplete run"
              ]
            }
          },
          "torn_bytes": 17
        }
      ],
      "not_run": [
        "videomme",
        "videomme_wsub",
        "longvideobench",
        "lvbench",
        "mlvu",
        "mmvu"
      ]
    }
    "#);
}

#[test]
fn the_overview_fits_for_every_title_verdict_and_size() {
    let mut runs =
        vec![whole("videomme", "Video-MME", 3_720, 3_720), whole("videomme_wsub", LONGEST_TITLE, 3_720, 0)];
    // As wide as it gets: an incomplete run that is not comparable, all numbers at full length.
    runs[1].records.pop();
    let incomplete = report(&runs);
    let text = Terminal.render(&incomplete);
    assert_fits(&text);
    let line = text.lines().find(|line| line.starts_with(LONGEST_TITLE)).unwrap();
    assert!(line.ends_with("INCOMPLETE not comparable"), "one line, not folded: {line}");
    assert!(matches!(incomplete.cells[1].paper.as_ref().unwrap().verdict, Verdict::NotComparable(_)));

    let unnamed = Terminal.render(&Report::build(&runs, None).unwrap());
    assert_fits(&unnamed);
    let line = unnamed.lines().find(|line| line.starts_with(LONGEST_TITLE)).unwrap();
    assert!(line.ends_with("INCOMPLETE no paper value"), "{line}");
}

#[test]
fn long_names_and_losses_are_folded_and_nothing_is_cut() {
    let mut run = whole("videomme", LONGEST_TITLE, 2_700, 2_700);
    run.manifest.backend.model = format!("/models/{}/checkpoint", "é".repeat(150));
    run.manifest.protocol_source.pinned = false;
    run.manifest.plan.profile = Profile::Strict;
    for record in &mut run.records {
        record.profile = Profile::Strict;
        record.transcript.frame_loss = Some("lost".into());
        record.transcript.truncated = true;
        record.transcript.dropped_calls = 100;
        record.transcript.forced = true;
        record.score.outcome = Outcome::Unparsed;
        record.sample.tags.insert("duration".into(), vec!["a label of many words ".repeat(8)]);
    }
    run.manifest.selection.expected = 2_701;
    let text = Terminal.render(&report(&[run]));
    assert_fits(&text);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words(&text).contains("2700 unparsed, 2700 frame loss, 2700 truncated, 270000 dropped calls"),
        "{text}"
    );
    assert!(words(&text).contains(
        "INCOMPLETE not comparable: profile strict, unpinned protocol, 2701 of 2700 rows, incomplete run"
    ));
    assert_eq!(text.matches('é').count(), 150);
    assert!(words(&text).contains(&words(&"a label of many words ".repeat(8))));
}

#[test]
fn a_bar_or_line_break_in_a_title_does_not_break_the_markdown_table() {
    let mut run = whole("videomme", "a | b\nc", 2, 1);
    run.manifest.task.breakdowns.clear();
    let text = Markdown.render(&report(&[run]));
    let line = text.lines().nth(2).unwrap();
    assert!(line.starts_with("| a \\| b c | paper |"), "{line}");
}
