#![forbid(unsafe_code)]
//! Run directories to tables, intervals and verdicts. Reads records only: no task, no backend.
//!
//! ```
//! use paravt_reports::statistics::holm;
//!
//! // Of two p-values the smaller is doubled.
//! assert_eq!(holm(&[0.04, 0.01]), [0.04, 0.02]);
//! ```
//!
//! `paravt_reports::Report::read` makes the tables of run directories; `suite/examples/src/bin/compare_two_runs.rs` compares two.

mod cells;
mod claims;
pub mod compare;
pub mod decide;
pub mod export;
pub mod gate;
pub mod page;
mod paper;
pub mod rows;
mod runs;
mod settings;
mod show;
pub mod statistics;
pub mod study;
pub mod table;
pub mod tables;
pub mod terminal;
mod training;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use cells::{Cell, Comparison};
pub use claims::{Claim, Judged, Unit};
pub use decide::Verdict;
pub use paper::{PaperError, PaperNumbers};
pub use runs::{Damaged, ReportError, Run, find_runs, readable_runs, tell_apart};
pub use show::{json, markdown, terminal};
pub use training::{ABOUT, About, TRAINING, Training};

use rayon::prelude::*;
use runs::Counted;
use settings::Settings;

/// Everything a report shows.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// One cell per run, in the order of the published table's columns.
    pub cells: Vec<Cell>,
    /// Splits of the published table without a run.
    pub not_run: Vec<String>,
    /// Runs that are damaged and left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<Damaged>,
    /// The paper's claims and what these runs say about them.
    pub claims: Vec<Judged>,
    /// Planned comparisons of the recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub study: Option<study::Study>,
    /// Deviations of a recipe's stages from the published code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<Deviation>,
    /// Details of tables and charts beside the cells.
    #[serde(skip)]
    pub details: Details,
}

/// Something that was done otherwise than the published code does it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Deviation {
    /// What, and how the published code does it.
    pub text: String,
    /// Names of the stages that it concerns.
    pub stages: Vec<String>,
}

/// Details of tables and charts, by position of the cell.
#[derive(Debug, Clone, Default)]
pub struct Details {
    /// Position in the list of runs that the report was built from.
    pub runs: Vec<usize>,
    /// Breakdowns by run, tag and label.
    pub breakdowns: BTreeMap<(u32, String, String), rows::GroupMean>,
    /// Samples by calls and parallel width.
    pub tools: BTreeMap<u32, rows::ToolTable>,
    /// Tokens and seconds.
    pub costs: BTreeMap<u32, rows::Cost>,
    /// Windows over the video's length.
    pub windows: BTreeMap<u32, Vec<u32>>,
}

impl Details {
    fn add(&mut self, position: u32, index: usize, rows: &rows::Rows) {
        self.runs.push(index);
        let named = |((tag, label), mean)| ((position, tag, label), mean);
        self.breakdowns.extend(rows::breakdowns(rows).into_iter().map(named));
        self.tools.extend(rows::tool_table(&rows.samples).map(|table| (position, table)));
        self.costs.extend(rows::cost(&rows.samples).map(|cost| (position, cost)));
        self.windows.extend(rows::windows(rows).map(|bins| (position, bins)));
    }
}

impl Report {
    /// Builds the report of runs, each compared with a row of the published table where one is named.
    ///
    /// # Errors
    /// A run's records do not add up, or the published table has no such row.
    pub fn build<'a>(
        runs: impl IntoIterator<Item = &'a Run>,
        paper_row: Option<&str>,
    ) -> Result<Self, ReportError> {
        let runs: Vec<&Run> = runs.into_iter().collect();
        let counted = runs.into_par_iter().map(Run::count).collect::<Result<Vec<_>, _>>()?;
        Self::of(counted, paper_row)
    }

    /// Builds the report of run directories, or folders of them. Each run is counted up and dropped
    /// before the next, so that any number of them fits into memory.
    ///
    /// # Errors
    /// As [`build`](Self::build), a directory that holds no run, or no run that can be read.
    pub fn read(paths: &[PathBuf], paper_row: Option<&str>) -> Result<Self, ReportError> {
        let (mut counted, damaged) = runs::readable(paths, |path| Run::read(path)?.count())?;
        runs::tell_apart(counted.iter_mut().map(|run| (run.path.clone(), &mut run.manifest)));
        Ok(Self { damaged, ..Self::of(counted, paper_row)? })
    }

    fn of(runs: Vec<Counted>, paper_row: Option<&str>) -> Result<Self, ReportError> {
        let (paper, settings) = (PaperNumbers::embedded()?, Settings::embedded()?);
        let order =
            |run: &Counted| paper::SPLITS.iter().position(|(split, _)| *split == run.manifest.task.name);
        let mut sorted: Vec<(usize, Counted)> = runs.into_iter().enumerate().collect();
        sorted.sort_by_key(|(_, run)| (order(run).unwrap_or(usize::MAX), run.manifest.plan.profile));
        let cell = |(_, run): &(usize, Counted)| {
            cells::cell(run, &rows::clusters(&run.rows.samples), &paper, &settings, paper_row)
        };
        let mut cells = sorted.iter().map(cell).collect::<Result<Vec<_>, _>>()?;
        cells::judge(&mut cells);
        // A task of one's own has nothing to do with the published splits.
        let published = |cell: &Cell| paper::SPLITS.iter().any(|(split, _)| *split == cell.task);
        let any = cells.is_empty() || cells.iter().any(published);
        let not_run = paper::SPLITS
            .iter()
            .filter(|_| any)
            .map(|(split, _)| (*split).to_owned())
            .filter(|split| !cells.iter().any(|cell| cell.task == *split))
            .collect();
        let samples: Vec<_> = sorted.iter().map(|(_, run)| run.rows.samples.as_slice()).collect();
        let trainings: Vec<_> = sorted.iter().map(|(_, run)| (&run.manifest, &run.training)).collect();
        let evidence =
            claims::Evidence { settings: &settings, cells: &cells, samples: &samples, trainings: &trainings };
        let claims = claims::judge(&claims::Claims::embedded()?, &paper, &evidence)?;
        let mut details = Details::default();
        for (position, (index, run)) in (0..).zip(&sorted) {
            details.add(position, *index, &run.rows);
        }
        Ok(Self { cells, not_run, damaged: Vec::new(), claims, study: None, deviations: Vec::new(), details })
    }

    /// The damaged runs in one line.
    pub(crate) fn left_out(&self) -> Option<String> {
        let runs: Vec<&str> = self.damaged.iter().map(|one| one.run.as_str()).collect();
        (!runs.is_empty()).then(|| format!("damaged and left out: {}", runs.join(", ")))
    }

    /// Every table of the report.
    ///
    /// # Errors
    /// The published numbers are damaged.
    pub fn tables(&self) -> Result<Vec<table::Table>, ReportError> {
        let mut tables = tables::all(self, &PaperNumbers::embedded()?)?;
        if let Some(study) = &self.study {
            tables.extend(study::tables(study)?);
        }
        Ok(tables)
    }

    /// Every run could be read and is complete: see [`Cell::complete`].
    pub fn complete(&self) -> bool {
        self.damaged.is_empty() && self.cells.iter().all(Cell::complete)
    }
}
