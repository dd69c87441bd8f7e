//! A path is one file: FFmpeg reads the names of pictures as patterns.

use std::path::Path;

use paravt_media::{Frame, VideoFile, encode_jpeg};

/// A picture of one colour.
fn picture(folder: &Path, name: &str, width: u32) {
    let frame = Frame { index: 0, time_us: 0, width, height: 64, rgb: vec![128; 64 * 3 * width as usize] };
    std::fs::write(folder.join(name), encode_jpeg(&frame, 85).unwrap()).unwrap();
}

#[test]
fn a_name_that_is_a_pattern_reads_no_other_file() {
    let dir = tempfile::tempdir().unwrap();
    for number in 1..=5 {
        picture(dir.path(), &format!("s{number:03}.jpg"), 64);
        picture(dir.path(), &format!("r{number:03}.jpg"), 64);
    }
    for missing in ["s%03d.jpg", "s%d.jpg", "s*.jpg", "s00?.jpg", "none.jpg"] {
        let error = VideoFile::open(&dir.path().join(missing)).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{missing}: {error}");
    }
    for there in ["r%03d.jpg", "r%3d.jpg", "r*.jpg", "r00?.jpg", "r%%.jpg", "r[1-5].jpg"] {
        picture(dir.path(), there, 80);
        let file = VideoFile::open(&dir.path().join(there)).unwrap();
        assert_eq!((file.info().frames, file.info().width), (1, 80), "{there}");
    }
}
