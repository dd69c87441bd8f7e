//! Values of one record that become a cell of a column.

use std::ffi::OsStr;
use std::path::Path;

use paravt_suite::backend::Usage;
use paravt_suite::message::FrameOrigin;
use paravt_suite::record::{Record, RecordedPart, ToolCall, ToolOutcome};

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

/// Times of a model call whose first token was seen, in seconds.
pub(super) struct TokenTimes {
    pub(super) first: f64,
    /// Of each further token, mean.
    pub(super) further: Option<f64>,
    pub(super) prompt: Option<u64>,
}

impl TokenTimes {
    /// Tokens of the prompt per second until the first token came; what a cache held counts as well.
    pub(super) fn prompt_rate(&self) -> Option<f64> {
        Some(self.prompt? as f64 / self.first).filter(|rate| rate.is_finite())
    }
}

/// Of each model call whose first token was seen. A call that was tried again is left out: its time to the first token
/// holds the tries before.
pub(super) fn token_times(record: &Record) -> impl Iterator<Item = TokenTimes> {
    let (calls, measured) = (&record.transcript.calls, &record.measured);
    let times = measured.call_seconds.iter().zip(&measured.call_retries).zip(&measured.first_token_seconds);
    calls.iter().zip(times).filter_map(|(call, ((seconds, retries), first))| {
        let first = first.filter(|_| *retries == 0)?;
        let further = call.usage.and_then(|usage| usage.completion_tokens.checked_sub(1));
        let further = further.filter(|further| *further > 0 && *seconds >= first);
        let further = further.map(|further| (seconds - first) / further as f64);
        Some(TokenTimes { first, further, prompt: call.usage.map(|usage| usage.prompt_tokens) })
    })
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
    cluster_of(&record.sample.video)
}

/// The cluster of a video.
pub(super) fn cluster_of(video: &Path) -> String {
    let name =
        |path: Option<&OsStr>| path.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match video.parent().and_then(Path::file_name) {
        Some(folder) => name(Some(folder)) + "/" + &name(video.file_name()),
        None => name(video.file_name()),
    }
}

/// Length of the video in seconds as far as the record shows it: the time of the last frame of the
/// overview, which samples up to the last frame. `None` where the video went out by reference.
pub fn video_length(record: &Record) -> Option<f64> {
    if record.sample.is_about_images() {
        return None;
    }
    let parts = record.transcript.messages.iter().flat_map(|message| &message.parts);
    let times = parts.flat_map(RecordedPart::frames).filter_map(|(origin, _)| Some(origin?.time));
    times.reduce(f64::max).filter(|length| *length > 0.0)
}

/// Numbers of frames that a record names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Frames of the overview.
    pub overview: usize,
    /// Frames that tool calls returned to the main agent.
    pub crops: usize,
    /// Frames that sub-agents looked at.
    pub sub_agents: usize,
}

/// The frames that the model saw. A video that went out by reference was sampled by the server: none is recorded.
pub fn seen(record: &Record) -> Seen {
    let frames = |call: &ToolCall| match &call.outcome {
        ToolOutcome::Frames { frames } => [frames.len(), 0],
        ToolOutcome::Summary { frames, .. } => [0, frames.len()],
        _ => [0, 0],
    };
    let calls = record.transcript.tool_calls.iter().map(frames);
    let [crops, sub_agents] = calls.fold([0, 0], |sum, call| [sum[0] + call[0], sum[1] + call[1]]);
    Seen { overview: overview(record).count(), crops, sub_agents }
}

/// The images of the overview, those of the first message with media: their positions in the video, where known.
pub fn overview(record: &Record) -> impl Iterator<Item = Option<FrameOrigin>> {
    let transcript = &record.transcript;
    let has_media = |part: &RecordedPart| !matches!(part, RecordedPart::Text { .. });
    // With frames lost, the first images of the conversation are those of a crop, with the code tool figures.
    let has_overview = transcript.frame_loss.is_none() && transcript.episode.is_none();
    let mut messages = transcript.messages.iter().filter(|_| has_overview);
    let first = messages.find(|message| message.parts.iter().any(has_media));
    let parts = first.into_iter().flat_map(|message| &message.parts);
    parts.flat_map(RecordedPart::frames).map(|(origin, _)| origin)
}

/// The frames that a tool call returned, to the main agent or to a sub-agent.
pub(crate) fn frames_of(call: &ToolCall) -> &[FrameOrigin] {
    match &call.outcome {
        ToolOutcome::Frames { frames } | ToolOutcome::Summary { frames, .. } => frames,
        _ => &[],
    }
}

/// Times in seconds of all frames that the main agent or a sub-agent saw.
pub(super) fn seen_times(record: &Record) -> impl Iterator<Item = f64> {
    let calls = record.transcript.tool_calls.iter().flat_map(frames_of).copied();
    overview(record).flatten().chain(calls).map(|frame| frame.time)
}

/// Window of a tool call as shares of the video's length, where both are known and the window is not empty.
pub(super) fn window(call: &ToolCall, length: Option<f64>) -> Option<(f64, f64)> {
    let (length, (start, end)) = (length?, call.start.zip(call.end)?);
    let share = |seconds: f64| (seconds / length).clamp(0.0, 1.0);
    (start.is_finite() && end > start).then(|| (share(start), share(end)))
}
