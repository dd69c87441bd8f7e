#![forbid(unsafe_code)]
//! Run directories to tables, intervals and verdicts. Reads records only: no task, no backend.

mod cells;
mod paper;
mod runs;
pub mod statistics;
mod tables;

pub use cells::{Cell, Comparison, Verdict, cell};
pub use paper::{PaperError, PaperNumbers};
pub use runs::{ReportError, Run, find_runs};
pub use tables::{COLUMNS, Format, Json, Markdown, Terminal};

/// Everything a report shows.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// One cell per run, in the order of the published table's columns.
    pub cells: Vec<Cell>,
    /// Splits of the published table without a run.
    pub not_run: Vec<String>,
}

impl Report {
    /// Builds the report of runs, each held against a row of the published table where one is named.
    ///
    /// # Errors
    /// A run's records do not add up, or the published table has no such row.
    pub fn build(runs: &[Run], paper_row: Option<&str>) -> Result<Self, ReportError> {
        let paper = PaperNumbers::embedded()?;
        let mut cells = runs.iter().map(|run| cell(run, &paper, paper_row)).collect::<Result<Vec<_>, _>>()?;
        let order = |cell: &Cell| paper::SPLITS.iter().position(|(split, _)| *split == cell.task);
        cells.sort_by_key(|cell| (order(cell).unwrap_or(usize::MAX), cell.profile));
        let not_run = paper::SPLITS
            .iter()
            .map(|(split, _)| (*split).to_owned())
            .filter(|split| !cells.iter().any(|cell| cell.task == *split))
            .collect();
        Ok(Self { cells, not_run })
    }

    /// Whether every run is complete.
    pub fn complete(&self) -> bool {
        self.cells.iter().all(|cell| cell.summary.complete)
    }
}
