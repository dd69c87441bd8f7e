//! What a stage does: the questions that each kind of stage answers.

use std::any::Any;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::host::{Evaluation, Event, Host, Outcome};
use crate::options::Options;
use crate::provenance::Provenance;
use crate::servers::{Fleet, Servers};
use crate::slot::Key;

/// What a stage is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Checks the machine, where anything is to be done.
    Preflight,
    /// Checks something else that later stages need.
    Check,
    /// Makes something that later stages read.
    Make,
    Install,
    /// Trains in another program.
    Train,
    Serve,
    Evaluate,
    Report,
}

/// What a stage does.
pub trait Work: Any + Debug + Send + Sync {
    /// One line about it.
    fn title(&self) -> String;

    /// What its result is kept under; `None` for work that is done every time.
    fn key(&self) -> Option<Key> {
        None
    }

    /// What it is for.
    fn role(&self) -> Role {
        Role::Make
    }

    /// Does the work; resumes where an earlier run was stopped or killed.
    ///
    /// # Errors
    /// As each kind says.
    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error>;

    /// Further lines of the plan, each with its name: commands, variables, values set in a configuration. `out` is the
    /// folder of the recipe, `folder` that of the result.
    fn details(&self, out: &Path, folder: &Path) -> Vec<(&'static str, String)> {
        let _ = (out, folder);
        Vec::new()
    }

    /// What it does otherwise than the published code, whatever the recipe says.
    fn deviations(&self) -> Vec<String> {
        Vec::new()
    }

    /// GPUs that it uses.
    fn gpus(&self) -> usize {
        0
    }

    /// GB that it writes, as far as they are known beforehand.
    fn gb(&self) -> Option<f64> {
        None
    }

    /// Damage to a finished result outside the stage's folder, whose work is then done again; `None` where it is complete.
    fn damage(&self, out: &Path) -> Option<String> {
        let _ = out;
        None
    }

    /// What of a finished result is no longer on this machine, which is then completed; `None` where all is.
    ///
    /// # Errors
    /// Files that cannot be looked at.
    fn missing(&self, host: &mut dyn Host) -> Result<Option<String>, Error> {
        let _ = host;
        Ok(None)
    }

    /// Whether it verifies what an earlier run left, so that no result of it is discarded.
    fn verifies_itself(&self) -> bool {
        false
    }

    /// Whether it prints lines of its own while it runs.
    fn prints(&self) -> bool {
        false
    }
}

/// A stage that is being done.
pub struct StageContext<'a> {
    pub stage: &'a str,
    pub recipe: &'a str,
    /// Folder of the recipe.
    pub out: &'a Path,
    /// Folder of the stage's result; that of the recipe for work that is done every time.
    pub folder: &'a Path,
    /// Folders of all evaluations of the recipe.
    pub runs: &'a [PathBuf],
    /// The evaluations that are chosen.
    pub coming: Vec<&'a Evaluation>,
    /// The next evaluation to run after this stage.
    pub next: &'a dyn Fn() -> Option<&'a Evaluation>,
    /// Which stages run, and with what.
    pub options: &'a Options,
    /// The program that runs the graph.
    pub host: &'a mut dyn Host,
    /// Shows an event of the stage.
    pub event: &'a mut (dyn FnMut(Event<'_>) + Send),
    pub(crate) serving: &'a mut Serving,
}

/// What answers evaluations behind servers, from one stage to the next.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    /// What answers for a fleet, once that is known.
    pub(crate) provenance: Option<(Arc<Fleet>, Provenance)>,
    /// Servers of the evaluation before, which the next one asks, too.
    pub(crate) standing: Option<Servers>,
}
