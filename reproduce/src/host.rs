//! What the stages need of the program that runs them: models behind a backend, data, reports.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
pub use paravt_engines::Outcome;
use paravt_suite::evaluate::RunConfig;
use serde_json::Value;

use crate::needs::Preflight;
use crate::progress::Progress;
use crate::provenance::Provenance;
use crate::servers::Fleet;
use crate::target::Fetch;

/// What the program that runs a graph provides: models behind a backend, data, reports.
///
/// Its errors are the program's own and reach the caller of [`run`](crate::driver::run) as they are, in
/// [`Error::Host`](crate::Error::Host).
pub trait Host {
    /// Runs the splits of an evaluation on the model that `answers` names, in run directories below `folder`; existing
    /// ones are resumed.
    ///
    /// # Errors
    /// Data, model or run directory that cannot be used.
    fn evaluate(&mut self, evaluation: &Evaluation, folder: &Path, answers: Answers<'_>) -> Result<Outcome>;

    /// Asks a server one question in text and one about an image.
    ///
    /// # Errors
    /// It does not answer both, and how.
    fn probe(&mut self, base_url: &str, model: &str) -> std::result::Result<(), String>;

    /// Checks a precondition of these evaluations.
    ///
    /// # Errors
    /// It does not hold; the message says how to meet it.
    fn check(&mut self, check: &Check, coming: &[&Evaluation]) -> Result<()>;

    /// Downloads the items that are missing on this machine, and lists all of them in a file in `folder`.
    ///
    /// # Errors
    /// No access, no connection, no space.
    fn fetch(&mut self, fetch: &Fetch, folder: &Path) -> Result<Outcome>;

    /// What of these items is no longer on this machine; `None` where all are.
    ///
    /// # Errors
    /// Files that cannot be looked at.
    fn missing(&mut self, fetch: &Fetch) -> Result<Option<String>> {
        let _ = fetch;
        Ok(None)
    }

    /// Writes the training rows with the paths of this machine into `folder`.
    ///
    /// # Errors
    /// Rows that cannot be read, or a folder that cannot be written.
    fn materialize(&mut self, folder: &Path) -> Result<Outcome>;

    /// Local folder of a model by its id on the hub; `None` where it is not on this machine.
    fn model(&mut self, id: &str) -> Option<PathBuf> {
        let _ = id;
        None
    }

    /// Whether the user, or the system, has asked a training in another program to end since this call.
    fn stop(&mut self) -> Box<dyn Fn() -> bool> {
        Box::new(|| false)
    }

    /// Whether the user has asked, in a stage that is done by now, for the end of the recipe.
    fn is_stopped(&self) -> bool {
        false
    }

    /// Asks the model in a folder `rows` held-out rows of each kind, and shows the answers that are right.
    ///
    /// # Errors
    /// A model that cannot be run.
    fn examine(&mut self, model: &Path, rows: usize) -> Result<()>;

    /// Reports the runs in these folders.
    ///
    /// # Errors
    /// Runs that cannot be read, or a page that cannot be written.
    fn report(&mut self, report: &Reporting, runs: &[PathBuf]) -> Result<Outcome>;
}

/// The model that an evaluation asks.
#[derive(Debug, Clone, Copy)]
pub enum Answers<'a> {
    /// The model of the evaluation, or the backend that the flags name.
    AsGiven,
    /// This model, loaded in this process, and which one it is.
    InProcess(&'a str, &'a Provenance),
    /// Servers of this model at these base URLs, and what is known of both.
    Servers(&'a [String], &'a str, &'a Provenance),
}

/// Progress of a stage.
pub enum Event<'a> {
    /// Something that may take minutes and is not the work of a stage whose result is kept, such as hashing what an
    /// earlier run made: what it is, as in "verifying its files".
    Busy(&'a str),
    /// Its result of an earlier run is complete and kept.
    Kept,
    /// Its result of an earlier run is moved out of the way: why, and where it is now.
    Discarded(&'a str, &'a Path),
    /// Its work begins.
    Started,
    /// A step of a training.
    Progress(&'a Progress<'a>),
    /// A line for the user.
    Note(&'a str),
    /// It has failed, and what else its row of a table has is left out, or one run of that: the run, and why.
    GivenUp(Option<&'a str>, &'a str),
    /// Its work has ended, complete or not, after this time.
    Ended(Duration, Outcome),
}

/// A precondition of later stages.
#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    /// The machine has what the recipe needs.
    Machine(Box<Preflight>),
    /// The upstream texts are imported; where they are not, they are imported from this repository.
    Protocol(String),
    /// The texts of another protocol, by its name, can be read.
    OtherProtocol(String),
    /// The texts of an agent's own protocol are imported; where they are not, from the repository of its authors.
    AgentProtocol(String),
    /// The annotations of these splits can be read.
    Data(Vec<String>),
    /// The model answers behind a server or backend of the user, named by these flags.
    Backend(String),
}

/// Splits to run on one model.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// Splits by name, in order.
    pub splits: Vec<String>,
    pub config: RunConfig,
    /// Protocol of an agent of its own, in the place of that of the command.
    pub protocol: Option<String>,
    /// Model folder that is loaded in this process; `None` for a model behind a server.
    pub model: Option<PathBuf>,
    /// Servers that are started for it; `None` for a model in this process or behind a server of the user.
    pub fleet: Option<Arc<Fleet>>,
    /// The training by another program that made the model.
    pub training: Option<TrainedModel>,
    /// Generated data root; `None` for the published files.
    pub world: Option<PathBuf>,
    /// One line about it.
    pub title: String,
    /// What the answers depend on; part of the hash in the folder's name.
    pub settings: Value,
    /// Maximum number of samples of each split.
    pub limit: Option<usize>,
}

/// A model that another program trained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainedModel {
    pub training: PathBuf,
    pub model: PathBuf,
    /// Recipe, base model and seed.
    pub about: About,
}

impl Evaluation {
    /// Whether it asks a model behind a server.
    pub(crate) fn is_served(&self) -> bool {
        self.model.is_none()
    }
}

/// Recipe, model and seed of a training: a report judges a claim only against trainings that the claim is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Name of the release's configuration, where all settings are its; else of our recipe.
    pub recipe: String,
    pub base_model: String,
    pub seed: u64,
}

/// What is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporting {
    /// Page to write; without one it is `report/index.html` in the folder of the recipe.
    pub page: Option<PathBuf>,
    /// Rows of the published table that it stands beside.
    pub paper_rows: Vec<String>,
}
