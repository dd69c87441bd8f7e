//! `status`, `--notify`, and a recipe that goes on with more samples.

use std::path::Path;
use std::process::Command;

use crate::common::recipes::{served, stage};
use crate::common::server::{Script, Server};
use crate::common::{bench, ends, files, ok, run, text, until, world};

fn reproduce(at: &Path, url: &str, extra: &[&str]) -> Command {
    let mut command = bench();
    command.current_dir(at).args(["reproduce", "small.toml", "--out", "out", "--protocol", "native"]);
    command.args(["--tries", "1", "--base-url", url, "--data"]).arg(world()).args(extra);
    command
}

fn status(at: &Path) -> Command {
    let mut command = bench();
    command.current_dir(at).args(["status", "out"]);
    command
}

#[test]
fn more_samples_keep_the_first_and_status_says_how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("small.toml"), served("owner/model", "engine = \"vllm\"")).unwrap();
    ends(2, status(at), &["no such folder"]);

    let server = Server::start(Script::default());
    let notes = "echo \"$PARAVT_OUTCOME $PARAVT_RECIPE\" >> notes";
    ok(reproduce(at, &server.base_url, &["--limit", "2", "--notify", notes]));
    let next = "next: open out/report/index.html in a browser";
    let said = ends(0, status(at), &["4 of 4 stages are done, not running", " 2/2", next]);
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let journal = |name: &str, split: &str| {
        let run = stage(&at.join("out"), name).unwrap().join(split);
        std::fs::read_to_string(run.join("journal.jsonl")).unwrap()
    };
    let before = journal("with-tool-mlvu", "mlvu");

    // The first two are not asked again, and the result for fewer is part of that for more.
    ok(reproduce(at, &server.base_url, &["--limit", "3", "--notify", notes]));
    let after = journal("with-tool-mlvu", "mlvu");
    assert!(after.starts_with(&before) && after.lines().count() == 3, "{after}");
    let again = reproduce(at, &server.base_url, &["--limit", "2"]);
    ends(0, again, &["with-tool-mlvu", "(done before)"]);
    assert_eq!(journal("with-tool-mlvu", "mlvu"), after);
    assert_eq!(std::fs::read_to_string(at.join("notes")).unwrap(), "complete small\ncomplete small\n");

    // The server is gone: finished samples are kept, the command is notified, and `status` shows the error.
    drop(server);
    let down = reproduce(at, "http://127.0.0.1:9/v1", &["--notify", notes]).output().unwrap();
    assert!(!down.status.success(), "{}", text(&down));
    let notes = std::fs::read_to_string(at.join("notes")).unwrap();
    assert!(notes.lines().count() > 2 && notes.lines().nth(2).unwrap().ends_with(" small"), "{notes}");
    let next = "next: paravt-bench reproduce small.toml";
    ends(4, status(at), &["with-tool-mlvu: ", "/run.log", next]);
    assert!(journal("with-tool-mlvu", "mlvu").starts_with(&after));

    let json = status(at).arg("--json").output().unwrap();
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
    let mut child = reproduce(at, &server.base_url, &[]).spawn().unwrap();
    let shows = |word: &str| {
        let said = text(&status(at).output().unwrap());
        said.lines().any(|line| line.starts_with(word) && line.contains("with-tool-mlvu"))
    };
    until("the first stage is running", 60, || shows("running"));
    ok(status(at));
    ok(Command::new("kill").args(["-KILL", &child.id().to_string()]));
    child.wait().unwrap();
    let said = ends(4, status(at), &[]);
    assert!(shows("killed"), "{said}");
}

/// Without a recipe: runs, finished and not.
#[test]
fn runs_are_shown_by_split_with_what_they_lack() {
    let (server, folder) = (Server::start(Script::default()), tempfile::tempdir().unwrap());
    let runs = folder.path().join("runs");
    let limited = |split: &str| {
        let mut command = run(&[split], &runs.join(split), &server.base_url);
        command.args(["--limit", "2"]);
        command
    };
    ok(limited("mlvu"));
    ok(limited("lvbench"));
    let status = || {
        let mut command = bench();
        command.arg("status").arg(&runs);
        command
    };
    ends(0, status(), &["MLVU (dev) · ", "2/2, finished", "2 runs: 4 of 4 samples", "mean so far"]);
    // A record less, as while it runs.
    let journal = files(&runs).into_iter().find(|path| path.ends_with("lvbench/journal.jsonl")).unwrap();
    let text = std::fs::read_to_string(&journal).unwrap();
    let first = text.lines().next().unwrap();
    std::fs::write(&journal, format!("{first}\n")).unwrap();
    ends(4, status(), &["1/2, ", "to go at that rate", "3 of 4 samples"]);
    let json: serde_json::Value =
        serde_json::from_slice(&status().arg("--json").output().unwrap().stdout).unwrap();
    assert_eq!((json.as_array().unwrap().len(), &json[0]["expected"]), (2, &2.into()));
    ends(2, bench().args(["status"]).arg(folder.path().join("no")), &["no such folder"]);
}
