//! The modules of each crate of the workspace depend on one another in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// Modules that only tests use.
const OF_TESTS: [&str; 3] = ["fixtures", "testing", "tests"];

/// For each child of a module, its siblings that its code names.
type Arrows = BTreeMap<String, BTreeSet<String>>;
/// A module by the names on its path; the root of a crate has none.
type Module = Vec<String>;

/// An inline module of tests, as rustfmt lays it out. A declaration (`mod tests;`) has no body and cuts nothing.
static INLINE_TESTS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?ms)^#\[cfg\(test\)\]\n(#\[[^\n]*\]\n)*mod \w+ \{.*?^\}").unwrap());
static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+").unwrap());
/// `crate::a::b`, `super::a::{b, c}`.
static PATH: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(crate|super(?:::super)*)((?:::\w+)*)(?:::\{([^;]*)\})?").unwrap());
/// `use a::b`, `use a::{b, c}`.
static USE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"use (?:self::)?(\w+)::([^;]*);").unwrap());

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The code of a file without comments and unit tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = INLINE_TESTS.replace_all(&text, "");
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

fn words(text: &str) -> impl Iterator<Item = String> {
    WORD.find_iter(text).map(|word| word.as_str().to_owned())
}

/// The code of a crate by module, without those of tests.
fn modules(source: &Path) -> BTreeMap<Module, String> {
    let mut modules = BTreeMap::new();
    for path in files(source).into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let file = path.strip_prefix(source).unwrap().with_extension("");
        let mut module: Module = file.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
        if ["lib", "main", "mod"].contains(&module.last().unwrap().as_str()) {
            module.pop();
        }
        if !module.iter().any(|name| OF_TESTS.contains(&name.as_str())) {
            *modules.entry(module).or_insert_with(String::new) += &code(&path);
        }
    }
    modules
}

/// What the code of a module names below the root of its crate: `crate::a::b` is a, b.
fn named(module: &[String], code: &str) -> Vec<Module> {
    let mut named = Vec::new();
    for found in PATH.captures_iter(code) {
        let ups = found[1].matches("super").count();
        let base = if ups == 0 { &[] } else { &module[..module.len().saturating_sub(ups)] };
        let path: Module = base.iter().cloned().chain(words(&found[2])).collect();
        match found.get(3) {
            Some(names) => {
                named.extend(words(names.as_str()).map(|name| [path.clone(), vec![name]].concat()))
            }
            None => named.push(path),
        }
    }
    named
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

/// For each module of a crate, the arrows between its children: by their path, or by a name that it takes from them.
fn arrows(source: &Path) -> BTreeMap<Module, Arrows> {
    let modules = modules(source);
    let mut origins = BTreeMap::<&Module, BTreeMap<String, String>>::new();
    for (module, code) in &modules {
        let used = USE.captures_iter(code);
        let names = used.flat_map(|found| {
            let child = found[1].to_owned();
            words(found.get(2).unwrap().as_str()).map(move |name| (name, child.clone()))
        });
        origins.insert(module, names.collect());
    }
    let mut arrows = BTreeMap::<Module, Arrows>::new();
    for (module, code) in &modules {
        for depth in 0..module.len() {
            arrows.entry(module[..depth].to_vec()).or_default().entry(module[depth].clone()).or_default();
        }
        for path in named(module, code) {
            let depth = module.iter().zip(&path).take_while(|(own, other)| own == other).count();
            let (Some(own), Some(name)) = (module.get(depth), path.get(depth)) else { continue };
            let parent = &module[..depth].to_vec();
            let is_child = |name: &String| {
                modules.contains_key(&[parent.as_slice(), std::slice::from_ref(name)].concat())
            };
            let origin = || origins.get(parent)?.get(name);
            if let Some(other) = Some(name).filter(|name| is_child(name)).or_else(origin)
                && other != own
                && is_child(other)
            {
                arrows
                    .entry(parent.clone())
                    .or_default()
                    .entry(own.clone())
                    .or_default()
                    .insert(other.clone());
            }
        }
    }
    arrows
}

/// What is left when modules that import nothing that is left are taken away until nothing changes: the circles, and
/// the modules above them.
fn circles(mut arrows: Arrows) -> Arrows {
    while let Some(lowest) = arrows.iter().find(|(_, others)| others.is_empty()).map(|(name, _)| name.clone())
    {
        arrows.remove(&lowest);
        arrows.values_mut().for_each(|others| {
            others.remove(&lowest);
        });
    }
    arrows
}

/// The circles of a crate, by the path of the module that they lie in.
fn circles_of(source: &Path) -> BTreeMap<String, Arrows> {
    let circles = arrows(source).into_iter().map(|(module, arrows)| (module.join("::"), circles(arrows)));
    circles.filter(|(_, circle)| !circle.is_empty()).collect()
}

#[test]
fn modules_import_one_another_without_circles() {
    let crates = crates();
    let (suite, reproduce) = (arrows(&crates["suite"]), arrows(&crates["reproduce"]));
    let root = Module::new();
    assert!(suite[&root].len() > 20 && suite[&root]["agent"].contains("backend"), "{suite:?}");
    assert!(
        suite[&root]["evaluate"].contains("runner") && suite[&root]["runner"].contains("agent"),
        "{suite:?}"
    );
    assert!(suite[&vec!["task".to_owned()]]["description"].contains("columns"), "{suite:?}");
    assert!(reproduce[&root]["recipe"].contains("graph") && reproduce[&root]["graph"].contains("slot"));
    assert!(crates.len() > 25, "{crates:?}");
    let found = crates.iter().map(|(name, source)| (name, circles_of(source)));
    let found: Vec<_> = found.filter(|(_, circles)| !circles.is_empty()).collect();
    assert!(found.is_empty(), "these modules import one another in a circle: {found:#?}");
}

/// Lines of a file with a public item that has no doc comment. What a field or a variant is for, its name may say.
fn undocumented(text: &str) -> Vec<&str> {
    static ITEM: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^ *pub (?:(?:async|const|unsafe) )*(?:fn|struct|enum|trait|type|static|const|union) \w")
            .unwrap()
    });
    let (mut is_documented, mut found) = (false, Vec::new());
    // An attribute may have several lines: whatever ends neither an item nor a block may stand before an item.
    for line in text.lines() {
        let word = line.trim_start();
        if word.starts_with("///") || word.starts_with("#[doc") {
            is_documented = true;
        } else if ITEM.is_match(line) && !is_documented {
            found.push(line);
        }
        if word.is_empty() || word.ends_with([';', '{', '}']) {
            is_documented = false;
        }
    }
    found
}

#[test]
fn every_public_item_has_a_doc_comment() {
    let (mut items, mut bare) = (0, Vec::new());
    for path in crates().values().flat_map(|source| files(source)) {
        let text = std::fs::read_to_string(&path).unwrap();
        items += text.lines().filter(|line| line.trim_start().starts_with("pub fn ")).count();
        let text = INLINE_TESTS.replace_all(&text, "");
        bare.extend(undocumented(&text).into_iter().map(|line| format!("{}: {line}", path.display())));
    }
    assert!(items > 500, "{items}");
    assert!(bare.is_empty(), "{bare:#?}");
    let planted = "/// A.\n#[derive(\n    Debug,\n)]\npub struct A {\n    pub b: u8,\n}\n\npub fn c() {}\n";
    assert_eq!(undocumented(planted), ["pub fn c() {}"]);
}

#[test]
fn planted_circles_are_found() {
    const HIGH: &str = "use crate::low::Low;\npub struct High;\n";
    const LOW: &str = "// use crate::High;\npub struct Low;\n";
    let within = "use super::one::One;\n";
    for (place, files) in [
        ("between modules", ("", [("low.rs", "use crate::high::High;\n"), ("high.rs", HIGH)])),
        ("by a name of the root", ("", [("low.rs", "use crate::{Other, High};\n"), ("high.rs", HIGH)])),
        (
            "behind a declaration of tests",
            ("", [("low.rs", "#[cfg(test)]\nmod tests;\n\nuse crate::High;\n"), ("high.rs", HIGH)]),
        ),
        (
            "of files of a module",
            ("high", [("high/one.rs", "use super::two::Two;\n"), ("high/two.rs", within)]),
        ),
        (
            "of files by a name of the module",
            ("high", [("high/one.rs", "use super::Two;\n"), ("high/two.rs", within)]),
        ),
        (
            "of files by their whole path",
            ("high", [("high/one.rs", "use crate::high::two::Two;\n"), ("high/two.rs", within)]),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("high")).unwrap();
        write("lib.rs", "mod high;\nmod low;\npub use high::{High, Other};\n");
        write("high.rs", &format!("mod one;\nmod two;\npub use two::Two;\n{HIGH}"));
        write("low.rs", &format!("{LOW}#[cfg(test)]\nmod tests {{\n    use crate::High;\n}}\n"));
        write("high/one.rs", "pub struct One;\n");
        write("high/two.rs", within);
        assert!(circles_of(folder.path()).is_empty(), "{place}");
        let (module, files) = files;
        for (name, text) in files {
            write(name, text);
        }
        let found = circles_of(folder.path());
        assert_eq!(found.keys().collect::<Vec<_>>(), [module], "{place}: {found:?}");
        assert_eq!(found[module].len(), 2, "{place}: {found:?}");
    }
}
