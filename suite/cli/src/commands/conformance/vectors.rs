//! Outputs of functions of other protocols and benchmarks: one list of cases for each function.

use std::collections::BTreeMap;

use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::task::Task as _;
use serde_json::{Value, json};

use super::{Case, Checked};

/// What the names of the functions start with, by protocol or benchmark.
const FAMILIES: [&str; 7] =
    ["conan_", "eva_", "videomme_v2_", "lsdbench_", "vsi_", "framethinker_", "videozoomer_"];

fn is_function(name: &str) -> bool {
    FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Whether the file is of this kind.
pub(super) fn are_in(content: &Value) -> bool {
    content.as_object().is_some_and(|all| all.keys().any(|name| is_function(name)))
}

/// Every case of every function. A function of a known protocol that this build does not have is counted
/// apart; any other unknown one is a case without an output.
pub(super) fn checked(content: &Value) -> Checked {
    let mut checked = Checked { cases: Vec::new(), not_built: BTreeMap::new() };
    let lists = content.as_object().into_iter().flatten().filter(|(name, _)| *name != "about");
    for (function, list) in lists {
        for case in list.as_array().unwrap_or(&Vec::new()) {
            match run(function, case) {
                None if is_function(function) => *checked.not_built.entry(function.clone()).or_default() += 1,
                outputs => {
                    let (expected, got) = outputs.unwrap_or_default();
                    let (function, input) = (function.clone(), case.to_string());
                    checked.cases.push(Case { function, input, expected, got });
                }
            }
        }
    }
    checked
}

/// The upstream's output and ours; `None` for a function that there is not.
fn run(function: &str, case: &Value) -> Option<(Value, Option<Value>)> {
    let scorer = |task: &str| paravt_tasks::named(task)?.scorer();
    match function {
        "vsi_mra" => Some((case["mra"].clone(), relative_accuracy(scorer("vsibench")?, case))),
        "vsi_fuzzy" => Some((case["token"].clone(), first_word(scorer("vsibench")?, case))),
        _ => None,
    }
}

/// The score of a number that is written out.
fn relative_accuracy(scorer: &dyn Scorer, case: &Value) -> Option<Value> {
    let gold = Gold::Number { answer: case["target"].as_f64()? };
    Some(json!(scorer.score(&gold, "", &case["pred"].as_f64()?.to_string()).value))
}

/// The part of a text that is compared with a letter.
fn first_word(scorer: &dyn Scorer, case: &Value) -> Option<Value> {
    let gold = Gold::Choice { answer: String::new() };
    Some(json!(scorer.score(&gold, "", case["text"].as_str()?).prediction))
}
