//! What the files of all kinds of recipes share: the field `kind`, names that become folders, errors with their line.

use serde::{Deserialize, Serialize};

use crate::error::RecipeError;

/// The field `kind` of a recipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecipeKind {
    /// Generated, trained and evaluated in this process.
    #[default]
    Embedded,
    /// Evaluates a model behind a server.
    Served,
    /// Trains in other programs, then evaluates a model behind a server.
    Trained,
}

impl RecipeKind {
    /// Default of recipes whose other fields say that they are served.
    pub(crate) fn served() -> Self {
        Self::Served
    }
}

/// Reads a recipe's TOML.
///
/// # Errors
/// The text has another form; the message has the line, and for an unknown field the nearest known one.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(file: &str, text: &str) -> Result<T, RecipeError> {
    toml::from_str(text).map_err(|error: toml::de::Error| RecipeError::invalid(file, error.to_string()))
}

/// Checks a name of a recipe that becomes part of a folder's name; `field` is where it stands.
///
/// # Errors
/// An empty or long name, or one with other letters than a plain folder has.
pub(crate) fn check_folder_name(field: &str, name: &str) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!(
        "{field} `{name}` cannot be the name of a folder: use letters, digits, `-`, `_` and `.`, \
         the first of them not `.`"
    ))
}

/// Checks names as [`check_folder_name`] does, and that they differ.
pub(crate) fn check_folder_names<'a>(
    field: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        check_folder_name(field, name)?;
        if !seen.insert(name) {
            return Err(format!("{field} `{name}` is used twice; choose another name"));
        }
    }
    Ok(())
}
