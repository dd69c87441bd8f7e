//! Streams whose key frames or times are not those of a plain file: today's reader shows the frames that a decode from
//! the first packet to the last counts, by the `ffmpeg` program.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::edit_lists::frames_of;
use crate::files::ffmpeg;
use paravt_media::{Depth, Frame, Reader, VideoFile, VideoRequest, check};

const SIZE: (u32, u32) = (96, 64);

/// All frames of a file, one after the other.
fn sequential(path: &Path) -> Vec<Frame> {
    let output = Command::new("ffmpeg")
        .args(["-loglevel", "quiet", "-i"])
        .arg(path)
        .args(["-vsync", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"])
        .output()
        .unwrap();
    let (width, height) = SIZE;
    let pictures = output.stdout.chunks_exact((width * height * 3) as usize).enumerate();
    pictures.map(|(index, rgb)| Frame { index, time_us: 0, width, height, rgb: rgb.to_vec() }).collect()
}

/// Checks every tenth frame and the ends of a file, whose first `lead` packets no decoder shows.
fn assert_counted(path: &Path, frames: usize, lead: usize) {
    let name = path.file_name().unwrap().to_string_lossy();
    let (file, all) = (VideoFile::open(path).unwrap(), sequential(path));
    assert_eq!((file.info().frames, all.len() + lead), (frames, frames), "{name}");
    let seconds = frames as f64 / 25.0;
    assert!((file.info().duration - seconds).abs() < 1e-3, "{name}: {} s", file.info().duration);
    let wanted: Vec<usize> = (0..frames).step_by(10).chain([frames - 1]).collect();
    let found = file.frames_at(&wanted, SIZE).unwrap_or_else(|error| panic!("{name}: {error}"));
    let counted: Vec<usize> = wanted.iter().map(|index| index.saturating_sub(lead)).collect();
    assert_eq!(frames_of(&counted, found.iter().map(|frame| &frame.rgb[..]), &all), counted, "{name}");
    for (frame, index) in found.iter().zip(wanted) {
        assert!(
            (frame.time() - index as f64 / 25.0).abs() < 1e-3,
            "{name}: frame {index} at {} s",
            frame.time()
        );
    }
    // What a check passes, a run reads, and the other way round.
    check(path, Depth::Frames).unwrap_or_else(|error| panic!("{name}: {error}"));
    for reader in [Reader::Current, Reader::Pinned] {
        let sampled = file.sample(&VideoRequest::overview(8).with_reader(reader), Ok);
        sampled.unwrap_or_else(|error| panic!("{name} {reader:?}: {error}"));
    }
}

fn encoded(dir: &Path, name: &str, seconds: u32, options: &str) -> PathBuf {
    let path = dir.join(name);
    ffmpeg(&path, "96x64", "25", seconds, &options.split(' ').collect::<Vec<_>>());
    path
}

fn joined(dir: &Path, name: &str, parts: &[&PathBuf]) -> PathBuf {
    let bytes: Vec<Vec<u8>> = parts.iter().map(|part| std::fs::read(part).unwrap()).collect();
    std::fs::write(dir.join(name), bytes.concat()).unwrap();
    dir.join(name)
}

const H264: &str = "-c:v libx264 -preset veryfast -pix_fmt yuv420p";

#[test]
#[ignore = "needs the ffmpeg program: run by ci/test"]
fn pictures_are_whole_where_none_is_a_key_frame_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let refreshed = format!("{H264} -x264-params intra-refresh=1:keyint=50:scenecut=0");
    for name in ["refreshed.mp4", "refreshed.mkv", "refreshed.ts", "refreshed.flv"] {
        assert_counted(&encoded(dir.path(), name, 10, &format!("{refreshed}:bframes=0")), 250, 0);
    }
    assert_counted(&encoded(dir.path(), "refreshed-b.mp4", 10, &format!("{refreshed}:bframes=3")), 250, 0);
    let rare = format!("{H264} -x264-params intra-refresh=1:keyint=9999:bframes=0");
    assert_counted(&encoded(dir.path(), "once.ts", 10, &rare), 250, 0);
    let open = "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=50:min-keyint=50:open-gop=1:bframes=4";
    for name in ["open.ts", "open.mp4"] {
        assert_counted(&encoded(dir.path(), name, 10, &format!("{open} -pix_fmt yuv420p")), 250, 0);
    }
}

#[test]
#[ignore = "needs the ffmpeg program: run by ci/test"]
fn the_first_picture_stands_for_packets_before_it_that_no_decoder_shows() {
    let dir = tempfile::tempdir().unwrap();
    let whole = encoded(dir.path(), "whole.ts", 10, &format!("{H264} -bf 0 -g 50 -sc_threshold 0"));
    let bytes = std::fs::read(&whole).unwrap();
    let cut = dir.path().join("cut.ts");
    std::fs::write(&cut, &bytes[bytes.len() / 10 / 188 * 188..]).unwrap();
    let frames = VideoFile::open(&cut).unwrap().info().frames;
    assert!(200 < frames && frames < 250, "{frames}");
    assert_counted(&cut, frames, frames - 200);
}

#[test]
#[ignore = "needs the ffmpeg program: run by ci/test"]
fn parts_put_behind_each_other_follow_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let part = |name: &str, options: &str| encoded(dir.path(), name, 4, options);
    let offset = |seconds: u32| format!("{H264} -bf 3 -g 40 -output_ts_offset {seconds}");
    let early = part("early.ts", &offset(0));
    let late = part("late.ts", &format!("{} -vf negate", offset(500)));
    let short = part("short.ts", &format!("{H264} -bf 0 -g 30 -frames:v 60 -vf hflip"));
    for (number, parts) in
        [[&early, &late], [&late, &early], [&early, &short], [&short, &late]].into_iter().enumerate()
    {
        let path = joined(dir.path(), &format!("two-{number}.ts"), &parts);
        let frames: usize = parts.iter().map(|part| if **part == short { 60 } else { 100 }).sum();
        assert_counted(&path, frames, 0);
    }
    assert_counted(&joined(dir.path(), "three.ts", &[&late, &short, &early]), 260, 0);
    let programs = ["-vf null", "-vf negate"].map(|filter| {
        part(&format!("{}.mpg", &filter[4..]), &format!("-c:v mpeg2video -bf 2 -g 15 -q:v 3 {filter} -f vob"))
    });
    assert_counted(&joined(dir.path(), "two.mpg", &[&programs[0], &programs[1]]), 200, 0);
    // The clock of 33 bits begins again in mid-file: that is no part.
    assert_counted(&encoded(dir.path(), "wrapped.ts", 10, &offset(95_440)), 250, 0);
    // Neither is a picture that stands for a time.
    let paused = "-vsync vfr -vf setpts=PTS+gte(N\\,40)*30/TB";
    for options in ["-bf 0", "-bf 3"] {
        let path = part("paused.ts", &format!("{H264} {options} -g 40 -sc_threshold 0 {paused}"));
        let duration = VideoFile::open(&path).unwrap().info().duration;
        assert!((duration - 34.0).abs() < 1e-3, "{options}: {duration} s");
    }
}

#[test]
#[ignore = "needs the ffmpeg program: run by ci/test"]
fn pictures_of_program_streams_are_counted_as_they_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    for (codec, format) in [("mpeg1video", "mpeg"), ("mpeg2video", "vob"), ("mpeg2video", "svcd")] {
        for (number, options) in
            ["-bf 2 -q:v 3", "-bf 2 -b:v 100k", "-bf 0 -b:v 100k"].into_iter().enumerate()
        {
            let options = format!("-c:v {codec} -g 15 {options} -f {format}");
            assert_counted(&encoded(dir.path(), &format!("{format}-{number}.mpg"), 8, &options), 200, 0);
        }
    }
}
