//! When a failed request is tried again.

use std::time::Duration;

use rand::Rng as _;

/// Longest pause that a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// How often and after which pauses a request is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Tries in a row without a byte of progress.
    pub tries: u32,
    /// Pause before the second try, twice as long before each further one.
    pub pause: Duration,
    /// Longest pause that the doubling reaches.
    pub longest: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { tries: 8, pause: Duration::from_secs(1), longest: Duration::from_secs(60) }
    }
}

impl Retries {
    /// The pause after `failures` failures in a row: what the server asked for, else doubling, with up to a
    /// quarter more at random so that parallel requests do not return together.
    pub fn pause(&self, failures: u32, asked: Option<Duration>) -> Duration {
        let doubled = self.pause.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(self.longest);
        let base = asked.map_or(doubled, |asked| asked.min(LONGEST_PAUSE));
        base + base.mul_f64(rand::rng().random_range(0.0..0.25))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_obey_the_server() {
        let retries = Retries::default();
        for (failures, seconds) in [(1, 1.0), (2, 2.0), (5, 16.0), (9, 60.0), (200, 60.0)] {
            let pause = retries.pause(failures, None).as_secs_f64();
            assert!((seconds..=1.25 * seconds).contains(&pause), "{failures}: {pause}");
        }
        let asked = retries.pause(1, Some(Duration::from_secs(30))).as_secs_f64();
        assert!((30.0..=37.5).contains(&asked), "{asked}");
        let absurd = retries.pause(1, Some(Duration::from_secs(1 << 40)));
        assert!(absurd <= LONGEST_PAUSE.mul_f64(1.25), "{absurd:?}");
    }
}
