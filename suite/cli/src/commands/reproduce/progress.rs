//! Progress of a graph: its stages, and the steps of a training.

use std::sync::Arc;

use paravt_reproduce::driver::{Event, Observer, Outcome};
use paravt_reproduce::graph::Stage;

use super::notify::Notify;
use crate::output;
use crate::progress::{Meter, MeterKind, is_redrawn};

/// Lines of one training in a log at least: one for every 5 %.
const PARTS: usize = 20;

/// Shows stages on standard error, and tells the user's command of those that fail.
pub(super) struct StageProgress {
    meter: Option<Meter>,
    /// Latest part of a training that got a line.
    part: Option<usize>,
    notify: Option<Arc<Notify>>,
    /// Rows of a table, or runs of them, that have failed.
    given_up: Vec<String>,
}

impl Observer for StageProgress {
    fn event(&mut self, stage: &Stage, event: Event<'_>) {
        self.notify(stage, &event);
        if let Event::GivenUp(run, _) = event {
            self.given_up.push(given_up(stage, run));
        }
        if output::is_quiet() && !matches!(event, Event::Discarded(..) | Event::GivenUp(..)) {
            return;
        }
        let line = stage.line();
        match event {
            Event::Busy(doing) => self.busy(stage, doing),
            Event::Kept => {
                self.meter = None;
                eprintln!("{line} (done before)");
            }
            Event::Discarded(why, to) => {
                self.meter = None;
                eprintln!("{line}: {why}; the earlier result is now {}", to.display());
            }
            Event::Started => {
                self.meter = None;
                eprintln!("{line}");
                self.busy(stage, "");
            }
            Event::Progress(progress) => {
                let Some(meter) = &self.meter else { return };
                let (done, all) = progress.steps();
                let part = self.part.replace(done * PARTS / all.max(1));
                if part.is_none() {
                    meter.count_from(done.saturating_sub(1) as u64);
                }
                meter.say(progress.to_string());
                meter.reached(done as u64, all as u64);
                if part != self.part {
                    meter.print();
                }
            }
            Event::Note(note) => {
                let line = format!("  {}: {note}", stage.name());
                let Some(meter) = &self.meter else { return eprintln!("{line}") };
                meter.note(&line);
                meter.say(note.lines().next().unwrap_or_default().to_owned());
            }
            Event::GivenUp(run, why) => {
                self.meter = None;
                let what = given_up(stage, run);
                eprintln!("{}: FAILED: {why}\n  what is left of {what} is left out", stage.name());
            }
            Event::Ended(time, _) => {
                self.meter = None;
                eprintln!("{:<18} took {:.0} s", stage.name(), time.as_secs_f64());
            }
        }
    }
}

impl StageProgress {
    pub(super) fn new(notify: Option<Arc<Notify>>) -> Self {
        Self { meter: None, part: None, notify, given_up: Vec::new() }
    }

    /// Rows of a table, or runs of them, that have failed.
    pub(super) fn given_up(&self) -> &[String] {
        &self.given_up
    }

    /// Shows that a stage does something from now on, its own work where that is empty; on a terminal, an evaluation shows its samples itself.
    fn busy(&mut self, stage: &Stage, doing: &str) {
        // The former meter goes before the next one is drawn.
        (self.meter, self.part) = (None, None);
        let kind = MeterKind::Stage(stage.name().to_owned(), doing.to_owned());
        self.meter = (!stage.work().prints() || !is_redrawn()).then(|| Meter::start(kind, 0, 0));
    }

    fn notify(&self, stage: &Stage, event: &Event<'_>) {
        let Some(notify) = &self.notify else { return };
        match event {
            Event::Started => notify.is_at(stage.name()),
            Event::Ended(_, outcome) => {
                if matches!(outcome, Outcome::Incomplete | Outcome::Down) {
                    notify.tell(outcome.as_str(), "the stage is not complete; `status` says more");
                }
                notify.is_at("");
            }
            Event::GivenUp(_, why) => notify.tell("failed", &format!("{}: {why}", stage.name())),
            _ => {}
        }
    }
}

/// A row of a table, or one run of it.
fn given_up(stage: &Stage, run: Option<&str>) -> String {
    let row = stage.row().unwrap_or_default();
    run.map_or_else(|| row.to_owned(), |run| format!("{row}.{run}"))
}
