//! lmms-eval: `MODEL/DATE_results.json` and `MODEL/DATE_samples_TASK.jsonl`.
//!
//! `lmms-eval --baseline FILE` pairs its own run with the samples (lmms-eval 75571cf `lmms_eval/baselines/loader.py`): by
//! `doc_id`, which is the row of the published file, and by the first key with `score` in its name.

use paravt_suite::record::Record;
use serde_json::{Value, json};

use super::evaluation::{Evaluation, prompt, tokens};
use super::harness::{Harness, sample_hash, sampled_by};

pub(super) const LMMS_EVAL: Harness = Harness {
    stamp,
    results_name: |stamp| format!("{stamp}_results.json"),
    samples_name: |task, stamp| format!("{stamp}_samples_{task}.jsonl"),
    date: |evaluation| json!(stamp(evaluation)),
    generation: |evaluation| {
        let plan = &evaluation.run.manifest.plan;
        sampled_by(plan, json!({ "max_new_tokens": plan.max_tokens }))
    },
    error_names: &["_stderr", "_stderr_clustered"],
    line,
};

fn stamp(evaluation: &Evaluation<'_>) -> String {
    evaluation.started().format("%Y%m%d_%H%M%S").to_string()
}

fn line(evaluation: &Evaluation<'_>, record: &Record) -> Value {
    let counts = tokens(record)
        .map(|tokens| json!([{ "input_tokens": tokens.input, "output_tokens": tokens.output }]));
    let mut line = json!({
        "doc_id": record.sample.row,
        "doc_hash": sample_hash(record),
        "uid": record.sample.uid,
        "video": record.sample.video,
        "input": prompt(record),
        "target": record.sample.gold.to_string(),
        "filtered_resps": record.transcript.final_text,
        "token_counts": counts,
        "pred_answer": record.score.prediction,
        "pred_rule": record.score.rule,
        "score": record.score.value,
    });
    line[evaluation.metric()] = json!(record.score.value);
    line
}
