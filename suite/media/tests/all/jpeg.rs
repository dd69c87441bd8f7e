//! JPEG files that decode to what Pillow's own decode to.
//!
//! Needs the Python that `ci/setup` installs (`PARAVT_PYTHON`).

use std::path::Path;
use std::process::Command;

use paravt_media::{Frame, encode_jpeg};
use serde_json::Value;

const QUALITY: u8 = 85;
/// Sides of crops and overviews, few of them multiples of a JPEG's 16 pixels; then odd ones.
const SIZES: [(u32, u32); 8] =
    [(640, 364), (308, 168), (1008, 560), (84, 56), (28, 28), (252, 420), (33, 17), (1, 1)];

fn frame((width, height): (u32, u32), value: impl Fn(f64, f64, usize) -> f64) -> Frame {
    let mut rgb = Vec::new();
    for y in 0..height {
        for x in 0..width {
            rgb.extend((0..3).map(|channel| value(f64::from(x), f64::from(y), channel) as u8));
        }
    }
    Frame { index: 0, time_us: 0, width, height, rgb }
}

/// Like a photograph: soft shapes, a little grain; then hard edges between saturated colours, which
/// show best how chroma is reduced; then stripes of one pixel; then noise.
pub(crate) fn frames(size: (u32, u32)) -> [(&'static str, Frame); 4] {
    let grain = |x: f64, y: f64| (x * 12.9898 + y * 78.233).sin() * 43_758.5 % 1.0;
    let photo = frame(size, |x, y, channel| {
        let shift = channel as f64;
        let soft = ((x / 40.0 + shift).sin() + (y / 25.0 - shift).cos() + (x * y / 9000.0).sin()) * 35.0;
        (128.0 + soft + 6.0 * grain(x, y + shift)).clamp(0.0, 255.0)
    });
    let pattern = frame(size, |x, y, channel| {
        let tile = (x / 13.0) as usize + (y / 9.0) as usize * 3;
        if (tile >> channel) & 1 == 1 { 255.0 } else { 0.0 }
    });
    let stripes =
        frame(size, |x, _, channel| if (x as usize + channel).is_multiple_of(3) { 230.0 } else { 20.0 });
    let noise = frame(size, |x, y, channel| grain(x + 0.1, y + 7.0 * channel as f64).abs() * 255.0);
    [("photo", photo), ("pattern", pattern), ("stripes", stripes), ("noise", noise)]
}

/// What Pillow makes of files `N-WIDTHxHEIGHT.rgb` and `.jpg` in a folder, by number.
fn compared(folder: &Path, frames: &[Frame]) -> Vec<Value> {
    for (number, frame) in frames.iter().enumerate() {
        let name = format!("{number:03}-{}x{}", frame.width, frame.height);
        std::fs::write(folder.join(format!("{name}.rgb")), &frame.rgb).unwrap();
        let jpeg = encode_jpeg(frame, QUALITY).unwrap();
        std::fs::write(folder.join(format!("{name}.jpg")), jpeg).unwrap();
    }
    let python =
        std::env::var("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jpeg.py");
    let output = Command::new(python).arg(script).arg(folder).arg(QUALITY.to_string()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn pictures_decode_to_the_levels_of_pillows() {
    let folder = tempfile::tempdir().unwrap();
    let (names, frames): (Vec<String>, Vec<Frame>) = SIZES
        .into_iter()
        .flat_map(|size| frames(size).map(|(name, frame)| (format!("{name} {size:?}"), frame)))
        .unzip();
    let found = compared(folder.path(), &frames);
    assert_eq!(found.len(), names.len());
    for ((name, frame), found) in names.iter().zip(&frames).zip(found) {
        println!("{name}: {found}");
        assert_eq!(found["same"], true, "{name}: quantisation tables and sampling");
        let (mean, largest) = (found["mean"].as_f64().unwrap(), found["largest"].as_i64().unwrap());
        // Coefficients half-way between two steps may go either way: noise has the most of them, and in a small
        // picture one counts for much. Below the last row, where the height is not a multiple of 16, libjpeg repeats
        // the last row of chroma, this encoder the last row of pixels. One chroma value of four in the place of
        // their average costs more than a level in a picture of any size, and tens at edges.
        let hard = name.starts_with("noise") || frame.rgb.len() < 30_000;
        let limit = if hard { (3.0, 64) } else { (0.3, 16) };
        assert!(
            mean < limit.0 && largest <= limit.1,
            "{name}: {mean:.3} levels on average, at most {largest}"
        );
    }
}
