//! How long a whole split takes, from the samples of a limited run.

use std::time::Duration;

use crate::record::Record;

/// Fewest samples that say something of the others.
const FEWEST: usize = 5;
/// Standard errors on both sides of a mean for 95 %.
const ERRORS: f64 = 1.96;

/// Time of a whole split on the same servers, as an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeTime {
    /// Answers of the whole split.
    pub answers: usize,
    /// Answers that were timed.
    pub timed: usize,
    pub least: Duration,
    pub most: Duration,
}

/// Times of a run's samples.
#[derive(Debug, Default)]
pub(super) struct Times {
    n: usize,
    sum: f64,
    squares: f64,
    longest: f64,
}

impl Times {
    pub(super) fn add(&mut self, record: &Record) {
        let seconds = record.measured.seconds;
        self.n += 1;
        self.sum += seconds;
        self.squares += seconds * seconds;
        self.longest = self.longest.max(seconds);
    }

    /// The time of so many answers, `concurrency` at once. The least: no place is ever idle. The most: a part of fewer samples than
    /// places does not tell how fast more at once are, and the last ones are among the longest.
    pub(super) fn whole(&self, answers: usize, concurrency: usize) -> Option<WholeTime> {
        if self.n < FEWEST || self.n >= answers {
            return None;
        }
        let (n, all) = (self.n as f64, answers as f64);
        let mean = self.sum / n;
        let deviation = ((self.squares - n * mean * mean).max(0.0) / (n - 1.0)).sqrt();
        let error = ERRORS * deviation / n.sqrt();
        let least = all * (mean - error).max(0.0) / concurrency as f64;
        let most = all * (mean + error) / concurrency.min(self.n) as f64 + self.longest;
        let time = |seconds| Duration::try_from_secs_f64(seconds).ok();
        Some(WholeTime { answers, timed: self.n, least: time(least)?, most: time(most)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(all: &[f64]) -> Times {
        let mut times = Times::default();
        for &seconds in all {
            let mut record = crate::fixtures::record("a", 1.0);
            record.measured.seconds = seconds;
            times.add(&record);
        }
        times
    }

    #[test]
    fn a_whole_takes_the_time_of_its_part_as_often() {
        let whole = times(&[10.0; 20]).whole(200, 4).unwrap();
        assert_eq!((whole.answers, whole.timed), (200, 20));
        assert_eq!((whole.least, whole.most), (Duration::from_secs(500), Duration::from_secs(510)));
        let unsure = times(&[2.0, 18.0].repeat(10)).whole(200, 4).unwrap();
        assert!(
            unsure.least < Duration::from_secs(420) && unsure.most > Duration::from_secs(600),
            "{unsure:?}"
        );
    }

    #[test]
    fn fewer_samples_than_places_widen_it_and_a_few_say_nothing() {
        let whole = times(&[10.0; 8]).whole(160, 16).unwrap();
        assert_eq!((whole.least, whole.most), (Duration::from_secs(100), Duration::from_secs(210)));
        assert_eq!(times(&[10.0; 4]).whole(200, 4), None);
        assert_eq!(times(&[10.0; 20]).whole(20, 4), None, "nothing is left");
    }
}
