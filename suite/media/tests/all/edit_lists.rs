//! Files that were cut between key frames (`-ss … -c copy`): their edit list hides the pictures before the cut, and
//! torchcodec 0.10 cannot show those before the first key frame that is left.
//!
//! The vectors hold which frame the real reader shows for each that was asked for. With PARAVT_UPSTREAM_PYTHON
//! (`ci/compare/wire` makes that environment) it is asked afresh, and PARAVT_UPDATE=1 writes them.

use std::path::{Path, PathBuf};

use crate::files::{crop, ffmpeg, outcome, reference, remux};
use paravt_media::{Frame, Reader, Sampling, VideoFile, VideoRequest};
use serde_json::{Value, json};

const ENCODINGS: [(&str, &str); 5] = [
    ("plain", "-c:v libx264 -preset veryfast -bf 0 -g 40 -pix_fmt yuv420p"),
    ("b-frames", "-c:v libx264 -preset veryfast -bf 3 -g 50 -pix_fmt yuv420p"),
    ("open", "-c:v libx264 -preset veryfast -bf 3 -g 50 -x264-params open-gop=1 -pix_fmt yuv420p"),
    ("hevc", "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=40 -pix_fmt yuv420p"),
    ("mpeg4", "-c:v mpeg4 -bf 2 -g 30 -q:v 3"),
];
const CUTS: [&str; 12] =
    ["0.1", "0.52", "1.3", "1.58", "1.62", "2", "2.44", "3.3", "3.97", "5.05", "6.6", "7.77"];

fn videos(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (name, options) in ENCODINGS {
        let whole = dir.join(format!("{name}.mp4"));
        ffmpeg(&whole, "96x64", "25", 10, &options.split(' ').collect::<Vec<_>>());
        for cut in CUTS {
            for container in ["mp4", "mov"] {
                let path = dir.join(format!("{name}-{cut}.{container}"));
                remux(&whole, &path, &format!("-ss {cut}"), "");
                found.push(path);
            }
        }
    }
    found
}

fn requests() -> Vec<(VideoRequest, Value)> {
    let bounded = |mut request: VideoRequest, mut ele: Value| {
        (request.min_pixels, request.max_pixels) = (Some(784), Some(50176));
        (ele["min_pixels"], ele["max_pixels"]) = (json!(784), json!(50176));
        (request, ele)
    };
    // Every frame of two seconds: the reader goes from one to the next without a seek.
    let (mut every, mut ele) = crop(0.0, 2.2);
    every.sampling = Sampling::Fps { fps: 25.0, min_frames: 4, max_frames: Some(64) };
    (ele["fps"], ele["min_frames"], ele["max_frames"]) = (json!(25), json!(4), json!(64));
    let overview = bounded(VideoRequest::overview(16), json!({"nframes": 16}));
    vec![overview, (every, ele), crop(0.0, 3.0), crop(0.1, 2.05)]
}

/// Mean difference of two pictures of one size.
fn distance(a: &[u8], b: &[u8]) -> f64 {
    let sum: u64 = a.iter().zip(b).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    sum as f64 / a.len() as f64
}

/// Which frames of the file these pictures are.
pub(crate) fn frames_of<'a>(
    asked: &[usize],
    pictures: impl Iterator<Item = &'a [u8]>,
    all: &[Frame],
) -> Vec<usize> {
    let mut ahead = 0;
    let mut nearest = |asked: usize, picture: &[u8]| {
        // Neighbours differ by more than two levels.
        for guess in [asked, asked + ahead] {
            if all.get(guess).is_some_and(|frame| distance(picture, &frame.rgb) < 1.0) {
                return guess;
            }
        }
        let distances = all.iter().map(|frame| distance(picture, &frame.rgb));
        let (at, least) = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert!(least < 2.0, "frame {asked} is shown as none of the file's: {least:.1} levels from {at}");
        ahead = at.saturating_sub(asked);
        at
    };
    asked.iter().zip(pictures).map(|(&asked, picture)| nearest(asked, picture)).collect()
}

/// What the reader shows, for a vector: nothing where these are the frames that were asked for.
fn moved(asked: &[usize], shown: Option<Vec<usize>>) -> Value {
    match shown {
        None => json!("raises"),
        Some(shown) if shown == asked => Value::Null,
        Some(shown) => json!(shown),
    }
}

#[test]
#[ignore = "needs the ffmpeg program: run by ci/test"]
fn frames_before_the_first_key_frame_are_those_that_the_pinned_reader_shows() {
    let dir = tempfile::tempdir().unwrap();
    let (files, requests) = (videos(dir.path()), requests());
    let pairs = || files.iter().flat_map(|path| requests.iter().map(move |request| (path, request)));
    let out = std::env::var("PARAVT_UPSTREAM_PYTHON").ok().map(|python| {
        let case = |(path, (_, ele)): (&PathBuf, &(VideoRequest, Value))| json!({"video": path, "patch": 14, "ele": ele});
        reference(&python, dir.path(), &pairs().map(case).collect::<Vec<_>>())
    });
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/edit-lists.json");
    let mut expected: Vec<Value> = match &out {
        Some(_) => Vec::new(),
        None => serde_json::from_slice(&std::fs::read(&vectors).unwrap()).unwrap(),
    };
    let mut differing = Vec::new();
    for (number, path) in files.iter().enumerate() {
        let file = VideoFile::open(path).unwrap();
        let (_, size) = file.plan(&requests[0].0).unwrap();
        let all = file.frames_at(&(0..file.info().frames).collect::<Vec<_>>(), size).unwrap();
        for (request, (wanted, ele)) in requests.iter().enumerate() {
            let case = number * requests.len() + request;
            let wanted = wanted.with_reader(Reader::Pinned);
            let (asked, _) = file.plan(&wanted).unwrap();
            let ours = file.sample(&wanted, Ok).ok().filter(|sampled| !sampled.second_reader);
            let ours =
                ours.map(|sampled| frames_of(&asked, sampled.frames.iter().map(|one| &one.rgb[..]), &all));
            if let Some(out) = &out {
                let first = outcome(out, case)["indices"] == json!(asked);
                let pixels = first.then(|| std::fs::read(out.join(format!("{case}.rgb"))).unwrap());
                let theirs = pixels.map(|pixels| frames_of(&asked, pixels.chunks(all[0].rgb.len()), &all));
                expected.push(moved(&asked, theirs));
            }
            let (ours, theirs) = (moved(&asked, ours), &expected[case]);
            if ours != *theirs {
                let name = path.file_name().unwrap().display();
                differing.push(format!(
                    "{name} {ele}\n  asked     {asked:?}\n  reference {theirs}\n  ours      {ours}"
                ));
            }
        }
    }
    if out.is_some() && std::env::var_os("PARAVT_UPDATE").is_some() {
        let lines: Vec<String> = expected.iter().map(Value::to_string).collect();
        std::fs::write(&vectors, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
    }
    let others = expected.iter().filter(|shown| !shown.is_null()).count();
    println!(
        "{} cases of {} files; in {others} other frames are shown than asked for",
        expected.len(),
        files.len()
    );
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
    assert!(others > 50 && expected.len() == files.len() * requests.len());
}
