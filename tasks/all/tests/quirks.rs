//! `suite/docs/quirks.md` and the switches of the code describe each other.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use paravt_suite::profile::Profile;

/// What the page says of one switch.
#[derive(Default)]
struct Heading {
    kept_by: BTreeSet<String>,
    references: usize,
    tests: Vec<(String, String)>,
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Texts between backticks.
fn quoted(line: &str) -> Vec<String> {
    line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn page() -> BTreeMap<String, Heading> {
    let text = std::fs::read_to_string(root().join("suite/docs/quirks.md")).unwrap();
    let mut headings: BTreeMap<String, Heading> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if line.starts_with('#') {
            current = line.strip_prefix("## ").map(str::to_owned);
            if let Some(name) = &current {
                assert!(headings.insert(name.clone(), Heading::default()).is_none(), "{name} stands twice");
            }
        }
        let Some(heading) = current.as_ref().and_then(|name| headings.get_mut(name)) else { continue };
        if let Some(profiles) = line.strip_prefix("- Kept by: ") {
            heading.kept_by = profiles.split(", ").map(str::to_owned).collect();
        } else if let Some(sources) = line.strip_prefix("- Reference: ") {
            heading.references = quoted(sources).len();
        } else if let Some(test) = line.strip_prefix("- Test: ") {
            let [file, name] = &quoted(test)[..] else { panic!("{line}") };
            heading.tests.push((file.clone(), name.clone()));
        }
    }
    headings
}

/// Every switch and the profiles that keep it: those under which it is not as under `strict`.
fn switches() -> BTreeMap<String, BTreeSet<String>> {
    let values = |profile: Profile| serde_json::to_value(profile.switches()).unwrap();
    let strict = values(Profile::Strict);
    let names = strict.as_object().unwrap().keys();
    let kept = |name: &String| {
        let differs = |profile: &Profile| values(*profile)[name] != strict[name];
        Profile::ALL.iter().filter(|profile| differs(profile)).map(ToString::to_string).collect()
    };
    let mut switches: BTreeMap<String, BTreeSet<String>> =
        names.map(|name| (name.clone(), kept(name))).collect();
    for task in paravt_tasks::all() {
        for (name, profiles) in task.quirks().iter() {
            let name = format!("{}-{name}", task.layout().benchmark);
            switches.insert(name, profiles.iter().map(ToString::to_string).collect());
        }
    }
    switches
}

#[test]
fn every_switch_has_its_heading_and_every_heading_its_switch() {
    let (page, switches) = (page(), switches());
    let described: BTreeMap<&String, &BTreeSet<String>> =
        page.iter().map(|(name, heading)| (name, &heading.kept_by)).collect();
    assert_eq!(described, switches.iter().collect());
    assert!(switches.contains_key("mlvu-gold_by_text") && switches.contains_key("reader"));
}

#[test]
fn every_heading_has_a_source_and_tests_that_exist() {
    for (name, heading) in page() {
        assert!(heading.references > 0, "{name}: no reference");
        assert!(!heading.tests.is_empty(), "{name}: no test");
        for (file, test) in heading.tests {
            let text = std::fs::read_to_string(root().join(&file)).unwrap_or_else(|error| {
                panic!("{name}: {file}: {error}");
            });
            assert!(text.contains(&format!("fn {test}(")), "{name}: {file} has no test `{test}`");
        }
    }
}
