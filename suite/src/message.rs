//! Conversations as they travel to a backend.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

/// Role of the speaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions.
    System,
    /// Questions and tool responses (the reference driver returns crops as user messages).
    User,
    /// The model.
    Assistant,
    /// The result of a structured call.
    Tool,
}

impl Role {
    /// The name used by the chat completions API.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// One message.
#[derive(Debug, Clone)]
pub struct Message {
    pub role: Role,
    pub content: Content,
    /// Structured calls of an assistant message.
    pub tool_calls: Vec<StructuredCall>,
    /// The call that a message of role `tool` answers.
    pub tool_call_id: Option<String>,
}

/// A call as the chat API carries it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StructuredCall {
    /// Identifier that the result names.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments as the server wrote them; JSON unless the call is malformed.
    pub arguments: String,
}

/// Content of a message. A plain string and a list with one text part are different on the wire
/// and to some chat templates, so both exist.
#[derive(Debug, Clone)]
pub enum Content {
    /// A plain string.
    Text(String),
    Parts(Vec<Part>),
}

/// One part of a message.
#[derive(Debug, Clone)]
pub enum Part {
    Text(String),
    Image(Arc<Image>),
    /// A video that the backend decodes itself (`video_url` on the wire).
    Video(VideoPart),
    /// Frames of one video that were chosen and encoded here (`video_url` with `data:video/jpeg` on the wire).
    Frames(Frames),
}

/// Frames of one video, of one size, each with its position; at least two.
#[derive(Debug, Clone)]
pub struct Frames {
    /// The frames, in their order.
    pub images: Vec<Arc<Image>>,
    /// Frames per second at which they follow on each other to the model, from 0 on, wherever they are in the video;
    /// without it they have their own positions.
    pub even: Option<f64>,
    /// They have the size that the model is to see: its processor resizes none.
    pub keep_size: bool,
}

impl Frames {
    /// Frames with their own positions.
    pub fn placed(images: Vec<Arc<Image>>) -> Self {
        Self { images, even: None, keep_size: false }
    }

    fn origins(&self) -> impl Iterator<Item = FrameOrigin> {
        self.images.iter().filter_map(|image| image.origin)
    }

    fn last(&self) -> Option<FrameOrigin> {
        self.origins().reduce(|a, b| if b.index > a.index { b } else { a })
    }

    /// Indices of the frames in the video, in their order.
    pub fn indices(&self) -> Vec<usize> {
        match self.even {
            Some(_) => (0..self.images.len()).collect(),
            None => self.origins().map(|origin| origin.index).collect(),
        }
    }

    /// Frames of the video up to the last of these; an overview ends with the last frame of all.
    pub fn source_frames(&self) -> usize {
        match self.even {
            Some(_) => self.images.len(),
            None => self.last().map_or(0, |last| last.index + 1),
        }
    }

    /// Frames per second of the video: a model that takes `index / rate` for the time of a frame has that of the last
    /// one exactly, and of all where frames are equally long.
    pub fn rate(&self) -> f64 {
        match (self.even, self.last()) {
            (Some(rate), _) => rate,
            (None, Some(last)) if last.time > 0.0 && last.index > 0 => last.index as f64 / last.time,
            _ => 1.0,
        }
    }
}

/// An encoded image; shared between turns and between questions about one video.
#[derive(Debug)]
pub struct Image {
    /// MIME type, e.g. `image/jpeg`.
    pub mime: String,
    /// The encoded bytes.
    pub bytes: Vec<u8>,
    /// Width in pixels; 0 when unknown.
    pub width: u32,
    /// Height in pixels; 0 when unknown.
    pub height: u32,
    /// Position of the image in the sample's video.
    pub origin: Option<FrameOrigin>,
    data_url: OnceLock<String>,
}

/// Bytes that an image file may have: a photograph of 8K is below 64 MiB in any of the formats.
const MAX_IMAGE: u64 = 64 << 20;

/// MIME type and bytes of an image file.
///
/// # Errors
/// It cannot be read, is too large, or is none of the formats that servers take.
pub(crate) fn read_image(path: &Path) -> Result<(&'static str, Vec<u8>), String> {
    let bytes = paravt_files::read_limited(path, MAX_IMAGE).map_err(|error| error.to_string())?;
    let mime = match bytes.as_slice() {
        [0xff, 0xd8, ..] => "image/jpeg",
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [b'G', b'I', b'F', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return Err("not a JPEG, PNG, GIF or WebP image".to_owned()),
    };
    Ok((mime, bytes))
}

/// Position of a frame in its video.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FrameOrigin {
    /// Zero-based index in presentation order.
    pub index: usize,
    /// Presentation time in seconds.
    pub time: f64,
}

/// A video handed over by reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VideoPart {
    /// Absolute path.
    pub path: PathBuf,
    /// Frames to sample; `None` leaves it to the backend (vLLM 0.17: 32).
    pub nframes: Option<usize>,
    /// Which frames those are, for an engine that samples in process.
    #[serde(default)]
    pub spread: Spread,
}

/// Spacing of a number of frames over the whole video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Equal steps, cut off to whole indices: vLLM's video loader (`np.linspace(…, dtype=int)`).
    Truncated,
    /// Equal steps, rounded to the nearest index: the video processors of transformers.
    #[default]
    Rounded,
}

impl Image {
    /// Wraps encoded bytes.
    pub fn new(mime: &str, bytes: Vec<u8>, width: u32, height: u32, origin: Option<FrameOrigin>) -> Self {
        Self { mime: mime.to_owned(), bytes, width, height, origin, data_url: OnceLock::new() }
    }

    /// `data:` URL of the bytes: made once, because a conversation sends it in every turn, and only for a backend
    /// that sends it.
    pub fn data_url(&self) -> &str {
        use base64::Engine as _;
        self.data_url.get_or_init(|| {
            let mut url = String::with_capacity(32 + self.bytes.len() * 4 / 3);
            url.push_str("data:");
            url.push_str(&self.mime);
            url.push_str(";base64,");
            base64::engine::general_purpose::STANDARD.encode_string(&self.bytes, &mut url);
            url
        })
    }
}

impl Message {
    /// A message of plain text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, content: Content::Text(text.into()), tool_calls: Vec::new(), tool_call_id: None }
    }

    /// A message of parts.
    pub fn parts(role: Role, parts: Vec<Part>) -> Self {
        Self { role, content: Content::Parts(parts), tool_calls: Vec::new(), tool_call_id: None }
    }

    /// An assistant message with structured calls.
    pub fn calls(text: impl Into<String>, tool_calls: Vec<StructuredCall>) -> Self {
        Self { tool_calls, ..Self::text(Role::Assistant, text) }
    }

    /// The result of a structured call.
    pub fn tool_result(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { tool_call_id: Some(id.into()), ..Self::text(Role::Tool, text) }
    }
}
