//! Recipes of every kind, by name or from a file, and the graph of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_train::sft::SftConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::graph::Graph;
use crate::nano::{self, NanoRecipe};
use crate::serve::Engine;
use crate::served::Served;
use crate::trained::{self, Trained};
use crate::{Error, RecipeError, table};

/// The field `kind` of a recipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Generated, trained and evaluated in this process.
    #[default]
    Embedded,
    /// Evaluates a model behind a server.
    Served,
    /// Trains in other programs, then evaluates a model behind a server.
    Trained,
}

impl Kind {
    /// Default of recipes whose other fields say that they are served.
    pub(crate) fn served() -> Self {
        Self::Served
    }
}

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

/// What a command makes of a recipe.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphOptions {
    /// Folder for everything that is made.
    pub out: PathBuf,
    /// Name of the folder of the stages' results below it.
    pub stages: String,
    /// Seeds of data and training.
    pub seeds: Vec<u64>,
    /// All comparisons of the recipe.
    pub full: bool,
    /// What the command adds that the answers of a served model depend on, such as a limit on the samples.
    pub selection: Value,
    /// What the flags say of a backend that the user runs; without it, a served recipe starts its servers.
    pub backend: Option<String>,
    /// Model in the place of the recipe's.
    pub model: Option<String>,
    /// GPUs as `CUDA_VISIBLE_DEVICES` names them.
    pub gpus: Vec<String>,
    /// Serve with the engine on PATH, and not with one of the release's environments.
    pub own_engine: bool,
    /// What serves the model, in the place of the recipe's engine and command.
    pub engine: Option<Engine>,
    /// Variables for the servers, beside the recipe's.
    pub environment: BTreeMap<String, String>,
    /// Reinforcement learning starts from the published SFT model.
    pub skip_sft: bool,
    /// Training goes on without the rows whose media are missing.
    pub allow_missing: bool,
    /// Archives are deleted once they are unpacked.
    pub delete_archives: bool,
}

impl GraphOptions {
    /// The recipe as it is, below a folder.
    pub fn new(out: impl Into<PathBuf>) -> Self {
        Self {
            out: out.into(),
            stages: "stages".to_owned(),
            seeds: vec![0],
            full: false,
            selection: Value::Null,
            backend: None,
            model: None,
            gpus: Vec::new(),
            own_engine: false,
            engine: None,
            environment: BTreeMap::new(),
            skip_sft: false,
            allow_missing: false,
            delete_archives: false,
        }
    }
}

/// Names of the recipes in this build.
const BUILT_IN: [&str; 4] = ["paravt-nano", "paravt-nano-base", "paravt-8b", "paravt-8b-train"];

impl Recipe {
    /// A built-in recipe by name, or a file.
    ///
    /// # Errors
    /// Neither exists, the file cannot be read, or it is wrong; the message names line and field.
    pub fn load(name: &str) -> Result<Self, RecipeError> {
        match name {
            "paravt-nano" => return Ok(Self::Embedded(Box::new(NanoRecipe::built_in()?))),
            "paravt-nano-base" => return Ok(Self::Base(nano::base::recipe()?)),
            "paravt-8b" => return Ok(Self::Served(Box::new(Served::built_in()?))),
            "paravt-8b-train" => return Ok(Self::Trained(Box::new(Trained::built_in()?))),
            _ => {}
        }
        if let Some(variant) = trained::variant(name)? {
            return Ok(Self::Trained(Box::new(variant)));
        }
        if let Some(row) = table::recipe(name)? {
            return Ok(Self::Served(Box::new(row)));
        }
        match std::fs::read_to_string(name) {
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
            Kind::Embedded => Ok(Self::Embedded(Box::new(NanoRecipe::parse(file, &stem, text)?))),
            Kind::Served => Ok(Self::Served(Box::new(Served::parse(file, text)?))),
            Kind::Trained => Ok(Self::Trained(Box::new(Trained::parse(file, text)?))),
        }
    }

    /// Names of all recipes of this build that can be run.
    pub fn names() -> Vec<String> {
        built_in().into_iter().filter(|name| Self::load(name).is_ok()).collect()
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
            Self::Trained(recipe) => recipe.graph(options),
        }
    }
}

/// Refuses a name, in the field that is shown, that becomes part of a folder's name and cannot.
pub(crate) fn plain(field: &str, name: &str) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!(
        "{field} `{name}` cannot be the name of a folder: use letters, digits, `-`, `_` and `.`, \
         the first of them not `.`"
    ))
}

/// Refuses names that are no folder's, and one that is there twice.
pub(crate) fn plain_and_once<'a>(field: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        plain(field, name)?;
        if !seen.insert(name) {
            return Err(format!("{field} `{name}` is there twice; choose another"));
        }
    }
    Ok(())
}

fn built_in() -> Vec<String> {
    BUILT_IN.into_iter().map(str::to_owned).chain(trained::names()).chain(table::names()).collect()
}

/// The kind of the recipe in a file. Files from before the field are known by the table that only one kind has.
fn kind(file: &str, text: &str) -> Result<Kind, RecipeError> {
    let table: toml::Table = crate::parse_toml(file, text)?;
    let invalid = |message: String| RecipeError::Invalid { file: file.to_owned(), message, nearest: None };
    match table.get("kind") {
        Some(kind) => kind.clone().try_into().map_err(|error| invalid(format!("kind: {error}"))),
        None if table.contains_key("world") => Ok(Kind::Embedded),
        None if table.contains_key("serve") => Ok(Kind::Served),
        None => Err(invalid("a recipe needs `kind = \"embedded\"` or `kind = \"served\"`".to_owned())),
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
    fn a_name_that_is_neither_built_in_nor_a_readable_file_is_an_error() {
        let error = Recipe::load("nothing").unwrap_err();
        assert!(error.to_string().contains("paravt-8b"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recipe.toml");
        std::fs::write(&path, b"\xff\xfe not text").unwrap();
        let error = Recipe::load(&path.to_string_lossy()).unwrap_err();
        assert!(matches!(error, RecipeError::Unreadable { .. }), "{error}");
    }
}
