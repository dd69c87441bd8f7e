//! What there is to fetch, as data: repositories, revisions, files, and where archives are unpacked.

use std::path::PathBuf;

use glob::{MatchOptions, Pattern};
use serde::Deserialize;

use crate::error::FetchError;
use crate::names;
use crate::repository::{HubFile, RepoType};

/// Weights in formats that nobody asked for where `.safetensors` are there.
const OTHER_WEIGHTS: [&str; 8] = ["*.bin", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.onnx", "*.gguf", "*.ot"];
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Which files of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Only {
    #[default]
    Everything,
    /// The rows.
    Annotations,
    Videos,
}

/// Where an archive's members go.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unpack {
    /// Files of the repository: a pattern in which `*` stops at slashes.
    pub files: String,
    /// Folder below the data root.
    pub into: PathBuf,
    /// Members go right into the folder, whatever folders the archive has.
    #[serde(default)]
    pub flatten: bool,
    /// These are parquet files; their members are the pictures of this column, each once.
    #[serde(default)]
    pub pictures: Option<String>,
}

/// One repository and what is wanted of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub name: String,
    /// Data set or model.
    pub kind: RepoType,
    /// Repository ids; the first is current, the others are asked where it does not exist.
    pub repos: Vec<String>,
    /// Branch, tag or commit.
    pub revision: String,
    /// Patterns of the files that hold rows, or everything of a model.
    #[serde(default)]
    pub annotations: Vec<String>,
    /// Patterns of media that are used as they are.
    #[serde(default)]
    pub loose: Vec<String>,
    #[serde(default)]
    pub archives: Vec<Unpack>,
}

/// The files of a source, by use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    pub files: Vec<HubFile>,
    /// Unpacked: the archive's name without the suffix of a part, its parts in order, where to.
    pub archives: Vec<(String, Vec<HubFile>, Unpack)>,
}

impl Source {
    /// A model with its configuration, tokenizer and weights: the files of the folder itself. Below it a trainer may keep
    /// checkpoints.
    ///
    /// # Errors
    /// The id is not `owner/name`.
    pub fn model(id: &str, revision: &str) -> Result<Self, FetchError> {
        if !names::is_repo(id) {
            return Err(FetchError::invalid(format!("model:{id}"), "expected model:OWNER/NAME"));
        }
        Ok(Self {
            name: format!("model:{id}"),
            kind: RepoType::Model,
            repos: vec![id.to_owned()],
            revision: revision.to_owned(),
            annotations: vec!["*".to_owned()],
            loose: Vec::new(),
            archives: Vec::new(),
        })
    }

    /// The wanted ones of a repository's files.
    ///
    /// # Errors
    /// A pattern is not one, or matches nothing; an archive's name says no format.
    pub fn select(
        &self,
        all: &[HubFile],
        only: Only,
        repo: &str,
        commit: &str,
    ) -> Result<Selection, FetchError> {
        let matching = |pattern: &String| -> Result<Vec<HubFile>, FetchError> {
            let compiled = compiled(pattern)?;
            let found: Vec<HubFile> =
                all.iter().filter(|file| compiled.matches_path_with(&file.path, OPTIONS)).cloned().collect();
            if found.is_empty() {
                let (repo, revision) = (repo.to_owned(), commit.to_owned());
                return Err(FetchError::NoMatch { repo, pattern: pattern.clone(), revision });
            }
            Ok(found)
        };
        let mut selection = Selection::default();
        if only != Only::Videos {
            for pattern in &self.annotations {
                selection.files.extend(matching(pattern)?);
            }
        }
        if only != Only::Annotations {
            for pattern in &self.loose {
                selection.files.extend(matching(pattern)?);
            }
            for unpack in &self.archives {
                for file in matching(&unpack.files)? {
                    selection.add_part(file, unpack)?;
                }
            }
        }
        if self.kind == RepoType::Model {
            without_other_weights(&mut selection.files)?;
        }
        selection.files.sort_by(|a, b| a.path.cmp(&b.path));
        selection.files.dedup();
        Ok(selection)
    }
}

impl Selection {
    fn add_part(&mut self, file: HubFile, unpack: &Unpack) -> Result<(), FetchError> {
        let whole = file.name();
        let name = match unpack.pictures {
            Some(_) => whole.as_str(),
            None => crate::archive::archive_of(&whole)
                .ok_or_else(|| FetchError::protocol(&whole, "expected a .zip, a .tar or a part of a .tar"))?,
        };
        match self.archives.iter_mut().find(|(known, _, to)| known == name && to.into == unpack.into) {
            Some((_, parts, _)) => {
                parts.push(file);
                parts.sort_by(|a, b| a.path.cmp(&b.path));
                parts.dedup();
            }
            None => self.archives.push((name.to_owned(), vec![file], unpack.clone())),
        }
        Ok(())
    }
}

fn compiled(pattern: &str) -> Result<Pattern, FetchError> {
    Pattern::new(pattern).map_err(|error| FetchError::invalid(pattern, format!("not a pattern: {error}")))
}

fn without_other_weights(files: &mut Vec<HubFile>) -> Result<(), FetchError> {
    if files.iter().any(|file| file.path.extension().is_some_and(|extension| extension == "safetensors")) {
        for pattern in OTHER_WEIGHTS {
            let compiled = compiled(pattern)?;
            files.retain(|file| !compiled.matches_path_with(&file.path, OPTIONS));
        }
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    source: Vec<Source>,
}

/// The training rows and media of the release.
pub fn training() -> Vec<Source> {
    let table: Table =
        toml::from_str(include_str!("training.toml")).expect("a test reads the built-in table");
    table.source
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::Oid;

    fn files(names: &[&str]) -> Vec<HubFile> {
        let file = |name: &&str| HubFile { path: name.into(), size: 1, oid: Oid::Git("a".repeat(40)) };
        names.iter().map(file).collect()
    }

    fn names(selection: &Selection) -> Vec<String> {
        selection.files.iter().map(HubFile::name).collect()
    }

    #[test]
    fn parts_of_an_archive_belong_together_in_order() {
        let unpack =
            |files: &str| Unpack { files: files.into(), into: "x".into(), flatten: true, pictures: None };
        let source = Source {
            archives: vec![unpack("videos.tar.part.*"), unpack("a_*.zip")],
            annotations: vec!["rows.parquet".into()],
            ..Source::model("a/b", "main").unwrap()
        };
        let all = files(&[
            "a_2.zip", "a_1.zip", "rows.parquet", "videos.tar.part.ab", "videos.tar.part.aa", "deep/a_3.zip",
        ]);
        let selection = source.select(&all, Only::Everything, "a/b", "c").unwrap();
        let archives: Vec<(&str, usize)> =
            selection.archives.iter().map(|(name, parts, _)| (name.as_str(), parts.len())).collect();
        assert_eq!(archives, [("videos.tar", 2), ("a_2.zip", 1), ("a_1.zip", 1)]);
        assert_eq!(selection.archives[0].1[0].name(), "videos.tar.part.aa");
        assert_eq!(names(&selection), ["rows.parquet"]);
        let only = |only| source.select(&all, only, "a/b", "c").unwrap();
        assert_eq!((only(Only::Annotations).archives.len(), only(Only::Videos).files.len()), (0, 0));
        let missing = source.select(&files(&["rows.parquet"]), Only::Everything, "a/b", "c");
        assert!(missing.unwrap_err().to_string().contains("videos.tar.part.*"));
    }

    #[test]
    fn folders_of_a_model_and_weights_beside_safetensors_are_left() {
        let source = Source::model("a/b", "main").unwrap();
        let all = files(&[
            "config.json", "model.safetensors", "pytorch_model.bin", "original/consolidated.pth",
            "sub/x.json",
        ]);
        let selection = source.select(&all, Only::Everything, "a/b", "c").unwrap();
        assert_eq!(names(&selection), ["config.json", "model.safetensors"]);
        let selection = source.select(&files(&["pytorch_model.bin"]), Only::Everything, "a/b", "c").unwrap();
        assert_eq!(names(&selection), ["pytorch_model.bin"]);
        assert!(Source::model("../x", "main").is_err() && Source::model("x", "main").is_err());
    }

    #[test]
    fn the_built_in_training_table_is_valid() {
        let sources = training();
        assert_eq!(sources.len(), 2);
        assert!(sources.iter().all(|source| source.repos.iter().all(|repo| names::is_repo(repo))));
    }
}
