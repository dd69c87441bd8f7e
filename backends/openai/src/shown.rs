//! Whether a server shows the model what a request holds: the tokens that it counts against those that were planned.
//!
//! vLLM samples videos itself and answers requests whose settings it does not know with status 200, so that a run may
//! see half of its frames and look like any other. The first request with a video asks for the token ids of its prompt:
//! in one of Qwen3-VL each pair of frames is one run of the video's placeholder.

use std::path::PathBuf;

use paravt_suite::backend::{Completion, Request};
use paravt_suite::message::{Content, Part};
use serde_json::{Value, json};

/// Placeholder of a video in Qwen's prompts.
pub(crate) const PLACEHOLDER: &str = "<|video_pad|>";

/// What a request says that the model sees of its video.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Frames.
    pub frames: usize,
    /// Width and height of a frame, where it is encoded here.
    pub size: Option<(u32, u32)>,
    /// Name of the video, where it goes out by reference.
    pub file: Option<String>,
}

/// The plan of a request whose prompt tells whether the server follows it: frames that are sent, or a video with more
/// frames than are planned.
pub(crate) async fn telling(request: &Request) -> Option<Planned> {
    if let Some(frames) = crate::body::frames(request) {
        let size = frames.0.first().map(|image| (image.width, image.height));
        return Some(Planned { frames: frames.0.len(), size, file: None });
    }
    let video = only(request.videos())?;
    let planned = video.nframes?;
    let path: PathBuf = video.path.clone();
    let info = tokio::task::spawn_blocking(move || paravt_suite::media::probe(&path)).await.ok()?.ok()?;
    let file = video.path.file_name().map(|name| name.to_string_lossy().into_owned());
    (info.frames > planned).then_some(Planned { frames: planned, size: None, file })
}

fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

/// The same request with one token to generate and the ids of its prompt in the reply.
pub(crate) fn probe(body: &[u8]) -> Option<Vec<u8>> {
    let mut body: Value = serde_json::from_slice(body).ok()?;
    body["max_tokens"] = json!(1);
    body["return_token_ids"] = json!(true);
    for field in ["stream", "stream_options"] {
        body.as_object_mut()?.remove(field);
    }
    serde_json::to_vec(&body).ok()
}

/// What a prompt of Qwen3-VL shows of a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Pairs of frames.
    pub pairs: usize,
    /// Visual tokens of all.
    pub tokens: usize,
}

/// Pairs of frames and their tokens in a prompt of Qwen3-VL; `None` for a prompt that does not tell (Qwen2.5-VL's has
/// one run a video).
pub(crate) fn shown(prompt: &Value, placeholder: &Value) -> Option<Shown> {
    let prompt = prompt.as_array()?;
    let runs = prompt.iter().enumerate().filter(|(place, id)| {
        let before = place.checked_sub(1).map(|before| &prompt[before]);
        *id == placeholder && before != Some(placeholder)
    });
    let tokens = prompt.iter().filter(|id| *id == placeholder).count();
    Some(Shown { pairs: runs.count(), tokens }).filter(|shown| shown.pairs > 1)
}

/// Pixels along a side of a visual token of Qwen3-VL: patches of 16, merged two by two.
const TOKEN_SIDE: u32 = 32;

/// Why a run on this video would not be the planned one.
pub(crate) fn other_than_planned(planned: &Planned, shown: Shown) -> Option<String> {
    let (frames, pairs) = (planned.frames, planned.frames.div_ceil(2));
    if shown.pairs != pairs {
        let remedy = match &planned.file {
            Some(_) => format!("{{\"video\": {{\"num_frames\": {frames}}}}}"),
            None => "{\"video\": {\"num_frames\": -1}}".to_owned(),
        };
        return Some(format!(
            "the server shows the model about {} frames of {}, where {frames} are planned: start vLLM with \
             --media-io-kwargs '{remedy}'",
            2 * shown.pairs,
            planned.file.as_deref().unwrap_or("a video of frames"),
        ));
    }
    let (width, height) = planned.size?;
    let tokens = pairs * (width / TOKEN_SIDE * (height / TOKEN_SIDE)) as usize;
    (shown.tokens != tokens && width % TOKEN_SIDE == 0 && height % TOKEN_SIDE == 0).then(|| {
        format!(
            "the server shows the model {} visual tokens of a video of {frames} frames of {width}x{height}, where {tokens} \
             are planned: its processor resizes them; raise its bound (--mm-processor-kwargs '{{\"size\": …}}') or use \
             --channel image",
            shown.tokens
        )
    })
}

/// Whether a reply counts less than a token for each image of its request: the model saw none of them.
pub(crate) fn hides_images(request: &Request, completion: &Completion) -> Option<(usize, u64)> {
    let images = |content: &Content| match content {
        Content::Parts(parts) => parts.iter().filter(|part| matches!(part, Part::Image(_))).count(),
        Content::Text(_) => 0,
    };
    let images: usize = request.messages.iter().map(|message| images(&message.content)).sum();
    let counted = completion.usage?.prompt_tokens;
    (counted > 0 && counted < images as u64).then_some((images, counted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_the_placeholder_are_pairs_of_frames() {
        let pad = json!(6);
        let of = |prompt: Value| shown(&prompt, &pad);
        assert_eq!(of(json!([1, 6, 6, 4, 9, 3, 6, 6, 4, 6])), Some(Shown { pairs: 3, tokens: 5 }));
        assert_eq!(of(json!([6, 6, 6, 6, 2])), None, "one run says nothing");
        assert_eq!(of(json!([1, 2])), None);
        assert_eq!(of(Value::Null), None);
    }

    #[test]
    fn a_video_with_other_frames_than_planned_is_refused_with_the_flag() {
        let video = |frames| Planned { frames, size: None, file: Some("a.mp4".to_owned()) };
        let seen = |pairs, tokens| Shown { pairs, tokens };
        assert_eq!(other_than_planned(&video(64), seen(32, 9)), None);
        assert_eq!(other_than_planned(&video(7), seen(4, 9)), None);
        let why = other_than_planned(&video(64), seen(16, 9)).unwrap();
        assert!(
            why.contains("about 32 frames of a.mp4, where 64") && why.contains("\"num_frames\": 64"),
            "{why}"
        );
        let sent = Planned { frames: 8, size: Some((96, 64)), file: None };
        assert_eq!(other_than_planned(&sent, seen(4, 24)), None);
        let why = other_than_planned(&sent, seen(2, 12)).unwrap();
        assert!(why.contains("about 4 frames of a video of frames") && why.contains("-1"), "{why}");
        let why = other_than_planned(&sent, seen(4, 16)).unwrap();
        assert!(why.contains("16 visual tokens") && why.contains("where 24 are planned"), "{why}");
    }

    #[test]
    fn a_probe_is_the_request_with_one_token() {
        let body = br#"{"model":"m","max_tokens":192,"stream":true,"stream_options":{},"seed":1}"#;
        let probe: Value = serde_json::from_slice(&probe(body).unwrap()).unwrap();
        assert_eq!(probe, json!({"model": "m", "max_tokens": 1, "seed": 1, "return_token_ids": true}));
    }
}
