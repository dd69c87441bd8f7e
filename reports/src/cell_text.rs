//! The words of a cell, for every medium.

use crate::table::ColumnFormat;
use crate::terminal::{counted, percent};
use crate::tone::Tone;
use crate::{Cell, Comparison, Verdict};

/// The verdict with its reasons; INCOMPLETE stands wherever the score does.
pub(crate) fn verdict(cell: &Cell) -> String {
    let mark = if cell.complete() { "" } else { "INCOMPLETE " };
    match &cell.paper {
        Some(paper) => {
            let caveats: String = caveats(cell).iter().map(|caveat| format!(" ({caveat})")).collect();
            format!("{mark}{}{caveats}", paper.verdict)
        }
        None => format!("{mark}no published number named").trim().to_owned(),
    }
}

/// The same, and nothing where no number is published to judge a complete run by.
pub(crate) fn judged(cell: &Cell) -> String {
    if cell.paper.is_none() && cell.complete() { String::new() } else { verdict(cell) }
}

/// Basis of a comparable run's verdict, where that is little.
pub(crate) fn caveats(cell: &Cell) -> Vec<String> {
    let Some(paper) = cell.paper.as_ref().filter(|_| cell.is_comparable()) else { return Vec::new() };
    let weak = paper.weak.then(|| format!("weak: {} videos", cell.videos));
    let unverified = (!paper.data_verified).then(|| "data not verified".to_owned());
    weak.into_iter().chain(unverified).chain(paper.unknown_model.clone()).collect()
}

/// Failed and incomplete samples beside a score.
pub(crate) fn losses(cell: &Cell) -> String {
    let parts = lost(cell);
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

pub(crate) fn lost(cell: &Cell) -> Vec<String> {
    let summary = &cell.summary;
    let counts = [
        (summary.n_unparsed, "unparsed"),
        (summary.n_errors, "failed"),
        (summary.n_frame_loss, "frame loss"),
        (summary.n_decode_timeouts, "decoding timed out"),
        (cell.lost.aborted, "aborted"),
        (summary.n_truncated, "truncated"),
        (summary.n_short_prompts, "prompts counted short"),
        (summary.tools.cut_summaries, "cut summaries"),
        (summary.n_dropped_calls, "dropped calls"),
    ];
    counts.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")).collect()
}

/// Our score minus the published one; empty before the first scored sample.
pub(crate) fn difference(cell: &Cell, paper: &Comparison) -> String {
    let shown = cell.score().filter(|_| !matches!(paper.verdict, Verdict::NotComparable(_)));
    shown.map_or_else(|| "-".to_owned(), |_| ColumnFormat::Points.number(paper.difference))
}

/// Caveats of a score and its N: a headline that is a mean over groups, missing samples, samples that are not scored or
/// were not selected.
pub(crate) fn counts(cell: &Cell) -> Vec<String> {
    let summary = &cell.summary;
    let mut counts = Vec::new();
    if summary.n_recorded != summary.n_expected {
        counts.push(format!("{} of {} recorded", summary.n_recorded, counted(summary.n_expected, "sample")));
    } else if summary.n_recorded != cell.n() {
        let counted = counted(summary.n_recorded, "recorded sample");
        counts.push(format!("{} of {counted} count in the score", cell.n()));
    }
    if summary.n_expected < cell.split_rows {
        counts.push(format!("selection: {} of {} samples", summary.n_expected, cell.split_rows));
    }
    counts.extend(cell.headline_note());
    counts
}

/// N with what it leaves open.
pub(crate) fn n(cell: &Cell) -> String {
    match counts(cell).join("; ") {
        counts if counts.is_empty() => cell.n().to_string(),
        counts => format!("{} ({counts})", cell.n()),
    }
}

/// Recall at thresholds and group scores by label, open-ended questions and flags of rows.
pub(crate) fn further_metrics(cell: &Cell) -> String {
    let summary = &cell.summary;
    let mut parts = counts(cell);
    parts.extend(summary.further().map(|metric| format!("{} {}", metric.name, percent(metric.value))));
    if let Some(open) = &summary.open_ended {
        parts.push(format!("{} {} over {}", open.label, percent(open.value), open.n));
    }
    parts.extend(summary.flags.iter().map(|(flag, count)| format!("flagged {flag}: {count}")));
    parts.join(", ")
}

/// The tone of [`verdict`].
pub(crate) fn tone(cell: &Cell) -> Tone {
    cell.paper.as_ref().map_or(Tone::Plain, |paper| Tone::of(&paper.verdict))
}

/// One word or two; the reasons follow in the run's own section.
pub(crate) fn short_verdict(cell: &Cell) -> (&'static str, Tone) {
    match &cell.paper {
        _ if !cell.complete() => ("INCOMPLETE", Tone::Open),
        None => ("no paper value", Tone::Plain),
        Some(paper) => (paper.verdict.as_str(), Tone::of(&paper.verdict)),
    }
}
