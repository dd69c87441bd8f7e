//! The same intervals, standard errors and p-values as scipy and statsmodels.
//!
//! Needs the Python that `ci/setup` installs (`PARAVT_PYTHON`).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use paravt_reports::statistics::{
    Bootstrap, Cluster, Flips, Z95, cluster_bootstrap, clustered_standard_error, holm, mcnemar_exact,
    mean_of_means, minimal_detectable_difference, paired_mean, student_interval, wilson,
};
use serde::Deserialize;
use serde_json::json;

const TOLERANCE: f64 = 1e-9;

#[derive(Deserialize)]
struct Reference {
    z95: f64,
    wilson: Vec<[(f64, f64); 2]>,
    clustered: Vec<f64>,
    paired: Vec<[f64; 5]>,
    bootstrap: Vec<(f64, f64)>,
    grouped: Vec<(f64, f64)>,
    student: Vec<(f64, f64)>,
    mcnemar: Vec<f64>,
    holm: Vec<Vec<f64>>,
    power: Vec<f64>,
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

type Rows = Vec<(String, f64)>;

/// Rows of (video, value): three questions a video, videos of very unequal size, every question
/// alone, IoU instead of hits; with `signed`, differences between -1 and 1.
fn clusters(signed: bool) -> Vec<Rows> {
    let mut state = 7_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (state >> 33) as f64 / f64::from(1_u32 << 31);
        if signed { 2.0 * unit - 0.95 } else { unit }
    };
    let mut rows = |n: usize, video: fn(usize) -> usize, hit: bool| {
        let value = |value: f64| if hit { value.round() } else { value };
        (0..n).map(|row| (format!("video {}", video(row)), value(draw()))).collect::<Rows>()
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

fn totals(rows: &Rows) -> Vec<Cluster> {
    by_video(rows).into_values().collect()
}

fn by_video(rows: &Rows) -> BTreeMap<String, Cluster> {
    let mut totals = BTreeMap::new();
    for (name, value) in rows {
        let total = totals.entry(name.clone()).or_insert(Cluster { sum: 0.0, n: 0 });
        total.sum += value;
        total.n += 1;
    }
    totals
}

fn assert_close(ours: f64, peer: f64, what: &str) {
    assert!((ours - peer).abs() < TOLERANCE, "{what}: {ours}, reference {peer}");
}

#[test]
fn everything_is_what_scipy_and_statsmodels_say() {
    let (shares, values, differences) = (shares(), clusters(false), clusters(true));
    // Few clusters leave a bootstrap lumpy; the two with several hundred are compared.
    let resampled = [&values[0], &values[5], &differences[5]];
    let flips = [(0, 0), (1, 0), (3, 3), (10, 0), (47, 61), (180, 121), (900, 905)];
    let families =
        [vec![0.01, 0.04, 0.03, 0.005], vec![0.5], vec![0.2, 0.2, 0.9, 1.0], vec![1e-12, 0.3, 0.02]];
    let errors = [0.009, 0.02, 1.0];
    // Groups of unequal size that share videos, and one alone.
    let groups = [vec![&differences[0], &differences[3], &differences[2]], vec![&differences[4]]];
    let repetitions = [vec![0.21, 0.25, 0.19], vec![1.0, 2.0], vec![-0.4, 0.1, 0.0, 0.3, 0.2]];
    let reference = reference(&json!({
        "wilson": shares, "clustered": values, "paired": differences, "bootstrap": resampled,
        "grouped": groups, "student": repetitions,
        "mcnemar": flips, "holm": families, "power": errors,
    }));
    assert_close(Z95, reference.z95, "z");

    assert_eq!(reference.wilson.len(), shares.len());
    for (&(hits, n), peers) in shares.iter().zip(&reference.wilson) {
        let (low, high) = wilson(hits, n).unwrap();
        for (peer_low, peer_high) in peers {
            assert_close(low, *peer_low, &format!("low of {hits}/{n}"));
            assert_close(high, *peer_high, &format!("high of {hits}/{n}"));
        }
    }

    assert_eq!(reference.clustered.len(), values.len());
    for (rows, peer) in values.iter().zip(&reference.clustered) {
        let ours = clustered_standard_error(rows.iter().map(|(video, value)| (video.as_str(), *value)));
        assert_close(ours.unwrap(), *peer, &format!("{} rows", rows.len()));
    }

    assert_eq!(reference.paired.len(), differences.len());
    for (rows, peer) in differences.iter().zip(&reference.paired) {
        let ours = paired_mean(&totals(rows)).unwrap();
        let ours = [ours.difference, ours.standard_error, ours.interval.0, ours.interval.1, ours.p];
        for (name, (ours, peer)) in
            ["difference", "error", "low", "high", "p"].into_iter().zip(ours.into_iter().zip(peer))
        {
            assert_close(ours, *peer, &format!("{name} of {} pairs", rows.len()));
        }
    }

    assert_eq!(reference.grouped.len(), groups.len());
    for (groups, peer) in groups.iter().zip(&reference.grouped) {
        let groups: Vec<_> = groups.iter().map(|rows| by_video(rows)).collect();
        let (mean, error) = mean_of_means(&groups).unwrap();
        assert_close(mean, peer.0, "mean of means");
        assert_close(error, peer.1, "its error");
    }
    assert_eq!(reference.student.len(), repetitions.len());
    for (values, peer) in repetitions.iter().zip(&reference.student) {
        let (low, high) = student_interval(values).unwrap();
        assert_close(low, peer.0, "low over repetitions");
        assert_close(high, peer.1, "high over repetitions");
    }

    assert_eq!(reference.mcnemar.len(), flips.len());
    for ((gained, lost), peer) in flips.into_iter().zip(&reference.mcnemar) {
        assert_close(mcnemar_exact(Flips { gained, lost }), *peer, &format!("{gained} against {lost}"));
    }
    assert_eq!(reference.holm.len(), families.len());
    for (family, peers) in families.iter().zip(&reference.holm) {
        for (ours, peer) in holm(family).into_iter().zip(peers) {
            assert_close(ours, *peer, "holm");
        }
    }
    assert_eq!(reference.power.len(), errors.len());
    for (error, peer) in errors.into_iter().zip(&reference.power) {
        assert_close(minimal_detectable_difference(error), *peer, "power");
    }

    assert_eq!(reference.bootstrap.len(), resampled.len());
    for (rows, peer) in resampled.into_iter().zip(&reference.bootstrap) {
        let clusters = totals(rows);
        let error = paravt_reports::statistics::standard_error(&clusters).unwrap();
        let (low, high) = cluster_bootstrap(&clusters, Bootstrap::default()).unwrap();
        // A 2.5 % quantile of 10,000 draws has a standard error of about 0.027 of the mean's; two
        // independent ones differ by 0.038, five times that is 0.19.
        assert!((low - peer.0).abs() < 0.19 * error, "low {low}, scipy {}", peer.0);
        assert!((high - peer.1).abs() < 0.19 * error, "high {high}, scipy {}", peer.1);
    }
}
