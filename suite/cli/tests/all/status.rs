//! `status`, `--notify`, and a recipe that goes on with more samples.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::recipes::{served, stage};
use crate::common::server::{Script, Server};
use crate::common::{bench, text, world};

fn reproduce(at: &Path, url: &str, extra: &[&str]) -> Output {
    let mut command = bench();
    command.current_dir(at).args(["reproduce", "small.toml", "--out", "out", "--protocol", "native"]);
    command.args(["--tries", "1", "--base-url", url, "--data"]).arg(world()).args(extra);
    command.output().unwrap()
}

fn status(at: &Path, extra: &[&str]) -> Output {
    bench().current_dir(at).args(["status", "out"]).args(extra).output().unwrap()
}

#[test]
fn more_samples_keep_the_first_and_status_says_how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("small.toml"), served("owner/model", "engine = \"vllm\"")).unwrap();
    let nothing = status(at, &[]);
    assert_eq!(nothing.status.code(), Some(2), "{}", text(&nothing));
    assert!(text(&nothing).contains("no such folder"), "{}", text(&nothing));

    let server = Server::start(Script::default());
    let notes = "echo \"$PARAVT_OUTCOME $PARAVT_RECIPE\" >> notes";
    let first = reproduce(at, &server.base_url, &["--limit", "2", "--notify", notes]);
    assert!(first.status.success(), "{}", text(&first));
    let said = status(at, &[]);
    assert!(said.status.success(), "{}", text(&said));
    let said = text(&said);
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    assert!(said.contains("4 of 4 stages are done, not running") && said.contains(" 2/2"), "{said}");
    assert!(said.contains("next: open out/report/index.html in a browser"), "{said}");
    let journal = |name: &str, split: &str| {
        let run = stage(&at.join("out"), name).unwrap().join(split);
        std::fs::read_to_string(run.join("journal.jsonl")).unwrap()
    };
    let before = journal("with-tool-mlvu", "mlvu");

    // The first two are not asked again, and the result for fewer is part of that for more.
    let more = reproduce(at, &server.base_url, &["--limit", "3", "--notify", notes]);
    assert!(more.status.success(), "{}", text(&more));
    let after = journal("with-tool-mlvu", "mlvu");
    assert!(after.starts_with(&before) && after.lines().count() == 3, "{after}");
    let again = reproduce(at, &server.base_url, &["--limit", "2"]);
    assert!(text(&again).contains("with-tool-mlvu") && text(&again).contains("(done before)"));
    assert_eq!(journal("with-tool-mlvu", "mlvu"), after);
    assert_eq!(std::fs::read_to_string(at.join("notes")).unwrap(), "complete small\ncomplete small\n");

    // The server is gone: finished samples are kept, the command is notified, and `status` shows the error.
    drop(server);
    let down = reproduce(at, "http://127.0.0.1:9/v1", &["--notify", notes]);
    assert!(!down.status.success(), "{}", text(&down));
    let notes = std::fs::read_to_string(at.join("notes")).unwrap();
    assert!(notes.lines().count() > 2 && notes.lines().nth(2).unwrap().ends_with(" small"), "{notes}");
    let said = status(at, &[]);
    assert_eq!(said.status.code(), Some(4), "{}", text(&said));
    let said = text(&said);
    assert!(said.contains("with-tool-mlvu: ") && said.contains("/run.log"), "{said}");
    assert!(said.contains("next: paravt-bench reproduce small.toml"), "{said}");
    assert!(journal("with-tool-mlvu", "mlvu").starts_with(&after));

    let json = status(at, &["--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((json["recipe"].as_str(), json["is_running"].as_bool()), (Some("small"), Some(false)));
    let names: Vec<&str> =
        json["stages"].as_array().unwrap().iter().filter_map(|stage| stage["name"].as_str()).collect();
    assert_eq!(names, ["with-tool-mlvu", "no-tool-mlvu", "with-tool-charades", "no-tool-charades"]);
}

/// A recipe whose process was killed is shown as it is.
#[test]
fn a_recipe_that_was_killed_is_not_running() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("small.toml"), served("owner/model", "engine = \"vllm\"")).unwrap();
    let server = Server::start(Script { delay: std::time::Duration::from_secs(20), ..Script::default() });
    let mut command = bench();
    command.current_dir(at).args(["reproduce", "small.toml", "--out", "out", "--protocol", "native"]);
    command.args(["--base-url", &server.base_url, "--data"]).arg(world());
    let mut child = command.spawn().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let shows = |word: &str| {
        let said = text(&status(at, &[]));
        said.lines().any(|line| line.starts_with(word) && line.contains("with-tool-mlvu"))
    };
    while !shows("running") {
        assert!(std::time::Instant::now() < until, "{}", text(&status(at, &[])));
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(status(at, &[]).status.success());
    assert!(Command::new("kill").args(["-KILL", &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
    assert!(shows("killed"), "{}", text(&status(at, &[])));
    assert_eq!(status(at, &[]).status.code(), Some(4));
}
