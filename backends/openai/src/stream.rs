//! Streamed replies (server-sent events), put together into the reply they would have been.
//!
//! A server that parses calls and reasoning out of a reply strips their white space; the deltas of its stream still have
//! it. And only a stream says when the first token came.

use paravt_suite::backend::ErrorClass;
use serde_json::{Map, Value, json};

use crate::errors::Failure;
use crate::secret::Secrets;

/// Whether a body is a stream of events.
pub(crate) fn is_stream(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"data:")
}

/// Fields of a delta that hold text.
const TEXTS: [&str; 4] = ["content", "reasoning_content", "reasoning", "refusal"];

/// Whether a generated token has come: the first delta of a stream may hold the role alone.
pub(crate) fn has_token(body: &[u8]) -> bool {
    let generated = |delta: &Value| {
        let texts = TEXTS.iter().any(|name| delta[name].as_str().is_some_and(|text| !text.is_empty()));
        texts || delta["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty())
    };
    let events = body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    events
        .filter_map(|event| serde_json::from_slice::<Value>(event).ok())
        .any(|event| generated(&event["choices"][0]["delta"]))
}

/// The whole reply of a stream as one chat completion.
///
/// # Errors
/// The stream holds an event that is not JSON (shown without `secrets`: a server that fails within a stream says
/// why there), is not UTF-8, or ends before the reply does.
pub(crate) fn whole(body: &[u8], secrets: &Secrets) -> Result<Vec<u8>, Failure> {
    let broken = |what: &str| Failure::new(ErrorClass::Malformed, format!("the reply's stream {what}"));
    let text = std::str::from_utf8(body).map_err(|_| broken("is not UTF-8"))?;
    let (mut message, mut calls) = (Map::new(), Vec::<Value>::new());
    let (mut finish, mut stop, mut usage) = (Value::Null, [Value::Null, Value::Null], Value::Null);
    let events = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    for event in events.filter(|event| !event.is_empty() && *event != "[DONE]") {
        let event: Value = serde_json::from_str(event).map_err(|_| {
            broken(&format!("holds an event that is not JSON: {}", secrets.excerpt(event.as_bytes())))
        })?;
        if !event["error"].is_null() {
            return Ok(json!({"error": event["error"]}).to_string().into_bytes());
        }
        if !event["usage"].is_null() {
            usage = event["usage"].clone();
        }
        let choice = &event["choices"][0];
        if !choice["finish_reason"].is_null() {
            finish = choice["finish_reason"].clone();
            stop = ["stop_reason", "matched_stop"].map(|name| choice[name].clone());
        }
        // A server may send its thoughts under both names: each is kept apart.
        for name in TEXTS {
            if let Some(more) = choice["delta"][name].as_str() {
                append(&mut message, name, more);
            }
        }
        for delta in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            add_call(&mut calls, delta);
        }
    }
    if finish.is_null() {
        return Err(broken("ended before the reply did"));
    }
    message.insert("tool_calls".to_owned(), Value::Array(calls));
    let [reason, matched] = stop;
    let choice =
        json!({"message": message, "finish_reason": finish, "stop_reason": reason, "matched_stop": matched});
    let reply = json!({"choices": [choice], "usage": usage});
    Ok(reply.to_string().into_bytes())
}

fn append(fields: &mut Map<String, Value>, name: &str, more: &str) {
    let text = fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let text = format!("{text}{more}");
    fields.insert(name.to_owned(), Value::String(text));
}

/// A delta of a call: the first one of an index opens it, the others append to its arguments.
fn add_call(calls: &mut Vec<Value>, delta: &Value) {
    let index = &delta["index"];
    match calls.iter_mut().find(|call| call["index"] == *index && !index.is_null()) {
        Some(call) => {
            if let Some(more) = delta["function"]["arguments"].as_str()
                && let Some(function) = call["function"].as_object_mut()
            {
                append(function, "arguments", more);
            }
        }
        None => calls.push(delta.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::completion;

    const STREAM: &str = r#"data: {"choices":[{"delta":{"role":"assistant"},"index":0}]}

data: {"choices":[{"delta":{"reasoning_content":"\nlook"},"index":0}]}

data: {"choices":[{"delta":{"reasoning_content":" closer\n"},"index":0}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"crop_video","arguments":"{\"start_"}}]},"index":0}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"time\": 4}"}}]},"index":0}]}

data: {"choices":[{"delta":{"content":" B"},"index":0}]}

data: {"choices":[{"delta":{},"index":0,"finish_reason":"tool_calls"}],"usage":{"completion_tokens":19,"prompt_tokens":160}}

data: [DONE]
"#;

    #[test]
    fn pieces_become_one_reply_with_its_white_space() {
        assert!(is_stream(STREAM.as_bytes()) && !is_stream(b"{}"));
        let found =
            completion(&whole(STREAM.as_bytes(), &Secrets::default()).unwrap(), &Secrets::default()).unwrap();
        assert_eq!((found.text.as_str(), found.reasoning.as_deref()), (" B", Some("\nlook closer\n")));
        assert_eq!(found.tool_calls[0].arguments, r#"{"start_time": 4}"#);
        assert_eq!(found.usage.unwrap().prompt_tokens, 160);
    }

    #[test]
    fn the_stop_text_is_read_under_both_names_and_the_id_of_a_token_is_none() {
        for (said, known) in [
            (r#""stop_reason":"</answer>""#, Some("</answer>")),
            (r#""matched_stop":"</answer>""#, Some("</answer>")),
            (r#""stop_reason":null,"matched_stop":"</answer>""#, Some("</answer>")),
            (r#""stop_reason":151645"#, None),
            (r#""usage":null"#, None),
        ] {
            let choice = format!(r#"{{"delta":{{"content":"B"}},"finish_reason":"stop",{said}}}"#);
            let events = format!("data: {{\"choices\":[{choice}]}}\n\ndata: [DONE]\n");
            let streamed = whole(events.as_bytes(), &Secrets::default()).unwrap();
            let at_once = format!(r#"{{"choices":[{}]}}"#, choice.replace("delta", "message"));
            for body in [&streamed[..], at_once.as_bytes()] {
                let found = completion(body, &Secrets::default()).unwrap();
                assert_eq!((found.text.as_str(), found.stopped_by.as_deref()), ("B", known), "{said}");
            }
        }
    }

    #[test]
    fn the_first_token_is_the_first_delta_with_text_or_a_call() {
        let events: Vec<&str> = STREAM.split_inclusive("\n\n").collect();
        let first = (0..events.len()).find(|&end| has_token(events[..=end].concat().as_bytes()));
        assert_eq!(first, Some(1), "the role alone was not generated");
        assert!(has_token(events[3].as_bytes()), "a call is text that a server took apart");
        let (whole, cut) = (events[1].as_bytes(), events[1].len() / 2);
        assert!(has_token(whole) && !has_token(&whole[..cut]), "half an event");
        assert!(!has_token(b"data: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n"));
    }

    #[test]
    fn broken_streams_are_errors() {
        for bad in [
            "data: {\"choices\":[{\"delta\":{\"content\":\"B\"}}]}\n\n",
            "data: {\"cho\n\n",
            "data: [DONE]\n\n",
        ] {
            assert_eq!(
                whole(bad.as_bytes(), &Secrets::default()).unwrap_err().class,
                ErrorClass::Malformed,
                "{bad}"
            );
        }
        let said = whole(b"data: Expecting value: line 1\n\n", &Secrets::default()).unwrap_err().message;
        assert!(said.ends_with("an event that is not JSON: Expecting value: line 1"), "{said}");
        let failed = whole(b"data: {\"error\": \"engine died\"}\n\n", &Secrets::default()).unwrap();
        assert!(completion(&failed, &Secrets::default()).unwrap_err().message.contains("engine died"));
    }
}
