//! Recipes as files: where they are found, and how one that `extends` another is merged over it.

use std::path::Path;
use std::sync::OnceLock;

use paravt_files::read_text;
use toml::{Table, Value};

use super::Recipe;
use crate::error::RecipeError;

/// Bytes that a recipe may have.
const MAX_FILE: u64 = 1 << 20;

/// The files of this build; those with a list `recipes` hold several.
const BUILT_IN: [(&str, &str); 14] = [
    ("paravt-nano", include_str!("../../recipes/paravt-nano.toml")),
    ("paravt-nano-study", include_str!("../../recipes/paravt-nano-study.toml")),
    ("paravt-nano-base", include_str!("../../recipes/paravt-nano-base.toml")),
    ("paravt-paradox", include_str!("../../recipes/paravt-paradox.toml")),
    ("paravt-paradox-release", include_str!("../../recipes/paravt-paradox-release.toml")),
    ("pyvision-tool-reward", include_str!("../../recipes/pyvision-tool-reward.toml")),
    ("paravt-8b", include_str!("../../recipes/paravt-8b.toml")),
    ("paravt-8b-train", include_str!("../../recipes/paravt-8b-train.toml")),
    ("pyvision-video-7b", include_str!("../../recipes/pyvision-video-7b.toml")),
    ("pyvision-image-7b", include_str!("../../recipes/pyvision-image-7b.toml")),
    ("paravt-8b-variants", include_str!("../../recipes/paravt-8b-variants.toml")),
    ("table1", include_str!("../../recipes/table1.toml")),
    ("table2", include_str!("../../recipes/table2.toml")),
    ("authors", include_str!("../../recipes/authors.toml")),
];
/// What others extend and nobody runs.
const BASES: [(&str, &str); 2] = [
    ("served", include_str!("../../recipes/served.toml")),
    ("embedded", include_str!("../../recipes/embedded.toml")),
];

/// A recipe as it was written.
pub(super) struct Source {
    /// Where it is from, for messages.
    pub(super) file: String,
    /// Empty for one of this build.
    pub(super) text: String,
    pub(super) table: Table,
    /// Model of the published row, where something that extends it names another and no row.
    pub(super) row_model: Option<String>,
}

/// Reads TOML.
///
/// # Errors
/// The text has another form; the message has the line, and for an unknown field the nearest known one.
fn parse<T: serde::de::DeserializeOwned>(file: &str, text: &str) -> Result<T, RecipeError> {
    toml::from_str(text).map_err(|error| RecipeError::invalid(file, error.to_string()))
}

/// The recipes of the files of this build, by name. Each is parsed once: a table of many rows names most of them.
pub(super) fn built_in() -> Result<&'static [(String, Table)], RecipeError> {
    static ALL: OnceLock<Vec<(String, Table)>> = OnceLock::new();
    if let Some(all) = ALL.get() {
        return Ok(all);
    }
    let all = all_built_in()?;
    Ok(ALL.get_or_init(|| all))
}

fn all_built_in() -> Result<Vec<(String, Table)>, RecipeError> {
    let mut all = Vec::new();
    for (name, text) in BUILT_IN {
        let mut table: Table = parse(&format!("recipe {name}"), text)?;
        let Some(Value::Array(recipes)) = table.remove("recipes") else {
            all.push((name.to_owned(), table));
            continue;
        };
        let named = |recipe: Value| {
            let Value::Table(recipe) = recipe else { return None };
            Some((recipe.get("name")?.as_str()?.to_owned(), recipe))
        };
        all.extend(recipes.into_iter().filter_map(named));
    }
    Ok(all)
}

/// A built-in recipe by its name, or a file; one that another `extends` may be a base, too, and its path is relative to
/// `folder`.
pub(super) fn find(name: &str, folder: &Path, is_extended: bool) -> Result<Source, RecipeError> {
    let file = format!("recipe {name}");
    if let Some((_, table)) = built_in()?.iter().find(|(known, _)| known == name) {
        return Ok(Source { file, text: String::new(), table: table.clone(), row_model: None });
    }
    if let Some((_, text)) = BASES.into_iter().find(|(base, _)| is_extended && *base == name) {
        return Ok(Source { table: parse(&file, text)?, text: String::new(), file, row_model: None });
    }
    let path = folder.join(name);
    let file = path.display().to_string();
    match read_text(&path, MAX_FILE) {
        Ok(text) => Source::parse(&file, &text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let bases = BASES.iter().map(|(base, _)| (*base).to_owned()).filter(|_| is_extended);
            let known: Vec<String> = Recipe::names().into_iter().chain(bases).collect();
            Err(RecipeError::Unknown { name: name.to_owned(), known: known.join(", ") })
        }
        Err(error) => Err(RecipeError::Unreadable { file, message: error.to_string() }),
    }
}

impl Source {
    /// The recipe of a text; `file` is where it is from.
    pub(super) fn parse(file: &str, text: &str) -> Result<Self, RecipeError> {
        let mut table: Table = parse(file, text)?;
        if let Some(kind) = table.get("kind").and_then(Value::as_str) {
            let base = if kind == "trained" { "paravt-8b-train" } else { kind };
            let message = format!(
                "the field `kind` is gone: write `extends = \"{base}\"`, [evaluate] for [defaults], `run` and `split` of \
                 [matrix] for [[runs]] and [[splits]] or a stage for each run of the miniature, [preflight] and [fetch] with \
                 `enabled = true` for [needs] and `fetch`"
            );
            return Err(RecipeError::invalid(file, message));
        }
        // Read alone for messages with a line; what it leaves out comes from what it extends.
        parse::<Recipe>(file, text)?;
        let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
        table.entry("name").or_insert_with(|| stem.as_ref().into());
        Ok(Self { file: file.to_owned(), text: text.to_owned(), table, row_model: None })
    }

    /// The recipe over all that it extends.
    ///
    /// # Errors
    /// One of those cannot be read, or extends what extends it.
    pub(super) fn merged(self) -> Result<Self, RecipeError> {
        let place = |file: &str| std::fs::canonicalize(file).unwrap_or_else(|_| file.into());
        let (mut layers, mut names, mut places) = (vec![self.table], Vec::new(), Vec::new());
        let mut file = self.file.clone();
        while let Some(Value::String(parent)) = layers.last().and_then(|layer| layer.get("extends")).cloned()
        {
            let folder = Path::new(&file).parent().unwrap_or(Path::new("")).to_owned();
            let source = find(&parent, &folder, true)?;
            places.push(place(&file));
            names.push(std::mem::replace(&mut file, source.file));
            if places.contains(&place(&file)) {
                let message = format!("`extends` goes round in a circle: {} -> {file}", names.join(" -> "));
                return Err(RecipeError::invalid(self.file, message));
            }
            layers.push(source.table);
        }
        for layer in &layers {
            let stages = layer.get("stages").and_then(Value::as_array).into_iter().flatten();
            let mut named: Vec<&str> = stages.filter_map(|stage| stage.get("name")?.as_str()).collect();
            named.sort_unstable();
            if let Some([name, _]) = named.windows(2).find(|pair| pair[0] == pair[1]) {
                let message = format!("[[stages]] name `{name}` is used twice; choose another name");
                return Err(RecipeError::invalid(self.file, message));
            }
        }
        let mut table = layers.pop().unwrap_or_default();
        let mut row_model = None;
        for layer in layers.into_iter().rev() {
            let model = |table: &Table| table.get("model").and_then(Value::as_str).map(str::to_owned);
            let has_row = |table: &Table| {
                let evaluate = table.get("evaluate").and_then(Value::as_table);
                table.contains_key("paper_row")
                    || evaluate.is_some_and(|evaluate| evaluate.contains_key("paper_row"))
            };
            if has_row(&layer) {
                row_model = None;
            } else if model(&layer).is_some() && has_row(&table) {
                row_model = row_model.or_else(|| model(&table));
            }
            let names_model = layer.contains_key("model");
            merge(&mut table, layer);
            if names_model && let Some(stage) = serves_another(&table) {
                let message = format!(
                    "`model` is not read: stage `{stage}` serves a model that another stage makes; leave it out, or \
                     extend a recipe that only serves"
                );
                return Err(RecipeError::invalid(self.file, message));
            }
        }
        table.remove("extends");
        Ok(Self { file: self.file, text: self.text, table, row_model })
    }
}

/// The stage that serves a model of its own, not that of the recipe.
fn serves_another(recipe: &Table) -> Option<&str> {
    let serves = |stage: &&Table| stage.get("does").and_then(Value::as_str) == Some("serve");
    let stages = recipe.get("stages")?.as_array()?.iter().filter_map(Value::as_table);
    let stage = stages.filter(serves).find(|stage| stage.contains_key("model"))?;
    stage.get("name")?.as_str()
}

/// The field that a message of serde says is unknown.
pub(super) fn unknown_field(message: &str) -> Option<&str> {
    Some(message.split_once("unknown field `")?.1.split_once('`')?.0)
}

/// An error about an unknown field with its line, where one line of the text alone has a field of this name.
pub(super) fn with_line(error: RecipeError, text: &str) -> RecipeError {
    let RecipeError::Invalid { file, message, .. } = &error else { return error };
    let Some(field) = unknown_field(message) else { return error };
    let has_it = |line: &str| {
        let mut keys = line.split(['{', ',']).filter_map(|part| part.split_once('='));
        keys.any(|(key, _)| key.trim().rsplit('.').next() == Some(field))
    };
    let lines: Vec<usize> =
        text.lines().zip(1..).filter(|(line, _)| has_it(line)).map(|(_, line)| line).collect();
    match lines[..] {
        [line] => RecipeError::invalid(file, format!("line {line}: {message}")),
        _ => error,
    }
}

/// Fields that say which others a table has.
const KINDS: [&str; 2] = ["kind", "engine"];

/// Writes a table over another, field by field. Stages are merged by name; a table of another kind, and any other list,
/// replaces what was there.
pub(super) fn merge(into: &mut Table, from: Table) {
    for (name, value) in from {
        match (into.get_mut(&name), value) {
            (Some(Value::Table(into)), Value::Table(from))
                if KINDS
                    .iter()
                    .all(|field| from.get(*field).is_none_or(|kind| into.get(*field) == Some(kind))) =>
            {
                merge(into, from);
            }
            (Some(Value::Array(into)), Value::Array(from)) if name == "stages" => merge_stages(into, from),
            (_, value) => {
                into.insert(name, value);
            }
        }
    }
}

/// Removes fields that something else reads.
pub(super) fn without(table: &mut Table, fields: &[&str]) {
    for field in fields {
        table.remove(*field);
    }
}

/// A stage of a known name is changed where it stands; a new one comes after the one before it, the first one before the
/// report.
fn merge_stages(into: &mut Vec<Value>, from: Vec<Value>) {
    let is_report = |stage: &Value| stage.get("does").and_then(Value::as_str) == Some("report");
    let mut next = into.iter().position(is_report).unwrap_or(into.len());
    for stage in from {
        match (into.iter().position(|known| known.get("name") == stage.get("name")), stage) {
            (Some(place), Value::Table(stage)) => {
                if let Some(Value::Table(known)) = into.get_mut(place) {
                    merge(known, stage);
                }
                next = place + 1;
            }
            (_, stage) => {
                into.insert(next, stage);
                next += 1;
            }
        }
    }
}
