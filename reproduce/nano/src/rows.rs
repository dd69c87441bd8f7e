//! Traces as rows of the published SFT format, and back to conversations with frames.
//!
//! A row is `id` and `messages`, the JSON of an OpenAI-style list whose contents are lists of parts
//! (`paravt/sft/…/qwen3_vl_iterable_dataset.py`); tool calls and responses are text. Media are
//! sentinels: paths below the folder that holds the videos, as `materialize.py` leaves them to be
//! completed. Two keys are our own: `nframes` of an overview; `video_start` and `video_end` of a
//! window (qwen-vl-utils' names). Without them a reader falls back on its own sampling.

use std::path::Path;

use paravt_suite::frames::FrameSource;
use paravt_suite::media::VideoRequest;
use paravt_suite::message::{Message, Part, Role};
use paravt_suite::protocol::{Protocol, render};
use serde_json::{Value, json};

use crate::traces::{CROP_FRAMES, Piece, Turn};

/// A conversation's JSON; `video` is the path below the root.
pub(crate) fn messages(turns: &[Turn], video: &str) -> Value {
    let url = format!("file://{video}");
    let part = |piece: &Piece| match piece {
        Piece::Text(text) => json!({"type": "text", "text": text}),
        Piece::Overview(nframes) => {
            json!({"type": "video_url", "video_url": {"url": url, "nframes": nframes}})
        }
        Piece::Crop(start, end) => {
            json!({"type": "video_url", "video_url": {"url": url, "video_start": start, "video_end": end}})
        }
    };
    let message = |turn: &Turn| {
        let parts: Vec<Value> = turn.parts.iter().map(part).collect();
        json!({"role": turn.role.as_str(), "content": parts})
    };
    turns.iter().map(message).collect()
}

/// A row's conversation with its frames, labelled as the protocol has it.
///
/// # Errors
/// Other parts than the writer above makes, or a video that cannot be read.
pub fn read_messages(
    value: &Value,
    root: &Path,
    frames: &dyn FrameSource,
    protocol: &Protocol,
) -> Result<Vec<Message>, String> {
    let list = value.as_array().ok_or("a list of messages is needed")?;
    let read = |message: &Value| {
        let role = match message["role"].as_str() {
            Some("system") => Role::System,
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            _ => return Err(format!("role {}: system, user or assistant is needed", message["role"])),
        };
        let pieces = message["content"].as_array().ok_or("content: a list of parts is needed")?;
        // The agent's own messages of text alone are plain strings.
        if let [piece] = pieces.as_slice()
            && let Some(text) = piece["text"].as_str()
        {
            return Ok(Message::text(role, text));
        }
        let mut parts = Vec::new();
        for piece in pieces {
            match piece["text"].as_str() {
                Some(text) => parts.push(Part::Text(text.to_owned())),
                None => parts.extend(frame_parts(&piece["video_url"], root, frames, protocol)?),
            }
        }
        Ok(Message::parts(role, parts))
    };
    list.iter().map(read).collect()
}

fn frame_parts(
    video: &Value,
    root: &Path,
    frames: &dyn FrameSource,
    protocol: &Protocol,
) -> Result<Vec<Part>, String> {
    let url = video["url"].as_str().ok_or("a part is neither text nor video_url")?;
    let path = root.join(url.strip_prefix("file://").unwrap_or(url));
    let request =
        match (video["nframes"].as_u64(), video["video_start"].as_f64(), video["video_end"].as_f64()) {
            (Some(nframes), _, _) => VideoRequest::overview(nframes as usize),
            (None, Some(start), Some(end)) => VideoRequest::crop(start, end, CROP_FRAMES),
            _ => return Err(format!("{url}: neither nframes nor video_start and video_end")),
        };
    let set = frames.frames(&path, &request).map_err(|error| format!("{}: {error}", path.display()))?;
    render::frame_parts(protocol, &set.images).map_err(|error| error.to_string())
}
