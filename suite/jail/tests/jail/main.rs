//! The jail with bubblewrap, a real interpreter and a real video: what code may do, and attacks.
#![allow(clippy::unwrap_used)]

mod attacks;
mod behaviour;
mod forged;
mod images;
mod left;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use paravt_jail::{Episode, Jail, Limits, Outcome, Output};

/// A video of 50 frames at 25 in a second, and an answer beside it.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    // No temporary folder: nothing drops what a static holds.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("jail-video");
    paravt_files::make_once(&folder, &[&std::env::current_exe().unwrap()], |folder| {
        std::fs::write(folder.join("answers.json"), "the answer is B").unwrap();
        let source = "testsrc=size=320x240:rate=25:duration=2";
        let mut ffmpeg = std::process::Command::new("ffmpeg");
        ffmpeg
            .args(["-v", "error", "-f", "lavfi", "-i", source, "-pix_fmt", "yuv420p"])
            .arg(video_in(folder));
        assert!(ffmpeg.status().unwrap().success());
    })
    .unwrap();
    folder
});

fn video_in(folder: &Path) -> PathBuf {
    folder.join("a name that says the answer.mp4")
}

fn video() -> PathBuf {
    video_in(&FOLDER)
}

/// Limits that tests reach soon.
fn limits() -> Limits {
    Limits { call: Duration::from_secs(20), memory: 3 << 30, disk: 8 << 20, threads: 64, ..Limits::default() }
}

fn jail(limits: Limits) -> Jail {
    let python =
        std::env::var("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
    Jail::new(Path::new(&python), limits).unwrap()
}

fn episode() -> Episode {
    jail(limits()).start(&video()).unwrap()
}

/// Standard output of code that has to run to its end.
fn stdout(episode: &mut Episode, code: &str) -> String {
    let output = episode.run(code).unwrap();
    assert_eq!(output.outcome, Outcome::Done, "{code}");
    output.stdout
}

fn ended(output: &Output) -> &str {
    match &output.outcome {
        Outcome::Ended(reason) => reason,
        other => panic!("{other:?}"),
    }
}

/// Processes of a namespace of processes.
fn residents(namespace: &Path) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    processes.filter(|path| path.join("ns/pid").read_link().is_ok_and(|link| link == namespace)).collect()
}

/// Namespace of the processes of an episode.
fn namespace(episode: &Episode) -> PathBuf {
    let id = episode.process_id().unwrap();
    Path::new("/proc").join(id.to_string()).join("ns/pid").read_link().unwrap()
}
