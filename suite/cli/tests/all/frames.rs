//! The frames that a model would see, as files beside their description.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{bench, ends, ok};
use serde_json::{Value, json};

/// Ten seconds of a moving test picture: 100 frames of 320x240.
fn video(folder: &Path) -> PathBuf {
    let path = folder.join("picture.mp4");
    let picture = ["-f", "lavfi", "-i", "testsrc2=size=320x240:rate=10:duration=10"];
    ok(Command::new("ffmpeg").args(["-loglevel", "error"]).args(picture).arg(&path));
    path
}

fn frames(video: &Path, out: &Path, extra: &[&str]) -> Command {
    let mut command = bench();
    command.arg("frames").arg(video).arg("--out").arg(out).args(extra);
    command
}

/// What a command writes and says.
fn described(command: Command, out: &Path, words: &[&str]) -> Value {
    ends(0, command, words);
    serde_json::from_slice(&std::fs::read(out.join("frames.json")).unwrap()).unwrap()
}

/// Width and height of every PNG in a folder, by name; each is decoded to its last row.
fn pictures(folder: &Path) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "png") {
            continue;
        }
        let file = std::io::BufReader::new(std::fs::File::open(&path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut rgb).unwrap();
        assert!(rgb.iter().any(|value| *value != rgb[0]), "{} is one colour", path.display());
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        found.push((name, json!([info.width, info.height])));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn assert_times(found: &Value, indices: &[u64]) {
    assert_eq!(found["indices"], json!(indices));
    for name in ["timestamps", "index_over_fps"] {
        let times: Vec<f64> = found[name].as_array().unwrap().iter().map(|t| t.as_f64().unwrap()).collect();
        assert_eq!(times.len(), indices.len());
        for (time, index) in times.iter().zip(indices) {
            assert!((time - *index as f64 / 10.0).abs() < 1e-6, "{name}: {time} of frame {index}");
        }
    }
}

#[test]
#[ignore = "needs the ffmpeg program: run by ci/test"]
fn frames_are_evenly_spaced_and_described_in_json() {
    let dir = tempfile::tempdir().unwrap();
    let (video, out) = (video(dir.path()), dir.path().join("out"));
    let found = described(frames(&video, &out, &["--nframes", "6"]), &out, &["6 frames"]);
    // round(i * 99 / 5), at ten frames per second.
    assert_times(&found, &[0, 20, 40, 59, 79, 99]);
    // 320x240 is enlarged to at least 128*28*28 pixels with sides that 28 divides.
    assert_eq!(found["sizes"], json!(vec![[392, 280]; 6]));
    let written = pictures(&out);
    let names: Vec<&String> = written.iter().map(|(name, _)| name).collect();
    assert_eq!(json!(names), found["files"]);
    assert!(written.iter().all(|(_, size)| *size == json!([392, 280])), "{written:?}");
    assert_eq!(found["video"], "picture.mp4");
    assert_eq!(found["info"]["frames"], 100);

    // Fewer frames into the same folder: nothing of the first call is left beside them.
    std::fs::write(out.join("note.txt"), "mine").unwrap();
    let found = described(frames(&video, &out, &["--nframes", "2"]), &out, &[]);
    assert_times(&found, &[0, 99]);
    assert_eq!(pictures(&out).len(), 2);
    assert!(out.join("note.txt").exists());
}

#[test]
#[ignore = "needs the ffmpeg program: run by ci/test"]
fn a_window_a_rate_and_a_patch_size_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (video, out) = (video(dir.path()), dir.path().join("out"));
    let window = ["--fps", "1", "--start", "2", "--end", "6", "--patch-size", "16"];
    let sizes = ["--min-pixels", "784", "--max-pixels", "20000"];
    let found = described(frames(&video, &out, &[&window[..], &sizes[..]].concat()), &out, &[]);
    assert_times(&found, &[20, 33, 47, 60]);
    // 320x240 scaled to at most 20000 pixels is 163x122; 32 divides 160 and 96.
    assert_eq!(found["sizes"], json!(vec![[160, 96]; 4]));
    assert_eq!(pictures(&out).len(), 4);
}

#[test]
#[ignore = "needs the ffmpeg program: run by ci/test"]
fn what_cannot_be_sampled_is_named_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let good = video(dir.path());
    let (missing, broken) = (dir.path().join("missing.mp4"), dir.path().join("broken.mp4"));
    std::fs::write(&broken, "no video").unwrap();
    let out = dir.path().join("out");
    let cases: [(&Path, &[&str], &str); 8] = [
        (&missing, &[], "missing.mp4: cannot be opened as a video: No such file"),
        (&broken, &[], "broken.mp4: cannot be opened as a video"),
        (&good, &["--nframes", "200"], "200 frames asked for, 100 there"),
        (&good, &["--start", "20", "--end", "30"], "the window from 20.0 to 30.0 s"),
        (&good, &["--fps", "0"], "--fps"),
        (&good, &["--min-frames", "8", "--max-frames", "4"], "--min-frames 8: more than --max-frames 4"),
        (&good, &["--min-pixels", "9000", "--max-pixels", "1000"], "contradictory"),
        (&good, &["--nframes", "4", "--fps", "1"], "cannot be used with"),
    ];
    for (video, extra, problem) in cases {
        ends(2, frames(video, &out, extra), &[problem]);
        assert!(!out.exists(), "{problem}");
    }
}
