//! Runs of a model under the table's protocol beside runs under that of its authors, with the published pair.

use paravt_suite::protocol::Fidelity;
use paravt_suite::run::Manifest;
use serde::Serialize;

use crate::authors::{Authors, BY_AUTHORS, Row, model_of};
use crate::order::distinct;
use crate::pairs::Pairs;
use crate::paper::{PaperError, PaperNumbers};
use crate::rows::by_agent_extraction;
use crate::runs::RunDigest;
use crate::section::Section;
use crate::table::{Pick, Table, col, interval};
use crate::terminal::{Text, percent, points, points_interval, within};

/// A model on a split under the table's protocol and under that of its authors. Shares.
#[derive(Debug, Clone, Serialize)]
pub struct TwoProtocols {
    pub row: String,
    pub task: String,
    pub title: String,
    pub table: Side,
    /// As by its authors, by their own extraction of answers.
    pub authors: Side,
    /// Fidelity of the second run to the authors' evaluation.
    pub fidelity: Option<Fidelity>,
    /// Samples in both runs.
    pub pairs: usize,
    /// Authors' protocol less the table's, over the samples of both.
    pub difference: Option<f64>,
    /// 95 % interval of that, clustered by video.
    pub interval: Option<(f64, f64)>,
    /// In what the two protocols differ.
    pub gap: String,
    /// Why the table cannot have measured what its row says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
    /// Numbers of the authors that the table has no column for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub also: Option<String>,
    /// Where the authors' numbers are from, and how sure that is.
    pub source: String,
}

/// One of two protocols.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Side {
    pub published: Option<f64>,
    /// Name of our run.
    pub run: Option<String>,
    pub score: Option<f64>,
}

/// Every model and split of which a run under either protocol is there, in the order of the runs.
pub(crate) fn two_protocols(
    paper: &PaperNumbers,
    runs: &[&RunDigest],
    rows: &[Option<&str>],
) -> Result<Vec<TwoProtocols>, PaperError> {
    let authors = Authors::embedded().map_err(|error| PaperError::Damaged(error.to_string()))?;
    let mut found: Vec<TwoProtocols> = Vec::new();
    for (run, name) in runs.iter().zip(rows) {
        let Some(name) = name else { continue };
        let model = model_of(name);
        let (Some(row), task) = (authors.of_model(model), &run.manifest.task.name) else { continue };
        if found.iter().any(|one| one.row == model && one.task == *task) {
            continue;
        }
        let of = |wanted: &str| {
            let mut all = runs.iter().zip(rows);
            all.find(|(run, name)| **name == Some(wanted) && run.manifest.task.name == *task)
                .map(|(run, _)| *run)
        };
        let (table, by_authors) = (of(model), of(&format!("{model}{BY_AUTHORS}")));
        // A model that is not in the table has its authors' number alone.
        let in_table = paper.models().contains(&model);
        let published =
            if in_table { paper.value(model, task)? } else { None }.map(|percent| percent / 100.0);
        found.push(pair(row, run, [table, by_authors], published));
    }
    Ok(found)
}

/// Whether two runs are one model, once as in the table and once as by its authors.
pub(crate) fn of_one_model(runs: [&Manifest; 2]) -> bool {
    let [a, b] = runs.map(|run| run.paper_row.as_deref().unwrap_or_default());
    let is_of = |own: &str, table: &str| own.strip_suffix(BY_AUTHORS) == Some(table);
    is_of(a, b) || is_of(b, a)
}

/// [`two_protocols`] of runs with the rows of their manifests.
pub(crate) fn from_manifests(runs: &[&RunDigest]) -> Result<Vec<TwoProtocols>, PaperError> {
    let rows: Vec<Option<&str>> = runs.iter().map(|run| run.manifest.paper_row.as_deref()).collect();
    two_protocols(&PaperNumbers::embedded()?, runs, &rows)
}

fn pair(
    row: &Row,
    any: &RunDigest,
    [table, by_authors]: [Option<&RunDigest>; 2],
    published: Option<f64>,
) -> TwoProtocols {
    let task = &any.manifest.task;
    let authors_score = by_authors.map(|run| {
        run.summary.agent_score.as_ref().map_or(run.summary.over_samples().value, |score| score.value)
    });
    let pairs = table.zip(by_authors).map(|(table, run)| {
        let by_agent = by_agent_extraction(&run.samples);
        Pairs::join(&table.samples, by_agent.as_ref().unwrap_or(&run.samples))
    });
    let pairs = pairs.filter(|pairs| !pairs.is_empty());
    let means = pairs.as_ref().map(Pairs::means);
    let effect = pairs.as_ref().and_then(Pairs::effect);
    TwoProtocols {
        row: row.row.clone(),
        task: task.name.clone(),
        title: task.title.clone(),
        table: Side {
            published,
            run: table.map(|run| run.manifest.display_name()),
            score: table.map(|run| run.summary.over_samples().value),
        },
        authors: Side {
            published: row.percent(&task.name).map(|percent| percent / 100.0),
            run: by_authors.map(|run| run.manifest.display_name()),
            score: authors_score,
        },
        fidelity: by_authors.and_then(|run| run.manifest.fidelity),
        pairs: pairs.as_ref().map_or(0, Pairs::len),
        difference: means.map(|means| means.b - means.a),
        interval: effect.and_then(|effect| effect.interval()),
        gap: row.gap.clone(),
        finding: row.finding.clone(),
        also: row.also.clone(),
        source: format!("{}; confidence {}", row.source, row.confidence),
    }
}

/// One row per model and split.
pub(crate) fn table(found: &[TwoProtocols]) -> Table {
    let published = |one: &TwoProtocols| Some(one.authors.published? - one.table.published?);
    Table::of("protocols", "As in the table, and as by the model's authors", found)
        .text("model", "model", |one| one.row.clone())
        .text("split", "split", |one| one.title.clone())
        .share("table_percent", "table", |one| one.table.published)
        .share("authors_percent", "authors", |one| one.authors.published)
        .share("published_points", "difference", published)
        .share("as_in_table_percent", "ours, table", |one| one.table.score)
        .share("as_by_authors_percent", "ours, authors", |one| one.authors.score)
        .text("fidelity", "fidelity", |one| Some(one.fidelity?.as_str().to_owned()))
        .count("pairs", "pairs", |one| one.pairs)
        .share("difference_points", "our difference", |one| one.difference)
        .share_ends([("low_points", "low"), ("high_points", "high")], |one| one.interval)
        .text("gap", "what differs", |one| one.gap.clone())
        .text("finding", "what the table cannot have measured", |one| one.finding.clone())
        .text("also", "also", |one| one.also.clone())
        .text("source", "source", |one| one.source.clone())
        .table()
}

/// Adds the pairs to a report for a terminal.
pub(crate) fn show(text: &mut Text, found: &[TwoProtocols]) {
    if found.is_empty() {
        return;
    }
    text.line("two protocols: as in the table, and as by the model's authors; published, then ours");
    for (position, one) in found.iter().enumerate() {
        let value = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
        let ours = one
            .difference
            .map(|ours| format!(", {} ({})", points(ours), within(one.interval, points_interval)));
        text.line(format!(
            "  {} {}: {} and {}; {} and {}{}",
            one.row,
            one.task,
            value(one.table.published),
            value(one.authors.published),
            value(one.table.score),
            value(one.authors.score),
            ours.unwrap_or_default(),
        ));
        if found[..position].iter().all(|other| other.row != one.row) {
            text.line(format!("    what differs: {}", one.gap));
            one.finding.iter().for_each(|finding| text.line(format!("    {finding}")));
            one.also.iter().for_each(|also| text.line(format!("    its authors also: {also}")));
        }
    }
}

/// In what the protocols of each model differ, once.
fn explain(found: &[TwoProtocols]) -> Vec<(String, String)> {
    let explained = |one: &TwoProtocols| {
        let finding = one.finding.as_ref().map(|why| format!(" What the table cannot have measured: {why}."));
        let also = one.also.as_ref().map(|also| format!(" Its authors also report: {also}."));
        let [finding, also] = [finding, also].map(Option::unwrap_or_default);
        let words =
            format!("What differs: {}.{finding}{also} Source of their numbers: {}.", one.gap, one.source);
        (one.row.clone(), words)
    };
    distinct(found.iter().map(explained))
}

/// The columns for a page and a pull request.
pub(crate) const SHOWN: &[Pick] = &[
    col("model"),
    col("split"),
    col("table_percent"),
    col("authors_percent"),
    col("published_points"),
    col("as_in_table_percent"),
    col("as_by_authors_percent"),
    col("pairs"),
    col("difference_points"),
    interval("low_points", "high_points", "95 %"),
    col("fidelity"),
];

pub(crate) const SECTION: Section = Section {
    table: |report| table(&report.protocols),
    link: "Two protocols",
    under: "A model as the paper's table ran it and as its authors run it: the published pair, ours, and the difference of \
            ours on the samples of both with its interval by video. Scores of the second are by the authors' own \
            extraction of answers.",
    page: SHOWN,
    markdown: SHOWN,
    facts: Some(|report| explain(&report.protocols)),
    show: |text, report| show(text, &report.protocols),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_one_of_the_table() {
        let (authors, paper) = (Authors::embedded().unwrap(), PaperNumbers::embedded().unwrap());
        for name in authors.names() {
            let row = authors.row(&name).unwrap();
            let elsewhere = row.row.starts_with("PyVision-") || row.row.starts_with("Qwen");
            let in_table = paper.models().contains(&&*row.row);
            assert!(in_table || elsewhere, "{name}");
            for split in row.percent.keys() {
                assert!(!in_table || paper.value(&row.row, split).unwrap().is_some(), "{name} {split}");
                assert_eq!(paper.value(&name, split).unwrap(), row.percent(split));
            }
        }
        assert_eq!(paper.value("VideoZoomer-7B (by its authors)", "videomme").unwrap(), Some(65.2));
        assert_eq!(paper.value("VideoZoomer-7B", "videomme").unwrap(), Some(45.3));
        assert!(authors.row("Conan-7B").is_none());
    }
}
