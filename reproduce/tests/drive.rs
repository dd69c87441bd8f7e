//! The driver with a host that answers by itself: what runs, what is kept, what is redone, and servers that die.
#![allow(clippy::unwrap_used)]

#[path = "../engines/tests/standin/mod.rs"]
mod standin;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::Result;
use paravt_reproduce::driver::{
    Answers, Check, Evaluation, Event, Host, Observer, Options, Outcome, Reporting, run,
};
use paravt_reproduce::graph::{Graph, Stage};
use paravt_reproduce::{Error, Fetch, GraphOptions, Recipe};
use paravt_suite::frames::CachedFrames;
use paravt_train::Compute;

/// Writes a file for each evaluation and notes everything.
#[derive(Debug, Default)]
struct Noting {
    calls: Vec<String>,
    probes: Vec<String>,
    /// Outcomes of the next evaluations; then all are complete.
    outcomes: Vec<Outcome>,
    /// The evaluation goes on once that server was started again.
    awaits_restart: bool,
    /// File that names the server to kill in the next evaluation.
    kill: Option<PathBuf>,
    /// The user asks for the end during the next evaluation.
    stops: bool,
    is_stopped: bool,
    /// What is missing of the files that were fetched.
    gone: Option<String>,
    /// The next evaluation sends a request and waits for its answer.
    waits: bool,
    /// A check that fails.
    refuses: &'static str,
}

impl Host for Noting {
    fn evaluate(&mut self, evaluation: &Evaluation, folder: &Path, answers: Answers<'_>) -> Result<Outcome> {
        let by = match answers {
            Answers::AsGiven => "flags".to_owned(),
            Answers::InProcess(model, _) => format!("in process {model}"),
            Answers::Servers(urls, model, _) => format!("{} servers of {model}", urls.len()),
        };
        // Its name and a hash.
        let stage = folder.file_name().unwrap().to_str().unwrap().rsplit_once('-').unwrap().0;
        self.calls.push(format!("{stage} {} by {by}", evaluation.splits.join(",")));
        self.is_stopped |= std::mem::take(&mut self.stops);
        std::fs::write(folder.join("records"), stage).unwrap();
        if let Some(file) = self.kill.take() {
            let pid = || {
                let note: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).ok()?).ok()?;
                Some(note["pid"].to_string())
            };
            let killed = pid().unwrap();
            assert!(Command::new("kill").args(["-KILL", &killed]).status().unwrap().success());
            while self.awaits_restart && pid().is_none_or(|pid| pid == killed) {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            // The supervisor sees it at the next look.
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        if let Answers::Servers(urls, ..) = answers
            && std::mem::take(&mut self.waits)
        {
            let address = urls[0].trim_start_matches("http://").trim_end_matches("/v1");
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            // Ends when the server is gone.
            let _ = std::io::Read::read(&mut stream, &mut [0; 16]);
            return Ok(Outcome::Incomplete);
        }
        Ok(if self.outcomes.is_empty() { Outcome::Complete } else { self.outcomes.remove(0) })
    }

    fn probe(&mut self, base_url: &str, model: &str) -> std::result::Result<(), String> {
        self.probes.push(format!("{model} at {base_url}"));
        Ok(())
    }

    fn check(&mut self, check: &Check, _: &[&Evaluation]) -> Result<()> {
        let name = format!("{check:?}").split(['(', ' ']).next().unwrap().to_owned();
        anyhow::ensure!(name != self.refuses, "{name} fails");
        self.calls.push(name);
        Ok(())
    }

    fn fetch(&mut self, fetch: &Fetch, folder: &Path) -> Result<Outcome> {
        self.calls.push(format!("fetch {}", fetch.items.len()));
        self.gone = None;
        std::fs::write(folder.join("fetched.json"), "[]").unwrap();
        Ok(if self.outcomes.is_empty() { Outcome::Complete } else { self.outcomes.remove(0) })
    }

    fn missing(&mut self, _: &Fetch) -> Result<Option<String>> {
        Ok(self.gone.clone())
    }

    fn materialize(&mut self, folder: &Path) -> Result<Outcome> {
        self.calls.push("materialize".to_owned());
        std::fs::write(folder.join("paravt_sft_a.parquet"), "rows").unwrap();
        Ok(Outcome::Complete)
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    fn examine(&mut self, _: &Path, _: usize) -> Result<()> {
        Ok(())
    }

    fn report(&mut self, _: &Reporting, runs: &[PathBuf]) -> Result<Outcome> {
        self.calls.push(format!("report of {}", runs.len()));
        Ok(Outcome::Complete)
    }
}

#[derive(Default)]
struct Lines(Vec<String>);

impl Observer for Lines {
    fn event(&mut self, stage: &Stage, event: Event<'_>) {
        let text = match event {
            Event::Busy(_) => return,
            Event::Kept => "kept".to_owned(),
            Event::Discarded(why, to) => {
                assert!(to.is_dir());
                format!("discarded: {why}")
            }
            Event::Started => "started".to_owned(),
            Event::Progress(progress) => progress.to_string(),
            Event::Note(note) => note.to_owned(),
            Event::GivenUp(run, why) => format!("failed, {} is given up: {why}", run.unwrap_or("its row")),
            Event::Ended(..) => "ended".to_owned(),
        };
        self.0.push(format!("{} {text}", stage.name()));
    }
}

fn options(only: &[&str]) -> Options {
    Options {
        any_code: false,
        from: None,
        redo: Vec::new(),
        yes: false,
        until: None,
        only: only.iter().map(|&name| name.to_owned()).collect(),
        frames: Arc::new(CachedFrames::default()),
        compute: Compute::cpu(),
        command: Vec::new(),
    }
}

/// What a run did.
#[derive(Debug)]
struct Driven {
    ended: Outcome,
    host: Noting,
    lines: Vec<String>,
}

/// Runs what the options select of a graph.
fn drive(graph: &Graph, options: &Options, mut host: Noting) -> std::result::Result<Driven, Box<Error>> {
    let mut lines = Lines::default();
    let ended = run(graph, options, &mut host, &mut lines).map_err(Box::new)?;
    Ok(Driven { ended, host, lines: lines.0 })
}

fn recipe(folder: &Path, serve: &str) -> Recipe {
    let text = format!(
        "extends = \"served\"\nname = \"small\"\ntitle = \"small\"\nmodel = \"owner/model\"\npaper_row = \"ParaVT-8B\"\n\
         [serve]\n{serve}\n[evaluate]\nmode = \"native\"\n[matrix]\nsplit = [\"mlvu\", \"charades\"]\n"
    );
    let file = folder.join("small.toml");
    std::fs::write(&file, text).unwrap();
    Recipe::load(file.to_str().unwrap()).unwrap()
}

fn own(folder: &Path) -> Graph {
    let options =
        GraphOptions { backend: Some("--base-url".to_owned()), ..GraphOptions::new(folder.join("out")) };
    recipe(folder, "engine = \"vllm\"").graph(&options).unwrap()
}

#[test]
fn stages_run_once_and_are_selected_by_name_and_split() {
    let folder = tempfile::tempdir().unwrap();
    let graph = own(folder.path());
    let Driven { ended, host, .. } = drive(&graph, &options(&["mlvu"]), Noting::default()).unwrap();
    assert_eq!(ended, Outcome::Complete);
    assert_eq!(host.calls, ["Protocol", "Data", "Backend", "with-tool-mlvu mlvu by flags", "report of 1"]);
    let Driven { ended, host, lines } = drive(&graph, &options(&[]), Noting::default()).unwrap();
    assert_eq!(ended, Outcome::Complete);
    assert_eq!(host.calls[3..], ["with-tool-charades charades by flags", "report of 2"]);
    assert_eq!(lines, ["with-tool-mlvu kept", "with-tool-charades started", "with-tool-charades ended"]);

    let from = Options { from: Some("with-tool-charades".to_owned()), ..options(&[]) };
    let Driven { lines, .. } = drive(&graph, &from, Noting::default()).unwrap();
    let again = "with-tool-charades discarded: asked to do it again";
    assert_eq!(
        lines,
        [again, "with-tool-mlvu kept", "with-tool-charades started", "with-tool-charades ended"]
    );
    let until = Options { until: Some("data".to_owned()), ..options(&[]) };
    let Driven { host, .. } = drive(&graph, &until, Noting::default()).unwrap();
    assert_eq!(host.calls, ["Protocol", "Data"]);
    for wrong in [
        Options { until: Some("x".to_owned()), ..options(&[]) },
        Options { from: Some("x".to_owned()), ..options(&[]) },
        Options { redo: vec!["x".to_owned()], ..options(&[]) },
        options(&["x"]),
    ] {
        let error = drive(&graph, &wrong, Noting::default()).unwrap_err().to_string();
        assert!(error.contains("no stage `x`; there are protocol, data, serve, with-tool-mlvu"), "{error}");
    }
}

/// Only what builds on a stage is done again with it, nothing after `--until`, and hours of work only when confirmed.
#[test]
fn redone_stages_are_moved_with_their_dependants_up_to_until() {
    let folder = tempfile::tempdir().unwrap();
    let graph = own(folder.path());
    drive(&graph, &options(&[]), Noting::default()).unwrap();
    let redone = |redo: &str, until: Option<&str>, yes| {
        let redo = vec![redo.to_owned()];
        let options = Options { redo, yes, until: until.map(str::to_owned), ..options(&[]) };
        let lines = drive(&graph, &options, Noting::default()).map_err(|error| error.to_string())?.lines;
        let started = lines.iter().filter_map(|line| line.strip_suffix(" started").map(str::to_owned));
        Ok::<_, String>(started.collect::<Vec<_>>())
    };
    // A split; a stage without a result of its own, which the evaluations build on; the same before them.
    assert_eq!(redone("mlvu", None, false).unwrap(), ["with-tool-mlvu"]);
    assert_eq!(redone("serve", Some("with-tool-mlvu"), false).unwrap(), ["with-tool-mlvu"]);
    assert_eq!(redone("data", None, false).unwrap(), ["with-tool-mlvu", "with-tool-charades"]);
    assert!(redone("protocol", Some("data"), false).unwrap().is_empty());
    let discarded = std::fs::read_dir(graph.out.join("discarded")).unwrap();
    assert_eq!(discarded.count(), 4);

    let (_, _, mlvu) = graph.evaluations().next().unwrap();
    let two_hours = "{\"began\":0.0,\"pid\":1}\n{\"ended\":7200.0,\"outcome\":\"complete\"}\n";
    std::fs::write(mlvu.join(".attempts.jsonl"), two_hours).unwrap();
    let error = redone("serve", None, false).unwrap_err();
    assert!(
        error.contains("with-tool-mlvu-") && error.contains("2.0 h") && error.contains("--yes"),
        "{error}"
    );
    assert!(mlvu.join("records").is_file());
    assert_eq!(redone("serve", None, true).unwrap(), ["with-tool-mlvu", "with-tool-charades"]);
    assert!(std::fs::read_to_string(mlvu.join(".attempts.jsonl")).unwrap().contains("\"complete\""));
}

/// Ctrl-C in the last samples of a split leaves that complete, and begins nothing more.
#[test]
fn a_stop_that_a_stage_did_not_notice_ends_the_recipe() {
    let folder = tempfile::tempdir().unwrap();
    let graph = own(folder.path());
    assert_eq!(graph.standing(false), "");
    let stopped = Noting { stops: true, ..Noting::default() };
    let Driven { ended, host, .. } = drive(&graph, &options(&[]), stopped).unwrap();
    assert_eq!(ended, Outcome::Interrupted);
    assert_eq!(host.calls.last().unwrap(), "with-tool-mlvu mlvu by flags");
    let Driven { lines, .. } = drive(&graph, &options(&[]), Noting::default()).unwrap();
    assert_eq!(lines[..2], ["with-tool-mlvu kept", "with-tool-charades started"]);
    assert_eq!(graph.standing(false), "\n2 of 2 results are there and kept\n");
}

#[test]
fn an_incomplete_evaluation_is_resumed_and_a_dead_server_stops_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let graph = own(folder.path());
    let outcomes = vec![Outcome::Incomplete, Outcome::Complete];
    let Driven { ended, host, .. } =
        drive(&graph, &options(&[]), Noting { outcomes, ..Noting::default() }).unwrap();
    assert_eq!(ended, Outcome::Incomplete);
    assert_eq!(graph.standing(false), "\n1 of 2 results are there and kept\n  with-tool-mlvu: continued\n");
    assert_eq!(host.calls.len(), 6);
    let down = Noting { outcomes: vec![Outcome::Down], ..Noting::default() };
    let Driven { ended, lines, .. } = drive(&graph, &options(&[]), down).unwrap();
    assert_eq!(ended, Outcome::Down);
    assert!(lines.contains(&"with-tool-charades kept".to_owned()), "{lines:?}");

    let folder = tempfile::tempdir().unwrap();
    let graph = own(folder.path());
    for (outcome, calls) in [(Outcome::Down, 5), (Outcome::Interrupted, 4)] {
        let host = Noting { outcomes: vec![outcome], ..Noting::default() };
        let Driven { ended, host, .. } = drive(&graph, &options(&[]), host).unwrap();
        assert_eq!(ended, outcome);
        assert_eq!(host.calls.len(), calls, "{:?}", host.calls);
    }
}

#[test]
fn records_of_a_server_survive_damage_and_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let graph = own(folder.path());
    drive(&graph, &options(&[]), Noting::default()).unwrap();
    let (stage, _, at) = graph.evaluations().next().unwrap();
    std::fs::write(at.join("records"), "changed").unwrap();
    std::fs::write(at.join("more"), "kept").unwrap();
    let Driven { lines, .. } = drive(&graph, &options(&[]), Noting::default()).unwrap();
    assert_eq!(lines[0], format!("{} started", stage.name()));
    assert!(at.join("more").is_file(), "nothing is thrown away");
}

/// Set in the process that is the server: its port.
const PORT: &str = "PARAVT_DRIVE_PORT";
/// Set in a server that takes requests and answers none.
const HANGS: &str = "PARAVT_DRIVE_HANGS";

/// Accepts connections until it is killed. One that hangs keeps all but the first, which asks whether it is ready.
fn listen(port: &str) {
    let mut held = Vec::new();
    let streams = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).unwrap();
    for (number, stream) in streams.incoming().enumerate() {
        if std::env::var_os(HANGS).is_some() && number > 0 {
            held.push(stream);
        }
    }
}

/// A recipe whose server is this program with the test below alone.
fn listening(folder: &Path) -> Graph {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "{PORT}=\"$4\" exec \"$0\" --exact a_server_that_dies_is_restarted_and_the_evaluation_continues --nocapture"
    );
    let command = format!("sh -c '{script}' '{}'", program.display());
    let serve = format!("engine = \"transformers\"\nport = {port}\ncommand = {command:?}");
    recipe(folder, &serve).graph(&GraphOptions::new(folder.join("out"))).unwrap()
}

#[test]
fn a_server_that_dies_is_restarted_and_the_evaluation_continues() {
    if let Ok(port) = std::env::var(PORT) {
        return listen(&port);
    }
    let folder = tempfile::tempdir().unwrap();
    let graph = listening(folder.path());
    let pid = folder.path().join("out/servers/server-0.pid");
    let kills = Noting { outcomes: vec![Outcome::Incomplete], kill: Some(pid.clone()), ..Noting::default() };
    let Driven { ended, host, lines } = drive(&graph, &options(&[]), kills).unwrap();
    assert_eq!(ended, Outcome::Complete);
    let evaluated: Vec<_> =
        host.calls.iter().filter(|call| call.contains("1 servers of owner/model")).collect();
    assert_eq!(evaluated.len(), 3, "one of the two evaluations twice: {:?}", host.calls);
    assert_eq!(host.probes.len(), 2);
    let said = |text: &str| lines.iter().any(|line| line.contains(text));
    assert!(said("signal: 9") && said("starting the servers again"), "{lines:?}");
    assert!(!pid.exists(), "the last server is stopped");

    // Incomplete for another reason: the servers are well.
    let folder = tempfile::tempdir().unwrap();
    let graph = listening(folder.path());
    let incomplete = Noting { outcomes: vec![Outcome::Incomplete], ..Noting::default() };
    let Driven { ended, host, .. } = drive(&graph, &options(&["mlvu"]), incomplete).unwrap();
    assert_eq!(ended, Outcome::Incomplete);
    assert_eq!(host.probes.len(), 1);
}

/// With and without tools, one split after the other: all evaluations ask the same servers.
#[test]
fn evaluations_of_a_model_share_their_servers() {
    let folder = tempfile::tempdir().unwrap();
    let out = listening(folder.path()).out;
    let file = folder.path().join("small.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let runs = "run = [\"with-tool\", { name = \"no-tool\", mode = \"direct\" }]\nsplit";
    std::fs::write(&file, text.replacen("split", runs, 1)).unwrap();
    let graph = Recipe::load(file.to_str().unwrap()).unwrap().graph(&GraphOptions::new(&out)).unwrap();
    let Driven { host, .. } = drive(&graph, &options(&[]), Noting::default()).unwrap();
    let evaluated = host.calls.iter().filter(|call| call.contains("1 servers"));
    assert_eq!((evaluated.count(), host.probes.len()), (4, 1), "{:?}", host.calls);
    assert!(!out.join("servers/server-0.pid").exists());
    // Servers of an evaluation that is incomplete may be at fault; one that was asked to stop leaves none behind.
    let again = |outcomes, stops| {
        let options = Options { redo: vec!["mlvu".to_owned()], ..options(&[]) };
        let Driven { host, .. } =
            drive(&graph, &options, Noting { outcomes, stops, ..Noting::default() }).unwrap();
        host.probes.len()
    };
    assert_eq!(again(vec![Outcome::Incomplete], false), 2);
    assert_eq!(again(Vec::new(), true), 1);
    assert!(!out.join("servers/server-0.pid").exists());
}

/// Three rows of which the second has a server that does not start.
fn table(folder: &Path, rows: &[&str]) -> Graph {
    listening(folder);
    let small = std::fs::read_to_string(folder.join("small.toml")).unwrap();
    for (row, model) in [("one", "a/one"), ("two", "a/two"), ("three", "a/three")] {
        let mut text = small.replace("\"small\"", &format!("{row:?}")).replace("owner/model", model);
        text = text.replace("[matrix]", "[fetch]\nenabled = true\n[matrix]");
        if row == "two" {
            let (before, command) = text.split_once("command = ").unwrap();
            let (_, after) = command.split_once('\n').unwrap();
            text = format!("{before}command = \"sh -c 'echo no memory; exit 7'\"\n{after}");
        }
        std::fs::write(folder.join(format!("{row}.toml")), text).unwrap();
    }
    let file = folder.join("table.toml");
    std::fs::write(&file, "title = \"three\"\nrows = [\"one.toml\", \"two.toml\", \"three.toml\"]\n")
        .unwrap();
    let rows = rows.iter().map(|row| (*row).to_owned()).collect();
    let options = GraphOptions { rows, ..GraphOptions::new(folder.join("out")) };
    Recipe::load(file.to_str().unwrap()).unwrap().graph(&options).unwrap()
}

#[test]
fn a_table_does_once_what_its_rows_share_and_goes_on_without_a_row_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let graph = table(folder.path(), &[]);
    let Driven { ended, host, lines } = drive(&graph, &options(&[]), Noting::default()).unwrap();
    assert_eq!(ended, Outcome::Incomplete);
    let expected = [
        "Protocol",
        "fetch 2",
        "Data",
        "fetch 1",
        "fetch 1",
        "fetch 1",
        "one.with-tool-mlvu mlvu by 1 servers of a/one",
        "one.with-tool-charades charades by 1 servers of a/one",
        "three.with-tool-mlvu mlvu by 1 servers of a/three",
        "three.with-tool-charades charades by 1 servers of a/three",
        "report of 5",
    ];
    assert_eq!(host.calls, expected, "the splits are fetched once, each model by its row");
    assert_eq!(host.probes.len(), 2, "a server for each row");
    let failed: Vec<&String> = lines.iter().filter(|line| line.contains("is given up")).collect();
    let [failed] = &failed[..] else { panic!("{lines:?}") };
    assert!(
        failed.starts_with("two.with-tool-mlvu failed, its row is given up") && failed.contains("no memory"),
        "{failed}"
    );

    // One row alone, as on a machine of its own, and by its name among the others: what is done is kept.
    let alone = table(folder.path(), &["three"]);
    let Driven { ended, lines, .. } = drive(&alone, &options(&[]), Noting::default()).unwrap();
    assert_eq!(ended, Outcome::Complete);
    let kept = |name: &&str| lines.contains(&format!("{name} kept"));
    assert!(
        ["three.fetch", "three.with-tool-mlvu", "three.with-tool-charades"].iter().all(kept),
        "{lines:?}"
    );
    let redo = Options { redo: vec!["one".to_owned()], ..options(&["one"]) };
    let Driven { host, .. } = drive(&graph, &redo, Noting::default()).unwrap();
    assert_eq!(
        host.calls.iter().filter(|call| call.starts_with("one.with-tool")).count(),
        2,
        "{:?}",
        host.calls
    );
}

#[test]
fn a_stage_that_all_rows_share_ends_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let graph = table(folder.path(), &["three", "one"]);
    let refuses = Noting { refuses: "Data", ..Noting::default() };
    let error = drive(&graph, &options(&[]), refuses).unwrap_err();
    assert_eq!(error.to_string(), "Data fails");
    let Driven { host, .. } = drive(&graph, &options(&[]), Noting::default()).unwrap();
    let first = host.calls.iter().find(|call| call.contains("with-tool")).unwrap();
    assert!(first.starts_with("three."), "in the order that was asked: {:?}", host.calls);
}

#[test]
fn answers_of_another_model_are_not_mixed_in() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("a/model");
    std::fs::create_dir_all(&model).unwrap();
    std::fs::write(model.join("config.json"), "{}").unwrap();
    let options_ = GraphOptions {
        model: Some(model.display().to_string()),
        ..GraphOptions::new(folder.path().join("out"))
    };
    let graph = recipe(folder.path(), "engine = \"candle\"").graph(&options_).unwrap();
    let run = |options: &Options| {
        let driven = drive(&graph, options, Noting::default());
        driven.map_err(|error| (error.is_precondition(), error.to_string()))
    };
    run(&options(&["mlvu"])).unwrap();
    let (_, _, mlvu) = graph.evaluations().next().unwrap();
    let kept = std::fs::read_to_string(mlvu.join("provenance.json")).unwrap();
    assert!(kept.contains("weights_files_sha256") && !kept.contains(model.to_str().unwrap()), "{kept}");
    run(&options(&[])).unwrap();

    std::fs::write(model.join("config.json"), "{\"other\": 1}").unwrap();
    let (is_precondition, text) = run(&options(&[])).unwrap_err();
    assert!(is_precondition && text.contains("--redo with-tool-mlvu,with-tool-charades"), "{text}");
    run(&Options { any_code: true, ..options(&[]) }).unwrap();
    // Nothing is moved where the rest is refused.
    let redo = vec!["with-tool-mlvu".to_owned()];
    assert!(run(&Options { redo, ..options(&[]) }).is_err());
    assert!(!graph.out.join("discarded").exists() && mlvu.join("records").is_file());
    let redo = vec!["with-tool-mlvu".to_owned(), "with-tool-charades".to_owned()];
    run(&Options { redo, ..options(&[]) }).unwrap();
    run(&options(&[])).unwrap();
    assert_ne!(std::fs::read_to_string(mlvu.join("provenance.json")).unwrap(), kept);
}

/// The others answer meanwhile: nothing is lost, and the split goes on with all of them.
#[test]
fn one_of_two_servers_that_dies_is_started_again_in_its_split() {
    let folder = tempfile::tempdir().unwrap();
    let gpus = vec!["0".to_owned(), "1".to_owned()];
    listening(folder.path());
    let recipe = Recipe::load(folder.path().join("small.toml").to_str().unwrap()).unwrap();
    let graph = recipe.graph(&GraphOptions { gpus, ..GraphOptions::new(folder.path().join("out")) }).unwrap();
    let pid = graph.out.join("servers/server-1.pid");
    let kills = Noting { kill: Some(pid.clone()), awaits_restart: true, ..Noting::default() };
    let Driven { ended, host, lines } = drive(&graph, &options(&["mlvu"]), kills).unwrap();
    assert_eq!((ended, host.probes.len()), (Outcome::Complete, 2), "two servers, started once");
    let said: Vec<&String> = lines.iter().filter(|line| line.contains("signal: 9")).collect();
    assert!(matches!(&said[..], [line] if line.contains("it is started again")), "{lines:?}");
    assert!(!pid.exists(), "the second one is stopped, too");
}

#[test]
fn a_server_that_hangs_is_replaced_and_the_evaluation_continues() {
    let folder = tempfile::tempdir().unwrap();
    let mut graph = listening(folder.path());
    let recipe = folder.path().join("hangs.toml");
    let text = format!(
        "extends = \"small.toml\"\nserve = {{ hang_seconds = 2, environment = {{ {HANGS} = \"1\" }} }}\n"
    );
    std::fs::write(&recipe, text).unwrap();
    graph = Recipe::load(recipe.to_str().unwrap()).unwrap().graph(&GraphOptions::new(&graph.out)).unwrap();
    let waits = Noting { waits: true, ..Noting::default() };
    let Driven { ended, host, lines } = drive(&graph, &options(&["mlvu"]), waits).unwrap();
    assert_eq!(ended, Outcome::Complete);
    assert_eq!(host.probes.len(), 2, "two starts");
    assert!(lines.iter().any(|line| line.contains("has not passed /health for 2 s")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("starting the servers again")), "{lines:?}");
}

#[test]
fn a_server_that_does_not_start_is_a_precondition() {
    let folder = tempfile::tempdir().unwrap();
    let recipe =
        recipe(folder.path(), "engine = \"vllm\"\nport = 0\ncommand = \"sh -c 'echo too old; exit 7'\"");
    let graph = recipe.graph(&GraphOptions::new(folder.path().join("out"))).unwrap();
    let error = drive(&graph, &options(&[]), Noting::default()).unwrap_err();
    assert!(error.is_precondition(), "{error}");
    assert!(error.to_string().contains("exit status: 7") && error.to_string().contains("too old"), "{error}");
}

#[test]
fn a_model_in_this_process_needs_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let graph =
        recipe(folder.path(), "engine = \"candle\"").graph(&GraphOptions::new(folder.path().join("out")));
    let Driven { host, .. } = drive(&graph.unwrap(), &options(&["mlvu"]), Noting::default()).unwrap();
    assert!(
        host.calls.contains(&"with-tool-mlvu mlvu by in process owner/model".to_owned()),
        "{:?}",
        host.calls
    );
    assert!(!folder.path().join("out/servers").exists());
}

#[test]
fn the_machine_is_checked_and_data_are_fetched_only_for_work_that_is_to_come() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let options_ = GraphOptions { backend: Some("--base-url".to_owned()), ..GraphOptions::new(&out) };
    let graph = Recipe::load("paravt-8b").unwrap().graph(&options_).unwrap();
    let incomplete = Noting { outcomes: vec![Outcome::Incomplete], ..Noting::default() };
    let Driven { ended, host, .. } = drive(&graph, &options(&["fetch"]), incomplete).unwrap();
    assert_eq!(ended, Outcome::Incomplete);
    // The seven splits; the model is that of the user's server.
    assert_eq!(host.calls[..3], ["Machine", "Protocol", "fetch 7"]);
    let Driven { host, .. } = drive(&graph, &options(&[]), Noting::default()).unwrap();
    assert_eq!(host.calls[..4], ["Machine", "Protocol", "fetch 7", "Data"]);
    assert_eq!(host.calls.len(), 4 + 1 + 14 + 1);
    let done: serde_json::Value = {
        let (_, _, folder) = graph.evaluations().next().unwrap();
        serde_json::from_slice(&std::fs::read(folder.join("stage.json")).unwrap()).unwrap()
    };
    assert!(done["deviations"][0].as_str().unwrap().contains("failed request"), "{done}");
    let Driven { host, lines, .. } = drive(&graph, &options(&[]), Noting::default()).unwrap();
    assert_eq!(host.calls, ["Protocol", "Data", "Backend", "report of 14"], "nothing is left to do");
    assert_eq!(lines[0], "fetch kept");

    // The user has deleted what was downloaded.
    let gone = Noting { gone: Some("model:a/b: not in the cache".to_owned()), ..Noting::default() };
    let Driven { host, lines, .. } = drive(&graph, &options(&[]), gone).unwrap();
    assert!(host.calls.contains(&"fetch 7".to_owned()));
    assert!(lines[0].contains("model:a/b: not in the cache"), "{lines:?}");
    let Driven { lines, .. } = drive(&graph, &options(&[]), Noting::default()).unwrap();
    assert_eq!(lines[0], "fetch kept");
}

#[test]
fn training_data_are_fetched_and_materialized() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let graph = Recipe::load("paravt-8b-train").unwrap().graph(&GraphOptions::new(&out)).unwrap();
    let until = Options { until: Some("materialize".to_owned()), ..options(&[]) };
    let Driven { ended, host, .. } = drive(&graph, &until, Noting::default()).unwrap();
    assert_eq!(ended, Outcome::Complete);
    // Rows and media, the base model, seven splits.
    assert_eq!(host.calls, ["Machine", "Protocol", "fetch 9", "Data", "materialize"]);
    let Driven { lines, .. } = drive(&graph, &until, Noting::default()).unwrap();
    assert_eq!(lines, ["fetch kept", "materialize kept"]);
}

/// A model folder of one tensor.
fn model(folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    let header = r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}   "#;
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), b"abcd"].concat();
    std::fs::write(folder.join("model.safetensors"), bytes).unwrap();
    std::fs::write(folder.join("config.json"), "{}").unwrap();
}

/// A training in miniature on stand-ins: two rows of trainers, a few steps.
fn training(root: &Path) -> Graph {
    recipe(root, "engine = \"candle\"");
    let at = |name: &str| root.join(name).display().to_string();
    let text = format!(
        "extends = \"small.toml\"\nname = \"small-train\"\n\
         [engines]\ncheckout = {checkout:?}\nengines = {engines:?}\nsft = {env:?}\nrl = {env:?}\nbase = {base:?}\n\
         sft_rows = {rows:?}\nrl_rows = \"{{materialize}}/rl.parquet\"\nenvironment = {{ STANDIN_MODEL = {merged:?} }}\n\
         watch = {{ poll_seconds = 0.05 }}\n[sft]\nprocesses = 2\nsteps = 6\nstop_after = 4\nsave_every = 2\n\
         [rl]\nsteps = 4\npick = 3\nsave_every = 2\ntrainers = 2\nprompts = 2\n\
         [fetch]\nenabled = true\n\
         [[stages]]\nname = \"data\"\n\
         [[stages]]\nname = \"materialize\"\ninputs = [\"fetch\"]\ndoes = \"materialize\"\n\
         [[stages]]\nname = \"sft\"\ninputs = [\"materialize\"]\ndoes = \"launch_sft\"\n\
         [[stages]]\nname = \"merge\"\ndoes = \"merge\"\nfrom = \"{{sft}}\"\n\
         [[stages]]\nname = \"rl\"\ninputs = [\"materialize\"]\ndoes = \"launch_rl\"\nmodel = \"{{merge}}/model\"\n\
         [[stages]]\nname = \"pick\"\ndoes = \"pick\"\nfrom = \"{{rl}}\"\n\
         [[stages]]\nname = \"serve\"\ninputs = []\nmodel = \"{{pick}}/model\"\n",
        checkout = at("checkout"),
        engines = at("engines"),
        env = at("env"),
        base = at("base"),
        rows = "{materialize}",
        merged = at("merged"),
    );
    let file = root.join("train.toml");
    std::fs::write(&file, text).unwrap();
    let recipe = Recipe::load(file.to_str().unwrap()).unwrap();
    recipe.graph(&GraphOptions::new(root.join("out"))).unwrap()
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_training_of_the_releases_programs_runs_to_its_evaluation_and_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    standin::release(folder.path());
    for name in ["base", "merged"] {
        model(&folder.path().join(name));
    }
    let graph = training(folder.path());
    let stage = |name: &str| graph.stages().iter().find(|stage| stage.name() == name).unwrap();
    let rows = stage("materialize").folder().unwrap().join("rl.parquet");
    let until = Options { until: Some("materialize".to_owned()), ..options(&[]) };
    drive(&graph, &until, Noting::default()).unwrap();
    std::fs::write(rows, "rows").unwrap();
    let Driven { ended, host, lines } = drive(&graph, &options(&[]), Noting::default()).unwrap();
    assert_eq!(ended, Outcome::Complete);
    assert!(lines.iter().any(|line| line.starts_with("sft step 4/4, loss")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("rl step 4/4, reward 0.500, f_tau")), "{lines:?}");
    let model = stage("pick").folder().unwrap().join("model");
    assert!(model.join("sha256.json").is_file());
    let by = format!("with-tool-mlvu mlvu by in process {}", model.display());
    assert!(host.calls.contains(&by), "{:?}", host.calls);
    let record = std::fs::read_to_string(stage("sft").folder().unwrap().join("stage.json")).unwrap();
    assert!(record.contains("sft.steps = 6; the release's recipe: 1500"), "{record}");
    assert!(record.contains("training.jsonl") && !record.contains("scratch/"), "{record}");
    let Driven { lines, .. } = drive(&graph, &options(&[]), Noting::default()).unwrap();
    assert!(lines.iter().all(|line| line.ends_with(" kept")), "{lines:?}");
    // A model that was changed is merged and verified again; the training before it is kept.
    std::fs::write(stage("merge").folder().unwrap().join("model/config.json"), "{ }").unwrap();
    let Driven { lines, .. } = drive(&graph, &options(&["merge"]), Noting::default()).unwrap();
    assert!(lines.contains(&"merge ended".to_owned()), "{lines:?}");
}
