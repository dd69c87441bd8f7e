//! Conversations as files: the JSON of an OpenAI-style message list.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use serde_json::Value;

use crate::message::{Content, Image, Message, Part, Role, Spread, VideoPart, read_image};

/// Why a conversation cannot be read. Messages and parts are counted from 1.
#[derive(Debug, thiserror::Error)]
#[error("message {message}: {problem}")]
pub struct ConversationError {
    message: usize,
    problem: String,
}

/// Reads a list of messages, or an object with `messages`.
///
/// Images may be `file://` paths or `data:` URLs, videos `file://` paths.
///
/// # Errors
/// An unknown role or part, broken base64, a file that is not there.
pub fn parse_conversation(value: &Value) -> Result<Vec<Message>, ConversationError> {
    let list = value.get("messages").unwrap_or(value).as_array();
    let list = list.filter(|list| !list.is_empty()).ok_or_else(|| ConversationError {
        message: 1,
        problem: "expected a non-empty list of messages, or an object with such a list in `messages`"
            .to_owned(),
    })?;
    let parse = |(number, value)| {
        message(value).map_err(|problem| ConversationError { message: number + 1, problem })
    };
    list.iter().enumerate().map(parse).collect()
}

fn message(value: &Value) -> Result<Message, String> {
    let role = match value["role"].as_str() {
        Some("system") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err(format!("role: expected system, user or assistant, found {}", value["role"])),
    };
    let content = match &value["content"] {
        Value::String(text) => Content::Text(text.clone()),
        Value::Array(parts) => Content::Parts(
            parts
                .iter()
                .enumerate()
                .map(|(number, value)| {
                    part(value).map_err(|problem| format!("part {}: {problem}", number + 1))
                })
                .collect::<Result<_, _>>()?,
        ),
        _ => return Err("content: expected a text or a list of parts".to_owned()),
    };
    Ok(match content {
        Content::Text(text) => Message::text(role, text),
        Content::Parts(parts) => Message::parts(role, parts),
    })
}

fn part(value: &Value) -> Result<Part, String> {
    let url = |kind: &str| {
        let found = value[kind]["url"].as_str().or_else(|| value[kind].as_str());
        found.ok_or_else(|| format!("{kind}: missing `url`"))
    };
    match value["type"].as_str() {
        Some("text") => {
            let text = value["text"].as_str().ok_or("text: missing `text`")?;
            Ok(Part::Text(text.to_owned()))
        }
        Some("image_url") => image(url("image_url")?).map(|image| Part::Image(Arc::new(image))),
        Some("video_url") => {
            let path = file(url("video_url")?)?;
            Ok(Part::Video(VideoPart { path, nframes: None, spread: Spread::default() }))
        }
        _ => Err(format!("type: expected text, image_url or video_url, found {}", value["type"])),
    }
}

fn file(url: &str) -> Result<PathBuf, String> {
    let path = url.strip_prefix("file://").ok_or_else(|| {
        let start: String = url.chars().take(40).collect();
        format!("`{start}`: expected a file:// URL, or data: for an image; nothing is downloaded")
    })?;
    let path = Path::new(path);
    if path.is_file() { Ok(path.to_owned()) } else { Err(format!("{}: no such file", path.display())) }
}

fn image(url: &str) -> Result<Image, String> {
    if let Some(rest) = url.strip_prefix("data:") {
        let (mime, data) = rest.split_once(";base64,").ok_or("data URL: missing `;base64,`")?;
        if !mime.starts_with("image/") || mime.contains(['"', '\\']) {
            return Err(format!("`{mime}` is not an image type"));
        }
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(data)
            .map_err(|error| format!("base64: {error}"))?;
        return Ok(Image::new(mime, bytes, 0, 0, None));
    }
    let path = file(url)?;
    let (mime, bytes) = read_image(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Image::new(mime, bytes, 0, 0, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_images_and_videos_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let video = dir.path().join("v.mp4");
        std::fs::write(&video, "x").unwrap();
        let found = parse_conversation(&json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQID"}},
                {"type": "video_url", "video_url": {"url": format!("file://{}", video.display())}},
                {"type": "text", "text": "t"},
            ]},
        ]))
        .unwrap();
        let Content::Parts(parts) = &found[1].content else { panic!() };
        assert!(matches!(&parts[0], Part::Image(image) if image.bytes == [1, 2, 3]));
        assert!(matches!(&parts[1], Part::Video(part) if part.path == video));
    }

    #[test]
    fn mistakes_are_named_by_message_and_part() {
        let problem = |value: Value| parse_conversation(&value).unwrap_err().to_string();
        let user = |part: Value| json!([{"role": "user", "content": [part]}]);
        assert!(problem(json!([])).contains("non-empty"));
        assert!(problem(json!([{"role": "robot", "content": ""}])).contains("message 1: role"));
        assert!(problem(user(json!({"type": "audio"}))).contains("part 1: type"));
        let image = |url: &str| user(json!({"type": "image_url", "image_url": {"url": url}}));
        assert!(problem(image("http://example.org/a.png")).contains("nothing is downloaded"));
        assert!(problem(image("data:image/png;base64,???")).contains("base64"));
        assert!(problem(image("file:///nowhere.png")).contains("no such file"));
    }
}
