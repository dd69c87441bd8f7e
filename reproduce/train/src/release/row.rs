use std::path::{Path, PathBuf};

use paravt_suite::message::{Content, Message, Part};
use serde_json::Value;

/// Why the released loader drops a row: the exception that the row raises.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LeftOut(String);

impl LeftOut {
    pub(crate) fn new(reason: impl ToString) -> Self {
        Self(reason.to_string())
    }
}

/// A row of `paravt_sft_*.parquet` as `load_from_json` reads it (`qwen3_vl_iterable_dataset.py:19-55`).
#[derive(Debug, Clone)]
pub struct ReleaseRow(pub Vec<ReleaseMessage>);

/// One message of a row.
#[derive(Debug, Clone)]
pub struct ReleaseMessage {
    /// Any name; all but `system` and `user` are trained.
    pub role: String,
    /// Its content, in order.
    pub parts: Vec<ReleasePart>,
}

/// One part of a message.
#[derive(Debug, Clone)]
pub enum ReleasePart {
    /// Text, taken as it is.
    Text(String),
    /// An image file.
    Image(PathBuf),
    /// The bytes of an image that is in memory already.
    ImageBytes(Vec<u8>),
    /// A video file.
    Video(PathBuf),
}

impl ReleaseRow {
    /// Reads the value of the column `messages`; a medium's relative path lies below `root`.
    ///
    /// Unlike the suite's conversations: any role, content only as a list of parts, and text of a part of any
    /// type other than image, video or audio.
    ///
    /// # Errors
    /// What raises in the released loader: a content that is a string, a part without text, no message.
    pub fn of_json(messages: &Value, root: &Path) -> Result<Self, LeftOut> {
        let list = messages.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| LeftOut::new("the row has no messages"))?;
        let read = |(number, message): (usize, &Value)| {
            read_message(message, root)
                .map_err(|reason| LeftOut::new(format!("message {}: {reason}", number + 1)))
        };
        list.iter().enumerate().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The same conversation, a content of plain text as one part.
    pub fn of_messages(messages: &[Message]) -> Self {
        let part = |part: &Part| match part {
            Part::Text(text) => ReleasePart::Text(text.clone()),
            Part::Image(image) => ReleasePart::ImageBytes(image.bytes.clone()),
            Part::Video(video) => ReleasePart::Video(video.path.clone()),
        };
        let message = |message: &Message| ReleaseMessage {
            role: message.role.as_str().to_owned(),
            parts: match &message.content {
                Content::Text(text) => vec![ReleasePart::Text(text.clone())],
                Content::Parts(parts) => parts.iter().map(part).collect(),
            },
        };
        Self(messages.iter().map(message).collect())
    }
}

fn read_message(message: &Value, root: &Path) -> Result<ReleaseMessage, String> {
    let role = message["role"].as_str().ok_or("it has no role")?.to_owned();
    let parts = message["content"].as_array().ok_or("its content is not a list of parts")?;
    let parts = parts.iter().map(|part| read_part(part, root)).collect::<Result<_, _>>()?;
    Ok(ReleaseMessage { role, parts })
}

fn read_part(part: &Value, root: &Path) -> Result<ReleasePart, String> {
    let kind = part["type"].as_str().ok_or("a part has no type")?;
    let url = || part[kind]["url"].as_str().ok_or_else(|| format!("a part of type `{kind}` has no url"));
    let path = |url: &str| root.join(url.strip_prefix("file://").unwrap_or(url));
    Ok(match kind {
        "image_url" => ReleasePart::Image(path(url()?)),
        "video_url" => ReleasePart::Video(path(url()?)),
        // The template writes a placeholder that no Qwen3-VL tokenizer knows.
        "audio_url" => url().map(|_| ReleasePart::Text("<|AUDIO|>\n".to_owned()))?,
        _ => match part.get("text") {
            Some(Value::String(text)) => ReleasePart::Text(text.clone()),
            Some(Value::Null) => ReleasePart::Text("None".to_owned()),
            _ => return Err(format!("a part of type `{kind}` has no text")),
        },
    })
}
