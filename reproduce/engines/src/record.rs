//! `launch.json` in the folder of a stage: commands, environment, deviations from the release, and every start.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use paravt_supervise::Process;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::command::PrintedCommand;
use crate::error::{Error, Result};
use crate::files;
use crate::watch::Attempt;

/// File of the record in the folder of a stage.
pub const RECORD: &str = "launch.json";

/// One start of a program and of those beside it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Start {
    /// When it began, in seconds since 1970.
    pub began: f64,
    /// Steps that earlier starts had made.
    pub resumed: usize,
    /// What was moved aside or thrown away before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    pub processes: Vec<Ran>,
    /// The last step that was done when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// When it ended; `None` while it runs, and where this program was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// A process of a start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Its name; `scratch/NAME.log` is its log.
    pub name: String,
    /// Its number on the machine.
    pub pid: u32,
    /// How it ended: `exit status: 1`, `signal: 9 (SIGKILL)`; `None` where it was not seen to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
}

/// `launch.json` of a stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Commands, without paths of the machine.
    pub commands: Vec<String>,
    /// Variables that were set for them.
    pub environment: Vec<String>,
    /// What is done otherwise than by the release.
    pub deviations: Vec<String>,
    /// Starts, oldest first.
    pub starts: Vec<Start>,
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

impl Record {
    /// A record of these commands, with the starts that were noted in the folder before. One without an end was killed with
    /// this program: the last step that it made is `last`, that of the curves.
    pub(crate) fn of(
        folder: &Path,
        commands: &[PrintedCommand],
        deviations: Vec<String>,
        last: Option<usize>,
    ) -> Self {
        let bytes = std::fs::read(folder.join(RECORD)).unwrap_or_default();
        let before: Self = serde_json::from_slice(&bytes).unwrap_or_default();
        let mut starts = before.starts;
        if let Some(killed) = starts.last_mut().filter(|start| start.ended.is_none()) {
            killed.step = last;
            killed.ended = Some("killed with the program that watched it".to_owned());
        }
        let mut environment: Vec<String> = Vec::new();
        for variable in commands.iter().flat_map(|shown| &shown.environment) {
            if !environment.contains(variable) {
                environment.push(variable.clone());
            }
        }
        let commands = commands.iter().map(|shown| shown.line.clone()).collect();
        Self { commands, environment, deviations, starts }
    }

    fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(RECORD);
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::file("cannot write", &path, error.into()))?;
        files::write(&path, format!("{text}\n").as_bytes())
    }

    pub(crate) fn begin(&mut self, resumed: usize, notes: Vec<String>, folder: &Path) -> Result<()> {
        self.starts.push(Start { began: now(), resumed, notes, ..Start::default() });
        self.write(folder)
    }

    /// Notes a process of the last start.
    pub(crate) fn runs(&mut self, name: &str, process: &Process, folder: &Path) -> Result<()> {
        if let Some(start) = self.starts.last_mut() {
            start.processes.push(Ran { name: name.to_owned(), pid: process.id(), exit: None });
        }
        self.write(folder)
    }

    /// Notes how a process of the last start has ended.
    pub(crate) fn exited(&mut self, name: &str, process: &mut Process) {
        let processes = self.starts.last_mut().map(|start| &mut start.processes);
        let ran = processes.and_then(|processes| processes.iter_mut().find(|ran| ran.name == name));
        if let Some(ran) = ran {
            ran.exit = process.exited().map(|status| status.to_string());
        }
    }

    /// Notes how the last start of a training ended. The words are for one that is done, and for one that was stopped by
    /// an error of the watcher.
    pub(crate) fn close(
        &mut self,
        ended: &Result<Attempt>,
        step: usize,
        [done, stopped]: [&str; 2],
        folder: &Path,
    ) -> Result<()> {
        let how = match ended {
            Ok(Attempt::Done) => done.to_owned(),
            Ok(Attempt::Interrupted) => format!("stopped by the user at step {step}"),
            Ok(Attempt::Failed(Error::Failed { why, .. })) => format!("failed at step {step}: {why}"),
            Ok(Attempt::Failed(_)) => format!("failed at step {step}"),
            Err(_) => format!("stopped: {stopped}"),
        };
        self.end(how, Some(step), folder)
    }

    /// Notes how the last start ended, and after which step.
    pub(crate) fn end(&mut self, how: impl Into<String>, step: Option<usize>, folder: &Path) -> Result<()> {
        if let Some(start) = self.starts.last_mut() {
            (start.ended, start.ended_at, start.step) = (Some(how.into()), Some(now()), step);
        }
        self.write(folder)
    }
}

/// A deviation for each field of `settings` whose value is not that of the release; `section` is its table in a recipe.
pub(crate) fn differences<T: Serialize>(section: &str, settings: &T, release: &T) -> Vec<String> {
    let value = |of: &T| serde_json::to_value(of).unwrap_or_default();
    let (Value::Object(ours), Value::Object(theirs)) = (value(settings), value(release)) else {
        return Vec::new();
    };
    let other = ours.iter().filter(|(name, value)| theirs.get(*name) != Some(value));
    other
        .map(|(name, value)| {
            let release = theirs.get(name).unwrap_or(&Value::Null);
            format!("{section}.{name} = {value}; the release's recipe: {release}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_was_killed_with_its_watcher_is_noted_at_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let open = |last| Record::of(folder.path(), &[], Vec::new(), last);
        open(Some(0)).begin(0, Vec::new(), folder.path()).unwrap();
        let mut record = open(Some(7));
        record.begin(4, Vec::new(), folder.path()).unwrap();
        record.end("12 steps are done", Some(12), folder.path()).unwrap();
        let [killed, done] = &open(Some(12)).starts[..] else { panic!("two starts") };
        assert_eq!((killed.step, killed.ended_at), (Some(7), None));
        assert!(killed.ended.as_ref().unwrap().contains("killed"));
        assert!(done.step == Some(12) && done.ended_at >= Some(killed.began), "{done:?}");
    }
}
