//! Agent Trajectory Interchange Format, version 1.7 (Harbor): `TASK/SAMPLE.json`, a conversation each.
//!
//! Fields are those of `harbor/models/trajectories` of harbor 0.26.0, which knows no others. Frames are texts with their
//! times: the format has images as files, and no video.

use paravt_suite::message::Role;
use paravt_suite::record::Record;
use serde_json::{Value, json};

use super::ExportError;
use super::conversation::{self, Said, texts};
use super::evaluation::{Evaluation, failure, tokens};
use super::folder::Folder;
use crate::names::file_name;

pub(super) fn write(evaluations: &[Evaluation<'_>], folder: &mut Folder) -> Result<(), ExportError> {
    for evaluation in evaluations {
        for record in &evaluation.run.records {
            let draw = if record.epoch > 0 { format!("-{}", record.epoch) } else { String::new() };
            let sample = format!("{}{draw}", file_name(&record.sample.uid));
            let name = format!("{}/{sample}.json", file_name(evaluation.task()));
            folder.put_json(&name, &trajectory(evaluation, record))?;
        }
    }
    Ok(())
}

fn trajectory(evaluation: &Evaluation<'_>, record: &Record) -> Value {
    let said = conversation::of(record);
    let mut steps: Vec<Value> = Vec::new();
    for one in &said {
        match (one.role, &one.answers, steps.last_mut()) {
            // Results stand in the step that called.
            (Role::Tool, Some(call), Some(step)) => {
                let result = json!({ "source_call_id": call.id, "content": texts(one.parts) });
                match step["observation"]["results"].as_array_mut() {
                    Some(results) => results.push(result),
                    None => step["observation"] = json!({ "results": [result] }),
                }
            }
            _ => steps.push(step(evaluation, one)),
        }
    }
    // A sample that failed before it was asked.
    if steps.is_empty() {
        steps.push(json!({ "source": "user", "message": "" }));
    }
    for (number, step) in (1..).zip(&mut steps) {
        step["step_id"] = json!(number);
    }
    let mut metrics = json!({ "total_steps": steps.len() });
    if let Some(tokens) = tokens(record) {
        metrics["total_prompt_tokens"] = json!(tokens.input);
        metrics["total_completion_tokens"] = json!(tokens.output);
    }
    let manifest = &evaluation.run.manifest;
    json!({
        "schema_version": "ATIF-v1.7",
        "session_id": format!("{}/{}", manifest.id.as_deref().unwrap_or(evaluation.task()), record.sample.uid),
        "agent": { "name": "paravt-bench", "version": manifest.binary, "model_name": evaluation.model },
        "final_metrics": metrics,
        "steps": steps,
        "extra": {
            "task": manifest.task.name, "sample": record.sample, "score": record.score, "error": failure(record),
            "settings": evaluation.settings(),
        },
    })
}

fn step(evaluation: &Evaluation<'_>, said: &Said<'_>) -> Value {
    let source = match said.role {
        Role::System => "system",
        Role::User | Role::Tool => "user",
        Role::Assistant => "agent",
    };
    let mut step = json!({ "source": source, "message": texts(said.parts) });
    if said.role != Role::Assistant {
        return step;
    }
    step["model_name"] = json!(evaluation.model);
    if !said.calls.is_empty() {
        let calls = said.calls.iter().map(|call| {
            json!({ "tool_call_id": call.id, "function_name": call.name, "arguments": call.arguments })
        });
        step["tool_calls"] = calls.collect();
    }
    let Some(call) = said.call else { return step };
    if let Some(reasoning) = call.reasoning.as_ref().filter(|_| !call.reassembled) {
        step["reasoning_content"] = json!(reasoning);
    }
    if let Some(usage) = call.usage {
        step["metrics"] =
            json!({ "prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens });
    }
    step
}
