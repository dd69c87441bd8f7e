//! What a run reports, on standard error: notices, and a line with rate, time left, running score and
//! errors. Plain lines when not on a terminal.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use paravt_suite::evaluate::{Event, Observer};
use paravt_suite::record::Record;
use paravt_suite::runner;

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
    value: f64,
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
            if let Ok(style) =
                ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {msg}  {elapsed}, {eta} left")
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

    fn rate(&self) -> f64 {
        (self.done - self.done_before) as f64 / self.started.elapsed().as_secs_f64().max(1e-3)
    }

    fn message(&self) -> String {
        let score = 100.0 * self.value / self.done.max(1) as f64;
        format!("{:.2}/s  score {score:.1}  errors {}", self.rate(), self.errors)
    }

    fn recorded(&mut self, record: &Record) {
        self.done += 1;
        self.value += record.score.value;
        self.errors += usize::from(runner::is_error(record));
        if let Some(bar) = &self.bar {
            bar.set_message(self.message());
            bar.set_position(self.done as u64);
        } else if self.shown.elapsed() >= PLAIN_INTERVAL && !output::is_quiet() {
            self.shown = Instant::now();
            let left = (self.total - self.done) as f64 / self.rate().max(1e-9);
            let left = Duration::try_from_secs_f64(left).map_or("?".to_owned(), in_words);
            eprintln!("{} {}/{}  {}  {left} left", self.name, self.done, self.total, self.message());
        }
    }
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
