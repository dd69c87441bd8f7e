//! `paravt-bench frames`: the frames that a model would see, as PNG files.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use paravt_files::{read_limited, write_atomic};
use paravt_media::{Frame, Reader, Sampling, VideoRequest, fetch_video};
use paravt_reports::terminal::counted;
use serde_json::json;

use crate::exit::Exit;
use crate::launch;

/// Bytes of a `frames.json`.
const MAX_DESCRIPTION: u64 = 64 << 20;

/// Flags of `frames`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Video file, of any format that FFmpeg reads.
    video: PathBuf,
    /// Number of frames, evenly spaced over the window; at least 2, rounded to an even number [default: by --fps].
    #[arg(long, value_name = "N", conflicts_with_all = ["fps", "min_frames", "max_frames"])]
    nframes: Option<usize>,
    /// Frames per second of the window; their number is rounded down to an even one [default: 2].
    #[arg(long, value_name = "RATE")]
    fps: Option<f64>,
    /// Start of the window in seconds [default: 0].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    start: Option<f64>,
    /// End of the window in seconds [default: the end of the video].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    end: Option<f64>,
    /// Minimum number of frames with --fps, rounded up to an even number [default: 4].
    #[arg(long, value_name = "N")]
    min_frames: Option<usize>,
    /// Maximum number of frames with --fps, rounded down to an even number [default: 768].
    #[arg(long, value_name = "N")]
    max_frames: Option<usize>,
    /// Minimum pixels (width times height) of a frame; smaller videos are enlarged [default: 100352 at patch size 14,
    /// 131072 at 16].
    #[arg(long, value_name = "PIXELS")]
    min_pixels: Option<u64>,
    /// Maximum pixels (width times height) of a frame [default: 602112 at patch size 14, 786432 at 16; fewer above 300
    /// frames].
    #[arg(long, value_name = "PIXELS")]
    max_pixels: Option<u64>,
    /// Patch size of the model in pixels: 14 (Qwen2.5-VL) or 16 (Qwen3-VL); the sides of a frame are
    /// multiples of twice this.
    #[arg(long, value_name = "PIXELS", default_value_t = 14, value_parser = clap::builder::RangedU64ValueParser::<u32>::new().range(1..=64))]
    patch_size: u32,
    /// Video readers to imitate: `pinned` (the versions in the reference's lock file, as `run` does under the profiles
    /// release and paper) or `current` (today's).
    #[arg(long, value_name = "NAME", default_value = "pinned", value_parser = ["pinned", "current"])]
    reader: String,
    /// Folder for 0000.png, 0001.png, … and frames.json (indices, timestamps in seconds, sizes); files of an earlier
    /// call are replaced.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Args {
    fn request(&self) -> VideoRequest {
        let sampling = match self.nframes {
            Some(nframes) => Sampling::NFrames(nframes),
            None => Sampling::Fps {
                fps: self.fps.unwrap_or(2.0),
                min_frames: self.min_frames.unwrap_or(4),
                max_frames: self.max_frames,
            },
        };
        VideoRequest {
            max_bytes: None,
            sampling,
            start: self.start,
            end: self.end,
            min_pixels: self.min_pixels,
            max_pixels: self.max_pixels,
            total_pixels: None,
            image_patch_size: self.patch_size,
            reader: if self.reader == "current" { Reader::Current } else { Reader::Pinned },
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(fps) = args.fps {
        ensure!(fps > 0.0 && fps.is_finite(), "--fps: expected a rate > 0, got `{fps}`");
    }
    if let (Some(fewest), Some(most)) = (args.min_frames, args.max_frames) {
        ensure!(fewest <= most, "--min-frames {fewest}: more than --max-frames {most}");
    }
    let sampled =
        fetch_video(&args.video, &args.request()).with_context(|| args.video.display().to_string())?;
    let length = sampled.info.duration;
    for (flag, given) in [("--start", args.start), ("--end", args.end)] {
        if let Some(seconds) = given.filter(|seconds| !(0.0..=length).contains(seconds)) {
            launch::warn(&format!(
                "{flag} {seconds}: outside of the video, from 0 to {length:.2} s; cut to it"
            ));
        }
    }
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let path = args.out.join("frames.json");
    remove_earlier(&args.out, &path)?;
    let mut files = Vec::new();
    for (number, frame) in sampled.frames.iter().enumerate() {
        let name = format!("{number:04}.png");
        write_png(&args.out.join(&name), frame)?;
        files.push(name);
    }
    let list = |value: fn(&Frame) -> serde_json::Value| sampled.frames.iter().map(value).collect::<Vec<_>>();
    let fps = sampled.info.fps;
    let description = json!({
        "video": args.video.file_name().map(|name| name.to_string_lossy()),
        "info": sampled.info,
        "sample_fps": sampled.sample_fps,
        "indices": list(|frame| frame.index.into()),
        "timestamps": list(|frame| frame.time().into()),
        "index_over_fps": sampled.frames.iter().map(|frame| frame.index as f64 / fps).collect::<Vec<_>>(),
        "sizes": list(|frame| json!([frame.width, frame.height])),
        "files": files,
        "second_reader": sampled.second_reader,
        "reader": sampled.stats,
    });
    write_atomic(&path, format!("{description:#}\n").as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("{} into {}", counted(files.len(), "frame"), args.out.display());
    Ok(Exit::Ok)
}

/// Removes what an earlier call wrote into the folder, so that no frame of an earlier call is left among the new ones.
fn remove_earlier(folder: &Path, description: &Path) -> anyhow::Result<()> {
    let text = match read_limited(description, MAX_DESCRIPTION) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", description.display())),
    };
    let earlier: serde_json::Value = serde_json::from_slice(&text).with_context(|| {
        format!(
            "{}: refusing to overwrite, not written by this command; give another --out",
            description.display()
        )
    })?;
    for name in earlier["files"].as_array().into_iter().flatten().filter_map(|name| name.as_str()) {
        let number = name.strip_suffix(".png").filter(|number| !number.is_empty());
        if number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
            let path = folder.join(name);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot replace {}", path.display()));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn write_png(path: &Path, frame: &Frame) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, frame.width, frame.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    encoder.write_header()?.write_image_data(&frame.rgb)?;
    write_atomic(path, &bytes).with_context(|| format!("cannot write {}", path.display()))
}
