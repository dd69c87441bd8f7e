//! Reads replies; whatever is no whole chat completion is a failure.

use paravt_suite::backend::{Completion, ErrorClass, FinishReason, Usage};
use serde::Deserialize;

use crate::errors::{Failure, excerpt};

#[derive(Deserialize)]
struct Reply {
    choices: Vec<Choice>,
    usage: Option<TokenCounts>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<ReplyMessage>,
    finish_reason: Option<String>,
    logprobs: Option<Logprobs>,
    /// vLLM's `return_token_ids`.
    token_ids: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct ReplyMessage {
    content: Option<String>,
}

#[derive(Deserialize)]
struct TokenCounts {
    #[serde(default)]
    prompt_tokens: u64,
    completion_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Logprobs {
    content: Option<Vec<TokenLogprob>>,
}

#[derive(Deserialize)]
struct TokenLogprob {
    logprob: f32,
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

fn malformed(message: String) -> Failure {
    Failure::new(ErrorClass::Malformed, message)
}

fn no_json(what: &str, error: &serde_json::Error, body: &[u8]) -> Failure {
    malformed(format!("the reply is no {what} ({error}): {}", excerpt(&String::from_utf8_lossy(body))))
}

/// A completion. Only `content` is read, as the reference driver does: a server that splits
/// reasoning off (`reasoning_content`) has to be told not to.
pub fn completion(body: &[u8]) -> Result<Completion, Failure> {
    let reply: Reply =
        serde_json::from_slice(body).map_err(|error| no_json("chat completion", &error, body))?;
    let choice =
        reply.choices.into_iter().next().ok_or_else(|| malformed("the reply has no choice".to_owned()))?;
    let message = choice.message.ok_or_else(|| malformed("the choice has no message".to_owned()))?;
    let text = match (message.content, &choice.finish_reason) {
        (Some(text), _) => text,
        // Nothing was generated, and the server says why: an empty answer.
        (None, Some(_)) => String::new(),
        (None, None) => {
            return Err(malformed("the message has neither content nor a finish reason".to_owned()));
        }
    };
    Ok(Completion {
        text,
        finish_reason: choice.finish_reason.map(|reason| match reason.as_str() {
            "stop" => FinishReason::Stop,
            "length" => FinishReason::Length,
            _ => FinishReason::Other(reason),
        }),
        usage: reply.usage.map(|usage| Usage {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens.unwrap_or(0),
        }),
        token_ids: choice.token_ids,
        logprobs: choice
            .logprobs
            .and_then(|logprobs| logprobs.content)
            .map(|content| content.iter().map(|token| token.logprob).collect()),
        ..Completion::default()
    })
}

/// The first model of a list.
pub fn first_model(body: &[u8]) -> Result<String, Failure> {
    let models: Models =
        serde_json::from_slice(body).map_err(|error| no_json("list of models", &error, body))?;
    let first = models.data.into_iter().next();
    first.map(|model| model.id).ok_or_else(|| malformed("the server lists no model; name one".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_completions_are_answers() {
        let good = br#"{"choices":[{"message":{"content":"B"},"finish_reason":"length"}],"usage":{"prompt_tokens":3}}"#;
        let found = completion(good).unwrap();
        assert_eq!((found.text.as_str(), found.finish_reason), ("B", Some(FinishReason::Length)));
        let empty = br#"{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}"#;
        assert_eq!(completion(empty).unwrap().text, "");
        for bad in [
            &good[..good.len() / 2],
            b"",
            b"<html>",
            br#"{"choices":[]}"#,
            br#"{"choices":[{"message":{"content":null}}]}"#,
            br#"{"choices":[{"finish_reason":"stop"}]}"#,
            br#"{"error":"x"}"#,
        ] {
            assert_eq!(completion(bad).unwrap_err().class, ErrorClass::Malformed);
        }
    }
}
