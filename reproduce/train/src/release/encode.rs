use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;

use paravt_media::{Sampling, VideoFile, VideoRequest};
use paravt_qwen_vl::config::Family;
use paravt_qwen_vl::positions::{Grid, Pace, Run, token_positions};
use paravt_qwen_vl::processor::{Patches, Pixels};
use paravt_qwen_vl::prompt::{Medium, Prompt, Prompter};
use serde_json::Value;

use super::row::{LeftOut, ReleaseMessage, ReleasePart, ReleaseRow};
use crate::error::{Error, Result};
use crate::example::Example;

/// Prefix of a row without a system message (`qwen3_vl_processor.py:114`).
const SYSTEM: &str = "You are a helpful assistant";
/// Ids at the start of a trained message that are not: `<|im_start|>`, the role, the line break.
const HEAD: usize = 3;
/// The template writes this for an image or a video, the placeholder between.
const VISION: (&str, &str) = ("<|vision_start|>", "<|vision_end|>");

/// Rows to examples as `Qwen3_VLDataProcessor` makes them.
///
/// Source: ParaVT cf55249, `lmms_engine/datasets/processor/qwen3_vl_processor.py:104-229`, the chat template in
/// `base_qwen2_5_processor.py:196-232`, `lmms_engine/models/common_ops/rope.py:7-124` for the positions.
pub struct Encoder {
    prompter: Arc<Prompter>,
    /// Trained wherever they stand.
    special: BTreeSet<u32>,
    vision_start: u32,
    vision_end: u32,
    image_token: String,
    video_token: String,
}

/// A video of a row.
struct Video {
    patches: Arc<Patches>,
    key: u64,
    /// Seconds of each frame pair.
    times: Vec<f64>,
}

/// A row while its messages are written one after the other.
struct Writing<'a> {
    images: std::slice::Iter<'a, Arc<Patches>>,
    videos: std::slice::Iter<'a, Video>,
    ids: Vec<u32>,
    trained: Vec<bool>,
    media: Vec<Medium>,
}

impl Encoder {
    /// The encoder of a model folder, whose tokenizer and processors `prompter` has read.
    ///
    /// # Errors
    /// The folder is not a Qwen3-VL model's, or its tokenizer lacks the tokens of the template.
    pub fn read(folder: &Path, prompter: Arc<Prompter>) -> Result<Self> {
        let config = prompter.config();
        if config.family != Family::Qwen3 {
            return Err(Error::Settings(
                "the released loader is for Qwen3-VL; remove `release` to train this model".to_owned(),
            ));
        }
        let tokenizer = prompter.tokenizer();
        let id = |token: &str| {
            let id = tokenizer.token_to_id(token);
            id.ok_or_else(|| Error::file(&folder.join("tokenizer.json"), format!("has no token {token}")))
        };
        let name = |id: u32| tokenizer.id_to_token(id).unwrap_or_default();
        let special = special_tokens(folder)?;
        Ok(Self {
            special: special.iter().filter_map(|token| tokenizer.token_to_id(token)).collect(),
            vision_start: id(VISION.0)?,
            vision_end: id(VISION.1)?,
            image_token: name(config.image_token_id),
            video_token: name(config.video_token_id),
            prompter,
        })
    }

    /// Tokens, positions and trained tokens of a row.
    ///
    /// # Errors
    /// What raises in the released loader, which then drops the row: a medium that cannot be read or is
    /// too small, videos in two messages, a placeholder in somebody's text.
    pub fn encode(&self, row: &ReleaseRow) -> std::result::Result<Example, LeftOut> {
        let (images, videos) = self.media(row)?;
        let mut writing = Writing {
            images: images.iter(),
            videos: videos.iter(),
            ids: Vec::new(),
            trained: Vec::new(),
            media: Vec::new(),
        };
        // Frame rate and frames of the last video are taken for those of all (`qwen3_vl_iterable_dataset.py:42-44`),
        // and only the first message with videos finds any (`make_batched_metadata` makes a list of one).
        let mut times = videos.last().map(|video| video.times.as_slice());
        let system =
            ReleaseMessage { role: "system".to_owned(), parts: vec![ReleasePart::Text(SYSTEM.to_owned())] };
        let first = row.0.first().ok_or_else(|| LeftOut::new("the row has no messages"))?;
        let added = (first.role != "system").then_some(&system);
        for message in added.into_iter().chain(&row.0) {
            self.write(message, &mut writing, &mut times)?;
        }
        let positions = self.positions(&writing);
        let Writing { ids, trained, media, .. } = writing;
        let next_position = positions.last().map_or(0, |last| last[0] + 1);
        let prompt = Prompt { text: String::new(), ids, positions, next_position, media };
        Ok(Example::of_prompt(prompt, trained))
    }

    /// Images and videos in order, each made into patches.
    fn media(&self, row: &ReleaseRow) -> std::result::Result<(Vec<Arc<Patches>>, Vec<Video>), LeftOut> {
        let (mut images, mut videos) = (Vec::new(), Vec::new());
        for part in row.0.iter().flat_map(|message| &message.parts) {
            match part {
                ReleasePart::Text(_) => {}
                ReleasePart::Image(path) => {
                    let bytes = std::fs::read(path).map_err(|error| at(path, error))?;
                    images.push(self.image(&bytes).map_err(|error| at(path, error))?);
                }
                ReleasePart::ImageBytes(bytes) => images.push(self.image(bytes).map_err(LeftOut::new)?),
                ReleasePart::Video(path) => videos.push(self.video(path).map_err(|error| at(path, error))?),
            }
        }
        Ok((images, videos))
    }

    fn image(&self, bytes: &[u8]) -> std::result::Result<Arc<Patches>, String> {
        let pixels = Pixels::decode_as_stored(bytes)?;
        self.prompter.processor().image.image(&pixels).map(Arc::new)
    }

    /// `fetch_video` at 1 frame a second, 2 to 64 frames, sides that are multiples of 28; then the processor's own
    /// size, multiples of 32.
    fn video(&self, path: &Path) -> std::result::Result<Video, String> {
        let request = VideoRequest {
            sampling: Sampling::Fps { fps: 1.0, min_frames: 1, max_frames: Some(64) },
            min_pixels: Some(784),
            max_pixels: Some(50_176),
            ..VideoRequest::at_default_rate()
        };
        let file = VideoFile::open(path).map_err(|error| error.to_string())?;
        let sampled = file.sample(&request, Ok).map_err(|error| error.to_string())?;
        let vision = &self.prompter.config().vision;
        let factor = (vision.patch_size * vision.spatial_merge_size) as u32;
        let Some(first) = sampled.frames.first() else { return Err("has no frames".to_owned()) };
        let (width, height) = (first.width, first.height);
        if width < factor || height < factor {
            return Err(format!("frames of {width} by {height} pixels; a side must have {factor} at least"));
        }
        let rules = &self.prompter.processor().video;
        let size = rules.frame_size(sampled.frames.len(), width, height)?;
        let seconds: Vec<f64> =
            sampled.frames.iter().map(|frame| frame.index as f64 / sampled.info.fps).collect();
        let mut hasher = DefaultHasher::new();
        let mut frames = Vec::with_capacity(sampled.frames.len());
        for frame in sampled.frames {
            let frame = Pixels { width, height, rgb: frame.rgb }.resize_in_floats(size)?;
            frame.rgb.hash(&mut hasher);
            frames.push(frame);
        }
        let pairs = seconds.chunks(vision.temporal_patch_size);
        let times = pairs.map(|pair| (pair[0] + pair[pair.len() - 1]) / 2.0).collect();
        Ok(Video { patches: Arc::new(rules.video(&frames)), key: hasher.finish(), times })
    }

    /// Adds a message: `<|im_start|>ROLE\n`, its parts, `<|im_end|>\n`, tokenised by itself.
    fn write(
        &self,
        message: &ReleaseMessage,
        row: &mut Writing<'_>,
        times: &mut Option<&[f64]>,
    ) -> std::result::Result<(), LeftOut> {
        let mut text = format!("<|im_start|>{}\n", message.role);
        for part in &message.parts {
            match part {
                ReleasePart::Text(part) => text.push_str(part),
                ReleasePart::Image(_) | ReleasePart::ImageBytes(_) => {
                    self.placeholder(&self.image_token, &mut text)
                }
                ReleasePart::Video(_) => self.placeholder(&self.video_token, &mut text),
            }
        }
        text.push_str("<|im_end|>\n");
        let config = self.prompter.config();
        let start = row.ids.len();
        // Read at the first video of a message and used for all of it.
        let mut of_message = None;
        for id in self.tokens(&text)? {
            if id == config.image_token_id {
                let patches = row.images.next().ok_or_else(|| LeftOut::new(stray(&self.image_token)))?;
                row.add_medium(patches, key_of(patches), false);
                row.add_run(id, patches.grid.tokens(config.vision.spatial_merge_size));
            } else if id == config.video_token_id {
                let video = row.videos.next().ok_or_else(|| LeftOut::new(stray(&self.video_token)))?;
                let times = match of_message {
                    Some(times) => times,
                    None => times.take().ok_or_else(|| {
                        LeftOut::new(
                            "videos in two messages; the released loader finds those of the first only",
                        )
                    })?,
                };
                of_message = Some(times);
                self.write_video(video, times, row)?;
            } else {
                row.ids.push(id);
            }
        }
        self.train(message, start, row);
        Ok(())
    }

    fn placeholder(&self, token: &str, text: &mut String) {
        text.push_str(&format!("{}{token}{}\n", VISION.0, VISION.1));
    }

    /// The time of each frame pair and its patches, inside one vision block each. The block's first token and its last
    /// are those of the template; a video of one pair closes twice.
    fn write_video(
        &self,
        video: &Video,
        times: &[f64],
        row: &mut Writing<'_>,
    ) -> std::result::Result<(), LeftOut> {
        let config = self.prompter.config();
        let grid = video.patches.grid;
        row.add_medium(&video.patches, video.key, true);
        for pair in 0..grid.t {
            let time = times.get(pair).ok_or_else(|| {
                LeftOut::new("a video is longer than the last of its message, whose times all of them get")
            })?;
            if pair > 0 {
                row.ids.push(self.vision_start);
            }
            row.ids.extend(self.tokens(&format!("<{time:.1} seconds>"))?);
            let tokens = Grid { t: 1, ..grid }.tokens(config.vision.spatial_merge_size);
            row.add_run(config.video_token_id, tokens);
            if pair == 0 || pair + 1 < grid.t {
                row.ids.push(self.vision_end);
            }
        }
        Ok(())
    }

    /// All of a message but its head where it is trained, and every special token whoever says it.
    fn train(&self, message: &ReleaseMessage, start: usize, row: &mut Writing<'_>) {
        let config = self.prompter.config();
        let trained = !["system", "user"].contains(&message.role.as_str());
        for (place, id) in row.ids[start..].iter().enumerate() {
            let visual = *id == config.image_token_id || *id == config.video_token_id;
            row.trained.push(!visual && (self.special.contains(id) || (trained && place >= HEAD)));
        }
    }

    /// `get_rope_index` looks for a video's placeholder right after `<|vision_start|>`, where this layout has the time:
    /// it finds no video, and the patches of videos get the positions of text. Images get rows and columns.
    fn positions(&self, row: &Writing<'_>) -> Vec<[u32; 3]> {
        let config = self.prompter.config();
        let pace = Pace { seconds: 1.0, per_second: config.vision.tokens_per_second };
        let (mut runs, mut at) = (Vec::new(), 0);
        for medium in row.media.iter().filter(|medium| !medium.is_video) {
            for &(start, length) in &medium.runs {
                runs.push(Run::Text(start - at));
                runs.push(Run::Vision { grid: medium.patches.grid, pace });
                at = start + length;
            }
        }
        runs.push(Run::Text(row.ids.len() - at));
        token_positions(&runs, config.vision.spatial_merge_size, config.video_rule).0
    }

    fn tokens(&self, text: &str) -> std::result::Result<Vec<u32>, LeftOut> {
        let encoding = self.prompter.tokenizer().encode_fast(text, false);
        Ok(encoding.map_err(|error| LeftOut::new(format!("tokenizer: {error}")))?.get_ids().to_vec())
    }
}

impl Writing<'_> {
    fn add_medium(&mut self, patches: &Arc<Patches>, key: u64, is_video: bool) {
        self.media.push(Medium { patches: Arc::clone(patches), key, runs: Vec::new(), is_video });
    }

    /// Placeholders of the last medium.
    fn add_run(&mut self, id: u32, tokens: usize) {
        if let Some(medium) = self.media.last_mut() {
            medium.runs.push((self.ids.len(), tokens));
        }
        self.ids.extend(std::iter::repeat_n(id, tokens));
    }
}

fn at(path: &Path, error: impl std::fmt::Display) -> LeftOut {
    LeftOut::new(format!("{}: {error}", path.display()))
}

fn stray(token: &str) -> String {
    format!("message text contains the placeholder token `{token}`, which is reserved for images and videos")
}

fn key_of(patches: &Patches) -> u64 {
    let mut hasher = DefaultHasher::new();
    patches.grid.hash(&mut hasher);
    patches.values().for_each(|value| value.to_bits().hash(&mut hasher));
    hasher.finish()
}

/// `all_special_tokens` of the folder's tokenizer under transformers 4.57, and the two that lmms-engine adds.
fn special_tokens(folder: &Path) -> Result<BTreeSet<String>> {
    let read = |name: &str| -> Result<Value> {
        let path = folder.join(name);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| Error::file(&path, error)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Value::Null),
            Err(error) => Err(Error::file(&path, error)),
        }
    };
    let mut config = read("tokenizer_config.json")?;
    // Older folders: read only where the tokenizer's own configuration does not list its tokens.
    if config.get("added_tokens_decoder").is_none()
        && let (Some(config), Value::Object(map)) = (config.as_object_mut(), read("special_tokens_map.json")?)
    {
        config.extend(map);
    }
    let mut special: BTreeSet<String> = ["<|im_start|>", "<|im_end|>"].map(str::to_owned).into();
    let text = |value: &Value| value.as_str().or_else(|| value["content"].as_str()).map(str::to_owned);
    for name in ["bos", "eos", "unk", "sep", "pad", "cls", "mask"] {
        special.extend(text(&config[format!("{name}_token")]));
    }
    for name in ["additional_special_tokens", "extra_special_tokens"] {
        match &config[name] {
            Value::Array(tokens) => special.extend(tokens.iter().filter_map(text)),
            Value::Object(tokens) => special.extend(tokens.values().filter_map(text)),
            _ => {}
        }
    }
    Ok(special)
}
