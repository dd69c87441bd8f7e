//! Videos for tests, made on the spot.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Twenty seconds of a moving test picture, 128x72 at 25 frames per second, by the `ffmpeg` command.
pub(crate) fn encode(folder: &Path, name: &str, arguments: &str) -> PathBuf {
    let path = folder.join(name);
    let source = "-loglevel error -y -f lavfi -i testsrc2=size=128x72:rate=25:duration=20";
    let status = Command::new("ffmpeg")
        .args(source.split(' '))
        .args(arguments.split(' ').filter(|word| !word.is_empty()))
        .arg(&path)
        .status();
    assert!(status.expect("ffmpeg runs").success(), "{name} {arguments}");
    path
}
