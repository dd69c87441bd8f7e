//! Requests and tokens of a minute, for servers that count them.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Share of a minute's amount that may go out at once.
const BURST: f64 = 1.0 / 6.0;

/// What may be sent; `None` where nothing limits it.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    requests: Option<Mutex<Bucket>>,
    tokens: Option<Mutex<Bucket>>,
}

/// An amount that grows evenly up to a burst, and is in debt where more was taken.
#[derive(Debug)]
struct Bucket {
    per_second: f64,
    burst: f64,
    left: f64,
    at: Instant,
}

impl Pace {
    /// Limits by the minute.
    pub(crate) fn new(requests: Option<u32>, tokens: Option<u32>) -> Self {
        let now = Instant::now();
        let bucket = |per_minute| Mutex::new(Bucket::new(per_minute, now));
        Self { requests: requests.map(bucket), tokens: tokens.map(bucket) }
    }

    /// Whether tokens are counted.
    pub(crate) fn counts_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// Waits until a request of so many tokens, prompt and reply, may go out, and takes them.
    pub(crate) async fn admit(&self, tokens: u64) {
        for (bucket, amount) in [(&self.tokens, tokens as f64), (&self.requests, 1.0)] {
            if let Some(bucket) = bucket {
                let wait = bucket.lock().unwrap_or_else(PoisonError::into_inner).take(amount, Instant::now());
                tokio::time::sleep(wait).await;
            }
        }
    }

    /// Corrects a forecast by what the server counted.
    pub(crate) fn counted(&self, forecast: u64, tokens: u64) {
        if let Some(bucket) = &self.tokens {
            bucket.lock().unwrap_or_else(PoisonError::into_inner).left += forecast as f64 - tokens as f64;
        }
    }
}

impl Bucket {
    fn new(per_minute: u32, now: Instant) -> Self {
        let burst = (f64::from(per_minute) * BURST).max(1.0);
        Self { per_second: f64::from(per_minute) / 60.0, burst, left: burst, at: now }
    }

    /// Takes an amount and says how long to wait until it is there: who comes next waits behind.
    fn take(&mut self, amount: f64, now: Instant) -> Duration {
        let grown = self.left + now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        (self.left, self.at) = (grown.min(self.burst) - amount, now);
        let missing = -self.left.min(0.0);
        Duration::try_from_secs_f64(missing / self.per_second).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds that the last of so many requests of one moment waits.
    fn last(bucket: &mut Bucket, requests: usize, amount: f64, now: Instant) -> f64 {
        let waits: Vec<f64> = (0..requests).map(|_| bucket.take(amount, now).as_secs_f64()).collect();
        assert!(waits.is_sorted());
        waits.last().copied().unwrap_or_default()
    }

    #[test]
    fn a_minute_has_as_many_as_it_may() {
        let now = Instant::now();
        let mut bucket = Bucket::new(60, now);
        assert_eq!(last(&mut bucket, 10, 1.0, now), 0.0);
        assert_eq!(last(&mut bucket, 60, 1.0, now), 60.0, "ten at once, then one a second");
        assert_eq!(last(&mut bucket, 1, 1.0, now + Duration::from_secs(61)), 0.0);
        assert_eq!(
            last(&mut bucket, 11, 1.0, now + Duration::from_secs(3600)),
            1.0,
            "an idle hour is a burst"
        );
    }

    #[test]
    fn one_above_the_burst_goes_out_and_delays_the_next() {
        let now = Instant::now();
        let mut bucket = Bucket::new(6_000, now);
        assert_eq!(last(&mut bucket, 1, 7_000.0, now), 60.0);
        assert_eq!(last(&mut bucket, 1, 100.0, now), 61.0);
    }

    #[tokio::test]
    async fn a_forecast_is_corrected() {
        let pace = Pace::new(None, Some(60_000));
        pace.admit(10_000).await;
        pace.counted(10_000, 2_000);
        let start = Instant::now();
        pace.admit(8_000).await;
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}
