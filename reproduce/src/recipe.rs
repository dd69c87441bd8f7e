//! Recipes of every kind, by name or from a file, and the graph of each.

use std::path::Path;

use paravt_files::read_text;
use paravt_train::sft::SftConfig;
use paravt_upstream::paravt::import::RELEASE;

use crate::error::{Error, RecipeError};
use crate::graph::Graph;
use crate::nano::{self, NanoRecipe};
use crate::options::GraphOptions;
use crate::recipe_file::{self, RecipeKind};
use crate::served_recipe::{Run, Served};
use crate::table::{self, BY_AUTHORS};
use crate::trained_recipe::{self, Trained};

/// A recipe of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Recipe {
    /// The embedded reproduction, or a file like it.
    Embedded(Box<NanoRecipe>),
    /// The base checkpoint that the embedded reproduction starts from.
    Base(SftConfig),
    /// Evaluates a served model.
    Served(Box<Served>),
    /// Trains in other programs and evaluates the result.
    Trained(Box<Trained>),
}

/// Bytes that a recipe may have.
const MAX_FILE: u64 = 1 << 20;

/// Names of the recipes in this build.
const BUILT_IN: [&str; 6] = [
    "paravt-nano",
    "paravt-nano-base",
    "paravt-paradox",
    "paravt-8b",
    "paravt-8b-train",
    "pyvision-video-7b",
];

impl Recipe {
    /// A built-in recipe by name, or a file.
    ///
    /// # Errors
    /// Neither exists, the file cannot be read, or it is wrong; the message names line and field.
    pub fn load(name: &str) -> Result<Self, RecipeError> {
        match name {
            "paravt-nano" => return Ok(Self::Embedded(Box::new(NanoRecipe::built_in()?))),
            "paravt-nano-base" => return Ok(Self::Base(nano::base::recipe()?)),
            "paravt-paradox" => return Ok(Self::Embedded(Box::new(NanoRecipe::paradox()?))),
            "paravt-8b" => return Ok(Self::Served(Box::new(Served::built_in()?))),
            "pyvision-video-7b" => return Ok(Self::Served(Box::new(Served::pyvision()?))),
            "paravt-8b-train" => return Ok(Self::Trained(Box::new(Trained::built_in()?))),
            _ => {}
        }
        if let Some(variant) = trained_recipe::variant(name)? {
            return Ok(Self::Trained(Box::new(variant)));
        }
        if let Some(row) = table::recipe(name)? {
            return Ok(Self::Served(Box::new(row)));
        }
        match read_text(Path::new(name), MAX_FILE) {
            Ok(text) => Self::parse(name, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(RecipeError::Unknown { name: name.to_owned(), known: Self::names().join(", ") })
            }
            Err(error) => Err(RecipeError::Unreadable { file: name.to_owned(), message: error.to_string() }),
        }
    }

    fn parse(file: &str, text: &str) -> Result<Self, RecipeError> {
        let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
        match kind(file, text)? {
            RecipeKind::Embedded => Ok(Self::Embedded(Box::new(NanoRecipe::parse(file, &stem, text)?))),
            RecipeKind::Served => Ok(Self::Served(Box::new(Served::parse(file, text)?))),
            RecipeKind::Trained => Ok(Self::Trained(Box::new(Trained::parse(file, text)?))),
        }
    }

    /// Names of all recipes of this build that can be run.
    pub fn names() -> Vec<String> {
        built_in().into_iter().filter(|name| Self::load(name).is_ok()).collect()
    }

    /// Name of the protocol under which a published row is measured: that of the recipe which evaluates it, else the
    /// release's. `None` of a number that a model's authors report themselves and no recipe evaluates.
    pub fn protocol_of_row(row: &str) -> Option<String> {
        for name in built_in() {
            // Variants of the training, some of which cannot be run, are evaluated as the recipe that they vary.
            let Ok(Self::Served(recipe)) = Self::load(&name) else { continue };
            let measures =
                |run: &&Run| run.paper_row.as_ref().or(recipe.paper_row.as_ref()).is_some_and(|of| of == row);
            if let Some(run) = recipe.runs.iter().find(measures) {
                let named = run.protocol.as_ref().or(run.filled.as_ref());
                return Some(named.map_or(RELEASE.name, String::as_str).to_owned());
            }
        }
        (!row.ends_with(BY_AUTHORS)).then(|| RELEASE.name.to_owned())
    }

    /// Whether a model is trained in this process.
    pub fn trains(&self) -> bool {
        matches!(self, Self::Embedded(_) | Self::Base(_))
    }

    /// Its stages.
    ///
    /// # Errors
    /// A variant changes a field that does not exist, or a run names no model.
    pub fn graph(&self, options: &GraphOptions) -> Result<Graph, Error> {
        match self {
            Self::Embedded(recipe) => nano::graph(recipe, options),
            Self::Base(config) => Ok(nano::base::graph(config, options)),
            Self::Served(recipe) => recipe.graph(options),
            Self::Trained(recipe) => recipe.graph(evaluation(recipe)?, options),
        }
    }
}

/// The recipe that evaluates what another trains.
fn evaluation(of: &Trained) -> Result<Served, RecipeError> {
    match Recipe::load(&of.evaluate)? {
        Recipe::Served(served) => Ok(*served),
        _ => Err(RecipeError::invalid(
            format!("recipe {}", of.name),
            format!("evaluate: `{}` does not evaluate a served model", of.evaluate),
        )),
    }
}

fn built_in() -> Vec<String> {
    BUILT_IN.into_iter().map(str::to_owned).chain(trained_recipe::names()).chain(table::names()).collect()
}

/// The kind of the recipe in a file. Files from before the field are known by the table that only one kind has.
fn kind(file: &str, text: &str) -> Result<RecipeKind, RecipeError> {
    let table: toml::Table = recipe_file::parse(file, text)?;
    let invalid = |message: String| RecipeError::invalid(file, message);
    match table.get("kind") {
        Some(kind) => kind.clone().try_into().map_err(|error| invalid(format!("kind: {error}"))),
        None if table.contains_key("world") => Ok(RecipeKind::Embedded),
        None if table.contains_key("serve") => Ok(RecipeKind::Served),
        None => Err(invalid("the field `kind` is missing: add `kind = \"embedded\"`, `kind = \"served\"` or `kind = \"trained\"`".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_decides_and_not_the_name() {
        let nano = include_str!("../recipes/paravt-nano.toml");
        let served = include_str!("../recipes/paravt-8b.toml");
        assert!(nano.contains("kind = \"embedded\"") && served.contains("kind = \"served\""));
        for (text, trains) in [(nano, true), (served, false)] {
            assert_eq!(Recipe::parse("my-8b.toml", text).unwrap().trains(), trains);
            let without: String = text
                .lines()
                .filter(|line| !line.starts_with("kind"))
                .map(|line| format!("{line}\n"))
                .collect();
            assert_eq!(Recipe::parse("my-8b.toml", &without).unwrap().trains(), trains);
        }
        let error = Recipe::parse("my.toml", "title = \"x\"").unwrap_err().to_string();
        assert!(error.contains("my.toml") && error.contains("kind = \"embedded\""), "{error}");
        let other = served.replace("kind = \"served\"", "kind = \"severed\"");
        let error = Recipe::parse("my.toml", &other).unwrap_err().to_string();
        assert!(error.contains("severed"), "{error}");
    }

    #[test]
    fn a_published_row_has_the_protocol_of_the_recipe_that_evaluates_it() {
        for (row, protocol) in [
            ("ParaVT-8B", Some("paravt")),
            ("Conan-7B", Some("paravt")),
            ("Conan-7B (by its authors)", Some("conan")),
            ("VideoZoomer-7B", Some("paravt+videozoomer")),
            ("PyVision-Video-7B (by its authors)", Some("pyvision-video")),
            ("A: + SFT cold-start", Some("paravt")),
            ("a closed model of the table", Some("paravt")),
            ("ReWatch-R1-7B (by its authors)", None),
        ] {
            assert_eq!(Recipe::protocol_of_row(row).as_deref(), protocol, "{row}");
        }
    }

    #[test]
    fn a_name_that_is_neither_built_in_nor_a_readable_file_is_an_error() {
        let error = Recipe::load("nothing").unwrap_err();
        assert!(error.to_string().contains("paravt-8b"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recipe.toml");
        std::fs::write(&path, b"\xff\xfe not text").unwrap();
        let error = Recipe::load(&path.to_string_lossy()).unwrap_err();
        assert!(matches!(error, RecipeError::Unreadable { .. }), "{error}");

        // Neither waits for a writer nor reads without end.
        let pipe = folder.path().join("pipe.toml");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let endless = folder.path().join("endless.toml");
        std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
        for path in [pipe, endless] {
            let error = Recipe::load(&path.to_string_lossy()).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
    }
}
