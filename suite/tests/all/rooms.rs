//! The modules of the core depend on one another in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::Regex;

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The code of a file without comments and unit tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// For each module of the core, the others that its code names.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let named = Regex::new(r"crate::(?:(\w+)|\{([^;]*)\})").unwrap();
    let word = Regex::new(r"\w+").unwrap();
    let mut arrows = BTreeMap::<String, BTreeSet<String>>::new();
    for path in files(&source) {
        let first = path.strip_prefix(&source).unwrap().components().next().unwrap();
        let module = first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned();
        if ["lib", "fixtures"].contains(&module.as_str()) || path.ends_with("tests.rs") {
            continue;
        }
        let others = arrows.entry(module).or_default();
        for found in named.captures_iter(&code(&path)) {
            let names = found.get(1).or(found.get(2)).unwrap().as_str();
            others.extend(word.find_iter(names).map(|name| name.as_str().to_owned()));
        }
    }
    let modules: BTreeSet<String> = arrows.keys().cloned().collect();
    for (module, others) in &mut arrows {
        others.retain(|other| other != module && modules.contains(other));
    }
    arrows
}

#[test]
fn modules_import_one_another_without_circles() {
    let mut arrows = arrows();
    assert!(arrows.len() > 20 && arrows["agent"].contains("backend"), "{arrows:?}");
    // Modules that import nothing that is left are taken away until none is left, or only circles are.
    while let Some(lowest) = arrows.iter().find(|(_, others)| others.is_empty()).map(|(name, _)| name.clone())
    {
        arrows.remove(&lowest);
        arrows.values_mut().for_each(|others| {
            others.remove(&lowest);
        });
    }
    assert!(arrows.is_empty(), "these modules import one another in a circle: {arrows:?}");
}
