//! A recipe of a served model from end to end: servers that are started, probed, lost and stopped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::recipes::{self, served};
use crate::common::{
    bench, ends, free_port, is_running, ok, python, stable_records, text, tiny, until, world,
};
use paravt_suite::record::Outcome;

/// Samples of the run whose server is killed: enough that some are left when the first is answered.
const SAMPLES: usize = 4;

fn transformers() -> String {
    let program = python().with_file_name("transformers");
    format!("'{}' serve {{model}} --device cpu", program.display())
}

/// Writes the recipe; the port of its server.
fn recipe(folder: &Path, model: &Path, engine: &str, command: Option<&str>) -> u16 {
    let port = free_port();
    let command = command.map(|command| format!("command = {command:?}\n")).unwrap_or_default();
    let serve = format!(
        "engine = \"{engine}\"\nport = {port}\nenvironment = {{ HF_HUB_OFFLINE = \"1\" }}\n{command}"
    );
    let recipe = served(&model.display().to_string(), &serve);
    std::fs::write(folder.join("small.toml"), recipe).unwrap();
    port
}

fn command(folder: &Path, limit: usize, extra: &[&str]) -> Command {
    let mut command = bench();
    command.current_dir(folder).args(["reproduce", "small.toml", "--out", "out", "--protocol", "native"]);
    command.args(["--limit", &limit.to_string(), "--tries", "1", "--data"]).arg(world()).args(extra);
    command
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

#[test]
#[ignore = "needs Python: run by ci/test"]
fn servers_are_started_for_each_evaluation_restarted_when_they_die_and_gone_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let (at, model) = (folder.path(), tiny("tiny_qwen3vl.py"));
    let port = recipe(at, &model, "transformers", Some(&transformers()));

    // The server is killed when the first answer is there.
    let mut child = command(at, SAMPLES, &["--only", "with-tool-mlvu", "--concurrency", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let has_answer = || {
        let journal = run(at, "with-tool-mlvu", "mlvu").map(|run| run.join("journal.jsonl"));
        journal.is_some_and(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains('\n')))
    };
    until("the first answer", 400, || has_answer() || child.try_wait().unwrap().is_some());
    let note = std::fs::read_to_string(at.join("out/servers/server-0.pid")).unwrap();
    let note: serde_json::Value = serde_json::from_str(&note).unwrap();
    let server = format!("--port {port}");
    assert!(is_running(&server), "its command line ends with its port");
    ok(Command::new("kill").args(["-KILL", &note["pid"].to_string()]));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("starting the servers again"), "{}", text(&output));
    answered(at, "with-tool-mlvu", "mlvu", SAMPLES);
    assert!(!is_running(&server), "the server goes on");

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
    let said = ends(0, command(at, 2, &["--only", "with-tool"]), &[]);
    answered(at, "with-tool-mlvu", "mlvu", 2);
    answered(at, "with-tool-charades", "charades", 2);
    assert!(!at.join("out/servers").exists());
    assert!(said.contains("MLVU"), "the report is printed: {said}");
    let again = ends(0, command(at, 2, &["--only", "with-tool"]), &[]);
    assert_eq!(again.matches("(done before)").count(), 2, "{again}");
    // Fewer samples are part of the result, more continue it.
    ends(0, command(at, 1, &["--only", "with-tool-mlvu"]), &["(done before)"]);
    let more = ends(0, command(at, 3, &["--only", "with-tool-mlvu"]), &[]);
    assert!(!more.contains("(done before)"), "{more}");
    answered(at, "with-tool-mlvu", "mlvu", 3);
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_server_that_does_not_start_is_a_precondition_with_its_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    recipe(at, Path::new("owner/model"), "vllm", Some("sh -c 'echo CUDA driver is too old; exit 7'"));
    ends(3, command(at, 2, &[]), &["CUDA driver is too old", "exit status: 7"]);
    let words = "no stage `nothing`; there are protocol, data, serve";
    ends(2, command(at, 2, &["--only", "nothing"]), &[words]);
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
    let run = |code: i32, extra: &[&str], words: &[&str]| {
        let mut command = bench();
        command.current_dir(at).args(["reproduce", "table.toml", "--out", "out", "--protocol", "native"]);
        ends(code, command.args(["--limit", "2", "--data"]).arg(world()).args(extra), words)
    };
    let words = [
        "two.declared-mlvu: FAILED: ",
        "what is left of two.declared is left out",
        "three.with-tool-mlvu: FAILED: ",
        "what is left of three.with-tool is",
        "failed: two.declared, three.with-tool, three.no-tool",
    ];
    let said = run(4, &[], &words);
    for name in ["one.with-tool-mlvu", "one.no-tool-mmvu", "two.no-tool-mlvu", "two.no-tool-mmvu"] {
        let split = name.rsplit('-').next().unwrap();
        answered(at, name, split, 2);
    }
    assert_eq!(said.matches("FAILED: ").count(), 3, "{said}");
    // The published lines of two rows, each with ours below.
    let (_, grid) = said.split_once("published, and ours").expect(&said);
    let (conan, paravt) = (grid.find("Conan-7B").unwrap(), grid.find("ParaVT-8B").unwrap());
    assert!(conan < paravt && !grid.contains("SAGE-7B"), "{said}");
    assert!(at.join("out/report/index.html").is_file());

    // One row, and the same again: what is done is kept.
    let said = run(0, &["--rows", "one"], &[]);
    assert_eq!(said.matches("(done before)").count(), 4, "{said}");
}
