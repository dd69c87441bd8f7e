//! The same frames as the real qwen-vl-utils with its torchcodec reader: indices, sizes, pixels.
//!
//! Needs the Python that `ci/setup` installs (`PARAVT_PYTHON`) and the ffmpeg program.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::{MEAN_DIFFERENCE, crop, differences, ffmpeg, outcome, reference, remux, rotate, uneven};
use paravt_media::{MediaError, Sampling, VideoFile, VideoRequest, fetch_video};
use serde_json::{Value, json};

/// Every kind of file that the reader has to take.
const VIDEOS: [&str; 19] = [
    "bframes.mkv", "bt709.mp4", "editlist.mp4", "fullrange.mp4", "h264.mp4", "hevc.mp4", "large.mp4",
    "mpeg4.avi", "nocues.mkv", "odd.mp4", "one.mp4", "opengop.mp4", "rotated.mp4", "short.mp4", "tenbit.mp4",
    "truncated.mp4", "upsidedown.mp4", "vfr.mp4", "vp9.webm",
];

const X264: &str = "-c:v libx264 -preset veryfast -pix_fmt yuv420p";
/// Name, size, rate, seconds and options, those of an encoder of its own or behind [`X264`].
const MADE: [(&str, &str, &str, u32, &str); 14] = [
    ("h264.mp4", "640x360", "30", 30, "-g 250"),
    ("opengop.mp4", "320x240", "25", 20, "-g 50 -bf 3 -x264-params open-gop=1"),
    ("hevc.mp4", "320x240", "25", 16, HEVC),
    ("vp9.webm", "320x240", "24", 10, "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 60"),
    ("odd.mp4", "427x241", "30", 8, "-c:v libx264 -preset veryfast -pix_fmt yuv444p"),
    ("tenbit.mp4", "320x240", "25", 8, "-c:v libx264 -preset veryfast -pix_fmt yuv420p10le"),
    ("bt709.mp4", "640x360", "25", 8, BT709),
    ("fullrange.mp4", "320x240", "25", 8, "-c:v libx264 -preset veryfast -pix_fmt yuvj420p -color_range pc"),
    // Two of five frames fall out: frame times are uneven.
    ("vfr.mp4", "320x240", "30", 20, "-vf select='not(eq(mod(n,5),1))*not(eq(mod(n,5),2))' -vsync vfr"),
    ("one.mp4", "320x240", "25", 1, "-frames:v 1"),
    ("short.mp4", "320x240", "25", 1, ""),
    ("bframes.mkv", "320x240", "25", 12, "-bf 4 -g 100"),
    ("mpeg4.avi", "320x240", "25", 10, "-c:v mpeg4 -g 40 -bf 2"),
    ("large.mp4", "1280x720", "25", 6, ""),
];
const HEVC: &str = "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=60 -pix_fmt yuv420p";
const BT709: &str = "-colorspace bt709 -color_primaries bt709 -color_trc bt709 -color_range tv";

fn make_videos(dir: &Path) {
    let at = |name: &str| dir.join(name);
    for (name, size, rate, seconds, options) in MADE {
        let encoder = if options.starts_with("-c:v") { "" } else { X264 };
        let options = [encoder, options].map(str::split_whitespace).into_iter().flatten();
        ffmpeg(&at(name), size, rate, seconds, &options.collect::<Vec<_>>());
    }
    rotate(&at("bt709.mp4"), &at("rotated.mp4"), 90);
    rotate(&at("bt709.mp4"), &at("upsidedown.mp4"), 180);
    // Cut at a time between key frames: an edit list hides what lies before it.
    remux(&at("h264.mp4"), &at("editlist.mp4"), "-ss 3.3", "");
    // A matroska file whose end, cues included, is missing.
    let whole = std::fs::read(at("bframes.mkv")).unwrap();
    std::fs::write(at("nocues.mkv"), &whole[..whole.len() * 2 / 3]).unwrap();
    // An mp4 whose media data ends half-way while its index says otherwise.
    remux(&at("h264.mp4"), &at("faststart.mp4"), "", "-movflags +faststart");
    let whole = std::fs::read(at("faststart.mp4")).unwrap();
    std::fs::write(at("truncated.mp4"), &whole[..whole.len() / 2]).unwrap();
}

/// Requests as (ours, Python's dictionary).
fn requests() -> Vec<(VideoRequest, Value)> {
    let base = VideoRequest::at_default_rate();
    vec![
        (VideoRequest::overview(4), json!({"nframes": 4})),
        (VideoRequest::overview(7), json!({"nframes": 7})),
        (VideoRequest::overview(64), json!({"nframes": 64})),
        (base, json!({})),
        (
            VideoRequest {
                sampling: Sampling::Fps { fps: 0.7, min_frames: 3, max_frames: Some(11) },
                ..base
            },
            json!({"fps": 0.7, "min_frames": 3, "max_frames": 11}),
        ),
        (
            VideoRequest { max_pixels: Some(100_000), ..VideoRequest::overview(6) },
            json!({"nframes": 6, "max_pixels": 100000}),
        ),
        crop(1.0, 4.0),
        crop(2.5, 2.6),
        crop(0.0, 1000.0),
        crop(5.0, 2.0),
        crop(-3.0, 2.0),
        crop(f64::NAN, f64::INFINITY),
    ]
}

fn python() -> String {
    std::env::var("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test")
}

/// Rates, numbers of frames and time scales whose lengths are no whole seconds.
const UNEVEN: [(&str, u32, &[&str]); 8] = [
    ("24", 1100, &[]),
    ("24", 1511, &["-video_track_timescale", "24000"]),
    ("25", 777, &[]),
    ("25", 941, &["-video_track_timescale", "90000"]),
    ("30", 1000, &["-video_track_timescale", "90000"]),
    ("30", 1357, &[]),
    ("60", 2003, &[]),
    ("30000/1001", 941, &[]),
];

#[test]
#[ignore = "needs Python: run by ci/test"]
fn windows_of_files_with_uneven_streams_equal_torchcodec() {
    let dir = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    let mut ours = Vec::new();
    for (number, (rate, count, options)) in UNEVEN.into_iter().enumerate() {
        let path = dir.path().join(format!("{number}.mp4"));
        uneven(&path, rate, count, options);
        let file = VideoFile::open(&path).unwrap();
        for start in (0..30).step_by(3) {
            let (request, ele) = crop(f64::from(start), f64::from(start + 2 + start % 9));
            cases.push(json!({"video": path, "patch": 14, "ele": ele}));
            ours.push((rate, count, file.plan(&request).map(|planned| planned.0), ele));
        }
    }
    let out = reference(&python(), dir.path(), &cases);
    for (number, (rate, count, found, ele)) in ours.into_iter().enumerate() {
        let expected = outcome(&out, number);
        assert_eq!(json!(found.unwrap()), expected["indices"], "{count} frames at {rate}: {ele}");
    }
}

#[test]
#[ignore = "needs Python and the ffmpeg program: run by ci/test"]
fn frames_are_those_of_qwen_vl_utils() {
    // Videos and what Python makes of them are kept until what makes them or the environment is another.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("qwen-vl-utils");
    let (here, python) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"), PathBuf::from(python()));
    let asked = || {
        VIDEOS.into_iter().flat_map(|name| {
            requests().into_iter().enumerate().map(move |(number, (request, ele))| {
                let image_patch_size = if number % 2 == 0 { 14 } else { 16 };
                (name, VideoRequest { image_patch_size, ..request }, ele)
            })
        })
    };
    // ci/setup's, of an environment of its own.
    let packages = python.ancestors().nth(2).map(|environment| environment.join(".peers"));
    let packages = packages.filter(|packages| packages.exists()).unwrap_or_else(|| python.clone());
    let [cases, videos, script] =
        ["all/qwen_vl_utils.rs", "all/files/mod.rs", "reference.py"].map(|file| here.join(file));
    let from = [cases, videos, script, packages];
    paravt_files::make_once(&folder, &from, |folder| {
        make_videos(folder);
        let case = |(name, request, ele): (&str, VideoRequest, Value)| {
            json!({"video": folder.join(name), "patch": request.image_patch_size, "ele": ele})
        };
        reference(&python.to_string_lossy(), folder, &asked().map(case).collect::<Vec<_>>());
    })
    .unwrap();
    let out = folder.join("reference");
    let (mut compared, mut refused, mut worst) = (0, 0, 0.0f64);
    for (number, (name, request, _)) in asked().enumerate() {
        let expected = outcome(&out, number);
        let found = fetch_video(&folder.join(name), &request);
        if expected.get("raises").is_some() {
            // A damaged file may give us frames where the reference gives up, never the other way round.
            let damaged = matches!(name, "truncated.mp4" | "nocues.mkv");
            assert!(found.is_err() || damaged, "{name} {request:?}: {expected}, but we found frames");
            refused += 1;
            continue;
        }
        let found = found.unwrap_or_else(|error| panic!("{name} {request:?}: {error}, but {expected}"));
        let indices: Vec<usize> = found.frames.iter().map(|frame| frame.index).collect();
        assert_eq!(json!(indices), expected["indices"], "{name} {request:?}");
        let frame = &found.frames[0];
        let shape = json!([found.frames.len(), frame.height, frame.width]);
        assert_eq!(shape, expected["shape"], "{name} {request:?}");
        let each = differences(&out, number, &found.frames);
        // Some frames of the AVI file are others than torchcodec 0.17 shows: the mean over the sample counts.
        let difference = each.iter().sum::<f64>() / each.len() as f64;
        assert!(
            difference < MEAN_DIFFERENCE,
            "{name} {request:?}: pixels differ by {difference:.2} on average"
        );
        println!("{name:16} {difference:.3} {:?}", request.sampling);
        worst = worst.max(difference);
        compared += 1;
    }
    println!(
        "{compared} samples compared, {refused} refused by both, largest mean difference {worst:.3} of 255"
    );
    assert!(compared > 100 && refused > 20);
}

#[test]
#[ignore = "needs the ffmpeg program: run by ci/test"]
fn files_without_video_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let audio = dir.path().join("audio.mp4");
    let status = Command::new("ffmpeg")
        .args(["-loglevel", "error", "-f", "lavfi", "-i", "sine=duration=2", "-c:a", "aac"])
        .arg(&audio)
        .status();
    assert!(status.unwrap().success());
    let request = VideoRequest::overview(4);
    assert!(matches!(fetch_video(&audio, &request), Err(MediaError::NoVideo)));
    let text = dir.path().join("text.mp4");
    std::fs::write(&text, "not a video").unwrap();
    assert!(matches!(fetch_video(&text, &request), Err(MediaError::Open { .. })));
    assert!(matches!(fetch_video(&dir.path().join("none.mp4"), &request), Err(MediaError::Open { .. })));
}
