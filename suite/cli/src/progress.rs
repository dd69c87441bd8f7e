//! What takes time, shown on standard error: one meter for samples, bytes, files and stages, and the adapter that
//! feeds it from a run.

use std::io::IsTerminal as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use paravt_fetch::size;
use paravt_suite::evaluate::{Event, Observer};
use paravt_suite::record::Record;
use paravt_suite::{runner, summary};

use crate::{logging, output};

/// Silence of standard error, where it is a log, after which a meter prints its line.
const SILENCE: Duration = Duration::from_secs(20);

pub(crate) enum MeterKind {
    /// Samples, files: its name.
    Count(String),
    /// Bytes: what they belong to.
    Bytes(String),
    /// A stage and what it does, empty for its own work; its steps, where it has any, stand in the message.
    Stage(String, String),
}

/// Shows how far something is: a line that is redrawn on a terminal; in a log, a line after every [`SILENCE`].
/// Removed when dropped.
pub(crate) struct Meter {
    state: Arc<Mutex<State>>,
    bar: Option<ProgressBar>,
    /// Ends the thread that prints into a log.
    _ticker: Option<mpsc::Sender<()>>,
}

struct State {
    kind: MeterKind,
    began: Instant,
    /// Done before this process began.
    before: u64,
    done: u64,
    /// 0 while it is unknown.
    total: u64,
    message: String,
}

impl Meter {
    /// Begins at `before` of `total`.
    pub(crate) fn start(kind: MeterKind, before: u64, total: u64) -> Self {
        let template = match kind {
            MeterKind::Stage(..) => "  {spinner} {text}",
            MeterKind::Count(_) | MeterKind::Bytes(_) => "{wide_bar} {text}",
        };
        let message = String::new();
        let state = State { kind, began: Instant::now(), before, done: before, total, message };
        let state = Arc::new(Mutex::new(state));
        let (bar, ticker) = match (output::is_quiet(), is_redrawn()) {
            (true, _) => (None, None),
            (false, true) => (Some(bar(&state, before, total, template)), None),
            (false, false) => (None, Some(ticker(&state))),
        };
        Self { state, bar, _ticker: ticker }
    }

    /// Sets how much is done, and of how much.
    pub(crate) fn reached(&self, done: u64, total: u64) {
        {
            let mut state = lock(&self.state);
            (state.done, state.total) = (done, total);
        }
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
        }
    }

    /// Counts from here: what was done before does not belong to the rate.
    pub(crate) fn count_from(&self, before: u64) {
        lock(&self.state).before = before;
    }

    /// Adds to what is done, or takes from it.
    pub(crate) fn add(&self, change: i64) {
        let (done, total) = {
            let state = lock(&self.state);
            (state.done.saturating_add_signed(change), state.total)
        };
        self.reached(done, total);
    }

    /// Sets what stands beside the numbers.
    pub(crate) fn say(&self, message: String) {
        lock(&self.state).message = message;
    }

    /// Prints a line that stays, above the meter.
    pub(crate) fn note(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None if output::is_quiet() => {}
            None => eprintln!("{line}"),
        }
    }

    /// Prints where it is now, where that is a log.
    pub(crate) fn print(&self) {
        if self.bar.is_none() && !output::is_quiet() {
            eprintln!("{}", lock(&self.state).line());
        }
    }
}

/// Whether meters are lines that are redrawn: lines of the program's own log would break them.
pub(crate) fn is_redrawn() -> bool {
    std::io::stderr().is_terminal() && !logging::is_verbose()
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A counter that another thread left half-way is still worth showing.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bar(state: &Arc<Mutex<State>>, before: u64, total: u64, template: &str) -> ProgressBar {
    let shown = Arc::clone(state);
    let text = move |_: &ProgressState, text: &mut dyn std::fmt::Write| {
        let state = lock(&shown);
        let name = if let MeterKind::Count(name) = &state.kind { &format!("{name} ") } else { "" };
        let _ = write!(text, "{name}{}", state.text(state.began.elapsed()));
    };
    let style = ProgressStyle::with_template(template).expect("a literal template").with_key("text", text);
    let bar = ProgressBar::new(total).with_position(before).with_style(style);
    // Also without news: a server that falls silent shows in the time left.
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Prints the line whenever standard error was silent for a time, until the sender is dropped.
fn ticker(state: &Arc<Mutex<State>>) -> mpsc::Sender<()> {
    let (sender, ended) = mpsc::channel();
    let shown = Arc::clone(state);
    std::thread::spawn(move || {
        let mut wait = SILENCE;
        while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            let silence = output::silence().unwrap_or(SILENCE);
            wait = if silence < SILENCE { SILENCE - silence } else { SILENCE };
            if silence >= SILENCE {
                let line = lock(&shown).line();
                eprintln!("{line}");
            }
        }
    });
    sender
}

impl State {
    fn line(&self) -> String {
        let text = self.text(self.began.elapsed());
        match &self.kind {
            MeterKind::Count(name) | MeterKind::Bytes(name) => format!("{name}: {text}"),
            // Indented: the lines of a stage itself begin with its name.
            MeterKind::Stage(..) => format!("  {text}"),
        }
    }

    /// How far it is after this time, with the rate and the time left at the mean since it began; `-` before the first
    /// unit and in the first second.
    fn text(&self, elapsed: Duration) -> String {
        let finished = self.done.saturating_sub(self.before);
        let is_known = finished > 0 && elapsed >= Duration::from_secs(1);
        let rate = is_known.then(|| finished as f64 / elapsed.as_secs_f64());
        let left = rate.map(|rate| self.total.saturating_sub(self.done) as f64 / rate);
        let left = left.and_then(|left| Duration::try_from_secs_f64(left).ok()).map(in_words);
        let number = |n: u64| if let MeterKind::Bytes(_) = self.kind { size(n) } else { n.to_string() };
        match &self.kind {
            MeterKind::Count(_) | MeterKind::Bytes(_) => {
                let message =
                    if self.message.is_empty() { String::new() } else { format!("  {}", self.message) };
                let rate = match (rate, &self.kind) {
                    (None, _) => "-".to_owned(),
                    (Some(rate), MeterKind::Bytes(_)) => size(rate as u64),
                    (Some(rate), _) => format!("{rate:.2}"),
                };
                let (done, total) = (number(self.done), number(self.total));
                let (left, elapsed) = (left.as_deref().unwrap_or("-"), in_words(elapsed));
                format!("{done}/{total}{message}  {elapsed}, {rate}/s, {left} left")
            }
            MeterKind::Stage(stage, doing) => {
                let message =
                    if self.message.is_empty() { String::new() } else { format!("; {}", self.message) };
                let left = left.filter(|_| self.done < self.total);
                let left = left.map(|left| format!(", {left} left")).unwrap_or_default();
                let doing = if doing.is_empty() { String::new() } else { format!("{doing} for ") };
                format!("{stage}: {doing}{}{message}{left}", in_words(elapsed))
            }
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

/// Shows a run: its notices, and its samples with the running score and the errors.
#[derive(Default)]
pub(crate) struct RunProgress {
    run: Mutex<Option<Run>>,
}

struct Run {
    meter: Meter,
    score: Score,
    errors: usize,
}

impl Run {
    fn recorded(&mut self, record: &Record) {
        self.score.add(record);
        self.errors += usize::from(runner::is_error(record));
        self.meter.say(self.message());
        self.meter.add(1);
    }

    fn message(&self) -> String {
        format!("{}  errors {}", self.score, self.errors)
    }
}

impl Observer for RunProgress {
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
                let mut score = Score::default();
                records
                    .iter()
                    .filter(|record| !runner::is_error(record))
                    .for_each(|record| score.add(record));
                let done = (total - pending) as u64;
                let meter = Meter::start(MeterKind::Count(task.to_owned()), done, total as u64);
                let run = Run { meter, score, errors: 0 };
                run.meter.say(run.message());
                *lock(&self.run) = Some(run);
            }
            Event::Recorded(record) => lock(&self.run).iter_mut().for_each(|run| run.recorded(record)),
            _ => {}
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

#[cfg(test)]
mod tests {
    use paravt_suite::fixtures::record;
    use paravt_suite::sample::Gold;

    use super::*;

    fn text(kind: MeterKind, [before, done, total]: [u64; 3], message: &str, milliseconds: u64) -> String {
        let state = State { kind, began: Instant::now(), before, done, total, message: message.to_owned() };
        state.text(Duration::from_millis(milliseconds))
    }

    #[test]
    fn nothing_is_claimed_before_the_first_sample_and_the_first_second() {
        let shown = |done, milliseconds| {
            text(MeterKind::Count("mlvu".to_owned()), [5, done, 48], "errors 0", milliseconds)
        };
        assert_eq!(shown(5, 26_000), "5/48  errors 0  26 s, -/s, - left");
        assert_eq!(shown(8, 1), "8/48  errors 0  0 s, -/s, - left");
        assert_eq!(shown(8, 6_000), "8/48  errors 0  6 s, 0.50/s, 1 min 20 s left");
        // The server is silent: the time left grows.
        assert_eq!(shown(8, 12_000), "8/48  errors 0  12 s, 0.25/s, 2 min 40 s left");
        assert_eq!(shown(48, 10_000), "48/48  errors 0  10 s, 4.30/s, 0 s left");
        assert_eq!(Score::default().to_string(), "score - (N 0)");
    }

    #[test]
    fn bytes_have_units() {
        let shown = |done, seconds: u64| {
            text(MeterKind::Bytes("a".to_owned()), [1_000, done, 9_000], "", 1000 * seconds)
        };
        assert_eq!(shown(3_000, 2), "3.0 kB/9.0 kB  2 s, 1.0 kB/s, 6 s left");
        assert_eq!(shown(1_000, 2), "1.0 kB/9.0 kB  2 s, -/s, - left");
        assert_eq!(shown(3_000, 20_000), "3.0 kB/9.0 kB  5 h 33 min, 0 B/s, 16 h 40 min left");
    }

    #[test]
    fn a_stage_says_how_long_it_has_run_and_its_steps_how_long_they_will() {
        let stage = || MeterKind::Stage("sft".to_owned(), String::new());
        assert_eq!(text(stage(), [0, 0, 0], "", 90_000), "sft: 1 min 30 s");
        let resumed = text(stage(), [200, 210, 300], "step 210/300", 10_000);
        assert_eq!(resumed, "sft: 10 s; step 210/300, 1 min 30 s left");
        assert_eq!(text(stage(), [0, 9, 9], "step 9/9", 7_260_000), "sft: 2 h 1 min; step 9/9");
        let waiting = MeterKind::Stage("eval".to_owned(), "installing".to_owned());
        assert_eq!(text(waiting, [0, 0, 0], "", 5_000), "eval: installing for 5 s");
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
