//! Imported texts that are not the pinned ones are known as such wherever they are used.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::server::{Script, Server};
use crate::common::{bench, ok, stable_records, text, world};

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    let command = command.arg("-C").arg(folder).args(["-c", "user.name=n", "-c", "user.email=n@localhost"]);
    let output = ok(command.args(arguments));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_run_with_edited_texts_says_so_in_manifest_and_records() {
    let dir = tempfile::tempdir().unwrap();
    let (source, cache, out) = (dir.path().join("source"), dir.path().join("cache"), dir.path().join("out"));
    std::fs::create_dir_all(source.join("paravt/eval")).unwrap();
    let standin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../upstream/tests/standin");
    for file in ["paravt/eval/driver.py", "paravt/eval/utils.py"] {
        std::fs::copy(standin.join(file), source.join(file)).unwrap();
    }
    git(&source, &["init", "--quiet"]);
    git(&source, &["add", "."]);
    git(&source, &["commit", "--quiet", "-m", "stand-in"]);
    let head = git(&source, &["rev-parse", "HEAD"]);
    let driver = source.join("paravt/eval/driver.py");
    let edited = std::fs::read_to_string(&driver).unwrap().replace("Direct words", "Edited words");
    std::fs::write(&driver, edited).unwrap();

    let import = |extra: &[&str]| -> Output {
        let mut command = bench();
        command.env("PARAVT_BENCH_CACHE", &cache).args(["protocol", "import", "--from"]).arg(&source);
        command.args(extra).output().unwrap()
    };
    let refused = import(&[]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("--unpinned"), "{}", text(&refused));
    assert!(!cache.exists(), "nothing is kept of a refused import");
    let imported = import(&["--unpinned"]);
    assert!(imported.status.success(), "{}", text(&imported));
    let label = format!("{head} with uncommitted edits");
    assert!(text(&imported).contains(&label), "{}", text(&imported));

    let server = Server::start(Script::default());
    let mut command = bench();
    command.env("PARAVT_BENCH_CACHE", &cache);
    command.args([
        "run",
        "lvbench",
        "--protocol",
        "paravt",
        "--limit",
        "1",
        "--nframes",
        "8",
        "--mode",
        "direct",
    ]);
    command.arg("--base-url");
    command.arg(&server.base_url).arg("--data").arg(world()).arg("--out").arg(&out);
    ok(command);
    assert_eq!(server.latest.lock().unwrap()["messages"][0]["content"], "Edited words, in two pieces.");
    let manifest = paravt_suite::journal::read_manifest(&out.join("lvbench")).unwrap();
    assert_eq!((manifest.protocol_source.commit, manifest.protocol_source.pinned), (label, false));
    let records = stable_records(&out.join("lvbench"));
    assert!(records.iter().all(|record| record.protocol.starts_with("unpinned:")));
    assert_eq!(records.len(), 1);
}

/// A server that takes a connection and never answers, while Ctrl-C comes.
#[test]
fn an_interrupted_clone_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let (temporary, cache) = (dir.path().join("tmp"), dir.path().join("cache"));
    std::fs::create_dir(&temporary).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://me:hunter2@{}/x.git", listener.local_addr().unwrap());
    let mut command = bench();
    command.env("PARAVT_BENCH_CACHE", &cache).env("TMPDIR", &temporary);
    command.args(["protocol", "import", "--from", &url]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let _connection = listener.accept().unwrap();
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1, "the clone is under way");
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signal.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    assert!(!cache.exists() && !text(&output).contains("hunter2"), "{}", text(&output));
}

#[test]
fn a_failed_clone_names_the_url_without_its_password() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://me:hunter2@{}/x.git", listener.local_addr().unwrap());
    drop(listener);
    let output = bench().args(["protocol", "import", "--from", &url]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("…@127.0.0.1") && !text(&output).contains("hunter2"), "{}", text(&output));
}
