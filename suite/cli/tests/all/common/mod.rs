//! What the end-to-end tests share: the binary, a generated data root, recipes, a scripted server.

pub(crate) mod recipes;
pub(crate) mod server;

use std::borrow::BorrowMut;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use paravt_suite::record::{Measured, Record};

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
    run_by(&["--base-url", base_url], tasks, out)
}

/// `run` that answers from a recorded run.
pub(crate) fn run_again(tasks: &[&str], out: &Path, recorded: &Path) -> Command {
    run_by(&["--backend", "replay", "--from", recorded.to_str().unwrap()], tasks, out)
}

fn run_by(backend: &[&str], tasks: &[&str], out: &Path) -> Command {
    let mut command = bench();
    command.arg("run").args(tasks).args(backend).arg("--data").arg(world());
    command.arg("--out").arg(out);
    command
}

/// What a command that has to succeed prints.
pub(crate) fn ok(mut command: impl BorrowMut<Command>) -> Output {
    let output = command.borrow_mut().output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    output
}

fn cache_dir() -> PathBuf {
    static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
    DIR.get_or_init(|| tempfile::tempdir().unwrap()).path().to_owned()
}

/// A small data root with all seven splits, made once per test binary.
pub(crate) fn world() -> &'static Path {
    static WORLD: OnceLock<tempfile::TempDir> = OnceLock::new();
    WORLD
        .get_or_init(|| {
            let dir = tempfile::tempdir().unwrap();
            ok(bench().args(["data", "make", "--out"]).arg(dir.path()));
            dir
        })
        .path()
}

/// A repository of the reference in words of this suite's own, with the structure of the release.
pub(crate) fn standin() -> &'static Path {
    static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let standin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../upstream/tests/standin");
        std::fs::create_dir_all(dir.path().join("paravt/eval")).unwrap();
        for file in ["paravt/eval/driver.py", "paravt/eval/utils.py"] {
            std::fs::copy(standin.join(file), dir.path().join(file)).unwrap();
        }
        for arguments in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "-m", "stand-in"]] {
            let mut git = Command::new("git");
            for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
                git.env_remove(variable);
            }
            git.arg("-C").arg(dir.path()).args(["-c", "user.name=n", "-c", "user.email=n@localhost"]);
            assert!(git.args(arguments).status().unwrap().success());
        }
        dir
    })
    .path()
}

/// A cache that holds the words of [`standin`].
pub(crate) fn imported() -> &'static Path {
    static CACHE: OnceLock<tempfile::TempDir> = OnceLock::new();
    CACHE
        .get_or_init(|| {
            let dir = tempfile::tempdir().unwrap();
            let mut command = bench();
            command.env("PARAVT_BENCH_CACHE", dir.path());
            ok(command.args(["protocol", "import", "--unpinned", "--from"]).arg(standin()));
            dir
        })
        .path()
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
