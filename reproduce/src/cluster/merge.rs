//! The shards of a recipe's evaluations become the evaluations of the recipe.

use std::path::PathBuf;

use paravt_suite::evaluate::Shard;
use serde_json::Value;

use crate::cluster::jobs::served;
use crate::cluster::{Error, folder, io};
use crate::driver::Outcome;
use crate::graph::{Graph, Stage};
use crate::provenance::{self, Provenance};
use crate::slot::{self, State};
use crate::{GraphOptions, Recipe};

/// The graphs of the shards, as their jobs make them; `selection` is what the answers of a shard depend on.
///
/// # Errors
/// A recipe whose graph cannot be made.
pub fn shards(
    recipe: &Recipe,
    graph: &Graph,
    options: &GraphOptions,
    count: u16,
    selection: &dyn Fn(Shard) -> Value,
) -> Result<Vec<Graph>, Error> {
    let ((model, _), folder) = (served(graph), folder(graph)?);
    let graphs = (1..=count).map(|number| {
        let shard = format!("{number}/{count}").parse().expect("a number from 1 to that of the shards");
        let options = GraphOptions {
            out: folder.join(format!("shard-{number}")),
            selection: selection(shard),
            limit: None,
            model: model.clone().or(options.model.clone()),
            own_engine: true,
            ..options.clone()
        };
        Ok(recipe.graph(&options)?)
    });
    graphs.collect()
}

/// Merges the shards of the evaluations that `only` names, below the folder of the recipe, and marks these as done;
/// `merged` gets each. Returns the evaluations that are not done, for each shard.
///
/// # Errors
/// Shards that different models have answered, records that are missing, a folder that cannot be written.
pub fn merge<'a>(
    graph: &'a Graph,
    shards: &[Graph],
    only: &[String],
    any_code: bool,
    merged: &mut dyn FnMut(&Stage),
) -> Result<Vec<Vec<&'a str>>, Error> {
    let mut missing: Vec<Vec<&str>> = vec![Vec::new(); shards.len()];
    for (stage, evaluation, folder) in graph.evaluations() {
        let Some(slot) = stage.slot() else { continue };
        if !stage.is_among(only) || slot.state(any_code) == State::Done {
            continue;
        }
        let mut parts = Vec::new();
        for (shard, missing) in shards.iter().zip(&mut missing) {
            let same = shard.stages().iter().find(|other| other.name() == stage.name());
            match same.and_then(Stage::slot).filter(|part| part.state(any_code) == State::Done) {
                Some(part) => parts.push(part.folder().to_owned()),
                None => missing.push(stage.name()),
            }
        }
        if parts.len() < shards.len() {
            continue;
        }
        let facts = same_answers(&parts)?;
        if folder.is_dir() {
            // Of fewer samples, changed, or half merged: the shards hold all of it.
            slot.discard(&graph.out.join(slot::DISCARDED)).map_err(io("move", folder))?;
        }
        slot.begin().map_err(io("write", folder))?;
        provenance::write(folder, &facts).map_err(io("write", folder))?;
        for split in &evaluation.splits {
            let dirs: Vec<PathBuf> = parts.iter().map(|part| part.join(split)).collect();
            let out = folder.join(split);
            let run = paravt_suite::evaluate::merge(&dirs, &out)?;
            if !run.summary.complete {
                return Err(Error::Incomplete(out));
            }
        }
        slot.ended(Outcome::Complete.as_str().to_owned()).map_err(io("write", folder))?;
        slot.finish(&graph.deviations(stage)).map_err(io("write", folder))?;
        merged(stage);
    }
    Ok(missing)
}

/// What answered the shards, which has to be the same.
fn same_answers(parts: &[PathBuf]) -> Result<Provenance, Error> {
    let first = parts.first().map(|part| provenance::read(part)).unwrap_or_default();
    for part in parts {
        let differences = provenance::differences(&first, &provenance::read(part));
        if !differences.is_empty() {
            let (one, other) = (parts[0].clone(), part.clone());
            return Err(Error::OtherModel { one, other, differences: differences.join("; ") });
        }
    }
    Ok(first)
}
