//! Watches a training in another program: counts its steps, notices stalls, bounds its logs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use paravt_supervise::Process;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files;
use crate::steps::{Curves, Follower, Names, Step};
use crate::{JobContext, Update};

/// Times the limit of silence after which a training is stopped even if its GPUs work: one that waits for a lost
/// peer keeps them busy.
const HARD: u32 = 3;
/// Utilisation in per cent below which a GPU counts as idle.
const IDLE: u32 = 5;
/// Time between two checks of the size of the logs that the programs write themselves.
const LOGS_PAUSE: Duration = Duration::from_secs(10);

/// When a training counts as stalled, and how it is stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Watch {
    /// Seconds that the server of reinforcement learning gets to be ready.
    pub ready_seconds: f64,
    /// Seconds to the first step: loading, and the first batch.
    pub first_step_seconds: f64,
    /// Further seconds for each step that a resumed training has behind it: its data are read again up to there.
    pub replay_seconds: f64,
    /// Seconds between two steps; the limit is this or `stall_factor` times the median step, whichever is more.
    pub stall_seconds: f64,
    /// See `stall_seconds`.
    pub stall_factor: f64,
    /// Seconds that all GPUs are idle before a silent training counts as stalled.
    pub idle_seconds: f64,
    /// Seconds between SIGTERM and SIGKILL.
    pub grace_seconds: f64,
    /// Maximum restarts of a failed training; one that made no step since its last start is not restarted.
    pub restarts: usize,
    /// Gigabytes that the programs may write into logs of their own.
    pub log_gigabytes: f64,
    /// Seconds between two polls.
    pub poll_seconds: f64,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            ready_seconds: 1200.0,
            first_step_seconds: 3600.0,
            replay_seconds: 60.0,
            stall_seconds: 1800.0,
            stall_factor: 6.0,
            idle_seconds: 600.0,
            grace_seconds: 30.0,
            restarts: 2,
            log_gigabytes: 8.0,
            poll_seconds: 1.0,
        }
    }
}

impl Watch {
    /// Refuses settings that are out of range.
    ///
    /// # Errors
    /// A value that is negative, not finite, or 0 where the work would be ended at once.
    pub fn check(&self) -> Result<()> {
        let Self { ready_seconds, first_step_seconds, stall_seconds, log_gigabytes, poll_seconds, .. } =
            *self;
        let positive = [
            ("ready_seconds", ready_seconds),
            ("first_step_seconds", first_step_seconds),
            ("stall_seconds", stall_seconds),
            ("log_gigabytes", log_gigabytes),
            ("poll_seconds", poll_seconds),
        ];
        let Self { replay_seconds, stall_factor, idle_seconds, grace_seconds, .. } = *self;
        let at_least_0 = [
            ("replay_seconds", replay_seconds),
            ("stall_factor", stall_factor),
            ("idle_seconds", idle_seconds),
            ("grace_seconds", grace_seconds),
        ];
        let is_time = |value: f64| value.is_finite() && value >= 0.0;
        let wrong = |name: &str, value: f64, needed: &str| Error::Setting {
            section: "engines.watch",
            message: format!("{name} = {value} is not a number {needed}"),
        };
        if let Some((name, value)) = positive.into_iter().find(|(_, value)| !is_time(*value) || *value == 0.0)
        {
            return Err(wrong(name, value, "over 0"));
        }
        match at_least_0.into_iter().find(|(_, value)| !is_time(*value)) {
            Some((name, value)) => Err(wrong(name, value, "of at least 0")),
            None => Ok(()),
        }
    }
}

/// Seconds of a recipe as a duration; a negative or infinite number counts as none.
pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Why this program stops a training.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The user asks for it.
    Interrupted,
    /// It makes no steps, or its logs fill the disk: what was observed.
    Stalled(String),
}

/// Times between steps, and the time without a step that counts as a stall.
#[derive(Debug)]
struct Pace {
    last: Instant,
    gaps: Vec<Duration>,
    first: Duration,
}

impl Pace {
    fn limit(&self, watch: &Watch) -> Duration {
        if self.gaps.is_empty() {
            return self.first;
        }
        let mut sorted = self.gaps.clone();
        sorted.sort_unstable();
        let median = sorted[sorted.len() / 2].as_secs_f64();
        seconds(watch.stall_seconds.max(watch.stall_factor * median))
    }
}

/// Whether all GPUs are idle; `None` where there are none or they do not say.
fn gpus_are_idle() -> Option<bool> {
    let used = paravt_devices::utilization().ok().filter(|used| !used.is_empty())?;
    Some(used.into_iter().all(|used| used < IDLE))
}

/// Watches one start of a training.
pub(crate) struct Watcher<'a> {
    watch: &'a Watch,
    follower: Follower,
    curves: Curves,
    total: usize,
    pace: Pace,
    idle: Option<Instant>,
    /// Folder of logs that the programs write by themselves.
    logs: PathBuf,
    logs_seen: Instant,
    /// Steps behind the first that the program counts.
    offset: usize,
    /// Steps that this start made.
    pub(crate) made: usize,
}

impl<'a> Watcher<'a> {
    /// Watches a training in `folder` that resumes after `resumed` steps and writes its steps to the file `lines`.
    pub(crate) fn new(
        watch: &'a Watch,
        folder: &Path,
        lines: &Path,
        names: Names,
        resumed: usize,
        total: usize,
    ) -> Result<Self> {
        let mut curves = Curves::open(folder)?;
        curves.cut(resumed)?;
        let first = seconds(watch.first_step_seconds + watch.replay_seconds * resumed as f64);
        Ok(Self {
            watch,
            follower: Follower::at_end(lines, names),
            curves,
            total,
            pace: Pace { last: Instant::now(), gaps: Vec::new(), first },
            idle: None,
            logs: lines.parent().unwrap_or(folder).to_owned(),
            logs_seen: Instant::now(),
            offset: 0,
            made: 0,
        })
    }

    /// For a program that counts its steps from 0 though so many are behind it.
    pub(crate) fn counting_from(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// The time to the first step begins now.
    pub(crate) fn begin(&mut self) {
        self.pace.last = Instant::now();
    }

    /// The last step that was done.
    pub(crate) fn last(&self) -> usize {
        self.curves.last()
    }

    /// Records the steps since the last call; `Some` where the training has to be stopped.
    pub(crate) fn look(&mut self, context: &mut JobContext<'_>) -> Result<Option<End>> {
        self.finish(context)?;
        if (context.stopped)() {
            return Ok(Some(End::Interrupted));
        }
        Ok(self.stall().or_else(|| self.flood()).map(End::Stalled))
    }

    /// Records the steps since the last call.
    pub(crate) fn finish(&mut self, context: &mut JobContext<'_>) -> Result<()> {
        for mut step in self.follower.read()? {
            step.step += self.offset;
            self.take(&step, context)?;
        }
        Ok(())
    }

    fn take(&mut self, step: &Step, context: &mut JobContext<'_>) -> Result<()> {
        self.curves.add(step)?;
        let gap = self.pace.last.elapsed();
        // The time to the first step is that of loading.
        if self.made > 0 {
            self.pace.gaps.push(gap);
        }
        (self.pace.last, self.idle) = (Instant::now(), None);
        self.made += 1;
        (context.observer)(Update::Step(step, self.total));
        if !step.not_finite.is_empty() {
            let names = step.not_finite.join(", ");
            (context.observer)(Update::Note(&format!("step {}: not finite: {names}", step.step)));
        }
        if step.figure("updated").is_some_and(|updated| updated < 1.0) {
            (context.observer)(Update::Note(&format!("step {}: the update was not made", step.step)));
        }
        if step.figure("truncated").is_some_and(|share| share > 0.5) {
            let note =
                format!("step {}: more than half of the answers were cut at the token limit", step.step);
            (context.observer)(Update::Note(&note));
        }
        Ok(())
    }

    fn stall(&mut self) -> Option<String> {
        let (silence, limit) = (self.pace.last.elapsed(), self.pace.limit(self.watch));
        let seen =
            || format!("no step for {:.0} s (limit {:.0} s)", silence.as_secs_f64(), limit.as_secs_f64());
        if silence <= limit {
            self.idle = None;
            return None;
        }
        if silence > limit * HARD {
            return Some(seen());
        }
        match gpus_are_idle() {
            None => Some(seen()),
            Some(false) => {
                self.idle = None;
                None
            }
            Some(true) => {
                let since = *self.idle.get_or_insert_with(Instant::now);
                let is_idle = since.elapsed() >= seconds(self.watch.idle_seconds);
                is_idle.then(|| format!("{}, all GPUs idle", seen()))
            }
        }
    }

    fn flood(&mut self) -> Option<String> {
        if self.logs_seen.elapsed() < LOGS_PAUSE {
            return None;
        }
        self.logs_seen = Instant::now();
        let logs = ["torchrun", "experiments/logs"].map(|name| files::size(&self.logs.join(name)));
        let gigabytes = logs.iter().sum::<u64>() as f64 / 1e9;
        let is_flood = gigabytes > self.watch.log_gigabytes;
        is_flood
            .then(|| format!("its logs grew to {gigabytes:.1} GB, over `log_gigabytes` in [engines.watch]"))
    }
}

/// The failure of a program with the last lines of its output.
pub(crate) fn failed(name: &'static str, why: impl Into<String>, process: &mut Process) -> Error {
    process.drain();
    Error::Failed { name, why: why.into(), log: process.log().to_owned(), tail: process.tail() }
}

/// How one start of a training ended.
pub(crate) enum Attempt {
    Done,
    /// The user stopped it.
    Interrupted,
    Failed(Error),
}

/// Starts a training until it is done: again after a failure, unless it made no step since the last start.
pub(crate) fn with_restarts(
    watch: &Watch,
    context: &mut JobContext<'_>,
    mut attempt: impl FnMut(&mut JobContext<'_>) -> Result<(Attempt, usize)>,
) -> Result<crate::Outcome> {
    let mut restarts = 0;
    loop {
        let (ended, made) = attempt(context)?;
        match ended {
            Attempt::Done => return Ok(crate::Outcome::Complete),
            Attempt::Interrupted => return Ok(crate::Outcome::Interrupted),
            Attempt::Failed(error) if made == 0 || restarts >= watch.restarts => return Err(error),
            Attempt::Failed(error) => {
                restarts += 1;
                (context.observer)(Update::Note(&format!(
                    "{error}restarting it ({restarts} of {})",
                    watch.restarts
                )));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_silence_follows_the_median_step() {
        let watch = Watch { stall_seconds: 30.0, stall_factor: 6.0, ..Watch::default() };
        let mut pace = Pace { last: Instant::now(), gaps: Vec::new(), first: seconds(100.0) };
        assert_eq!(pace.limit(&watch), seconds(100.0));
        pace.gaps = [1.0, 1.0, 50.0].map(seconds).to_vec();
        assert_eq!(pace.limit(&watch), seconds(30.0));
        pace.gaps = [10.0, 20.0, 30.0].map(seconds).to_vec();
        assert_eq!(pace.limit(&watch), seconds(120.0));
    }
}
