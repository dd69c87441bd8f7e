//! Inspect's logs: `.json`, or `.eval`, a zip archive of JSON members (deflated, or zstd by default).
//!
//! Fields: inspect_ai 499e6152 `src/inspect_ai/log/_log.py`.

use serde_json::Value;

use super::error::Problem;
use super::log::{Log, Row, Tool};
use super::members::Members;
use super::values::{number, text};

/// Whether a JSON value is a log.
pub(super) fn is_log(value: &Value) -> bool {
    value.get("eval").is_some_and(|eval| eval.get("task").is_some()) && value.get("version").is_some()
}

/// The log in an archive, as its `.json` form has it.
pub(super) fn archive(bytes: Vec<u8>) -> Result<Value, Problem> {
    let mut members = Members::open(bytes)?;
    let mut json = |name: &str| {
        let bytes =
            members.read(name)?.ok_or_else(|| Problem::File(format!("no `{name}` in this archive")))?;
        serde_json::from_slice::<Value>(&bytes).map_err(|error| Problem::File(format!("{name}: {error}")))
    };
    let mut log = match json("header.json") {
        Ok(header) => header,
        // A log that was cut off has only what was known at its start.
        Err(_) => json("_journal/start.json")?,
    };
    let names = members.names("samples/", ".json");
    let mut samples = Vec::with_capacity(names.len());
    for name in names {
        let bytes = members.read(&name)?.unwrap_or_default();
        samples.push(
            serde_json::from_slice::<Value>(&bytes)
                .map_err(|error| Problem::File(format!("{name}: {error}")))?,
        );
    }
    samples.sort_by_cached_key(|sample| {
        (number(&sample["epoch"]).map(|epoch| epoch as u64), natural(&sample["id"]))
    });
    if !log.is_object() {
        return Err(Problem::File("header.json: expected an object".to_owned()));
    }
    log["samples"] = Value::Array(samples);
    Ok(log)
}

/// A key that sorts numbers before texts, by value.
fn natural(id: &Value) -> (u64, String) {
    (id.as_u64().unwrap_or(u64::MAX), text(id).unwrap_or_default())
}

/// The log of its samples.
pub(super) fn log(value: &Value) -> Result<Log, Problem> {
    let eval = &value["eval"];
    let samples = value["samples"].as_array().ok_or_else(|| {
        Problem::File("a log without samples; write it with log_samples, or name the whole log".to_owned())
    })?;
    let epochs = eval.pointer("/config/epochs").and_then(Value::as_u64).unwrap_or(1).max(1) as usize;
    let ids = eval.pointer("/dataset/sample_ids").and_then(Value::as_array).map(Vec::len);
    let asked = ids.or_else(|| eval.pointer("/dataset/samples").and_then(Value::as_u64).map(|n| n as usize));
    let mut log = Log {
        tool: Tool::Inspect,
        model: text(&eval["model"]),
        task: text(&eval["task"]),
        expected: asked.map(|asked| asked * epochs),
        ..Log::default()
    };
    for (place, sample) in (1..).zip(samples) {
        log.rows.push(row(place, sample).map_err(|message| Problem::Row(place, message))?);
    }
    Ok(log)
}

fn row(place: usize, sample: &Value) -> Result<Row, String> {
    let output = &sample["output"];
    let choice = output.pointer("/choices/0").unwrap_or(&Value::Null);
    let response = words(&choice["message"]["content"]).or_else(|| text(&output["completion"]));
    let (prediction, score) = scored(&sample["scores"]);
    let options: Vec<String> = sample["choices"].as_array().into_iter().flatten().filter_map(text).collect();
    let stop = choice["stop_reason"].as_str();
    let usage = |name: &str| output["usage"][name].as_u64();
    let failed = sample["error"].get("message").and_then(text).or_else(|| text(&output["error"]));
    let metadata = &sample["metadata"];
    let video = ["video", "video_id", "videoID", "video_path"].iter().find_map(|name| text(&metadata[*name]));
    Ok(Row {
        place,
        id: text(&sample["id"]).ok_or("no `id`")?,
        epoch: sample["epoch"].as_u64().unwrap_or(1) as usize,
        question: question(&sample["input"]),
        gold: match &sample["target"] {
            Value::Array(all) => all.first().and_then(text),
            other => text(other),
        },
        options,
        response,
        prediction,
        score,
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

/// The answer and value of the first score; the letters are Inspect's for correct, partial, incorrect, no answer.
fn scored(scores: &Value) -> (Option<String>, Option<f64>) {
    let Some(score) = scores.as_object().and_then(|scores| scores.values().next()) else {
        return (None, None);
    };
    let value = match &score["value"] {
        Value::String(letter) => match letter.as_str() {
            "C" => Some(1.0),
            "P" => Some(0.5),
            "I" | "N" => Some(0.0),
            other => other.parse().ok(),
        },
        other => number(other),
    };
    let answer = text(&score["answer"]).filter(|answer| !answer.trim().is_empty());
    (answer, value.filter(|value: &f64| (0.0..=1.0).contains(value)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sample_with_an_error_has_no_score() {
        let log = json!({"version": 2, "eval": {"task": "t", "model": "m", "dataset": {"samples": 3}}, "samples": [
            {"id": 1, "epoch": 1, "input": [{"role": "user", "content": [{"type": "text", "text": "q?"}]}], "target": "B", "choices": ["x", "y"],
             "output": {"choices": [{"message": {"role": "assistant", "content": "B"}, "stop_reason": "max_tokens"}],
                        "usage": {"input_tokens": 4, "output_tokens": 2}}, "scores": {"choice": {"value": "C", "answer": "B"}}},
            {"id": "a", "epoch": 1, "input": "q", "target": ["A"], "error": {"message": "timeout"}}]});
        assert!(is_log(&log));
        let log = super::log(&log).unwrap_or_else(|_| panic!("a log"));
        assert_eq!((log.expected, log.rows.len(), log.model.as_deref()), (Some(3), 2, Some("m")));
        let (first, second) = (&log.rows[0], &log.rows[1]);
        assert_eq!(
            (first.score, first.prediction.as_deref(), first.is_truncated),
            (Some(1.0), Some("B"), true)
        );
        assert_eq!((first.question.as_str(), first.tokens), ("q?", Some((4, 2))));
        assert_eq!(
            (second.failure(), second.score, second.gold.as_deref()),
            (Some("timeout"), None, Some("A"))
        );
    }
}
