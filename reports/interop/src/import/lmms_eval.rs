//! lmms-eval's and lm-eval's sample files: one line per document (and, in lm-eval, per filter).
//!
//! Fields: lmms-eval 75571cfe `lmms_eval/evaluator.py`, lm-evaluation-harness 4e7e0d47 `lm_eval/evaluator.py`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::error::Problem;
use super::log::{Log, Row, Score, Tool};
use super::values::{Placed, number, text, texts};

/// Fields that are not a metric.
const FIELDS: [&str; 14] = [
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash",
    "prompt_hash", "target_hash", "input", "token_counts", "submission",
];
/// Names of the answer that a metric took, and of the gold it compared it with.
const PREDICTIONS: [&str; 4] = ["pred_answer", "parsed_pred", "pred", "prediction"];
/// Names of the video in a metric or in the published row.
const VIDEOS: [&str; 6] = ["videoID", "video_id", "video", "video_path", "video_name", "videoId"];
/// Labels that lmms-eval's video tasks write beside a metric.
const LABELS: [&str; 8] = [
    "duration", "duration_group", "category", "sub_category", "task_category", "task_type",
    "question_category", "domain",
];

/// Whether a row is one of theirs.
pub(super) fn is_sample(row: &Value) -> bool {
    row.get("doc_id").is_some() && row.get("filtered_resps").is_some()
}

pub(super) fn log(rows: Vec<Placed>, file: &str) -> Result<Log, Problem> {
    let first = rows.first().map_or(&Value::Null, |row| &row.1);
    // lm-eval writes the arguments of a request, lmms-eval the text that was sent.
    let is_lm_eval = first.get("arguments").is_some() && first.get("input").is_none();
    let filter = first.get("filter").and_then(text);
    let metrics = metrics(rows.iter().map(|row| &row.1));
    let mut log = Log {
        tool: if is_lm_eval { Tool::LmEval } else { Tool::LmmsEval },
        task: task(file),
        ..Log::default()
    };
    for (place, line) in rows {
        if line.get("filter").and_then(text) == filter {
            log.rows.push(row(place, &line, &metrics).map_err(|message| Problem::Row(place, message))?);
        } else {
            log.other_filters += 1;
        }
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

fn row(place: usize, line: &Value, metrics: &BTreeSet<String>) -> Result<Row, String> {
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
        row: id.parse().ok().map(|row: u32| row as usize),
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
    for (name, metric) in line.iter().filter(|(name, _)| metrics.contains(*name)) {
        take_metric(&mut row, name, metric);
    }
    if row.prediction.is_none() && filtered != row.response {
        // What a filter of lm-eval found; `[invalid]` is its word for nothing.
        row.prediction = filtered.filter(|found| !found.starts_with("[invalid"));
    }
    Ok(row)
}

/// Names of the metrics of a file: those that lines list themselves, as lm-eval's do, and fields with a number, or with an
/// object of an answer or score, in any line. In other lines the same field may be null, which is what is left of NaN, or
/// anything else.
fn metrics<'a>(lines: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in lines.filter_map(Value::as_object) {
        if let Some(Value::Array(names)) = line.get("metrics") {
            found.extend(names.iter().filter_map(Value::as_str).map(str::to_owned));
            continue;
        }
        let is_answer = |about: &Value| PREDICTIONS.iter().any(|name| about.get(*name).is_some());
        let is_metric = |value: &Value| match value.get("score") {
            Some(score) => number(score).is_some(),
            None => number(value).is_some() || is_answer(value),
        };
        let fields = line.iter().filter(|(name, value)| !FIELDS.contains(&name.as_str()) && is_metric(value));
        found.extend(fields.map(|(name, _)| name.clone()));
    }
    found
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

/// Takes over what a metric says: a number, or an object with its score, the answer it took and the gold.
fn take_metric(row: &mut Row, name: &str, metric: &Value) {
    let Value::Object(about) = metric else { return row.scores.push(Score::read(name, metric)) };
    let (score, prediction) = (about.get("score"), PREDICTIONS.iter().find_map(|name| about.get(*name)));
    if score.or(prediction).is_none() {
        return;
    }
    let prediction = prediction.and_then(text);
    let gold = about.get("answer").and_then(text).or_else(|| row.gold.clone());
    // Without a score of its own, an answer that is the gold one is right.
    let same = || prediction.as_ref().zip(gold.as_ref()).map(|(ours, gold)| Value::Bool(ours == gold));
    row.scores.extend(score.cloned().or_else(same).map(|score| Score::read(name, &score)));
    row.prediction = row.prediction.take().or(prediction.filter(|prediction| !prediction.trim().is_empty()));
    row.gold = row.gold.take().or(gold);
    describe(row, metric);
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
        let read = |place, line: &Value| row(place, line, &metrics(std::iter::once(line)));
        let row = read(4, &video).unwrap();
        assert_eq!((row.id.as_str(), row.row, row.prediction.as_deref()), ("3", Some(3), Some("D")));
        assert_eq!(
            (row.scores[0].number, row.gold.as_deref(), row.video.as_deref()),
            (Some(0.0), Some("C"), Some("v"))
        );
        assert_eq!((row.tokens, row.failure().is_some()), (Some((9, 2)), true));
        let plain =
            json!({"doc_id": 0, "target": "B", "filtered_resps": ["B"], "exact_match": 1.0, "input": "q"});
        let row = read(1, &plain).unwrap();
        assert_eq!(
            (row.scores[0].number, row.response.as_deref(), row.prediction),
            (Some(1.0), Some("B"), None)
        );
        let filtered = json!({"doc_id": 0, "doc": {"choices": ["x", "y"]}, "target": 1, "arguments": {"gen_args_0": {"arg_0": "p"}},
            "resps": [["I think B"]], "filtered_resps": ["[invalid]"], "filter": "strict", "exact_match": 0.0});
        let row = read(1, &filtered).unwrap();
        assert_eq!((row.gold.as_deref(), row.prediction, row.question.as_str()), (Some("B"), None, "p"));
        assert_eq!(row.response.as_deref(), Some("I think B"));
        let chosen = json!({"doc_id": 0, "target": 1, "resps": [[[-1.5, false]]], "filtered_resps": [[-1.5, false]], "acc": 1.0});
        assert!(read(1, &chosen).unwrap_err().contains("log-likelihood"));
    }

    #[test]
    fn metrics_are_those_that_a_file_lists_and_have_numbers() {
        let line = |fields: &str| {
            let line = format!("{{\"doc_id\": 0, \"target\": \"B\", \"filtered_resps\": [\"B\"], {fields}}}");
            crate::import::values::json(line.as_bytes(), &mut Default::default())
                .unwrap_or_default()
                .remove(0)
        };
        let scores = |lines: &[&str]| -> Vec<(String, Option<f64>)> {
            let lines = lines.iter().map(|fields| (1, line(fields))).collect();
            let log = log(lines, "samples_t.jsonl").unwrap_or_else(|_| panic!("a log"));
            let scores = log.rows.into_iter().flat_map(|row| row.scores);
            scores.map(|score| (score.metric.clone(), score.share())).collect()
        };
        let pair = |name: &str, share| (name.to_owned(), share);
        for (lines, wanted) in [
            // lm-eval's own list.
            (
                &["\"api_seconds\": 0.25, \"exact_match\": 1.0, \"metrics\": [\"exact_match\"]"][..],
                vec![pair("exact_match", Some(1.0))],
            ),
            (
                &["\"f1\": 0.5, \"em\": true, \"video\": null"],
                vec![pair("f1", Some(0.5)), pair("em", Some(1.0))],
            ),
            (&["\"em\": 100.0", "\"em\": -7.0"], vec![pair("em", None), pair("em", None)]),
            (
                &["\"em\": NaN", "\"em\": \"nan\"", "\"em\": 1"],
                [None, None, Some(1.0)].map(|one| pair("em", one)).to_vec(),
            ),
            // A non-numeric score is not recomputed from the answer.
            (
                &[
                    "\"m\": {\"score\": NaN, \"pred_answer\": \"B\"}",
                    "\"m\": {\"score\": 0, \"pred_answer\": \"B\"}",
                ],
                vec![pair("m", None), pair("m", Some(0.0))],
            ),
            (&["\"m\": {\"pred_answer\": \"B\"}"], vec![pair("m", Some(1.0))]),
            // A duplicate in `metrics`; non-numeric scores in some rows.
            (&["\"em\": 1.0, \"metrics\": [\"em\", \"em\"]"], vec![pair("em", Some(1.0))]),
            (
                &["\"em\": 1.0, \"note\": \"x\"", "\"em\": \"100%\"", "\"em\": [1.0]"],
                vec![pair("em", Some(1.0)), pair("em", None), pair("em", None)],
            ),
            (&["\"em\": \"100%\", \"metrics\": [\"em\"]"], vec![pair("em", None)]),
        ] {
            assert_eq!(scores(lines), wanted, "{lines:?}");
        }
    }
}
