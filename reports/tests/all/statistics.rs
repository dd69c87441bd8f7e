//! The same intervals, standard errors and p-values as scipy and statsmodels.
//!
//! Needs the Python that `ci/setup` installs (`PARAVT_PYTHON`).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use paravt_reports::decide::{Effect, Support};
use paravt_reports::pass_at;
use paravt_reports::statistics::{Cluster, ClusteredMean, holm, mean_of_means};
use serde::Deserialize;
use serde_json::json;

const TOLERANCE: f64 = 1e-9;

#[derive(Deserialize)]
struct Reference {
    paired: Vec<[f64; 5]>,
    share: Vec<(f64, f64, f64)>,
    grouped: Vec<(f64, f64, f64, f64)>,
    student: Vec<(f64, f64)>,
    holm: Vec<Vec<f64>>,
    power: Vec<f64>,
    pass_at: Vec<f64>,
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

/// A bound that a share is tested against.
const BOUND: f64 = 0.45;

#[test]
#[ignore = "needs Python: run by ci/test"]
fn statistics_equal_those_of_scipy_and_statsmodels() {
    let (values, differences) = (clusters(false), clusters(true));
    let families =
        [vec![0.01, 0.04, 0.03, 0.005], vec![0.5], vec![0.2, 0.2, 0.9, 1.0], vec![1e-12, 0.3, 0.02]];
    let errors = [(0.009, 899), (0.02, 11), (1.0, 1)];
    // Groups of unequal size that share videos, and one alone.
    let groups = [vec![&differences[0], &differences[3], &differences[1]], vec![&differences[4]]];
    let repetitions = [vec![0.21, 0.25, 0.19], vec![1.0, 2.0], vec![-0.4, 0.1, 0.0, 0.3, 0.2]];
    let draws = [(1, 10, 3), (5, 10, 3), (10, 10, 1), (100, 200, 7), (8, 64, 0), (8, 8, 8)];
    let reference = reference(&json!({
        "paired": differences, "share": values, "grouped": groups, "student": repetitions,
        "holm": families, "power": errors, "pass_at": draws,
    }));

    assert_eq!(reference.paired.len(), differences.len());
    for (rows, peer) in differences.iter().zip(&reference.paired) {
        let ours = Effect::difference(&totals(rows)).unwrap();
        let (low, high) = ours.interval().unwrap();
        let ours = [ours.estimate, ours.standard_error, low, high, ours.p()];
        for (name, (ours, peer)) in
            ["difference", "error", "low", "high", "p"].into_iter().zip(ours.into_iter().zip(peer))
        {
            assert_close(ours, *peer, &format!("{name} of {} pairs", rows.len()));
        }
    }

    assert_eq!(reference.share.len(), values.len());
    for (rows, peer) in values.iter().zip(&reference.share) {
        let ours = Effect::share(&totals(rows)).unwrap();
        let (low, high) = ours.interval().unwrap();
        assert_close(low, peer.0, &format!("low of {} rows", rows.len()));
        assert_close(high, peer.1, &format!("high of {} rows", rows.len()));
        assert_close(ours.p_above(BOUND), peer.2, &format!("p of {} rows", rows.len()));
    }

    assert_eq!(reference.grouped.len(), groups.len());
    for (groups, peer) in groups.iter().zip(&reference.grouped) {
        let groups: Vec<_> = groups.iter().map(|rows| by_video(rows)).collect();
        let found = mean_of_means(&groups).unwrap();
        assert_close(found.mean, peer.0, "mean of means");
        assert_close(found.standard_error, peer.1, "its error");
        let (low, high) = Effect::of_mean(found, Support::Difference).unwrap().interval().unwrap();
        assert_close(low, peer.2, "its low end");
        assert_close(high, peer.3, "its high end");
    }
    assert_eq!(reference.student.len(), repetitions.len());
    for (values, peer) in repetitions.iter().zip(&reference.student) {
        let (low, high) = Effect::repetitions(values, Support::Unbounded).unwrap().interval().unwrap();
        assert_close(low, peer.0, "low over repetitions");
        assert_close(high, peer.1, "high over repetitions");
    }

    assert_eq!(reference.holm.len(), families.len());
    for (family, peers) in families.iter().zip(&reference.holm) {
        for (ours, peer) in holm(family).into_iter().zip(peers) {
            assert_close(ours, *peer, "holm");
        }
    }
    assert_eq!(reference.power.len(), errors.len());
    for ((error, df), peer) in errors.into_iter().zip(&reference.power) {
        let found = ClusteredMean {
            mean: 0.0,
            standard_error: error,
            clusters: df + 1,
            degrees_of_freedom: df as f64,
            weight: 1.0 / (df + 1) as f64,
            rows: df + 1,
        };
        let effect = Effect::of_mean(found, Support::Unbounded).unwrap();
        let ours = effect.detectable(0.05).unwrap() / error;
        assert_close(ours, peer / error, "power");
    }
    assert_eq!(reference.pass_at.len(), draws.len());
    for ((k, n, right), peer) in draws.into_iter().zip(&reference.pass_at) {
        assert_close(pass_at(k, n, right).unwrap(), *peer, "pass@k");
    }
}
