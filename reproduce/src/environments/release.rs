//! The data of a release: where it is, which part of it is needed, what its environments hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::environments::{Error, Layout};

/// A release at one commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Repository: a URL, or a folder of this machine.
    pub url: String,
    /// The commit, 40 hexadecimal digits.
    pub commit: String,
    /// The commit's tree, 40 hexadecimal digits.
    pub tree: String,
    /// Folders of the repository that are checked out, with the files of the folders that these are in.
    pub folders: Vec<String>,
    /// Folders of the repository that are copied, with their names in `engines`.
    #[serde(default)]
    pub copies: BTreeMap<String, String>,
    /// Environments, each of one lock file.
    pub environments: Vec<Environment>,
}

/// Lock files that are ours, by their names: what a released environment is too old for.
const OWN_LOCKS: [(&str, &str); 1] = [("vllm-0.32.lock", include_str!("vllm-0.32.lock"))];

/// A Python environment. `{checkout}` and `{engines}` in its paths are the folders of the layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    pub name: String,
    /// Its lock file: in the repository, or the name of one of ours.
    pub lock: String,
    /// The lock file's SHA-256.
    pub sha256: String,
    /// Version of Python.
    pub python: String,
    /// About how large it is, in 10^9 bytes.
    pub gigabytes: u32,
    /// Packages to install, with the lock as constraint; empty for all of the lock.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Lines of the lock that are installed before the others, without which these cannot be built; `*` at the end
    /// stands for any text.
    #[serde(default)]
    pub first: Vec<String>,
    /// Arguments of `uv pip install` for the first alone.
    #[serde(default)]
    pub first_arguments: Vec<String>,
    /// What builds packages, installed with the first.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Packages and versions that replace those of the lock, after everything else.
    #[serde(default)]
    pub last: BTreeMap<String, String>,
    /// Arguments of `uv pip install`.
    #[serde(default)]
    pub arguments: Vec<String>,
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// CUDA version of its torch.
    pub cuda: Option<String>,
    /// The lowest cuDNN, as `torch.backends.cudnn.version()` counts.
    pub cudnn: Option<u32>,
    /// Modules that must be importable.
    #[serde(default)]
    pub imports: Vec<String>,
    /// Folders that Python searches for modules besides.
    #[serde(default)]
    pub search: Vec<String>,
    /// Modules and the folders they must be found in.
    #[serde(default)]
    pub located: BTreeMap<String, String>,
    /// What is otherwise than in the release.
    #[serde(default)]
    pub deviates: Vec<String>,
}

/// What a user can choose of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Repository in the place of the published one: a URL, or a folder of this machine, bare or not.
    pub url: Option<String>,
    /// The program uv [default: `uv` on PATH].
    pub uv: Option<String>,
    /// Python of the environments: a version or a program [default: that of the release].
    pub python: Option<String>,
    /// Further arguments of `uv pip install`, such as a folder of wheels.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// A TOML file in the place of the built-in release.
    pub release: Option<String>,
}

impl Environment {
    /// The text of its lock file, where it is ours.
    pub(crate) fn own_lock(&self) -> Option<&'static str> {
        OWN_LOCKS.iter().find(|(name, _)| *name == self.lock).map(|(_, text)| *text)
    }

    /// Its lock file in a layout.
    pub(crate) fn lock_file(&self, layout: &Layout) -> PathBuf {
        let folder = if self.own_lock().is_some() { layout.environments() } else { layout.checkout() };
        folder.join(&self.lock)
    }
}

impl Release {
    /// ParaVT at the commit that the suite reproduces.
    ///
    /// # Errors
    /// It is damaged: a bug.
    pub fn built_in() -> Result<Self, Error> {
        Self::parse("release.toml", include_str!("release.toml"))
    }

    /// The release that a user's choices make of the built-in one.
    ///
    /// # Errors
    /// The file of a release cannot be read or is wrong.
    pub fn of(setup: &Setup) -> Result<Self, Error> {
        let mut release = match &setup.release {
            None => Self::built_in()?,
            Some(file) => {
                let text = std::fs::read_to_string(file)
                    .map_err(crate::environments::io("read", Path::new(file)))?;
                Self::parse(file, &text)?
            }
        };
        if let Some(url) = &setup.url {
            release.url.clone_from(url);
        }
        for environment in &mut release.environments {
            environment.arguments.extend(setup.arguments.iter().cloned());
            if let Some(python) = &setup.python {
                environment.python.clone_from(python);
            }
        }
        Ok(release)
    }

    fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let wrong = |message: String| Error::Release { file: file.to_owned(), message };
        let release: Self = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let is_id = |text: &str| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        for (field, id) in [("commit", &release.commit), ("tree", &release.tree)] {
            if !is_id(id) {
                return Err(wrong(format!("{field}: `{id}` is not 40 hexadecimal digits")));
            }
        }
        let names = release.environments.iter().map(|environment| &environment.name);
        let paths = release.folders.iter().chain(release.copies.keys()).chain(release.copies.values());
        if let Some(path) = paths.chain(names).find(|path| !is_below(path)) {
            return Err(wrong(format!("`{path}` is not a relative path without `..`")));
        }
        Ok(release)
    }

    /// The environment of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn environment(&self, name: &str) -> Result<&Environment, Error> {
        let found = self.environments.iter().find(|environment| environment.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> =
                self.environments.iter().map(|environment| environment.name.as_str()).collect();
            let message = format!("no environment `{name}`; there are {}", known.join(", "));
            Error::Release { file: "release".to_owned(), message }
        })
    }

    /// Whether the sparse checkout has a file of the repository: those of the folders, and those beside the parts
    /// of their paths (git's cone mode).
    pub(crate) fn has(&self, path: &str) -> bool {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let is_in = |inner: &str, outer: &str| {
            outer.is_empty()
                || inner == outer
                || inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
        };
        self.folders.iter().any(|folder| is_in(parent, folder) || is_in(folder, parent))
    }
}

fn is_below(path: &str) -> bool {
    let path = Path::new(path);
    path.components().next().is_some()
        && path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_release_names_its_environments() {
        let release = Release::built_in().unwrap();
        let names: Vec<&str> =
            release.environments.iter().map(|environment| environment.name.as_str()).collect();
        assert_eq!(names, ["sft", "rl", "eval", "vllm"]);
        for own in
            release.environments.iter().filter_map(|environment| Some((environment, environment.own_lock()?)))
        {
            assert_eq!(paravt_files::sha256(own.1.as_bytes()), own.0.sha256, "{}", own.0.name);
        }
        let error = release.environment("evaluation").unwrap_err().to_string();
        assert!(error.contains("sft, rl, eval"), "{error}");
    }

    #[test]
    fn a_release_that_leaves_its_folder_is_refused() {
        let text = include_str!("release.toml");
        for (from, to, word) in [
            ("\"paravt/data\"", "\"../data\"", "`../data`"),
            ("= \"areal\"", "= \"/areal\"", "`/areal`"),
            ("name = \"sft\"", "name = \"..\"", "`..`"),
            ("tree = \"98", "tree = \"9", "40 hexadecimal digits"),
        ] {
            let error = Release::parse("my.toml", &text.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains("my.toml") && error.contains(word), "{error}");
        }
    }

    #[test]
    fn the_cone_has_the_files_beside_its_folders() {
        let release = Release::built_in().unwrap();
        let within =
            ["paravt/rl/areal/a.py", "paravt/__init__.py", "pyproject.toml", "requirements/sft.lock"];
        for path in within {
            assert!(release.has(path), "{path}");
        }
        for path in ["paravt/eval/driver.py", "paravt/database/x", "assets/logo.png"] {
            assert!(!release.has(path), "{path}");
        }
    }
}
