//! The published table with ours in it: below each published line those of our runs that stand beside it.

use std::collections::BTreeMap;

use crate::Report;
use crate::authors::BY_AUTHORS;
use crate::cells::Cell;
use crate::decide::Verdict;
use crate::paper::{PaperNumbers, SPLITS};
use crate::table::{ColumnFormat, Table, tenths};
use crate::terminal::Text;

/// One line of the published table, or of ours below it.
pub(crate) struct Line<'a> {
    name: String,
    /// Published row that it is, or stands beside.
    row: Option<String>,
    /// All of our cells may stand beside the published ones, or none; `None` for a published line.
    pub comparable: Option<bool>,
    cells: Vec<&'a Cell>,
    /// Percent, by position of the split.
    published: [Option<f64>; SPLITS.len()],
}

impl<'a> Line<'a> {
    fn published(row: &str, paper: &PaperNumbers) -> Self {
        Self {
            name: row.to_owned(),
            row: Some(row.to_owned()),
            comparable: None,
            cells: Vec::new(),
            published: SPLITS.map(|(split, _)| paper.value(row, split).ok().flatten()),
        }
    }

    /// Ours on a split, where it has a score.
    fn cell(&self, split: &str) -> Option<&'a Cell> {
        self.cells.iter().copied().find(|cell| cell.task == split && cell.score().is_some())
    }

    /// Percent on the split at a position; of ours, what is compared with the published number.
    fn percent(&self, position: usize) -> Option<f64> {
        let ours = |cell: &Cell| match &cell.paper {
            Some(paper) => paper.published + paper.difference,
            None => 100.0 * cell.over_samples().0,
        };
        self.published[position].or_else(|| self.cell(SPLITS[position].0).map(ours))
    }

    /// What its cells are beside the published ones, in words.
    fn beside(&self) -> Option<String> {
        if !self.comparable? {
            return Some("not comparable".to_owned());
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for verdict in self.cells.iter().filter_map(|cell| Some(&cell.paper.as_ref()?.verdict)) {
            *counts.entry(verdict.as_str()).or_default() += 1;
        }
        let words: Vec<String> = counts.into_iter().map(|(word, count)| format!("{count} {word}")).collect();
        Some(words.join(", "))
    }
}

/// The published table with ours.
pub(crate) fn table(lines: &[Line<'_>]) -> Table {
    let mut table =
        Table::of("published", "Published table and ours", lines)
            .text("model", "model", |line| line.name.clone());
    for (position, (split, _)) in SPLITS.into_iter().enumerate() {
        table = table.real(split, split, |line| line.percent(position)).shown_as(ColumnFormat::Percent);
    }
    table.text("comparable", "beside the published", Line::beside).table()
}

/// The published lines, each with ours below it, then those of ours that stand beside none: cells of one row and label, or
/// of one model and use of tools (a recipe may address splits in different modes of either kind), share a line; a split
/// that is there already begins another.
pub(crate) fn lines<'a>(report: &'a Report, paper: &PaperNumbers) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'_>> =
        paper.models().into_iter().map(|row| Line::published(row, paper)).collect();
    for cell in &report.cells {
        let row = cell.paper.as_ref().map(|paper| paper.row.clone());
        if let Some(row) = row.as_ref().filter(|row| !lines.iter().any(|line| line.row.as_ref() == Some(row)))
        {
            // Of another table, or by the model's authors.
            let of_model =
                |line: &Line<'_>| line.row.as_ref().is_some_and(|known| row.starts_with(known.as_str()));
            let place = lines.iter().rposition(of_model).map_or(lines.len(), |place| place + 1);
            lines.insert(place, Line::published(row, paper));
        }
        let name = match &cell.label {
            Some(label) => format!("ours: {label} ({})", cell.profile),
            None => {
                let tools = if cell.offers_tool { "with tools" } else { "no tools" };
                format!("ours: {}, {tools} ({})", cell.model, cell.profile)
            }
        };
        let name = match cell.probe {
            Some(probe) => format!("{name}, probe {probe}"),
            None => name,
        };
        let numbered = |number: usize| if number == 1 { name.clone() } else { format!("{name}, {number}") };
        let comparable = Some(cell.is_comparable());
        let taken = |line: &Line<'_>| line.cells.iter().any(|other| other.task == cell.task);
        let same = |line: &Line<'_>, name: &String| {
            line.name == *name && line.row == row && line.comparable == comparable
        };
        let free = |name: &String| !lines.iter().any(|line| same(line, name) && taken(line));
        let name = (1..).map(numbered).find(free).unwrap_or_default();
        match lines.iter_mut().find(|line| same(line, &name)) {
            Some(line) => line.cells.push(cell),
            None => {
                let beside = row.as_ref().and_then(|_| lines.iter().rposition(|line| line.row == row));
                let place = beside.map_or(lines.len(), |place| place + 1);
                let published = [None; SPLITS.len()];
                lines.insert(place, Line { name, row, comparable, cells: vec![cell], published });
            }
        }
    }
    lines
}

/// Columns of a name on a terminal.
const NAME: usize = 24;

/// Adds the published table to a report for a terminal, where runs stand beside several of its lines: each score with a sign
/// for its verdict.
pub(crate) fn show(text: &mut Text, report: &Report) {
    // Damaged published numbers are an error when the report is built.
    let Ok(paper) = PaperNumbers::embedded() else { return };
    let lines = lines(report, &paper);
    let is_beside =
        |line: &&Line<'_>| lines.iter().any(|ours| ours.comparable.is_some() && ours.row == line.row);
    let shown: Vec<&Line<'_>> = lines.iter().filter(|line| line.row.is_some()).filter(is_beside).collect();
    if shown.iter().filter(|line| line.comparable.is_none()).count() < 2 {
        return;
    }
    const SHORT: [&str; SPLITS.len()] = ["VMME", "+subs", "LVB", "LVBen", "MLVU", "MMVU", "Char"];
    let titles: String = SHORT.iter().map(|title| format!("{title:>7} ")).collect();
    text.line(format!("{:<NAME$}{titles}", "published, and ours"));
    let mut of_table = None;
    for line in shown {
        let name = match (line.comparable, line.name.strip_suffix(BY_AUTHORS)) {
            (Some(_), _) => format!("  {}", line.name.trim_start_matches("ours: ")),
            (None, Some(model)) if of_table == Some(model) => "  by its authors".to_owned(),
            (None, Some(model)) => format!("{model}*"),
            (None, None) => line.name.clone(),
        };
        if line.comparable.is_none() {
            of_table = Some(line.name.as_str());
        }
        let name: String = name.chars().take(NAME - 1).collect();
        let cells = SPLITS.iter().enumerate().map(|(position, (split, _))| {
            let number =
                line.percent(position).map_or("-".to_owned(), |value| format!("{:.1}", tenths(value)));
            let sign = line
                .cell(split)
                .and_then(|cell| cell.paper.as_ref())
                .map_or(' ', |paper| sign(&paper.verdict));
            format!("{number:>7}{sign}")
        });
        text.line(format!("{name:<NAME$}{}", cells.collect::<String>()));
    }
    text.line("  = reproduced, < worse, > better, ? inconclusive, x not comparable, * authors'");
}

fn sign(verdict: &Verdict) -> char {
    match verdict {
        Verdict::Reproduced | Verdict::Unchanged => '=',
        Verdict::Worse => '<',
        Verdict::Better => '>',
        Verdict::Inconclusive => '?',
        Verdict::NotComparable(_) | Verdict::NotRun => 'x',
    }
}
