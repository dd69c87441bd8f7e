//! What the runs of a page measured: its heading and first lines.

use std::collections::BTreeSet;

use chrono::DateTime;
use minijinja::{Value, context};

use super::visible::visible;
use crate::Report;
use crate::runs::Run;
use crate::terminal::counted;

/// Models or splits that the heading names before it counts them.
const NAMED: usize = 2;

/// Heading, and facts with their names.
pub(super) fn measured(report: &Report, runs: &[&Run]) -> Value {
    let distinct = |value: &dyn Fn(&Run) -> String| -> Vec<String> {
        let mut seen = BTreeSet::new();
        runs.iter().map(|run| value(run)).filter(|value| seen.insert(value.clone())).collect()
    };
    let models = distinct(&|run| short(&run.manifest.backend.model).to_owned());
    let splits = distinct(&|run| run.manifest.task.title.clone());
    let recipes: BTreeSet<&str> =
        runs.iter().filter_map(|run| Some(run.training.about.as_ref()?.recipe.as_str())).collect();
    let recipes: Vec<String> = recipes.into_iter().map(str::to_owned).collect();
    // A recipe names its models by stages, which say little to whoever reads a heading.
    let what = if recipes.is_empty() { named(&models, "models") } else { named(&recipes, "recipes") };
    let title = format!("{what} on {}", named(&splits, "splits"));
    let mut facts: Vec<(&str, String)> = Vec::new();
    if !recipes.is_empty() {
        facts.push(("recipe", recipes.join(", ")));
    }
    facts.push(("model", distinct(&|run| model(run)).join("; ")));
    facts.push(("data", data(report, runs, &splits)));
    facts.push(("profile", distinct(&|run| run.manifest.plan.profile().to_string()).join(", ")));
    facts.push(("protocol", distinct(&|run| run.manifest.protocol.clone()).join(", ")));
    facts.extend(dates(runs).map(|dates| ("date", dates)));
    let facts: Vec<(&str, String)> = facts.iter().map(|(name, text)| (*name, visible(text))).collect();
    context! { title => visible(&title), facts }
}

/// The last folder of a path, which tells models apart.
fn short(model: &str) -> &str {
    model.trim_end_matches('/').rsplit('/').next().unwrap_or(model)
}

fn model(run: &Run) -> String {
    let backend = &run.manifest.backend;
    format!("{} ({})", backend.model, backend.name)
}

fn named(names: &[String], noun: &str) -> String {
    match names.len() {
        0..=NAMED => names.join(" and "),
        many => format!("{many} {noun}"),
    }
}

/// Splits, samples of all runs together, and what kind of data it is.
fn data(report: &Report, runs: &[&Run], splits: &[String]) -> String {
    let sum = |value: &dyn Fn(&crate::Cell) -> usize| report.cells.iter().map(value).sum::<usize>();
    let (recorded, rows) = (sum(&|cell| cell.summary.n_recorded), sum(&|cell| cell.split_rows));
    let samples = match recorded == rows {
        true => counted(recorded, "sample"),
        false => format!("{recorded} of {}", counted(rows, "sample")),
    };
    let samples = format!("{samples} in {}", counted(runs.len(), "run"));
    let generated = runs.iter().any(|run| is_generated(run));
    let kind = if generated { "; generated data, not comparable with published numbers" } else { "" };
    format!("{}; {samples}{kind}", named(splits, "splits"))
}

/// Data that was made by a program has a revision of zeros: no repository holds it.
fn is_generated(run: &Run) -> bool {
    let revision = run.manifest.data_revision.as_deref();
    revision.is_some_and(|revision| !revision.is_empty() && revision.bytes().all(|byte| byte == b'0'))
}

/// First and last day on which a run was started, in UTC.
fn dates(runs: &[&Run]) -> Option<String> {
    let day = |run: &&Run| {
        let seconds = run.manifest.started_at;
        // Runs of tests and of merged parts may have no start.
        let started = (seconds > 0.0).then(|| DateTime::from_timestamp(seconds as i64, 0)).flatten()?;
        Some(started.date_naive().to_string())
    };
    let days: BTreeSet<String> = runs.iter().filter_map(day).collect();
    let (first, last) = (days.first()?, days.last()?);
    Some(if first == last { first.clone() } else { format!("{first} to {last}") })
}
