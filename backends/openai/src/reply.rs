//! Reads replies; whatever is not a whole chat completion is a failure.

use paravt_suite::backend::{Completion, ErrorClass, FinishReason, StoppedBy, Usage, is_call};
use paravt_suite::message::StructuredCall;
use paravt_suite::redact;
use serde_json::Value;

use crate::errors::Failure;
use crate::secret::Secrets;
use crate::wire::{Choice, Content, Function, Reply};
use crate::wordings::{TOO_LONG, says};

pub(crate) fn malformed(message: impl Into<String>) -> Failure {
    Failure::new(ErrorClass::Malformed, message)
}

pub(crate) fn not_json(what: &str, error: &serde_json::Error, body: &[u8], secrets: &Secrets) -> Failure {
    let page = match body.trim_ascii_start().first() {
        Some(b'<') => {
            "; a web page came, not the API: --base-url is its address, e.g. http://HOST:PORT/v1, and no proxy or login \
             may stand before it"
        }
        _ => "",
    };
    malformed(format!("the reply is not a {what} ({error}){page}: {}", secrets.excerpt(body)))
}

/// A reply that came at once.
pub(crate) fn read(body: &[u8], secrets: &Secrets) -> Result<Reply, Failure> {
    serde_json::from_slice(body).map_err(|error| not_json("chat completion", &error, body, secrets))
}

/// A completion: text, structured calls, thoughts, each as the server gives them. No reply has more calls than the
/// `max_tokens` that it was asked for.
pub(crate) fn completion(reply: Reply, max_tokens: u32, secrets: &Secrets) -> Result<Completion, Failure> {
    if let Some(error) = reply.error.filter(is_error) {
        return Err(Failure::in_reply(&error, secrets));
    }
    let choice = reply.choices.unwrap_or_default().0.into_iter().next();
    let choice = choice.ok_or_else(|| malformed("the reply has no choice"))?;
    let stopped_by = stopped_by(&choice);
    let Choice { message, finish_reason, token_ids, logprobs: probabilities, .. } = choice;
    let message = message.ok_or_else(|| malformed("the choice has no message"))?;
    let text = message.content.map_or_else(String::new, Content::into_text);
    if let Some(reason @ ("abort" | "error")) = finish_reason.as_deref() {
        let (class, why) = match says(&text, &TOO_LONG) && text.len() < 200 {
            true => (ErrorClass::ContextLength, "the conversation is too long"),
            false => (ErrorClass::Server, "the server broke the generation off"),
        };
        return Err(Failure::new(class, format!("{why} (finish_reason `{reason}`)")));
    }
    let calls = message.tool_calls.unwrap_or_default().0.into_iter().map(|call| (call.id, call.function));
    let tool_calls: Vec<StructuredCall> = calls
        .chain(message.function_call.map(|function| (None, Some(function))))
        .map(|(id, function)| structured(id, function))
        .collect();
    if tool_calls.len() > max_tokens as usize {
        let calls = tool_calls.len();
        return Err(malformed(format!(
            "the reply has {calls} tool calls, and {max_tokens} tokens were allowed"
        )));
    }
    let reasoning = message.reasoning_content.or(message.reasoning).filter(|text| !text.is_empty());
    let refusal = message.refusal.filter(|text| !text.is_empty());
    // Beside thoughts, white space is what a server leaves of a reply without an answer.
    let no_text = text.is_empty() || (reasoning.is_some() && text.trim().is_empty());
    let usage = reply.usage.as_ref().and_then(usage);
    let finish_reason = finish_reason.filter(|reason| !reason.is_empty());
    let emptiness = (no_text && tool_calls.is_empty())
        .then(|| empty(finish_reason.as_deref(), reasoning.as_deref(), refusal.as_deref()));
    let mut completion = Completion {
        text,
        tool_calls,
        reasoning,
        refusal,
        finish_reason: finish_reason.map(|reason| ending(reason, usage, max_tokens, &stopped_by)),
        stopped_by,
        usage,
        model: reply.model.as_ref().and_then(Value::as_str).and_then(model_name),
        token_ids: token_ids.and_then(|ids| serde_json::from_value(ids).ok()),
        logprobs: probabilities.as_ref().and_then(logprobs),
        ..Completion::default()
    };
    scrub(&mut completion, secrets);
    match emptiness {
        None => Ok(completion),
        Some(message) => Err(emptied(completion, &secrets.redact(&message))),
    }
}

/// The failure of a reply with nothing in it.
fn emptied(completion: Completion, message: &str) -> Failure {
    // LMDeploy answers a conversation that fills its context in this way.
    let is_full = completion.is_cut() && completion.usage.is_some_and(|usage| usage.completion_tokens == 0);
    let failure = match is_full && completion.says_nothing() {
        true => Failure::new(
            ErrorClass::ContextLength,
            "the reply is empty, cut before its first token: the conversation fills the server's context",
        ),
        false => Failure::new(ErrorClass::EmptyReply, message),
    };
    Failure { reply: Some(Box::new(completion)), ..failure }
}

/// Token counts, where they are numbers in range. OpenAI names the thoughts among the generated tokens
/// (platform.openai.com/docs/guides/reasoning); Gemini counts them in the total alone (ai.google.dev/gemini-api/docs/openai).
fn usage(usage: &Value) -> Option<Usage> {
    let prompt_tokens = count(&usage["prompt_tokens"]);
    let total =
        count(&usage["total_tokens"]).zip(prompt_tokens).map(|(total, prompt)| total.saturating_sub(prompt));
    let named = count(&usage["completion_tokens"]);
    let in_total_alone = total.zip(named).map(|(total, named)| total.saturating_sub(named));
    let details = count(&usage["completion_tokens_details"]["reasoning_tokens"]);
    let read = (prompt_tokens.is_some() || named.is_some() || total.is_some()).then(|| Usage {
        prompt_tokens: prompt_tokens.unwrap_or(0),
        completion_tokens: named.max(total).unwrap_or(0),
        reasoning_tokens: in_total_alone.filter(|thoughts| *thoughts > 0).or(details),
    });
    read.and_then(Usage::in_range)
}

/// What servers and gateways call the end at the token limit, in small letters.
const AT_THE_LIMIT: [&str; 7] = [
    // The chat API of OpenAI; vLLM, SGLang, llama.cpp, Ollama, TGI.
    "length",     // Anthropic, Amazon Bedrock; Gemini and Cohere in capitals.
    "max_tokens", // OpenAI's Responses API (`incomplete_details.reason`).
    "max_output_tokens", "max_completion_tokens",
    // Mistral and inspect_ai, where the context is full.
    "model_length",                  // Anthropic and Z.ai, the same.
    "model_context_window_exceeded", // Cohere, the same.
    "error_limit",
];

/// The end of a reply. A server that does not say what stopped a reply (transformers serve before 5) may call the limit
/// a stop: a reply of as many tokens as were allowed is then taken for cut. One that does say so is believed.
fn ending(reason: String, usage: Option<Usage>, max_tokens: u32, stopped_by: &StoppedBy) -> FinishReason {
    let full = usage.is_some_and(|usage| usage.completion_tokens >= u64::from(max_tokens));
    match reason.as_str() {
        "stop" if full && *stopped_by == StoppedBy::Unsaid => FinishReason::Length,
        "stop" => FinishReason::Stop,
        _ if AT_THE_LIMIT.contains(&&*reason.to_ascii_lowercase()) => FinishReason::Length,
        _ => FinishReason::Other(reason),
    }
}

/// What ended a generation: a text, or none where a field for it is there, null or the number of a token.
fn stopped_by(choice: &Choice) -> StoppedBy {
    let fields = [&choice.stop_reason, &choice.matched_stop];
    match fields.iter().find_map(|field| field.as_ref()?.as_str()) {
        Some(text) => StoppedBy::Text(text.to_owned()),
        None if fields.iter().any(|field| field.is_some()) => StoppedBy::Model,
        None => StoppedBy::Unsaid,
    }
}

/// Characters of a model's name that are kept.
const LONGEST_NAME: usize = 200;

/// The name under which a server answers, without the folders of its machine; `None` for none.
fn model_name(name: &str) -> Option<String> {
    let file = if name.starts_with('/') { name.trim_end_matches('/').rsplit('/').next() } else { Some(name) };
    let name = redact::urls(file?.trim());
    (!name.is_empty()).then(|| name.chars().take(LONGEST_NAME).collect())
}

/// `"error": null`, `false`, `{}` and `""` are no errors.
pub(crate) fn is_error(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(set) => *set,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Number(_) => true,
    }
}

/// A whole number of tokens, also where it is written `10.0`.
fn count(value: &Value) -> Option<u64> {
    let float = || value.as_f64().filter(|value| *value >= 0.0 && value.fract() == 0.0 && *value < 1e15);
    value.as_u64().or_else(|| float().map(|value| value as u64))
}

fn logprobs(value: &Value) -> Option<Vec<f32>> {
    let tokens = value["content"].as_array()?;
    tokens.iter().map(|token| token["logprob"].as_f64().map(|value| value as f32)).collect()
}

fn structured(id: Option<String>, function: Option<Function>) -> StructuredCall {
    let (name, arguments) = function.map(|function| (function.name, function.arguments)).unwrap_or_default();
    StructuredCall {
        id: id.unwrap_or_default(),
        name: name.unwrap_or_default(),
        arguments: match arguments {
            Some(Value::String(text)) => text,
            Some(value) => value.to_string(),
            None => String::new(),
        },
    }
}

/// Why a reply has nothing in it, in the server's words where it gives some.
fn empty(finish_reason: Option<&str>, reasoning: Option<&str>, refusal: Option<&str>) -> String {
    let mut message = format!(
        "the reply has neither text nor tool calls (finish_reason {})",
        finish_reason.map_or("absent".to_owned(), |reason| format!("`{reason}`"))
    );
    if let Some(refusal) = refusal {
        message.push_str(&format!(
            "; the server refuses: {}",
            refusal.chars().take(crate::EXCERPT).collect::<String>()
        ));
    }
    match (reasoning, finish_reason) {
        (Some(reasoning), Some("length")) => message.push_str(&format!(
            "; the token limit was reached within the {} characters that the server's --reasoning-parser took \
             as thoughts: raise --max-tokens or drop that flag",
            reasoning.chars().count()
        )),
        (Some(reasoning), _) => message.push_str(&format!(
            "; {} characters of it went to the thoughts (field reasoning): start the server without \
             --reasoning-parser",
            reasoning.chars().count()
        )),
        (None, Some(reason)) if is_call(reason) => message.push_str(
            "; the server's tool parser took a call and gave none back: start it without --tool-call-parser \
             and --enable-auto-tool-choice",
        ),
        _ => {}
    }
    message
}

/// A server may repeat the key that it was sent; a record may not hold it.
fn scrub(completion: &mut Completion, secrets: &Secrets) {
    secrets.scrub(&mut completion.text);
    for text in
        [&mut completion.reasoning, &mut completion.refusal, &mut completion.model].into_iter().flatten()
    {
        secrets.scrub(text);
    }
    if let Some(FinishReason::Other(reason)) = &mut completion.finish_reason {
        secrets.scrub(reason);
    }
    for call in &mut completion.tool_calls {
        for text in [&mut call.id, &mut call.name, &mut call.arguments] {
            secrets.scrub(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(body: &[u8]) -> Result<Completion, Failure> {
        completion(super::read(body, &Secrets::default())?, 64, &Secrets::default())
    }

    fn read(body: &Value) -> Result<Completion, Failure> {
        of(body.to_string().as_bytes())
    }

    fn choice(message: Value, finish: &str) -> Value {
        json!({"choices": [{"message": message, "finish_reason": finish}]})
    }

    #[test]
    fn only_whole_completions_are_answers() {
        let good = json!({
            "choices": [{"message": {"content": "B"}, "finish_reason": "length"}], "usage": {"prompt_tokens": 3},
        });
        let found = read(&good).unwrap();
        assert_eq!((found.text.as_str(), found.finish_reason), ("B", Some(FinishReason::Length)));
        let good = good.to_string();
        for bad in [
            &good[..good.len() / 2],
            "",
            "<html>",
            r#"{"choices":[]}"#,
            r#"{"choices":null}"#,
            r#"{"choices":[{"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"message":{"content":5},"finish_reason":"stop"}]}"#,
        ] {
            assert_eq!(of(bad.as_bytes()).unwrap_err().class, ErrorClass::Malformed);
        }
        let page = of(b"<!DOCTYPE html><html>Log in</html>").unwrap_err();
        assert_eq!(page.class, ErrorClass::Malformed);
        assert!(page.message.contains("a web page came") && page.message.contains("--base-url"));
    }

    #[test]
    fn a_reply_without_text_and_calls_is_an_error_with_its_reason() {
        for (message, finish, words) in [
            (json!({"content": null}), "stop", "finish_reason `stop`"),
            (json!({"content": ""}), "stop", "neither text nor tool calls"),
            (json!({}), "content_filter", "`content_filter`"),
            (json!({"content": "", "tool_calls": []}), "tool_calls", "--tool-call-parser"),
            (json!({"content": null, "reasoning_content": "hm"}), "length", "raise --max-tokens"),
            (json!({"content": null, "reasoning": "hm"}), "stop", "2 characters"),
            (json!({"content": "\n\n", "reasoning": "hm"}), "stop", "2 characters"),
            (json!({"content": null, "refusal": "I cannot"}), "stop", "I cannot"),
        ] {
            let failure = read(&choice(message, finish)).unwrap_err();
            assert_eq!(failure.class, ErrorClass::EmptyReply);
            assert!(failure.message.contains(words), "{}", failure.message);
            assert!(!failure.retryable());
        }
        let without_reason = json!({"choices": [{"message": {"content": null}}]});
        assert!(read(&without_reason).unwrap_err().message.contains("finish_reason absent"));
    }

    #[test]
    fn an_empty_reply_is_held_with_what_else_the_server_says() {
        let held = |choice: &str| {
            let usage = r#"{"prompt_tokens": 9, "completion_tokens": 1}"#;
            let failure =
                of(format!(r#"{{"choices": [{choice}], "usage": {usage}}}"#).as_bytes()).unwrap_err();
            assert!(failure.class == ErrorClass::EmptyReply && !failure.retryable(), "{choice}");
            let held = failure.reply.unwrap();
            assert_eq!(held.usage.unwrap().prompt_tokens, 9);
            held
        };
        for nothing in [
            r#"{"message": {"content": null}, "finish_reason": "stop"}"#,
            r#"{"message": {"content": ""}, "finish_reason": "stop"}"#,
            r#"{"message": {"content": "", "refusal": "", "reasoning": "", "tool_calls": []}, "finish_reason": "length"}"#,
            r#"{"message": {"content": []}, "finish_reason": "content_filter"}"#,
            r#"{"message": {}}"#,
        ] {
            assert!(held(nothing).says_nothing(), "{nothing}");
        }
        for more in [
            r#"{"message": {"content": null, "reasoning": "hm"}, "finish_reason": "stop"}"#,
            r#"{"message": {"content": "\n", "reasoning_content": "hm"}, "finish_reason": "length"}"#,
            r#"{"message": {"content": "", "refusal": "I cannot"}, "finish_reason": "stop"}"#,
            r#"{"message": {"content": null}, "finish_reason": "tool_calls"}"#,
            r#"{"message": {"content": ""}, "finish_reason": "function_call"}"#,
        ] {
            assert!(!held(more).says_nothing(), "{more}");
        }
    }

    #[test]
    fn the_end_at_the_token_limit_is_known_by_every_name() {
        // The limit of the request is 64.
        for (fields, tokens, cut) in [
            (r#""finish_reason":"length""#, 3, true),
            (r#""finish_reason":"max_tokens""#, 3, true),
            (r#""finish_reason":"MAX_TOKENS""#, 3, true),
            (r#""finish_reason":"model_length""#, 3, true),
            (r#""finish_reason":"max_output_tokens""#, 3, true),
            (r#""finish_reason":"stop""#, 3, false),
            (r#""finish_reason":"stop""#, 64, true),
            // These servers say what stopped a reply.
            (r#""finish_reason":"stop","stop_reason":null"#, 64, false),
            (r#""finish_reason":"stop","matched_stop":151645"#, 64, false),
            (r#""finish_reason":"tool_calls""#, 64, false),
            (r#""finish_reason":null"#, 64, false),
        ] {
            let choice = format!(r#"{{"message":{{"content":"B"}},{fields}}}"#);
            let usage = format!(r#"{{"prompt_tokens":9,"completion_tokens":{tokens}}}"#);
            let found = of(format!(r#"{{"choices":[{choice}],"usage":{usage}}}"#).as_bytes()).unwrap();
            assert_eq!(found.is_cut(), cut, "{fields} {tokens}");
        }
    }

    #[test]
    fn the_model_that_answers_is_read_without_folders_and_keys() {
        let secrets = Secrets::new(["key-0123456789".to_owned()]);
        for (said, model) in [
            (json!("gpt-4o-2024-08-06"), Some("gpt-4o-2024-08-06")),
            (json!("Qwen/Qwen3-VL-8B-Instruct"), Some("Qwen/Qwen3-VL-8B-Instruct")),
            (json!("/home/me/models/qwen.gguf"), Some("qwen.gguf")),
            (json!("key-0123456789"), Some("[key]")),
            (json!(""), None),
            (json!(null), None),
            (json!(7), None),
        ] {
            let mut body = choice(json!({"content": "B"}), "stop");
            body["model"] = said.clone();
            let reply = super::read(body.to_string().as_bytes(), &secrets).unwrap();
            assert_eq!(completion(reply, 64, &secrets).unwrap().model.as_deref(), model, "{said}");
        }
    }

    #[test]
    fn errors_beside_choices_and_broken_generations_are_failures() {
        let mut both = choice(json!({"content": "B"}), "stop");
        both["error"] = json!({"message": "engine died", "code": 500});
        let failure = read(&both).unwrap_err();
        assert!(failure.class == ErrorClass::Server && failure.message.contains("engine died"));
        both["error"] = Value::Null;
        assert_eq!(read(&both).unwrap().text, "B");
        let failure = read(&json!({"error": "x"})).unwrap_err();
        assert_eq!(failure.class, ErrorClass::Server);
        for finish in ["abort", "error"] {
            assert_eq!(
                read(&choice(json!({"content": "The ans"}), finish)).unwrap_err().class,
                ErrorClass::Server
            );
        }
        // LMDeploy refuses a conversation that is too long in replies: older ones with words, others without a token.
        let words = "internal error happened, status code ResponseType.INPUT_LENGTH_ERROR";
        let failure = read(&choice(json!({"content": words}), "error")).unwrap_err();
        assert_eq!(failure.class, ErrorClass::ContextLength);
        let mut no_token = choice(json!({"content": ""}), "length");
        no_token["usage"] = json!({"prompt_tokens": 9, "completion_tokens": 0});
        let failure = read(&no_token).unwrap_err();
        assert!(failure.class == ErrorClass::ContextLength && !failure.retryable());
        assert!(failure.reply.unwrap().says_nothing());
    }

    #[test]
    fn calls_and_thoughts_are_read_in_every_spelling() {
        let message = json!({
            "content": null, "reasoning": "hm",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "crop_video", "arguments": "{\"start_time\": 1}"}},
                {"function": {"name": "crop_video", "arguments": {"start_time": 2}}},
            ],
        });
        let found = read(&choice(message, "tool_calls")).unwrap();
        assert_eq!(found.text, "");
        assert_eq!(found.reasoning.as_deref(), Some("hm"));
        let arguments: Vec<&str> = found.tool_calls.iter().map(|call| call.arguments.as_str()).collect();
        assert_eq!(arguments, [r#"{"start_time": 1}"#, r#"{"start_time":2}"#]);
        let old = json!({"content": null, "function_call": {"name": "crop_video", "arguments": "{}"}});
        assert_eq!(read(&choice(old, "function_call")).unwrap().tool_calls.len(), 1);
        let parts = json!({"content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]});
        assert_eq!(read(&choice(parts, "stop")).unwrap().text, "AB");
    }

    #[test]
    fn invalid_token_counts_do_not_fail_a_reply() {
        for (usage, wanted) in [
            (json!({"prompt_tokens": 10.0, "completion_tokens": 2}), Some((10, 2))),
            (json!({"prompt_tokens": -5, "completion_tokens": 2}), Some((0, 2))),
            (json!({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 40}), Some((10, 30))),
            (json!({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 0}), Some((10, 2))),
            (json!({"prompt_tokens": null}), None),
            (json!("many"), None),
            // No record may hold more than 10^12.
            (json!({"prompt_tokens": 9, "completion_tokens": 1}), Some((9, 1))),
            (
                json!({"prompt_tokens": 1_000_000_000_000_u64, "completion_tokens": 1.0}),
                Some((1_000_000_000_000, 1)),
            ),
            (json!({"prompt_tokens": u64::MAX, "completion_tokens": 1}), None),
            (json!({"prompt_tokens": 9, "completion_tokens": 1_000_000_000_001_u64}), None),
            (json!({"prompt_tokens": 9, "completion_tokens": 1e14}), None),
        ] {
            let mut body = choice(json!({"content": "B"}), "stop");
            body["usage"] = usage;
            body["choices"][0]["logprobs"] = json!({"content": [{"logprob": null}]});
            let found = read(&body).unwrap();
            assert_eq!(found.usage.map(|usage| (usage.prompt_tokens, usage.completion_tokens)), wanted);
            assert_eq!((found.text.as_str(), found.logprobs), ("B", None));
        }
    }
}
