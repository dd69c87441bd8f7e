//! The modules of each crate of the workspace depend on one another in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::Regex;

/// Names of files without an arrow of their own: roots of crates, and what only tests use.
const NO_MODULES: [&str; 5] = ["lib", "main", "fixtures", "testing", "tests"];

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The code of a file without comments and unit tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The `src` folders of all crates of the workspace, by the folder of the crate.
fn crates() -> BTreeMap<String, PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest: toml::Table = std::fs::read_to_string(root.join("Cargo.toml")).unwrap().parse().unwrap();
    let mut found = BTreeMap::new();
    for member in manifest["workspace"]["members"].as_array().unwrap() {
        let member = member.as_str().unwrap();
        let folders = match member.strip_suffix("/*") {
            Some(parent) => {
                let entries = std::fs::read_dir(root.join(parent)).unwrap();
                let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
                names.map(|name| format!("{parent}/{name}")).collect()
            }
            None => vec![member.to_owned()],
        };
        for folder in folders {
            let source = root.join(&folder).join("src");
            if source.is_dir() {
                found.insert(folder, source);
            }
        }
    }
    found
}

/// For each module of a crate, the others that its code names: by their path, or by a name that the crate's root
/// exports from them.
fn arrows(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let named = Regex::new(r"crate::(?:(\w+)|\{([^;]*)\})").unwrap();
    let exported = Regex::new(r"use (?:self::|crate::)?(\w+)::(?:(\w+)|\{([^}]*)\});").unwrap();
    let word = Regex::new(r"\w+").unwrap();
    let mut arrows = BTreeMap::<String, BTreeSet<String>>::new();
    let mut origin = BTreeMap::new();
    for path in files(source).into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let first = path.strip_prefix(source).unwrap().components().next().unwrap();
        let module = first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned();
        let code = code(&path);
        if module == "lib" || module == "main" {
            for found in exported.captures_iter(&code) {
                let names = found.get(2).or(found.get(3)).unwrap().as_str();
                let names = word.find_iter(names).map(|name| (name.as_str().to_owned(), found[1].to_owned()));
                origin.extend(names);
            }
        }
        if NO_MODULES.contains(&module.as_str()) || path.ends_with("tests.rs") {
            continue;
        }
        let others = arrows.entry(module).or_default();
        for found in named.captures_iter(&code) {
            let names = found.get(1).or(found.get(2)).unwrap().as_str();
            others.extend(word.find_iter(names).map(|name| name.as_str().to_owned()));
        }
    }
    let modules: BTreeSet<String> = arrows.keys().cloned().collect();
    for (module, others) in &mut arrows {
        let resolved = others
            .iter()
            .map(|name| if modules.contains(name) { name } else { origin.get(name).unwrap_or(name) });
        *others = resolved.filter(|other| *other != module && modules.contains(*other)).cloned().collect();
    }
    arrows
}

/// What is left when modules that import nothing that is left are taken away until nothing changes: the circles, and
/// the modules above them.
fn circles(mut arrows: BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    while let Some(lowest) = arrows.iter().find(|(_, others)| others.is_empty()).map(|(name, _)| name.clone())
    {
        arrows.remove(&lowest);
        arrows.values_mut().for_each(|others| {
            others.remove(&lowest);
        });
    }
    arrows
}

#[test]
fn modules_import_one_another_without_circles() {
    let crates = crates();
    let suite = arrows(&crates["suite"]);
    assert!(suite.len() > 20 && suite["agent"].contains("backend"), "{suite:?}");
    let reproduce = arrows(&crates["reproduce"]);
    assert!(reproduce["recipe"].contains("served") && reproduce["served"].contains("graph"), "{reproduce:?}");
    assert!(crates.len() > 25, "{crates:?}");
    let found: BTreeMap<&String, _> =
        crates.iter().map(|(name, source)| (name, circles(arrows(source)))).collect();
    let found: Vec<_> = found.into_iter().filter(|(_, circle)| !circle.is_empty()).collect();
    assert!(found.is_empty(), "these modules import one another in a circle: {found:#?}");
}

#[test]
fn a_circle_through_a_name_that_the_root_exports_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod high;\nmod low;\npub use high::{High, Other};\n");
    write("high.rs", "use crate::low::Low;\n");
    write("low.rs", "// use crate::High;\npub struct Low;\n");
    assert!(circles(arrows(folder.path())).is_empty());
    write("low.rs", "use crate::{High, Other};\npub struct Low;\n");
    assert_eq!(circles(arrows(folder.path())).len(), 2);
}
