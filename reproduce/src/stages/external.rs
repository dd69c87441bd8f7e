//! A stage that another program runs, and this version only describes.

use std::path::Path;

use paravt_supervise::{variable, words};

use crate::error::Error;
use crate::host::Outcome;
use crate::slot::Key;
use crate::work::{StageContext, Work};

/// Work of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    /// One line about it.
    pub title: String,
    /// Its command.
    pub command: Option<String>,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
    /// What it makes.
    pub output: Option<String>,
    /// What this version lacks to run it.
    pub missing: String,
}

impl Work for External {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn key(&self) -> Option<Key> {
        None
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        let (stage, missing) = (context.stage.to_owned(), self.missing.clone());
        Err(Error::NotBuilt { stage, missing })
    }

    fn details(&self, _: &Path, _: &Path) -> Vec<(&'static str, String)> {
        let variables = self.environment.iter().map(|(name, value)| variable(name, value));
        let variables = variables.collect::<Vec<_>>().join(" ");
        let fields = [
            ("command", self.command.as_deref().map(|command| words(&[command]).concat())),
            ("environ", Some(variables).filter(|text| !text.is_empty())),
            ("output", self.output.clone()),
            ("missing", Some(self.missing.clone())),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}
