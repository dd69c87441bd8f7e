//! Which kind of recipe a name or a file is.

use std::path::Path;

use paravt_train::sft::SftConfig;
use serde::{Deserialize, Serialize};

use crate::nano::{self, NanoRecipe};
use crate::{Recipe, RecipeError};

/// The field `kind` of a recipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Generated, trained and evaluated in this process.
    #[default]
    Embedded,
    /// Evaluates a model behind a server.
    Served,
}

impl Kind {
    /// For recipes that are served whatever they say.
    pub(crate) fn served() -> Self {
        Self::Served
    }
}

/// A recipe of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum AnyRecipe {
    /// The embedded reproduction, or a file like it.
    Embedded(Box<NanoRecipe>),
    /// The base checkpoint that the embedded reproduction starts from.
    Base(SftConfig),
    /// Evaluates a served model.
    Served(Box<Recipe>),
}

/// Names of the recipes in this build.
const BUILT_IN: [&str; 3] = ["paravt-nano", "paravt-nano-base", "paravt-8b"];

impl AnyRecipe {
    /// A built-in recipe by name, or a file.
    ///
    /// # Errors
    /// Neither exists, the file cannot be read, or it is wrong; the message names line and field.
    pub fn load(name: &str) -> Result<Self, RecipeError> {
        match name {
            "paravt-nano" => return Ok(Self::Embedded(Box::new(NanoRecipe::built_in()?))),
            "paravt-nano-base" => return Ok(Self::Base(nano::base::recipe()?)),
            "paravt-8b" => {
                let text = include_str!("../recipes/paravt-8b.toml");
                return Ok(Self::Served(Box::new(Recipe::parse("recipe paravt-8b", text)?)));
            }
            _ => {}
        }
        match std::fs::read_to_string(name) {
            Ok(text) => Self::parse(name, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(RecipeError::Unknown { name: name.to_owned(), known: BUILT_IN.join(", ") })
            }
            Err(error) => Err(RecipeError::Unreadable { file: name.to_owned(), message: error.to_string() }),
        }
    }

    fn parse(file: &str, text: &str) -> Result<Self, RecipeError> {
        let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
        match kind(file, text)? {
            Kind::Embedded => Ok(Self::Embedded(Box::new(NanoRecipe::parse(file, &stem, text)?))),
            Kind::Served => Ok(Self::Served(Box::new(Recipe::parse(file, text)?))),
        }
    }

    /// Whether a model is trained in this process.
    pub fn trains(&self) -> bool {
        !matches!(self, Self::Served(_))
    }
}

/// What a file says of its kind. Files from before the field are known by the table that only one kind has.
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
            assert_eq!(AnyRecipe::parse("my-8b.toml", text).unwrap().trains(), trains);
            let without: String = text
                .lines()
                .filter(|line| !line.starts_with("kind"))
                .map(|line| format!("{line}\n"))
                .collect();
            assert_eq!(AnyRecipe::parse("my-8b.toml", &without).unwrap().trains(), trains);
        }
        let error = AnyRecipe::parse("my.toml", "title = \"x\"").unwrap_err().to_string();
        assert!(error.contains("my.toml") && error.contains("kind = \"embedded\""), "{error}");
        let other = served.replace("kind = \"served\"", "kind = \"severed\"");
        let error = AnyRecipe::parse("my.toml", &other).unwrap_err().to_string();
        assert!(error.contains("severed"), "{error}");
    }

    #[test]
    fn a_name_that_is_neither_built_in_nor_a_readable_file_is_an_error() {
        let error = AnyRecipe::load("nothing").unwrap_err();
        assert!(error.to_string().contains("paravt-8b"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recipe.toml");
        std::fs::write(&path, b"\xff\xfe not text").unwrap();
        let error = AnyRecipe::load(&path.to_string_lossy()).unwrap_err();
        assert!(matches!(error, RecipeError::Unreadable { .. }), "{error}");
    }
}
