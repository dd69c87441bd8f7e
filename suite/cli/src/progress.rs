//! What a run reports, on standard error: notices, and a line with rate, time left, running score and
//! errors. Plain lines when not on a terminal.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use paravt_suite::evaluate::{Event, Observer};
use paravt_suite::record::Record;
use paravt_suite::{runner, summary};

use crate::{logging, output};

/// How often a plain line is printed.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// Prints the events of one run.
#[derive(Default)]
pub(crate) struct Progress {
    line: Mutex<Option<Line>>,
}

impl Observer for Progress {
    fn observe(&self, event: Event<'_>) {
        match event {
            Event::TornRecord { dir, bytes } => {
                eprintln!(
                    "{}: the last record is incomplete ({bytes} bytes, cut off); its sample is redone",
                    dir.display()
                );
            }
            Event::OtherBinary { dir, first, now } => eprintln!(
                "warning: {}: started by {first}, continued by {now}: answers may differ where the code does",
                dir.display()
            ),
            Event::Started { task, total, pending, records } => {
                self.with(|line| *line = Some(Line::start(task, total, pending, records)));
            }
            Event::Recorded(record) => {
                self.with(|line| line.iter_mut().for_each(|line| line.recorded(record)));
            }
            _ => {}
        }
    }
}

impl Progress {
    fn with(&self, change: impl FnOnce(&mut Option<Line>)) {
        // A counter that another thread left half-way is still worth showing.
        change(&mut self.line.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

/// Counts records and shows them.
struct Line {
    name: String,
    total: usize,
    done: usize,
    score: Score,
    errors: usize,
    started: Instant,
    done_before: usize,
    shown: Instant,
    bar: Option<ProgressBar>,
}

impl Line {
    /// Starts with what a resumed run already has.
    fn start(name: &str, total: usize, pending: usize, records: &[Record]) -> Self {
        let done = total - pending;
        let is_bar = std::io::stderr().is_terminal() && !logging::is_verbose() && !output::is_quiet();
        let bar = is_bar.then(|| {
            let bar = ProgressBar::new(total as u64).with_position(done as u64);
            // Drawn again at every tick: a server that falls silent shows in the time left.
            let pace = move |state: &ProgressState, text: &mut dyn std::fmt::Write| {
                let total = state.len().unwrap_or_default() as usize;
                let _ = text.write_str(&pace(done, state.pos() as usize, total, state.elapsed()));
            };
            if let Ok(style) =
                ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len}  {msg}  {elapsed}, {pace}")
            {
                bar.set_style(style.with_key("pace", pace));
            }
            bar.set_prefix(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        let mut score = Score::default();
        records.iter().filter(|record| !runner::is_error(record)).for_each(|record| score.add(record));
        let line = Self {
            name: name.to_owned(),
            total,
            done,
            score,
            errors: 0,
            started: Instant::now(),
            done_before: done,
            shown: Instant::now(),
            bar,
        };
        line.bar.iter().for_each(|bar| bar.set_message(line.message()));
        line
    }

    fn message(&self) -> String {
        format!("{}  errors {}", self.score, self.errors)
    }

    fn recorded(&mut self, record: &Record) {
        self.done += 1;
        self.score.add(record);
        self.errors += usize::from(runner::is_error(record));
        if let Some(bar) = &self.bar {
            bar.set_message(self.message());
            bar.set_position(self.done as u64);
        } else if self.shown.elapsed() >= PLAIN_INTERVAL && !output::is_quiet() {
            self.shown = Instant::now();
            let pace = pace(self.done_before, self.done, self.total, self.started.elapsed());
            eprintln!("{} {}/{}  {}  {pace}", self.name, self.done, self.total, self.message());
        }
    }
}

/// The running score, of the samples that the score of the split is over: open-ended ones are not.
#[derive(Debug, Default)]
struct Score {
    sum: f64,
    n: usize,
}

impl Score {
    fn add(&mut self, record: &Record) {
        if summary::counts(record, &record.profile.switches()) {
            self.sum += record.score.value;
            self.n += 1;
        }
    }
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.n {
            0 => f.write_str("score - (N 0)"),
            n => write!(f, "score {:.1} (N {n})", 100.0 * self.sum / n as f64),
        }
    }
}

/// Samples a second and the time left, from the mean since this process began; `-` before the first sample and in
/// the first second.
fn pace(before: usize, done: usize, total: usize, elapsed: Duration) -> String {
    let finished = done.saturating_sub(before);
    if finished == 0 || elapsed < Duration::from_secs(1) {
        return "-/s, - left".to_owned();
    }
    let rate = finished as f64 / elapsed.as_secs_f64();
    let left = Duration::try_from_secs_f64(total.saturating_sub(done) as f64 / rate);
    format!("{rate:.2}/s, {} left", left.map_or("-".to_owned(), in_words))
}

/// A time as `7 s`, `1 min 30 s` or `2 h 1 min`.
pub(crate) fn in_words(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use paravt_suite::fixtures::record;
    use paravt_suite::sample::Gold;

    use super::*;

    #[test]
    fn nothing_is_claimed_before_the_first_sample_and_the_first_second() {
        let shown = |done, milliseconds| pace(5, done, 48, Duration::from_millis(milliseconds));
        assert_eq!(shown(5, 26_000), "-/s, - left");
        assert_eq!(shown(8, 1), "-/s, - left");
        assert_eq!(shown(8, 6_000), "0.50/s, 1 min 20 s left");
        // The server is silent: the time left grows.
        assert_eq!(shown(8, 12_000), "0.25/s, 2 min 40 s left");
        assert_eq!(shown(48, 10_000), "4.30/s, 0 s left");
        assert_eq!(Score::default().to_string(), "score - (N 0)");
    }

    #[test]
    fn open_ended_samples_do_not_count() {
        let mut score = Score::default();
        for (uid, value) in [("a", 1.0), ("b", 0.0)] {
            score.add(&record(uid, value));
        }
        let mut open = record("c", 1.0);
        open.sample.gold = Gold::open("a dog");
        score.add(&open);
        assert_eq!(score.to_string(), "score 50.0 (N 2)");
    }
}
