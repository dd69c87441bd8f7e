//! lm-evaluation-harness: `MODEL/results_DATE.json` and `MODEL/samples_TASK_DATE.jsonl`.
//!
//! Every Eval Ever's converter and the loggers of W&B and trackio read these.

use paravt_files::sha256;
use paravt_suite::record::Record;
use serde_json::{Value, json};

use super::evaluation::{Evaluation, prompt};
use super::harness::{Harness, sample_hash, sampled_by};

pub(super) struct LmEval;

impl Harness for LmEval {
    fn stamp(&self, evaluation: &Evaluation<'_>) -> String {
        evaluation.started().format("%Y-%m-%dT%H-%M-%S%.6f").to_string()
    }

    fn results_name(&self, stamp: &str) -> String {
        format!("results_{stamp}.json")
    }

    fn samples_name(&self, task: &str, stamp: &str) -> String {
        format!("samples_{task}_{stamp}.jsonl")
    }

    fn date(&self, evaluation: &Evaluation<'_>) -> Value {
        json!(evaluation.run.manifest.started_at)
    }

    fn generation(&self, evaluation: &Evaluation<'_>) -> Value {
        let plan = &evaluation.run.manifest.plan;
        sampled_by(plan, json!({ "max_gen_toks": plan.max_tokens, "until": plan.request.sampling.stop }))
    }

    fn error_names(&self) -> &'static [&'static str] {
        &["_stderr"]
    }

    fn line(&self, evaluation: &Evaluation<'_>, record: &Record) -> Value {
        let (prompt, target) = (prompt(record), record.sample.gold.to_string());
        let mut line = json!({
            "doc_id": record.sample.row,
            "doc": record.sample,
            "target": target,
            "arguments": { "gen_args_0": { "arg_0": prompt, "arg_1": self.generation(evaluation) } },
            "resps": [[record.transcript.final_text]],
            "filtered_resps": [record.transcript.final_text],
            "filter": "none",
            "metrics": [evaluation.metric()],
            "doc_hash": sample_hash(record),
            "prompt_hash": sha256(&prompt),
            "target_hash": sha256(&target),
        });
        line[evaluation.metric()] = json!(record.score.value);
        line
    }
}
