//! Hosted models, each a server that refuses and counts as its kind of API does: fields of the request, limits of bytes,
//! tokens of thoughts, prices.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::server::{Script, Server};
use crate::common::{self, bench, ends, ok, stable_records, text};
use paravt_suite::journal;
use paravt_suite::record::{Outcome, ToolOutcome};
use serde_json::{Value, json};

fn run(server: &Server, out: &Path, flags: &[&str]) -> Command {
    let mut command = common::run(&["mmvu"], out, &server.base_url);
    command.args(["--mode", "direct", "--concurrency", "1"]).args(flags);
    command
}

/// OpenAI's reasoning models (platform.openai.com/docs/guides/reasoning): the limit has another name, the temperature is
/// the model's own.
fn reasoning(request: &Value) -> Option<(u16, Value)> {
    let error = |message: &str, param: &str| {
        let kind = "invalid_request_error";
        Some((
            400,
            json!({"error": {"message": message, "type": kind, "param": param, "code": "unsupported_value"}}),
        ))
    };
    if !request["max_tokens"].is_null() {
        let text = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
        return error(text, "max_tokens");
    }
    if request.get("temperature").is_some_and(|value| value != 1) {
        let text = "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.";
        return error(text, "temperature");
    }
    None
}

fn thoughts_of_openai(reply: &mut Value) {
    reply["usage"] = json!({
        "prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500,
        "completion_tokens_details": {"reasoning_tokens": 450},
    });
}

#[test]
fn a_model_with_a_temperature_of_its_own_is_asked_without_one_and_priced() {
    let script = Script { refusal: Some(reasoning), rewrite: Some(thoughts_of_openai), ..Script::default() };
    let server = Server::start(script);
    let dir = tempfile::tempdir().unwrap();
    // The field of the limit is learnt; a temperature is the user's to give up.
    ends(4, run(&server, &dir.path().join("refused"), &[]), &["--body-field temperature="]);
    let out = dir.path().join("run");
    let said = ends(0, run(&server, &out, &["--body-field", "temperature="]), &[]);
    assert_eq!(said.matches("the limit of tokens is sent as max_completion_tokens").count(), 1, "{said}");
    let body = server.latest.lock().unwrap().clone();
    assert!(body.get("temperature").is_none() && body["max_completion_tokens"].is_u64(), "{body}");
    let records = stable_records(&out.join("mmvu"));
    assert!(records.iter().all(|record| record.error.is_none()));
    let plan = journal::read_manifest(&out.join("mmvu")).unwrap().plan;
    assert!(!plan.is_greedy(), "what the server does is its own choice");

    let prices = dir.path().join("prices.toml");
    std::fs::write(&prices, "currency = \"USD\"\n[models.scripted]\nprompt = 2\ncompletion = 10\n").unwrap();
    let mut report = bench();
    report.args(["report", "--json"]).arg(&out).arg("--prices").arg(&prices);
    let found: Value = serde_json::from_slice(&ok(report).stdout).unwrap();
    let expected = records.len() as f64 * (1000.0 * 2.0 + 500.0 * 10.0) / 1e6;
    assert!((found["cells"][0]["price"]["tokens"].as_f64().unwrap() - expected).abs() < 1e-9, "{expected}");
    assert_eq!(found["cells"][0]["summary"]["reasoning_tokens"], 450 * records.len());
}

#[test]
fn names_given_are_sent_at_once() {
    let server = Server::start(Script { refusal: Some(reasoning), ..Script::default() });
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--body-field", "max_tokens=max_completion_tokens", "--body-field", "temperature="];
    let said = ends(0, run(&server, dir.path(), &flags), &[]);
    assert!(!said.contains("limit of tokens"), "{said}");
    ends(2, run(&server, dir.path(), &["--body-field", "messages="]), &["expected one of max_tokens"]);
}

/// Requests that the next server has seen.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Gemini behind its OpenAI-compatible address (ai.google.dev/gemini-api/docs/openai): errors are lists.
fn exhausted(_: &Value) -> Option<(u16, Value)> {
    let error = json!([{"error": {
        "code": 429, "message": "You exceeded your current quota.", "status": "RESOURCE_EXHAUSTED",
    }}]);
    (ASKED.fetch_add(1, Ordering::Relaxed) == 0).then_some((429, error))
}

/// A server with the tool: what it looked at comes with the answer.
fn looked(reply: &mut Value) {
    let call = |name: &str, arguments: Value| json!({"id": "x", "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
    let message = &mut reply["choices"][0]["message"];
    message["content"] = json!("<answer>B</answer>");
    message["tool_calls"] = json!([
        call("crop_video", json!({"start_time": 2, "end_time": 5})),
        call("crop_video", json!({"start": 7.5, "end": 9})),
    ]);
    reply["choices"][0]["finish_reason"] = json!("stop");
}

fn left_to_the_client(reply: &mut Value) {
    looked(reply);
    reply["choices"][0]["finish_reason"] = json!("tool_calls");
}

#[test]
fn calls_that_the_server_ran_are_recorded_and_not_run_again() {
    let dir = tempfile::tempdir().unwrap();
    let protocol = dir.path().join("served.toml");
    let text_of = "name = \"served\"\nbase = \"native\"\ndefault_mode = \"served\"\n[system]\nserved = \"Look.\"\n\
                   [tool]\nserved = [\"served\"]\n";
    std::fs::write(&protocol, text_of).unwrap();
    let run = |code: i32, rewrite: fn(&mut Value), name: &str, flags: &[&str], words: &[&str]| {
        let server = Server::start(Script { rewrite: Some(rewrite), ..Script::default() });
        let out = dir.path().join(name);
        let mut command = common::run(&["mmvu"], &out, &server.base_url);
        let said = ends(code, command.arg("--protocol").arg(&protocol).args(flags), words);
        let records = stable_records(&out.join("mmvu"));
        assert!(records.iter().all(|record| record.transcript.calls.len() == 1), "{said}");
        records
    };
    let records = run(0, looked, "looks", &[], &["the tool is the server's"]);
    for record in &records {
        let calls = &record.transcript.tool_calls;
        assert!(calls.iter().all(|call| call.outcome == ToolOutcome::Served), "{calls:?}");
        let windows: Vec<_> = calls.iter().map(|call| (call.start, call.end)).collect();
        assert_eq!(windows, [(Some(2.0), Some(5.0)), (Some(7.5), Some(9.0))]);
        assert!(
            record.sample.gold.is_excluded_from_headline() || record.score.prediction.as_deref() == Some("B")
        );
    }
    assert!(journal::read_manifest(&dir.path().join("looks/mmvu")).unwrap().offers_tool);
    let plain = run(0, looked, "plain", &["--mode", "direct"], &[]);
    assert!(plain.iter().all(|record| record.transcript.tool_calls.is_empty()));
    let records = run(4, left_to_the_client, "left", &["--tries", "1"], &[]);
    let message = &records[0].error.as_ref().unwrap().message;
    assert!(message.contains("this server has no tool of its own"), "{message}");
}

fn thoughts_of_gemini(reply: &mut Value) {
    reply["usage"] = json!({"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1500});
}

#[test]
fn thoughts_that_only_the_total_counts_are_counted_and_a_quota_is_waited_for() {
    let script = Script { refusal: Some(exhausted), rewrite: Some(thoughts_of_gemini), ..Script::default() };
    let server = Server::start(script);
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--tries", "3", "--retry-pause", "0", "--requests-per-minute", "60000"];
    ok(run(&server, dir.path(), &flags));
    let records = stable_records(&dir.path().join("mmvu"));
    let mut calls = records.iter().flat_map(|record| &record.transcript.calls);
    assert!(calls.all(|call| {
        let usage = call.usage.unwrap();
        (usage.completion_tokens, usage.reasoning_tokens) == (500, Some(450))
    }));
    assert_eq!(ASKED.load(Ordering::Relaxed), records.len() + 1, "the first one twice");
}

/// Anthropic behind its OpenAI-compatible address: a limit of bytes.
fn too_large(request: &Value) -> Option<(u16, Value)> {
    let error = json!({"type": "error", "error": {
        "type": "request_too_large", "message": "Request exceeds the maximum size",
    }});
    (request.to_string().len() > 100_000).then_some((413, error))
}

#[test]
fn a_request_above_the_limit_of_bytes_says_so_and_is_not_repeated() {
    let server = Server::start(Script { refusal: Some(too_large), ..Script::default() });
    let dir = tempfile::tempdir().unwrap();
    let output = run(&server, dir.path(), &["--tries", "3"]).output().unwrap();
    let records = stable_records(&dir.path().join("mmvu"));
    let refused: Vec<_> = records.iter().filter_map(|record| record.error.as_ref()).collect();
    assert!(!refused.is_empty(), "{}", text(&output));
    assert_eq!(server.requests.load(Ordering::Relaxed), records.len(), "none is repeated");
    assert!(
        records.iter().filter(|record| record.error.is_some()).all(|r| r.score.outcome == Outcome::Error)
    );
    assert!(text(&output).contains("--nframes"), "{}", text(&output));
}

/// Bytes of the largest image of a request.
fn largest_image(request: &Value) -> usize {
    let messages = request["messages"].as_array().unwrap();
    let parts = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let images = parts.filter_map(|part| part["image_url"]["url"].as_str());
    images.map(|url| url.split_once(',').unwrap().1.len() / 4 * 3).max().unwrap()
}

#[test]
fn frames_above_a_limit_of_bytes_are_compressed_further_or_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Script::default());
    let with = |name: &str, flags: &[&str]| {
        run(&server, &dir.path().join(name), &[&["--nframes", "2"], flags].concat())
    };
    let largest = |command: Command| {
        ok(command);
        largest_image(&server.latest.lock().unwrap())
    };
    let whole = largest(with("whole", &[]));
    let kb = (whole / 1000 - 1).to_string();
    let limited = largest(with("limited", &["--max-image-kb", &kb]));
    assert!(limited < whole - 1000, "{whole} {limited}");
    let plan = journal::read_manifest(&dir.path().join("limited/mmvu")).unwrap().plan;
    assert_eq!(plan.max_image_kb.map(|kb| kb.to_string()), Some(kb));
    ends(4, with("none", &["--max-image-kb", "1"]), &["more than --max-image-kb allows"]);
}

#[test]
fn a_dry_run_says_what_a_run_may_cost_and_a_part_of_it_how_long() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    // A reply's token costs 1 USD and a prompt's nothing: what is left is calls times tokens.
    let prices = dir.path().join("prices.toml");
    std::fs::write(&prices, "currency = \"USD\"\n[models.scripted]\nprompt = 0\ncompletion = 1e6\n").unwrap();
    let prices = prices.to_str().unwrap();
    let out = dir.path().join("run");
    let dry = |mode: &[&str]| {
        let mut command = common::run(&["mmvu"], &out, &server.base_url);
        text(&ok(command.args(["--dry-run", "--max-tokens", "100", "--prices", prices]).args(mode)))
    };
    let asked = dry(&["--mode", "direct"]);
    assert!(
        asked.contains("cost by scripted: 6.00 to 600.00 USD, every turn and reply used to its limit"),
        "{asked}"
    );
    let turns = dry(&["--max-turns", "2"]);
    assert!(turns.contains("cost by scripted: 6.00 to 1800.00 USD"), "{turns}");
    let endless = dry(&["--max-parallel", "0"]);
    assert!(endless.contains("cost by scripted: 6.00 USD or more: nothing limits the turns"), "{endless}");
    assert_eq!(server.requests.load(Ordering::Relaxed), 0);

    ends(0, run(&server, &out, &["--limit", "5"]), &["mmvu: at this rate all 6 take "]);
    let whole = ends(0, run(&server, &out, &["--resume"]), &[]);
    assert!(!whole.contains("at this rate"), "{whole}");
}
