//! A progress line: rate, time left, running score, errors. Plain lines when not on a terminal.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use paravt_suite::record::Record;
use paravt_suite::runner::{self, Observer};
use paravt_suite::scoring::summary::Summary;

/// How often a plain line is printed.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// Counts records and shows them.
pub struct Progress {
    name: String,
    total: usize,
    done: usize,
    value: f64,
    errors: usize,
    started: Instant,
    done_before: usize,
    shown: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts with what a resumed run already has.
    pub fn start(name: &str, total: usize, records: &[Record], pending: usize) -> Self {
        let done = total - pending;
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total as u64).with_position(done as u64);
            if let Ok(style) =
                ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {msg}  {elapsed} left {eta}")
            {
                bar.set_style(style);
            }
            bar.set_prefix(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        let kept = records.iter().filter(|record| !runner::is_error(record));
        Self {
            name: name.to_owned(),
            total,
            done,
            value: kept.map(|record| record.score.value).sum(),
            errors: 0,
            started: Instant::now(),
            done_before: done,
            shown: Instant::now(),
            bar,
        }
    }

    fn message(&self) -> String {
        let score = 100.0 * self.value / self.done.max(1) as f64;
        let rate = (self.done - self.done_before) as f64 / self.started.elapsed().as_secs_f64().max(1e-3);
        format!("{rate:.2}/s  score {score:.1}  errors {}", self.errors)
    }
}

impl Observer for Progress {
    fn recorded(&mut self, record: &Record) {
        self.done += 1;
        self.value += record.score.value;
        self.errors += usize::from(runner::is_error(record));
        if let Some(bar) = &self.bar {
            bar.set_message(self.message());
            bar.set_position(self.done as u64);
        } else if self.shown.elapsed() >= PLAIN_INTERVAL {
            self.shown = Instant::now();
            let rate = (self.done - self.done_before) as f64 / self.started.elapsed().as_secs_f64().max(1e-3);
            let left = (self.total - self.done) as f64 / rate.max(1e-9);
            eprintln!("{} {}/{}  {}  left {left:.0} s", self.name, self.done, self.total, self.message());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// One line when a split is through.
pub fn closing_line(name: &str, summary: &Summary, records: usize, expected: usize) -> String {
    let mark = if summary.complete { "" } else { "  INCOMPLETE" };
    format!(
        "{name}: {:.1} (N {records} of {expected}, unparsed {}, errors {}, frame loss {}){mark}",
        100.0 * summary.value,
        summary.n_unparsed,
        summary.n_errors,
        summary.n_frame_loss
    )
}
