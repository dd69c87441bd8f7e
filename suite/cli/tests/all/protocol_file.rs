//! A user's protocol file: a mode and a tool of its own, without a line of Rust.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use crate::common::server::{Script, Server};
use crate::common::{bench, ends, imported, ok, stable_records, text, world};
use paravt_suite::protocol::Fidelity;
use paravt_suite::record::{RecordedPart, ToolOutcome};
use paravt_suite::run::Manifest;

const MINE: &str = r#"
name = "mine"
base = "native"
default_mode = "watch"

[tool]
modes = ["watch"]
name = "zoom"
start = ["from"]
end = ["to"]
max_frames = 2

[system]
watch = "Watch. The tool zoom is what others call crop_video."

[instructions]
watch = "One letter, please."

[chat_tools.definition.function]
name = "zoom"

[chat_tools.definition.function.parameters.properties]
from = { type = "number" }
to = { type = "number" }
"#;

/// The scripted model writes calls of `crop_video`; here it calls `zoom`.
fn zoom(answer: &mut serde_json::Value) {
    let content = &mut answer["choices"][0]["message"]["content"];
    let text = content.as_str().unwrap();
    let text = text.replace("crop_video", "zoom").replace("start_time", "from").replace("end_time", "to");
    *content = text.into();
}

fn run(protocol: &Path, out: &Path, extra: &[&str]) -> Command {
    let mut command = bench();
    command.args(["run", "lvbench", "--nframes", "8", "--profile", "strict", "--protocol"]).arg(protocol);
    command.args(extra).arg("--data").arg(world()).arg("--out").arg(out);
    command
}

#[test]
fn every_protocol_that_a_file_may_build_on_is_listed() {
    let listed = text(&bench().args(["protocol", "list"]).output().unwrap());
    for base in ["native", "paravt", "nano"] {
        assert!(listed.lines().any(|line| line.starts_with(&format!("{base}: "))), "{base}: {listed}");
    }
}

#[test]
fn a_file_adds_a_mode_with_a_tool_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out, again) = (dir.path().join("mine.toml"), dir.path().join("out"), dir.path().join("again"));
    std::fs::write(&file, MINE).unwrap();
    let server = Server::start(Script { rewrite: Some(zoom), ..Script::default() });
    let base_url = ["--base-url", server.base_url.as_str()];
    let said = ["protocol mine has no mode wach", "native, watch", "did you mean `watch`?"];
    ends(2, run(&file, &out, &[&base_url[..], &["--mode", "wach"]].concat()), &said);
    assert!(!out.exists());
    ok(run(&file, &out, &base_url));

    let manifest = std::fs::read(out.join("lvbench/manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
    assert_eq!((manifest.protocol.as_str(), manifest.plan.mode.as_str()), ("mine", "watch"));
    assert!(manifest.offers_tool);
    assert!(manifest.constants["crop_sampling"].contains('2'), "{:?}", manifest.constants);
    let records = stable_records(&out.join("lvbench"));
    let calls: Vec<_> = records.iter().flat_map(|record| &record.transcript.tool_calls).collect();
    assert!(!calls.is_empty());
    for call in calls {
        assert_eq!(call.call["name"], "zoom");
        let (start, end) = (&call.call["arguments"]["from"], &call.call["arguments"]["to"]);
        let ToolOutcome::Frames { frames } = &call.outcome else { panic!("{call:?}") };
        assert!((1..=2).contains(&frames.len()), "{frames:?}");
        let window = start.as_f64().unwrap() - 0.5..=end.as_f64().unwrap() + 0.5;
        assert!(frames.iter().all(|frame| window.contains(&frame.time)), "{frames:?} of {window:?}");
    }
    let shown = |message: usize| match records[0].transcript.messages[message].parts.last().unwrap() {
        RecordedPart::Text { text } => text.as_str(),
        other => panic!("{other:?}"),
    };
    assert!(shown(0).starts_with("Watch."), "{}", shown(0));

    let from = out.to_str().unwrap();
    ok(run(&file, &again, &["--backend", "replay", "--from", from]));
    assert_eq!(stable_records(&again.join("lvbench")), records);

    // A run's own texts are a protocol file, too.
    let stored = dir.path().join("stored");
    let texts = out.join("lvbench/protocol.json");
    let flags = ["--mode", "watch", "--dry-run", "--base-url", "http://localhost:1"];
    ends(0, run(&texts, &stored, &flags), &[&manifest.protocol_hash]);
}

#[test]
fn the_smallest_file_of_the_manual_is_an_agent_of_one_turn() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("one-turn.toml"), dir.path().join("out"));
    let smallest = crate::pasted::block("suite/docs/protocols.md", "name = \"one-turn\"").text;
    std::fs::write(&file, smallest).unwrap();
    let server = Server::start(Script::default());
    let mut command = crate::common::run(&["videomme"], &out, &server.base_url);
    ok(command.arg("--protocol").arg(&file));
    let records = stable_records(&out.join("videomme"));
    let asked = server.latest.lock().unwrap()["messages"].clone();
    assert_eq!(
        (asked.as_array().unwrap().len(), server.requests.load(Ordering::Relaxed)),
        (1, records.len())
    );
    let text = asked[0]["content"][1]["text"].as_str().unwrap();
    assert!(text.ends_with("\nAnswer between <answer> and </answer>.") && text.contains("\nA. "), "{text}");
    assert!(matches!(records[0].transcript.messages[0].parts[0], RecordedPart::Frames { .. }));
    assert_eq!(records[0].agent_score.as_ref().unwrap().fidelity, Fidelity::WordingOurs);
}

/// Runs one sample of each split with a file under a profile and returns what the model was asked.
fn asked(server: &Server, file: &str, splits: &[&str], flags: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.toml");
    std::fs::write(&path, file).unwrap();
    let mut command = crate::common::run(splits, &dir.path().join("out"), &server.base_url);
    command.args(["--nframes", "4", "--limit", "4", "--max-turns", "1", "--protocol"]).arg(&path);
    let output = command.env("PARAVT_BENCH_CACHE", imported()).args(flags).output().unwrap();
    let asked = server.asked();
    assert!(!asked.is_empty(), "{}", text(&output));
    asked
}

const PROFILES: [&str; 3] = ["release", "paper", "strict"];

#[test]
fn the_words_of_the_manuals_file_reach_the_model_under_every_profile() {
    let server = Server::start(Script::default());
    let file = crate::pasted::block("suite/docs/protocols.md", "name = \"mine\"").text;
    let between =
        |from: &str, to: &str| file.split_once(from).unwrap().1.split_once(to).unwrap().0.to_owned();
    let system = between("watch = \"\"\"\n", "\"\"\"");
    let instruction = between("[instructions]\nwatch = \"", "\"");
    assert!(system.len() > 100 && instruction.len() > 20, "{system} {instruction}");
    for profile in PROFILES {
        let asked = asked(&server, &file, &["lvbench"], &["--profile", profile]);
        assert!(asked.contains(&system) && asked.contains(&instruction), "{profile}: {asked}");
        assert!(!asked.contains("Look closer where the overview"), "{profile}: {asked}");
    }
}

#[test]
fn no_inherited_text_stands_before_one_of_the_file() {
    let server = Server::start(Script::default());
    let all = [
        ("[system]", "NAME = \"system crop_video SAID\""),
        ("[force.choice]", "text = \"force SAID\"\nmax_tokens = 8"),
        ("crop_response", "\"shown {n} SAID\""),
        ("subagent_prompt", "\"look at {n} SAID\""),
        ("subagent_response", "\"seen {summary} SAID\""),
        ("option_line", "\"{letter} SAID {option}\""),
        ("video_path", "{ template = \"{question} path SAID {video_name}\", unless = \"never\" }"),
    ];
    for (base, mode) in [("native", "native"), ("native", "agentic_minimal"), ("paravt", "agentic_general")] {
        for profile in PROFILES {
            for (field, value) in all {
                let crop = if field == "crop_response" { "frames" } else { "subagent" };
                let flags = ["--profile", profile, "--mode", mode, "--crop", crop];
                let value = value.replace("NAME", mode);
                let line = if field.starts_with('[') {
                    format!("{field}\n{value}")
                } else {
                    format!("{field} = {value}")
                };
                let file = format!("name = \"mine\"\nbase = \"{base}\"\n{line}\n");
                let asked = asked(&server, &file, &["mlvu"], &flags);
                assert!(asked.contains("SAID"), "{base} {mode} {profile} {field}: {asked}");
            }
        }
    }
}

#[test]
fn instructions_and_questions_of_a_file_go_before_special_ones_that_it_inherits() {
    let server = Server::start(Script::default());
    for (base, mode, field, split) in [
        ("native", "native", "[instructions]\nnative", "mlvu"),
        ("native", "direct", "[instructions]\ndirect", "mlvu"),
        ("native", "direct", "[instructions]\nother", "mlvu"),
        ("native", "native", "[instructions]\nneutral_agentic", "mlvu"),
        ("nano", "direct", "[instructions]\ndirect", "mlvu"),
        ("paravt", "direct", "[instructions]\ndirect", "mlvu"),
        ("paravt", "direct", "[instructions]\nother", "mlvu"),
        ("paravt", "agentic_general", "[instructions]\nother", "lvbench"),
        ("paravt", "direct", "[instructions]\nneutral", "mlvu"),
        ("paravt", "direct", "[questions]\nchoice", "videomme"),
        ("paravt", "direct", "[questions]\ngrounding", "charades"),
        ("paravt", "direct", "[questions]\nvideomme", "videomme"),
    ] {
        let words = if field.contains("questions") { "{question} SAID {options}" } else { "SAID" };
        let file = format!("name = \"mine\"\nbase = \"{base}\"\n{field} = \"{words}\"\n");
        for profile in PROFILES {
            let asked = asked(&server, &file, &[split], &["--profile", profile, "--mode", mode]);
            assert!(asked.contains("SAID"), "{base} {mode} {profile} {field}: {asked}");
        }
    }
    // The text of a split leaves those of others as they are.
    let file = "name = \"mine\"\nbase = \"paravt\"\n[questions]\nvideomme = \"SAID {question} {options}\"\n";
    assert!(!asked(&server, file, &["mlvu"], &[]).contains("SAID"));
    // What goes out through the chat API is the file's own, too.
    let file = "name = \"mine\"\nbase = \"native\"\n[system]\nnative = \"SAID crop_video\"\n";
    assert!(asked(&server, file, &["mlvu"], &["--tool-dialect", "native"]).contains("SAID"));
}

#[test]
fn a_text_that_no_request_can_have_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    for (base, lines, words) in [
        (
            "paravt",
            "duration_note = \" {seconds} s\"",
            "duration_note: would not be sent: questions.charades is inherited",
        ),
        (
            "native",
            "[tool]\nmodes = []\n[force.choice]\ntext = \"A letter.\"\nmax_tokens = 8",
            "force: would never be sent: no mode",
        ),
        (
            "native",
            "[instructions]\nnative = \"x\"\n[questions]\nchoice = \"{question}{options}\"",
            "instructions: would never be sent",
        ),
    ] {
        std::fs::write(&file, format!("name = \"mine\"\nbase = \"{base}\"\n{lines}\n")).unwrap();
        let mut command = run(&file, &dir.path().join("out"), &["--base-url", "http://localhost:1"]);
        ends(2, command.env("PARAVT_BENCH_CACHE", imported()), &[&format!("mine.toml: {words}")]);
    }
}
