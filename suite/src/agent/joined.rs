//! The text of a whole conversation as lmms-eval scores it.

use crate::record::{ToolOutcome, Transcript};

/// All replies with their calls and results, as lmms-eval 75571cf joins them
/// (`lmms_eval/models/chat/async_openai.py`); empty where a call could not be read, which ends the sample there.
pub(super) fn joined(transcript: &Transcript) -> String {
    let mut joined = String::new();
    for (turn, reply) in transcript.calls.iter().enumerate() {
        joined.push_str(&reply.text);
        let ran = transcript.tool_calls.iter().filter(|call| call.turn == turn);
        for (call, ran) in reply.tool_calls.iter().zip(ran) {
            let (name, arguments) = (&call.name, &call.arguments);
            joined.push_str(&format!("<tool_call>{name} {arguments}</tool_call></tool_response>"));
            match &ran.outcome {
                ToolOutcome::Frames { frames } => joined.push_str(&"<image_url>".repeat(frames.len())),
                ToolOutcome::CropFailed { reason: text } | ToolOutcome::Text { text } => {
                    joined.push_str(text)
                }
                // The sample failed there; what is scored is a sentence about that.
                ToolOutcome::Malformed { .. } => return String::new(),
                ToolOutcome::Summary { .. } | ToolOutcome::Ran { .. } | ToolOutcome::CodeFailed { .. } => {}
            }
            joined.push_str("</tool_response>");
        }
    }
    joined
}
