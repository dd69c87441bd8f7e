//! A recipe of a served model from end to end: servers that are started, probed, lost and stopped.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::recipes::{self, served};
use crate::common::{bench, ok, python, stable_records, text, tiny, world};
use paravt_suite::record::Outcome;

/// Samples of the run whose server is killed: enough that some are left when the first is answered.
const SAMPLES: usize = 4;

fn transformers() -> String {
    let program = python().with_file_name("transformers");
    format!("'{}' serve {{model}} --device cpu", program.display())
}

fn recipe(folder: &Path, model: &Path, engine: &str, command: Option<&str>) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let command = command.map(|command| format!("command = {command:?}\n")).unwrap_or_default();
    let serve = format!(
        "engine = \"{engine}\"\nport = {port}\nenvironment = {{ HF_HUB_OFFLINE = \"1\" }}\n{command}"
    );
    let recipe = served(&model.display().to_string(), &serve);
    std::fs::write(folder.join("small.toml"), recipe).unwrap();
}

fn command(folder: &Path, limit: usize, extra: &[&str]) -> Command {
    let mut command = bench();
    command.current_dir(folder).args(["reproduce", "small.toml", "--out", "out", "--protocol", "native"]);
    command.args(["--limit", &limit.to_string(), "--tries", "1", "--data"]).arg(world()).args(extra);
    command
}

fn reproduce(folder: &Path, extra: &[&str]) -> Output {
    command(folder, 2, extra).output().unwrap()
}

/// The run directory of a stage and a split.
fn run(folder: &Path, stage: &str, split: &str) -> Option<PathBuf> {
    Some(recipes::stage(&folder.join("out"), stage)?.join(split))
}

fn answered(folder: &Path, stage: &str, split: &str, count: usize) {
    let records = stable_records(&run(folder, stage, split).unwrap());
    assert_eq!(records.len(), count, "{stage}");
    for record in records {
        assert_ne!(record.score.outcome, Outcome::Error, "{stage}: {:?}", record.error);
    }
}

/// Processes whose command line contains a text.
fn running(text: &str) -> Vec<String> {
    let lines = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ")
    });
    lines.filter(|line| line.contains(text) && !line.contains("paravt-bench")).collect()
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn servers_are_started_for_each_evaluation_restarted_when_they_die_and_gone_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let (at, model) = (folder.path(), tiny("tiny_qwen3vl.py"));
    recipe(at, &model, "transformers", Some(&transformers()));

    // The server is killed when the first answer is there.
    let mut child = command(at, SAMPLES, &["--only", "with-tool-mlvu", "--concurrency", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(400);
    let has_answer = || {
        let journal = run(at, "with-tool-mlvu", "mlvu").map(|run| run.join("journal.jsonl"));
        journal.is_some_and(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains('\n')))
    };
    while !has_answer() && child.try_wait().unwrap().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    let note = std::fs::read_to_string(at.join("out/servers/server-0.pid")).unwrap();
    let note: serde_json::Value = serde_json::from_str(&note).unwrap();
    let killed = Command::new("kill").args(["-KILL", &note["pid"].to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("starting the servers again"), "{}", text(&output));
    answered(at, "with-tool-mlvu", "mlvu", SAMPLES);
    assert!(running(&model.display().to_string()).is_empty(), "{:?}", running(&model.display().to_string()));

    // The rest; what is done stays.
    let output = ok(command(at, SAMPLES, &["--until", "no-tool-mlvu"]));
    assert_eq!(text(&output).matches("(done before)").count(), 1, "{}", text(&output));
    answered(at, "no-tool-mlvu", "mlvu", SAMPLES);
    assert!(run(at, "with-tool-charades", "charades").is_none());
    assert!(at.join("out/servers/server-0.log").metadata().unwrap().len() > 0);
    assert!(!at.join("out/servers/server-0.pid").exists());
    let stage = run(at, "no-tool-mlvu", "mlvu").unwrap().with_file_name("stage.json");
    let stage = std::fs::read_to_string(stage).unwrap();
    assert!(!stage.contains(&model.display().to_string()), "a path of this machine: {stage}");
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_model_in_this_process_needs_no_server_and_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (at, model) = (folder.path(), tiny("tiny_qwen3vl.py"));
    recipe(at, &model, "candle", None);
    let output = reproduce(at, &["--only", "with-tool"]);
    assert!(output.status.success(), "{}", text(&output));
    answered(at, "with-tool-mlvu", "mlvu", 2);
    answered(at, "with-tool-charades", "charades", 2);
    assert!(!at.join("out/servers").exists());
    assert!(text(&output).contains("MLVU"), "the report is printed: {}", text(&output));
    let again = reproduce(at, &["--only", "with-tool"]);
    assert_eq!(text(&again).matches("(done before)").count(), 2, "{}", text(&again));
    // Fewer samples are part of the result, more continue it.
    let fewer = command(at, 1, &["--only", "with-tool-mlvu"]).output().unwrap();
    assert!(text(&fewer).contains("(done before)"), "{}", text(&fewer));
    let more = command(at, 3, &["--only", "with-tool-mlvu"]).output().unwrap();
    assert!(!text(&more).contains("(done before)"), "{}", text(&more));
    answered(at, "with-tool-mlvu", "mlvu", 3);
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_server_that_does_not_start_is_a_precondition_with_its_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    recipe(at, Path::new("owner/model"), "vllm", Some("sh -c 'echo CUDA driver is too old; exit 7'"));
    let output = reproduce(at, &[]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("CUDA driver is too old"), "{}", text(&output));
    assert!(text(&output).contains("exit status: 7"), "{}", text(&output));

    let wrong = reproduce(at, &["--only", "nothing"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
    assert!(text(&wrong).contains("no stage `nothing`; there are protocol, data, serve"), "{}", text(&wrong));
}

/// In this process: one row, one with a run that its engine refuses, and one whose model is nowhere.
#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_table_goes_on_without_what_fails_and_shows_the_rest_beside_the_published_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (at, model) = (folder.path(), tiny("tiny_qwen3vl.py"));
    recipe(at, &model, "candle", None);
    let write = |name: &str, text: &str| std::fs::write(at.join(name), text).unwrap();
    let of_row = |row: &str, rest: &str| {
        format!("extends = \"small.toml\"\npaper_row = {row:?}\nmatrix.split = [\"mlvu\", \"mmvu\"]\n{rest}")
    };
    write("one.toml", &of_row("ParaVT-8B", ""));
    // The second is declared through a chat API, which the engine does not have.
    let runs = "matrix.run = [\"no-tool\", { name = \"declared\", dialect = \"native\" }]\n";
    write("two.toml", &of_row("Conan-7B", runs));
    write("three.toml", &of_row("SAGE-7B", "model = \"./nowhere\"\n"));
    write("table.toml", "title = \"t\"\nrows = [\"one.toml\", \"two.toml\", \"three.toml\"]\n");
    let run = |extra: &[&str]| {
        let mut command = bench();
        command.current_dir(at).args(["reproduce", "table.toml", "--out", "out", "--protocol", "native"]);
        command.args(["--limit", "2", "--data"]).arg(world()).args(extra).output().unwrap()
    };
    let output = run(&[]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    for name in ["one.with-tool-mlvu", "one.no-tool-mmvu", "two.no-tool-mlvu", "two.no-tool-mmvu"] {
        let split = name.rsplit('-').next().unwrap();
        answered(at, name, split, 2);
    }
    assert_eq!(said.matches("FAILED: ").count(), 3, "{said}");
    assert!(
        said.contains("two.declared-mlvu: FAILED: ")
            && said.contains("what is left of two.declared is left out"),
        "{said}"
    );
    assert!(
        said.contains("three.with-tool-mlvu: FAILED: ")
            && said.contains("what is left of three.with-tool is"),
        "{said}"
    );
    assert!(said.contains("failed: two.declared, three.with-tool, three.no-tool"), "{said}");
    // The published lines of two rows, each with ours below.
    let (_, grid) = said.split_once("published, and ours").expect(&said);
    let (conan, paravt) = (grid.find("Conan-7B").unwrap(), grid.find("ParaVT-8B").unwrap());
    assert!(conan < paravt && !grid.contains("SAGE-7B"), "{said}");
    assert!(at.join("out/report/index.html").is_file());

    // One row, and the same again: what is done is kept.
    let output = run(&["--rows", "one"]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(text(&output).matches("(done before)").count(), 4, "{}", text(&output));
}
