//! Names that tell runs apart.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use paravt_suite::printable::printable_line;
use paravt_suite::run::Manifest;

use crate::names::Varying;

/// Calls runs by what differs between those of a split (`Varying`): `with tool` and `without tool`,
/// `64 frames` and `32 frames`. A label that a run was given stays. Runs that would still be called the same get the part
/// of their folders' names that differs: `mine (a)` and `mine (b)` for `a/videomme` and `b/videomme`.
pub fn name_runs<'a>(runs: impl IntoIterator<Item = (PathBuf, &'a mut Manifest)>) {
    let mut runs: Vec<(PathBuf, &mut Manifest)> = runs.into_iter().collect();
    let varying = Varying::of(&runs.iter().map(|(_, manifest)| &**manifest).collect::<Vec<_>>());
    for (_, manifest) in runs.iter_mut().filter(|(_, manifest)| manifest.label.is_none()) {
        manifest.label = varying.name(manifest, &[]);
    }
    let mut same: BTreeMap<(String, String), Vec<(&Path, &mut Manifest)>> = BTreeMap::new();
    for (path, manifest) in &mut runs {
        let key = (manifest.task.name.clone(), manifest.display_name());
        same.entry(key).or_default().push((path, manifest));
    }
    for ((_, called), group) in same.into_iter().filter(|(_, group)| group.len() > 1) {
        let folders = differing(&group.iter().map(|(path, _)| *path).collect::<Vec<_>>());
        for ((_, manifest), folder) in group.into_iter().zip(folders) {
            manifest.label = Some(format!("{called} ({})", printable_line(&folder)));
        }
    }
}

/// The shortest part of each path that tells it from the others: what all end in is left out, and
/// before it no more folders are named than needed.
fn differing(paths: &[&Path]) -> Vec<String> {
    let components: Vec<Vec<String>> = paths.iter().map(|path| reversed(path)).collect();
    let longest = components.iter().map(Vec::len).max().unwrap_or_default();
    let distinct = |from: usize, to: usize| {
        let parts: BTreeSet<&[String]> =
            components.iter().map(|path| &path[from.min(path.len())..to.min(path.len())]).collect();
        parts.len()
    };
    let from = (0..longest).find(|&at| distinct(at, at + 1) > 1).unwrap_or_default();
    let all = distinct(0, longest);
    let to = (from + 1..=longest).find(|&to| distinct(from, to) == all).unwrap_or(longest);
    let part = |path: &Vec<String>| {
        let mut part = path[from.min(path.len())..to.min(path.len())].to_vec();
        part.reverse();
        part.join("/")
    };
    components.iter().map(part).collect()
}

/// Names of the folders, innermost first.
fn reversed(path: &Path) -> Vec<String> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut names: Vec<String> =
        path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_by_what_differs() {
        let names = |paths: &[&str]| differing(&paths.iter().map(Path::new).collect::<Vec<_>>());
        assert_eq!(names(&["/r/a/videomme", "/r/b/videomme"]), ["a", "b"]);
        assert_eq!(names(&["/r/one", "/r/two"]), ["one", "two"]);
        assert_eq!(names(&["/a/x/v", "/b/x/v", "/a/y/v"]), ["a/x", "b/x", "a/y"]);
        assert_eq!(names(&["/a/v", "/a/v"]), ["v", "v"]);
        assert_eq!(names(&["/a/v", "/a/v", "/b/v"]), ["a", "a", "b"]);
    }
}
