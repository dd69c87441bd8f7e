//! The same intervals and standard errors as scipy and statsmodels.
//!
//! Needs the Python that `ci/setup` installs (`PARAVT_PYTHON`).
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::process::{Command, Stdio};

use paravt_reports::statistics::{Z95, clustered_standard_error, wilson};
use serde::Deserialize;
use serde_json::json;

const TOLERANCE: f64 = 1e-9;

#[derive(Deserialize)]
struct Reference {
    z95: f64,
    scipy: Vec<(f64, f64)>,
    statsmodels: Vec<(f64, f64)>,
    clustered: Vec<f64>,
}

fn reference(cases: &serde_json::Value) -> Reference {
    let python =
        std::env::var("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
    let mut child = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(cases.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Hits out of n: the ends, the sizes of the seven splits, and shares in between.
fn shares() -> Vec<(usize, usize)> {
    let sizes = [1, 2, 3, 10, 97, 625, 1_337, 1_549, 2_700, 3_720, 1_000_000];
    sizes.iter().flat_map(|&n| [0, 1, n / 3, n / 2, n - 1, n].map(|hits| (hits, n))).collect()
}

/// Rows of (video, score): three questions a video, videos of very unequal size, one video, every
/// question alone, IoU instead of hits.
fn clusters() -> Vec<Vec<(String, f64)>> {
    let mut state = 7_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1_u32 << 31)
    };
    let mut rows = |n: usize, video: fn(usize) -> usize, hit: bool| {
        let score = |value: f64| if hit { value.round() } else { value };
        (0..n).map(|row| (format!("video {}", video(row)), score(draw()))).collect::<Vec<_>>()
    };
    vec![
        rows(2_700, |row| row / 3, true),
        rows(900, |row| row % 300, true),
        rows(500, |row| (row + 1).ilog2() as usize, true),
        rows(40, |row| row, true),
        rows(40, |row| row, false),
        rows(3_720, |row| row * row % 1_334, false),
        rows(2, |row| row, false),
    ]
}

#[test]
fn intervals_and_standard_errors_are_those_of_scipy_and_statsmodels() {
    let (shares, clusters) = (shares(), clusters());
    let reference = reference(&json!({"wilson": shares, "clustered": clusters}));
    assert!((Z95 - reference.z95).abs() < TOLERANCE);

    assert_eq!((reference.scipy.len(), reference.statsmodels.len()), (shares.len(), shares.len()));
    for (index, &(hits, n)) in shares.iter().enumerate() {
        let (low, high) = wilson(hits, n).unwrap();
        for (peer, (peer_low, peer_high)) in
            [("scipy", reference.scipy[index]), ("statsmodels", reference.statsmodels[index])]
        {
            let off = (low - peer_low).abs().max((high - peer_high).abs());
            assert!(off < TOLERANCE, "{hits} of {n}: {low}-{high}, {peer} {peer_low}-{peer_high}");
        }
    }

    assert_eq!(reference.clustered.len(), clusters.len());
    for (rows, peer) in clusters.iter().zip(&reference.clustered) {
        let ours = clustered_standard_error(rows.iter().map(|(video, score)| (video.as_str(), *score)));
        let ours = ours.unwrap();
        assert!((ours - peer).abs() < TOLERANCE, "{} rows: {ours}, statsmodels {peer}", rows.len());
        assert!(ours > 0.0);
    }
}
