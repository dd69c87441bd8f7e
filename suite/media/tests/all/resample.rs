//! Resized images and images out of JPEG files, as Pillow and OpenCV make them.
//!
//! Needs the Python that `ci/setup` installs (`PARAVT_PYTHON`), with OpenCV.

use std::path::Path;
use std::process::Command;

use paravt_media::resample::{Resampler, round_trip};
use serde_json::Value;

use crate::jpeg::frames;

type Size = (u32, u32);

/// Reduced and enlarged, by whole numbers and not, odd sides, a single pixel.
const SIZES: [(Size, Size); 10] = [
    ((1280, 720), (448, 251)),
    ((720, 1280), (251, 448)),
    ((640, 360), (422, 237)),
    ((100, 70), (448, 313)),
    ((33, 17), (20, 40)),
    ((640, 364), (320, 182)),
    ((640, 360), (640, 180)),
    ((30, 30), (10, 10)),
    ((28, 28), (1, 1)),
    ((5, 3), (5, 3)),
];

/// Writes an image and what is made of it, by the name of the filter and the new size.
fn write(folder: &Path, stem: &str, rgb: &[u8], from: Size, to: Size) {
    std::fs::write(folder.join(format!("{stem}.rgb")), rgb).unwrap();
    let write = |filter: &str, (width, height): Size, values: Vec<u8>| {
        std::fs::write(folder.join(format!("{stem}-{filter}-{width}x{height}.out")), values).unwrap();
    };
    for (filter, resampler) in [
        ("lanczos", Resampler::Lanczos),
        ("bicubic", Resampler::PillowBicubic),
        ("cubic", Resampler::Cubic),
        ("area", Resampler::Area),
    ] {
        if resampler != Resampler::Area || (to.0 <= from.0 && to.1 <= from.1) {
            write(filter, to, resampler.resize(rgb, from, to).unwrap());
        }
    }
    write("jpeg75", from, round_trip(rgb, from, 75).unwrap());
    write("cv95", from, round_trip(rgb, from, 95).unwrap());
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn levels_are_those_of_pillow_and_opencv() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (from, to)) in SIZES.into_iter().enumerate() {
        for (name, frame) in frames(from) {
            let stem = format!("{number:02}_{name}-{}x{}", from.0, from.1);
            write(folder.path(), &stem, &frame.rgb, from, to);
        }
    }
    let python =
        std::env::var("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/resample.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found.len(), 4 * (6 * SIZES.len() - 2), "two sizes are enlarged");
    for found in found {
        let (file, differing) = (found["file"].as_str().unwrap(), found["differing"].as_u64().unwrap());
        println!("{found}");
        if file.contains("-cubic-") && !file.contains("noise") && !file.contains("photo") {
            // Values exactly between two levels, of which patterns of two levels have many.
            assert!(found["largest"].as_u64().unwrap() <= 1, "{found}");
        } else if file.contains("-cubic-") {
            assert!(differing <= 10, "{found}");
        } else {
            assert_eq!(differing, 0, "{found}");
        }
    }
}
