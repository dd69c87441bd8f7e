//! What a graph needs of the program that runs it, and what it tells that program.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use paravt_suite::journal::JournalError;

use crate::error::Error;
use crate::graph::{Check, Evaluation, Graph, Reporting, Stage};
use crate::provenance::Provenance;
use crate::provide::Fetch;
use crate::work::Progress;

/// How a graph, or a stage that the host ran, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Everything is done.
    Complete,
    /// Samples are missing or failed.
    Incomplete,
    /// The server or the disk failed: further evaluations would fail as well.
    Down,
    /// Stopped by the user.
    Interrupted,
}

impl Outcome {
    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete | Self::Down => "incomplete",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What the program that runs a graph provides: models behind a backend, data, reports.
pub trait Host {
    /// Error of the program.
    type Error: From<Error> + From<JournalError> + Display;

    /// Runs the splits of an evaluation on the model that `answers` names, in run directories below the stage's
    /// folder; existing ones are resumed.
    ///
    /// # Errors
    /// Data, model or run directory that cannot be used.
    fn evaluate(
        &mut self,
        stage: &Stage,
        evaluation: &Evaluation,
        answers: Answers<'_>,
    ) -> Result<Outcome, Self::Error>;

    /// Asks a server one question in text and one about an image.
    ///
    /// # Errors
    /// It does not answer both, and how.
    fn probe(&mut self, base_url: &str, model: &str) -> Result<(), String>;

    /// Checks a precondition.
    ///
    /// # Errors
    /// It does not hold; the message says how to meet it.
    fn check(&mut self, check: &Check) -> Result<(), Self::Error>;

    /// Downloads the items that are missing on this machine, and lists all of them in a file in `folder`.
    ///
    /// # Errors
    /// No access, no connection, no space.
    fn fetch(&mut self, fetch: &Fetch, folder: &Path) -> Result<Outcome, Self::Error>;

    /// What of these items is no longer on this machine; `None` where all are.
    ///
    /// # Errors
    /// Files that cannot be looked at.
    fn missing(&mut self, fetch: &Fetch) -> Result<Option<String>, Self::Error> {
        let _ = fetch;
        Ok(None)
    }

    /// Writes the training rows with the paths of this machine into `folder`, from what the fetch stage in
    /// `fetched` names.
    ///
    /// # Errors
    /// Rows that cannot be read, or a folder that cannot be written.
    fn materialize(&mut self, fetched: &Path, folder: &Path) -> Result<Outcome, Self::Error>;

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
    fn examine(&mut self, model: &Path, rows: usize) -> Result<(), Self::Error>;

    /// Reports the runs in these folders.
    ///
    /// # Errors
    /// Runs that cannot be read, or a page that cannot be written.
    fn report(&mut self, graph: &Graph, report: &Reporting, runs: &[PathBuf])
    -> Result<Outcome, Self::Error>;
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
    /// Its work has ended, complete or not, after this time.
    Ended(Duration, Outcome),
}

/// Shows progress; also from the thread that watches servers.
pub trait Observer: Send {
    /// Shows an event of a stage.
    fn event(&mut self, stage: &Stage, event: Event<'_>);
}
