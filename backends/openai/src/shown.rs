//! Whether a server shows the model what a request holds: the tokens that it counts against those that were planned.
//!
//! vLLM samples videos itself and answers requests whose settings it does not know with status 200, so that a run may
//! see half of its frames and look like any other. The first request with a video asks for the token ids of its prompt:
//! in one of Qwen3-VL each pair of frames is one run of the video's placeholder, in one of Qwen2.5-VL all of them are.

use std::fmt;
use std::path::{Path, PathBuf};

use paravt_suite::backend::{Completion, Request};
use paravt_suite::media::smart_resize;
use paravt_suite::tokens::PromptTokens;
use serde_json::{Value, json};

use crate::about::media_settings;

/// Placeholder of a video in Qwen's prompts.
pub(crate) const PLACEHOLDER: &str = "<|video_pad|>";

/// What a request says that the model sees of its video.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Planned {
    pub frames: usize,
    /// Width and height of a frame.
    pub size: (u32, u32),
    /// The server's processor leaves it.
    pub keep_size: bool,
    /// The video, where it goes out by reference.
    pub file: Option<File>,
}

/// A video whose frames the server samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub name: String,
    /// Its frames where a number of them is passed over: two a second, at most 768.
    pub at_a_rate: usize,
}

/// The plan of a request whose prompt tells whether the server follows it: frames that are sent, or a video with more
/// frames than are planned.
pub(crate) async fn telling(request: &Request) -> Option<Planned> {
    if let Some(frames) = crate::body::frames(request).next() {
        let (count, keep_size) = (frames.images.len(), frames.keep_size);
        let first = frames.images.first()?;
        return Some(Planned { frames: count, size: (first.width, first.height), keep_size, file: None });
    }
    let video = only(request.videos())?;
    let planned = video.nframes?;
    let path: PathBuf = video.path.clone();
    let info = tokio::task::spawn_blocking(move || paravt_suite::media::probe(&path)).await.ok()?.ok()?;
    let name = video.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let at_a_rate = ((2.0 * info.duration).round() as usize).clamp(4, 768).min(info.frames);
    let (size, file) = ((info.width, info.height), Some(File { name, at_a_rate }));
    (info.frames > planned).then_some(Planned { frames: planned, size, keep_size: false, file })
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

/// What a prompt shows of a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PromptVideo {
    /// Runs of the placeholder: pairs of frames of Qwen3-VL, one of Qwen2.5-VL.
    pub runs: usize,
    /// Visual tokens of all.
    pub tokens: usize,
}

/// Whether a prompt shows the planned frames.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    AsPlanned,
    /// And what to do.
    Otherwise(String),
    Nothing,
}

/// The runs of the placeholder in a prompt; `None` where there is none.
pub(crate) fn read_prompt(prompt: &Value, placeholder: &Value) -> Option<PromptVideo> {
    let prompt = prompt.as_array()?;
    let runs = prompt.iter().enumerate().filter(|(place, id)| {
        let before = place.checked_sub(1).map(|before| &prompt[before]);
        *id == placeholder && before != Some(placeholder)
    });
    let tokens = prompt.iter().filter(|id| *id == placeholder).count();
    Some(PromptVideo { runs: runs.count(), tokens }).filter(|shown| shown.runs > 0)
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

/// Whether a run on this video would be the planned one; the number of frames is heeded by the loader `video_backend`.
pub(crate) fn compare(
    planned: &Planned,
    shown: PromptVideo,
    processor: &VideoProcessor,
    video_backend: Option<&str>,
) -> Told {
    let (frames, pairs) = (planned.frames, planned.frames.div_ceil(2));
    let other_number = |seen: usize| {
        let remedy = match &planned.file {
            Some(_) => media_settings(video_backend, frames),
            None => json!({"video": {"num_frames": -1}}),
        };
        Told::Otherwise(format!(
            "the server shows the model about {seen} frames of {}, where {frames} are planned: start vLLM with \
             --media-io-kwargs '{remedy}'",
            planned.file.as_ref().map_or("a video of frames", |file| &file.name),
        ))
    };
    if shown.runs == 1 && pairs > 1 {
        let can_be = |pairs| pair_tokens(planned.size).any(|each| pairs * each == shown.tokens);
        return match planned.file.as_ref().map(|file| file.at_a_rate) {
            _ if can_be(pairs) => Told::AsPlanned,
            Some(other) if can_be(other / 2) || can_be(other.div_ceil(2)) => other_number(other),
            _ => Told::Nothing,
        };
    }
    if shown.runs != pairs {
        return other_number(2 * shown.runs);
    }
    let (width, height) = planned.size;
    let unbounded = VideoProcessor { min: 0.0, max: f64::INFINITY, ..*processor };
    let processor = if planned.keep_size { &unbounded } else { processor };
    // How a file's frames are sized is the server's.
    let tokens = processor.tokens(pairs, (width, height)).filter(|_| planned.file.is_none());
    match tokens.filter(|tokens| *tokens != shown.tokens) {
        None => Told::AsPlanned,
        Some(tokens) => Told::Otherwise(format!(
            "the server shows the model {} visual tokens of a video of {frames} frames of {width}x{height}, where {tokens} \
             are planned: start vLLM without a size of its own (--mm-processor-kwargs), or name the model's \
             video_preprocessor_config.json with --video-processor",
            shown.tokens
        )),
    }
}

/// Tokens that a pair of frames can have with Qwen2.5-VL: by the bounds of its folder, by those of transformers, and
/// where its processor leaves frames as they are.
fn pair_tokens((width, height): (u32, u32)) -> impl Iterator<Item = usize> {
    const SIDE: u32 = 28;
    const TOKEN: f64 = 784.0;
    let bounds = [(4.0 * TOKEN, 16_384.0 * TOKEN), (128.0 * TOKEN, 768.0 * TOKEN), (0.0, f64::INFINITY)];
    bounds.into_iter().filter_map(move |(min, max)| {
        let (width, height) = smart_resize(width, height, SIDE, min, max).ok()?;
        Some((width / SIDE * (height / SIDE)) as usize)
    })
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
        assert_eq!(of(json!([1, 6, 6, 4, 9, 3, 6, 6, 4, 6])), Some(PromptVideo { runs: 3, tokens: 5 }));
        assert_eq!(of(json!([6, 6, 6, 6, 2])), Some(PromptVideo { runs: 1, tokens: 4 }));
        assert_eq!(of(json!([1, 2])), None);
        assert_eq!(of(Value::Null), None);
    }

    #[test]
    fn a_video_with_other_frames_than_planned_is_refused_with_the_flag() {
        let file = || Some(File { name: "a.mp4".to_owned(), at_a_rate: 120 });
        let video = |frames| Planned { frames, size: (1280, 720), keep_size: false, file: file() };
        let seen = |runs, tokens| PromptVideo { runs, tokens };
        let told =
            |planned: &Planned, shown| compare(planned, shown, &VideoProcessor::default(), Some("opencv"));
        let why = |planned: &Planned, shown| match told(planned, shown) {
            Told::Otherwise(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(told(&video(64), seen(32, 9)), Told::AsPlanned);
        assert_eq!(told(&video(7), seen(4, 9)), Told::AsPlanned);
        let found = why(&video(64), seen(16, 9));
        assert!(
            found.contains("about 32 frames of a.mp4, where 64") && found.contains("\"num_frames\":64"),
            "{found}"
        );
        let sent = Planned { frames: 8, size: (96, 64), keep_size: false, file: None };
        assert_eq!(told(&sent, seen(4, 24)), Told::AsPlanned);
        let found = why(&sent, seen(2, 12));
        assert!(found.contains("about 4 frames of a video of frames") && found.contains("-1"), "{found}");
        let kept = Planned { frames: 768, size: (448, 256), keep_size: true, file: None };
        assert_eq!(told(&kept, seen(384, 384 * 14 * 8)), Told::AsPlanned);
        why(&Planned { keep_size: false, ..kept }, seen(384, 384 * 14 * 8));
        let found = why(&sent, seen(4, 16));
        assert!(found.contains("16 visual tokens") && found.contains("where 24 are planned"), "{found}");
    }

    /// Of Qwen2.5-VL a frame of 1280 by 720 is 46 by 26 tokens, or at most 768.
    #[test]
    fn one_run_of_all_frames_tells_by_its_length() {
        let file = Some(File { name: "a.mp4".to_owned(), at_a_rate: 120 });
        let video = Planned { frames: 64, size: (1280, 720), keep_size: false, file };
        let told = |tokens| {
            compare(&video, PromptVideo { runs: 1, tokens }, &VideoProcessor::default(), Some("opencv"))
        };
        for each in [46 * 26, 36 * 20] {
            assert_eq!(told(32 * each), Told::AsPlanned);
            let Told::Otherwise(why) = told(60 * each) else { panic!("{each}") };
            assert!(why.contains("about 120 frames of a.mp4") && why.contains("opencv"), "{why}");
        }
        assert_eq!(told(32 * 50), Told::Nothing, "a processor of the user's");
        let sent = Planned { file: None, ..video.clone() };
        let shown = PromptVideo { runs: 1, tokens: 60 * 46 * 26 };
        assert_eq!(compare(&sent, shown, &VideoProcessor::default(), None), Told::Nothing);
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
