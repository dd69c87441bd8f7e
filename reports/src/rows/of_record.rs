//! Values of one record that become a cell of a column.

use std::path::Path;

use paravt_suite::backend::Usage;
use paravt_suite::record::{Record, RecordedPart, ToolCall};

/// Turns of the main agent: model calls outside sub-agents.
pub(super) fn turns(record: &Record) -> usize {
    record.transcript.calls.iter().filter(|call| !call.step.contains('/')).count()
}

/// Text of the option whose letter was taken for the answer.
pub(super) fn chosen(record: &Record) -> Option<String> {
    record.sample.question.option_text(record.score.prediction.as_deref()?).map(str::to_owned)
}

/// Tokens of one kind of all model calls, sub-agents included.
pub(super) fn tokens(record: &Record, kind: fn(&Usage) -> u64) -> usize {
    record.transcript.calls.iter().filter_map(|call| call.usage.as_ref()).map(kind).sum::<u64>() as usize
}

/// Largest number of tool calls in one turn.
pub(super) fn parallel_width(record: &Record) -> usize {
    let calls = &record.transcript.tool_calls;
    let in_turn = |turn| calls.iter().filter(|call| call.turn == turn).count();
    calls.iter().map(|call| in_turn(call.turn)).max().unwrap_or_default()
}

/// The cluster that a record belongs to: its video's file name with the folder that it lies in, which
/// separates `Art/1.mp4` from `Biology/1.mp4` and is the same on every machine.
pub fn cluster_name(record: &Record) -> String {
    let folder = record.sample.video.parent().and_then(Path::file_name);
    let folder = folder.map(|name| name.to_string_lossy() + "/").unwrap_or_default();
    format!("{folder}{}", record.sample.video_name())
}

/// Length of the video in seconds as far as the record shows it: the time of the last frame of the
/// overview, which samples up to the last frame. `None` where the video went out by reference.
pub fn video_length(record: &Record) -> Option<f64> {
    let parts = record.transcript.messages.iter().flat_map(|message| &message.parts);
    let times = parts.flat_map(RecordedPart::frames).filter_map(|(origin, _)| Some(origin?.time));
    times.reduce(f64::max).filter(|length| *length > 0.0)
}

/// Window of a tool call as shares of the video's length, where both are known and the window is not empty.
pub(super) fn window(call: &ToolCall, length: Option<f64>) -> Option<(f64, f64)> {
    let (length, (start, end)) = (length?, call.start.zip(call.end)?);
    let share = |seconds: f64| (seconds / length).clamp(0.0, 1.0);
    (start.is_finite() && end > start).then(|| (share(start), share(end)))
}
