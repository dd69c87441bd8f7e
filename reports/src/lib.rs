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

mod authors;
mod cell_text;
mod cells;
mod claims;
pub mod compare;
pub mod contrast;
pub mod decide;
mod errata;
pub mod export;
pub mod frame;
pub mod gate;
mod group_score;
mod labels;
mod models;
mod multiplicity;
mod names;
mod order;
pub mod page;
mod pairs;
mod paper;
mod prices;
mod probes;
mod progress;
mod protocols;
mod published;
mod question;
mod repeats;
pub mod rows;
mod runs;
mod section;
mod sections;
mod settings;
mod show;
pub mod statistics;
pub mod study;
pub mod table;
pub mod tables;
pub mod terminal;
mod tone;
mod training;

use std::collections::BTreeSet;
use std::path::PathBuf;

pub use cells::{Cell, Comparison};
pub use claims::{Claim, Judged, Unit};
pub use contrast::Contrast;
pub use decide::Verdict;
pub use errata::SecondScore;
pub use labels::name_runs;
pub use models::Naming;
pub use paper::{PaperError, PaperNumbers};
pub use prices::{Price, Prices, TokenPrices};
pub use probes::Probed;
pub use progress::Progress;
pub use protocols::{Side, TwoProtocols};
pub use repeats::{Measure, Repeats, pass_all, pass_at};
pub use runs::{Damaged, ReportError, Run, RunDigest, count_runs, find_runs, has_run, readable_runs};
pub use show::{json, markdown, terminal};
pub use training::{ABOUT, About, BEFORE, TRAINING, Training};

use frame::{Frame, Values};
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
    /// What the runs answer among themselves: those of a split that differ in one thing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contrasts: Vec<Contrast>,
    /// Probed runs beside the same runs without the probe.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probed>,
    /// Models under the table's protocol and under that of their authors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<TwoProtocols>,
    /// Runs whose samples were asked several times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<Repeats>,
    /// Runs without the items that others doubt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errata: Vec<SecondScore>,
    /// Planned comparisons of the recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub study: Option<study::Study>,
    /// Deviations of a recipe's stages from the published code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<Deviation>,
}

/// The published number beside each run, given the row of the published table that it is compared with.
///
/// # Errors
/// The published table lacks a named row.
fn published_numbers(
    paper: &PaperNumbers,
    rows: &[Option<&str>],
    runs: &[RunDigest],
) -> Result<Vec<Option<f64>>, ReportError> {
    rows.iter().flatten().try_for_each(|row| paper.row(row))?;
    let rows = rows.iter().map(|row| row.map(str::to_owned)).collect();
    let splits = runs.iter().map(|run| Some(run.manifest.task.name.clone())).collect();
    let runs = Frame::new(vec![("row", Values::Text(rows)), ("split", Values::Text(splits))]);
    let beside = runs.left_join(&paper.frame()?, &["row", "split"]);
    Ok(beside.reals("published_percent").collect())
}

/// Something that was done otherwise than the published code does it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Deviation {
    /// What, and how the published code does it.
    pub text: String,
    /// Names of the stages that it concerns.
    pub stages: Vec<String>,
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
        let counted = runs::on_all_cores(&runs, |run| run.count());
        Self::of(counted.into_iter().collect::<Result<_, _>>()?, paper_row)
    }

    /// Whether a published number stands beside one of the runs.
    pub(crate) fn is_beside_published(&self) -> bool {
        self.cells.iter().any(|cell| cell.paper.is_some())
    }

    /// Whether a number or a claim of the paper is judged by the runs: a report says nothing of the paper otherwise.
    pub(crate) fn is_of_paper(&self) -> bool {
        let judged = |claim: &Judged| !matches!(claim.verdict, Verdict::NotRun | Verdict::NotComparable(_));
        self.is_beside_published() || self.claims.iter().any(judged)
    }

    /// Builds the report of run directories, or folders of them. Records are counted up a part at a time, so that runs of
    /// any number and length fit into memory.
    ///
    /// # Errors
    /// As [`build`](Self::build), a directory that holds no run, or no run that can be read.
    pub fn read(paths: &[PathBuf], paper_row: Option<&str>) -> Result<Self, ReportError> {
        let (mut counted, damaged) = runs::readable(paths, |path| {
            let run = RunDigest::read(path)?;
            run.check().map(|()| run)
        })?;
        name_runs(counted.iter_mut().map(|run| (run.path.clone(), &mut run.manifest)));
        Ok(Self { damaged, ..Self::of(counted, paper_row)? })
    }

    fn of(runs: Vec<RunDigest>, paper_row: Option<&str>) -> Result<Self, ReportError> {
        let (paper, settings) = (PaperNumbers::embedded()?, Settings::embedded()?);
        let order =
            |run: &RunDigest| paper::SPLITS.iter().position(|(split, _)| *split == run.manifest.task.name);
        let placed = |(position, run)| RunDigest { position, ..run };
        let mut sorted: Vec<RunDigest> = runs.into_iter().enumerate().map(placed).collect();
        sorted.sort_by_key(|run| (order(run).unwrap_or(usize::MAX), run.manifest.plan.profile()));
        // A probed run measures something else than any published number.
        let plain = |run: &&RunDigest| run.manifest.plan.probe.is_none();
        let rows = sorted.iter().map(|run| {
            let named = paper_row.or(run.manifest.paper_row.as_deref());
            Some(run).filter(plain).and(named)
        });
        let rows: Vec<Option<&str>> = rows.collect();
        let published = published_numbers(&paper, &rows, &sorted)?;
        let cell = |((run, row), published): ((&RunDigest, &Option<&str>), Option<f64>)| {
            cells::cell(run, row.zip(published), &settings)
        };
        let mut cells: Vec<Cell> = sorted.iter().zip(&rows).zip(published).map(cell).collect();
        cells::judge(&mut cells);
        // Runs beside which no number is published have nothing to do with the published splits.
        let any = cells.is_empty() || cells.iter().any(|cell| cell.paper.is_some());
        let not_run = paper::SPLITS
            .iter()
            .filter(|_| any)
            .map(|(split, _)| (*split).to_owned())
            .filter(|split| !cells.iter().any(|cell| cell.task == *split))
            .collect();
        let samples: Vec<_> = sorted.iter().map(|run| &run.samples).collect();
        let trainings: Vec<_> = sorted.iter().map(|run| (&run.manifest, &run.training)).collect();
        let evidence =
            claims::Evidence { settings: &settings, cells: &cells, samples: &samples, trainings: &trainings };
        let claims = claims::judge(&claims::Claims::embedded()?, &paper, &evidence)?;
        let (probes, repeats) = (probes::pair_probed(&sorted), repeats::repeats(&sorted));
        let errata = errata::second_scores(&sorted);
        let protocols = protocols::two_protocols(&paper, &sorted.iter().collect::<Vec<_>>(), &rows)?;
        let contrasts = contrast::among(&sorted.iter().map(contrast::Side::from).collect::<Vec<_>>());
        let (damaged, study, deviations) = (Vec::new(), None, Vec::new());
        Ok(Self {
            cells,
            not_run,
            damaged,
            claims,
            contrasts,
            probes,
            protocols,
            repeats,
            errata,
            study,
            deviations,
        })
    }

    /// With what each run cost.
    #[must_use]
    pub fn priced(mut self, prices: &Prices) -> Self {
        for cell in &mut self.cells {
            let tokens = [cell.summary.prompt_tokens, cell.summary.completion_tokens];
            cell.price = Some(prices.price(&cell.model, tokens, cell.gpu_hours()));
        }
        self
    }

    /// Models of the runs without a price of their tokens; empty where no prices are given.
    pub fn unpriced(&self) -> Vec<&str> {
        let lacking = |cell: &&Cell| cell.price.as_ref().is_some_and(|price| price.tokens.is_none());
        let models: BTreeSet<&str> =
            self.cells.iter().filter(lacking).map(|cell| cell.model.as_str()).collect();
        models.into_iter().collect()
    }

    /// The damaged runs in one line.
    pub(crate) fn left_out(&self) -> Option<String> {
        let runs: Vec<&str> = self.damaged.iter().map(|one| one.run.as_str()).collect();
        (!runs.is_empty()).then(|| format!("damaged and left out: {}", runs.join(", ")))
    }

    /// Every table of the report.
    pub fn tables(&self) -> Result<Vec<table::Table>, ReportError> {
        let mut tables = tables::all(self, &PaperNumbers::embedded()?);
        if let Some(study) = &self.study {
            tables.extend(study::tables(study));
        }
        Ok(tables)
    }

    /// Every run could be read and is complete: see [`Cell::complete`].
    pub fn complete(&self) -> bool {
        self.damaged.is_empty() && self.cells.iter().all(Cell::complete)
    }
}
