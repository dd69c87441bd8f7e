//! Columns that grow record by record.

use std::path::Path;

use paravt_suite::profile::Switches;
use paravt_suite::record::{Outcome, Record, RecordedPart};
use paravt_suite::scoring::summary::{counts, leaves_groups};
use paravt_suite::task::TaskSpec;
use polars::prelude::*;

use super::Frames;

/// Columns of one run after the other.
#[derive(Debug, Default)]
pub struct FramesBuilder {
    runs: u32,
    run: [Vec<u32>; 3],
    columns: RunColumns,
}

/// Columns of one run; the records themselves are not needed any more.
#[derive(Debug, Default)]
pub struct RunColumns {
    samples: Samples,
    labels: Labels,
    windows: Windows,
}

#[derive(Debug, Default)]
struct Samples {
    video: Vec<String>,
    value: Vec<f64>,
    counted: Vec<bool>,
    scored: Vec<u32>,
    unparsed: Vec<u32>,
    error: Vec<u32>,
    calls: Vec<u32>,
    width: Vec<u32>,
    turns: Vec<u32>,
    prompt_tokens: Vec<u64>,
    completion_tokens: Vec<u64>,
    seconds: Vec<f64>,
    media_seconds: Vec<f64>,
}

#[derive(Debug, Default)]
struct Labels {
    tag: Vec<String>,
    label: Vec<String>,
    video: Vec<String>,
    value: Vec<f64>,
}

#[derive(Debug, Default)]
struct Windows {
    start: Vec<f64>,
    end: Vec<f64>,
}

impl RunColumns {
    /// Takes what the tables need out of a run's records.
    pub fn of(spec: &TaskSpec, switches: &Switches, records: &[Record]) -> Self {
        let mut columns = Self::default();
        for record in records {
            let video = cluster_name(record);
            let counted = counts(record, switches);
            columns.samples.push(&video, counted, record);
            if counted {
                let present = |tag: &str| !leaves_groups(record, tag, switches);
                for breakdown in spec.breakdowns.iter().filter(|breakdown| present(&breakdown.tag)) {
                    for label in record.sample.tags.get(&breakdown.tag).into_iter().flatten() {
                        columns.labels.push(&breakdown.tag, label, &video, record.score.value);
                    }
                }
            }
            columns.windows.push(record);
        }
        columns
    }
}

impl FramesBuilder {
    /// Adds the next run.
    pub fn append(&mut self, columns: RunColumns) {
        let RunColumns { samples, labels, windows } = columns;
        let lengths = [samples.value.len(), labels.value.len(), windows.start.len()];
        for (run, length) in self.run.iter_mut().zip(lengths) {
            run.extend(std::iter::repeat_n(self.runs, length));
        }
        self.runs += 1;
        self.columns.samples.append(samples);
        self.columns.labels.append(labels);
        self.columns.windows.append(windows);
    }

    /// The frames.
    ///
    /// # Errors
    /// Columns of unequal length, which would be a mistake in this file.
    pub fn finish(self) -> PolarsResult<Frames> {
        let Self { run: [of_sample, of_label, of_window], columns, .. } = self;
        let RunColumns { samples, labels, windows } = columns;
        Ok(Frames {
            samples: df!(
                "run" => of_sample, "video" => samples.video, "value" => samples.value,
                "counted" => samples.counted, "scored" => samples.scored, "unparsed" => samples.unparsed,
                "error" => samples.error, "calls" => samples.calls, "width" => samples.width,
                "turns" => samples.turns, "prompt_tokens" => samples.prompt_tokens,
                "completion_tokens" => samples.completion_tokens, "seconds" => samples.seconds,
                "media_seconds" => samples.media_seconds,
            )?,
            labels: df!(
                "run" => of_label, "tag" => labels.tag, "label" => labels.label,
                "video" => labels.video, "value" => labels.value,
            )?,
            windows: df!("run" => of_window, "start" => windows.start, "end" => windows.end)?,
        })
    }
}

/// Appends every named column.
macro_rules! append {
    ($to:ident, $from:ident: $($column:ident)*) => { $($to.$column.extend($from.$column);)* };
}

impl Samples {
    fn append(&mut self, other: Self) {
        append!(self, other: video value counted scored unparsed error calls width turns prompt_tokens
            completion_tokens seconds media_seconds);
    }

    fn push(&mut self, video: &str, counted: bool, record: &Record) {
        let transcript = &record.transcript;
        let is = |outcome| u32::from(record.score.outcome == outcome);
        let in_turn = |turn| transcript.tool_calls.iter().filter(|call| call.turn == turn).count();
        let width = transcript.tool_calls.iter().map(|call| in_turn(call.turn)).max().unwrap_or_default();
        let usages = || transcript.calls.iter().filter_map(|call| call.usage.as_ref());
        self.video.push(video.to_owned());
        self.value.push(record.score.value);
        self.counted.push(counted);
        self.scored.push(is(Outcome::Scored));
        self.unparsed.push(is(Outcome::Unparsed));
        self.error.push(is(Outcome::Error));
        self.calls.push(transcript.tool_calls.len() as u32);
        self.width.push(width as u32);
        self.turns.push(turns(record) as u32);
        self.prompt_tokens.push(usages().map(|usage| usage.prompt_tokens).sum());
        self.completion_tokens.push(usages().map(|usage| usage.completion_tokens).sum());
        self.seconds.push(record.measured.seconds);
        self.media_seconds.push(record.measured.media_seconds);
    }
}

impl Labels {
    fn append(&mut self, other: Self) {
        append!(self, other: tag label video value);
    }

    fn push(&mut self, tag: &str, label: &str, video: &str, value: f64) {
        self.tag.push(tag.to_owned());
        self.label.push(label.to_owned());
        self.video.push(video.to_owned());
        self.value.push(value);
    }
}

impl Windows {
    fn append(&mut self, other: Self) {
        append!(self, other: start end);
    }

    fn push(&mut self, record: &Record) {
        let Some(length) = video_length(record) else { return };
        for call in &record.transcript.tool_calls {
            let (Some(start), Some(end)) = (call.start, call.end) else { continue };
            if start.is_finite() && end > start {
                self.start.push((start / length).clamp(0.0, 1.0));
                self.end.push((end / length).clamp(0.0, 1.0));
            }
        }
    }
}

/// Turns of the main agent: model calls that are no sub-agent's.
pub fn turns(record: &Record) -> usize {
    record.transcript.calls.iter().filter(|call| !call.step.contains('/')).count()
}

/// Tokens read and written, sub-agents' included.
pub fn tokens(record: &Record) -> u64 {
    let usages = record.transcript.calls.iter().filter_map(|call| call.usage.as_ref());
    usages.map(|usage| usage.prompt_tokens + usage.completion_tokens).sum()
}

/// The cluster that a record belongs to: its video's file name with the folder that it lies in, which
/// tells `Art/1.mp4` from `Biology/1.mp4` and is the same on every machine.
pub fn cluster_name(record: &Record) -> String {
    let folder = record.sample.video.parent().and_then(Path::file_name);
    let folder = folder.map(|name| name.to_string_lossy() + "/").unwrap_or_default();
    format!("{folder}{}", video_name(record))
}

/// File name of a record's video.
pub fn video_name(record: &Record) -> String {
    record.sample.video.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Length of the video as far as the record shows it: the time of the last frame of the overview,
/// which samples up to the last frame. Unknown where the video went out by reference.
pub fn video_length(record: &Record) -> Option<f64> {
    let parts = record.transcript.messages.iter().flat_map(|message| &message.parts);
    let times = parts.filter_map(|part| match part {
        RecordedPart::Image { origin: Some(origin), .. } => Some(origin.time),
        _ => None,
    });
    times.reduce(f64::max).filter(|length| *length > 0.0)
}
