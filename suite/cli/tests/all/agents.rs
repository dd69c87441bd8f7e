//! An agent's own protocol, in the words of a stand-in, from the cache to a replayed run.

use std::process::Command;
use std::sync::atomic::Ordering;

use crate::common::server::{Script, Server};
use crate::common::{bench, ends, ok, run, run_again, stable_records, store_standin};
use paravt_agents::conan::RELEASE;
use paravt_suite::protocol::Fidelity;
use paravt_suite::record::{Outcome, Record, RecordedMessage, RecordedPart, ToolOutcome};
use paravt_suite::run::Manifest;
use paravt_suite::summary::AgentScoreSummary;
use serde_json::Value;
use tempfile::TempDir;

/// Conan's spelling of the scripted model's calls.
fn clips(answer: &mut Value) {
    let content = &mut answer["choices"][0]["message"]["content"];
    let calls = content.as_str().unwrap().matches("<tool_call>").count();
    if calls > 0 {
        *content = "<think>closer</think><clip>00:00:01-00:00:03</clip><answer></answer>".into();
    }
}

#[test]
fn a_run_under_an_imported_protocol_has_both_scores_and_is_replayed() {
    let (dir, records) = replayed("conan", clips);
    let read = |name: &str| std::fs::read(dir.path().join("out/videomme").join(name)).unwrap();
    let manifest: Manifest = serde_json::from_slice(&read("manifest.json")).unwrap();
    assert_eq!((manifest.fidelity, manifest.plan.temperature), (Some(Fidelity::Variant), 1.0));
    assert_eq!(manifest.protocol_source.repository, RELEASE.repository);
    let summary: Value = serde_json::from_slice(&read("summary.json")).unwrap();
    let own: AgentScoreSummary = serde_json::from_value(summary["own"].clone()).unwrap();
    let mean: f64 = records.iter().map(|record| record.agent_score.as_ref().unwrap().score.value).sum();
    assert_eq!((own.n, own.value), (records.len(), mean / records.len() as f64));
    let looked: Vec<_> = records.iter().flat_map(|record| &record.transcript.tool_calls).collect();
    assert!(!looked.is_empty());
    for call in looked {
        let ToolOutcome::Frames { frames } = &call.outcome else { panic!("{call:?}") };
        assert_eq!((frames.len(), call.start, call.end), (8, Some(1.0), Some(3.0)));
    }
    let RecordedPart::Text { text: stamp } = &records[0].transcript.messages[0].parts[0] else { panic!() };
    assert_eq!(stamp, "00:00:00");
}

/// FrameThinker's actions: a choice for a call, an answer for A and B, neither for C and D.
fn actions(answer: &mut Value) {
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

/// Folder and records of a run of an imported agent whose model is scripted. A replay and a resumed run ask nothing and
/// have the same records: every request is found by the hash of its conversation.
fn replayed(name: &str, rewrite: fn(&mut Value)) -> (TempDir, Vec<Record>) {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    store_standin(name, &cache);
    let server = Server::start(Script { rewrite: Some(rewrite), ..Script::default() });
    let (out, again) = (dir.path().join("out"), dir.path().join("again"));
    let under = |mut command: Command| {
        command.env("PARAVT_BENCH_CACHE", &cache).args(["--protocol", name]);
        command
    };
    let asks = || under(run(&["videomme"], &out, &server.base_url));
    ok(asks());
    let records = stable_records(&out.join("videomme"));
    let asked: usize = records.iter().map(|record| record.transcript.calls.len()).sum();
    ok(under(run_again(&["videomme"], &again, &out)));
    assert_eq!(stable_records(&again.join("videomme")), records);
    ok(asks().arg("--resume"));
    assert_eq!(stable_records(&out.join("videomme")), records);
    assert_eq!(
        server.requests.load(Ordering::Relaxed),
        asked,
        "every request is recorded, and none is repeated"
    );
    (dir, records)
}

#[test]
fn an_agent_of_several_tries_is_replayed_and_counted_whole() {
    let (_, records) = replayed("framethinker", actions);
    let tries: Vec<_> = records.iter().map(|record| record.transcript.tries.as_ref().unwrap()).collect();
    assert!(tries.iter().any(|tries| tries.accepted) && tries.iter().any(|tries| !tries.before.is_empty()));
    for (record, tries) in records.iter().zip(&tries) {
        let own = &record.agent_score.as_ref().unwrap().score;
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
}

/// Video-o3's calls for A and B, answers for the others.
fn groundings(answer: &mut Value) {
    let content = &mut answer["choices"][0]["message"]["content"];
    let sampling = match content.as_str().unwrap().as_bytes()["<answer>".len()] {
        b'A' => "coarse",
        b'B' => "fine",
        _ => return,
    };
    *content = format!(
        r#"<grounding>{{"temporal_segment": [1, 3], "sampling_strategy": "{sampling}"}}</grounding>"#
    )
    .into();
}

#[test]
fn an_agent_of_a_video_for_each_call_is_replayed() {
    let (_, records) = replayed("video-o3", groundings);
    let shown = |message: &RecordedMessage| {
        message.parts.iter().any(|part| matches!(part, RecordedPart::Frames { .. }))
    };
    let videos =
        records.iter().map(|record| record.transcript.messages.iter().filter(|one| shown(one)).count());
    assert!(videos.clone().min() == Some(1) && videos.max() > Some(2), "one of the whole, one for each call");
}

#[test]
fn an_import_that_is_missing_names_its_repository() {
    ends(2, bench().args(["protocol", "export", "eva"]), &["wangruohui/EfficientVideoAgent"]);
    ends(0, bench().args(["protocol", "list"]), &["protocol import conan --from PATH|URL"]);
}
