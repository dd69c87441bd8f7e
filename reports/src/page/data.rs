//! Transcripts for the page: an index over all samples and chunks that are unpacked when one of
//! their samples is opened.

use std::collections::HashMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use paravt_suite::record::{Outcome, Record, RecordedPart, ToolCall, ToolOutcome};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use super::reference::reference;
use super::thumbnails::Thumbnails;
use crate::compare::RIGHT;
use crate::rows::video_length;
use crate::runs::Run;

/// Samples of one chunk: small enough to unpack unnoticed, large enough to compress well.
const CHUNK: usize = 100;

/// Everything that the page's script reads, each piece as base64 of gzip of JSON.
pub(super) struct Data {
    /// Columns over all samples.
    pub index: String,
    /// Transcripts, [`CHUNK`] samples each.
    pub chunks: Vec<String>,
    /// Samples.
    pub samples: usize,
}

/// Columns of the sample list; one entry per sample, in the order of runs and rows.
#[derive(Default, Serialize)]
struct Index {
    chunk: usize,
    runs: Vec<Value>,
    run: Vec<usize>,
    uid: Vec<String>,
    /// 0 right, 1 wrong, 2 unparsed, 3 error.
    result: Vec<u8>,
    value: Vec<f64>,
    gold: Vec<String>,
    answer: Vec<String>,
    calls: Vec<usize>,
    seconds: Vec<f64>,
    /// Against the run that the table of comparisons has as A: 0 no flip, 1 wrong to right, 2 right to
    /// wrong.
    turned: Vec<u8>,
    /// 1 truncated, 2 frame loss, 4 dropped calls, 8 forced answer, 16 failed or malformed call.
    loss: Vec<u8>,
}

impl Data {
    /// Packs the runs' records.
    ///
    /// # Errors
    /// Compression fails, which it does not in memory.
    pub(super) fn of(runs: &[&Run], thumbnails: &Thumbnails) -> std::io::Result<Self> {
        let mut index = Index { chunk: CHUNK, ..Index::default() };
        let mut samples: Vec<&Record> = Vec::new();
        for (number, run) in runs.iter().enumerate() {
            index.runs.push(json!({
                "task": run.manifest.task.name, "title": run.manifest.task.title,
                "run": run.manifest.display_name(), "profile": run.manifest.plan.profile,
            }));
            let right_before: HashMap<&str, bool> = reference(runs, number)
                .into_iter()
                .flat_map(|first| &runs[first].records)
                .map(|record| (record.sample.uid.as_str(), right(record)))
                .collect();
            for record in &run.records {
                index.push(number, record, right_before.get(record.sample.uid.as_str()).copied());
                samples.push(record);
            }
        }
        let chunks = samples
            .par_chunks(CHUNK)
            .map(|records| {
                pack(&records.iter().map(|record| transcript(record, thumbnails)).collect::<Vec<_>>())
            })
            .collect::<std::io::Result<Vec<_>>>()?;
        Ok(Self { index: pack(&index)?, chunks, samples: samples.len() })
    }
}

impl Index {
    fn push(&mut self, run: usize, record: &Record, before: Option<bool>) {
        let (score, transcript) = (&record.score, &record.transcript);
        self.run.push(run);
        self.uid.push(record.sample.uid.clone());
        self.result.push(match score.outcome {
            Outcome::Scored => u8::from(!right(record)),
            Outcome::Unparsed => 2,
            Outcome::Error => 3,
        });
        self.value.push((1000.0 * score.value).round() / 1000.0);
        self.gold.push(short(&record.sample.gold.to_string()));
        self.answer.push(short(score.prediction.as_deref().unwrap_or_default()));
        self.calls.push(transcript.tool_calls.len());
        self.seconds.push((100.0 * record.measured.seconds).round() / 100.0);
        self.turned.push(match (before, right(record)) {
            (Some(false), true) => 1,
            (Some(true), false) => 2,
            _ => 0,
        });
        let bad = |call: &ToolCall| {
            matches!(call.outcome, ToolOutcome::CropFailed { .. } | ToolOutcome::Malformed { .. })
        };
        let flags = [
            transcript.truncated,
            transcript.frame_loss.is_some(),
            transcript.dropped_calls > 0,
            transcript.forced,
            transcript.tool_calls.iter().any(bad),
        ];
        self.loss.push(flags.iter().enumerate().map(|(bit, on)| u8::from(*on) << bit).sum());
    }
}

fn right(record: &Record) -> bool {
    record.score.value >= RIGHT
}

/// The list needs no more of an answer; the transcript has all of it.
fn short(text: &str) -> String {
    text.chars().take(24).collect()
}

fn transcript(record: &Record, thumbnails: &Thumbnails) -> Value {
    let (sample, said, score) = (&record.sample, &record.transcript, &record.score);
    let interval = sample.gold.interval().or(sample.evidence).map(|span| [span.start, span.end]);
    let messages =
        said.messages.iter().map(|message| json!({"role": message.role, "parts": parts(&message.parts)}));
    let calls =
        said.calls.iter().zip(record.measured.call_seconds.iter().map(Some).chain(std::iter::repeat(None)));
    json!({
        "video": record.sample.video_name(),
        "length": video_length(record),
        "evidence": interval,
        "question": sample.question.stem,
        "options": sample.question.options,
        "letters": sample.question.letters,
        "subtitles": sample.question.subtitles.as_ref().map(|text| text.chars().count()),
        "gold": sample.gold.to_string(),
        "tags": sample.tags,
        "flags": sample.flags,
        "thumbnails": thumbnails.overview(record),
        "messages": messages.collect::<Vec<_>>(),
        "tools": said.tool_calls.iter().map(|call| tool(call, record, thumbnails)).collect::<Vec<_>>(),
        "calls": calls.map(|(call, seconds)| json!({
            "step": call.step, "usage": call.usage, "finish": call.finish_reason, "seconds": seconds,
            "error": call.error.as_ref().map(ToString::to_string),
            // Sub-agents speak outside the main conversation.
            "text": call.step.contains('/').then_some(&call.text),
        })).collect::<Vec<_>>(),
        "final": said.final_text,
        "forced": said.forced,
        "answer": score.prediction,
        "rule": score.rule,
        "value": score.value,
        "outcome": score.outcome,
        "error": record.error,
        "frame_loss": said.frame_loss,
        "truncated": said.truncated,
        "dropped": said.dropped_calls,
        "seconds": record.measured.seconds,
    })
}

/// Parts of a message, runs of images as one list of times.
fn parts(parts: &[RecordedPart]) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    let mut times: Vec<Option<f64>> = Vec::new();
    for part in parts {
        if let RecordedPart::Image { origin, .. } = part {
            times.push(origin.map(|origin| (100.0 * origin.time).round() / 100.0));
            continue;
        }
        if !times.is_empty() {
            out.push(json!({"frames": std::mem::take(&mut times)}));
        }
        match part {
            RecordedPart::Text { text } => out.push(json!({"text": text})),
            RecordedPart::Frames { frames, .. } => {
                let times = frames.iter().map(|frame| (100.0 * frame.time).round() / 100.0);
                out.push(json!({"frames": times.collect::<Vec<_>>()}));
            }
            RecordedPart::Video { file, nframes } => out.push(json!({"file": file, "nframes": nframes})),
            RecordedPart::Image { .. } => {}
        }
    }
    if !times.is_empty() {
        out.push(json!({"frames": times}));
    }
    out
}

fn tool(call: &ToolCall, record: &Record, thumbnails: &Thumbnails) -> Value {
    let times = |frames: &[paravt_suite::message::FrameOrigin]| -> Vec<f64> {
        frames.iter().map(|frame| (100.0 * frame.time).round() / 100.0).collect()
    };
    let (kind, frames, text) = match &call.outcome {
        ToolOutcome::Frames { frames } => ("frames", times(frames), None),
        ToolOutcome::Summary { frames, text } => ("summary", times(frames), Some(text)),
        ToolOutcome::CropFailed { reason } => ("failed", vec![], Some(reason)),
        ToolOutcome::Malformed { reason } => ("malformed", vec![], Some(reason)),
    };
    json!({
        "turn": call.turn, "index": call.index, "call": call.call, "start": call.start, "end": call.end,
        "kind": kind, "frames": frames, "text": text,
        "thumbnails": thumbnails.crop(record, call),
    })
}

fn pack<T: Serialize>(value: &T) -> std::io::Result<String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    serde_json::to_writer(&mut encoder, value)?;
    encoder.flush()?;
    Ok(STANDARD.encode(encoder.finish()?))
}
