//! What the end-to-end tests share: the binary, a generated data root, recipes, a scripted server.

pub(crate) mod recipes;
pub(crate) mod server;

use std::borrow::BorrowMut;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use paravt_agents::releases;
use paravt_suite::record::{Measured, Record};
use paravt_upstream::import::Texts;

/// All splits, in the order of the paper's table.
pub(crate) const SPLITS: [&str; 7] =
    ["videomme", "videomme_wsub", "longvideobench", "lvbench", "mlvu", "mmvu", "charades"];

/// The binary with a clean environment.
pub(crate) fn bench() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paravt-bench"));
    command.env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL").env_remove("HF_HOME");
    // No imported upstream texts, whatever the machine has.
    command.env("PARAVT_BENCH_CACHE", cache_dir());
    command
}

/// `run` with a server on the generated videos; the test adds its flags.
pub(crate) fn run(tasks: &[&str], out: &Path, base_url: &str) -> Command {
    run_on(world(), tasks, out, base_url)
}

/// `run` with a server on other data.
pub(crate) fn run_on(data: &Path, tasks: &[&str], out: &Path, base_url: &str) -> Command {
    run_by(&["--base-url", base_url], data, tasks, out)
}

/// `run` that answers from a recorded run.
pub(crate) fn run_again(tasks: &[&str], out: &Path, recorded: &Path) -> Command {
    run_by(&["--backend", "replay", "--from", recorded.to_str().unwrap()], world(), tasks, out)
}

fn run_by(backend: &[&str], data: &Path, tasks: &[&str], out: &Path) -> Command {
    let mut command = bench();
    command.arg("run").args(tasks).args(backend).arg("--data").arg(data).arg("--out").arg(out);
    command
}

/// `run` of a task file beside its data.
pub(crate) fn run_task(file: &Path, out: &Path, base_url: &str) -> Command {
    let mut command = bench();
    command.args(["run", "--base-url", base_url, "--task"]).arg(file).arg("--out").arg(out);
    command
}

/// What a command that has to succeed prints.
#[track_caller]
pub(crate) fn ok(mut command: impl BorrowMut<Command>) -> Output {
    let command = command.borrow_mut();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    output
}

/// What a command prints that ends with this code; each of the words is in it.
#[track_caller]
pub(crate) fn ends(code: i32, mut command: impl BorrowMut<Command>, words: &[&str]) -> String {
    let command = command.borrow_mut();
    let output = command.output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(code), "{command:?}: {said}");
    for word in words {
        assert!(said.contains(word), "`{word}` of {command:?}: {said}");
    }
    said
}

/// Waits until something holds, and fails after some seconds.
#[track_caller]
pub(crate) fn until(what: &str, seconds: u64, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while !holds() {
        assert!(Instant::now() < end, "not within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The files below a folder, sorted.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    all.sort();
    all
}

/// Copies a folder; links become what they lead to.
pub(crate) fn copy(from: &Path, to: &Path) {
    ok(Command::new("cp").arg("-rL").arg(from).arg(to));
}

/// Whether a process has this text in its command line.
pub(crate) fn is_running(text: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ").contains(text)
    })
}

/// A port that nothing listens on.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn cache_dir() -> &'static Path {
    static DIR: LazyLock<PathBuf> = LazyLock::new(|| shared("cache", &of_this_build(), |_| ()));
    &DIR
}

/// A small data root with all seven splits, which tests only read.
pub(crate) fn world() -> &'static Path {
    static WORLD: LazyLock<PathBuf> = LazyLock::new(|| {
        shared("world", &of_this_build(), |dir| {
            ok(bench().args(["data", "make", "--out"]).arg(dir));
        })
    });
    &WORLD
}

/// A tiny model of random weights, saved by a script of `ci`, which tests only read.
pub(crate) fn tiny(script: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci").join(script);
    shared(script, std::slice::from_ref(&path), |folder| {
        ok(Command::new(python()).arg(&path).arg(folder));
    })
}

/// Of the environment with the reference implementations.
pub(crate) fn python() -> PathBuf {
    std::env::var_os("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test").into()
}

fn of_this_build() -> [PathBuf; 2] {
    [env!("CARGO_BIN_EXE_paravt-bench").into(), std::env::current_exe().unwrap()]
}

/// A folder that all tests share until what it is made from changes, below the target directory: a `TempDir` in a static is
/// never removed.
fn shared(name: &str, from: &[PathBuf], make: impl FnOnce(&Path)) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("paravt-bench").join(name);
    paravt_files::make_once(&folder, from, make).unwrap();
    folder
}

/// Stores the protocol of a release in the stand-in's words, as an import would store it: the file.
pub(crate) fn store_standin(name: &str, cache: &Path) -> PathBuf {
    let release = releases().find(|release| release.name == name).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../upstream/tests/standin");
    let words = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
    let words: BTreeMap<String, String> = serde_json::from_slice(&words).unwrap();
    let protocol = release.with_texts(&Texts::of(words)).unwrap();
    paravt_suite::protocol::cache::store(cache, &protocol).unwrap()
}

/// A cache that holds the reference's protocol in the stand-in's words.
pub(crate) fn imported() -> &'static Path {
    static CACHE: LazyLock<PathBuf> = LazyLock::new(|| {
        shared("imported", &of_this_build(), |dir| {
            store_standin("paravt", dir);
        })
    });
    &CACHE
}

/// Standard output and error of a command, for assertion messages.
pub(crate) fn text(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The records of a run without what may differ between two runs of the same thing.
pub(crate) fn stable_records(run: &Path) -> Vec<Record> {
    let mut records = paravt_suite::journal::read(run).unwrap().records;
    for record in &mut records {
        record.measured = Measured::default();
    }
    records
}
