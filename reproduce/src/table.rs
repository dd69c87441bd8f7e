//! Rows of the published tables as recipes: each is the recipe of ParaVT-8B with a few fields changed.

use paravt_suite::protocol::PromptMode;
use paravt_upstream::paravt::import;
use serde::Deserialize;

use crate::error::RecipeError;
use crate::recipe_file;
use crate::served_recipe::{Run, Served};

/// The split that has a prompt mode of its own.
const GROUNDING: &str = "charades";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    rows: Vec<Row>,
}

/// A row and what it changes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    paper_row: String,
    /// Why it cannot be run; the other fields are then absent.
    missing: Option<String>,
    #[serde(default)]
    model: String,
    mode: Option<PromptMode>,
    grounding: Option<PromptMode>,
    max_turns: Option<usize>,
    max_parallel: Option<usize>,
    /// Splits that the table has no number for.
    #[serde(default)]
    withheld: Vec<String>,
}

/// The tables by the names of their files.
const TABLES: [(&str, &str); 2] = [
    ("recipes table1", include_str!("../recipes/table1.toml")),
    ("recipes table2", include_str!("../recipes/table2.toml")),
];

fn rows() -> Result<Vec<Row>, RecipeError> {
    let mut rows = Vec::new();
    for (file, text) in TABLES {
        let table: Table = recipe_file::parse(file, text)?;
        rows.extend(table.rows);
    }
    Ok(rows)
}

pub(crate) fn names() -> Vec<String> {
    rows().map(|rows| rows.into_iter().map(|row| row.name).collect()).unwrap_or_default()
}

/// The recipe of a row; `None` where there is no such row.
///
/// # Errors
/// A row that cannot be run from the release: what is missing.
pub(crate) fn recipe(name: &str) -> Result<Option<Served>, RecipeError> {
    let Some(row) = rows()?.into_iter().find(|row| row.name == name) else { return Ok(None) };
    if let Some(missing) = row.missing {
        return Err(RecipeError::Missing { name: row.name, missing });
    }
    let mut recipe = Served::built_in()?;
    let table = if row.paper_row.contains(": ") { 2 } else { 1 };
    recipe.title = format!("{}: evaluation on the splits of Table {table}", row.paper_row);
    (recipe.name, recipe.model, recipe.paper_row) = (row.name, row.model, Some(row.paper_row));
    recipe.baseline_row = None;
    recipe.defaults.mode = row.mode.clone().or(recipe.defaults.mode);
    recipe.defaults.max_turns = row.max_turns.unwrap_or(recipe.defaults.max_turns);
    recipe.defaults.max_parallel = row.max_parallel.unwrap_or(recipe.defaults.max_parallel);
    if !recipe.defaults.mode.as_ref().is_some_and(|mode| import::tool().modes.contains(mode)) {
        recipe.runs = vec![Run { name: "no-tool".to_owned(), mode: None, published: true }];
    }
    if row.max_parallel.is_some() {
        // Without tools it asks what the other recipe of this model does.
        recipe.runs.retain(|run| run.mode.is_none());
    }
    recipe.splits.retain(|split| !row.withheld.contains(&split.task));
    for split in recipe.splits.iter_mut().filter(|split| split.task == GROUNDING) {
        split.mode = row.grounding.clone().or(split.mode.take());
    }
    Ok(Some(recipe))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GraphOptions, Recipe};

    #[test]
    fn every_row_can_be_run_or_names_what_is_missing() {
        let (mut run, mut missing) = (Vec::new(), Vec::new());
        for name in names() {
            match Recipe::load(&name) {
                Ok(Recipe::Served(recipe)) => {
                    let graph = recipe.graph(&GraphOptions::new("out")).unwrap();
                    assert!(graph.evaluations().count() >= 4, "{name}");
                    run.push(name);
                }
                Err(RecipeError::Missing { missing: what, .. }) => {
                    assert!(what.contains("placeholder"), "{name}: {what}");
                    missing.push(name);
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        // With ParaVT-8B itself ten rows can be run.
        assert_eq!((run.len(), missing.len()), (9 + 2, 3));
    }

    #[test]
    fn the_ablation_without_training_changes_dispatch_or_checkpoint() {
        let of = |name: &str| super::recipe(name).unwrap().unwrap();
        let (sequential, start) = (of("paravt-8b-sequential"), of("paravt-8b-sft"));
        assert_eq!((sequential.defaults.max_parallel, sequential.model.as_str()), (1, "ParaVT/ParaVT-8B"));
        assert_eq!((start.defaults.max_parallel, start.model.as_str()), (5, "mwxely/ParaVT-8B-SFT"));
        for recipe in [sequential, start] {
            let splits: Vec<&str> = recipe.splits.iter().map(|split| split.task.as_str()).collect();
            assert_eq!(splits, ["videomme", "videomme_wsub", "lvbench", "mlvu"], "the columns of Table 2");
        }
    }

    #[test]
    fn a_row_changes_its_fields_and_nothing_else() {
        let recipe = recipe("video-thinker-7b").unwrap().unwrap();
        let graph = recipe.graph(&GraphOptions::new("out")).unwrap();
        let splits: Vec<&str> = graph.evaluations().map(|(_, asked, _)| asked.splits[0].as_str()).collect();
        assert_eq!(splits, ["videomme", "videomme_wsub", "longvideobench", "mlvu", "mmvu", "charades"]);
        for (_, asked, _) in graph.evaluations() {
            assert_eq!(
                (asked.config.mode.clone(), asked.config.max_turns),
                (Some(PromptMode::named("reasoning")), 1)
            );
            assert_eq!((asked.config.nframes, asked.config.max_tokens), (64, Some(2048)));
            assert_eq!(asked.config.paper_row.as_deref(), Some("Video-Thinker-7B"));
        }
        let general =
            super::recipe("qwen3-vl-8b").unwrap().unwrap().graph(&GraphOptions::new("out")).unwrap();
        let modes: Vec<_> = general
            .evaluations()
            .filter(|(_, asked, _)| asked.splits == ["charades"])
            .map(|(_, asked, _)| asked.config.mode.clone())
            .collect();
        assert_eq!(modes, ["agentic_general", "direct"].map(|mode| Some(PromptMode::named(mode))));
    }
}
