//! Whether a server shows the model what a request holds: the tokens that it counts against those that were planned.
//!
//! vLLM samples videos itself and answers requests whose settings it does not know with status 200, so that a run may
//! see half of its frames and look like any other. The first request with a video asks for the token ids of its prompt:
//! in one of Qwen3-VL each pair of frames is one run of the video's placeholder.

use std::path::PathBuf;

use paravt_suite::backend::{Completion, Request};
use paravt_suite::message::{Content, Part, VideoPart};
use serde_json::{Value, json};

/// Placeholder of a video in Qwen's prompts.
pub(crate) const PLACEHOLDER: &str = "<|video_pad|>";

/// A video whose number of sampled frames can be seen: it has more than are planned.
pub(crate) async fn telling(request: &Request) -> Option<(&VideoPart, usize)> {
    let video = only(request.videos())?;
    let planned = video.nframes?;
    let path: PathBuf = video.path.clone();
    let info = tokio::task::spawn_blocking(move || paravt_suite::media::probe(&path)).await.ok()?.ok()?;
    (info.frames > planned).then_some((video, planned))
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

/// Pairs of frames in a prompt of Qwen3-VL; `None` for a prompt that does not tell (Qwen2.5-VL's has one run a video).
pub(crate) fn frame_pairs(prompt: &Value, placeholder: &Value) -> Option<usize> {
    let prompt = prompt.as_array()?;
    let runs = prompt.iter().enumerate().filter(|(place, id)| {
        let before = place.checked_sub(1).map(|before| &prompt[before]);
        *id == placeholder && before != Some(placeholder)
    });
    Some(runs.count()).filter(|runs| *runs > 1)
}

/// Why a run on this video would not be the planned one.
pub(crate) fn other_frames(video: &VideoPart, planned: usize, pairs: usize) -> Option<String> {
    (pairs != planned.div_ceil(2)).then(|| {
        format!(
            "the server shows the model about {} frames of {}, where {planned} are planned: start vLLM with \
             --media-io-kwargs '{{\"video\": {{\"num_frames\": {planned}}}}}'",
            2 * pairs,
            video.path.file_name().unwrap_or_default().display()
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
        assert_eq!(frame_pairs(&json!([1, 6, 6, 4, 9, 3, 6, 6, 4, 6]), &pad), Some(3));
        assert_eq!(frame_pairs(&json!([6, 6, 6, 6, 2]), &pad), None, "one run says nothing");
        assert_eq!(frame_pairs(&json!([1, 2]), &pad), None);
        assert_eq!(frame_pairs(&Value::Null, &pad), None);
    }

    #[test]
    fn a_video_with_other_frames_than_planned_is_refused_with_the_flag() {
        let video = VideoPart { path: "/data/a.mp4".into(), nframes: Some(64), spread: Default::default() };
        assert_eq!(other_frames(&video, 64, 32), None);
        assert_eq!(other_frames(&video, 7, 4), None);
        let why = other_frames(&video, 64, 16).unwrap();
        assert!(
            why.contains("about 32 frames of a.mp4, where 64") && why.contains("\"num_frames\": 64"),
            "{why}"
        );
    }

    #[test]
    fn a_probe_is_the_request_with_one_token() {
        let body = br#"{"model":"m","max_tokens":192,"stream":true,"stream_options":{},"seed":1}"#;
        let probe: Value = serde_json::from_slice(&probe(body).unwrap()).unwrap();
        assert_eq!(probe, json!({"model": "m", "max_tokens": 1, "seed": 1, "return_token_ids": true}));
    }
}
