//! `numpy.linspace`.

/// `numpy.linspace(start, stop, count)`: multiples of the rounded step, and the last one exact.
pub fn linspace(start: f64, stop: f64, count: usize) -> Vec<f64> {
    let delta = stop - start;
    let steps = count.saturating_sub(1) as f64;
    let step = delta / steps;
    let at = |index: usize| match index as f64 {
        _ if index > 0 && index + 1 == count => stop,
        index if steps == 0.0 => index * delta + start,
        // A step that underflows: numpy divides first.
        index if step == 0.0 => index / steps * delta + start,
        index => index * step + start,
    };
    (0..count).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::linspace;

    /// numpy 2.4.6.
    #[test]
    fn steps_are_numpys() {
        assert_eq!(linspace(0.0, 1.0, 0), [0.0; 0]);
        assert_eq!(linspace(3.0, 9.0, 1), [3.0]);
        assert_eq!(linspace(2.0, 2.999, 3), [2.0, 2.4995000000000003, 2.999]);
        assert_eq!(linspace(0.0, 239.0, 16)[14], 223.06666666666666);
        assert_eq!(linspace(5.0, 5.0, 2), [5.0, 5.0]);
    }
}
