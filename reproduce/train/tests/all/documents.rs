//! `suite/docs/training.md` and the settings of the trainer describe each other.

use std::collections::BTreeMap;
use std::path::Path;

use paravt_train::objective::Knobs;
use paravt_train::optimizer::AdamWConfig;
use paravt_train::reward::RewardConfig;
use paravt_train::rl::RlConfig;
use paravt_train::rollout::RolloutConfig;
use paravt_train::sft::SftConfig;
use serde::Serialize;
use serde_json::{Value, json};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn page() -> String {
    std::fs::read_to_string(root().join("suite/docs/training.md")).unwrap()
}

/// Texts between backticks.
fn quoted(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// Settings of the tables and their defaults.
fn described(page: &str) -> BTreeMap<String, Value> {
    let mut settings = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let columns: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        assert_eq!(columns.len(), 3, "{line}");
        let (name, default) = (quoted(columns[0])[0], quoted(columns[1])[0]);
        let default = serde_json::from_str(default).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(settings.insert(name.to_owned(), default).is_none(), "{name} stands twice");
        assert!(columns[2].trim().len() > 3, "{line}: no source");
    }
    settings
}

fn settings() -> BTreeMap<String, Value> {
    let mut settings = BTreeMap::new();
    let mut add = |prefix: &str, values: Value, parts: &[&str]| {
        for (name, value) in values.as_object().unwrap() {
            if !parts.contains(&name.as_str()) {
                settings.insert(format!("{prefix}.{name}"), value.clone());
            }
        }
    };
    fn value(settings: impl Serialize) -> Value {
        serde_json::to_value(settings).unwrap()
    }
    add("sft", value(SftConfig::default()), &["optimizer"]);
    add("rl", value(RlConfig::default()), &["objective", "reward", "rollout", "optimizer"]);
    add("rl.rollout", value(RolloutConfig::default()), &[]);
    add("rl.reward", value(RewardConfig::paragrpo()), &[]);
    add("rl.objective", value(Knobs::paragrpo()), &[]);
    add("optimizer", value(AdamWConfig::default()), &[]);
    add("optimizer", json!({ "freeze": [] }), &[]);
    settings
}

#[test]
fn every_setting_is_described_with_its_default() {
    let (described, settings) = (described(&page()), settings());
    for (name, value) in &settings {
        assert_eq!(described.get(name), Some(value), "{name}");
    }
    for name in described.keys() {
        assert!(settings.contains_key(name), "there is no setting {name}");
    }
    assert!(settings.len() > 50);
}

#[test]
fn every_difference_has_a_source_a_setting_and_tests_that_exist() {
    let (page, settings) = (page(), settings());
    let start = page.find("\n## Differences\n").unwrap();
    let end = start + page[start + 4..].find("\n## ").unwrap() + 4;
    let differences: Vec<&str> = page[start..end].split("\n### ").skip(1).collect();
    assert!(differences.len() >= 7);
    for difference in differences {
        let name = difference.lines().next().unwrap();
        let line = |start: &str| {
            let found = difference.lines().find_map(|line| line.strip_prefix(start));
            found.unwrap_or_else(|| panic!("{name}: no line `{start}`"))
        };
        for reference in quoted(line("- Reference: ")) {
            let (file, lines) = reference.split_once(':').unwrap_or_else(|| panic!("{name}: {reference}"));
            assert!(
                file.contains('/') && lines.chars().all(|c| c.is_ascii_digit() || c == '-'),
                "{reference}"
            );
        }
        let here = quoted(line("- Here: "));
        let known = |word: &&str| settings.contains_key(*word) || LOGGED.contains(word);
        assert!(here.first().is_some_and(known), "{name}: {here:?} is not a setting");
        let [file, test] = quoted(line("- Test: "))[..] else { panic!("{name}: file and test") };
        let text =
            std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("fn {test}(")), "{name}: {file} has no test `{test}`");
    }
}

/// Figures of the log that a difference is about where no setting changes it, and a setting of the release's engine.
const LOGGED: [&str; 4] = ["kappa", "unrewarded", "whole_attention", "lost_groups"];
