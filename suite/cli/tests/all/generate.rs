//! An answer to each conversation: what is sent, what is printed, and what is said of a bad file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::server::{Fault, Script, Server};
use crate::common::{bench, ends, ok, text};
use serde_json::{Value, json};

fn conversation(folder: &Path, content: &str) -> PathBuf {
    let path = folder.join("conversation.json");
    std::fs::write(&path, content).unwrap();
    path
}

fn generate(messages: &Path, server: &str, extra: &[&str]) -> Command {
    let mut command = bench();
    command.args(["generate", "--base-url", server, "--tries", "1", "--messages"]).arg(messages);
    command.args(extra);
    command
}

fn printed(command: Command) -> Value {
    serde_json::from_slice(&ok(command).stdout).unwrap()
}

const QUESTION: &str =
    r#"[{"role": "system", "content": "Be short."}, {"role": "user", "content": "Which?"}]"#;

#[test]
fn the_answer_is_printed_with_what_the_server_says_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Script::default());
    let messages = conversation(dir.path(), QUESTION);
    let plain = ok(generate(&messages, &server.base_url, &[]));
    let answer = String::from_utf8(plain.stdout).unwrap();
    assert!(answer.starts_with("<answer>") && answer.ends_with("</answer>\n"), "{answer}");

    let found = printed(generate(&messages, &server.base_url, &["--json"]));
    assert_eq!(found["text"], answer.trim_end());
    assert_eq!(found["finish_reason"], "stop");
    assert_eq!(found["prompt_tokens"], 2, "the scripted server counts messages");
    assert_eq!(found["completion_tokens"], answer.trim_end().len());
    assert_eq!(found["retries"], 0);
    assert!(found["seconds"].as_f64().unwrap() > 0.0);
    // The server gives neither: not an empty list, which would say that there were no tokens.
    let fields = found.as_object().unwrap();
    assert_eq!((fields.get("token_ids"), fields.get("logprobs")), (Some(&Value::Null), Some(&Value::Null)));
}

#[test]
fn several_conversations_are_answered_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Script::default());
    let first = conversation(dir.path(), QUESTION);
    let other = dir.path().join("other.json");
    std::fs::write(&other, r#"[{"role": "user", "content": "Which?"}]"#).unwrap();
    let other = other.to_str().unwrap();
    let output = ok(generate(&first, &server.base_url, &[other, "--json"]));
    let answers = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let prompts: Vec<Value> = answers.map(|answer| answer.unwrap()["prompt_tokens"].clone()).collect();
    assert_eq!(prompts, [2, 1], "the scripted server counts messages");

    // A file that cannot be read ends it before anything is asked.
    std::fs::write(other, "[").unwrap();
    let output = generate(&first, &server.base_url, &[other]).output().unwrap();
    assert!(output.stdout.is_empty() && !output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("other.json: not JSON"), "{}", text(&output));
}

#[test]
fn tokens_and_a_cut_answer_are_passed_on() {
    let dir = tempfile::tempdir().unwrap();
    let choice = BTreeMap::from([
        ("finish_reason", json!("length")),
        ("token_ids", json!([5, 6])),
        ("logprobs", json!({"content": [{"logprob": -0.5}, {"logprob": -0.25}]})),
    ]);
    let server = Server::start(Script { choice, ..Script::default() });
    let found = printed(generate(
        &conversation(dir.path(), QUESTION),
        &server.base_url,
        &["--json", "--logprobs", "--max-tokens", "7", "--temperature", "0.5", "--seed", "11"],
    ));
    assert_eq!(found["finish_reason"], "length");
    assert_eq!(found["token_ids"], json!([5, 6]));
    assert_eq!(found["logprobs"], json!([-0.5, -0.25]));
    let sent = server.latest.lock().unwrap().clone();
    assert_eq!(sent["model"], "scripted", "the first that the server lists");
    assert_eq!(sent["messages"], serde_json::from_str::<Value>(QUESTION).unwrap());
    assert_eq!(
        (&sent["max_tokens"], &sent["temperature"], &sent["seed"], &sent["logprobs"]),
        (&json!(7), &json!(0.5), &json!(11), &json!(true))
    );
}

#[test]
fn a_bad_conversation_is_named_and_nothing_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Script::default());
    for (content, problem) in [
        ("[{", "not JSON"),
        ("[]", "a non-empty list of messages"),
        (
            r#"[{"role": "robot", "content": "x"}]"#,
            r#"message 1: role: expected system, user or assistant, found "robot""#,
        ),
        (r#"{"messages": [{"role": "user"}]}"#, "message 1: content"),
        (
            r#"[{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///nowhere.png"}}]}]"#,
            "message 2: part 1: /nowhere.png: no such file",
        ),
    ] {
        let mut command = generate(&conversation(dir.path(), content), &server.base_url, &[]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{content}: {}", text(&output));
        assert!(text(&output).contains("conversation.json"), "{}", text(&output));
        assert!(text(&output).contains(problem), "{problem}: {}", text(&output));
        assert!(output.stdout.is_empty());
    }
    ends(2, generate(&dir.path().join("missing.json"), &server.base_url, &[]), &["missing.json"]);
    let messages = conversation(dir.path(), QUESTION);
    for wrong in ["--temperature=-1", "--temperature=nan", "--max-tokens=0"] {
        ends(2, generate(&messages, &server.base_url, &[wrong]), &[wrong.split('=').next().unwrap()]);
    }
    assert_eq!(server.requests.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn a_server_that_fails_gives_no_answer_and_another_exit_code_than_a_bad_file() {
    let dir = tempfile::tempdir().unwrap();
    let messages = conversation(dir.path(), QUESTION);
    let server = Server::start(Script { faults: vec![Some(Fault::Server)], ..Script::default() });
    for url in [server.base_url.as_str(), "http://127.0.0.1:9/v1"] {
        let output = generate(&messages, url, &["--json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        assert!(output.stdout.is_empty(), "{}", text(&output));
        assert!(text(&output).contains(url), "{}", text(&output));
    }
}
