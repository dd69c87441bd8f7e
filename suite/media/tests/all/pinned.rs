//! The frames of the releases that the reference pins (torchcodec 0.10.0, torchvision 0.25.0 with PyAV
//! 15.1), by vectors that the real readers gave.
//!
//! With PARAVT_UPSTREAM_PYTHON (`ci/compare/wire` makes that environment) the readers are asked afresh, pixels
//! are compared too, and PARAVT_UPDATE=1 writes the vectors.

use std::path::{Path, PathBuf};

use crate::files::{MEAN_DIFFERENCE, crop, outcome, reference, remux, rotate, uneven, worst_difference};
use paravt_media::{MediaError, Reader, Sampled, VideoRequest, fetch_video};
use serde_json::{Value, json};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Files by name; their frames' times follow from the options alone.
fn videos(dir: &Path) -> Vec<(String, PathBuf)> {
    let at = |name: &str| dir.join(name);
    let scale = |units: &'static str| ["-video_track_timescale", units];
    uneven(&at("24.mp4"), "24", 460, &[]);
    uneven(&at("25-90000.mp4"), "25", 407, &scale("90000"));
    uneven(&at("30-90000.mp4"), "30", 581, &scale("90000"));
    uneven(&at("ntsc.mp4"), "30000/1001", 551, &[]);
    uneven(&at("slow.mp4"), "3", 61, &[]);
    uneven(&at("b-frames.mp4"), "24", 400, &["-preset", "veryfast", "-bf", "3"]);
    uneven(&at("bt709.mp4"), "25", 300, &["-colorspace", "bt709", "-color_primaries", "bt709"]);
    // A picture stands for 40 s; a key frame follows it, or none, and less than that of the file.
    for (name, at_frame) in [("pause-key.mp4", 300), ("pause.mp4", 330)] {
        let filter = format!("setpts=PTS+gte(N\\,{at_frame})*40/TB");
        let options =
            ["-preset", "veryfast", "-bf", "3", "-sc_threshold", "0", "-vsync", "vfr", "-vf", &filter];
        uneven(&at(name), "25", 400, &options);
    }
    uneven(&at("late.mkv"), "24", 400, &["-output_ts_offset", "2.5"]);
    remux(&at("b-frames.mp4"), &at("edit-list.mp4"), "-ss 1.3", "");
    remux(&at("b-frames.mp4"), &at("sound.mkv"), "-f lavfi -i sine=duration=16", "");
    rotate(&at("24.mp4"), &at("turned.mp4"), 90);
    let mut found: Vec<(String, PathBuf)> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect();
    // Ends in the middle of its pictures, behind an index that names them all.
    found.push(("cut.mp4".to_owned(), data("cut.mp4")));
    found.sort();
    found
}

fn requests() -> Vec<(VideoRequest, Value)> {
    let windows = [
        (5.0, 10.0),
        (7.0, 9.0),
        (11.0, 13.5),
        (0.0, 40.0),
        // One frame, which the second reader gives together with the one before.
        (5.01, 5.05),
        (19.15, 45.0),
        (16.0, 1e6),
        (0.0, 0.03),
        // No frame, or nothing that either reader takes.
        (5.005, 5.006),
        (5.0, 5.0),
        (9.0, 4.0),
        (1e6, 2e6),
        (-5.0, 2.0),
        (-5.0, -2.0),
        (f64::NAN, f64::INFINITY),
        (3.0, f64::INFINITY),
        (f64::NAN, f64::NAN),
    ];
    let overviews = [7, 64].map(|count| (VideoRequest::overview(count), json!({"nframes": count})));
    overviews.into_iter().chain(windows.map(|(start, end)| crop(start, end))).collect()
}

/// What the vectors hold of a sample.
pub(crate) fn described(found: &Result<Sampled, MediaError>) -> Value {
    let Ok(sampled) = found else { return json!("raises") };
    let frames = &sampled.frames;
    let shape = json!([frames.len(), frames[0].height, frames[0].width]);
    if sampled.second_reader {
        json!({"shape": shape, "times": frames.iter().map(|frame| frame.time_us).collect::<Vec<_>>()})
    } else {
        json!({"shape": shape, "indices": frames.iter().map(|frame| frame.index).collect::<Vec<_>>()})
    }
}

/// The same of what Python wrote.
pub(crate) fn stripped(mut outcome: Value) -> Value {
    if outcome.get("raises").is_some() {
        return json!("raises");
    }
    outcome.as_object_mut().unwrap().remove("fps");
    outcome
}

#[test]
#[ignore = "needs the ffmpeg program: run by ci/test"]
fn frames_are_those_of_the_pinned_readers() {
    let dir = tempfile::tempdir().unwrap();
    let (mut names, mut cases, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for (name, path) in &videos(dir.path()) {
        for (request, ele) in requests() {
            names.push(format!("{name} {ele}"));
            cases.push(json!({"video": path, "patch": 14, "ele": ele}));
            found.push(fetch_video(path, &request.with_reader(Reader::Pinned)));
        }
    }
    let vectors = data("pinned.json");
    let expected: Vec<Value> = match std::env::var("PARAVT_UPSTREAM_PYTHON") {
        Ok(python) => {
            let out = reference(&python, dir.path(), &cases);
            for (number, sampled) in found.iter().enumerate() {
                let Ok(sampled) = sampled else { continue };
                if outcome(&out, number).get("raises").is_none() {
                    let mean = worst_difference(&out, number, &sampled.frames);
                    assert!(mean < MEAN_DIFFERENCE, "{}: {mean:.2} levels", names[number]);
                }
            }
            (0..cases.len()).map(|number| stripped(outcome(&out, number))).collect()
        }
        Err(_) => serde_json::from_slice(&std::fs::read(&vectors).unwrap()).unwrap(),
    };
    if std::env::var_os("PARAVT_UPDATE").is_some() {
        let lines: Vec<String> = expected.iter().map(Value::to_string).collect();
        std::fs::write(&vectors, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
    }
    assert_eq!(expected.len(), found.len());
    let mut differing = Vec::new();
    for ((name, expected), found) in names.iter().zip(&expected).zip(&found) {
        let ours = described(found);
        if ours != *expected {
            differing.push(format!(
                "{name}\n  reference {expected}\n  ours      {ours} {:?}",
                found.as_ref().err()
            ));
        }
    }
    let second = found.iter().filter(|found| found.as_ref().is_ok_and(|found| found.second_reader)).count();
    let refused = found.iter().filter(|found| found.is_err()).count();
    println!("{} cases, {second} by the second reader, {refused} refused", found.len());
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
    assert!(second > 10 && refused > 90);
}

#[test]
#[ignore = "needs the ffmpeg program: run by ci/test"]
fn other_readers_neither_fall_back_nor_ignore_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let (upright, turned) = (dir.path().join("a.mp4"), dir.path().join("b.mp4"));
    uneven(&upright, "24", 100, &[]);
    rotate(&upright, &turned, 90);
    let size = |reader| {
        let sampled = fetch_video(&turned, &VideoRequest::overview(4).with_reader(reader)).unwrap();
        (sampled.frames[0].width > sampled.frames[0].height, sampled.info.rotation)
    };
    assert_eq!((size(Reader::Pinned), size(Reader::Current)), ((true, 0), (false, 270)));
    let one_frame = crop(2.01, 2.05).0;
    let second = fetch_video(&upright, &one_frame.with_reader(Reader::Pinned)).unwrap();
    assert_eq!(second.frames.iter().map(|frame| frame.index).collect::<Vec<_>>(), [48, 49]);
    assert!(second.second_reader && fetch_video(&upright, &one_frame).is_err());
}
