//! Every Eval Ever, schema 0.3.0: `data/TASK/DEVELOPER/MODEL/UUID.json` and, beside it, `UUID_samples.jsonl`.
//!
//! Field names and rules are those of evaleval/every_eval_ever 9bce413 `every_eval_ever/schemas/*.json`; all values of
//! `additional_details`, `details`, `metadata` and of a tool call's `arguments` are strings.

use std::collections::{BTreeMap, BTreeSet};

use paravt_files::{sha256, sha256_file};
use paravt_suite::message::Role;
use paravt_suite::record::Record;
use paravt_suite::scoring::{MetricValue, Over};
use paravt_suite::summary::counts;
use serde_json::{Map, Value, json};

use super::ExportError;
use super::conversation::{self, Called, Said, texts};
use super::evaluation::{Evaluation, failure, has_answer, prompt, question, tokens};
use super::folder::Folder;
use crate::names::file_name;

const SCHEMA: &str = "0.3.0";
/// Backends that run the model in this process.
const IN_PROCESS: [&str; 2] = ["candle", "libtorch"];

pub(super) fn write(evaluations: &[Evaluation<'_>], folder: &mut Folder) -> Result<(), ExportError> {
    for evaluation in evaluations {
        let (developer, model) = organisation(evaluation)?;
        let (task, uuid) = (file_name(evaluation.task()), uuid(&evaluation.identity()));
        let base = format!("data/{task}/{developer}/{model}/{uuid}");
        let id = format!("{task}/{}/{}", evaluation.model, evaluation.run.manifest.started_at as u64);
        let samples = evaluation.run.records.iter().map(|record| sample(evaluation, &id, record));
        let name = format!("{base}_samples.jsonl");
        folder.put_lines(&name, samples)?;
        let path = folder.path(&name);
        let checksum = sha256_file(&path).map_err(|source| ExportError::Io { path, source })?;
        let mut aggregate = aggregate(evaluation, &id, developer, model);
        aggregate["detailed_evaluation_results"] = json!({
            "format": "jsonl",
            "file_path": name,
            "hash_algorithm": "sha256",
            "checksum": checksum,
            "total_rows": evaluation.run.records.len(),
        });
        folder.put_json(&format!("{base}.json"), &aggregate)?;
    }
    Ok(())
}

/// Developer and name of the model, which are folders.
fn organisation<'a>(evaluation: &'a Evaluation<'_>) -> Result<(&'a str, &'a str), ExportError> {
    let parts = evaluation.model.split_once('/');
    let parts =
        parts.filter(|(developer, model)| [developer, model].iter().all(|part| file_name(part) == **part));
    parts.ok_or_else(|| ExportError::NoOrganisation {
        run: evaluation.name(),
        format: "Every Eval Ever",
        model: evaluation.model.clone(),
    })
}

/// A version 4 UUID whose random bits are those of a hash.
fn uuid(hash: &str) -> String {
    let variant = ['8', '9', 'a', 'b'][usize::from(hash.as_bytes()[16]) % 4];
    format!("{}-{}-4{}-{variant}{}-{}", &hash[..8], &hash[8..12], &hash[13..16], &hash[17..20], &hash[20..32])
}

/// The value as a string: text as it is, anything else as JSON.
fn string(value: Value) -> Value {
    match value {
        Value::String(_) => value,
        other => Value::String(other.to_string()),
    }
}

/// The fields as strings, those without a value left out.
fn strings(fields: impl IntoIterator<Item = (String, Value)>) -> Map<String, Value> {
    fields
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name, string(value)))
        .collect()
}

fn aggregate(evaluation: &Evaluation<'_>, id: &str, developer: &str, model: &str) -> Value {
    let manifest = &evaluation.run.manifest;
    let deployment =
        if IN_PROCESS.contains(&manifest.backend.name.as_str()) { "self_deployed" } else { "unknown" };
    let generation = generation(evaluation);
    let results: Vec<Value> =
        evaluation.summary().metrics.iter().map(|metric| result(evaluation, metric, &generation)).collect();
    json!({
        "schema_version": SCHEMA,
        "evaluation_id": id,
        "evaluation_timestamp": evaluation.started().timestamp().to_string(),
        "retrieved_timestamp": evaluation.ended().timestamp().to_string(),
        "source_metadata": {
            "source_name": "paravt-bench",
            "source_type": "evaluation_run",
            "source_organization_name": "unspecified",
            "evaluator_relationship": "other",
        },
        "eval_library": {
            "name": "paravt-bench",
            "version": manifest.binary,
            "additional_details": strings(evaluation.settings()),
        },
        "model_info": {
            "name": model,
            "id": evaluation.model,
            "developer": developer,
            "inference_engine": { "name": manifest.backend.name },
            "additional_details": { "deployment_type": deployment, "model_availability": "unknown" },
        },
        "evaluation_results": results,
    })
}

/// Identifier of a metric within the evaluation.
fn result_id(evaluation: &Evaluation<'_>, metric: &str) -> String {
    format!("{}/{metric}", evaluation.task())
}

fn result(evaluation: &Evaluation<'_>, metric: &MetricValue, generation: &Value) -> Value {
    let (task, cell) = (&evaluation.run.manifest.task, &evaluation.cell);
    let is_headline = metric.name == evaluation.summary().headline().name;
    let interval = match metric.over {
        _ if is_headline => cell.interval,
        Over::Samples => cell.over_samples().1,
        _ => None,
    };
    let mut uncertainty = json!({ "num_samples": evaluation.summary().n });
    if let Some((lower, upper)) = interval {
        uncertainty["confidence_interval"] = json!({
            "lower": lower, "upper": upper, "confidence_level": 0.95, "method": "clustered by video",
        });
    }
    if let Some(error) = cell.standard_error.filter(|_| is_headline) {
        uncertainty["standard_error"] = json!({ "value": error, "method": "clustered by video" });
    }
    let details = evaluation.losses().into_iter().map(|(name, count)| (name.to_owned(), json!(count)));
    let details = details.chain(evaluation.unfinished().map(|text| ("incomplete".to_owned(), json!(text))));
    json!({
        "evaluation_result_id": result_id(evaluation, &metric.name),
        "evaluation_name": task.title,
        "source_data": source(evaluation),
        "metric_config": {
            "metric_id": metric.name,
            "metric_name": metric.name,
            "metric_unit": "proportion",
            "lower_is_better": false,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": { "score": metric.value, "uncertainty": uncertainty, "details": strings(details) },
        "generation_config": generation,
    })
}

/// The rows: a dataset of the hub, or a private one.
fn source(evaluation: &Evaluation<'_>) -> Value {
    let manifest = &evaluation.run.manifest;
    let hub = &manifest.task.hub;
    let Some(repo) = hub.repos.first() else {
        return json!({ "dataset_name": manifest.task.title, "source_type": "other" });
    };
    json!({
        "dataset_name": manifest.task.title,
        "source_type": "hf_dataset",
        "hf_repo": repo,
        "hf_split": hub.split,
        "samples_number": manifest.selection.split_rows,
        "additional_details": strings(manifest.data_revision.iter().map(|it| ("revision".to_owned(), json!(it)))),
    })
}

fn generation(evaluation: &Evaluation<'_>) -> Value {
    let (manifest, plan) = (&evaluation.run.manifest, &evaluation.run.manifest.plan);
    let mut arguments = json!({
        "temperature": plan.temperature,
        "top_p": plan.request.sampling.top_p,
        "top_k": plan.request.sampling.top_k,
        "max_tokens": plan.max_tokens,
    });
    if manifest.offers_tool {
        // The manifest names no tool; its calls do.
        let said = evaluation.run.records.iter().flat_map(conversation::of);
        let called: BTreeSet<String> = said.flat_map(|said| said.calls).map(|call| call.name).collect();
        if !called.is_empty() {
            let tools: Vec<Value> = called.iter().map(|name| json!({ "name": name })).collect();
            arguments["agentic_eval_config"] = json!({ "available_tools": tools });
        }
    }
    json!({ "generation_args": arguments, "additional_details": strings(evaluation.plan()) })
}

fn sample(evaluation: &Evaluation<'_>, id: &str, record: &Record) -> Value {
    let said = conversation::of(record);
    let is_agentic = !record.transcript.tool_calls.is_empty();
    let (raw, gold) = (question(&record.sample), record.sample.gold.to_string());
    let turns = said.iter().filter(|said| said.role == Role::Assistant).count();
    let options = &record.sample.question.options;
    let mut line = json!({
        "schema_version": SCHEMA,
        "evaluation_id": id,
        "model_id": evaluation.model,
        "evaluation_name": evaluation.run.manifest.task.title,
        "sample_id": record.sample.uid,
        "sample_hash": sha256(format!("{raw}{gold}")),
        "interaction_type": if is_agentic { "agentic" } else { "single_turn" },
        "input": {
            "raw": raw,
            "formatted": prompt(record),
            "reference": [gold],
            "choices": (!options.is_empty()).then_some(options),
        },
        "answer_attribution": attribution(record, is_agentic.then(|| said.len().saturating_sub(1))),
        "evaluation": {
            "score": record.score.value,
            "is_correct": record.score.value >= 1.0,
            "num_turns": (turns > 0).then_some(turns),
            "tool_calls_count": record.transcript.tool_calls.len(),
        },
        "token_usage": tokens(record).map(|tokens| json!({
            "input_tokens": tokens.input,
            "output_tokens": tokens.output,
            "total_tokens": tokens.input + tokens.output,
        })),
        "performance": { "latency_ms": 1000.0 * record.measured.seconds },
        "error": failure(record),
        "metadata": metadata(record),
    });
    if counts(record, evaluation.run.manifest.plan.switches()) {
        line["evaluation_result_id"] = json!(result_id(evaluation, evaluation.metric()));
    }
    if is_agentic {
        line["messages"] = said.iter().enumerate().map(|(turn, said)| message(turn, said)).collect();
    } else {
        line["output"] = output(record, &said);
    }
    line
}

/// The one reply; nothing where there is none.
fn output(record: &Record, said: &[Said<'_>]) -> Value {
    let thoughts: Vec<&String> =
        said.iter().filter_map(|said| said.call).filter_map(|call| call.reasoning.as_ref()).collect();
    let texts: Vec<&String> =
        has_answer(record).then_some(&record.transcript.final_text).into_iter().collect();
    json!({ "raw": texts, "reasoning_trace": (!thoughts.is_empty()).then_some(thoughts) })
}

/// How the answer was found; `turn` is that of the last message where there are several.
fn attribution(record: &Record, turn: Option<usize>) -> Value {
    let Some(prediction) = &record.score.prediction else { return json!([]) };
    json!([{
        "turn_idx": turn.unwrap_or_default(),
        "source": turn.map_or("output.raw".to_owned(), |turn| format!("messages[{turn}].content")),
        "extracted_value": prediction,
        "extraction_method": record.score.rule.as_deref().unwrap_or("custom"),
        "is_terminal": true,
    }])
}

fn message(turn: usize, said: &Said<'_>) -> Value {
    let call = |call: &Called| json!({ "id": call.id, "name": call.name, "arguments": strings(call.arguments.clone()) });
    let calls: Vec<Value> = said.calls.iter().map(call).collect();
    json!({
        "turn_idx": turn,
        "role": said.role.as_str(),
        "content": texts(said.parts),
        "reasoning_trace": said.call.and_then(|call| call.reasoning.as_ref()),
        "tool_calls": (!calls.is_empty()).then_some(calls),
        "tool_call_id": said.answers.as_ref().map(|call| [&call.id]),
    })
}

fn metadata(record: &Record) -> Value {
    let tags = record.sample.tags.iter().map(|(tag, labels)| (tag.as_str(), labels.join(", ")));
    let facts = [
        ("row", record.sample.row.to_string()),
        ("video", record.sample.video.display().to_string()),
        ("outcome", json!(record.score.outcome).as_str().unwrap_or_default().to_owned()),
    ];
    json!(tags.chain(facts).collect::<BTreeMap<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_version_and_variant() {
        let uuid = uuid(&sha256("a run"));
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&uuid[14..15], "4");
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
    }
}
