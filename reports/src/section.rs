//! A table with a section of its own: what page, terminal, Markdown and files show it by.

use crate::Report;
use crate::table::{Pick, Table, View};
use crate::terminal::Text;

/// A table of a report. Without rows it is shown nowhere.
pub(crate) struct Section {
    /// Its rows, with all columns.
    pub table: fn(&Report) -> Table,
    /// In the navigation of the page.
    pub link: &'static str,
    /// The sentence below its heading on the page.
    pub under: &'static str,
    /// Columns of the page; all where none is named.
    pub page: &'static [Pick],
    /// Columns for a pull request.
    pub markdown: &'static [Pick],
    /// Explanations below the table on the page, each with its name.
    pub facts: Option<Facts>,
    /// Adds it to a report for a terminal.
    pub show: fn(&mut Text, &Report),
}

/// Names and texts of explanations.
pub(crate) type Facts = fn(&Report) -> Vec<(String, String)>;

impl Section {
    /// The table; `None` without rows.
    pub(crate) fn of(&self, report: &Report) -> Option<Table> {
        Some((self.table)(report)).filter(|table| table.frame.height() > 0)
    }

    /// The columns of the page.
    pub(crate) fn on_page(&self, report: &Report) -> Option<View> {
        let table = self.of(report)?;
        Some(if self.page.is_empty() { table.whole() } else { table.view(self.page) })
    }
}
