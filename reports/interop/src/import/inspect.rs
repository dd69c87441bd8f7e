//! Inspect's logs: `.json`, or `.eval`, a zip archive of JSON members (deflated, or zstd by default).
//!
//! Fields: inspect_ai 499e6152 `src/inspect_ai/log/_log.py`.

use serde_json::{Value, json};

use super::budget::{Budget, check_rows};
use super::error::Problem;
use super::log::{Log, Row, Score, Tool};
use super::members::Members;
use super::values::{self, number, text};

/// Whether a JSON value is a log.
pub(super) fn is_log(value: &Value) -> bool {
    value.get("eval").is_some_and(|eval| eval.get("task").is_some()) && value.get("version").is_some()
}

/// The log in an archive, as its `.json` form has it.
pub(super) fn archive(bytes: Vec<u8>, budget: &mut Budget) -> Result<Value, Problem> {
    let mut members = Members::open(bytes)?;
    let has_header = !members.names("header.json", "").is_empty();
    let names = members.names("samples/", ".json");
    let mut value = |name: &str| {
        let bytes = members.read(name, budget)?;
        let bytes = bytes.ok_or_else(|| Problem::File(format!("no `{name}` in this archive")))?;
        let values = values::json(&bytes, budget).map_err(|problem| problem.within(name))?;
        let [value] = <[Value; 1]>::try_from(values)
            .map_err(|values| Problem::File(format!("{name}: {} values, expected one", values.len())))?;
        Ok(value)
    };
    // A log that was cut off has only what was known at its start.
    let mut log = value(if has_header { "header.json" } else { "_journal/start.json" })?;
    if !log.is_object() {
        return Err(Problem::File("header.json: expected an object".to_owned()));
    }
    let samples = names.iter().map(|name| value(name));
    let mut samples = samples.collect::<Result<Vec<Value>, Problem>>()?;
    samples.sort_by_cached_key(|sample| {
        (number(&sample["epoch"]).map(|epoch| epoch as u64), natural(&sample["id"]))
    });
    log["samples"] = Value::Array(samples);
    Ok(log)
}

/// A key that sorts numbers before texts, by value.
fn natural(id: &Value) -> (u64, String) {
    (id.as_u64().unwrap_or(u64::MAX), text(id).unwrap_or_default())
}

pub(super) fn log(mut value: Value) -> Result<Log, Problem> {
    let Value::Array(samples) = value["samples"].take() else {
        let message = "a log without samples; write it with log_samples, or name the whole log";
        return Err(Problem::File(message.to_owned()));
    };
    check_rows(samples.len())?;
    let eval = &value["eval"];
    let count = |place: &str| eval.pointer(place).and_then(Value::as_u64).map(|count| count as usize);
    let ids = eval.pointer("/dataset/sample_ids").and_then(Value::as_array).map(Vec::len);
    let asked = ids.or_else(|| count("/dataset/samples"));
    let epochs = count("/config/epochs").unwrap_or(1).max(1);
    let mut log = Log {
        tool: Tool::Inspect,
        model: text(&eval["model"]),
        task: text(&eval["task"]),
        expected: asked.map(|asked| asked.saturating_mul(epochs)),
        ..Log::default()
    };
    for (place, sample) in (1..).zip(samples) {
        log.rows.push(row(place, &sample).map_err(|message| Problem::Row(place, message))?);
    }
    Ok(log)
}

fn row(place: usize, sample: &Value) -> Result<Row, String> {
    let output = &sample["output"];
    let choice = output.pointer("/choices/0").unwrap_or(&Value::Null);
    let response = words(&choice["message"]["content"]).or_else(|| text(&output["completion"]));
    let (prediction, scores) = scored(&sample["scores"]);
    let epoch = sample["epoch"].as_u64().unwrap_or(1);
    let options: Vec<String> = sample["choices"].as_array().into_iter().flatten().filter_map(text).collect();
    let stop = choice["stop_reason"].as_str();
    let usage = |name: &str| output["usage"][name].as_u64();
    let failed = sample["error"].get("message").and_then(text).or_else(|| text(&output["error"]));
    let metadata = &sample["metadata"];
    let video = ["video", "video_id", "videoID", "video_path"].iter().find_map(|name| text(&metadata[*name]));
    Ok(Row {
        place,
        id: text(&sample["id"]).ok_or("no `id`")?,
        epoch: u16::try_from(epoch).map_err(|_| format!("epoch {epoch}, at most {}", u16::MAX))?.into(),
        question: question(&sample["input"]),
        gold: match &sample["target"] {
            Value::Array(all) => all.first().and_then(text),
            other => text(other),
        },
        options,
        response,
        prediction,
        scores,
        error: failed,
        is_truncated: matches!(stop, Some("max_tokens" | "model_length")),
        video,
        tokens: usage("output_tokens").map(|output| (usage("input_tokens").unwrap_or(0), output)),
        ..Row::default()
    })
}

/// The text of a message's content: a string, or parts.
fn words(content: &Value) -> Option<String> {
    match content {
        Value::Array(parts) => {
            let texts =
                parts.iter().filter(|part| part["type"] == "text").filter_map(|part| text(&part["text"]));
            Some(texts.collect::<Vec<_>>().join("\n"))
        }
        other => text(other),
    }
}

/// The last user message of the input.
fn question(input: &Value) -> String {
    match input {
        Value::Array(messages) => {
            let user = messages.iter().rev().find(|message| message["role"] == "user");
            user.and_then(|message| words(&message["content"])).unwrap_or_default()
        }
        other => text(other).unwrap_or_default(),
    }
}

/// The first answer, and the value of each scorer; the letters are Inspect's for correct, partial, incorrect, no answer.
fn scored(scores: &Value) -> (Option<String>, Vec<Score>) {
    let scores = || scores.as_object().into_iter().flatten();
    let value = |score: &Value| match score["value"].as_str() {
        Some("C") => json!(1.0),
        Some("P") => json!(0.5),
        Some("I" | "N") => json!(0.0),
        _ => score["value"].clone(),
    };
    let mut answers = scores().filter_map(|(_, score)| text(&score["answer"]));
    let answer = answers.find(|answer| !answer.trim().is_empty());
    (answer, scores().map(|(name, score)| Score::read(name, &value(score))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_with_an_error_has_no_score() {
        let log = json!({"version": 2, "eval": {"task": "t", "model": "m", "dataset": {"samples": 3}}, "samples": [
            {"id": 1, "epoch": 1, "input": [{"role": "user", "content": [{"type": "text", "text": "q?"}]}], "target": "B", "choices": ["x", "y"],
             "output": {"choices": [{"message": {"role": "assistant", "content": "B"}, "stop_reason": "max_tokens"}],
                        "usage": {"input_tokens": 4, "output_tokens": 2}}, "scores": {"choice": {"value": "I", "answer": "B"}, "includes": {"value": "C"}}},
            {"id": "a", "epoch": 1, "input": "q", "target": ["A"], "error": {"message": "timeout"}}]});
        assert!(is_log(&log));
        let log = super::log(log).unwrap_or_else(|_| panic!("a log"));
        assert_eq!((log.expected, log.rows.len(), log.model.as_deref()), (Some(3), 2, Some("m")));
        let (first, second) = (&log.rows[0], &log.rows[1]);
        assert_eq!((first.prediction.as_deref(), first.is_truncated), (Some("B"), true));
        // Every scorer is named: none is taken for the others.
        let scores: Vec<_> =
            first.scores.iter().map(|score| (score.metric.as_str(), score.share())).collect();
        assert_eq!(scores, [("choice", Some(0.0)), ("includes", Some(1.0))]);
        assert_eq!((first.question.as_str(), first.tokens), ("q?", Some((4, 2))));
        assert_eq!(
            (second.failure(), second.scores.len(), second.gold.as_deref()),
            (Some("timeout"), 0, Some("A"))
        );
    }
}
