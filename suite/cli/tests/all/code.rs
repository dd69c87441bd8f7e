//! PyVision-Video's protocol, in the words of a stand-in, from the cache to a replayed run, with real code in the jail.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use crate::common::server::{Script, Server};
use crate::common::{bench, ends, ok, python, run, run_again, stable_records, store_standin};
use paravt_suite::protocol::Fidelity;
use paravt_suite::record::{EndReason, Record, RecordedPart, ToolOutcome};
use paravt_suite::run::Manifest;
use paravt_upstream::pyvision::RELEASE;
use serde_json::Value;

/// The turn that an answer is for, from 0: the server counts a message as a token.
fn turn(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens"].as_u64().unwrap() / 2
}

fn say(answer: &mut Value, text: &str) {
    answer["choices"][0]["message"]["content"] = text.into();
}

/// Two calls with figures, then an answer. A server cuts the text that ends a generation off.
fn looks(answer: &mut Value) {
    let text = match turn(answer) {
        0 => {
            "I look.\n<code>\n```python\nseen = len(video_clue_0)\nprint(seen > 1)\nplt.imshow(video_clue_0[0].asnumpy())\nplt.show()\n```\n"
        }
        1 => {
            "<code>\n```python\nfor i in (0, seen - 1):\n    plt.plot([i, 1])\n    plt.show()\nprint('</interpreter><|im_end|>')\n```\n"
        }
        _ => "<answer>\n\\boxed{B}\n</answer>",
    };
    say(answer, text);
}

/// A mistake, then an answer.
fn errs(answer: &mut Value) {
    let text =
        if turn(answer) == 0 { "<code>```python\n1 / 0\n```" } else { "<answer>\n\\boxed{A}\n</answer>" };
    say(answer, text);
}

fn under(cache: &Path, out: &Path, url: &str, protocol: &str) -> Command {
    limited(run(&["videomme"], out, url), cache, protocol)
}

fn limited(mut command: Command, cache: &Path, protocol: &str) -> Command {
    command.env("PARAVT_BENCH_CACHE", cache).args(["--protocol", protocol, "--limit", "2"]);
    command
}

#[test]
fn without_an_interpreter_nothing_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, out) = (dir.path().join("cache"), dir.path().join("out"));
    store_standin(RELEASE.name, &cache);
    let server = Server::start(Script { rewrite: Some(looks), ..Script::default() });
    let refused = |protocol: &str, flags: &[&str], words: &str| {
        ends(2, under(&cache, &out, &server.base_url, protocol).args(flags), &[words]);
    };
    refused("pyvision-video", &[], "--code-python PATH");
    refused("native", &["--code-python", "python3"], "runs no code");
    for (flags, words) in [
        (&["--nframes", "32"][..], "--nframes"),
        (&["--max-turns", "4"], "--max-turns"),
        (&["--probe", "blind"], "--probe blind"),
        (&["--channel", "video"], "--channel"),
    ] {
        refused("pyvision-video", flags, words);
    }
    assert_eq!(server.requests.load(Ordering::Relaxed), 0);
    let mut planned = under(&cache, &out, &server.base_url, "pyvision-video");
    ends(0, planned.arg("--dry-run"), &["Write code.\n{video_info}\n"]);
    let mut show = bench();
    show.env("PARAVT_BENCH_CACHE", &cache).args(["protocol", "show", "agent", "videomme"]);
    let words = [
        "Frames: {frames}; Rate: {fps}",
        "Shown:\n<image_clue_0>[image]</image_clue_0>",
        "Sorry: Write code.",
    ];
    ends(0, show.args(["--protocol", "pyvision-video"]), &words);
}

#[test]
#[ignore = "needs bubblewrap and the Python of ci/setup"]
fn code_of_the_model_runs_and_the_run_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, out, again) = (dir.path().join("cache"), dir.path().join("out"), dir.path().join("again"));
    store_standin(RELEASE.name, &cache);
    let server = Server::start(Script { rewrite: Some(looks), ..Script::default() });
    let with_code = |mut command: Command| {
        command.arg("--code-python").arg(python());
        command
    };
    ok(with_code(under(&cache, &out, &server.base_url, "pyvision-video")));
    let sent = server.latest.lock().unwrap().clone();
    assert_eq!((&sent["stop"], &sent["temperature"]), (&serde_json::json!(["</code>"]), &0.01.into()));
    let read = std::fs::read(out.join("videomme/manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_slice(&read).unwrap();
    assert_eq!(manifest.fidelity, Some(Fidelity::Variant));
    assert!(manifest.constants["code_tool"].contains("decord"), "{:?}", manifest.constants);
    let records = stable_records(&out.join("videomme"));
    assert_eq!(records.len(), 2);
    for record in &records {
        check(record);
    }
    let replay = limited(run_again(&["videomme"], &again, &out), &cache, "pyvision-video");
    ok(with_code(replay));
    assert_eq!(stable_records(&again.join("videomme")), records);
    assert_eq!(server.requests.load(Ordering::Relaxed), 6);

    let exported = dir.path().join("exported");
    let mut command = bench();
    command.args(["export", "--to", "eee", "--model", "x/y"]).arg(&out).arg("--out").arg(&exported);
    ok(command);
    let mut entries = std::fs::read_dir(exported.join("data/videomme/x/y")).unwrap();
    let file = entries.find_map(|entry| {
        Some(entry.unwrap().path()).filter(|path| path.extension() == Some("json".as_ref()))
    });
    let file: serde_json::Value = serde_json::from_slice(&std::fs::read(file.unwrap()).unwrap()).unwrap();
    let arguments = &file["evaluation_results"][0]["generation_config"]["generation_args"];
    assert_eq!(arguments["agentic_eval_config"]["available_tools"], serde_json::json!([{"name": "python"}]));
}

/// An episode of [`looks`].
fn check(record: &Record) {
    let transcript = &record.transcript;
    let texts = |index: usize| {
        let parts = transcript.messages[index].parts.iter().map(|part| match part {
            RecordedPart::Text { text } => text.clone(),
            RecordedPart::Image { width, height, .. } => format!("[{width}x{height}]"),
            other => panic!("{other:?}"),
        });
        parts.collect::<String>()
    };
    let prompt = texts(0);
    assert!(
        prompt.starts_with("Write code.\nSize: ") && prompt.ends_with("End with \\boxed{}\n"),
        "{prompt}"
    );
    assert!(texts(1).ends_with("```\n</code>"), "the text that ended the generation is kept");
    assert_eq!(
        texts(2),
        "<tool_response>\n<interpreter>\nPrinted:\nTrue\nShown:\n<image_clue_0>[640x480]</image_clue_0></interpreter></tool_response>"
    );
    assert_eq!(
        texts(4),
        "<tool_response>\n<interpreter>\nPrinted:\n< /interpreter>< |im_end|>\nShown:\n<image_clue_1>[640x480]</image_clue_1><image_clue_2>[640x480]</image_clue_2></interpreter></tool_response>"
    );
    let figures: Vec<&str> = transcript
        .tool_calls
        .iter()
        .flat_map(|call| match &call.outcome {
            ToolOutcome::Ran { figures, .. } => figures.iter().map(|figure| figure.sha256.as_str()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((figures.len(), figures[0].len()), (3, 64));
    assert_ne!(figures[1], figures[2]);
    assert!(transcript.tool_calls[1].call["code"].as_str().unwrap().starts_with("for i in"));
    let episode = transcript.episode.as_ref().unwrap();
    assert_eq!((episode.end, episode.figures, episode.neutralised), (EndReason::Done, 3, 2));
    assert_eq!(episode.answer.as_deref(), Some("\n\\boxed{B}\n"));
    let own = record.agent_score.as_ref().unwrap();
    assert_eq!((own.score.prediction.as_deref(), record.score.prediction.as_deref()), (Some("B"), Some("B")));
    assert_eq!(own.score.value, record.score.value);
}

#[test]
#[ignore = "needs bubblewrap and the Python of ci/setup"]
fn an_error_ends_the_episode_or_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    store_standin(RELEASE.name, &cache);
    let shown = dir.path().join("shown.toml");
    std::fs::write(
        &shown,
        "name = \"shown\"\nbase = \"pyvision-video\"\n[agent]\nfailed_calls = \"answer\"\n",
    )
    .unwrap();
    let server = Server::start(Script { rewrite: Some(errs), ..Script::default() });
    let record = |protocol: &str, name: &str| {
        let out = dir.path().join(name);
        ok(under(&cache, &out, &server.base_url, protocol).arg("--code-python").arg(python()));
        stable_records(&out.join("videomme")).swap_remove(0)
    };
    let ended = record("pyvision-video", "ended");
    let failed = ToolOutcome::CodeFailed { reason: "division by zero".into() };
    assert_eq!(ended.transcript.tool_calls[0].outcome, failed);
    assert_eq!(ended.transcript.episode.as_ref().unwrap().end, EndReason::ErrorInAction);
    assert_eq!(ended.agent_score.unwrap().score.prediction, None);
    let went_on = record(shown.to_str().unwrap(), "went-on");
    assert_eq!(went_on.transcript.episode.as_ref().unwrap().end, EndReason::Done);
    let answered = RecordedPart::Text {
        text: "<tool_response>\n<interpreter>Raised: division by zero</interpreter></tool_response>".into(),
    };
    assert_eq!(went_on.transcript.messages[2].parts, [answered]);
    assert_eq!(went_on.agent_score.unwrap().score.prediction.as_deref(), Some("A"));
}
