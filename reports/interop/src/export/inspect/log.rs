//! The log without its samples: what was run, and the results.

use std::collections::BTreeMap;

use chrono::SecondsFormat;
use paravt_suite::scoring::Metric;
use serde_json::{Map, Value, json};

use super::super::evaluation::{Evaluation, Tokens};
use super::usage;

/// 22 characters that name the run.
pub(super) fn id(evaluation: &Evaluation<'_>) -> String {
    evaluation.identity()[..22].to_owned()
}

pub(super) fn scorer(evaluation: &Evaluation<'_>) -> &'static str {
    match evaluation.run.manifest.task.metric {
        Metric::Accuracy { .. } | Metric::GroupScore { .. } => "choice",
        Metric::Grounding { .. } => "iou",
        Metric::Score { .. } => "score",
    }
}

/// Everything but the samples.
pub(super) fn header(evaluation: &Evaluation<'_>) -> Value {
    let (manifest, summary) = (&evaluation.run.manifest, evaluation.summary());
    let time = |time: chrono::DateTime<chrono::Utc>| time.to_rfc3339_opts(SecondsFormat::Micros, false);
    let (started, ended) = (time(evaluation.started()), time(evaluation.ended()));
    let generation = json!({
        "max_tokens": manifest.plan.max_tokens,
        "temperature": manifest.plan.temperature,
        "top_p": manifest.plan.request.sampling.top_p,
        "top_k": manifest.plan.request.sampling.top_k,
        "seed": manifest.plan.seed,
        "stop_seqs": (!manifest.plan.request.sampling.stop.is_empty()).then_some(&manifest.plan.request.sampling.stop),
    });
    let headline = json!({ "metric": summary.headline().name });
    let (status, error) = status(evaluation);
    let mut log = json!({
        "version": 2,
        "status": status,
        "eval": {
            "run_id": id(evaluation),
            "eval_id": id(evaluation),
            "created": started,
            "task": manifest.task.name,
            "task_id": id(evaluation),
            "task_display_name": manifest.task.title,
            "task_version": manifest.version,
            "task_args": evaluation.plan(),
            "tags": [format!("profile:{}", manifest.plan.profile())],
            "dataset": {
                "name": manifest.task.hub.repos.first().unwrap_or(&manifest.task.name),
                "location": manifest.data_revision.as_ref().or(manifest.task.hub.repos.first()),
                "samples": manifest.selection.sizes.expected,
                "sample_ids": evaluation.run.records.iter().map(|record| &record.sample.uid).collect::<Vec<_>>(),
                "shuffled": false,
            },
            "model": evaluation.model,
            "model_generate_config": generation,
            "headline_metric": headline,
            "config": { "limit": manifest.selection.limit, "epochs": 1, "continue_on_fail": true },
            "packages": { "paravt-bench": manifest.binary },
            "metadata": evaluation.settings(),
        },
        "plan": {
            "name": "plan",
            "steps": [{ "solver": manifest.plan.mode.to_string(), "params": evaluation.plan() }],
            "config": generation,
        },
        "results": results(evaluation),
        "stats": {
            "started_at": started,
            "completed_at": ended,
            "model_usage": BTreeMap::from([
                (&evaluation.model, usage(Tokens {
                    input: summary.prompt_tokens,
                    output: summary.completion_tokens,
                    reasoning: summary.reasoning_tokens,
                })),
            ]),
        },
        "metadata": evaluation.losses(),
    });
    // The reader of headers takes no null for an error.
    if let Some(error) = error {
        log["error"] = error;
    }
    log
}

/// Status and error of the log: a run with samples to come is cancelled, one with failed samples an error.
fn status(evaluation: &Evaluation<'_>) -> (&'static str, Option<Value>) {
    let errors = evaluation.summary().n_errors;
    let error = |message: String| Some(json!({ "message": message, "traceback": "", "traceback_ansi": "" }));
    match evaluation.unfinished() {
        Some(message) => ("cancelled", error(message)),
        None if errors > 0 => {
            ("error", error(format!("{errors} of {} samples failed", evaluation.summary().n_recorded)))
        }
        None => ("success", None),
    }
}

fn results(evaluation: &Evaluation<'_>) -> Value {
    let (summary, cell) = (evaluation.summary(), &evaluation.cell);
    let metric =
        |name: &str, value: f64| (name.to_owned(), json!({ "name": name, "value": value, "params": {} }));
    let metrics = summary.metrics.iter().map(|one| metric(&one.name, one.value));
    let metrics: Map<String, Value> =
        metrics.chain(cell.standard_error.map(|error| metric("stderr", error))).collect();
    json!({
        "total_samples": summary.n_expected,
        "headline": { "metric": summary.headline().name },
        "completed_samples": summary.n_recorded - summary.n_errors,
        "scores": [{
            "name": scorer(evaluation),
            "scorer": scorer(evaluation),
            "scored_samples": evaluation.answered().len(),
            "unscored_samples": evaluation.run.records.len() - evaluation.answered().len(),
            "params": {},
            "metrics": metrics,
            "metadata": {
                "headline": summary.headline().name,
                "interval_95": cell.interval,
                "clustered_by": "video",
                "clusters": cell.videos,
                "samples_in_score": summary.n,
            },
        }],
    })
}
