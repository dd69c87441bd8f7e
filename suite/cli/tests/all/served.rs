//! Servers that take replies apart, and the settings of requests, through the command.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use crate::common::server::{Script, Server};
use crate::common::{self, SPLITS, ends, ok, run_again, stable_records, text};
use paravt_suite::journal;
use paravt_suite::record::{Outcome, Record};
use serde_json::{Value, json};

fn run(tasks: &[&str], out: &Path, base_url: &str) -> Command {
    let mut command = common::run(tasks, out, base_url);
    command.args(["--nframes", "16", "--tries", "1"]);
    command
}

/// What `transformers serve` does to a reply of a Qwen model: thoughts and calls leave the text.
fn take_apart(reply: &mut Value) {
    let message = &mut reply["choices"][0]["message"];
    let mut content = message["content"].as_str().unwrap().to_owned();
    if let Some((before, after)) = content.clone().split_once("</think>") {
        message["reasoning_content"] = json!(before.trim_start_matches("<think>").trim());
        content = after.to_owned();
    }
    let mut calls = Vec::new();
    while let Some(start) = content.find("<tool_call>") {
        let end = content.find("</tool_call>").unwrap();
        let call: Value = serde_json::from_str(&content[start + 11..end]).unwrap();
        let arguments = call["arguments"].to_string();
        let id = format!("{:x}_tool_call_{}", content.len(), calls.len());
        calls.push(
            json!({"id": id, "type": "function", "function": {"name": call["name"], "arguments": arguments}}),
        );
        content.replace_range(start..end + 12, "");
    }
    message["content"] = json!(content.trim());
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
        reply["choices"][0]["finish_reason"] = json!("tool_calls");
    }
}

fn nothing(reply: &mut Value) {
    reply["choices"][0]["message"] = json!({"role": "assistant", "content": null});
}

fn apart() -> Server {
    Server::start(Script { rewrite: Some(take_apart), ..Script::default() })
}

fn scores(records: &[Record]) -> Vec<(String, Outcome, f64)> {
    let mut scores: Vec<_> = records
        .iter()
        .map(|record| (record.sample.uid.clone(), record.score.outcome, record.score.value))
        .collect();
    scores.sort_by(|a, b| a.0.cmp(&b.0));
    scores
}

#[test]
fn a_server_that_takes_calls_out_of_the_text_gives_the_same_scores() {
    let (whole, apart) = (Server::start(Script::default()), apart());
    let dir = tempfile::tempdir().unwrap();
    for (name, server) in [("whole", &whole), ("apart", &apart)] {
        ok(run(&["all"], &dir.path().join(name), &server.base_url).args(["--profile", "strict"]));
    }
    let mut called = 0;
    for split in SPLITS {
        let [whole, apart] =
            ["whole", "apart"].map(|name| stable_records(&dir.path().join(name).join(split)));
        assert_eq!(scores(&apart), scores(&whole), "{split}");
        let reassembled = |record: &&Record| record.transcript.calls.iter().any(|call| call.reassembled);
        let with_calls = |record: &&Record| !record.transcript.tool_calls.is_empty();
        assert_eq!(apart.iter().filter(reassembled).count(), apart.iter().filter(with_calls).count());
        assert_eq!(whole.iter().filter(reassembled).count(), 0);
        called += apart.iter().filter(with_calls).count();
        let summary: Value = serde_json::from_slice(
            &std::fs::read(dir.path().join("apart").join(split).join(journal::SUMMARY)).unwrap(),
        )
        .unwrap();
        assert_eq!(summary["n_reassembled"], summary["n_reasoning"]);
    }
    assert!(called > 10, "the scripted model calls the tool");

    // A replay of it reads the same.
    let again = dir.path().join("again");
    let mut replay = run_again(&["lvbench"], &again, &dir.path().join("apart"));
    ok(replay.args(["--nframes", "16", "--profile", "strict"]));
    assert_eq!(
        scores(&stable_records(&again.join("lvbench"))),
        scores(&stable_records(&dir.path().join("apart/lvbench")))
    );
}

#[test]
fn the_chat_apis_own_calls_give_the_same_crops() {
    let (whole, apart) = (Server::start(Script::default()), apart());
    let dir = tempfile::tempdir().unwrap();
    let windows = |name: &str, server: &Server, dialect: &str| {
        let out = dir.path().join(name);
        let flags = ["--profile", "strict", "--tool-dialect", dialect, "--concurrency", "1"];
        ok(run(&["lvbench"], &out, &server.base_url).args(flags));
        let manifest = journal::read_manifest(&out.join("lvbench")).unwrap();
        assert_eq!(manifest.plan.dialect.as_str(), dialect);
        stable_records(&out.join("lvbench"))
    };
    let native = windows("native", &apart, "native");
    assert!(native.iter().any(|record| record.transcript.tool_calls.len() == 2));
    assert!(native.iter().all(|record| record.error.is_none()));
    let latest = apart.latest.lock().unwrap().clone();
    assert_eq!(latest["tools"][0]["function"]["name"], "crop_video");
    // A server that leaves the calls in the text is found out, not scored.
    let out = dir.path().join("unparsed");
    let mut unparsed = run(&["lvbench"], &out, &whole.base_url);
    let said = ends(4, unparsed.args(["--profile", "strict", "--tool-dialect", "native"]), &[]);
    assert!(said.contains("--enable-auto-tool-choice") || !said.contains("none of the first"), "{said}");
    let errors: Vec<_> =
        stable_records(&out.join("lvbench")).into_iter().filter_map(|record| record.error).collect();
    assert!(!errors.is_empty() && errors.iter().all(|error| error.message.contains("--tool-call-parser")));
}

#[test]
fn paper_refuses_separated_thoughts_and_names_the_server_flag() {
    let server = apart();
    let dir = tempfile::tempdir().unwrap();
    ends(4, run(&["lvbench"], dir.path(), &server.base_url).args(["--profile", "paper"]), &[]);
    let records = stable_records(&dir.path().join("lvbench"));
    let refused: Vec<_> = records.iter().filter_map(|record| record.error.as_ref()).collect();
    assert!(!refused.is_empty());
    for error in refused {
        assert!(
            error.message.contains("--reasoning-parser") && error.message.contains("profile paper"),
            "{error:?}"
        );
    }
}

#[test]
fn a_run_whose_first_replies_are_all_empty_stops_and_says_why() {
    let server = Server::start(Script { rewrite: Some(nothing), ..Script::default() });
    let dir = tempfile::tempdir().unwrap();
    // Where an empty reply is a failed call.
    let flags = ["--profile", "strict", "--concurrency", "1"];
    let said = ends(4, run(&["videomme"], dir.path(), &server.base_url).args(flags), &[]);
    let records = stable_records(&dir.path().join("videomme"));
    let samples = journal::read_manifest(&dir.path().join("videomme")).unwrap().selection.sizes.expected;
    assert!(records.iter().all(|record| record.score.outcome == Outcome::Error));
    assert_eq!(records.len(), samples.min(8), "{said}");
    if samples > 8 {
        assert!(said.contains("none of the first 8 replies could be read"), "{said}");
        assert_eq!(server.requests.load(Ordering::Relaxed), 8);
    }
    assert!(records[0].error.as_ref().unwrap().message.contains("neither text nor tool calls"));
}

#[test]
fn request_settings_are_sent_recorded_and_compared_and_secrets_are_not() {
    const SECRET: &str = "s3cret-0123456789";
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let settings = "--top-p 0.8 --top-k 20 --repetition-penalty 1.05 --stop </answer> --extra-body {\"min_p\":0.1} \
                    --chat-template-kwargs {\"enable_thinking\":false} --header-env X-Token=MY_TOKEN";
    let start = |extra: &[&str]| {
        let mut command = run(&["mmvu"], dir.path(), &server.base_url);
        command.args(settings.split(' ')).args(extra).env("MY_TOKEN", SECRET);
        command
    };
    ok(start(&[]));
    let body = server.latest.lock().unwrap().clone();
    let wanted = json!({
        "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05, "stop": ["</answer>"], "min_p": 0.1,
        "chat_template_kwargs": {"enable_thinking": false},
    });
    for (name, value) in wanted.as_object().unwrap() {
        assert_eq!(&body[name], value, "{name}");
    }
    assert_eq!(server.headers.lock().unwrap()["x-token"], SECRET);
    for file in [journal::MANIFEST, journal::JOURNAL] {
        let written = std::fs::read_to_string(dir.path().join("mmvu").join(file)).unwrap();
        assert!(!written.contains(SECRET), "{file}");
    }
    let plan = journal::read_manifest(&dir.path().join("mmvu")).unwrap().plan;
    assert_eq!(
        (plan.request.sampling.top_k, plan.request.header_env["X-Token"].as_str()),
        (Some(20), "MY_TOKEN")
    );

    ok(start(&["--resume"]));
    let mut changed = run(&["mmvu"], dir.path(), &server.base_url);
    ends(2, changed.args(["--resume", "--top-p", "0.9"]), &["top_p"]);
    ends(2, start(&["--resume", "--tool-dialect", "text"]), &["dialect"]);
}

#[test]
fn settings_that_cannot_be_honoured_are_refused_before_anything_is_sent() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    for (flags, words) in [
        (vec!["--extra-body", r#"{"messages": []}"#], "`messages` is set by"),
        (vec!["--extra-body", "[1]"], "a JSON object is needed"),
        (vec!["--top-p", "2"], "top_p"),
        (vec!["--header-env", "X-Token=PARAVT_NO_SUCH_VARIABLE"], "PARAVT_NO_SUCH_VARIABLE is not set"),
        (vec!["--header-env", "X-Token=sk-secret-value"], "not the value"),
        (vec!["--retry-pause", "1.8e19"], "--retry-pause"),
        (vec!["--base-url", "http://a/v1?key=secret-value"], "has a query"),
    ] {
        let output = run(&["mmvu"], dir.path(), &server.base_url).args(&flags).output().unwrap();
        assert!(!output.status.success(), "{flags:?}");
        assert!(text(&output).contains(words), "{flags:?}: {}", text(&output));
        assert!(!text(&output).contains("secret-value"), "{}", text(&output));
    }
    assert_eq!(server.requests.load(Ordering::Relaxed), 0);
}
