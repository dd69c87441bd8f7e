//! Speed, judged by the history of checks on machines of one kind.
//!
//! Times within one run share the machine's load at that time: an interval over its samples says nothing
//! about the next run. The spread between undisturbed runs does. As rustc-perf does (its
//! `significance_threshold`), a change counts when it lies above the upper outer fence of the relative
//! changes between consecutive entries: `q3 + 3 * (q3 - q1)`. With too few entries nothing is decided.

use super::{Entry, Status, Timing};

/// Entries of the same baseline on the same kind of machine before speed is judged.
pub const ENTRIES: usize = 8;
/// A history without any spread does not make a slowdown of less than this a regression.
const FLOOR: f64 = 0.05;

/// Seconds of the past that a time can be compared with, oldest first: the same baseline, the same kind of
/// machine, and not itself judged slower.
pub(super) fn past(history: &[Entry], baseline: &str, host: &str, name: &str) -> Vec<f64> {
    history
        .iter()
        .filter(|entry| entry.host.as_deref() == Some(host) && entry.baseline.as_deref() == Some(baseline))
        .filter_map(|entry| entry.timings.iter().find(|timing| timing.name == name))
        .filter(|timing| !timing.slower)
        .map(|timing| timing.seconds)
        .filter(|seconds| seconds.is_finite() && *seconds > 0.0)
        .collect()
}

/// Judges a time, and what the history keeps of it. Too few entries fail nothing.
pub(super) fn judge(name: &str, unit: &str, now: f64, past: &[f64]) -> (Status, String, Timing) {
    let timing = |slower| Timing { name: name.to_owned(), seconds: now, slower };
    if past.len() < ENTRIES {
        let message = format!(
            "{now:.3} {unit}; undecided: {} entries of {ENTRIES} needed in the history of this machine",
            past.len()
        );
        return (Status::Skipped, message, timing(false));
    }
    let reference = quantile(past, 0.5);
    let fence = fence(past);
    let ratio = now / reference;
    let slower = ratio.ln() > fence;
    let status = if slower { Status::Fail } else { Status::Pass };
    let message = format!(
        "{now:.3} {unit}: {ratio:.2} times the median of {} entries; limit {:.2}",
        past.len(),
        fence.exp()
    );
    (status, message, timing(slower))
}

/// Upper outer fence of the changes from entry to entry, as logarithms of ratios.
fn fence(past: &[f64]) -> f64 {
    let changes: Vec<f64> = past.windows(2).map(|pair| (pair[1] / pair[0]).ln().abs()).collect();
    let (q1, q3) = (quantile(&changes, 0.25), quantile(&changes, 0.75));
    (q3 + 3.0 * (q3 - q1)).max(FLOOR.ln_1p())
}

/// Quantile by linear interpolation between the closest ranks; 0 of nothing.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let position = share * last as f64;
    let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    low + (high - low) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_numpy() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!([0.25, 0.5, 0.75].map(|share| quantile(&values, share)), [1.75, 2.5, 3.25]);
    }

    #[test]
    fn the_speed_limit_follows_the_noise_of_the_history() {
        let steady = [1.0, 1.01, 1.0, 1.01, 1.0, 1.01, 1.0, 1.01];
        let noisy = [1.0, 1.5, 0.9, 1.6, 1.0, 1.4, 1.1, 1.5];
        let status = |now, past: &[f64]| judge("x", "s", now, past).0;
        assert_eq!(status(1.2, &steady), Status::Fail);
        assert_eq!(status(1.04, &steady), Status::Pass);
        assert_eq!(status(1.8, &noisy), Status::Pass);
        assert_eq!(status(20.0, &noisy), Status::Fail);
        assert_eq!(status(20.0, &noisy[1..]), Status::Skipped, "too few entries decide nothing");
    }
}
