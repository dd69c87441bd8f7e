//! Images and video frames to patches, as the models' processors make them.
//!
//! Sources: `Qwen2VLImageProcessor`, `Qwen2VLVideoProcessor` and `Qwen3VLVideoProcessor` of
//! transformers 5.23. Pixels pass through 8 bits after resizing, as there.

use std::path::{Path, PathBuf};

use image::ImageDecoder as _;
use paravt_media::Resizer;
use paravt_suite::message::Spread;
use rayon::prelude::*;
use serde_json::Value;

use crate::config::{Family, VisionConfig};
use crate::error::Error;
use crate::files::read_json;
use crate::positions::Grid;

/// 8-bit RGB, (height, width, 3).
#[derive(Debug, Clone)]
pub struct Pixels {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// Values, row-major.
    pub rgb: Vec<u8>,
}

/// Patches of one image or video, as the bytes of its frames: a quarter of the memory of what a model reads.
#[derive(Debug, Clone)]
pub struct Patches {
    pub grid: Grid,
    /// (patch, channel, frame, row, column).
    pub(crate) bytes: Vec<u8>,
    pub(crate) scale: Scale,
}

/// Normalisation of patches: less the mean, over the deviation, of bytes of each channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Mean of each channel.
    pub mean: [f32; 3],
    /// Standard deviation of each channel.
    pub std: [f32; 3],
}

impl Scale {
    /// Values of patches of so many bytes each, channel by channel.
    pub fn of(self, bytes: &[u8], patch: usize) -> impl Iterator<Item = f32> {
        let channels = bytes.chunks(patch / 3).zip(self.mean.into_iter().zip(self.std).cycle());
        channels
            .flat_map(|(bytes, (mean, std))| bytes.iter().map(move |&value| (f32::from(value) - mean) / std))
    }
}

impl Patches {
    /// Normalised values, (patch, channel, frame, row, column).
    pub fn values(&self) -> impl Iterator<Item = f32> {
        self.scale.of(&self.bytes, self.bytes.len() / self.grid.patches())
    }

    /// Bytes of one frame pair.
    pub fn frame(&self, number: usize) -> &[u8] {
        let frame = self.bytes.len() / self.grid.t;
        &self.bytes[number * frame..(number + 1) * frame]
    }

    /// How bytes become values.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Bytes that they take.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }
}

/// Maximum pixels of an image, or of all frames of a video, that a folder may ask for and a request come to; published
/// folders ask for at most 25 million.
const MAX_PIXELS: u64 = 1 << 29;

/// The two processors of a model folder.
#[derive(Debug, Clone)]
pub struct Processor {
    pub image: Rules,
    pub video: VideoRules,
}

/// Sizes and colours.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Fewest pixels of an image (Qwen3-VL videos: of all frames together).
    pub min_pixels: u64,
    /// Maximum pixels of an image (Qwen3-VL videos: of all frames together).
    pub max_pixels: u64,
    /// Mean of each channel, of values up to 1.
    pub mean: [f32; 3],
    /// Standard deviation of each channel.
    pub std: [f32; 3],
    patch: usize,
    frames: usize,
    merge: usize,
}

/// Settings for videos.
#[derive(Debug, Clone)]
pub struct VideoRules {
    /// Sizes and colours.
    pub rules: Rules,
    /// Which architecture's size rule.
    pub family: Family,
    cap_per_frame: bool,
    max_video_tokens: f64,
    /// Frames per second that are sampled, and the fewest and most frames.
    fps: f64,
    min_frames: usize,
    max_frames: usize,
}

impl Processor {
    /// Reads `processor_config.json`, or `preprocessor_config.json` and `video_preprocessor_config.json`.
    ///
    /// # Errors
    /// No such file, or one that asks for what is not built.
    pub fn read(folder: &Path, family: Family, vision: &VisionConfig) -> Result<Self, Error> {
        let joint = folder.join("processor_config.json");
        let nested = |key: &str| -> Result<Option<(PathBuf, Value)>, Error> {
            let json = if joint.exists() { read_json(&joint)? } else { Value::Null };
            Ok(json.get(key).cloned().map(|part| (joint.clone(), part)))
        };
        let file = |name: &str| -> Result<Option<(PathBuf, Value)>, Error> {
            let path = folder.join(name);
            if path.exists() { Ok(Some((path.clone(), read_json(&path)?))) } else { Ok(None) }
        };
        let image = match nested("image_processor")? {
            Some(found) => Some(found),
            None => file("preprocessor_config.json")?,
        };
        let Some(image) = image else {
            return Err(Error::file(&folder.join("preprocessor_config.json"), "no such file"));
        };
        let mut video = nested("video_processor")?;
        if video.is_none() {
            video = file("video_preprocessor_config.json")?;
        }
        // Folders from before video processors existed keep both in one file.
        let (video_path, video_json) = video.unwrap_or_else(|| image.clone());
        let clip = ([0.481_454_66, 0.457_827_5, 0.408_210_73], [0.268_629_55, 0.261_302_6, 0.275_777_1]);
        let half = ([0.5; 3], [0.5; 3]);
        let (size, colours) = match family {
            Family::Qwen3 => ((128 * 32 * 32, 768 * 32 * 32), half),
            Family::Qwen25 => ((128 * 28 * 28, 768 * 28 * 28), clip),
        };
        let rules = |path: &Path, json: &Value, size, colours| {
            Rules::parse(json, size, colours, vision).map_err(|message| Error::file(path, message))
        };
        let max_tokens = if family == Family::Qwen3 { 768.0 } else { 128_000.0 };
        Ok(Self {
            image: rules(&image.0, &image.1, (56 * 56, 28 * 28 * 1280), clip)?,
            video: VideoRules {
                rules: rules(&video_path, &video_json, size, colours)?,
                family,
                cap_per_frame: video_json["cap_pixels_per_frame"].as_bool().unwrap_or(false),
                max_video_tokens: number(&video_path, &video_json, "max_video_tokens", max_tokens)?,
                fps: number(&video_path, &video_json, "fps", 2.0)?,
                min_frames: number(&video_path, &video_json, "min_frames", 4.0)? as usize,
                max_frames: number(&video_path, &video_json, "max_frames", 768.0)? as usize,
            },
        })
    }
}

/// A number of a configuration above 0 and up to a million, or what holds without it.
fn number(path: &Path, json: &Value, key: &str, default: f64) -> Result<f64, Error> {
    if json[key].is_null() {
        return Ok(default);
    }
    json[key].as_f64().filter(|number| *number > 0.0 && *number <= 1e6).ok_or_else(|| {
        Error::file(path, format!("{key} is {}; a number above 0 and up to a million is needed", json[key]))
    })
}

/// # Errors
/// More pixels, of all frames together, than a request may come to.
fn bounded(frames: f64, (width, height): (u32, u32)) -> Result<(u32, u32), String> {
    let pixels = frames * f64::from(width) * f64::from(height);
    if pixels <= MAX_PIXELS as f64 {
        return Ok((width, height));
    }
    Err(format!(
        "{frames} frames of {width} by {height} pixels are more than {MAX_PIXELS} pixels; fewer frames or lower \
                 limits of pixels in the folder's preprocessor configuration would fit"
    ))
}

impl Rules {
    fn parse(
        json: &Value,
        (min, max): (u64, u64),
        (mean, std): ([f32; 3], [f32; 3]),
        vision: &VisionConfig,
    ) -> Result<Self, String> {
        for switch in ["do_resize", "do_rescale", "do_normalize"] {
            if json[switch].as_bool() == Some(false) {
                return Err(format!("{switch} is false; only true is built"));
            }
        }
        if json["resample"].as_u64().is_some_and(|kind| kind != 3) {
            return Err(format!("resample is {}; only 3 (bicubic) is built", json["resample"]));
        }
        let fits = |key: &str, built: usize| match json[key].as_u64() {
            Some(found) if found != built as u64 => Err(format!("{key} is {found}, the model's is {built}")),
            _ => Ok(built),
        };
        let colours = |key: &str, default: [f32; 3]| {
            if json[key].is_null() {
                return Ok(default);
            }
            let values = json[key].as_array().into_iter().flatten().filter_map(Value::as_f64);
            let found: Vec<f32> =
                values.map(|value| value as f32).filter(|value| value.is_finite()).collect();
            <[f32; 3]>::try_from(found)
                .map_err(|_| format!("{key} is {}; three numbers are needed", json[key]))
        };
        // The older `min_pixels` and `max_pixels` win over `size`, as in the reference.
        let pixels = |old: &str, edge: &str, default| {
            let found = Some(&json[old]).filter(|value| !value.is_null()).unwrap_or(&json["size"][edge]);
            if found.is_null() {
                return Ok(default);
            }
            found.as_u64().filter(|pixels| *pixels <= MAX_PIXELS).ok_or_else(|| {
                format!("{old} (or size.{edge}) is {found}; a number of pixels up to {MAX_PIXELS} is needed")
            })
        };
        let std = colours("image_std", std)?;
        if let Some(wrong) = std.iter().find(|std| **std <= 0.0) {
            return Err(format!("image_std holds {wrong}; positive numbers are needed"));
        }
        Ok(Self {
            min_pixels: pixels("min_pixels", "shortest_edge", min)?,
            max_pixels: pixels("max_pixels", "longest_edge", max)?,
            mean: colours("image_mean", mean)?,
            std,
            patch: fits("patch_size", vision.patch_size)?,
            frames: fits("temporal_patch_size", vision.temporal_patch_size)?,
            merge: fits("merge_size", vision.spatial_merge_size)?,
        })
    }

    /// Size (width, height) that an image is resized to.
    ///
    /// # Errors
    /// Sides too unequal.
    pub(crate) fn image_size(&self, width: u32, height: u32) -> Result<(u32, u32), String> {
        let (min, max) = (self.min_pixels as f64, self.max_pixels as f64);
        bounded(self.frames as f64, resize_rule(width, height, 1.0, 1.0, self.factor(), min, max)?)
    }

    /// One image, resized and cut into patches. An image is a video whose frames are all alike.
    ///
    /// # Errors
    /// Sides too unequal.
    pub fn image(&self, pixels: &Pixels) -> Result<Patches, String> {
        let size = self.image_size(pixels.width, pixels.height)?;
        let resized = pixels.resize(size)?;
        Ok(self.patchify(&vec![&resized; self.frames]))
    }

    fn factor(&self) -> f64 {
        (self.patch * self.merge) as f64
    }

    /// Frames of one size, a multiple of the factor; the last stands in for missing ones.
    fn patchify(&self, frames: &[&Pixels]) -> Patches {
        let (patch, merge) = (self.patch, self.merge);
        let (width, height) = (frames[0].width as usize, frames[0].height as usize);
        let grid = Grid { t: frames.len().div_ceil(self.frames), h: height / patch, w: width / patch };
        // Scale and normalisation in one, in f32, as the reference fuses them.
        let scale = Scale { mean: self.mean.map(|mean| mean * 255.0), std: self.std.map(|std| std * 255.0) };
        let mut bytes = Vec::with_capacity(grid.patches() * 3 * self.frames * patch * patch);
        for t in 0..grid.t {
            for block_row in 0..grid.h / merge {
                for block_column in 0..grid.w / merge {
                    for inner in 0..merge * merge {
                        let top = (block_row * merge + inner / merge) * patch;
                        let left = (block_column * merge + inner % merge) * patch;
                        for channel in 0..3 {
                            for frame in 0..self.frames {
                                let frame = frames[(t * self.frames + frame).min(frames.len() - 1)];
                                for row in top..top + patch {
                                    let start = (row * width + left) * 3 + channel;
                                    bytes.extend(frame.rgb[start..].iter().step_by(3).take(patch));
                                }
                            }
                        }
                    }
                }
            }
        }
        Patches { grid, bytes, scale }
    }
}

impl VideoRules {
    /// Which frames of a video of `total` frames the model sees when nobody says how many.
    ///
    /// Qwen3-VL: `Qwen3VLVideoProcessor.sample_frames`. Qwen2.5-VL's processor takes the frames it is
    /// given; its documented use is qwen-vl-utils, whose rule it then is.
    ///
    /// # Errors
    /// A video too short for the rule.
    pub fn indices(&self, total: usize, video_fps: f64) -> Result<Vec<usize>, String> {
        match self.family {
            Family::Qwen3 => {
                let wanted = (total as f64 / video_fps * self.fps) as usize;
                let count = wanted.max(self.min_frames).min(self.max_frames).min(total);
                Ok(spread(total, count, Spread::Rounded))
            }
            Family::Qwen25 => {
                paravt_media::frame_indices(&paravt_media::VideoRequest::at_default_rate(), total, video_fps)
            }
        }
    }

    /// Size (width, height) of each of `frames` frames.
    ///
    /// # Errors
    /// Sides too unequal.
    pub fn frame_size(&self, frames: usize, width: u32, height: u32) -> Result<(u32, u32), String> {
        let rules = &self.rules;
        let (factor, count) = (rules.factor(), frames as f64);
        let (min, mut max) = (rules.min_pixels as f64, rules.max_pixels as f64);
        let floor = (min * 1.05).trunc();
        let size = match self.family {
            Family::Qwen3 => {
                if self.cap_per_frame {
                    let cap = self.max_video_tokens * factor * factor;
                    max = cap.min((max / count).floor()).max(floor) * count;
                }
                let (mut width, mut height) = (f64::from(width), f64::from(height));
                if width < factor || height < factor {
                    let scale = (factor / height).max(factor / width);
                    (width, height) = ((width * scale).trunc(), (height * scale).trunc());
                }
                let rounded = (count / rules.frames as f64).round_ties_even() * rules.frames as f64;
                resize_rule(width as u32, height as u32, count, rounded, factor, min, max)
            }
            Family::Qwen25 => {
                if self.cap_per_frame {
                    let total = (self.max_video_tokens * factor * factor * 0.9).trunc();
                    max = max.min((total * rules.frames as f64 / count).floor()).max(floor);
                }
                resize_rule(width, height, 1.0, 1.0, factor, min, max)
            }
        };
        bounded(count, size?)
    }

    /// Encoded frames of one size, resized as those of a video unless they `keep_size`.
    ///
    /// # Errors
    /// Damaged ones, sizes that differ, sides too unequal or, where the size is kept, not of whole tokens.
    pub fn frames(&self, encoded: &[&[u8]], keep_size: bool) -> Result<Vec<Pixels>, String> {
        let count = encoded.len().max(self.rules.frames);
        let frames = encoded.par_iter().map(|bytes| Pixels::decode(bytes)).collect::<Result<Vec<_>, _>>()?;
        let first = frames.first().ok_or("a video without frames")?;
        let (width, height) = (first.width, first.height);
        if frames.iter().any(|frame| (frame.width, frame.height) != (width, height)) {
            return Err("the frames of a video have several sizes".to_owned());
        }
        if keep_size {
            let factor = self.rules.factor();
            if [width, height].iter().any(|side| *side == 0 || f64::from(*side) % factor != 0.0) {
                return Err(format!("frames of {width} by {height}: sides are not multiples of {factor}"));
            }
            bounded(count as f64, (width, height))?;
            return Ok(frames);
        }
        let size = self.frame_size(count, width, height)?;
        match size == (width, height) {
            true => Ok(frames),
            false => frames.par_iter().map(|frame| frame.resize(size)).collect(),
        }
    }

    /// Frames of one size (see [`VideoRules::frame_size`]), cut into patches.
    pub fn video(&self, frames: &[Pixels]) -> Patches {
        self.rules.patchify(&frames.iter().collect::<Vec<_>>())
    }
}

/// `count` of `total` frames by `np.linspace(0, total - 1, count)`, to whole indices as `rule` says.
pub fn spread(total: usize, count: usize, rule: Spread) -> Vec<usize> {
    let step = total.saturating_sub(1) as f64 / count.saturating_sub(1).max(1) as f64;
    let last = total.saturating_sub(1);
    let whole = |position: f64| match rule {
        Spread::Truncated => position.floor() as usize,
        Spread::Rounded => position.round_ties_even() as usize,
    };
    (0..count)
        .map(|number| if number > 0 && number + 1 == count { last } else { whole(number as f64 * step) })
        .collect()
}

/// `smart_resize` of the processors; `frames` and `rounded` are 1 where single images count.
fn resize_rule(
    width: u32,
    height: u32,
    frames: f64,
    rounded: f64,
    factor: f64,
    min: f64,
    max: f64,
) -> Result<(u32, u32), String> {
    let (w, h) = (f64::from(width), f64::from(height));
    let ratio = w.max(h) / w.min(h);
    if ratio.is_nan() || ratio > 200.0 {
        return Err(format!("sides of {width} by {height} are too unequal (at most 200 to 1)"));
    }
    let mut to_h = (h / factor).round_ties_even() * factor;
    let mut to_w = (w / factor).round_ties_even() * factor;
    if rounded * to_h * to_w > max {
        let beta = (frames * h * w / max).sqrt();
        to_h = ((h / beta / factor).floor() * factor).max(factor);
        to_w = ((w / beta / factor).floor() * factor).max(factor);
    } else if rounded * to_h * to_w < min {
        let beta = (min / (frames * h * w)).sqrt();
        to_h = (h * beta / factor).ceil() * factor;
        to_w = (w * beta / factor).ceil() * factor;
    }
    if to_h < factor || to_w < factor {
        return Err(format!("{width} by {height} pixels are less than one patch"));
    }
    Ok((to_w as u32, to_h as u32))
}

impl Pixels {
    /// Decodes JPEG, PNG, GIF (its first picture) or WebP; turned upright, transparency dropped.
    ///
    /// # Errors
    /// None of these, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let reader = image::ImageReader::new(std::io::Cursor::new(bytes)).with_guessed_format();
        let reader = reader.map_err(|error| error.to_string())?;
        let mut decoder = reader.into_decoder().map_err(|error| error.to_string())?;
        let orientation = decoder.orientation().map_err(|error| error.to_string())?;
        let mut picture = image::DynamicImage::from_decoder(decoder).map_err(|error| error.to_string())?;
        picture.apply_orientation(orientation);
        let rgb = picture.into_rgb8();
        Ok(Self { width: rgb.width(), height: rgb.height(), rgb: rgb.into_raw() })
    }

    /// Bicubic, as torchvision resizes 8-bit images.
    fn resize(&self, (width, height): (u32, u32)) -> Result<Self, String> {
        let rgb = Resizer::default().resize(self.rgb.clone(), (self.width, self.height), (width, height))?;
        Ok(Self { width, height, rgb })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_cut_off_or_rounded() {
        // `np.linspace(0, 99, 8, dtype=int)` and `np.linspace(0, 99, 8).round()`.
        assert_eq!(spread(100, 8, Spread::Truncated), [0, 14, 28, 42, 56, 70, 84, 99]);
        assert_eq!(spread(100, 8, Spread::Rounded), [0, 14, 28, 42, 57, 71, 85, 99]);
        for rule in [Spread::Truncated, Spread::Rounded] {
            assert_eq!(spread(5, 5, rule), [0, 1, 2, 3, 4]);
            assert_eq!((spread(1, 1, rule), spread(7, 1, rule)), (vec![0], vec![0]));
        }
    }
}
