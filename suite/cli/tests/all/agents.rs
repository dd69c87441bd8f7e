//! An agent's own protocol from its import to a replayed run; the texts are a stand-in of the structure of the authors'.

use std::path::Path;

use crate::common::server::{Script, Server};
use crate::common::{bench, ok, run, stable_records, text};
use paravt_suite::protocol::Fidelity;
use paravt_suite::record::{Outcome, RecordedPart, ToolOutcome};
use paravt_suite::run::Manifest;
use paravt_suite::summary::OwnSummary;
use paravt_upstream::agents::conan::RELEASE;

/// The scripted model calls where it reads the name of a tool.
fn checkout(folder: &Path) {
    let prompts: String = ["init", "round", "final"]
        .map(|name| {
            format!("Prompt_temp_{name}_mc=\"\"\"\n{name} crop_video: {{question}} {{options}}\n\"\"\"\n")
        })
        .concat();
    for file in RELEASE.files {
        let path = folder.join(file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &prompts).unwrap();
    }
}

/// Conan's spelling of the scripted model's calls.
fn clips(answer: &mut serde_json::Value) {
    let content = &mut answer["choices"][0]["message"]["content"];
    let calls = content.as_str().unwrap().matches("<tool_call>").count();
    if calls > 0 {
        *content = "<think>closer</think><clip>00:00:01-00:00:03</clip><answer></answer>".into();
    }
}

#[test]
fn a_run_under_an_imported_protocol_has_both_scores_and_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let (source, cache) = (dir.path().join("checkout"), dir.path().join("cache"));
    checkout(&source);
    let import = |extra: &[&str]| {
        let mut command = bench();
        command
            .env("PARAVT_BENCH_CACHE", &cache)
            .args(["protocol", "import", "conan", "--from"])
            .arg(&source);
        command.args(extra).output().unwrap()
    };
    let refused = import(&[]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("prompt_temp.py has SHA-256"), "{}", text(&refused));
    assert!(import(&["--unpinned"]).status.success());

    let server = Server::start(Script { rewrite: Some(clips), ..Script::default() });
    let (out, again) = (dir.path().join("out"), dir.path().join("again"));
    let under = |out: &Path, url: &str| {
        let mut command = run(&["videomme"], out, url);
        command.env("PARAVT_BENCH_CACHE", &cache).args(["--protocol", "conan"]);
        command
    };
    ok(under(&out, &server.base_url));
    let read = |name: &str| std::fs::read(out.join("videomme").join(name)).unwrap();
    let manifest: Manifest = serde_json::from_slice(&read("manifest.json")).unwrap();
    assert_eq!((manifest.fidelity, manifest.plan.temperature), (Some(Fidelity::Variant), 1.0));
    assert_eq!(manifest.protocol_source.files.len(), RELEASE.files.len());
    let records = stable_records(&out.join("videomme"));
    let summary: serde_json::Value = serde_json::from_slice(&read("summary.json")).unwrap();
    let own: OwnSummary = serde_json::from_value(summary["own"].clone()).unwrap();
    let mean: f64 = records.iter().map(|record| record.own.as_ref().unwrap().score.value).sum();
    assert_eq!((own.n, own.value), (records.len(), mean / records.len() as f64));
    let looked: Vec<_> = records.iter().flat_map(|record| &record.transcript.tool_calls).collect();
    assert!(!looked.is_empty());
    for call in looked {
        let ToolOutcome::Frames { frames } = &call.outcome else { panic!("{call:?}") };
        assert_eq!((frames.len(), call.start, call.end), (8, Some(1.0), Some(3.0)));
    }
    let RecordedPart::Text { text: stamp } = &records[0].transcript.messages[0].parts[0] else { panic!() };
    assert_eq!(stamp, "00:00:00");

    let mut replay = under(&again, &server.base_url);
    replay.args(["--backend", "replay", "--from"]).arg(&out);
    ok(replay);
    assert_eq!(stable_records(&again.join("videomme")), records);
}

/// FrameThinker's actions: a choice for a call, an answer for A and B, neither for C and D.
fn actions(answer: &mut serde_json::Value) {
    let content = &mut answer["choices"][0]["message"]["content"];
    let text = content.as_str().unwrap();
    let action = match text.split_once("<answer>").and_then(|(_, rest)| rest.chars().next()) {
        None => "choose frames between 2 and 15",
        Some('A') => "output answer: A",
        Some('B') => "output answer: B",
        Some(_) => "look",
    };
    *content = format!("<think>t</think><action>{action}</action>").into();
}

#[test]
fn an_agent_of_several_tries_is_replayed_and_counted_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (source, cache) = (dir.path().join("checkout"), dir.path().join("cache"));
    let path = source.join("examples/agent/infer.py");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let loop_text = "def process_single_problem(item):\n    system_prompt = f\"crop_video {num_frames_to_sample}\"\n    \
                     if times > 1:\n        system_prompt = f\"crop_video\"\n";
    std::fs::write(path, loop_text).unwrap();
    let mut import = bench();
    import.env("PARAVT_BENCH_CACHE", &cache).args([
        "protocol",
        "import",
        "framethinker",
        "--unpinned",
        "--from",
    ]);
    ok(import.arg(&source));

    let server = Server::start(Script { rewrite: Some(actions), ..Script::default() });
    let (out, again) = (dir.path().join("out"), dir.path().join("again"));
    let under = |out: &Path| {
        let mut command = run(&["videomme"], out, &server.base_url);
        command.env("PARAVT_BENCH_CACHE", &cache).args(["--protocol", "framethinker"]);
        command
    };
    ok(under(&out));
    let records = stable_records(&out.join("videomme"));
    let asked: usize = records.iter().map(|record| record.transcript.calls.len()).sum();
    assert_eq!(
        asked,
        server.requests.load(std::sync::atomic::Ordering::Relaxed),
        "every request is recorded"
    );
    let tries: Vec<_> = records.iter().map(|record| record.transcript.tries.as_ref().unwrap()).collect();
    assert!(tries.iter().any(|tries| tries.accepted) && tries.iter().any(|tries| !tries.before.is_empty()));
    for (record, tries) in records.iter().zip(&tries) {
        let own = &record.own.as_ref().unwrap().score;
        assert_eq!(own.outcome == Outcome::Scored, tries.accepted);
        assert!(tries.accepted || tries.before.len() == 2);
    }
    let frames = records.iter().flat_map(|record| &record.transcript.tool_calls).filter_map(|call| {
        let ToolOutcome::Frames { frames } = &call.outcome else { return None };
        Some(frames.iter().map(|frame| frame.index).collect::<Vec<_>>())
    });
    let frames: Vec<_> = frames.collect();
    assert!(
        !frames.is_empty() && frames.iter().all(|shown| *shown == [3, 4, 6, 7, 9, 10, 12, 14]),
        "{frames:?}"
    );

    let mut replay = under(&again);
    ok(replay.args(["--backend", "replay", "--from"]).arg(&out));
    assert_eq!(stable_records(&again.join("videomme")), records);
}

#[test]
fn an_import_that_is_missing_names_its_repository() {
    let output = bench().args(["protocol", "export", "eva"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("wangruohui/EfficientVideoAgent"), "{}", text(&output));
    let listed = text(&ok(bench().args(["protocol", "list"])));
    assert!(listed.contains("protocol import conan --from PATH|URL"), "{listed}");
}
