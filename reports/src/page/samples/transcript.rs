//! The transcript of one sample as the page's script takes it.

use paravt_suite::message::FrameOrigin;
use paravt_suite::record::{Record, RecordedPart, ToolCall, ToolOutcome};
use serde_json::{Value, json};

use crate::page::thumbnails::Thumbnails;
use crate::rows::{evidence, seen, video_length};

pub(super) fn transcript(record: &Record, thumbnails: &Thumbnails) -> Value {
    let (sample, said, score) = (&record.sample, &record.transcript, &record.score);
    // Tries that did not count stand before the one that is scored.
    let before = said.tries.iter().flat_map(|tries| tries.before.iter().flatten());
    let messages = before
        .chain(&said.messages)
        .map(|message| json!({"role": message.role, "parts": parts(&message.parts)}));
    let calls =
        said.calls.iter().zip(record.measured.call_seconds.iter().map(Some).chain(std::iter::repeat(None)));
    let seen = seen(record);
    json!({
        "video": sample.video_name(),
        "images": sample.images.len(),
        "length": video_length(record),
        "evidence": evidence(record).map(|span| [span.start, span.end]),
        "question": sample.question.stem,
        "options": sample.question.options,
        "letters": sample.question.letters,
        "subtitles": sample.question.subtitles.as_ref().map(|text| text.chars().count()),
        "gold": sample.gold.to_string(),
        "tags": sample.tags,
        "flags": sample.flags,
        "overview": times(crate::rows::overview(record)),
        "seen": [seen.overview, seen.crops, seen.sub_agents],
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

/// Times in hundredths of a second, each less the one before, which compresses to little where frames are regular; null
/// where a frame has no known position.
fn times(frames: impl Iterator<Item = Option<FrameOrigin>>) -> Vec<Option<i64>> {
    let mut last = 0;
    let step = |frame: Option<FrameOrigin>| {
        let now = (100.0 * frame?.time).round() as i64;
        let step = now - last;
        last = now;
        Some(step)
    };
    frames.map(step).collect()
}

/// Parts of a message, runs of images as one list of times.
fn parts(parts: &[RecordedPart]) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for images in parts.chunk_by(|a, b| is_image(a) && is_image(b)) {
        out.push(match &images[0] {
            RecordedPart::Image { .. } | RecordedPart::Frames { .. } => {
                let frames = images.iter().flat_map(RecordedPart::frames);
                json!({"frames": times(frames.map(|(origin, _)| origin))})
            }
            RecordedPart::Text { text } => json!({"text": text}),
            RecordedPart::Video { file, nframes } => json!({"file": file, "nframes": nframes}),
        });
    }
    out
}

fn is_image(part: &RecordedPart) -> bool {
    matches!(part, RecordedPart::Image { .. })
}

fn tool(call: &ToolCall, record: &Record, thumbnails: &Thumbnails) -> Value {
    let (kind, frames, text) = match &call.outcome {
        ToolOutcome::Frames { frames } => ("frames", &frames[..], None),
        ToolOutcome::Text { text } => ("text", &[][..], Some(text)),
        ToolOutcome::Summary { frames, text } => ("summary", &frames[..], Some(text)),
        ToolOutcome::CropFailed { reason } => ("failed", &[][..], Some(reason)),
        ToolOutcome::Malformed { reason } => ("malformed", &[][..], Some(reason)),
        ToolOutcome::Ran { stdout, .. } => ("ran", &[][..], Some(stdout)),
        ToolOutcome::CodeFailed { reason } => ("failed", &[][..], Some(reason)),
        ToolOutcome::Served => ("served", &[][..], None),
    };
    json!({
        "turn": call.turn, "index": call.index, "call": call.call, "start": call.start, "end": call.end,
        "kind": kind, "frames": times(frames.iter().copied().map(Some)), "text": text,
        "thumbnails": thumbnails.crop(record, call),
    })
}
