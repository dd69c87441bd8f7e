//! Audits as a table, and for a terminal.

use paravt_reports::table::{ColumnFormat, Table};
use paravt_reports::terminal::{Detail, Text, Tone, counted};

use super::{Audit, Count, Doubt, Mean, Metric};

/// One row per log.
pub fn table(audits: &[Audit]) -> Table {
    let count = |audit: &Audit, doubt: Doubt| audit.doubts[doubt as usize].clone();
    Table::of("audit", "Audit of sample files", audits)
        .text("log", "file", |audit| audit.log.clone())
        .text("tool", "written by", |audit| audit.tool.as_str().to_owned())
        .text("model", "model", |audit| audit.model.clone())
        .text("task", "task", |audit| audit.task.clone())
        .count("rows", "rows", |audit| audit.rows)
        .count("expected", "expected", |audit| audit.expected)
        .count("missing", "missing", |audit| audit.missing)
        .count("twice", "twice", |audit| audit.duplicates)
        .count("without_gold", "without gold", |audit| audit.without_gold)
        .count("failures", "failed requests", move |audit| count(audit, Doubt::Failure).rows)
        .count("failures_scored", "of these scored", move |audit| count(audit, Doubt::Failure).scored)
        .count("failures_right", "of these right", move |audit| count(audit, Doubt::Failure).right)
        .count("empty", "empty answers", move |audit| count(audit, Doubt::Empty).rows)
        .count("random", "random fall-backs", move |audit| count(audit, Doubt::Random).rows)
        .count("random_right", "of these right", move |audit| count(audit, Doubt::Random).right)
        .count("prose", "letters from prose", move |audit| count(audit, Doubt::Prose).rows)
        .count("prose_right", "of these right", move |audit| count(audit, Doubt::Prose).right)
        .count("unparsed", "no answer found", move |audit| count(audit, Doubt::Unparsed).rows)
        .count("truncated", "truncated", |audit| audit.truncated)
        .text("metric", "metric", |audit| {
            audit.metrics.iter().map(|metric| metric.name.as_str()).collect::<Vec<_>>().join(", ")
        })
        .share("reported_percent", "score in the file", |audit| Some(audit.reported?.value))
        .count("reported_n", "N", |audit| Some(audit.reported?.n))
        .share("answered_percent", "without failures and draws", |audit| Some(audit.answered?.value))
        .share("strict_percent", "strict", |audit| Some(audit.strict?.value))
        .share_ends([("strict_low_percent", "low"), ("strict_high_percent", "high")], |audit| {
            audit.strict?.interval
        })
        .count("strict_n", "N", |audit| Some(audit.strict?.n))
        .share("strict_rows_percent", "strict, of the rows", |audit| Some(audit.strict?.over_rows.value))
        .count("videos", "videos", |audit| Some(audit.strict?.videos))
        .table()
}

/// A block for each log; with [`Detail::Full`] the first rows of each kind.
pub fn terminal(audits: &[Audit], detail: Detail) -> Text {
    let mut text = Text::default();
    for (number, audit) in audits.iter().enumerate() {
        if number > 0 {
            text.line("");
        }
        block(&mut text, audit, detail);
    }
    if detail == Detail::Brief && audits.iter().any(|audit| audit.doubts.iter().any(|count| count.rows > 0)) {
        text.line("");
        text.line("with -v: the first rows of each kind");
    }
    text
}

/// Columns of the names.
const NAMES: usize = 22;

fn block(text: &mut Text, audit: &Audit, detail: Detail) {
    let model = audit.model.as_ref().map(|model| format!(", {model}")).unwrap_or_default();
    text.line(format!("{}: {}{model}, task {}", audit.log, audit.tool.as_str(), audit.task));
    let line = |text: &mut Text, name: &str, value: String, tone: Tone| {
        text.toned(&format!("  {name:NAMES$}"), &value, tone, "");
    };
    let expected = audit.expected.map(|expected| format!(" of {expected}")).unwrap_or_default();
    line(text, "rows", format!("{}{expected}", audit.rows), Tone::Plain);
    for (name, count, tone) in [
        ("missing", audit.missing, Tone::Bad),
        ("twice, left out", audit.duplicates, Tone::Bad),
        ("of no sample, left out", audit.unknown, Tone::Bad),
        ("without a gold answer", audit.without_gold, Tone::Plain),
        ("of other filters", audit.other_filters, Tone::Plain),
        ("other objects", audit.other_objects, Tone::Plain),
        ("truncated", audit.truncated, Tone::Plain),
    ] {
        if count > 0 {
            line(text, name, count.to_string(), tone);
        }
    }
    for count in audit.doubts.iter().filter(|count| count.rows > 0 || count.doubt == Doubt::Failure) {
        line(
            text,
            count.doubt.title(),
            doubtful(count),
            if count.right > 0 { Tone::Bad } else { Tone::Plain },
        );
        if detail == Detail::Full {
            for example in &count.examples {
                let taken =
                    example.prediction.as_ref().map(|taken| format!(" -> {taken}")).unwrap_or_default();
                text.line(format!("    row {}, {}{taken}: {}", example.place, example.id, example.text));
            }
        }
    }
    let mean = |mean: &Mean| format!("{} (N {})", ColumnFormat::Percent.number(100.0 * mean.value), mean.n);
    if audit.metrics.is_empty() {
        line(text, "score in the file", "none".to_owned(), Tone::Plain);
    }
    for metric in &audit.metrics {
        let (score, tone) = reported(metric, mean);
        line(text, "score in the file", score, tone);
        if let Some(answered) = metric.answered.filter(|answered| Some(*answered) != metric.reported) {
            let answered = format!("{}, drawn and empty answers too", mean(&answered));
            line(text, "failures as wrong", answered, Tone::Bad);
        }
    }
    let Some(strict) = &audit.strict else {
        return line(
            text,
            "strict",
            "no gold answers: name them with --columns, or the split with --split".to_owned(),
            Tone::Plain,
        );
    };
    let clusters =
        if audit.names_videos { counted(strict.videos, "video") } else { "no videos named".to_owned() };
    let interval =
        strict.interval.map(|(low, high)| ColumnFormat::Percent.interval((100.0 * low, 100.0 * high)));
    let interval = interval.map(|interval| format!(", 95 % {interval}")).unwrap_or_default();
    let score = ColumnFormat::Percent.number(100.0 * strict.value);
    line(text, "strict", format!("{score} (N {}){interval}, {clusters}", strict.n), Tone::Plain);
    if strict.over_rows.n < strict.n {
        line(text, "strict, of these rows", mean(&strict.over_rows), Tone::Plain);
    }
    if strict.open > 0 {
        let open = format!("{}: exact match, without a judge", counted(strict.open, "open question"));
        line(text, "", open, Tone::Plain);
    }
}

/// The mean of a metric with its name and what is left out of it.
fn reported(metric: &Metric, mean: impl Fn(&Mean) -> String) -> (String, Tone) {
    let Metric { name, out_of_range, .. } = metric;
    if *out_of_range > 0 {
        let scores = counted(*out_of_range, "score");
        return (format!("none: {scores} of {name} not between 0 and 1"), Tone::Bad);
    }
    let score = metric.reported.as_ref().map_or_else(|| "none".to_owned(), mean);
    match metric.without_number {
        0 => (format!("{score}, {name}"), Tone::Plain),
        rows => (format!("{score}, {name}; {} without a number", counted(rows, "row")), Tone::Bad),
    }
}

fn doubtful(count: &Count) -> String {
    match (count.rows, count.scored, count.right) {
        (0, ..) => "0".to_owned(),
        (rows, 0, _) => rows.to_string(),
        // Wrong by both rules.
        (rows, _, 0) if count.doubt == Doubt::Unparsed => rows.to_string(),
        (rows, scored, right) => format!("{rows}, {scored} scored as answers, {right} right"),
    }
}
