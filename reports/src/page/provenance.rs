//! Provenance of numbers: runs and checks.

use minijinja::{Value, context};
use paravt_files::quote;

use super::visible::visible;
use crate::Report;
use crate::gate::Entry;
use crate::runs::Run;

/// Deviations from the published code, each with its stages.
pub(super) fn deviations(report: &Report) -> Vec<(String, String)> {
    let texts = report.deviations.iter().map(|one| (visible(&one.text), visible(&one.stages.join(", "))));
    texts.collect()
}

/// Provenance of each run, and the command that repeats it.
pub(super) fn provenance(runs: &[&Run]) -> Vec<Value> {
    runs.iter()
        .map(|run| {
            let manifest = &run.manifest;
            let plan = serde_json::to_string(&manifest.plan).expect("a plain struct serialises");
            let mut facts = vec![
                ("binary".to_owned(), manifest.binary.clone()),
                ("model".to_owned(), format!("{} by {}", manifest.backend.model, manifest.backend.name)),
                ("profile and mode".to_owned(), format!("{}, {}", manifest.plan.profile(), manifest.plan.mode)),
                ("plan".to_owned(), plan),
                ("protocol".to_owned(), format!("{} {}", manifest.protocol, manifest.protocol_hash)),
                (
                    "protocol source".to_owned(),
                    format!("{} {}", manifest.protocol_source.repository, manifest.protocol_source.commit),
                ),
                ("seed".to_owned(), manifest.plan.seed.map_or("none".to_owned(), |seed| seed.to_string())),
                (
                    "machine".to_owned(),
                    format!(
                        "{}, {} cores, FFmpeg {}",
                        manifest.host.platform, manifest.host.cores, manifest.host.ffmpeg
                    ),
                ),
            ];
            facts.extend(manifest.data.iter().map(|(name, hash)| (format!("data {name}"), hash.clone())));
            facts.extend(
                manifest.data_revision.iter().map(|revision| ("data revision".to_owned(), revision.clone())),
            );
            facts.extend(manifest.backend.details.iter().map(|(name, value)| (name.clone(), value.clone())));
            let facts: Vec<(String, String)> =
                facts.iter().map(|(name, value)| (visible(name), visible(value))).collect();
            // The command of the first start repeats the run; `--resume` would look for an unfinished one.
            let words = manifest.command.iter().filter(|word| *word != "--resume");
            let command: Vec<String> = words.map(quote).collect();
            let masked = manifest.command.iter().any(|word| word.contains('…'));
            context! {
                title => visible(&format!("{} · {} · {}", manifest.task.title, manifest.plan.profile(), manifest.display_name())),
                facts,
                masked,
                command => visible(&command.join(" ")),
            }
        })
        .collect()
}

/// The checks of a history, newest first.
pub(super) fn history(entries: &[Entry]) -> Vec<Value> {
    let score = |entry: &Entry| {
        let scores = entry
            .scores
            .iter()
            .map(|score| format!("{} {:.1} ({:+.1})", score.task, score.score, score.difference));
        scores.collect::<Vec<_>>().join(", ")
    };
    entries
        .iter()
        .enumerate()
        .rev()
        .map(|(index, entry)| {
            context! {
                number => index + 1,
                commit => visible(&entry.commit),
                status => entry.status.as_str(),
                scores => visible(&score(entry)),
            }
        })
        .collect()
}
