//! The commands of README and `suite/docs` run as they stand: page by page, in order, each page in an empty folder.
//!
//! A block runs as one script, after the files that the page shows above it: a block is a file where the line before it
//! ends with its name, as in "`mine.toml`:". A line that needs what a test has not is in [`NOT_RUN`]; every other one has
//! to end with exit code 0, or with that of [`EXITS`].

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::server::{Script, Server};
use crate::common::{free_port, python, stable_records, store_standin, text, tiny, world};
use crate::documents::{documents, root};
use paravt_suite::record::Outcome;

/// Lines that are not run, and why. One that ends with `…` stands for all that begin so.
const NOT_RUN: &[(&str, &str)] = &[
    ("ci/try", "installs packages, compiles, and trains for minutes"),
    ("ci/test", "runs this test"),
    ("cargo …", "compiles; suite/examples/tests runs the examples"),
    ("INSTA_UPDATE=always cargo …", "compiles"),
    ("target/debug/paravt-bench …", "the program with the crate of that page in it"),
    ("paravt-bench reproduce paravt-nano", "minutes of training; reproduce.rs has a smaller one"),
    ("paravt-bench data fetch …", "network; fetch.rs has a hub"),
    ("git clone …", "network; agents.rs has a stand-in"),
    ("paravt-bench protocol import …", "the pinned files; a stand-in of the reference's texts is there"),
    ("paravt-bench run videomme lvbench --protocol conan …", "the clone above it"),
    ("paravt-bench reproduce paravt-8b", "GPUs and vLLM; reproduce_served.rs has servers"),
    ("paravt-bench reproduce paravt-8b --out /data/8b…", "GPUs and vLLM"),
    ("paravt-bench reproduce table1", "GPUs and vLLM; reproduce_served.rs has a table"),
    ("paravt-bench reproduce table1 --out /data/table1…", "GPUs and vLLM"),
    ("paravt-bench reproduce authors", "GPUs and vLLM"),
    ("paravt-bench reproduce authors --rows …", "GPUs and vLLM"),
    ("paravt-bench reproduce qwen3-vl-8b-card …", "GPUs and vLLM"),
    ("paravt-bench reproduce paravt-8b --out /shared/8b …", "Slurm; slurm.rs has a stand-in"),
    ("paravt-bench status /data/8b", "the run above it"),
    ("paravt-bench reproduce mine.toml", "vLLM"),
    ("paravt-bench run all --backend candle --model Qwen/Qwen3-VL-8B-Instruct …", "17 GB of weights"),
    ("cd runs/paravt-nano/stages", "Python: the test below"),
    ("~/.cache/paravt-bench/venv/bin/transformers serve …", "Python: the test below"),
    ("until curl …", "Python: the test below"),
    (
        "paravt-bench run mlvu lvbench --base-url http://localhost:8000/v1 --model rl-*/final …",
        "Python: the test below",
    ),
];

/// Lines that end with another exit code than 0 on a machine without GPUs and on generated data.
const EXITS: &[(&str, i32)] = &[
    ("paravt-bench audit 20260101_120000_samples_videomme.jsonl", 1),
    ("paravt-bench doctor --for paravt-8b", 3),
    ("paravt-bench data check", 1),
    ("paravt-bench data check mmvu", 1),
];

/// A fenced block of a page.
pub(crate) struct Block {
    /// Where it is a file: its path.
    file: Option<PathBuf>,
    language: String,
    pub(crate) text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let mut found: Vec<Block> = Vec::new();
    let (mut before, mut is_open) = ("", false);
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(language) if !is_open => {
                let named = before.strip_suffix("`:").and_then(|text| text.rsplit_once('`'));
                let file = named.map(|(_, name)| PathBuf::from(name));
                found.push(Block { file, language: language.to_owned(), text: String::new() });
                (before, is_open) = ("", true);
            }
            Some(_) => is_open = false,
            None if is_open => found.last_mut().unwrap().text += &format!("{line}\n"),
            None if !line.is_empty() => before = line,
            None => {}
        }
    }
    found
}

/// The commands of a block, without their comments: a line, or several that end with `\`.
fn commands(block: &Block) -> Vec<String> {
    let text = block.text.replace("\\\n", " ");
    let lines = text.lines().map(|line| line.split(" #").next().unwrap_or_default());
    let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    if block.language != "yaml" {
        return lines.filter(|line| !line.is_empty()).collect();
    }
    // A job in CI begins with a fresh checkout; of its lines only those of this program.
    let lines = lines.map(|line| line.trim_start_matches("run: ").to_owned());
    let fresh = block.text.contains("bench run ").then(|| "rm -rf runs".to_owned());
    fresh.into_iter().chain(lines.filter(|line| line.starts_with("paravt-bench "))).collect()
}

/// A folder in which blocks run.
struct Shell {
    folder: tempfile::TempDir,
    /// Address of the server that is asked, `http://HOST:PORT`.
    server: String,
}

impl Shell {
    fn new(server: &str) -> Self {
        let shell = Self { folder: tempfile::tempdir().unwrap(), server: server.to_owned() };
        store_standin("paravt", &shell.folder.path().join("home/.cache/paravt-bench"));
        shell.run("a repository", "git init --quiet");
        shell
    }

    /// Runs a script for somebody with an empty home who has downloaded the data, which are those of [`world`].
    fn run(&self, what: &str, script: &str) {
        let program = Path::new(env!("CARGO_BIN_EXE_paravt-bench")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let base = root().join("reproduce/nano/base").display().to_string();
        let script = script
            .replace("http://localhost:8000", &self.server)
            .replace("--model DIR", &format!("--model {base}"))
            .replace("VIDEO.mp4", &world().join("lvbench/nanoLV_0.mp4").display().to_string());
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("set -ex\n{script}")]).current_dir(self.folder.path()).env_clear();
        shell.env("PATH", path).env("HOME", self.folder.path().join("home")).env("HF_HOME", world());
        shell.env("HF_HUB_OFFLINE", "1").env("DATA", world()).env("GITHUB_STEP_SUMMARY", "step.md");
        shell.env("OPENAI_BASE_URL", format!("{}/v1", self.server));
        for variable in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
            shell.env(variable, "n@localhost");
        }
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{what}:\n{}", text(&output));
    }

    /// Runs the commands of a page, after the files that it shows above them. Adds the entries of [`NOT_RUN`] and
    /// [`EXITS`] that it has.
    fn follow(&self, page: &str, met: &mut BTreeSet<&'static str>) {
        for block in blocks(page) {
            if let Some(file) = &block.file {
                let file = self.folder.path().join(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, &block.text).unwrap();
            } else if ["sh", "console", "yaml"].contains(&block.language.as_str()) {
                let commands = commands(&block);
                let lines: Vec<String> = commands.iter().filter_map(|line| as_run(line, met)).collect();
                self.run(page, &lines.join("\n"));
            }
        }
    }
}

/// A command as it is run; `None` for one that is not.
fn as_run(line: &str, met: &mut BTreeSet<&'static str>) -> Option<String> {
    let is_this = |known: &str| match known.strip_suffix('…') {
        Some(start) => line.starts_with(start),
        None => line == known,
    };
    if let Some((known, _)) = NOT_RUN.iter().find(|(known, _)| is_this(known)) {
        met.insert(known);
        return None;
    }
    let exit = EXITS.iter().find(|(known, _)| *known == line);
    met.extend(exit.map(|(known, _)| *known));
    Some(exit.map_or(line.to_owned(), |(_, code)| format!("{line} || test $? = {code}")))
}

#[test]
fn the_commands_of_every_page_run_as_they_stand() {
    let server = Server::start(Script::default());
    let mut met = BTreeSet::new();
    for page in documents() {
        let page = page.strip_prefix(root()).unwrap().to_str().unwrap();
        Shell::new(server.base_url.trim_end_matches("/v1")).follow(page, &mut met);
    }
    let known = NOT_RUN.iter().map(|(line, _)| *line).chain(EXITS.iter().map(|(line, _)| *line));
    let stale: Vec<&str> = known.filter(|line| !met.contains(line)).collect();
    assert!(stale.is_empty(), "no page has {stale:?}");
}

/// The block of a page that has a text.
pub(crate) fn block(page: &str, with: &str) -> Block {
    let found = blocks(page).into_iter().find(|block| block.text.contains(with));
    found.unwrap_or_else(|| panic!("{page}: no block with `{with}`"))
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn the_miniature_is_served_as_running_says() {
    let port = free_port();
    let shell = Shell::new(&format!("http://localhost:{port}"));
    let stages = shell.folder.path().join("runs/paravt-nano/stages");
    std::fs::create_dir_all(stages.join("rl-0")).unwrap();
    symlink(tiny("tiny_qwen3vl.py"), stages.join("rl-0/final")).unwrap();
    symlink(world(), stages.join("world-0")).unwrap();
    let block = block("suite/docs/running.md", "transformers serve");
    let script =
        block.text.replace("~/.cache/paravt-bench/venv/bin", &python().parent().unwrap().to_string_lossy());
    let script = script.replace("--port 8000", &format!("--port {port}"));
    shell.run("suite/docs/running.md", &format!("trap 'kill $!' EXIT\n{script}"));
    for record in stable_records(&stages.join("served/mlvu")) {
        assert_ne!(record.score.outcome, Outcome::Error, "{:?}", record.error);
    }
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn journals_are_read_as_records_says() {
    let server = Server::start(Script::default());
    let shell = Shell::new(server.base_url.trim_end_matches("/v1"));
    shell.run("a run", "paravt-bench run mmvu --base-url http://localhost:8000/v1 --out runs/mine");
    for with in ["jsonschema", "latest"] {
        let text = block("suite/docs/records.md", with).text.replace("RUN/", "runs/mine/mmvu/");
        let text = text.replace("suite/docs", &root().join("suite/docs").to_string_lossy());
        std::fs::write(shell.folder.path().join("read.py"), text).unwrap();
        shell.run("suite/docs/records.md", &format!("{} read.py", python().display()));
    }
}
