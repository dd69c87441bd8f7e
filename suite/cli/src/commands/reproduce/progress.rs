//! Progress of a graph: a spinner on a terminal, lines in a log. A log gets a line at least every half minute, also
//! from stages that report no steps, and while results are verified.

use std::io::IsTerminal as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use paravt_reproduce::drive::{Event, Observer, Outcome};
use paravt_reproduce::graph::Stage;

use super::notify::Notify;
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
    /// Of a log.
    heartbeat: Option<Heartbeat>,
    /// Told of stages that fail.
    notify: Option<Arc<Notify>>,
}

impl Observer for Shown {
    fn event(&mut self, stage: &Stage, event: Event<'_>) {
        let line = stage.line();
        if let Some(notify) = &self.notify {
            match &event {
                Event::Started => notify.is_at(stage.name()),
                Event::Ended(_, outcome) => {
                    if matches!(outcome, Outcome::Incomplete | Outcome::Down) {
                        notify.tell(outcome.as_str(), "the stage is not complete; `status` says more");
                    }
                    notify.is_at("");
                }
                _ => {}
            }
        }
        if output::is_quiet() && !matches!(event, Event::Discarded(..)) {
            return;
        }
        match event {
            Event::Busy(doing) => self.busy(stage, doing),
            Event::Kept => {
                self.idle();
                eprintln!("{line} (done before)");
            }
            Event::Discarded(why, to) => {
                self.idle();
                eprintln!("{line}: {why}; the earlier result is now {}", to.display());
            }
            Event::Started => {
                self.idle();
                eprintln!("{line}");
                self.pace = Some((Instant::now(), Pace::default()));
                self.busy(stage, "running");
            }
            Event::Progress(progress) => {
                let Some((began, pace)) = &mut self.pace else { return };
                let (done, all) = progress.steps();
                let elapsed = began.elapsed();
                let shown = format!("{progress}{}", left_in_words(pace.left(done, all, elapsed)));
                if let Some(bar) = &self.bar {
                    bar.set_message(shown);
                    return;
                }
                if pace.is_due(done, all, elapsed) {
                    // Indented: the lines of a stage itself begin with its name.
                    eprintln!("  {}: {shown}", stage.name());
                }
                if let Some(heartbeat) = &self.heartbeat {
                    heartbeat.reached(shown);
                }
            }
            Event::Note(note) => {
                let line = format!("  {}: {note}", stage.name());
                match &self.bar {
                    Some(bar) => bar.suspend(|| eprintln!("{line}")),
                    None => eprintln!("{line}"),
                }
                if let (Some(heartbeat), Some(first)) = (&self.heartbeat, note.lines().next()) {
                    heartbeat.reached(first.to_owned());
                }
            }
            Event::Ended(time, _) => {
                self.idle();
                eprintln!("{:<18} took {:.0} s", stage.name(), time.as_secs_f64());
            }
        }
    }
}

impl Shown {
    /// Also tells the user's command of stages that fail.
    pub(super) fn telling(notify: Option<Arc<Notify>>) -> Self {
        Self { notify, ..Self::default() }
    }

    /// Shows that a stage does something from now on.
    fn busy(&mut self, stage: &Stage, doing: &str) {
        self.idle();
        if !std::io::stderr().is_terminal() {
            self.heartbeat.get_or_insert_with(|| Heartbeat::start(INTERVAL)).begin(stage.name(), doing);
            return;
        }
        // An evaluation shows its samples.
        if stage.work().prints() {
            return;
        }
        let style = ProgressStyle::with_template("  {spinner} [{elapsed_precise}] {msg}");
        let bar = ProgressBar::new_spinner().with_style(style.expect("a literal template"));
        bar.set_message(format!("{}: {doing}", stage.name()));
        bar.enable_steady_tick(Duration::from_millis(200));
        self.bar = Some(bar);
    }

    /// Nothing is done that takes time.
    fn idle(&mut self) {
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.end();
        }
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Prints a line whenever standard error was silent for a time while something is done; ends with the value.
struct Heartbeat {
    now: Arc<Mutex<Option<Now>>>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What is being done.
struct Now {
    stage: String,
    doing: String,
    began: Instant,
    /// The latest step or note; empty before the first.
    reached: String,
}

impl Now {
    fn line(&self) -> String {
        let reached = if self.reached.is_empty() { String::new() } else { format!("; {}", self.reached) };
        format!("  {}: {} for {}{reached}", self.stage, self.doing, in_words(self.began.elapsed()))
    }
}

impl Heartbeat {
    fn start(interval: Duration) -> Self {
        let (stop, stopped) = mpsc::channel();
        let now = Arc::new(Mutex::new(None::<Now>));
        let shared = Arc::clone(&now);
        let thread = std::thread::spawn(move || {
            let mut wait = interval;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let silence = output::silence().unwrap_or(interval);
                let line = shared.lock().ok().and_then(|now| now.as_ref().map(Now::line));
                if let Some(line) = line.filter(|_| silence >= interval) {
                    eprintln!("{line}");
                }
                let silence = output::silence().unwrap_or_default();
                wait = if silence < interval { interval - silence } else { interval };
            }
        });
        Self { now, stop: Some(stop), thread: Some(thread) }
    }

    fn begin(&self, stage: &str, doing: &str) {
        let (stage, doing) = (stage.to_owned(), doing.to_owned());
        self.set(|now| *now = Some(Now { stage, doing, began: Instant::now(), reached: String::new() }));
    }

    fn reached(&self, step: String) {
        self.set(|now| {
            if let Some(now) = now {
                now.reached = step;
            }
        });
    }

    fn end(&self) {
        self.set(|now| *now = None);
    }

    fn set(&self, change: impl FnOnce(&mut Option<Now>)) {
        if let Ok(mut now) = self.now.lock() {
            change(&mut now);
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
    fn silence_is_broken_only_while_something_is_done() {
        let now = |reached: &str| Now {
            stage: "sft".to_owned(),
            doing: "running".to_owned(),
            began: Instant::now().checked_sub(Duration::from_secs(90)).unwrap(),
            reached: reached.to_owned(),
        };
        assert_eq!(now("").line(), "  sft: running for 1 min 30 s");
        assert_eq!(now("step 2/9").line(), "  sft: running for 1 min 30 s; step 2/9");
        let heartbeat = Heartbeat::start(Duration::from_millis(20));
        heartbeat.begin("world", "running");
        std::thread::sleep(Duration::from_millis(500));
        let silence = output::silence().expect("a line was printed");
        assert!(silence < Duration::from_millis(400), "{silence:?}");
        heartbeat.end();
        assert!(heartbeat.now.lock().unwrap().is_none());
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
