//! Whether a server shows the model what a request holds: the tokens that it counts against those that were planned.
//!
//! vLLM samples videos itself and answers requests whose settings it does not know with status 200, so that a run may
//! see half of its frames and look like any other. The first request with a video asks for the token ids of its prompt:
//! in one of Qwen3-VL each pair of frames is one run of the video's placeholder.

use std::fmt;
use std::path::{Path, PathBuf};

use paravt_suite::backend::{Completion, Request};
use paravt_suite::media::smart_resize;
use paravt_suite::tokens::PromptTokens;
use serde_json::{Value, json};

/// Placeholder of a video in Qwen's prompts.
pub(crate) const PLACEHOLDER: &str = "<|video_pad|>";

/// What a request says that the model sees of its video.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Planned {
    pub frames: usize,
    /// Width and height of a frame, where it is encoded here.
    pub size: Option<(u32, u32)>,
    /// The server's processor leaves it.
    pub keep_size: bool,
    /// Name of the video, where it goes out by reference.
    pub file: Option<String>,
}

/// The plan of a request whose prompt tells whether the server follows it: frames that are sent, or a video with more
/// frames than are planned.
pub(crate) async fn telling(request: &Request) -> Option<Planned> {
    if let Some(frames) = crate::body::frames(request).next() {
        let size = frames.images.first().map(|image| (image.width, image.height));
        let keep_size = frames.keep_size;
        return Some(Planned { frames: frames.images.len(), size, keep_size, file: None });
    }
    let video = only(request.videos())?;
    let planned = video.nframes?;
    let path: PathBuf = video.path.clone();
    let info = tokio::task::spawn_blocking(move || paravt_suite::media::probe(&path)).await.ok()?.ok()?;
    let file = video.path.file_name().map(|name| name.to_string_lossy().into_owned());
    (info.frames > planned).then_some(Planned { frames: planned, size: None, keep_size: false, file })
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
pub(crate) struct PromptVideo {
    /// Pairs of frames.
    pub pairs: usize,
    /// Visual tokens of all.
    pub tokens: usize,
}

/// Pairs of frames and their tokens in a prompt of Qwen3-VL; `None` for a prompt that does not tell (Qwen2.5-VL's has
/// one run a video).
pub(crate) fn read_prompt(prompt: &Value, placeholder: &Value) -> Option<PromptVideo> {
    let prompt = prompt.as_array()?;
    let runs = prompt.iter().enumerate().filter(|(place, id)| {
        let before = place.checked_sub(1).map(|before| &prompt[before]);
        *id == placeholder && before != Some(placeholder)
    });
    let tokens = prompt.iter().filter(|id| *id == placeholder).count();
    Some(PromptVideo { pairs: runs.count(), tokens }).filter(|shown| shown.pairs > 1)
}

/// How a server's video processor sizes frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VideoProcessor {
    /// Pixels along a side of a visual token.
    pub side: u32,
    /// Fewest pixels of all frames of a video together.
    pub min: f64,
    /// Most pixels of all frames of a video together.
    pub max: f64,
}

/// That of Qwen3-VL (`video_preprocessor_config.json` of Qwen/Qwen3-VL-8B-Instruct).
impl Default for VideoProcessor {
    fn default() -> Self {
        Self { side: 32, min: 4096.0, max: 25_165_824.0 }
    }
}

impl VideoProcessor {
    /// That of a model's `video_preprocessor_config.json`.
    ///
    /// # Errors
    /// The file cannot be read, or lacks a field.
    pub fn read(path: &Path) -> Result<Self, String> {
        let named = |why: String| format!("{}: {why}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
        let config: Value = serde_json::from_str(&text).map_err(|error| named(error.to_string()))?;
        let number = |pointer: &str| {
            let found = config.pointer(pointer).and_then(Value::as_f64).filter(|number| *number >= 1.0);
            found.ok_or_else(|| named(format!("no positive number at {pointer}")))
        };
        let side = (number("/patch_size")? * number("/merge_size")?) as u32;
        Ok(Self { side, min: number("/size/shortest_edge")?, max: number("/size/longest_edge")? })
    }

    /// Visual tokens of pairs of frames of one size; `None` for sides that no processor takes.
    fn tokens(&self, pairs: usize, (width, height): (u32, u32)) -> Option<usize> {
        let frames = (2 * pairs) as f64;
        let size = smart_resize(width, height, self.side, self.min / frames, self.max / frames);
        let (width, height) = size.ok()?;
        Some(pairs * (width / self.side * (height / self.side)) as usize)
    }
}

/// Why a run on this video would not be the planned one.
pub(crate) fn other_than_planned(
    planned: &Planned,
    shown: PromptVideo,
    processor: &VideoProcessor,
) -> Option<String> {
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
    let unbounded = VideoProcessor { min: 0.0, max: f64::INFINITY, ..*processor };
    let processor = if planned.keep_size { &unbounded } else { processor };
    let tokens = processor.tokens(pairs, (width, height)).filter(|tokens| *tokens != shown.tokens)?;
    Some(format!(
        "the server shows the model {} visual tokens of a video of {frames} frames of {width}x{height}, where {tokens} are \
         planned: start vLLM without a size of its own (--mm-processor-kwargs), or name the model's \
         video_preprocessor_config.json with --video-processor",
        shown.tokens
    ))
}

/// A prompt of which a server counts less than half of the forecast.
pub(crate) struct Short {
    pub forecast: PromptTokens,
    /// Tokens that the server counts.
    pub counted: u64,
}

/// Whether a reply counts less than half of the tokens that its request has by the forecast, or less than a token for
/// each image. SGLang, which samples a video's frames twice, counts a little more than half.
pub(crate) fn short_prompt(request: &Request, completion: &Completion) -> Option<Short> {
    let (forecast, counted) = (PromptTokens::of(request), completion.usage?.prompt_tokens);
    let short = counted < forecast.images || 2 * counted < forecast.total();
    (counted > 0 && short).then_some(Short { forecast, counted })
}

impl Short {
    /// The count is about that of the text: the server does not count images, or shows none.
    pub(crate) fn is_text_alone(&self) -> bool {
        let PromptTokens { text, images, .. } = self.forecast;
        self.counted >= images && (text / 2..=2 * text).contains(&self.counted)
    }
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { forecast, counted } = self;
        let images = forecast.images;
        write!(
            f,
            "the server counts {counted} tokens in a prompt of about {} with {images} images: ",
            forecast.total()
        )?;
        f.write_str(if *counted < images {
            "it does not show them to the model"
        } else if self.is_text_alone() {
            "about those of its text, so that it counts no images or shows none to the model"
        } else {
            "it may cut prompts to its context (Ollama: num_ctx; LM Studio: context length), unless its model takes fewer \
             tokens an image than Qwen3-VL"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_the_placeholder_are_pairs_of_frames() {
        let pad = json!(6);
        let of = |prompt: Value| read_prompt(&prompt, &pad);
        assert_eq!(of(json!([1, 6, 6, 4, 9, 3, 6, 6, 4, 6])), Some(PromptVideo { pairs: 3, tokens: 5 }));
        assert_eq!(of(json!([6, 6, 6, 6, 2])), None, "one run says nothing");
        assert_eq!(of(json!([1, 2])), None);
        assert_eq!(of(Value::Null), None);
    }

    #[test]
    fn a_video_with_other_frames_than_planned_is_refused_with_the_flag() {
        let video = |frames| Planned { frames, size: None, keep_size: false, file: Some("a.mp4".to_owned()) };
        let seen = |pairs, tokens| PromptVideo { pairs, tokens };
        let why = |planned: &Planned, shown| other_than_planned(planned, shown, &VideoProcessor::default());
        assert_eq!(why(&video(64), seen(32, 9)), None);
        assert_eq!(why(&video(7), seen(4, 9)), None);
        let found = why(&video(64), seen(16, 9)).unwrap();
        assert!(
            found.contains("about 32 frames of a.mp4, where 64") && found.contains("\"num_frames\": 64"),
            "{found}"
        );
        let sent = Planned { frames: 8, size: Some((96, 64)), keep_size: false, file: None };
        assert_eq!(why(&sent, seen(4, 24)), None);
        let found = why(&sent, seen(2, 12)).unwrap();
        assert!(found.contains("about 4 frames of a video of frames") && found.contains("-1"), "{found}");
        let kept = Planned { frames: 768, size: Some((448, 256)), keep_size: true, file: None };
        assert_eq!(why(&kept, seen(384, 384 * 14 * 8)), None);
        assert!(why(&Planned { keep_size: false, ..kept }, seen(384, 384 * 14 * 8)).is_some());
        let found = why(&sent, seen(4, 16)).unwrap();
        assert!(found.contains("16 visual tokens") && found.contains("where 24 are planned"), "{found}");
    }

    /// Tokens that `Qwen3VLVideoProcessor` of transformers 5.19 gives.
    #[test]
    fn visual_tokens_are_those_of_the_processor() {
        let of = |max: f64, frames: usize, size| {
            VideoProcessor { max, ..VideoProcessor::default() }.tokens(frames / 2, size)
        };
        let most = VideoProcessor::default().max;
        assert_eq!(of(most, 64, (616, 364)), Some(32 * 19 * 11));
        assert_eq!(of(most, 8, (336, 336)), Some(4 * 10 * 10), "10.5 is rounded to even");
        assert_eq!(of(262_144.0, 8, (336, 336)), Some(4 * 5 * 5));
        assert_eq!(of(most, 64, (1280, 720)), Some(32 * 26 * 14));
    }

    #[test]
    fn a_processor_is_read_from_the_models_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("video_preprocessor_config.json");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write(
            r#"{"patch_size": 16, "merge_size": 2, "size": {"shortest_edge": 4096, "longest_edge": 262144}}"#,
        );
        assert_eq!(VideoProcessor::read(&path), Ok(VideoProcessor { side: 32, min: 4096.0, max: 262_144.0 }));
        write(r#"{"patch_size": 16, "merge_size": 2, "size": {"shortest_edge": 4096}}"#);
        let why = VideoProcessor::read(&path).unwrap_err();
        assert!(why.ends_with("no positive number at /size/longest_edge"), "{why}");
    }

    #[test]
    fn a_probe_is_the_request_with_one_token() {
        let body = br#"{"model":"m","max_tokens":192,"stream":true,"stream_options":{},"seed":1}"#;
        let probe: Value = serde_json::from_slice(&probe(body).unwrap()).unwrap();
        assert_eq!(probe, json!({"model": "m", "max_tokens": 1, "seed": 1, "return_token_ids": true}));
    }
}
