//! Rows of the published tables as recipes: each is the recipe of ParaVT-8B with a few fields changed.

use paravt_suite::protocol::PromptMode;
use paravt_upstream::paravt::import;
use serde::Deserialize;

use crate::error::RecipeError;
use crate::recipe_file;
use crate::served_recipe::{Run, Served};

/// End of a row's name where its number is that of the model's authors.
pub(crate) const BY_AUTHORS: &str = " (by its authors)";
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
    /// Protocol of the release with the text of its authors in a placeholder.
    filled: Option<String>,
    /// How its authors run it, where that can be imported.
    authors: Option<Authors>,
    #[serde(default)]
    model: String,
    /// Flags that the server of the model gets beside those of the recipe.
    serve: Option<String>,
    mode: Option<PromptMode>,
    grounding: Option<PromptMode>,
    max_turns: Option<usize>,
    max_parallel: Option<usize>,
    /// Splits that the table has no number for.
    #[serde(default)]
    withheld: Vec<String>,
}

/// A protocol of a model's authors, and the splits that they evaluate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Authors {
    protocol: String,
    splits: Vec<String>,
}

impl Authors {
    /// The evaluation beside that of the table.
    fn run(self, row: &str) -> Run {
        let paper_row = Some(format!("{row}{BY_AUTHORS}"));
        Run {
            protocol: Some(self.protocol),
            splits: self.splits,
            paper_row,
            ..Run::named("as-by-its-authors")
        }
    }
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
/// The file of a table, or the recipe that its rows change, cannot be read.
pub(crate) fn recipe(name: &str) -> Result<Option<Served>, RecipeError> {
    let Some(row) = rows()?.into_iter().find(|row| row.name == name) else { return Ok(None) };
    let mut recipe = Served::built_in()?;
    let own = row.authors.map(|authors| authors.run(&row.paper_row));
    let number = if row.paper_row.contains(": ") { 2 } else { 1 };
    recipe.title = format!("{}: evaluation on the splits of Table {number}", row.paper_row);
    (recipe.name, recipe.model, recipe.paper_row) = (row.name, row.model, Some(row.paper_row));
    recipe.baseline_row = None;
    if let (Some(command), Some(flags)) = (&mut recipe.serve.command, &row.serve) {
        *command = format!("{command} {flags}");
    }
    recipe.defaults.mode = row.mode.clone().or(recipe.defaults.mode);
    recipe.defaults.max_turns = row.max_turns.or(recipe.defaults.max_turns);
    recipe.defaults.max_parallel = row.max_parallel.or(recipe.defaults.max_parallel);
    if !recipe.defaults.mode.as_ref().is_some_and(|mode| import::tool().modes.contains(mode)) {
        recipe.runs = vec![Run::named("no-tool")];
    }
    if own.is_some() || row.filled.is_some() {
        let table = Run { filled: row.filled, ..Run::named("as-in-the-table") };
        recipe.runs = std::iter::once(table).chain(own).collect();
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
    fn every_row_can_be_run() {
        for name in names() {
            let Ok(Recipe::Served(recipe)) = Recipe::load(&name) else { panic!("{name}") };
            let graph = recipe.graph(&GraphOptions::new("out")).unwrap();
            assert!(graph.evaluations().count() >= 4, "{name}");
        }
        // With ParaVT-8B itself thirteen rows of Table 1.
        assert_eq!(names().len(), 12 + 2);
    }

    /// A report compares the model of a run with that of its row.
    #[test]
    fn reports_know_the_models_of_all_rows() {
        let settings: toml::Table = toml::from_str(include_str!("../../reports/data/settings.toml")).unwrap();
        let models = settings["models"].as_array().unwrap();
        for Row { paper_row, model, .. } in rows().unwrap() {
            let of_row = |entry: &&toml::Value| {
                entry["rows"].as_array().unwrap().iter().any(|row| row.as_str() == Some(&paper_row))
            };
            let known = models.iter().find(of_row).and_then(|entry| entry.get("id")?.as_str());
            assert_eq!(known, Some(&*model), "{paper_row}");
        }
    }

    #[test]
    fn the_ablation_without_training_changes_dispatch_or_checkpoint() {
        let of = |name: &str| super::recipe(name).unwrap().unwrap();
        let (sequential, start) = (of("paravt-8b-sequential"), of("paravt-8b-sft"));
        assert_eq!((sequential.defaults.max_parallel(), sequential.model.as_str()), (1, "ParaVT/ParaVT-8B"));
        assert_eq!((start.defaults.max_parallel(), start.model.as_str()), (5, "mwxely/ParaVT-8B-SFT"));
        for recipe in [sequential, start] {
            let splits: Vec<&str> = recipe.splits.iter().map(|split| split.task.as_str()).collect();
            assert_eq!(splits, ["videomme", "videomme_wsub", "lvbench", "mlvu"], "the columns of Table 2");
        }
    }

    #[test]
    fn a_row_with_authors_is_run_under_both_protocols() {
        let stages = |name: &str| -> Vec<(String, Option<String>, Option<String>)> {
            let graph = recipe(name).unwrap().unwrap().graph(&GraphOptions::new("out")).unwrap();
            let of =
                |asked: &crate::driver::Evaluation| (asked.protocol.clone(), asked.config.paper_row.clone());
            graph
                .evaluations()
                .map(|(stage, asked, _)| (stage.name().to_owned(), of(asked).0, of(asked).1))
                .collect()
        };
        let conan = stages("conan-7b");
        assert_eq!(conan.len(), 7 + 4);
        let named = |name: &str| conan.iter().find(|(stage, ..)| stage == name).unwrap();
        assert_eq!(named("as-in-the-table-mlvu").2.as_deref(), Some("Conan-7B"));
        let (_, protocol, row) = named("as-by-its-authors-mlvu");
        assert_eq!((protocol.as_deref(), row.as_deref()), (Some("conan"), Some("Conan-7B (by its authors)")));
        for (name, own, splits) in
            [("videozoomer", "VideoZoomer-7B", 4), ("longvt", "LongVT-RFT-7B", 5), ("sage", "SAGE-7B", 0)]
        {
            let stages = stages(&own.to_lowercase());
            let (table, authors): (Vec<_>, Vec<_>) =
                stages.into_iter().partition(|(stage, ..)| stage.starts_with("as-in-the-table-"));
            assert_eq!((table.len(), authors.len()), (7, splits), "{name}");
            let filled = Some(format!("paravt+{name}"));
            assert!(
                table.iter().all(|(_, protocol, row)| *protocol == filled && row.as_deref() == Some(own))
            );
            assert!(authors.iter().all(|(_, protocol, _)| protocol.as_deref() == Some(name)));
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
                (asked.config.mode.clone(), asked.config.max_turns()),
                (Some(PromptMode::named("reasoning")), 1)
            );
            assert_eq!((asked.config.nframes(), asked.config.max_tokens), (64, Some(2048)));
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
