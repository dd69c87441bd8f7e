//! A comparison as tables, as Markdown and for a terminal.

use std::fmt::Write as _;

use paravt_suite::printable::printable_line;

use super::{Flip, Pair, RunComparison, inputs};
use crate::contrast::{ALL, Contrast, PairedEffect};
use crate::decide::Verdict;
use crate::export::{escape, markdown as table_markdown};
use crate::multiplicity::Multiplicity;
use crate::order::distinct;
use crate::protocols;
use crate::table::{ColumnFormat, Pick, Table, col, interval};
use crate::terminal::{Detail, Lines, Text, counted};

/// The comparison and the answers that flipped.
pub fn tables(comparison: &RunComparison) -> Vec<Table> {
    let flips = Table::of("flips", "Answers that flipped", &flips(comparison))
        .text("split", "split", |(pair, _)| pair.task.clone())
        .text("sample", "sample", |(_, flip)| flip.uid.clone())
        .text("way", "from A to B", |(_, flip)| way(flip.gained).to_owned())
        .table();
    let mut tables = vec![splits(comparison), flips];
    if !comparison.inputs.is_empty() {
        tables.extend(inputs::tables(&comparison.inputs));
    }
    tables
}

fn flips(comparison: &RunComparison) -> Vec<(&Pair, &Flip)> {
    comparison.splits.iter().flat_map(|pair| pair.flipped.iter().map(move |flip| (pair, flip))).collect()
}

fn splits(runs: &RunComparison) -> Table {
    comparison(&runs.contrasts, |_| None)
}

/// A row of contrasts: an effect, and of a single split the pair behind it.
struct Row<'a> {
    contrast: &'a Contrast,
    effect: Option<&'a PairedEffect>,
    pair: Option<&'a Pair>,
    /// Flips, gained and lost, in which B made a tool call.
    crops: Option<[usize; 2]>,
}

impl Row<'_> {
    fn mean(&self, of_pair: fn(&Pair) -> f64, of_effect: fn(&PairedEffect) -> f64) -> Option<f64> {
        self.pair.map(of_pair).or(self.effect.map(of_effect))
    }

    fn interval(&self) -> Option<(f64, f64)> {
        match self.pair {
            Some(pair) => pair.interval,
            None => self.effect?.by_video,
        }
    }
}

/// B against A: of each contrast the mean of its splits, where there are several, then a row per split. `crops` counts the
/// flips, gained and lost, in which B made a tool call.
pub(crate) fn comparison(contrasts: &[Contrast], crops: impl Fn(&Pair) -> Option<[usize; 2]>) -> Table {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for contrast in contrasts {
        let mean = contrast.effects.first().filter(|effect| effect.split.is_none());
        rows.extend(mean.map(|effect| Row { contrast, effect: Some(effect), pair: None, crops: None }));
        let of_split = |pair| Row { contrast, effect: None, pair: Some(pair), crops: crops(pair) };
        rows.extend(contrast.pairs.iter().map(of_split));
    }
    let name = |row: &Row<'_>, of: fn(&Pair) -> &String, all: fn(&Contrast) -> &Option<String>| {
        row.pair.map(|pair| of(pair).clone()).or_else(|| all(row.contrast).clone())
    };
    let word = |row: &Row<'_>| match row.pair {
        Some(pair) => (pair.word().to_owned(), pair.tone()),
        None => (row.contrast.word().to_owned(), row.contrast.tone()),
    };
    Table::of("comparison", "B against A on the same samples", &rows)
        .text("question", "comparison", |row| row.contrast.question.clone())
        .text("split", "split", |row| row.pair.map_or(ALL, |pair| &pair.title).to_owned())
        .text("a", "A", |row| name(row, |pair| &pair.name_a, |all| &all.a))
        .text("b", "B", |row| name(row, |pair| &pair.name_b, |all| &all.b))
        .text("metric", "metric", |row| Some(row.pair?.metric.to_owned()))
        .count("pairs", "pairs", |row| row.pair.map(|pair| pair.n).or(row.effect.map(|effect| effect.pairs)))
        .count("unpaired", "unpaired", |row| Some(row.pair?.unpaired))
        .share("a_percent", "A, %", |row| row.mean(|pair| pair.a, |effect| effect.a))
        .share("b_percent", "B, %", |row| row.mean(|pair| pair.b, |effect| effect.b))
        .share("difference_points", "B - A", |row| {
            row.mean(|pair| pair.difference, |effect| effect.difference)
        })
        .share_ends([("low_points", "low"), ("high_points", "high")], |row| row.interval())
        .count("videos", "videos", |row| match row.pair {
            Some(pair) => Some(pair.effect.map_or(1, |effect| effect.clusters)),
            None => Some(row.effect?.estimates[0]?.clusters),
        })
        .real("p", "p", |row| row.pair?.p)
        .real("p_holm", "p (Holm)", |row| row.pair?.p_holm)
        .share("detectable_points", "detectable", |row| row.pair?.detectable)
        .shown_as(ColumnFormat::Percent)
        .toned("verdict", "B against A", |row| match row.pair {
            Some(pair) => (pair.words(), pair.tone()),
            None => word(row),
        })
        .count("gained", "wrong to right", |row| Some(row.pair?.flips.gained))
        .count("lost", "right to wrong", |row| Some(row.pair?.flips.lost))
        .real("extra_tokens", "extra tokens", |row| Some(row.pair?.extra_tokens))
        .real("extra_seconds", "extra latency (s)", |row| Some(row.pair?.extra_seconds))
        .real("tokens_per_point", "tokens per point gained", |row| Some(row.pair?.cost_per_point()?.0))
        .real("seconds_per_point", "seconds per point gained", |row| Some(row.pair?.cost_per_point()?.1))
        .text("also", "also differs", |row| row.contrast.also.join("; "))
        .for_views()
        .text("task", "split", |row| row.pair.map_or_else(|| MEAN.to_owned(), |pair| pair.task.clone()))
        .toned("word", "verdict", word)
        .count("gained_with_crops", "with crops", |row| Some(row.crops.as_ref()?[0]))
        .count("lost_with_crops", "with crops", |row| Some(row.crops.as_ref()?[1]))
        .text("tokens", "extra tokens", |row| Some(format!("{:+.0}", row.pair?.extra_tokens)))
        .text("seconds", "extra latency (s)", |row| Some(format!("{:+.2}", row.pair?.extra_seconds)))
        .table()
}

/// The mean of the splits in a narrow column.
const MEAN: &str = "mean";

/// The columns that fit a page, the result first; the first of all tells comparisons apart.
pub(crate) const PAGE: [Pick; 16] = [
    col("question"),
    col("split"),
    col("difference_points"),
    interval("low_points", "high_points", "95 %"),
    col("verdict"),
    col("pairs"),
    col("a_percent"),
    col("b_percent"),
    col("p_holm"),
    col("detectable_points"),
    col("gained"),
    col("gained_with_crops"),
    col("lost"),
    col("lost_with_crops"),
    col("tokens").flush(true),
    col("seconds").flush(true),
];

/// The comparison for a pull request; `link` says where a sample's transcript in B is, by split and name.
pub fn markdown(comparison: &RunComparison, link: impl Fn(&str, &str) -> Option<String>) -> String {
    let mut out = "# B against A\n\n".to_owned();
    for contrast in &comparison.contrasts {
        let _ = writeln!(out, "{}\n", escape(&contrast.sentence()));
    }
    let _ = writeln!(out, "{}", table_markdown(&splits(comparison).whole()));
    for pair in &comparison.splits {
        let _ = writeln!(out, "{}: {}", escape(&pair.title), escape(&sentence(pair)));
        for difference in &pair.differs {
            let _ = writeln!(out, "- {}", escape(difference));
        }
        out.push('\n');
    }
    if !comparison.protocols.is_empty() {
        let table = protocols::table(&comparison.protocols);
        let _ = writeln!(out, "## {}\n\n{}", table.title, table_markdown(&table.view(protocols::SHOWN)));
    }
    out.push_str("## Answers that flipped\n\n| split | sample | from A to B |\n|---|---|---|\n");
    for (pair, flip) in flips(comparison) {
        let uid = escape(&flip.uid);
        let name = link(&pair.task, &flip.uid).map_or_else(|| uid.clone(), |link| format!("[{uid}]({link})"));
        let _ = writeln!(out, "| {} | {name} | {} |", escape(&pair.task), way(flip.gained));
    }
    out.push('\n');
    for (why, splits) in left_out(comparison) {
        let _ = writeln!(out, "{}: {why}", escape(&splits));
    }
    out
}

fn way(gained: bool) -> &'static str {
    if gained { "wrong to right" } else { "right to wrong" }
}

/// Conclusion for one split. A difference that was not shown is never said to be below one
/// that would have been: the detectable difference is above every estimate without significance.
fn sentence(pair: &Pair) -> String {
    let points = 100.0 * pair.difference;
    let found = match &pair.verdict {
        Verdict::Better | Verdict::Worse => {
            format!("B is {} by {:.1} points", pair.word(), points.abs())
        }
        Verdict::NotComparable(_) => pair.verdict.to_string(),
        Verdict::Unchanged => unchanged(pair),
        _ => inconclusive(pair),
    };
    let few = match &pair.effect {
        Some(effect) if effect.is_weak() => format!(" (weak: {} videos)", effect.clusters),
        _ => String::new(),
    };
    let found = found + &few;
    match pair.cost_per_point() {
        Some((tokens, seconds)) if tokens <= 0.0 && seconds <= 0.0 => format!("{found}; it costs no more"),
        Some((tokens, seconds)) => {
            format!(
                "{found}; a point more costs {tokens:+.0} tokens and {seconds:+.2} s of latency per sample"
            )
        }
        None => found,
    }
}

fn unchanged(pair: &Pair) -> String {
    let bound = pair.effect.and_then(|effect| {
        let (low, high) = effect.interval()?;
        let points = 100.0 * high.max(-low);
        Some(format!("; on other videos up to {points:.1} points are possible ({} videos)", effect.clusters))
    });
    format!("no score differs, no answer changed to right or wrong{}", bound.unwrap_or_default())
}

fn inconclusive(pair: &Pair) -> String {
    let Some(effect) = &pair.effect else {
        return "inconclusive: fewer than two videos".to_owned();
    };
    if effect.is_unchanged() {
        return "inconclusive: the changes within each video cancel out".to_owned();
    }
    match pair.detectable {
        Some(detectable) if detectable < 1.0 => format!(
            "inconclusive (Holm p {:.3}); minimum detectable difference {:.1} points at 80 % power",
            pair.p_holm.unwrap_or(1.0),
            100.0 * detectable
        ),
        _ => "inconclusive: too few videos to show any difference".to_owned(),
    }
}

/// The comparison for a terminal: one line per split; with [`Detail::Full`] a section for each.
pub fn terminal(comparison: &RunComparison, detail: Detail) -> Text {
    let view = splits(comparison).view(&[
        col("task"),
        col("pairs"),
        col("a_percent").titled("A"),
        col("b_percent").titled("B"),
        col("difference_points"),
        interval("low_points", "high_points", "95 %").or("-"),
        col("p_holm").titled("Holm p").or("-"),
        col("word"),
    ]);
    let mut text = Text::default();
    for contrast in &comparison.contrasts {
        text.line(contrast.sentence());
    }
    for name in distinct(comparison.splits.iter().map(|pair| &pair.name_a)) {
        text.line(format!("A  {name}"));
    }
    for name in distinct(comparison.splits.iter().map(|pair| &pair.name_b)) {
        text.line(format!("B  {name}"));
    }
    let widest = comparison.splits.iter().map(|pair| printable_line(&pair.task).chars().count()).max();
    let widths = [widest.unwrap_or_default().max(SPLIT), 5, 5, 5, 6, INTERVAL, 7];
    let lines = Lines::of(&view, &widths);
    if view.rows > 0 {
        text.line(lines.header());
    }
    (0..view.rows).for_each(|row| lines.row(&mut text, row));
    let judged = comparison.splits.iter().filter(|pair| pair.p_holm.is_some()).count();
    if let Some(line) = Multiplicity::default().with_comparisons(judged).line() {
        text.line(line);
    }
    for (why, splits) in left_out(comparison) {
        text.line(format!("{why}: {splits}"));
    }
    match detail {
        Detail::Brief if view.rows == 0 => {}
        Detail::Brief => differences(&mut text, comparison),
        Detail::Full => comparison.splits.iter().for_each(|pair| section(&mut text, pair)),
    }
    inputs::show(&mut text, &comparison.inputs);
    protocols::show(&mut text, &comparison.protocols);
    text
}

/// Splits that were not compared, by reason.
fn left_out(comparison: &RunComparison) -> impl Iterator<Item = (&'static str, String)> {
    let RunComparison { unmatched, only_a, only_b, .. } = comparison;
    let groups = [("no sample in common", unmatched), ("only in A", only_a), ("only in B", only_b)];
    groups.into_iter().filter(|(_, splits)| !splits.is_empty()).map(|(why, splits)| (why, splits.join(", ")))
}

/// Differences of the plans of A and B, each once.
fn differences(text: &mut Text, comparison: &RunComparison) {
    let all = distinct(comparison.splits.iter().flat_map(|pair| &pair.differs));
    all.iter().take(DIFFERENCES).for_each(|difference| text.line(difference));
    match all.len().saturating_sub(DIFFERENCES) {
        0 => text.line("with -v: flipped answers and cost of each split"),
        more => text.line(format!("with -v: {}, flipped answers, cost", counted(more, "more difference"))),
    }
}

/// Differences that are listed before the rest is counted.
const DIFFERENCES: usize = 6;

/// Columns of the longest name of a published split.
const SPLIT: usize = 14;
/// Columns of an interval that is not the widest possible.
const INTERVAL: usize = 14;

fn section(text: &mut Text, pair: &Pair) {
    text.line("");
    text.line(format!("{}: {}", pair.title, sentence(pair)));
    text.line(format!("  A {}; B {}", pair.name_a, pair.name_b));
    for difference in &pair.differs {
        text.line(format!("  {difference}"));
    }
    text.line(format!(
        "  B takes {:+.0} tokens and {:+.2} s a sample; p {} before Holm's correction",
        pair.extra_tokens,
        pair.extra_seconds,
        pair.p.map_or_else(|| "-".to_owned(), |p| ColumnFormat::Probability.number(p))
    ));
    if pair.unpaired > 0 {
        text.line(format!("  {} left out: in one run only", counted(pair.unpaired, "sample")));
    }
    for gained in [true, false] {
        let flipped = pair.flipped.iter().filter(|flip| flip.gained == gained);
        let mut uids: Vec<&str> = flipped.map(|flip| flip.uid.as_str()).collect();
        uids.sort_by_key(|uid| (uid.parse::<u64>().unwrap_or(u64::MAX), *uid));
        if !uids.is_empty() {
            let more = match uids.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let shown = uids[..uids.len().min(SHOWN)].join(", ");
            text.line(format!("  {} {}: {shown}{more}", uids.len(), way(gained)));
        }
    }
}

/// Flipped samples that a terminal lists per direction.
const SHOWN: usize = 20;

/// The comparison for machines: every number there is.
pub fn json(comparison: &RunComparison) -> String {
    serde_json::to_string_pretty(comparison).expect("plain structs with string keys serialise") + "\n"
}
