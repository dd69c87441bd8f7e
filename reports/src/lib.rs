#![forbid(unsafe_code)]
//! Run directories to tables, intervals and verdicts. Reads records only: no task, no backend.

mod cells;
mod claims;
pub mod compare;
pub mod export;
mod forms;
pub mod frames;
pub mod gate;
pub mod page;
mod paper;
mod runs;
pub mod statistics;
pub mod table;
pub mod tables;
mod training;

use std::collections::BTreeMap;

pub use cells::{Cell, Comparison, Verdict};
pub use claims::{Claim, Judged, Unit};
pub use forms::{COLUMNS, Format, Json, Markdown, Terminal};
pub use paper::{PaperError, PaperNumbers};
pub use runs::{ReportError, Run, find_runs};
pub use training::Training;

use frames::FramesBuilder;

/// Everything a report shows.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// One cell per run, in the order of the published table's columns.
    pub cells: Vec<Cell>,
    /// Splits of the published table without a run.
    pub not_run: Vec<String>,
    /// The paper's claims and what these runs say about them.
    pub claims: Vec<Judged>,
    /// What tables and charts show beside the cells.
    #[serde(skip)]
    pub details: Details,
}

/// What tables and charts show beside the cells, by position of the cell.
#[derive(Debug, Clone, Default)]
pub struct Details {
    /// Position in the list of runs that the report was built from.
    pub runs: Vec<usize>,
    /// Breakdowns by run, tag and label.
    pub breakdowns: BTreeMap<(u32, String, String), frames::Breakdown>,
    /// Samples by calls and parallel width.
    pub tools: BTreeMap<u32, frames::ToolTable>,
    /// Tokens and seconds.
    pub costs: BTreeMap<u32, frames::Cost>,
    /// Windows over the video's length.
    pub windows: BTreeMap<u32, Vec<u32>>,
}

impl Report {
    /// Builds the report of runs, each held against a row of the published table where one is named.
    ///
    /// # Errors
    /// A run's records do not add up, or the published table has no such row.
    pub fn build<'a>(
        runs: impl IntoIterator<Item = &'a Run>,
        paper_row: Option<&str>,
    ) -> Result<Self, ReportError> {
        let runs: Vec<&Run> = runs.into_iter().collect();
        let paper = PaperNumbers::embedded()?;
        let order = |run: &Run| paper::SPLITS.iter().position(|(split, _)| *split == run.manifest.task.name);
        let mut sorted: Vec<usize> = (0..runs.len()).collect();
        sorted.sort_by_key(|&index| {
            (order(runs[index]).unwrap_or(usize::MAX), runs[index].manifest.plan.profile)
        });
        let mut builder = FramesBuilder::default();
        for &index in &sorted {
            let manifest = &runs[index].manifest;
            builder.push_run(&manifest.task, &manifest.plan.switches, &runs[index].records);
        }
        let frames = builder.finish()?;
        let clusters = frames::clusters(&frames)?;
        let cell = |(position, &index): (usize, &usize)| {
            let clusters = clusters.get(&(position as u32)).map_or(&[][..], Vec::as_slice);
            cells::cell(runs[index], clusters, &paper, paper_row)
        };
        let cells = sorted.iter().enumerate().map(cell).collect::<Result<Vec<_>, _>>()?;
        let not_run = paper::SPLITS
            .iter()
            .map(|(split, _)| (*split).to_owned())
            .filter(|split| !cells.iter().any(|cell| cell.task == *split))
            .collect();
        let training: Vec<Training> = sorted.iter().map(|&index| runs[index].training.clone()).collect();
        let claims = claims::judge(&claims::embedded()?, &paper, &cells, &training)?;
        let details = Details {
            runs: sorted,
            breakdowns: frames::breakdowns(&frames)?,
            tools: frames::tool_tables(&frames)?,
            costs: frames::costs(&frames)?,
            windows: frames::windows(&frames)?,
        };
        Ok(Self { cells, not_run, claims, details })
    }

    /// Every table of the report.
    ///
    /// # Errors
    /// The published numbers are damaged.
    pub fn tables(&self) -> Result<Vec<table::Table>, ReportError> {
        Ok(tables::all(self, &PaperNumbers::embedded()?)?)
    }

    /// Whether every run is complete.
    pub fn complete(&self) -> bool {
        self.cells.iter().all(|cell| cell.summary.complete)
    }
}
