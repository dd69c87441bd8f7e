//! Members of zip archives, inflated within the budget of their file.

use std::io::{Cursor, Read};

use zip::ZipArchive;

use super::budget::Budget;
use super::error::Problem;

/// A zip archive in memory.
pub(super) struct Members(ZipArchive<Cursor<Vec<u8>>>);

impl Members {
    pub(super) fn open(bytes: Vec<u8>) -> Result<Self, Problem> {
        let archive = ZipArchive::new(Cursor::new(bytes));
        archive.map(Self).map_err(|error| Problem::File(format!("not a zip archive: {error}")))
    }

    /// Names of the members that begin with one and end with another text, in their order by name.
    pub(super) fn names(&self, start: &str, end: &str) -> Vec<String> {
        let names = self.0.file_names().flatten();
        let mut names: Vec<String> = names.map(|name| name.into_owned()).collect();
        names.retain(|name| name.starts_with(start) && name.ends_with(end));
        names.sort();
        names
    }

    /// The bytes of a member; `None` where it is missing.
    pub(super) fn read(&mut self, name: &str, budget: &mut Budget) -> Result<Option<Vec<u8>>, Problem> {
        let Some(index) = self.0.index_for_name(name) else { return Ok(None) };
        let damaged = |error: &dyn std::fmt::Display| Problem::File(format!("{name}: {error}"));
        let member = self.0.by_index(index).map_err(|error| damaged(&error))?;
        let mut bytes = Vec::new();
        // A byte more than may be read says that there are more.
        member.take(budget.bytes_left() + 1).read_to_end(&mut bytes).map_err(|error| damaged(&error))?;
        budget.take_bytes(bytes.len())?;
        Ok(Some(bytes))
    }
}
