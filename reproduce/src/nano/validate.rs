//! Reads a recipe and checks it before any stage runs: a value that would fail later is refused by its field.

use std::collections::BTreeSet;

use paravt_reports::study::{ACCURACY, Prediction, Test};

use super::NanoRecipe;
use super::stages::{self, BASE};
use crate::error::RecipeError;
use crate::graph::{Graph, Stage};
use crate::options::GraphOptions;
use crate::recipe_file::{self, check_folder_name, check_folder_names};
use crate::stages::{Measurement, Reinforcement};

/// Names of the stages that every recipe has; a variant of such a name would be taken for one of them.
const STAGES: [&str; 5] = [BASE, "world", "data", "sft", "rl"];

impl NanoRecipe {
    /// The built-in one.
    ///
    /// # Errors
    /// It is damaged: a bug.
    pub fn built_in() -> Result<Self, RecipeError> {
        Self::parse("recipe paravt-nano", "paravt-nano", include_str!("../../recipes/paravt-nano.toml"))
    }

    /// The study of the tool prior paradox.
    ///
    /// # Errors
    /// It is damaged: a bug.
    pub fn paradox() -> Result<Self, RecipeError> {
        let text = include_str!("../../recipes/paravt-paradox.toml");
        Self::parse("recipe paravt-paradox", "paravt-paradox", text)
    }

    /// The recipe of a text; `file` and `name` are those of its file.
    ///
    /// # Errors
    /// An unknown field, or a value that no run can have; the message names it.
    pub fn parse(file: &str, name: &str, text: &str) -> Result<Self, RecipeError> {
        let mut recipe: Self = recipe_file::parse(file, text)?;
        if recipe.name.is_empty() {
            name.clone_into(&mut recipe.name);
        }
        check(&recipe).map_err(|message| RecipeError::invalid(file, message))?;
        Ok(recipe)
    }
}

/// The first thing that is wrong, if any.
///
/// # Errors
/// The field, what is wrong with it and how to fix it.
fn check(recipe: &NanoRecipe) -> Result<(), String> {
    sizes(recipe)?;
    let invalid = |table: &str, error: &paravt_train::Error| match error {
        paravt_train::Error::Setting { field, message } => format!("`{table}.{field}` {message}"),
        other => format!("[{table}] {other}"),
    };
    recipe.sft.validate().map_err(|error| invalid("sft", &error))?;
    recipe.rl.validate().map_err(|error| invalid("rl", &error))?;
    let mut names = BTreeSet::new();
    for prior in &recipe.priors {
        check_folder_name("[[priors]] name", &prior.name)?;
        if STAGES.contains(&prior.name.as_str()) || !names.insert(&prior.name) {
            return Err(format!("[[priors]] name `{}` is taken; choose another", prior.name));
        }
        prior.sft.validate().map_err(|error| format!("prior {}: {}", prior.name, invalid("sft", &error)))?;
    }
    for variant in &recipe.variants {
        check_folder_name("[[variants]] name", &variant.name)?;
        if STAGES.contains(&variant.name.as_str()) || !names.insert(&variant.name) {
            return Err(format!("[[variants]] name `{}` is taken; choose another", variant.name));
        }
        if let Some(prior) = &variant.prior
            && !recipe.priors.iter().any(|known| known.name == *prior)
        {
            return Err(format!("variant {}: prior `{prior}` is none of [[priors]]", variant.name));
        }
        let config = recipe.variant(variant).map_err(|error| error.to_string())?;
        config.validate().map_err(|error| format!("variant {}: {}", variant.name, invalid("rl", &error)))?;
    }
    check_folder_names("[[runs]] name", recipe.runs.iter().map(|run| run.name.as_str()))?;
    for comparison in &recipe.comparisons {
        let is_unknown = |name: &&String| !recipe.runs.iter().any(|run| run.name == **name);
        if let Some(name) = [&comparison.a, &comparison.b].into_iter().find(is_unknown) {
            let title = &comparison.title;
            return Err(format!("[[comparisons]] `{title}` names `{name}`, which is not the name of a run"));
        }
    }
    // Every run is of a model that is made, also where the variants are not.
    let graph = |full| {
        let options = GraphOptions { full, ..GraphOptions::new("out") };
        stages::graph(recipe, &options).map_err(|error| error.to_string())
    };
    graph(false)?;
    let full = graph(true)?;
    recipe.predictions.iter().try_for_each(|prediction| predicted(recipe, &full, prediction))
}

/// The names that a prediction is about exist.
fn predicted(recipe: &NanoRecipe, graph: &Graph, prediction: &Prediction) -> Result<(), String> {
    let title = &prediction.title;
    if prediction.tests.is_empty() {
        return Err(format!("[[predictions]] `{title}` has no tests"));
    }
    let has_curves =
        |stage: &&Stage| stage.kind::<Reinforcement>().is_some() || stage.kind::<Measurement>().is_some();
    let trained: Vec<&str> = graph.stages().iter().filter(has_curves).map(Stage::name).collect();
    for Test { figure, a, b, .. } in &prediction.tests {
        for name in a.iter().chain([b]) {
            let (is_known, what) = match figure.as_str() {
                ACCURACY => (recipe.runs.iter().any(|run| run.name == *name), "a run"),
                _ => (trained.contains(&name.as_str()), "`rl`, a variant or a measurement"),
            };
            if !is_known {
                return Err(format!("[[predictions]] `{title}`: {figure} of `{name}`, which is not {what}"));
            }
        }
    }
    Ok(())
}

fn sizes(recipe: &NanoRecipe) -> Result<(), String> {
    let (world, data, evaluate) = (&recipe.world, &recipe.data, &recipe.evaluate);
    let all = [
        ("world.videos", world.videos),
        ("world.questions", world.questions),
        ("data.videos", data.videos),
        ("data.rows", data.rows),
        ("data.prompts", data.prompts),
        ("evaluate.nframes", evaluate.nframes),
        ("evaluate.max_turns", evaluate.max_turns),
        ("evaluate.max_tokens", evaluate.max_tokens as usize),
        ("evaluate.splits", evaluate.splits.len()),
        ("runs", recipe.runs.len()),
    ];
    match all.iter().find(|(_, count)| *count == 0) {
        Some((field, _)) => Err(format!("`{field}` is 0 or empty; it must be at least 1")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl Fn(&mut NanoRecipe)) -> String {
        let mut recipe = NanoRecipe::built_in().unwrap();
        change(&mut recipe);
        check(&recipe).unwrap_err()
    }

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        for name in ["", ".", "..", "../../up", "/abs", "a/b", "a\\b", ".hidden", "a b", "a\nb", "ü"] {
            let message = refused(|recipe| recipe.runs[0].name = name.to_owned());
            assert!(message.contains("[[runs]] name") && message.contains("folder"), "{message}");
            let message = refused(|recipe| recipe.variants[0].name = name.to_owned());
            assert!(message.contains("[[variants]] name"), "{message}");
        }
        assert!(refused(|recipe| recipe.variants[0].name = "sft".to_owned()).contains("taken"));
        assert!(refused(|recipe| recipe.runs[0].name = recipe.runs[1].name.clone()).contains("twice"));
        assert!(refused(|recipe| recipe.runs[0].model = "gone".to_owned()).contains("`gone`"));
        // Trained with `--full` only, while the run is not.
        assert!(refused(|recipe| recipe.runs[0].model = "grpo".to_owned()).contains("`full = true`"));
        assert!(refused(|recipe| recipe.comparisons[0].a = "gone".to_owned()).contains("`gone`"));
        let kappa = r#"
            title = "calls"
            tests = [{ figure = "kappa", a = "measured", b = "rl", holds = { above = 0.5 }, fails = { below = 0 } }]"#;
        let predicted = |recipe: &mut NanoRecipe| recipe.predictions = vec![toml::from_str(kappa).unwrap()];
        assert!(refused(predicted).contains("kappa of `measured`, which is not `rl`, a variant"));
        let mut recipe = NanoRecipe::built_in().unwrap();
        predicted(&mut recipe);
        recipe.measured_prompts = Some(7);
        check(&recipe).unwrap();
    }

    #[test]
    fn the_study_of_the_paradox_is_a_recipe() {
        let recipe = NanoRecipe::paradox().unwrap();
        assert_eq!((recipe.priors.len(), recipe.predictions.len()), (2, 11), "as in its design");
    }

    #[test]
    fn fields_that_train_nothing_are_refused_by_name() {
        for (change, name) in [
            ((|recipe| recipe.sft.save_every = 0) as fn(&mut NanoRecipe), "`sft.save_every`"),
            (|recipe| recipe.sft.packs_per_step = 0, "`sft.packs_per_step`"),
            (|recipe| recipe.rl.prompts_per_step = 0, "`rl.prompts_per_step`"),
            (|recipe| recipe.rl.micro_batch_tokens = 0, "`rl.micro_batch_tokens`"),
            (|recipe| recipe.data.rows = 0, "`data.rows`"),
            (|recipe| recipe.world.videos = 0, "`world.videos`"),
            (|recipe| recipe.evaluate.max_tokens = 0, "`evaluate.max_tokens`"),
            (|recipe| recipe.runs.clear(), "`runs`"),
        ] {
            let message = refused(change);
            assert!(message.starts_with(name), "{message}");
        }
        let message = refused(|recipe| {
            let changed = toml::from_str("rollout = { group_size = 0 }");
            recipe.variants[0].rl = changed.unwrap();
        });
        assert!(message.contains("`rl.rollout.group_size` is 0"), "{message}");
    }
}
