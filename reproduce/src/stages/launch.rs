//! A training stage of another program, launched and watched here.

use std::path::Path;

use paravt_engines::{Job, JobContext, Update};
use serde_json::Value;

use crate::error::Error;
use crate::host::{Event, Outcome};
use crate::progress::Progress;
use crate::slot::Key;
use crate::work::{Role, StageContext, Work};

/// A training stage of another program.
#[derive(Debug, Clone)]
pub struct Launch {
    pub job: Job,
    /// What its result depends on, without paths of this machine.
    pub settings: Value,
}

impl Work for Launch {
    fn role(&self) -> Role {
        Role::Train
    }

    fn title(&self) -> String {
        self.job.title()
    }

    /// It takes days and stays valid across versions.
    fn key(&self) -> Option<Key> {
        Some(Key::new("launched", &self.settings))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        let job = self.job.with_models(&mut |id| context.host.model(id));
        let (folder, stop) = (context.folder, context.host.stop());
        let mut observe = |update: Update<'_>| match update {
            Update::Step(step, all) => (context.event)(Event::Progress(&Progress::Launched(step, all))),
            Update::Note(note) => (context.event)(Event::Note(note.trim_end())),
        };
        let mut job_context = JobContext { folder, stopped: &*stop, observer: &mut observe };
        Ok(job.run(&mut job_context)?)
    }

    fn details(&self, _: &Path, folder: &Path) -> Vec<(&'static str, String)> {
        let shown = self.job.print_commands(folder).into_iter();
        let commands =
            shown.flat_map(|shown| [("command", shown.line), ("environ", shown.environment.join(" "))]);
        let sets = match &self.job {
            Job::Rl(job) => job.overrides(folder).unwrap_or_default(),
            Job::Sft(_) | Job::Merge(_) | Job::Pick(_) => Vec::new(),
        };
        commands.chain(sets.into_iter().map(|set| ("sets", set))).collect()
    }

    fn deviations(&self) -> Vec<String> {
        self.job.deviations()
    }

    fn gpus(&self) -> usize {
        self.job.gpus()
    }

    /// A training of days verifies its own checkpoints.
    fn verifies_itself(&self) -> bool {
        true
    }
}
