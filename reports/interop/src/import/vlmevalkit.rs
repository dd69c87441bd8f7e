//! VLMEvalKit's predictions (`MODEL_DATASET.xlsx`, `.tsv`, `.json`), before or after its evaluation.
//!
//! Columns: VLMEvalKit e8e78f05 `vlmeval/inference.py`, `dataset/utils/multiple_choice.py`, `dataset/videomme.py`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::Problem;
use super::log::{Log, Row, Score, Tool};
use super::values::{Placed, number, text, texts};

/// Columns that become labels.
const LABELS: [&str; 8] =
    ["category", "l2-category", "split", "duration", "domain", "sub_category", "task_type", "type"];
/// How `log` says that nothing was found in the answer and an option was drawn.
const DRAWN: &str = "randomly generate";

/// Whether a row is one of theirs.
pub(super) fn is_row(row: &Value) -> bool {
    row.get("index").is_some() && row.get("prediction").is_some()
}

pub(super) fn log(rows: Vec<Placed>, file: &str) -> Result<Log, Problem> {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let stem = ["_openai_result", "_score", "_result", "_auxmatch"]
        .iter()
        .fold(stem, |stem, end| stem.strip_suffix(end).unwrap_or(stem));
    // MODEL_DATASET: either may hold the separator; the data set of such a file is not known for sure.
    let (model, task) = stem.split_once('_').map_or((None, None), |(model, task)| (Some(model), Some(task)));
    let mut log = Log {
        tool: Tool::VlmEvalKit,
        model: model.map(str::to_owned),
        task: task.map(str::to_owned),
        ..Log::default()
    };
    for (place, value) in rows {
        // A sheet may end in rows without content.
        if value.get("index").is_some_and(Value::is_null)
            && value.get("prediction").is_some_and(Value::is_null)
        {
            continue;
        }
        log.rows.push(row(place, &value).map_err(|message| Problem::Row(place, message))?);
    }
    Ok(log)
}

fn row(place: usize, value: &Value) -> Result<Row, String> {
    let get = |name: &str| value.get(name).unwrap_or(&Value::Null);
    let letters = ('A'..='Z').map_while(|letter| value.get(letter.to_string()));
    // Questions of a file have different numbers of options; one in between may be empty.
    let mut options: Vec<String> = letters.map(|option| text(option).unwrap_or_default()).collect();
    options.truncate(options.iter().rposition(|option| !option.is_empty()).map_or(0, |last| last + 1));
    if options.is_empty() {
        options = texts(get("candidates"));
    }
    let id = text(get("index")).ok_or("no `index`")?;
    let labels = LABELS.iter().filter_map(|label| Some(((*label).to_owned(), vec![text(get(label))?])));
    // -1 marks an answer in which its evaluation found nothing.
    let is_said = |score: &Value| number(score) != Some(-1.0);
    let scores = ["hit", "score"].into_iter().filter_map(|name| Some((name, value.get(name)?)));
    let scores =
        scores.map(|(name, score)| Score::read(name, if is_said(score) { score } else { &Value::Null }));
    Ok(Row {
        place,
        row: None,
        id,
        question: text(get("question")).unwrap_or_default(),
        options,
        gold: text(get("answer")).map(|gold| gold.trim().to_owned()).filter(|gold| !gold.is_empty()),
        response: text(get("prediction")),
        scores: scores.collect(),
        is_random: text(get("log")).is_some_and(|log| log.contains(DRAWN)),
        video: text(get("video")),
        tags: labels.collect::<BTreeMap<_, _>>(),
        ..Row::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_before_and_after_the_evaluation() {
        let raw = json!({"index": 7.0, "question": "q", "A": "x", "B": "y", "C": null, "answer": "B", "prediction": "B",
            "video": "v1", "duration": "short"});
        let log = log(
            vec![(2, raw), (3, json!({"index": null, "prediction": null}))],
            "Qwen_Video-MME_8frame.xlsx",
        );
        let log = log.unwrap_or_else(|_| panic!("a log"));
        assert_eq!(
            (log.rows.len(), log.model.as_deref(), log.task.as_deref()),
            (1, Some("Qwen"), Some("Video-MME_8frame"))
        );
        let row = &log.rows[0];
        assert_eq!((row.id.as_str(), row.options.len(), row.scores.len(), row.is_random), ("7", 2, 0, false));
        let judged = json!({"index": 1, "prediction": "Failed to obtain answer via API.", "answer": "A", "hit": 1,
            "log": "Failed to predict, thus randomly generate one. "});
        let row = super::row(2, &judged).unwrap();
        assert_eq!((row.scores[0].share(), row.is_random, row.failure().is_some()), (Some(1.0), true, true));
        let scores = super::row(2, &json!({"index": 1, "prediction": "x", "score": -1})).unwrap().scores;
        assert_eq!(scores, [Score { metric: "score".to_owned(), number: None }]);
    }
}
