//! What lmms-eval and lm-evaluation-harness share: a results file with one entry per task, a samples file per task.
//!
//! Field names are those of lmms-eval 75571cf `lmms_eval/loggers/evaluation_tracker.py` and of lm-evaluation-harness
//! 4e7e0d4 `lm_eval/loggers/evaluation_tracker.py`.

use std::collections::BTreeMap;

use paravt_files::sha256;
use paravt_suite::plan::RunPlan;
use paravt_suite::record::Record;
use serde_json::{Map, Value, json};

use super::ExportError;
use super::evaluation::Evaluation;
use super::folder::Folder;
use crate::names::file_name;

/// What the two do differently.
pub(super) struct Harness {
    /// The time of a run as file names have it.
    pub(super) stamp: fn(&Evaluation<'_>) -> String,
    /// Name of the results file of runs with this stamp.
    pub(super) results_name: fn(&str) -> String,
    /// Name of the samples file of a task with this stamp.
    pub(super) samples_name: fn(&str, &str) -> String,
    /// The value of `date` in the results.
    pub(super) date: fn(&Evaluation<'_>) -> Value,
    /// Arguments of generation under the names that this harness has.
    pub(super) generation: fn(&Evaluation<'_>) -> Value,
    /// Ends of the names under which a metric's standard error stands.
    pub(super) error_names: &'static [&'static str],
    /// A line of the samples file.
    pub(super) line: fn(&Evaluation<'_>, &Record) -> Value,
}

/// Arguments of `generate` of transformers, with how tokens are drawn.
pub(super) fn sampled_by(plan: &RunPlan, mut arguments: Value) -> Value {
    arguments["temperature"] = plan.temperature.into();
    arguments["do_sample"] = (plan.temperature > 0.0).into();
    for (name, value) in plan.request.sampling.numbers() {
        arguments[name] = value;
    }
    arguments
}

/// Writes a folder per model: a results file per start, a samples file per task.
pub(super) fn write(
    evaluations: &[Evaluation<'_>],
    harness: &Harness,
    folder: &mut Folder,
) -> Result<(), ExportError> {
    let mut results: BTreeMap<(String, String), Vec<&Evaluation<'_>>> = BTreeMap::new();
    for evaluation in evaluations {
        let (dir, stamp) = (sanitized(&evaluation.model), (harness.stamp)(evaluation));
        let name = (harness.samples_name)(&file_name(evaluation.task()), &stamp);
        let samples = evaluation.answered().into_iter().map(|record| (harness.line)(evaluation, record));
        folder.put_lines(&format!("{dir}/{name}"), samples)?;
        evaluation.left_out().into_iter().for_each(|note| folder.note(note));
        results.entry((dir, stamp)).or_default().push(evaluation);
    }
    for ((dir, stamp), evaluations) in results {
        let name = (harness.results_name)(&stamp);
        folder.put_json(&format!("{dir}/{name}"), &aggregate(&evaluations, harness))?;
    }
    Ok(())
}

/// A model's name as both harnesses name its folder: `org__name`.
fn sanitized(model: &str) -> String {
    file_name(&model.replace(['/', ':', '\\', '|', '"', '<', '>', '?', '*', '[', ']'], "__"))
}

/// The results of runs that began together: of one model, each of another task.
fn aggregate(evaluations: &[&Evaluation<'_>], harness: &Harness) -> Value {
    let by_task = |of: &dyn Fn(&Evaluation<'_>) -> Value| -> Map<String, Value> {
        evaluations.iter().map(|evaluation| (evaluation.task().to_owned(), of(evaluation))).collect()
    };
    let first = evaluations[0];
    let plan = &first.run.manifest.plan;
    let seconds = first.ended().signed_duration_since(first.started()).num_milliseconds() as f64 / 1000.0;
    json!({
        "results": by_task(&|evaluation| results(evaluation, harness)),
        "group_subtasks": by_task(&|_| json!([])),
        "configs": by_task(&|evaluation| config(evaluation, harness)),
        "versions": by_task(&|evaluation| json!(evaluation.run.manifest.version)),
        "n-shot": by_task(&|_| json!(0)),
        "higher_is_better": by_task(&|evaluation| {
            evaluation.summary().metrics.iter().map(|metric| (metric.name.clone(), json!(true))).collect()
        }),
        "n-samples": by_task(&|evaluation| {
            let original = evaluation.run.manifest.selection.split_rows;
            json!({ "original": original, "effective": evaluation.answered().len() })
        }),
        "config": {
            "model": first.run.manifest.backend.name,
            "model_args": format!("model={}", first.model),
            "batch_size": 1,
            "limit": first.run.manifest.selection.limit,
            "gen_kwargs": (harness.generation)(first),
            "random_seed": plan.seed,
        },
        "date": (harness.date)(first),
        "task_hashes": by_task(&|evaluation| json!(evaluation.run.manifest.inputs.samples)),
        "model_source": first.run.manifest.backend.name,
        "model_name": first.model,
        "model_name_sanitized": sanitized(&first.model),
        "start_time": first.run.manifest.started_at,
        "end_time": first.run.manifest.ended_at,
        "total_evaluation_time_seconds": seconds.to_string(),
        "eval_library": { "name": "paravt-bench", "version": first.run.manifest.binary },
    })
}

/// The numbers of a task. Samples that failed count as the profile says; how many they are stands in the task's metadata.
fn results(evaluation: &Evaluation<'_>, harness: &Harness) -> Value {
    let (summary, cell) = (evaluation.summary(), &evaluation.cell);
    let mut fields = Map::from_iter([("alias".to_owned(), json!(evaluation.task()))]);
    for metric in &summary.metrics {
        fields.insert(format!("{},none", metric.name), json!(metric.value));
        let error = (metric.name == summary.headline().name).then_some(cell.standard_error).flatten();
        let error = error.map_or(json!("N/A"), |error| json!(error));
        for end in harness.error_names {
            fields.insert(format!("{}{end},none", metric.name), error.clone());
        }
    }
    Value::Object(fields)
}

/// What was asked, of which data.
fn config(evaluation: &Evaluation<'_>, harness: &Harness) -> Value {
    let task = &evaluation.run.manifest.task;
    let metrics: Vec<Value> = evaluation
        .summary()
        .metrics
        .iter()
        .map(|metric| json!({ "metric": metric.name, "aggregation": "mean", "higher_is_better": true }))
        .collect();
    let mut metadata = evaluation.settings();
    metadata.extend(evaluation.losses().into_iter().map(|(name, count)| (name.to_owned(), json!(count))));
    metadata.extend(evaluation.unfinished().map(|text| ("incomplete".to_owned(), json!(text))));
    json!({
        "task": task.name,
        "dataset_path": task.hub.repos.first(),
        "dataset_name": task.hub.config,
        "test_split": task.hub.split,
        "output_type": "generate_until",
        "num_fewshot": 0,
        "repeats": 1,
        "generation_kwargs": (harness.generation)(evaluation),
        "metric_list": metrics,
        "metadata": metadata,
    })
}

/// SHA-256 of a sample as loaded.
pub(super) fn sample_hash(record: &Record) -> String {
    sha256(serde_json::to_vec(&record.sample).expect("plain structs with string keys serialise"))
}
