//! Small frames of the videos of runs, for a page or the files of another harness.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context as _;
use paravt_media::{VideoFile, encode_jpeg, smart_resize};
use paravt_reports::Run;
use paravt_reports::page::{Thumbnails, Videos};
use paravt_suite::data::DataRoot;
use paravt_suite::profile::Profile;
use paravt_suite::sample::Sample;
use paravt_suite::task::{Benchmark, Task as _};

/// Pixels of a thumbnail, and what its sides are multiples of.
const PIXELS: f64 = 168.0 * 168.0;
const SIDE: u32 = 14;
const QUALITY: u8 = 75;

/// Writes the recorded frames of runs whose videos lie below a data root.
pub(crate) fn write(
    runs: &[Run],
    root: &DataRoot,
    tasks: &[&Benchmark],
    dir: &Path,
) -> anyhow::Result<Thumbnails> {
    Thumbnails::write(runs, &videos(runs, root, tasks), dir, &jpegs)
        .with_context(|| format!("cannot write frames into {}", dir.display()))
}

/// Where the videos of these runs' samples lie below a data root. A split whose data is not there has
/// none, which the caller counts.
fn videos(runs: &[Run], root: &DataRoot, tasks: &[&Benchmark]) -> Videos {
    let mut videos = Videos::new();
    for task in tasks {
        let name = &task.spec().name;
        let profiles: BTreeSet<Profile> = runs
            .iter()
            .filter(|run| run.manifest.task.name == *name)
            .map(|run| run.manifest.plan.profile())
            .collect();
        for profile in profiles {
            let dataset = match task.load(root, profile) {
                Ok(dataset) => dataset,
                Err(error) => {
                    eprintln!("{name}: no frames in the page: {error}");
                    continue;
                }
            };
            let path = |sample: &Sample| dataset.videos.resolve(&sample.video);
            let video = |sample: &Sample| ((name.clone(), sample.uid.clone()), path(sample));
            videos.extend(dataset.samples.iter().map(video));
        }
    }
    videos
}

/// Frames of a video as small JPEG files with their indices; none of a video that cannot be read.
fn jpegs(video: &Path, indices: &[usize]) -> Vec<(usize, Vec<u8>)> {
    let Ok(file) = VideoFile::open(video) else { return Vec::new() };
    let info = file.info();
    // A file that was replaced since the run may be shorter than the record says.
    let indices: Vec<usize> = indices.iter().copied().filter(|&index| index < info.frames).collect();
    let Ok(size) = smart_resize(info.width, info.height, SIDE, 0.0, PIXELS) else { return Vec::new() };
    let frames = file.frames_at(&indices, size).unwrap_or_default();
    frames.iter().filter_map(|frame| Some((frame.index, encode_jpeg(frame, QUALITY).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs the ffmpeg program: run by ci/test"]
    fn frames_beyond_the_end_of_a_video_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let film = dir.path().join("film.mp4");
        let source = "-v error -f lavfi -i testsrc2=size=320x180:rate=5:duration=20 -pix_fmt yuv420p";
        let made = std::process::Command::new("ffmpeg").args(source.split(' ')).arg(&film).status();
        assert!(made.unwrap().success());
        let found = jpegs(&film, &[7, 42, 5_000]);
        assert_eq!(found.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [7, 42]);
        assert!(found.iter().all(|(_, jpeg)| jpeg.starts_with(&[0xff, 0xd8])));
        assert!(jpegs(&dir.path().join("none.mp4"), &[7]).is_empty());
    }
}
