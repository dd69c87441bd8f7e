//! Downloads of data and models.

use std::path::Path;

use crate::error::Error;
use crate::host::{Host, Outcome};
use crate::slot::Key;
use crate::target::{Fetch, Item, Target};
use crate::work::{StageContext, Work};

impl Work for Fetch {
    fn title(&self) -> String {
        match &self.items[..] {
            [Item { target: Target::Model(id), .. }] => format!("{id}, where it is not here"),
            _ => format!("{} GB of data and models that are not here", Fetch::gb(self)),
        }
    }

    /// The files are verified against the hub's hashes.
    fn key(&self) -> Option<Key> {
        Some(Key::new("fetched", self))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        Ok(context.host.fetch(self, context.folder)?)
    }

    fn details(&self, _: &Path, _: &Path) -> Vec<(&'static str, String)> {
        vec![("command", self.command())]
    }

    fn gb(&self) -> Option<f64> {
        Some(self.disk_gb() as f64)
    }

    fn missing(&self, host: &mut dyn Host) -> Result<Option<String>, Error> {
        Ok(host.missing(self)?)
    }

    fn prints(&self) -> bool {
        true
    }
}
