//! Fingerprints of what a model is shown at the start of a conversation, to find where two runs part.

use serde::{Deserialize, Serialize};

use crate::message::{Content, Image, Message, Part, Role};

/// Hexadecimal digits of a hash: 64 bits, in which no two of a million inputs meet.
const DIGITS: usize = 16;

/// What the opening of a conversation shows: hashes are the first 16 digits of SHA-256.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fingerprint {
    /// Hash of the system text and the question's text, without labels of frames.
    pub text: String,
    /// Hash of the frames' indices in the video; absent where no frames are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<String>,
    /// Number of frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Width and height of the first frame in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<(u32, u32)>,
    /// Hashes of the encoded bytes of the first and the last frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<(String, String)>,
}

impl Fingerprint {
    /// Of an opening: system text, frames, question.
    pub fn of(opening: &[Message]) -> Self {
        let texts: Vec<&str> = opening.iter().filter_map(|message| last_text(&message.content)).collect();
        let images: Vec<&Image> = opening
            .iter()
            .filter(|message| message.role == Role::User)
            .filter_map(|message| match &message.content {
                Content::Parts(parts) => Some(parts),
                Content::Text(_) => None,
            })
            .flatten()
            .flat_map(|part| match part {
                Part::Image(image) => std::slice::from_ref(image),
                Part::Frames(frames) => &frames.images,
                Part::Text(_) | Part::Video(_) => &[],
            })
            .map(|image| &**image)
            .collect();
        let frames = images.iter().map(|image| {
            (image.origin.map_or(usize::MAX, |origin| origin.index), (image.width, image.height))
        });
        let ends = images.first().zip(images.last());
        let bytes = ends.map(|(first, last)| (short(&first.bytes), short(&last.bytes)));
        Self { bytes, ..Self::of_parts(texts, frames) }
    }

    /// Of texts and frames (index, size), without the frames' bytes.
    pub fn of_parts<'a>(
        texts: impl IntoIterator<Item = &'a str>,
        frames: impl IntoIterator<Item = (usize, (u32, u32))>,
    ) -> Self {
        // No text holds the separator.
        let text = short(texts.into_iter().collect::<Vec<_>>().join("\0").as_bytes());
        let (indices, sizes): (Vec<String>, Vec<(u32, u32)>) =
            frames.into_iter().map(|(index, size)| (index.to_string(), size)).unzip();
        let any = !indices.is_empty();
        Self {
            text,
            frames: any.then(|| short(indices.join(",").as_bytes())),
            count: any.then_some(indices.len()),
            size: sizes.first().copied(),
            bytes: None,
        }
    }
}

fn last_text(content: &Content) -> Option<&str> {
    match content {
        Content::Text(text) => Some(text),
        Content::Parts(parts) => parts.iter().rev().find_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Image(_) | Part::Frames(_) | Part::Video(_) => None,
        }),
    }
}

fn short(bytes: &[u8]) -> String {
    let mut hash = paravt_files::sha256(bytes);
    hash.truncate(DIGITS);
    hash
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::message::FrameOrigin;

    fn opening(question: &str, frames: &[(usize, u32, u8)]) -> Vec<Message> {
        let frames = frames.iter().flat_map(|(index, width, byte)| {
            let origin = Some(FrameOrigin { index: *index, time: 0.0 });
            let image = Image::new("image/jpeg", vec![*byte], *width, 28, origin);
            [Part::Text(format!("frame {index}")), Part::Image(Arc::new(image))]
        });
        let parts = frames.chain([Part::Text(question.to_owned())]).collect();
        vec![Message::text(Role::System, "Answer."), Message::parts(Role::User, parts)]
    }

    #[test]
    fn each_part_of_the_input_moves_its_own_fingerprint() {
        let base = Fingerprint::of(&opening("Q?", &[(0, 28, 1), (9, 28, 2)]));
        // `printf 'Answer.\0Q?' | sha256sum`, `printf '0,9' | sha256sum`.
        assert_eq!((base.count, base.size), (Some(2), Some((28, 28))));
        assert_eq!((&*base.text, base.frames.as_deref()), ("ceb62c8620f3ada2", Some("8c33cd0a95f8ada0")));
        let text = Fingerprint::of(&opening("R?", &[(0, 28, 1), (9, 28, 2)]));
        assert_eq!(Fingerprint { text: base.text.clone(), ..text.clone() }, base);
        assert_ne!(text.text, base.text);
        let frames = Fingerprint::of(&opening("Q?", &[(0, 28, 1), (8, 28, 2)]));
        assert_eq!(Fingerprint { frames: base.frames.clone(), ..frames.clone() }, base);
        assert_ne!(frames.frames, base.frames);
        let size = Fingerprint::of(&opening("Q?", &[(0, 56, 1), (9, 56, 2)]));
        assert_eq!(Fingerprint { size: base.size, ..size.clone() }, base);
        let bytes = Fingerprint::of(&opening("Q?", &[(0, 28, 1), (9, 28, 3)]));
        assert_eq!(Fingerprint { bytes: base.bytes.clone(), ..bytes.clone() }, base);
        assert_ne!(bytes.bytes, base.bytes);
        let blind = Fingerprint::of(&opening("Q?", &[]));
        assert_eq!(blind, Fingerprint { text: base.text, ..Fingerprint::default() });
    }
}
