//! Scoring rules that benchmarks were published with.

use paravt_suite::sample::Gold;
use paravt_suite::scoring::group::{self, Structure};
use paravt_suite::task::Task as _;
use serde_json::{Value, json};

use super::super::extraction::number;
use super::{Function, index, real, text};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "videomme_v2_logic", outputs: &["score"], run: logic },
    Function { name: "videomme_v2_relevance", outputs: &["score"], run: relevance },
    Function { name: "videomme_v2_letters", outputs: &["letter"], run: |case| letter("videomme_v2", case) },
    Function { name: "lsdbench_letters", outputs: &["letter"], run: |case| letter("lsdbench", case) },
    Function { name: "vsi_mra", outputs: &["mra"], run: relative_accuracy },
    Function { name: "vsi_fuzzy", outputs: &["token"], run: first_word },
];

/// What the rules of a benchmark take out of a text.
fn prediction(task: &str, case: &Value) -> Option<String> {
    let gold = Gold::Choice { answer: String::new() };
    let score = paravt_tasks::named(task)?.scorer()?.score(&gold, "", text(case, "text")?);
    Some(score.prediction.unwrap_or_default())
}

fn letter(task: &str, case: &Value) -> Option<Value> {
    Some(json!({ "letter": prediction(task, case)? }))
}

fn first_word(case: &Value) -> Option<Value> {
    Some(json!({ "token": prediction("vsibench", case)? }))
}

/// The score of a number that is written out.
fn relative_accuracy(case: &Value) -> Option<Value> {
    let gold = Gold::Number { answer: real(&case["target"])? };
    let text = paravt_python::repr_float(real(&case["pred"])?);
    let score = paravt_tasks::named("vsibench")?.scorer()?.score(&gold, "", &text);
    Some(json!({ "mra": number(score.value) }))
}

fn logic(case: &Value) -> Option<Value> {
    let structure: Structure = text(case, "structure")?.parse().ok()?;
    let right: Vec<bool> = case["scores"]
        .as_array()?
        .iter()
        .map(|score| matches!(score, Value::Bool(true)) || score.as_u64() == Some(1))
        .collect();
    Some(json!({ "score": group::score(structure, right.try_into().ok()?) }))
}

fn relevance(case: &Value) -> Option<Value> {
    let correct = index(&case["correct"])?;
    let right = std::array::from_fn(|place| place < correct);
    Some(json!({ "score": group::score(Structure::Relevance, right) }))
}
