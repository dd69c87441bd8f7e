//! The report of the evaluations.

use std::path::PathBuf;

use crate::error::Error;
use crate::host::{Event, Outcome, Reporting};
use crate::slot::Key;
use crate::work::{Role, StageContext, Work};

impl Work for Reporting {
    fn role(&self) -> Role {
        Role::Report
    }

    fn title(&self) -> String {
        match (&self.page, &self.paper_rows[..]) {
            (Some(page), _) => page.display().to_string(),
            (None, []) => "page in report/, and printed".to_owned(),
            (None, [row]) => format!("beside the published row {row}"),
            (None, rows) => format!("beside {} published rows", rows.len()),
        }
    }

    fn key(&self) -> Option<Key> {
        None
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        let runs: Vec<PathBuf> = context.runs.iter().filter(|folder| folder.is_dir()).cloned().collect();
        if runs.is_empty() {
            (context.event)(Event::Note(
                "no report: none of the chosen evaluations has a result; --only takes them beside it",
            ));
            return Ok(Outcome::Complete);
        }
        (context.event)(Event::Busy("reading the records and writing the report"));
        Ok(context.host.report(self, &runs)?)
    }

    fn prints(&self) -> bool {
        true
    }
}
