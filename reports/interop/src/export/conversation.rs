//! A transcript as other tools have it: tool calls beside the text that holds them, results under the call's id.

use paravt_suite::message::Role;
use paravt_suite::record::{ModelCall, Record, RecordedPart, ToolCall};
use serde_json::{Map, Value};

/// A message of the main conversation.
pub(super) struct Said<'a> {
    pub(super) role: Role,
    pub(super) parts: &'a [RecordedPart],
    /// Calls of an assistant message.
    pub(super) calls: Vec<Called>,
    /// The call that a message of role `tool` answers.
    pub(super) answers: Option<Called>,
    /// The model call that an assistant message comes from.
    pub(super) call: Option<&'a ModelCall>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Called {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Map<String, Value>,
}

/// The conversation. Calls that stand in the text of a message get ids by turn and position; the user messages that follow,
/// one per call, are their results.
pub(super) fn of(record: &Record) -> Vec<Said<'_>> {
    let transcript = &record.transcript;
    // Tries before the last are no part of the conversation.
    let before = transcript.tries.iter().flat_map(|tries| tries.before.iter().flatten());
    let mut turn = before.filter(|message| message.role == Role::Assistant).count();
    let mut model_calls = transcript.calls.iter().filter(|call| !call.step.contains('/')).skip(turn);
    let mut open = Vec::new().into_iter();
    let mut said = Vec::with_capacity(transcript.messages.len());
    for message in &transcript.messages {
        let mut one =
            Said { role: message.role, parts: &message.parts, calls: Vec::new(), answers: None, call: None };
        match message.role {
            Role::Assistant => {
                let structured = message.tool_calls.iter().map(|call| call.id.clone());
                let ids: Vec<String> = structured.collect();
                let of_turn = transcript.tool_calls.iter().filter(|call| call.turn == turn);
                one.calls = of_turn.map(|call| called(call, ids.get(call.index))).collect();
                one.call = model_calls.next();
                open = one.calls.clone().into_iter();
                turn += 1;
            }
            Role::Tool => {
                one.answers = message.tool_call_id.as_ref().and_then(|id| open.find(|call| call.id == *id));
            }
            Role::User => {
                one.answers = open.next();
                one.role = if one.answers.is_some() { Role::Tool } else { Role::User };
            }
            Role::System => {}
        }
        said.push(one);
    }
    said
}

fn called(call: &ToolCall, id: Option<&String>) -> Called {
    let field = |name: &str| call.call.get(name);
    // Code of the model has no name of a tool.
    let is_code = field("name").is_none() && field("code").is_some();
    let arguments = if is_code { Some(&call.call) } else { field("arguments") };
    let unnamed = if is_code { "python" } else { "unknown" };
    Called {
        id: id.cloned().unwrap_or_else(|| format!("turn{}-{}", call.turn, call.index)),
        name: field("name").and_then(Value::as_str).unwrap_or(unnamed).to_owned(),
        arguments: arguments.and_then(Value::as_object).cloned().unwrap_or_default(),
    }
}

/// The texts of the first user message.
pub(super) fn prompt(record: &Record) -> Option<String> {
    let first = record.transcript.messages.iter().find(|message| message.role == Role::User)?;
    Some(texts(&first.parts))
}

/// The texts of a message, frames as one line that names their times.
pub(super) fn texts(parts: &[RecordedPart]) -> String {
    let pieces: Vec<String> = pieces(parts, |_| false)
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Image(_) => String::new(),
        })
        .collect();
    pieces.join("\n")
}

/// A part of a message as it is written.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    /// A frame, by its index in the video.
    Image(usize),
}

/// The parts of a message; frames in a row that `has_image` does not have become one text.
pub(super) fn pieces(parts: &[RecordedPart], has_image: impl Fn(usize) -> bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut missing: Vec<(Option<f64>, u32, u32)> = Vec::new();
    for part in parts {
        for (origin, (width, height)) in part.frames() {
            match origin.map(|origin| origin.index).filter(|index| has_image(*index)) {
                None => missing.push((origin.map(|origin| origin.time), width, height)),
                Some(index) => {
                    pieces.extend(marker(&std::mem::take(&mut missing)));
                    pieces.push(Piece::Image(index));
                }
            }
        }
        let text = match part {
            RecordedPart::Image { .. } | RecordedPart::Frames { .. } => continue,
            RecordedPart::Text { text } => text.clone(),
            RecordedPart::Video { file, nframes: Some(nframes) } => {
                format!("[video {file}, {nframes} frames sampled by the server]")
            }
            RecordedPart::Video { file, nframes: None } => format!("[video {file}]"),
        };
        pieces.extend(marker(&std::mem::take(&mut missing)));
        pieces.push(Piece::Text(text));
    }
    pieces.extend(marker(&missing));
    pieces
}

/// What stands for frames without pixels.
fn marker(frames: &[(Option<f64>, u32, u32)]) -> Option<Piece> {
    let (_, width, height) = frames.first()?;
    let times: Vec<String> =
        frames.iter().flat_map(|(time, ..)| *time).map(|time| format!("{time:.1}")).collect();
    let (count, plural) = (frames.len(), if frames.len() == 1 { "" } else { "s" });
    let at = if times.is_empty() { String::new() } else { format!(" at {} s", times.join(", ")) };
    Some(Piece::Text(format!("[{count} frame{plural} of {width}x{height}{at}]")))
}

#[cfg(test)]
mod tests {
    use paravt_suite::message::FrameOrigin;

    use super::*;

    fn image(index: usize) -> RecordedPart {
        let origin = Some(FrameOrigin { index, time: index as f64 / 2.0 });
        RecordedPart::Image { origin, width: 28, height: 14, bytes: 9 }
    }

    #[test]
    fn frames_without_pixels_become_one_line() {
        let parts = [image(0), image(3), RecordedPart::Text { text: "What?".into() }, image(4)];
        let text = |text: &str| Piece::Text(text.to_owned());
        let all =
            [text("[2 frames of 28x14 at 0.0, 1.5 s]"), text("What?"), text("[1 frame of 28x14 at 2.0 s]")];
        assert_eq!(pieces(&parts, |_| false), all);
        let some = [Piece::Image(0), text("[1 frame of 28x14 at 1.5 s]"), text("What?"), Piece::Image(4)];
        assert_eq!(pieces(&parts, |index| index != 3), some);
    }
}
