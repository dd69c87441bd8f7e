//! When a failed request is tried again.

use std::time::{Duration, SystemTime};

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

/// `Retry-After`: seconds, or an HTTP date.
pub(crate) fn retry_after(value: &str) -> Option<Duration> {
    let value = value.trim();
    match value.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => {
            let date = httpdate::parse_http_date(value).ok()?;
            Some(date.duration_since(SystemTime::now()).unwrap_or_default())
        }
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

    #[test]
    fn retry_after_takes_seconds_and_dates() {
        assert_eq!(retry_after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("soon"), None);
        assert_eq!(retry_after("-1"), None);
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(90));
        let seconds = retry_after(&date).unwrap().as_secs();
        assert!((85..=90).contains(&seconds), "{seconds}");
        assert_eq!(retry_after("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
    }
}
