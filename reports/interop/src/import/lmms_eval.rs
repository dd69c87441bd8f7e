//! lmms-eval's and lm-eval's sample files: one line per document (and, in lm-eval, per filter).
//!
//! Fields: lmms-eval 75571cfe `lmms_eval/evaluator.py`, lm-evaluation-harness 4e7e0d47 `lm_eval/evaluator.py`.

use serde_json::{Map, Value};

use super::error::Problem;
use super::log::{Log, Row, Tool};
use super::values::{Placed, number, text, texts};

/// Fields that are not a metric.
const FIELDS: [&str; 14] = [
    "doc_id",
    "doc",
    "target",
    "arguments",
    "resps",
    "filtered_resps",
    "filter",
    "metrics",
    "doc_hash",
    "prompt_hash",
    "target_hash",
    "input",
    "token_counts",
    "submission",
];
/// Names of the answer that a metric took, and of the gold it compared it with.
const PREDICTIONS: [&str; 4] = ["pred_answer", "parsed_pred", "pred", "prediction"];
/// Names of the video in a metric or in the published row.
const VIDEOS: [&str; 6] = ["videoID", "video_id", "video", "video_path", "video_name", "videoId"];
/// Labels that lmms-eval's video tasks write beside a metric.
const LABELS: [&str; 8] = [
    "duration",
    "duration_group",
    "category",
    "sub_category",
    "task_category",
    "task_type",
    "question_category",
    "domain",
];

/// Whether a row is one of theirs.
pub(super) fn is_sample(row: &Value) -> bool {
    row.get("doc_id").is_some() && row.get("filtered_resps").is_some()
}

/// The log of the lines of a file.
pub(super) fn log(rows: &[Placed], file: &str) -> Result<Log, Problem> {
    let first = rows.first().map_or(&Value::Null, |row| &row.1);
    // lm-eval writes the arguments of a request, lmms-eval the text that was sent.
    let is_lm_eval = first.get("arguments").is_some() && first.get("input").is_none();
    let filter = first.get("filter").and_then(text);
    let of_filter = |row: &&Placed| row.1.get("filter").and_then(text) == filter;
    let kept: Vec<&Placed> = rows.iter().filter(of_filter).collect();
    let mut log = Log {
        tool: if is_lm_eval { Tool::LmEval } else { Tool::LmmsEval },
        task: task(file),
        other_filters: rows.len() - kept.len(),
        ..Log::default()
    };
    for (place, line) in kept {
        log.rows.push(row(*place, line).map_err(|message| Problem::Row(*place, message))?);
    }
    Ok(log)
}

/// The task in a file's name: `TIME_samples_TASK.jsonl`, `samples_TASK_TIME.jsonl`.
fn task(file: &str) -> Option<String> {
    let rest = file.split_once("samples_")?.1.strip_suffix(".jsonl")?;
    let is_time = |part: &str| part.len() > 10 && part.starts_with("20") && part.contains('T');
    let task = rest.rsplit_once('_').filter(|(_, last)| is_time(last)).map_or(rest, |(task, _)| task);
    Some(task.to_owned()).filter(|task| !task.is_empty())
}

/// The first text of nested lists; `None` where the list holds log-likelihoods or nothing.
fn first_text(value: &Value) -> Option<Option<String>> {
    match value {
        Value::Array(items) => items.first().map_or(Some(None), first_text),
        Value::String(text) => Some(Some(text.clone())),
        Value::Null => Some(None),
        Value::Number(number) => Some(Some(number.to_string())),
        _ => None,
    }
}

fn row(place: usize, line: &Value) -> Result<Row, String> {
    let line = line.as_object().ok_or("expected an object")?;
    let get = |name: &str| line.get(name).unwrap_or(&Value::Null);
    let loglikelihood = || "answers were chosen by log-likelihood: there is no text to audit".to_owned();
    if get("resps").pointer("/0/0/1").is_some_and(Value::is_boolean) {
        return Err(loglikelihood());
    }
    let filtered = first_text(get("filtered_resps")).ok_or_else(loglikelihood)?;
    // `resps` is absent where it is the same.
    let response = match first_text(get("resps")) {
        Some(Some(raw)) => Some(raw),
        _ => filtered.clone(),
    };
    let id = text(get("doc_id")).ok_or("no `doc_id`")?;
    let mut row = Row {
        place,
        row: id.parse().ok(),
        id,
        question: text(get("input")).or_else(|| prompt(get("arguments"))).unwrap_or_default(),
        gold: gold(get("target"), get("doc")),
        options: texts(get("doc").get("options").or(get("doc").get("choices")).unwrap_or(&Value::Null)),
        response,
        tokens: tokens(get("token_counts")),
        ..Row::default()
    };
    describe(&mut row, get("doc"));
    row.video = row.video.or_else(|| text(get("video")));
    for (_, metric) in line.iter().filter(|(name, _)| !FIELDS.contains(&name.as_str())) {
        take_metric(&mut row, metric);
    }
    if row.prediction.is_none() && filtered != row.response {
        // What a filter of lm-eval found; `[invalid]` is its word for nothing.
        row.prediction = filtered.filter(|found| !found.starts_with("[invalid"));
    }
    Ok(row)
}

/// The prompt of lm-eval's arguments.
fn prompt(arguments: &Value) -> Option<String> {
    let first =
        arguments.get("gen_args_0").and_then(|first| first.get("arg_0")).or(arguments.pointer("/0/0"));
    first.and_then(text)
}

/// The gold answer; an index into the row's options becomes a letter.
fn gold(target: &Value, doc: &Value) -> Option<String> {
    let options = doc.get("options").or(doc.get("choices"));
    match target {
        Value::Number(index) if options.is_some_and(|options| !texts(options).is_empty()) => {
            u8::try_from(index.as_u64()?)
                .ok()
                .filter(|index| *index < 26)
                .map(|index| char::from(b'A' + index).to_string())
        }
        Value::Array(all) => all.first().and_then(text),
        other => text(other),
    }
    .map(|gold| gold.trim().to_owned())
    .filter(|gold| !gold.is_empty())
}

fn tokens(counts: &Value) -> Option<(u64, u64)> {
    let counts = counts.get(0).unwrap_or(counts);
    let count = |name: &str| counts.get(name).and_then(Value::as_u64);
    Some((count("input_tokens").unwrap_or(0), count("output_tokens")?))
}

/// Takes over what a metric says: a number, or an object with the answer it took and the gold.
fn take_metric(row: &mut Row, metric: &Value) {
    match metric {
        Value::Object(metric) => {
            let prediction = PREDICTIONS.iter().find_map(|name| metric.get(*name));
            let Some(prediction) = prediction.or_else(|| metric.get("score")) else { return };
            if row.prediction.is_some() {
                return;
            }
            let prediction = metric
                .get("score")
                .filter(|score| *score == prediction)
                .map_or_else(|| text(prediction), |_| None);
            let wanted = metric.get("answer").and_then(text).or_else(|| row.gold.clone());
            let same = prediction
                .as_ref()
                .zip(wanted.as_ref())
                .map(|(ours, gold)| f64::from(u8::from(ours == gold)));
            row.score = metric.get("score").and_then(number).or(same).or(row.score);
            row.prediction = prediction.filter(|prediction| !prediction.trim().is_empty());
            row.gold = row.gold.take().or(wanted);
            describe(row, &Value::Object(metric.clone()));
        }
        metric => row.score = row.score.or_else(|| number(metric)),
    }
}

/// Takes the video and labels of a row.
fn describe(row: &mut Row, about: &Value) {
    let Some(about) = about.as_object() else { return };
    let found = |about: &Map<String, Value>, names: &[&str]| {
        names.iter().find_map(|name| about.get(*name).and_then(text))
    };
    row.video = row.video.take().or_else(|| found(about, &VIDEOS));
    for label in LABELS {
        if let Some(value) = about.get(label).and_then(text) {
            row.tags.insert(label.to_owned(), vec![value]);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_task_is_in_the_name() {
        assert_eq!(task("20260218_234435_samples_scienceqa_img.jsonl").as_deref(), Some("scienceqa_img"));
        assert_eq!(task("samples_gsm8k_2026-01-01T10-00-00.123.jsonl").as_deref(), Some("gsm8k"));
        assert_eq!(task("other.jsonl"), None);
    }

    #[test]
    fn metrics_of_video_tasks_and_plain_ones() {
        let video = json!({"doc_id": 3, "target": "C", "resps": [["[LMMS_EVAL_REQUEST_FAILED after 3 retries] x"]],
            "filtered_resps": ["[LMMS_EVAL_REQUEST_FAILED after 3 retries] x"], "input": "q",
            "token_counts": [{"input_tokens": 9, "output_tokens": 2}],
            "videomme_perception_score": {"videoID": "v", "duration": "short", "pred_answer": "D", "answer": "C"}});
        let row = row(4, &video).unwrap();
        assert_eq!((row.id.as_str(), row.row, row.prediction.as_deref()), ("3", Some(3), Some("D")));
        assert_eq!((row.score, row.gold.as_deref(), row.video.as_deref()), (Some(0.0), Some("C"), Some("v")));
        assert_eq!((row.tokens, row.failure().is_some()), (Some((9, 2)), true));
        let plain =
            json!({"doc_id": 0, "target": "B", "filtered_resps": ["B"], "exact_match": 1.0, "input": "q"});
        let row = super::row(1, &plain).unwrap();
        assert_eq!((row.score, row.response.as_deref(), row.prediction), (Some(1.0), Some("B"), None));
        let filtered = json!({"doc_id": 0, "doc": {"choices": ["x", "y"]}, "target": 1, "arguments": {"gen_args_0": {"arg_0": "p"}},
            "resps": [["I think B"]], "filtered_resps": ["[invalid]"], "filter": "strict", "exact_match": 0.0});
        let row = super::row(1, &filtered).unwrap();
        assert_eq!((row.gold.as_deref(), row.prediction, row.question.as_str()), (Some("B"), None, "p"));
        assert_eq!(row.response.as_deref(), Some("I think B"));
        let chosen = json!({"doc_id": 0, "target": 1, "resps": [[[-1.5, false]]], "filtered_resps": [[-1.5, false]], "acc": 1.0});
        assert!(super::row(1, &chosen).unwrap_err().contains("log-likelihood"));
    }
}
