//! lmms-eval: `MODEL/DATE_results.json` and `MODEL/DATE_samples_TASK.jsonl`.
//!
//! `lmms-eval --baseline FILE` pairs its own run with the samples (lmms-eval 75571cf `lmms_eval/baselines/loader.py`): by
//! `doc_id`, which is the row of the published file, and by the first key with `score` in its name.

use paravt_suite::record::Record;
use serde_json::{Value, json};

use super::evaluation::{Evaluation, prompt, tokens};
use super::harness::{Harness, sample_hash, sampled_by};

pub(super) struct LmmsEval;

impl Harness for LmmsEval {
    fn stamp(&self, evaluation: &Evaluation<'_>) -> String {
        evaluation.started().format("%Y%m%d_%H%M%S").to_string()
    }

    fn results_name(&self, stamp: &str) -> String {
        format!("{stamp}_results.json")
    }

    fn samples_name(&self, task: &str, stamp: &str) -> String {
        format!("{stamp}_samples_{task}.jsonl")
    }

    fn date(&self, evaluation: &Evaluation<'_>) -> Value {
        json!(self.stamp(evaluation))
    }

    fn generation(&self, evaluation: &Evaluation<'_>) -> Value {
        let plan = &evaluation.run.manifest.plan;
        sampled_by(plan, json!({ "max_new_tokens": plan.max_tokens }))
    }

    fn error_names(&self) -> &'static [&'static str] {
        &["_stderr", "_stderr_clustered"]
    }

    fn line(&self, evaluation: &Evaluation<'_>, record: &Record) -> Value {
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
}
