//! The tables of a report.

use arrow_schema::ArrowError;

use crate::cells::Cell;
use crate::paper::{PaperNumbers, SPLITS};
use crate::table::{Kind, Table, count, real, text};
use crate::{Report, show};

/// Every table of a report, in the order in which they are shown.
///
/// # Errors
/// Columns of unequal length, which would be a mistake in this file.
pub fn all(report: &Report, paper: &PaperNumbers) -> Result<Vec<Table>, ArrowError> {
    Ok(vec![
        scores(report)?,
        published(report, paper)?,
        breakdowns(report)?,
        losses(report)?,
        tools(report)?,
        cost(report)?,
        claims(report)?,
    ])
}

/// One value per cell.
fn each<T>(report: &Report, value: impl Fn(&Cell) -> T) -> Vec<T> {
    report.cells.iter().map(value).collect()
}

fn words(value: impl Into<String>) -> Option<String> {
    Some(value.into())
}

fn scores(report: &Report) -> Result<Table, ArrowError> {
    let percent = |share: f64| 100.0 * share;
    let paper = |value: fn(&crate::Comparison) -> f64| each(report, |cell| cell.paper.as_ref().map(value));
    let whole = |value: fn(&Cell) -> usize| each(report, |cell| Some(value(cell) as u64));
    Table::new(
        "scores",
        "Scores",
        vec![
            text("split", "split", each(report, |cell| words(&cell.title))),
            text("run", "run", each(report, |cell| words(&cell.run))),
            text("profile", "profile", each(report, |cell| words(cell.profile.as_str()))),
            text("mode", "mode", each(report, |cell| words(&cell.mode))),
            text("model", "model", each(report, |cell| words(&cell.model))),
            text("metric", "metric", each(report, |cell| words(cell.summary.headline().name))),
            real("score_percent", "score", Kind::Percent, each(report, |cell| cell.score().map(percent))),
            real(
                "low_percent",
                "low",
                Kind::Percent,
                each(report, |cell| cell.interval.map(|(low, _)| percent(low))),
            ),
            real(
                "high_percent",
                "high",
                Kind::Percent,
                each(report, |cell| cell.interval.map(|(_, high)| percent(high))),
            ),
            count("n", "N", whole(Cell::n)),
            count("recorded", "recorded", whole(|cell| cell.summary.n_recorded)),
            count("expected", "expected", whole(|cell| cell.summary.n_expected)),
            count("split_samples", "in the split", whole(|cell| cell.split_rows)),
            count("videos", "videos", whole(|cell| cell.videos)),
            text(
                "paper_row",
                "published row",
                each(report, |cell| cell.paper.as_ref().map(|paper| paper.row.clone())),
            ),
            real("published_percent", "published", Kind::Percent, paper(|paper| paper.published)),
            real("difference_points", "difference", Kind::Points, paper(|paper| paper.difference)),
            real(
                "difference_low_points",
                "low",
                Kind::Points,
                each(report, |cell| Some(cell.paper.as_ref()?.interval?.0)),
            ),
            real(
                "difference_high_points",
                "high",
                Kind::Points,
                each(report, |cell| Some(cell.paper.as_ref()?.interval?.1)),
            ),
            real("margin_points", "margin", Kind::Number, paper(|paper| paper.margin)),
            real("p_holm", "p (Holm)", Kind::Probability, each(report, |cell| cell.paper.as_ref()?.p_holm)),
            text("verdict", "verdict", each(report, |cell| words(show::verdict(cell)))),
        ],
    )
}

/// The published table with ours below it.
fn published(report: &Report, paper: &PaperNumbers) -> Result<Table, ArrowError> {
    let models = paper.models();
    let mut rows: Vec<String> = models.iter().map(|model| (*model).to_owned()).collect();
    let lines = lines(report);
    rows.extend(lines.iter().map(|line| line.name.clone()));
    let comparable = models
        .iter()
        .map(|_| None)
        .chain(lines.iter().map(|line| words(if line.comparable { COMPARABLE } else { NOT_COMPARABLE })));
    let comparable: Vec<Option<String>> = comparable.collect();
    let mut columns = vec![text("model", "model", rows.into_iter().map(Some).collect())];
    for (split, _) in SPLITS {
        let theirs = models.iter().map(|model| paper.value(model, split).ok().flatten());
        let ours = lines.iter().map(|line| {
            let cell = line.cells.iter().find(|cell| cell.task == split);
            cell.and_then(|cell| cell.score().map(|_| 100.0 * cell.over_samples().0))
        });
        columns.push(real(split, split, Kind::Percent, theirs.chain(ours).collect()));
    }
    columns.push(text("comparable", "beside the published", comparable));
    Table::new("published", "Published table and ours", columns)
}

/// Of a line of ours whose scores were measured as the published ones were.
const COMPARABLE: &str = "comparable";
/// Of any other line: its numbers say nothing about the published ones.
pub(crate) const NOT_COMPARABLE: &str = "not comparable";

/// One line of ours below the published ones.
struct Line<'a> {
    name: String,
    /// All of its cells may stand beside the published ones, or none.
    comparable: bool,
    cells: Vec<&'a Cell>,
}

/// Cells of one label, or of one model and use of tools (a recipe may address splits in different modes
/// of either kind), share a line; a split that is there already begins another.
fn lines(report: &Report) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for cell in &report.cells {
        let name = match &cell.label {
            Some(label) => format!("ours: {label} ({})", cell.profile),
            None => format!("ours: {}, {} ({})", cell.model, with_tools(cell), cell.profile),
        };
        let numbered = |number: usize| if number == 1 { name.clone() } else { format!("{name}, {number}") };
        let taken = |line: &Line<'_>| line.cells.iter().any(|other| other.task == cell.task);
        let comparable = cell.is_comparable();
        let same = |line: &Line<'_>, name: &String| line.name == *name && line.comparable == comparable;
        let free = |name: &String| !lines.iter().any(|line| same(line, name) && taken(line));
        let name = (1..).map(numbered).find(free).unwrap_or_default();
        match lines.iter_mut().find(|line| same(line, &name)) {
            Some(line) => line.cells.push(cell),
            None => lines.push(Line { name, comparable, cells: vec![cell] }),
        }
    }
    lines
}

fn with_tools(cell: &Cell) -> &'static str {
    if cell.offers_tool { "with tools" } else { "no tools" }
}

fn breakdowns(report: &Report) -> Result<Table, ArrowError> {
    let mut rows = Vec::new();
    for (index, cell) in report.cells.iter().enumerate() {
        for breakdown in &cell.summary.breakdowns {
            for group in &breakdown.groups {
                let key = (index as u32, breakdown.tag.clone(), group.label.clone());
                let interval = report.details.breakdowns.get(&key).and_then(|found| found.interval);
                rows.push((cell, breakdown, group, interval));
            }
        }
    }
    let bound =
        |pick: fn((f64, f64)) -> f64| rows.iter().map(|row| row.3.map(|pair| 100.0 * pick(pair))).collect();
    Table::new(
        "breakdowns",
        "Breakdowns",
        vec![
            text("split", "split", rows.iter().map(|row| words(&row.0.title)).collect()),
            text("run", "run", rows.iter().map(|row| words(&row.0.run)).collect()),
            text("profile", "profile", rows.iter().map(|row| words(row.0.profile.as_str())).collect()),
            text("breakdown", "breakdown", rows.iter().map(|row| words(&row.1.title)).collect()),
            text("group", "group", rows.iter().map(|row| words(&row.2.label)).collect()),
            count("n", "N", rows.iter().map(|row| Some(row.2.n as u64)).collect()),
            real(
                "score_percent",
                "score",
                Kind::Percent,
                rows.iter().map(|row| Some(100.0 * row.2.value)).collect(),
            ),
            real("low_percent", "low", Kind::Percent, bound(|pair| pair.0)),
            real("high_percent", "high", Kind::Percent, bound(|pair| pair.1)),
        ],
    )
}

fn losses(report: &Report) -> Result<Table, ArrowError> {
    let whole = |value: fn(&Cell) -> usize| each(report, |cell| Some(value(cell) as u64));
    let classes = each(report, |cell| {
        let classes = cell.summary.errors.iter().map(|(class, count)| format!("{class} {count}"));
        words(classes.collect::<Vec<_>>().join(", "))
    });
    Table::new(
        "losses",
        "Errors and incomplete samples",
        vec![
            text("split", "split", each(report, |cell| words(&cell.title))),
            text("run", "run", each(report, |cell| words(&cell.run))),
            text("profile", "profile", each(report, |cell| words(cell.profile.as_str()))),
            count(
                "missing",
                "missing",
                whole(|cell| cell.summary.n_expected.saturating_sub(cell.summary.n_recorded)),
            ),
            count("failed", "failed", whole(|cell| cell.summary.n_errors)),
            count("aborted", "aborted", whole(|cell| cell.lost.aborted)),
            count("unparsed", "unparsed", whole(|cell| cell.summary.n_unparsed)),
            count("truncated", "truncated", whole(|cell| cell.summary.n_truncated)),
            count("frame_loss", "frame loss", whole(|cell| cell.summary.n_frame_loss)),
            count("dropped_calls", "dropped calls", whole(|cell| cell.summary.n_dropped_calls)),
            count("lost", "without a full answer", whole(|cell| cell.lost.rows)),
            count("lost_allowed", "allowed", whole(|cell| cell.lost.allowed())),
            text("errors", "error classes", classes),
        ],
    )
}

fn tools(report: &Report) -> Result<Table, ArrowError> {
    let whole = |value: fn(&Cell) -> usize| each(report, |cell| Some(value(cell) as u64));
    let widths = |index: usize| -> Option<f64> {
        let widths = &report.details.tools.get(&(index as u32))?.widths;
        let used = || widths.iter().filter(|(width, _)| **width > 0);
        let samples: u32 = used().map(|(_, samples)| samples).sum();
        let sum: u64 = used().map(|(width, samples)| u64::from(*width) * u64::from(*samples)).sum();
        (samples > 0).then(|| sum as f64 / f64::from(samples))
    };
    Table::new(
        "tools",
        "Tool use",
        vec![
            text("split", "split", each(report, |cell| words(&cell.title))),
            text("run", "run", each(report, |cell| words(&cell.run))),
            text("profile", "profile", each(report, |cell| words(cell.profile.as_str()))),
            text("mode", "mode", each(report, |cell| words(&cell.mode))),
            real(
                "calls_per_sample",
                "calls per sample",
                Kind::Number,
                each(report, |cell| Some(cell.summary.tools.calls_per_sample)),
            ),
            real(
                "samples_with_calls_percent",
                "samples with calls, %",
                Kind::Percent,
                each(report, |cell| Some(100.0 * cell.summary.tools.share_with_calls)),
            ),
            real(
                "parallel_width",
                "parallel calls per turn",
                Kind::Number,
                (0..report.cells.len()).map(widths).collect(),
            ),
            real(
                "window_seconds",
                "window, s",
                Kind::Number,
                each(report, |cell| cell.summary.tools.mean_window_seconds),
            ),
            count("failed_crops", "failed crops", whole(|cell| cell.summary.tools.crop_failures)),
            count("malformed_calls", "malformed", whole(|cell| cell.summary.tools.malformed)),
            count("forced_answers", "forced answers", whole(|cell| cell.summary.tools.forced)),
        ],
    )
}

fn cost(report: &Report) -> Result<Table, ArrowError> {
    let costs: Vec<_> = (0..report.cells.len())
        .map(|index| report.details.costs.get(&(index as u32)).copied().unwrap_or_default())
        .collect();
    let per_sample = |value: f64, samples: u32| (samples > 0).then(|| value / f64::from(samples));
    Table::new(
        "cost",
        "Cost",
        vec![
            text("split", "split", each(report, |cell| words(&cell.title))),
            text("run", "run", each(report, |cell| words(&cell.run))),
            text("profile", "profile", each(report, |cell| words(cell.profile.as_str()))),
            count(
                "prompt_tokens",
                "prompt tokens",
                costs.iter().map(|cost| Some(cost.prompt_tokens)).collect(),
            ),
            count(
                "completion_tokens",
                "completion tokens",
                costs.iter().map(|cost| Some(cost.completion_tokens)).collect(),
            ),
            real(
                "sample_seconds",
                "latency in all, s",
                Kind::Number,
                costs.iter().map(|cost| Some(cost.seconds)).collect(),
            ),
            real(
                "seconds_per_sample",
                "latency a sample, s",
                Kind::Number,
                costs.iter().map(|cost| per_sample(cost.seconds, cost.samples)).collect(),
            ),
            real(
                "median_seconds",
                "median, s",
                Kind::Number,
                costs.iter().map(|cost| Some(cost.median_seconds)).collect(),
            ),
            real(
                "media_seconds",
                "of it decoding, s",
                Kind::Number,
                costs.iter().map(|cost| Some(cost.media_seconds)).collect(),
            ),
            real(
                "wall_seconds_per_sample",
                "wall time a sample, s",
                Kind::Number,
                each(report, |cell| {
                    let samples = cell.summary.n_recorded;
                    cell.wall_seconds.filter(|_| samples > 0).map(|seconds| seconds / samples as f64)
                }),
            ),
            real(
                "wall_hours",
                "hours from start to end",
                Kind::Number,
                each(report, |cell| cell.wall_seconds.map(|seconds| seconds / 3600.0)),
            ),
            real("gpu_hours", "GPU hours", Kind::Number, each(report, gpu_hours)),
        ],
    )
}

/// Hours of all GPUs together, waits between a stop and its resumption included.
fn gpu_hours(cell: &Cell) -> Option<f64> {
    let gpus = cell.gpus.filter(|gpus| *gpus > 0)?;
    Some(f64::from(gpus) * cell.wall_seconds? / 3600.0)
}

fn claims(report: &Report) -> Result<Table, ArrowError> {
    let claims = &report.claims;
    let bound = |pick: fn((f64, f64)) -> f64| claims.iter().map(|claim| claim.interval.map(pick)).collect();
    Table::new(
        "claims",
        "Claims",
        vec![
            text("claim", "claim", claims.iter().map(|claim| words(&claim.title)).collect()),
            real(
                "published",
                "published",
                Kind::Number,
                claims.iter().map(|claim| Some(claim.published)).collect(),
            ),
            text("unit", "unit", claims.iter().map(|claim| words(claim.unit.as_str())).collect()),
            real("margin", "margin", Kind::Number, claims.iter().map(|claim| Some(claim.margin)).collect()),
            real("measured", "measured", Kind::Number, claims.iter().map(|claim| claim.measured).collect()),
            real("low", "low", Kind::Number, bound(|pair| pair.0)),
            real("high", "high", Kind::Number, bound(|pair| pair.1)),
            real("p_holm", "p (Holm)", Kind::Probability, claims.iter().map(|claim| claim.p_holm).collect()),
            text("verdict", "verdict", claims.iter().map(|claim| words(claim.verdict.to_string())).collect()),
            text("source", "source", claims.iter().map(|claim| words(&claim.source)).collect()),
            text("confidence", "confidence", claims.iter().map(|claim| words(&claim.confidence)).collect()),
        ],
    )
}
