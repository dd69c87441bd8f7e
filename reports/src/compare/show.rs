//! A comparison as tables, as Markdown and for a terminal.

use std::fmt::Write as _;

use arrow_schema::ArrowError;
use paravt_suite::printable::printable_line;

use super::{Ablation, Pair};
use crate::decide::Verdict;
use crate::export::{escape, markdown as table_markdown};
use crate::table::{Datum, Kind, Table, count, real, text};
use crate::terminal::{Detail, Text, Tone, counted, percent, points, points_interval};

/// The comparison and the answers that flipped.
///
/// # Errors
/// Columns of unequal length, which would be a mistake in this file.
pub fn tables(ablation: &Ablation) -> Result<Vec<Table>, ArrowError> {
    Ok(vec![comparison(ablation)?, flips(ablation)?])
}

fn comparison(ablation: &Ablation) -> Result<Table, ArrowError> {
    let words =
        |value: fn(&Pair) -> &str| ablation.splits.iter().map(|pair| Some(value(pair).to_owned())).collect();
    let whole =
        |value: fn(&Pair) -> usize| ablation.splits.iter().map(|pair| Some(value(pair) as u64)).collect();
    let each = |value: fn(&Pair) -> Option<f64>| ablation.splits.iter().map(value).collect();
    Table::new(
        "comparison",
        "B against A on the same samples",
        vec![
            text("split", "split", words(|pair| &pair.title)),
            text("a", "A", words(|pair| &pair.name_a)),
            text("b", "B", words(|pair| &pair.name_b)),
            text("metric", "metric", words(|pair| pair.metric)),
            count("pairs", "pairs", whole(|pair| pair.n)),
            count("unpaired", "unpaired", whole(|pair| pair.unpaired)),
            real("a_percent", "A, %", Kind::Percent, each(|pair| Some(100.0 * pair.a))),
            real("b_percent", "B, %", Kind::Percent, each(|pair| Some(100.0 * pair.b))),
            real("difference_points", "B - A", Kind::Points, each(|pair| Some(100.0 * pair.difference))),
            real("low_points", "low", Kind::Points, each(|pair| Some(100.0 * pair.interval?.0))),
            real("high_points", "high", Kind::Points, each(|pair| Some(100.0 * pair.interval?.1))),
            count("videos", "videos", whole(|pair| pair.effect.map_or(1, |effect| effect.clusters))),
            real("p", "p", Kind::Probability, each(|pair| pair.p)),
            real("p_holm", "p (Holm)", Kind::Probability, each(|pair| pair.p_holm)),
            real(
                "detectable_points",
                "detectable",
                Kind::Percent,
                each(|pair| Some(100.0 * pair.detectable?)),
            ),
            text(
                "verdict",
                "B against A",
                ablation.splits.iter().map(|pair| Some(pair.verdict.to_string())).collect(),
            ),
            count("gained", "wrong to right", whole(|pair| pair.flips.gained)),
            count("lost", "right to wrong", whole(|pair| pair.flips.lost)),
            real("extra_tokens", "extra tokens", Kind::Number, each(|pair| Some(pair.extra_tokens))),
            real("extra_seconds", "extra seconds", Kind::Number, each(|pair| Some(pair.extra_seconds))),
            real(
                "tokens_per_point",
                "tokens per point gained",
                Kind::Number,
                each(|pair| pair.cost_per_point().map(|cost| cost.0)),
            ),
            real(
                "seconds_per_point",
                "seconds a point",
                Kind::Number,
                each(|pair| pair.cost_per_point().map(|cost| cost.1)),
            ),
        ],
    )
}

fn flips(ablation: &Ablation) -> Result<Table, ArrowError> {
    let rows = || ablation.splits.iter().flat_map(|pair| pair.flipped.iter().map(move |flip| (pair, flip)));
    Table::new(
        "flips",
        "Answers that flipped",
        vec![
            text("split", "split", rows().map(|(pair, _)| Some(pair.task.clone())).collect()),
            text("sample", "sample", rows().map(|(_, flip)| Some(flip.uid.clone())).collect()),
            text("way", "from A to B", rows().map(|(_, flip)| Some(way(flip.gained).to_owned())).collect()),
        ],
    )
}

/// The comparison for a pull request; `link` says where a sample's transcript in B is, by split and name.
///
/// # Errors
/// As [`tables`].
pub fn markdown(
    ablation: &Ablation,
    link: impl Fn(&str, &str) -> Option<String>,
) -> Result<String, ArrowError> {
    let mut out = format!("# B against A\n\n{}\n", table_markdown(&comparison(ablation)?));
    for pair in &ablation.splits {
        let _ = writeln!(out, "{}: {}", escape(&pair.title), escape(&sentence(pair)));
        for difference in &pair.differs {
            let _ = writeln!(out, "- {}", escape(difference));
        }
        out.push('\n');
    }
    out.push_str("## Answers that flipped\n\n| split | sample | from A to B |\n|---|---|---|\n");
    for (pair, flip) in
        ablation.splits.iter().flat_map(|pair| pair.flipped.iter().map(move |flip| (pair, flip)))
    {
        let uid = escape(&flip.uid);
        let name = link(&pair.task, &flip.uid).map_or_else(|| uid.clone(), |link| format!("[{uid}]({link})"));
        let _ = writeln!(out, "| {} | {name} | {} |", escape(&pair.task), way(flip.gained));
    }
    out.push('\n');
    for (why, splits) in left_out(ablation) {
        let _ = writeln!(out, "{}: {why}", escape(&splits));
    }
    Ok(out)
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
            format!("B is {} by {:.1} points", pair.verdict.as_str(), points.abs())
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
            format!("{found}; a point more costs {tokens:+.0} tokens and {seconds:+.2} s of latency a sample")
        }
        None => found,
    }
}

fn unchanged(pair: &Pair) -> String {
    let bound = pair.effect.map(|effect| {
        let (low, high) = effect.interval();
        let points = 100.0 * high.max(-low);
        format!("; on other videos up to {points:.1} points are possible ({} videos)", effect.clusters)
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
pub fn terminal(ablation: &Ablation, detail: Detail) -> Text {
    let mut text = Text::default();
    names(&mut text, "A", ablation.splits.iter().map(|pair| pair.name_a.as_str()));
    names(&mut text, "B", ablation.splits.iter().map(|pair| pair.name_b.as_str()));
    let widest = ablation.splits.iter().map(|pair| printable_line(&pair.task).chars().count()).max();
    let split = widest.unwrap_or_default().max(SPLIT);
    text.line(format!(
        "{:<split$} {:>5} {:>5} {:>5} {:>6} {:>INTERVAL$} {:>7}  verdict",
        "split", "pairs", "A", "B", "B - A", "95 %", "Holm p"
    ));
    for pair in &ablation.splits {
        let interval = pair.interval.map_or_else(|| "-".to_owned(), points_interval);
        let numbers = format!(
            "{:<split$} {:>5} {:>5} {:>5} {:>6} {interval:>INTERVAL$} {:>7}  ",
            printable_line(&pair.task),
            pair.n,
            percent(pair.a),
            percent(pair.b),
            points(pair.difference),
            probability(pair.p_holm),
        );
        text.toned(&numbers, pair.verdict.as_str(), Tone::of(&pair.verdict), "");
    }
    for (why, splits) in left_out(ablation) {
        text.line(format!("{why}: {splits}"));
    }
    match detail {
        Detail::Brief => differences(&mut text, ablation),
        Detail::Full => ablation.splits.iter().for_each(|pair| section(&mut text, pair)),
    }
    text
}

/// Splits that were not compared, by reason.
fn left_out(ablation: &Ablation) -> impl Iterator<Item = (&'static str, String)> {
    let Ablation { unmatched, only_a, only_b, .. } = ablation;
    let groups = [("no sample in common", unmatched), ("only in A", only_a), ("only in B", only_b)];
    groups.into_iter().filter(|(_, splits)| !splits.is_empty()).map(|(why, splits)| (why, splits.join(", ")))
}

/// Differences of the plans of A and B, each once.
fn differences(text: &mut Text, ablation: &Ablation) {
    let mut all: Vec<&str> = Vec::new();
    for difference in ablation.splits.iter().flat_map(|pair| &pair.differs) {
        if !all.contains(&difference.as_str()) {
            all.push(difference);
        }
    }
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
/// Columns of the longest interval: it is cut to a width of 100 points.
const INTERVAL: usize = 14;

/// The runs of one side, each name once.
fn names<'a>(text: &mut Text, side: &str, names: impl Iterator<Item = &'a str>) {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
            text.line(format!("{side}  {name}"));
        }
    }
}

fn probability(p: Option<f64>) -> String {
    match p {
        None => "-".to_owned(),
        Some(p) => Kind::Probability.show(&Datum::Real(p)),
    }
}

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
        probability(pair.p)
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
pub fn json(ablation: &Ablation) -> String {
    serde_json::to_string_pretty(ablation).expect("plain structs with string keys serialise") + "\n"
}
