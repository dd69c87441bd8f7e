//! Videos made on the spot, and the reference that samples them too.

use std::path::{Path, PathBuf};
use std::process::Command;

use paravt_media::VideoRequest;
use serde_json::{Value, json};

/// Mean absolute difference of 8-bit values that counts as the same picture.
pub(crate) const MEAN_DIFFERENCE: f64 = 2.0;

/// A source whose parts differ in colour and move, so that a wrong frame or matrix shows.
pub(crate) fn ffmpeg(out: &Path, size: &str, rate: &str, seconds: u32, options: &[&str]) {
    let source = format!("testsrc2=size={size}:rate={rate}:duration={seconds}");
    let output = Command::new("ffmpeg")
        .args(["-loglevel", "error", "-y", "-f", "lavfi", "-i", &source])
        .args(options)
        .arg(out)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Copies the streams of a file into another, with options before its name and behind it.
pub(crate) fn remux(from: &Path, to: &Path, before: &str, after: &str) {
    let status = Command::new("ffmpeg")
        .args(["-loglevel", "error", "-y"])
        .args(before.split_whitespace())
        .arg("-i")
        .arg(from)
        .args(["-c", "copy"])
        .args(after.split_whitespace())
        .arg(to)
        .status();
    assert!(status.unwrap().success(), "{}", to.display());
}

/// Writes the display matrix of a rotation into a copy of an mp4 (older ffmpeg programs cannot).
pub(crate) fn rotate(from: &Path, to: &Path, degrees: u32) {
    let mut bytes = std::fs::read(from).unwrap();
    let one = 0x0001_0000u32.to_be_bytes();
    let minus = 0xffff_0000u32.to_be_bytes();
    let zero = [0u8; 4];
    let w = 0x4000_0000u32.to_be_bytes();
    let identity = [one, zero, zero, zero, one, zero, zero, zero, w].concat();
    let turned = match degrees {
        90 => [zero, one, zero, minus, zero, zero, zero, zero, w].concat(),
        _ => [minus, zero, zero, zero, minus, zero, zero, zero, w].concat(),
    };
    // The matrix stands in the movie header and in the track header; the track's is what counts.
    let track = bytes.windows(4).position(|window| window == b"tkhd").unwrap();
    let at = track + bytes[track..].windows(36).position(|window| window == identity).unwrap();
    bytes[at..at + 36].copy_from_slice(&turned);
    std::fs::write(to, bytes).unwrap();
}

/// `count` frames of a moving picture at a rate, in a file of the given options: few files of these
/// last a whole number of seconds.
pub(crate) fn uneven(out: &Path, rate: &str, count: u32, options: &[&str]) {
    let source = format!("testsrc2=size=160x90:rate={rate}");
    let status = Command::new("ffmpeg")
        .args(["-loglevel", "error", "-y", "-f", "lavfi", "-i", &source, "-frames:v", &count.to_string()])
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "100"])
        .args(options)
        .arg(out)
        .status();
    assert!(status.unwrap().success(), "{}", out.display());
}

/// A crop as ours and as Python's dictionary.
pub(crate) fn crop(start: f64, end: f64) -> (VideoRequest, Value) {
    let number = |value: f64| {
        if value.is_finite() { json!(value) } else { json!(value.to_string().to_lowercase()) }
    };
    let ele = json!({"fps": 1, "min_frames": 1, "max_frames": 16, "min_pixels": 784, "max_pixels": 50176,
        "video_start": number(start), "video_end": number(end)});
    (VideoRequest::crop(start, end, 16), ele)
}

/// What Python makes of the cases: one JSON file and one file of pixels each, in the folder returned.
pub(crate) fn reference(python: &str, dir: &Path, cases: &[Value]) -> PathBuf {
    let (file, out) = (dir.join("cases.json"), dir.join("reference"));
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(&file, Value::from(cases.to_vec()).to_string()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference.py");
    let output = Command::new(python).arg(script).arg(file).arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out
}

pub(crate) fn outcome(out: &Path, number: usize) -> Value {
    serde_json::from_str(&std::fs::read_to_string(out.join(format!("{number}.json"))).unwrap()).unwrap()
}

/// The mean absolute difference of each frame's pixels to those of a case.
pub(crate) fn differences(out: &Path, number: usize, frames: &[paravt_media::Frame]) -> Vec<f64> {
    let theirs = std::fs::read(out.join(format!("{number}.rgb"))).unwrap();
    let mean = |(ours, theirs): (&paravt_media::Frame, &[u8])| {
        let sum: u64 = ours.rgb.iter().zip(theirs).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
        sum as f64 / theirs.len() as f64
    };
    frames.iter().zip(theirs.chunks(frames[0].rgb.len())).map(mean).collect()
}

/// The largest of these differences.
pub(crate) fn worst_difference(out: &Path, number: usize, frames: &[paravt_media::Frame]) -> f64 {
    differences(out, number, frames).into_iter().fold(0.0, f64::max)
}
