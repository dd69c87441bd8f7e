//! Transport and program streams, AVI files and damaged files: what both pinned readers make of them.
//!
//! Needs PARAVT_UPSTREAM_PYTHON (`ci/compare/wire` makes that environment): where damage lies depends on the encoder at hand.

use std::path::{Path, PathBuf};

use crate::files::{MEAN_DIFFERENCE, crop, ffmpeg, outcome, reference, uneven, worst_difference};
use crate::pinned::{described, stripped};
use paravt_media::{Reader, VideoRequest, fetch_video};
use serde_json::{Value, json};

/// Numbers that look drawn and are the same everywhere.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// A copy with some bytes of its pictures changed.
fn damaged(from: &Path, to: &Path, count: usize, (from_part, to_part): (f64, f64), seed: u64) {
    let mut bytes = std::fs::read(from).unwrap();
    let start = bytes.windows(4).position(|window| window == b"mdat").unwrap() + 4;
    let end = bytes.windows(4).rposition(|window| window == b"moov").unwrap();
    let at = |part: f64| start + ((end - start) as f64 * part) as usize;
    let (start, end) = (at(from_part), at(to_part));
    let mut drawn = Drawn(seed);
    for _ in 0..count {
        let place = start + drawn.below(end - start);
        bytes[place] = drawn.below(256) as u8;
    }
    std::fs::write(to, bytes).unwrap();
}

fn videos(dir: &Path) -> Vec<PathBuf> {
    let at = |name: &str| dir.join(name);
    let words = |text: &'static str| text.split(' ').collect::<Vec<_>>();
    for (name, options) in [
        ("h264.ts", "-c:v libx264 -preset veryfast -bf 3 -g 50 -pix_fmt yuv420p"),
        ("mpeg2.ts", "-c:v mpeg2video -bf 2 -g 15 -q:v 3"),
        ("b-frames.avi", "-c:v mpeg4 -bf 2 -g 40"),
        ("plain.avi", "-c:v mpeg4 -g 40"),
        ("h264.avi", "-c:v libx264 -preset veryfast -bf 2 -g 40 -pix_fmt yuv420p"),
        ("mjpeg.avi", "-c:v mjpeg -q:v 4"),
        ("flash.flv", "-c:v flv -g 30"),
        ("mpeg1.mpg", "-c:v mpeg1video -bf 2 -g 15 -q:v 3 -f mpeg"),
        ("mpeg2.mpg", "-c:v mpeg2video -bf 2 -g 15 -q:v 3 -f vob"),
        // Several pictures in a packet of the container: most without a time.
        ("slow.mpg", "-c:v mpeg1video -bf 2 -g 15 -b:v 100k -f mpeg"),
        ("open.mkv", "-c:v libx264 -preset veryfast -bf 3 -g 50 -x264-params open-gop=1 -pix_fmt yuv420p"),
    ] {
        ffmpeg(&at(name), "160x90", "25", 10, &words(options));
    }
    // Of these torchcodec misses the last pictures, and the second reader serves every request that has one of them.
    ffmpeg(&at("packed.avi"), "96x64", "25", 5, &words("-frames:v 121 -c:v mpeg4 -bf 2"));
    ffmpeg(&at("packed-120.avi"), "96x64", "25", 5, &words("-frames:v 120 -c:v mpeg4 -bf 2"));
    let kinds = ["h264", "mpeg4"];
    uneven(&at("h264.mp4"), "25", 250, &words("-preset veryfast -bf 2"));
    ffmpeg(&at("mpeg4.mp4"), "160x90", "25", 10, &words("-c:v mpeg4 -bf 2 -g 40"));
    for kind in kinds {
        let whole = at(&format!("{kind}.mp4"));
        damaged(&whole, &at(&format!("{kind}-rot.mp4")), 60, (0.33, 0.67), 7);
        for (seed, count) in [1, 2, 4, 8, 15, 25, 40].into_iter().enumerate() {
            damaged(&whole, &at(&format!("{kind}-{count}.mp4")), count, (0.02, 1.0), seed as u64);
        }
    }
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn requests() -> Vec<(VideoRequest, Value)> {
    let overviews = [8, 64].map(|count| (VideoRequest::overview(count), json!({"nframes": count})));
    let windows = [(0.0, 3.0), (5.0, 10.0), (7.0, 9.0), (3.01, 3.05), (9.5, 20.0)];
    overviews.into_iter().chain(windows.map(|(start, end)| crop(start, end))).collect()
}

#[test]
#[ignore = "needs the ffmpeg program: run by ci/test"]
fn other_containers_and_damaged_files_are_read_as_the_pinned_readers_read_them() {
    let Ok(python) = std::env::var("PARAVT_UPSTREAM_PYTHON") else { return };
    let dir = tempfile::tempdir().unwrap();
    let files = videos(dir.path());
    let pairs: Vec<(&PathBuf, (VideoRequest, Value))> =
        files.iter().flat_map(|path| requests().into_iter().map(move |request| (path, request))).collect();
    let cases: Vec<Value> =
        pairs.iter().map(|(path, (_, ele))| json!({"video": path, "patch": 14, "ele": ele})).collect();
    let out = reference(&python, dir.path(), &cases);
    let (mut differing, mut other_paint, mut made_up) = (Vec::new(), 0, 0);
    for (number, (path, (request, ele))) in pairs.iter().enumerate() {
        let found = fetch_video(path, &request.with_reader(Reader::Pinned));
        let (ours, theirs) = (described(&found), stripped(outcome(&out, number)));
        let name = path.file_name().unwrap().to_string_lossy();
        // Times that only PyAV's own FFmpeg makes up (quirks.md, AVI files by the second reader).
        if name == "h264.avi" && theirs.get("times").is_some() {
            made_up += 1;
            continue;
        }
        if ours != theirs {
            let error = found.as_ref().err();
            differing.push(format!("{name} {ele}\n  reference {theirs}\n  ours      {ours} {error:?}"));
        } else if let Ok(sampled) = &found
            && worst_difference(&out, number, &sampled.frames) > MEAN_DIFFERENCE
        {
            // What stands in the place of damage is no rule of the reader (quirks.md, Damaged streams).
            match name.contains('-') && name.ends_with(".mp4") {
                true => other_paint += 1,
                false => differing.push(format!("{name} {ele}: other pictures")),
            }
        }
    }
    println!(
        "{} cases of {} files; {other_paint} with other paint over damage, {made_up} with times that PyAV makes up",
        pairs.len(),
        files.len()
    );
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
    assert!(other_paint < 20);
}
