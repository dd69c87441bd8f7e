//! Models by name: from a hub at a pinned revision, then from its cache without one.

use std::process::Command;
use std::sync::atomic::Ordering;

use serde_json::json;

use crate::common::{bench, ends, ok, tiny};
use crate::fetch::local::{Faults, TestHub};

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_model_is_fetched_once_at_its_revision_and_then_read_offline() {
    let dir = tempfile::tempdir().unwrap();
    let messages = dir.path().join("messages.json");
    std::fs::write(&messages, json!([{"role": "user", "content": "A or B?"}]).to_string()).unwrap();
    let files = std::fs::read_dir(tiny("tiny_qwen3vl.py")).unwrap().map(|file| file.unwrap());
    let files =
        files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()));
    let files: Vec<(String, Vec<u8>)> = files.collect();
    let files: Vec<(&str, Vec<u8>)> =
        files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let hub = TestHub::start_as("tiny/model", &files, Faults::default());
    let ask = |model: &str, revision: &str, offline: &str| -> Command {
        let mut command = bench();
        command.args(["generate", "--backend", "candle", "--max-tokens", "3", "--model", model]);
        command.args(["--revision", revision, "--messages"]).arg(&messages);
        command
            .env("HF_ENDPOINT", &hub.endpoint)
            .env("HF_HOME", dir.path().join("hub"))
            .env("HF_HUB_OFFLINE", offline);
        command
    };
    ends(3, ask("tiny/model", "v1", "1"), &["HF_HUB_OFFLINE"]);
    let fetched = ok(ask("tiny/model", "v1", "0"));
    let asked = hub.served.asked.load(Ordering::SeqCst);
    assert!(asked > 5, "{asked} requests");
    let cached = ok(ask("tiny/model", "v1", "1"));
    assert_eq!(cached.stdout, fetched.stdout);
    assert_eq!(
        hub.served.asked.load(Ordering::SeqCst),
        asked,
        "what the cache holds whole is not asked for again"
    );
    for (model, revision, wrong) in [
        ("tiny/model", "v2", "no such revision"),
        ("tiny/other", "v1", "no such repository"),
        ("a/b/c", "v1", "neither a folder nor a model on the hub"),
    ] {
        ends(3, ask(model, revision, "0"), &[wrong]);
    }
}
