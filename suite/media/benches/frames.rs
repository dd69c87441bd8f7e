//! Sampling an overview and a crop, and encoding the frames, of a generated video.
//!
//! `PARAVT_BENCH_VIDEO` names another file, e.g. the hour that `ci/bench/media.py` makes.

use std::path::PathBuf;
use std::process::Command;

use criterion::{Criterion, criterion_group, criterion_main};
use paravt_media::{VideoRequest, encode_jpeg, fetch_video, probe};

fn video(dir: &std::path::Path) -> PathBuf {
    if let Some(path) = std::env::var_os("PARAVT_BENCH_VIDEO") {
        return PathBuf::from(path);
    }
    let path = dir.join("v.mp4");
    let source = "testsrc2=size=640x360:rate=30:duration=120";
    let status = Command::new("ffmpeg")
        .args(["-loglevel", "error", "-f", "lavfi", "-i", source, "-c:v", "libx264", "-preset", "veryfast"])
        .args(["-g", "250", "-pix_fmt", "yuv420p"])
        .arg(&path)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "ffmpeg made no video");
    path
}

fn benches(criterion: &mut Criterion) {
    let Ok(dir) = tempfile::tempdir() else { return };
    let path = video(dir.path());
    let mut group = criterion.benchmark_group("frames");
    group.sample_size(10);
    group.bench_function("index", |bencher| bencher.iter(|| probe(&path)));
    group.bench_function("overview of 64", |bencher| {
        bencher.iter(|| fetch_video(&path, &VideoRequest::overview(64)));
    });
    group.bench_function("crop of 10 s", |bencher| {
        bencher.iter(|| fetch_video(&path, &VideoRequest::crop(50.0, 60.0, 16)));
    });
    if let Ok(sampled) = fetch_video(&path, &VideoRequest::overview(2)) {
        group.bench_function("jpeg of one frame", |bencher| {
            bencher.iter(|| encode_jpeg(&sampled.frames[0], 85))
        });
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
