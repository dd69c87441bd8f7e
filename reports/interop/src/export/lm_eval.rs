//! lm-evaluation-harness: `MODEL/results_DATE.json` and `MODEL/samples_TASK_DATE.jsonl`.
//!
//! Every Eval Ever's converter and the loggers of W&B and trackio read these.

use paravt_files::sha256;
use paravt_suite::record::Record;
use serde_json::{Value, json};

use super::evaluation::{Evaluation, prompt};
use super::harness::{Harness, sample_hash, sampled_by};

pub(super) const LM_EVAL: Harness = Harness {
    stamp: |evaluation| evaluation.started().format("%Y-%m-%dT%H-%M-%S%.6f").to_string(),
    results_name: |stamp| format!("results_{stamp}.json"),
    samples_name: |task, stamp| format!("samples_{task}_{stamp}.jsonl"),
    date: |evaluation| json!(evaluation.run.manifest.started_at),
    generation,
    error_names: &["_stderr"],
    line,
};

fn generation(evaluation: &Evaluation<'_>) -> Value {
    let plan = &evaluation.run.manifest.plan;
    sampled_by(plan, json!({ "max_gen_toks": plan.max_tokens, "until": plan.request.sampling.stop }))
}

fn line(evaluation: &Evaluation<'_>, record: &Record) -> Value {
    let (prompt, target) = (prompt(record), record.sample.gold.to_string());
    let mut line = json!({
        "doc_id": record.sample.row,
        "doc": record.sample,
        "target": target,
        "arguments": { "gen_args_0": { "arg_0": prompt, "arg_1": generation(evaluation) } },
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
