//! A record as a sample of an inspect_ai log.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use paravt_files::sha256;
use paravt_suite::backend::FinishReason;
use paravt_suite::message::Role;
use paravt_suite::record::Record;
use serde_json::{Map, Value, json};

use super::super::ExportError;
use super::super::conversation::{self, Piece, Said, pieces};
use super::super::evaluation::{Evaluation, failure, has_answer, question, tokens};
use super::super::frames::FrameImages;
use super::log::scorer;
use super::usage;

/// The sample, its images once each in `attachments`.
pub(super) fn of(
    evaluation: &Evaluation<'_>,
    record: &Record,
    frames: Option<&FrameImages>,
) -> Result<Value, ExportError> {
    let mut attachments = Map::new();
    let said = conversation::of(record);
    let messages = said.iter().map(|said| message(evaluation, record, said, frames, &mut attachments));
    let messages: Vec<Value> = messages.collect::<Result<_, _>>()?;
    let options = &record.sample.question.options;
    let tokens = tokens(record).map(usage);
    let mut sample = json!({
        "id": record.sample.uid,
        "epoch": 1,
        "input": question(&record.sample),
        "choices": (!options.is_empty()).then_some(options),
        "target": record.sample.gold.to_string(),
        "messages": messages,
        "output": output(evaluation, record, tokens.as_ref()),
        "metadata": metadata(record),
        "attachments": attachments,
        "total_time": record.measured.seconds,
        "working_time": record.measured.seconds,
    });
    if let Some(tokens) = tokens {
        sample["model_usage"] = Value::Object(Map::from_iter([(evaluation.model.clone(), tokens)]));
    }
    if let Some(message) = failure(record) {
        sample["error"] = json!({ "message": message, "traceback": "", "traceback_ansi": "" });
    } else {
        sample["scores"] = Value::Object(Map::from_iter([score(evaluation, record)]));
    }
    Ok(sample)
}

/// The score under the scorer's name; that of a question which is reported apart under a name of its own.
fn score(evaluation: &Evaluation<'_>, record: &Record) -> (String, Value) {
    let (score, name) = (&record.score, scorer(evaluation));
    let is_apart = record.sample.gold.is_excluded_from_headline();
    let value = match name {
        "choice" if score.value >= 1.0 => json!("C"),
        "choice" => json!("I"),
        _ => json!(score.value),
    };
    let value = json!({
        "value": value,
        "answer": score.prediction,
        "explanation": score.rule.as_ref().map(|rule| format!("rule: {rule}")),
        "metadata": { "outcome": score.outcome, "value": score.value },
    });
    (if is_apart { "open_ended".to_owned() } else { name.to_owned() }, value)
}

/// The final reply; no choice where there is none.
fn output(evaluation: &Evaluation<'_>, record: &Record, usage: Option<&Value>) -> Value {
    if !has_answer(record) {
        return json!({ "model": evaluation.model, "choices": [], "usage": usage, "error": failure(record) });
    }
    let last = record.transcript.calls.iter().rev().find(|call| !call.step.contains('/'));
    let stop = match last.and_then(|call| call.finish_reason.as_ref()) {
        Some(FinishReason::Stop) => "stop",
        Some(FinishReason::Length) => "max_tokens",
        _ => "unknown",
    };
    json!({
        "model": evaluation.model,
        "choices": [{
            "message": {
                "role": "assistant",
                "source": "generate",
                "model": evaluation.model,
                "content": record.transcript.final_text,
            },
            "stop_reason": stop,
        }],
        "usage": usage,
        "time": record.measured.call_seconds.iter().sum::<f64>(),
    })
}

fn message(
    evaluation: &Evaluation<'_>,
    record: &Record,
    said: &Said<'_>,
    frames: Option<&FrameImages>,
    attachments: &mut Map<String, Value>,
) -> Result<Value, ExportError> {
    let has = |index| frames.is_some_and(|frames| frames.has(record, index));
    let mut content: Vec<Value> = Vec::new();
    if let Some(call) = said.call
        && let Some(reasoning) = call.reasoning.as_ref().filter(|_| !call.reassembled)
    {
        content.push(json!({ "type": "reasoning", "reasoning": reasoning }));
    }
    for piece in pieces(said.parts, has) {
        content.push(match piece {
            Piece::Text(text) => json!({ "type": "text", "text": text }),
            Piece::Image(index) => image(record, index, frames, attachments)?,
        });
    }
    let mut message = json!({ "role": said.role.as_str(), "content": content });
    match said.role {
        Role::Assistant => {
            message["source"] = json!("generate");
            message["model"] = json!(evaluation.model);
            let calls = said.calls.iter().map(|call| {
                json!({ "id": call.id, "function": call.name, "arguments": call.arguments, "type": "function" })
            });
            let calls: Vec<Value> = calls.collect();
            if !calls.is_empty() {
                message["tool_calls"] = Value::Array(calls);
            }
        }
        Role::Tool => {
            message["tool_call_id"] = json!(said.answers.as_ref().map(|call| &call.id));
            message["function"] = json!(said.answers.as_ref().map(|call| &call.name));
        }
        Role::User => message["source"] = json!("input"),
        Role::System => {}
    }
    Ok(message)
}

/// An image by reference to the attachments, which hold each once.
fn image(
    record: &Record,
    index: usize,
    frames: Option<&FrameImages>,
    attachments: &mut Map<String, Value>,
) -> Result<Value, ExportError> {
    let jpeg = frames.map(|frames| frames.jpeg(record, index)).transpose()?.flatten().unwrap_or_default();
    // Attachments are named by 32 hexadecimal digits.
    let name = sha256(&jpeg)[..32].to_owned();
    let reference = format!("attachment://{name}");
    attachments
        .entry(name)
        .or_insert_with(|| json!(format!("data:image/jpeg;base64,{}", STANDARD.encode(&jpeg))));
    Ok(json!({ "type": "image", "image": reference }))
}

fn metadata(record: &Record) -> Value {
    let (sample, transcript) = (&record.sample, &record.transcript);
    json!({
        "row": sample.row,
        "video": sample.video,
        "tags": sample.tags,
        "flags": sample.flags,
        "evidence": sample.evidence,
        "outcome": record.score.outcome,
        "tool_calls": transcript.tool_calls.len(),
        "dropped_calls": transcript.dropped_calls,
        "forced": transcript.forced,
        "truncated": transcript.truncated,
        "frame_loss": transcript.frame_loss,
    })
}
