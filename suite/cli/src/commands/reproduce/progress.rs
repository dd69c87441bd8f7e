//! Progress of a graph: a spinner on a terminal, lines in a log. A log gets a line at least every half minute, also
//! from stages that report no steps.

use std::io::IsTerminal as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use paravt_reports::terminal::Text;
use paravt_reproduce::drive::{Event, Observer};
use paravt_reproduce::graph::{Stage, Work};

use crate::output;
use crate::progress::in_words;

/// Longest time without a line in a log.
const INTERVAL: Duration = Duration::from_secs(30);
/// Longest time between the lines of two steps; the heartbeat is for steps that take longer.
const BETWEEN_STEPS: Duration = Duration::from_secs(20);
/// Lines of one training at least: one for every 5 %.
const PARTS: usize = 20;

/// Shows stages on standard error.
#[derive(Default)]
pub(super) struct Shown {
    bar: Option<ProgressBar>,
    pace: Option<(Instant, Pace)>,
    heartbeat: Option<Heartbeat>,
}

impl Observer for Shown {
    fn event(&mut self, stage: &Stage, event: Event<'_>) {
        let line = stage.line();
        if output::is_quiet() && !matches!(event, Event::Discarded(_)) {
            return;
        }
        match event {
            Event::Kept => say(&format!("{line} (done before)")),
            Event::Discarded(why) => {
                say(&format!("{line}: result discarded: {why}; redoing the stage"));
            }
            Event::Started => self.start(stage, &line),
            Event::Progress(progress) => {
                let Some((began, pace)) = &mut self.pace else { return };
                let (done, all) = progress.steps();
                let elapsed = began.elapsed();
                if let Some(bar) = &self.bar {
                    let left = left_in_words(pace.left(done, all, elapsed));
                    bar.set_message(format!("{progress}{left}"));
                } else {
                    let shown = format!("{progress}{}", left_in_words(pace.left(done, all, elapsed)));
                    if pace.is_due(done, all, elapsed) {
                        // Indented: the lines of a stage itself begin with its name.
                        eprintln!("  {}: {shown}", stage.name());
                    }
                    if let Some(heartbeat) = &self.heartbeat {
                        heartbeat.reached(shown);
                    }
                }
            }
            Event::Note(note) => eprintln!("  {}: {note}", stage.name()),
            Event::Ended(time) => {
                self.heartbeat = None;
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
                eprintln!("{:<18} took {:.0} s", stage.name(), time.as_secs_f64());
            }
        }
    }
}

impl Shown {
    fn start(&mut self, stage: &Stage, line: &str) {
        say(line);
        self.pace = Some((Instant::now(), Pace::default()));
        if !std::io::stderr().is_terminal() {
            self.heartbeat = Some(Heartbeat::start(stage.name(), INTERVAL));
            return;
        }
        // An evaluation shows its samples.
        if matches!(stage.work(), Work::Evaluate(_) | Work::Exam(_)) {
            return;
        }
        let style = ProgressStyle::with_template("  {spinner} [{elapsed_precise}] {msg}");
        let bar = ProgressBar::new_spinner().with_style(style.expect("a literal template"));
        bar.enable_steady_tick(Duration::from_millis(200));
        self.bar = Some(bar);
    }
}

/// Prints a line, on a terminal folded at 80 columns.
fn say(line: &str) {
    if std::io::stderr().is_terminal() {
        let mut text = Text::default();
        text.line(line);
        output::show_error(&text);
    } else {
        eprintln!("{line}");
    }
}

/// Prints a line whenever standard error was silent for a time; ends with the value.
struct Heartbeat {
    /// The latest step, in words.
    latest: Arc<Mutex<String>>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    fn start(stage: &str, interval: Duration) -> Self {
        let (stop, stopped) = mpsc::channel();
        let latest = Arc::new(Mutex::new(String::new()));
        let (stage, shared, began) = (stage.to_owned(), Arc::clone(&latest), Instant::now());
        let thread = std::thread::spawn(move || {
            let mut wait = interval;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let silence = output::silence().unwrap_or(interval);
                if silence >= interval {
                    let reached = shared.lock().map(|latest| latest.clone()).unwrap_or_default();
                    eprintln!("  {stage}: {}", running(&reached, began.elapsed()));
                }
                wait = interval.saturating_sub(output::silence().unwrap_or_default());
            }
        });
        Self { latest, stop: Some(stop), thread: Some(thread) }
    }

    fn reached(&self, step: String) {
        if let Ok(mut latest) = self.latest.lock() {
            *latest = step;
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// That a stage runs, how long it has, and the step that it reached.
fn running(reached: &str, elapsed: Duration) -> String {
    let time = in_words(elapsed);
    if reached.is_empty() { format!("running for {time}") } else { format!("running for {time}; {reached}") }
}

/// Decides which steps of a training get a line.
#[derive(Default)]
struct Pace {
    /// Steps that were done before this process began.
    before: Option<usize>,
    part: usize,
    shown: Duration,
}

impl Pace {
    /// Whether step `done` of `all`, reached `elapsed` after the start, gets a line.
    fn is_due(&mut self, done: usize, all: usize, elapsed: Duration) -> bool {
        let part = done * PARTS / all.max(1);
        let is_first = self.before.is_some_and(|before| done == before + 1);
        let is_due = is_first || part > self.part || elapsed >= self.shown + BETWEEN_STEPS;
        if is_due {
            (self.part, self.shown) = (part, elapsed);
        }
        is_due
    }

    /// The time left at the pace so far; `None` at the end.
    fn left(&mut self, done: usize, all: usize, elapsed: Duration) -> Option<Duration> {
        let before = *self.before.get_or_insert(done.saturating_sub(1));
        let left = all.saturating_sub(done) as f64 / done.saturating_sub(before).max(1) as f64;
        (done < all).then(|| elapsed.mul_f64(left))
    }
}

fn left_in_words(left: Option<Duration>) -> String {
    left.map_or(String::new(), |left| format!(", {} left", in_words(left)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(
        steps: impl Iterator<Item = usize>,
        all: usize,
        second_per_step: f64,
    ) -> Vec<(usize, Option<u64>)> {
        let mut pace = Pace::default();
        let mut first = None;
        let mut lines = Vec::new();
        for done in steps {
            let first = *first.get_or_insert(done);
            let elapsed = Duration::from_secs_f64((done - first + 1) as f64 * second_per_step);
            let left = pace.left(done, all, elapsed);
            if pace.is_due(done, all, elapsed) {
                lines.push((done, left.map(|left| left.as_secs())));
            }
        }
        lines
    }

    #[test]
    fn fast_steps_get_a_line_for_every_twentieth_part() {
        let lines = lines(1..=300, 300, 0.1);
        assert_eq!(lines.len(), 21);
        assert_eq!((lines[0], lines[10]), ((1, Some(29)), (150, Some(15))));
        assert_eq!(lines[20], (300, None));
    }

    #[test]
    fn slow_steps_get_a_line_every_twenty_seconds() {
        let lines = lines(1..=1000, 1000, 10.0);
        let done: Vec<usize> = lines.iter().take(4).map(|line| line.0).collect();
        assert_eq!(done, [1, 3, 5, 7]);
        assert_eq!(lines[3].1, Some(9930));
    }

    #[test]
    fn a_resumed_training_is_timed_from_where_it_went_on() {
        let lines = lines(201..=300, 300, 1.0);
        assert_eq!(lines[0], (201, Some(99)));
        assert_eq!(lines.last(), Some(&(300, None)));
    }

    #[test]
    fn a_silent_stage_says_how_long_it_runs() {
        assert_eq!(running("", Duration::from_secs(90)), "running for 1 min 30 s");
        assert_eq!(running("step 2/9", Duration::from_secs(30)), "running for 30 s; step 2/9");
        let heartbeat = Heartbeat::start("world", Duration::from_millis(20));
        let before = output::silence();
        std::thread::sleep(Duration::from_millis(500));
        let silence = output::silence().expect("a line was printed");
        assert!(silence < Duration::from_millis(400), "{silence:?}, before: {before:?}");
        drop(heartbeat);
    }

    #[test]
    fn times_are_in_words() {
        let words = |seconds| left_in_words(Some(Duration::from_secs(seconds)));
        assert_eq!(
            [words(7), words(90), words(7260)],
            [", 7 s left", ", 1 min 30 s left", ", 2 h 1 min left"]
        );
        assert_eq!(left_in_words(None), "");
    }
}
