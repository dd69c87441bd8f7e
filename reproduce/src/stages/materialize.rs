//! Training rows with the paths of this machine.

use std::path::Path;

use crate::error::Error;
use crate::host::Outcome;
use crate::slot::Key;
use crate::work::{StageContext, Work};

/// Writes the training rows with the paths of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Materialize;

impl Work for Materialize {
    fn title(&self) -> String {
        "training rows with the paths of this machine, each medium opened once".to_owned()
    }

    fn key(&self) -> Option<Key> {
        Some(Key::new("materialized-1", "plain paths"))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        Ok(context.host.materialize(context.folder)?)
    }

    fn details(&self, _: &Path, _: &Path) -> Vec<(&'static str, String)> {
        let command = "paravt-bench data materialize --rows <snapshot of ParaVT-Parquet> --media <paravt-source> --out <output>";
        vec![("command", command.to_owned())]
    }

    fn prints(&self) -> bool {
        true
    }
}
