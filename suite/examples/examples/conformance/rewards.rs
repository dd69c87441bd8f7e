//! `paravt/rl/rewards`.

use std::collections::BTreeMap;

use anyhow::Context as _;
use paravt_train::objective::strategy::Strategy;
use paravt_train::reward::{self, QuestionType, RewardConfig};
use paravt_upstream::paravt::toolcall::has_parseable_tool_call;
use paravt_upstream::pyvision::{judged_answer, rule_score};
use serde_json::{Map, Value, json};

use super::Case;
use super::extraction::number;

/// Functions of one or two texts; `None` for one that is not of this module.
pub(super) fn call(function: &str, input: &Value) -> Option<Value> {
    let one = || input.as_str().or_else(|| input.get(0)?.as_str());
    let two = || Some((input.get(0)?.as_str()?, input.get(1)?.as_str()?));
    Some(match function {
        "compute_mcq_acc" => two().map(|(a, b)| reward::mcq_accuracy(a, b))?.into(),
        "compute_f1" => two().map(|(a, b)| reward::f1(a, b))?.into(),
        "compute_temporal_iou" => {
            let (a, b) = two()?;
            iou(a, b)
        }
        "normalize_text" => reward::normalize(one()?).into(),
        "extract_answer" => reward::extract_answer(one()?).into(),
        "has_parseable_tool_call" => has_parseable_tool_call(one()?).into(),
        "has_substantive_think" => reward::has_substantive_think(one()?).into(),
        "think_before_tool" => reward::think_before_tool(one()?).into(),
        "pyvision_reward" => pyvision_reward(input)?,
        _ => return None,
    })
}

/// The sum of a rollout's token rewards. A source that goes by rule is graded by its whole response, any other by the
/// judge's number, where the verifier finds an answer to judge.
fn pyvision_reward(case: &Value) -> Option<Value> {
    let text = |name: &str| case.get(name)?.as_str();
    let (source, response, truth) = (text("source")?, text("response")?, text("truth")?);
    let accuracy = if source == "vsi_numerical" || source.ends_with("_rule_verifiable") {
        rule_score(response, truth)
    } else {
        judged_answer(response).map_or(Some(0.0), |_| case.get("judged")?.as_f64())?
    };
    let turns = usize::try_from(case.get("turns")?.as_u64()?).ok()?;
    Some(number(Strategy::readme().reward(accuracy, turns)))
}

fn iou(a: &str, b: &str) -> Value {
    match reward::temporal_iou(a, b) {
        Ok(value) => number(value),
        Err(error) => json!({ "raises": format!("ValueError: {error}") }),
    }
}

/// Everything in a reward case file.
pub(super) fn cases(content: &Value) -> anyhow::Result<Vec<Case>> {
    let configs = content["configs"].as_object().context("`configs`: expected an object")?;
    let mut cases = Vec::new();
    for case in content["cases"].as_array().context("`cases`: expected a list")? {
        completion_cases(case, configs, &mut cases)?;
    }
    for case in content.get("function_cases").and_then(Value::as_array).into_iter().flatten() {
        let function = case["fn"].as_str().context("a function case has no `fn`")?;
        let got = call(function, &case["input"]);
        cases.push(Case {
            function: function.to_owned(),
            input: case["input"].to_string(),
            expected: case["output"].clone(),
            got,
        });
    }
    for case in content.get("env_variants").and_then(Value::as_array).into_iter().flatten() {
        cases.push(env_case(case)?);
    }
    Ok(cases)
}

/// Every output that one completion has in the file.
fn completion_cases(case: &Value, configs: &Map<String, Value>, cases: &mut Vec<Case>) -> anyhow::Result<()> {
    let completion = case["completion"].as_str().context("a case has no completion")?;
    let answer = text_or_empty(case, "answer")?;
    let question = QuestionType::from_name(text_or_empty(case, "question_type")?);
    let solution = reward::extract_answer(completion);
    for (name, expected) in case.as_object().context("a case: expected an object")? {
        let one = |function: &str, got: Value| vec![(function.to_owned(), expected.clone(), Some(got))];
        let outputs: Vec<(String, Value, Option<Value>)> = match name.as_str() {
            "completion" | "answer" | "question_type" => Vec::new(),
            "f1" => one("compute_f1", reward::f1(&solution, answer).into()),
            "mcq" => one("compute_mcq_acc", reward::mcq_accuracy(&solution, answer).into()),
            "tiou" => one("compute_temporal_iou", iou(&solution, answer)),
            "tool_acc0" => one("compute_tool_reward", reward::tool_reward(completion, 0.0).into()),
            "tool_acc1" => one("compute_tool_reward", reward::tool_reward(completion, 1.0).into()),
            config if configs.contains_key(config) => {
                let config = RewardConfig::from_env(&env(&configs[config]));
                let format = number(reward::format_reward(completion, &config));
                let composed = compose(completion, answer, question, &config);
                [("compute_format_reward", "format", format), ("compose_reward", "compose", composed)]
                    .into_iter()
                    .filter_map(|(function, key, got)| {
                        Some((function.to_owned(), expected.get(key)?.clone(), Some(got)))
                    })
                    .collect()
            }
            function => vec![(function.to_owned(), expected.clone(), call(function, &completion.into()))],
        };
        cases.extend(outputs.into_iter().map(|(function, expected, got)| Case {
            function,
            input: json!([completion, answer]).to_string(),
            expected,
            got,
        }));
    }
    Ok(())
}

fn env_case(case: &Value) -> anyhow::Result<Case> {
    let function = case["fn"].as_str().context("a variant has no `fn`")?.to_owned();
    let completion = case["completion"].as_str().context("a variant has no completion")?;
    let config = RewardConfig::from_env(&env(&case["env"]));
    let got = match function.as_str() {
        "compute_format_reward" => Some(number(reward::format_reward(completion, &config))),
        "compose_reward" => {
            let question = QuestionType::from_name(text_or_empty(case, "question_type")?);
            let answer = text_or_empty(case, "answer")?;
            Some(compose(completion, answer, question, &config))
        }
        _ => None,
    };
    Ok(Case {
        function,
        input: json!([case["env"], completion]).to_string(),
        expected: case["output"].clone(),
        got,
    })
}

/// A string of a case; empty where the case has none, as the reference's optional arguments are.
fn text_or_empty<'a>(case: &'a Value, name: &str) -> anyhow::Result<&'a str> {
    match &case[name] {
        Value::Null => Ok(""),
        value => value.as_str().with_context(|| format!("`{name}`: expected a string, found `{value}`")),
    }
}

fn env(value: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    value.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), text(value))).collect()
}

fn compose(completion: &str, answer: &str, question: QuestionType, config: &RewardConfig) -> Value {
    match reward::compose(completion, answer, question, config) {
        Ok(found) => json!({
            "total": number(found.total),
            "acc_reward": number(found.accuracy),
            "format_reward": number(found.format),
            "tool_reward": number(found.tool),
        }),
        Err(error) => json!({ "raises": format!("ValueError: {error}") }),
    }
}
