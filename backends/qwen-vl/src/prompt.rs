//! Conversations to prompts: text by the chat template, media by the processors, positions for both.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use paravt_media::VideoFile;
use paravt_suite::message::{Content, Message, Part, VideoPart};
use rayon::prelude::*;
use serde_json::{Value, json};
use tokenizers::Tokenizer;

use crate::chat::ChatTemplate;
use crate::config::{Config, Family};
use crate::error::Error;
use crate::files::read_json;
use crate::image_cache::ImageCache;
use crate::positions::{Grid, Pace, Run, VideoRule, token_positions};
use crate::processor::{Patches, Pixels, Processor, spread};

/// Model inputs: token ids, positions and visual features.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// The rendered text, placeholders not yet repeated.
    pub text: String,
    /// Token ids, placeholders repeated.
    pub ids: Vec<u32>,
    /// Time, height and width position of each token.
    pub positions: Vec<[u32; 3]>,
    /// Position of the first generated token.
    pub next_position: u32,
    /// Images and videos in order.
    pub media: Vec<Medium>,
}

impl Prompt {
    /// Text alone, by its ids.
    pub fn of_ids(ids: Vec<u32>) -> Self {
        let next_position = ids.len() as u32;
        let positions = (0..next_position).map(|at| [at; 3]).collect();
        Self { text: String::new(), ids, positions, next_position, media: Vec::new() }
    }

    /// The ids with each placeholder once.
    fn short(&self) -> Vec<u32> {
        let (mut short, mut at) = (Vec::with_capacity(self.ids.len()), 0);
        for &(start, length) in self.media.iter().flat_map(|medium| &medium.runs) {
            short.extend_from_slice(&self.ids[at..=start]);
            at = start + length;
        }
        short.extend_from_slice(&self.ids[at..]);
        short
    }
}

/// One image, or one video, in a prompt.
#[derive(Debug, Clone)]
pub struct Medium {
    pub patches: Arc<Patches>,
    /// Identity of its content, for reuse.
    pub key: u64,
    /// Runs of its tokens, start and length (a Qwen3-VL video has one run per frame pair).
    pub runs: Vec<(usize, usize)>,
    pub is_video: bool,
}

impl Medium {
    /// The row of its first token.
    pub fn start(&self) -> usize {
        self.runs.first().map_or(0, |&(start, _)| start)
    }

    /// The row after its last token.
    pub fn end(&self) -> usize {
        self.runs.last().map_or(0, |&(start, length)| start + length)
    }
}

/// Makes prompts for one model.
pub struct Prompter {
    template: ChatTemplate,
    tokenizer: Tokenizer,
    /// Bytes of the vocabulary's longest token.
    longest_token: usize,
    processor: Processor,
    config: Config,
    image_token: String,
    video_token: String,
    images: ImageCache,
}

/// Tokens around the patches of an image or of a pair of frames.
const START: &str = "<|vision_start|>";
const END: &str = "<|vision_end|>";

/// A processed medium and how its placeholder reads.
struct Processed {
    patches: Arc<Patches>,
    key: u64,
    /// Seconds of each frame pair; empty for images.
    times: Vec<f64>,
    /// Seconds between frame pairs; videos only.
    seconds_per_step: Option<f32>,
}

/// Maximum bytes that a tokenizer's normalizers, or decoders, may make of one byte of text.
const MAX_GROWTH: usize = 64;

/// # Errors
/// Replacements that, one after the other, could make far more text of what they are given.
fn check_growth(tokenizer: &Value) -> Result<(), String> {
    for part in ["normalizer", "pre_tokenizer", "decoder"] {
        let growth = growth(&tokenizer[part]);
        if growth > MAX_GROWTH {
            return Err(format!(
                "{part} can make {growth} bytes or more of one; at most {MAX_GROWTH} are supported"
            ));
        }
    }
    Ok(())
}

/// Maximum bytes that a normalizer, pre-tokenizer or decoder, and those inside, make of one; saturating.
fn growth(step: &Value) -> usize {
    let inside = ["normalizers", "pretokenizers", "decoders"];
    let steps = inside.iter().filter_map(|key| step[*key].as_array()).flatten();
    let inner = steps.map(growth).fold(1, usize::saturating_mul);
    let own = match step["type"].as_str() {
        // Also between characters, where the pattern matches nothing.
        Some("Replace") => 1 + step["content"].as_str().map_or(0, str::len),
        Some("Prepend") => 1 + step["prepend"].as_str().map_or(0, str::len),
        Some("Metaspace") => 1 + step["replacement"].as_str().map_or(0, str::len),
        Some("ByteLevel") => 2,
        _ => 1,
    };
    inner.saturating_mul(own)
}

impl Prompter {
    /// Reads template, tokenizer and processors of a model folder.
    ///
    /// # Errors
    /// A missing or wrong file.
    pub fn read(folder: &Path, config: &Config) -> Result<Self, Error> {
        let path = folder.join("tokenizer.json");
        let json = read_json(&path)?;
        check_growth(&json).map_err(|message| Error::file(&path, message))?;
        let mut tokenizer: Tokenizer =
            serde_json::from_value(json).map_err(|error| Error::file(&path, error))?;
        // Of a tokenizer that was once used with them. transformers turns both off unless a call asks for them.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| Error::file(&path, error))?;
        let token = |id: u32| {
            let known = tokenizer.id_to_token(id);
            known.ok_or_else(|| Error::file(&path, format!("no token {id}, which config.json names")))
        };
        Ok(Self {
            template: ChatTemplate::read(folder)?,
            processor: Processor::read(folder, config.family, &config.vision)?,
            image_token: token(config.image_token_id)?,
            video_token: token(config.video_token_id)?,
            config: config.clone(),
            images: ImageCache::default(),
            longest_token: tokenizer.get_vocab(true).keys().map(String::len).max().unwrap_or_default(),
            tokenizer,
        })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The model's sizes and token ids.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The processors.
    pub fn processor(&self) -> &Processor {
        &self.processor
    }

    /// Generated ids as text, special tokens left out.
    ///
    /// # Errors
    /// The tokenizer's decoder fails.
    pub fn decode(&self, ids: &[u32]) -> Result<String, Error> {
        guard(|| self.tokenizer.decode(ids, true))
    }

    /// Ids of a text, placeholders not repeated.
    ///
    /// # Errors
    /// More bytes than the context's tokens can stand for, found before they are tokenised; a tokenizer that fails.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let context = self.config.text.max_position_embeddings;
        if text.len() > context.saturating_mul(self.longest_token) {
            return Err(Error::TextLength { bytes: text.len(), context });
        }
        Ok(guard(|| self.tokenizer.encode_fast(text, false))?.get_ids().to_vec())
    }

    /// Prompt of a conversation.
    ///
    /// # Errors
    /// A medium that cannot be read, a template that raises, placeholders in somebody's words.
    pub fn prompt(&self, messages: &[Message]) -> Result<Prompt, Error> {
        self.prompt_by(None, messages)
    }

    /// As [`Self::prompt`], by another chat template than the model's own.
    ///
    /// # Errors
    /// As [`Self::prompt`], and a template that does not parse.
    pub(crate) fn prompt_by(&self, template: Option<&str>, messages: &[Message]) -> Result<Prompt, Error> {
        let (json, parts) = chat_json(messages);
        let text = match template {
            Some(template) => self.template.with(template)?.render(&json, None)?,
            None => self.template.render(&json, None)?,
        };
        self.expand(text, &parts)
    }

    /// Prompt of a conversation that goes on from another prompt by the tokens that were generated there: those stay as
    /// they are, and what follows them is tokenised on its own. None where the template writes another text there.
    ///
    /// # Errors
    /// As [`Self::prompt`].
    pub fn prompt_after(
        &self,
        before: &Prompt,
        generated: &[u32],
        messages: &[Message],
    ) -> Result<Option<Prompt>, Error> {
        let (json, parts) = chat_json(messages);
        let text = self.template.render(&json, None)?;
        let said = guard(|| self.tokenizer.decode(generated, false))?;
        let Some(tail) = text.strip_prefix(&before.text).and_then(|rest| rest.strip_prefix(&said)) else {
            return Ok(None);
        };
        let media = self.media(&parts)?;
        let Some(added) = media.get(before.media.len()..) else { return Ok(None) };
        let tail = self.encode(&self.with_times(tail, added)?)?;
        self.lay_out(text, &[&before.short()[..], generated, &tail].concat(), &media).map(Some)
    }

    /// A conversation to its end, as training reads it: every turn closed, nothing asked for.
    ///
    /// # Errors
    /// As [`Self::prompt`].
    pub fn whole(&self, messages: &[Message]) -> Result<Prompt, Error> {
        let (json, parts) = chat_json(messages);
        self.expand(self.template.whole(&json)?, &parts)
    }

    /// Prompt of a text whose placeholders stand for these media, in order.
    fn expand(&self, text: String, parts: &[&Part]) -> Result<Prompt, Error> {
        let media = self.media(parts)?;
        let ids = self.encode(&self.with_times(&text, &media)?)?;
        self.lay_out(text, &ids, &media)
    }

    fn media(&self, parts: &[&Part]) -> Result<Vec<Processed>, Error> {
        let media = parts.par_iter().filter_map(|part| self.medium(part).transpose());
        // The first that fails, not the first to fail.
        let media: Vec<Result<Processed, Error>> = media.collect();
        let media = media.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.images.trim(media.iter().map(|medium| medium.patches.size()).sum());
        Ok(media)
    }

    /// A text with the times of its videos, where the family writes them.
    fn with_times<'a>(&self, text: &'a str, media: &[Processed]) -> Result<Cow<'a, str>, Error> {
        if self.config.family == Family::Qwen25 {
            return Ok(text.into());
        }
        let videos = media.iter().filter(|medium| medium.seconds_per_step.is_some());
        let times = videos.map(|video| video.times.as_slice());
        write_times(text, &self.video_token, times, self.config.video_rule).map(Cow::Owned)
    }

    fn medium(&self, part: &Part) -> Result<Option<Processed>, Error> {
        Ok(Some(match part {
            Part::Image(image) => self.image(&image.bytes).map_err(Error::Prompt)?,
            Part::Video(video) => self.video(video)?,
            Part::Frames(frames) => {
                let encoded: Vec<&[u8]> = frames.images.iter().map(|image| image.bytes.as_slice()).collect();
                let pixels =
                    self.processor.video.frames(&encoded, frames.keep_size).map_err(Error::Prompt)?;
                self.frames(&pixels, &frames.indices(), frames.rate(), frames.source_frames())
            }
            Part::Text(_) => return Ok(None),
        }))
    }

    fn image(&self, bytes: &[u8]) -> Result<Processed, String> {
        let key = key_of(bytes);
        let patches = self.images.get(key, || {
            let pixels = Pixels::decode(bytes);
            self.processor
                .image
                .image(&pixels.map_err(|error| format!("an image cannot be decoded: {error}"))?)
        })?;
        Ok(Processed { patches, key, times: Vec::new(), seconds_per_step: None })
    }

    fn video(&self, part: &VideoPart) -> Result<Processed, Error> {
        let fail = |error: &dyn std::fmt::Display| Error::Prompt(format!("{}: {error}", part.path.display()));
        let file = VideoFile::open(&part.path).map_err(|error| fail(&error))?;
        let info = file.info();
        let rules = &self.processor.video;
        // vLLM leaves a video that it has loaded whole to the processor.
        let whole = self.config.video_rule == VideoRule::Vllm && self.config.family == Family::Qwen3;
        let indices = match part.nframes.filter(|count| !whole || *count < info.frames) {
            Some(count) => spread(info.frames, count.clamp(1, info.frames.max(1)), part.spread),
            None => rules.indices(info.frames, info.fps).map_err(|error| fail(&error))?,
        };
        let sized = indices.len().max(self.config.vision.temporal_patch_size);
        let size = rules.frame_size(sized, info.width, info.height).map_err(|error| fail(&error))?;
        let frames = file.frames_at(&indices, size).map_err(|error| fail(&error))?;
        let frames: Vec<Pixels> = frames
            .into_iter()
            .map(|frame| Pixels { width: frame.width, height: frame.height, rgb: frame.rgb })
            .collect();
        Ok(self.frames(&frames, &indices, info.fps, info.frames))
    }

    /// A video of frames that are sampled and sized already.
    fn frames(&self, frames: &[Pixels], indices: &[usize], fps: f64, total: usize) -> Processed {
        let step = self.config.vision.temporal_patch_size;
        let time = |index: usize| indices[index.min(indices.len() - 1)] as f64 / fps;
        let pairs = (0..indices.len()).step_by(step);
        let times = pairs.map(|start| (time(start) + time(start + step - 1)) / 2.0).collect();
        // `sampled_fps` of the reference.
        let sampled = indices.len() as f64 / total as f64 * fps;
        let seconds_per_step = (step as f64 / sampled) as f32;
        let mut hasher = DefaultHasher::new();
        // The same bytes as a wider picture, or at another rate, have other positions.
        frames.iter().for_each(|frame| (frame.width, frame.height, &frame.rgb).hash(&mut hasher));
        seconds_per_step.to_bits().hash(&mut hasher);
        Processed {
            patches: Arc::new(self.processor.video.video(frames)),
            key: hasher.finish(),
            times,
            seconds_per_step: Some(seconds_per_step),
        }
    }

    /// Repeats placeholders, and gives every token its position.
    fn lay_out(&self, text: String, short: &[u32], media: &[Processed]) -> Result<Prompt, Error> {
        let merge = self.config.vision.spatial_merge_size;
        let (mut ids, mut runs) = (Vec::with_capacity(short.len()), Vec::new());
        let mut placed: Vec<Medium> = Vec::with_capacity(media.len());
        let mut words = 0;
        for &id in short {
            let is_video = id == self.config.video_token_id;
            if !is_video && id != self.config.image_token_id {
                ids.push(id);
                words += 1;
                continue;
            }
            // A Qwen3-VL video goes on until each of its frame pairs has its run.
            let going_on = placed.last().is_some_and(|last| {
                is_video && last.is_video && last.runs.len() < self.runs_of(last.patches.grid)
            });
            if !going_on {
                let token = if is_video { &self.video_token } else { &self.image_token };
                let next = media.get(placed.len()).filter(|next| next.seconds_per_step.is_some() == is_video);
                let next = next.ok_or_else(|| stray(token))?;
                let (patches, key) = (Arc::clone(&next.patches), next.key);
                placed.push(Medium { patches, key, runs: Vec::new(), is_video });
            }
            let number = placed.len() - 1;
            let whole = placed[number].patches.grid;
            let grid = if self.runs_of(whole) > 1 { Grid { t: 1, ..whole } } else { whole };
            // Only a Qwen2.5-VL video has several temporal patches in one run.
            let seconds = media[number].seconds_per_step.unwrap_or(1.0);
            let pace = Pace { seconds, per_second: self.config.vision.tokens_per_second };
            if words > 0 {
                runs.push(Run::Text(std::mem::take(&mut words)));
            }
            runs.push(Run::Vision { grid, pace });
            placed[number].runs.push((ids.len(), grid.tokens(merge)));
            ids.extend(std::iter::repeat_n(id, grid.tokens(merge)));
        }
        runs.push(Run::Text(words));
        if placed.len() != media.len() {
            let message =
                "the chat template leaves out images or videos: it is not the one of a vision model";
            return Err(Error::Prompt(message.to_owned()));
        }
        let (positions, next_position) = token_positions(&runs, merge, self.config.video_rule);
        Ok(Prompt { text, ids, positions, next_position, media: placed })
    }

    fn runs_of(&self, grid: Grid) -> usize {
        if self.config.family == Family::Qwen3 { grid.t } else { 1 }
    }
}

/// Qwen3-VL videos: a time before each frame pair, whose placeholder stands between vision tokens. `times` are those of
/// each video, in order.
fn write_times<'a>(
    text: &str,
    token: &str,
    mut times: impl Iterator<Item = &'a [f64]>,
    rule: VideoRule,
) -> Result<String, Error> {
    let mut pieces = text.split(token);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for mut piece in pieces {
        let times = times.next().ok_or_else(|| stray(token))?;
        if rule != VideoRule::Transformers5
            && let (Some(before), Some(after)) = (out.strip_suffix(START), piece.strip_prefix(END))
        {
            out.truncate(before.len());
            piece = after;
        }
        for time in times {
            out.push_str(&format!("<{time:.1} seconds>{START}{token}{END}"));
        }
        out.push_str(piece);
    }
    Ok(out)
}

fn stray(token: &str) -> Error {
    Error::Prompt(format!(
        "message text contains the placeholder token `{token}`, which is reserved for images and videos"
    ))
}

/// A step of the folder's tokenizer: its patterns give up by a panic, which ends the sample and not the process.
fn guard<T>(step: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, Error> {
    let done = catch_unwind(AssertUnwindSafe(step));
    let done = done.unwrap_or_else(|_| Err("a pattern of tokenizer.json gives up on this text".into()));
    done.map_err(|error| Error::Prompt(format!("tokenizer: {error}")))
}

fn key_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Messages as chat-completion JSON with media marked, and the media in order.
fn chat_json(messages: &[Message]) -> (Value, Vec<&Part>) {
    let mut media = Vec::new();
    let list = messages.iter().map(|message| {
        let content = match &message.content {
            Content::Text(text) => json!(text),
            Content::Parts(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => json!({"type": "text", "text": text}),
                    Part::Image(_) => {
                        media.push(part);
                        json!({"type": "image"})
                    }
                    Part::Video(_) | Part::Frames(_) => {
                        media.push(part);
                        json!({"type": "video"})
                    }
                })
                .collect(),
        };
        json!({"role": message.role.as_str(), "content": content})
    });
    (list.collect(), media)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vision_tokens_of_the_template_stay_around_a_video_in_transformers_5_alone() {
        let text = "a<|vision_start|><|video_pad|><|vision_end|>b <|video_pad|>c";
        let pair = |time: &str| format!("<{time} seconds><|vision_start|><|video_pad|><|vision_end|>");
        let (first, second) = ([0.25, 1.25], [3.0]);
        let written = |rule| {
            let times = [first.as_slice(), &second].into_iter();
            write_times(text, "<|video_pad|>", times, rule).unwrap()
        };
        let (one, two, three) = (pair("0.2"), pair("1.2"), pair("3.0"));
        for rule in [VideoRule::Vllm, VideoRule::Transformers4] {
            assert_eq!(written(rule), format!("a{one}{two}b {three}c"));
        }
        let kept = format!("a<|vision_start|>{one}{two}<|vision_end|>b {three}c");
        assert_eq!(written(VideoRule::Transformers5), kept);
        assert!(write_times(text, "<|video_pad|>", [first.as_slice()].into_iter(), VideoRule::Vllm).is_err());
    }
}
