//! Learning rates over steps, as factors of the peak.

use serde::{Deserialize, Serialize};

/// How the learning rate moves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// Always the peak (RL recipe).
    Constant,
    /// Linear from 0 over the first `warmup_ratio` of the steps, then half a cosine to 0
    /// (`get_cosine_schedule_with_warmup` of transformers; SFT recipe: 0.05).
    Cosine {
        /// Share of all steps, rounded up.
        warmup_ratio: f64,
    },
}

impl Schedule {
    /// Factor of step `step` (from 0) of `total`.
    pub fn factor(self, step: usize, total: usize) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Cosine { warmup_ratio } => {
                let warmup = (warmup_ratio * total as f64).ceil() as usize;
                if step < warmup {
                    return step as f64 / warmup.max(1) as f64;
                }
                let progress = (step - warmup) as f64 / (total - warmup.min(total)).max(1) as f64;
                (0.5 * (1.0 + (std::f64::consts::PI * progress).cos())).max(0.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cosine_warms_up_peaks_and_ends_at_nothing() {
        let factor = |step| Schedule::Cosine { warmup_ratio: 0.1 }.factor(step, 100);
        assert_eq!((factor(0), factor(5), factor(10)), (0.0, 0.5, 1.0));
        assert!((factor(55) - 0.5).abs() < 1e-12 && factor(100) < 1e-12);
        assert!((0..99).all(|step| step < 10 || factor(step) >= factor(step + 1)));
        assert_eq!(Schedule::Cosine { warmup_ratio: 0.0 }.factor(0, 1), 1.0);
    }
}
