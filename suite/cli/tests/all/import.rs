//! What an import refuses and leaves behind, and runs under texts that are not the pinned ones.

use std::process::Command;

use crate::common::server::{Script, Server};
use crate::common::{bench, ends, free_port, imported, ok, run, stable_records, text};
use paravt_agents::conan::RELEASE;

#[test]
fn files_that_are_not_the_pinned_ones_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (source, cache) = (dir.path().join("source"), dir.path().join("cache"));
    for file in RELEASE.files {
        let path = source.join(file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "edited").unwrap();
    }
    let mut command = bench();
    command.env("PARAVT_BENCH_CACHE", &cache).args(["protocol", "import", "conan", "--from"]).arg(&source);
    ends(2, command, &["prompt_temp.py has SHA-256", RELEASE.commit, "base = \"conan\""]);
    assert!(!cache.exists(), "nothing is kept of a refused import");
}

/// As earlier releases stored them of files that were not the pinned ones.
#[test]
fn a_run_with_other_texts_says_so_in_manifest_and_records() {
    let out = tempfile::tempdir().unwrap();
    let server = Server::start(Script::default());
    let mut command = run(&["lvbench"], out.path(), &server.base_url);
    command.env("PARAVT_BENCH_CACHE", imported());
    command.args(["--protocol", "paravt", "--limit", "1", "--nframes", "8", "--mode", "direct"]);
    ok(command);
    assert_eq!(server.latest.lock().unwrap()["messages"][0]["content"], "Direct words, in two pieces.");
    let manifest = paravt_suite::journal::read_manifest(&out.path().join("lvbench")).unwrap();
    assert!(!manifest.protocol_source.pinned);
    let records = stable_records(&out.path().join("lvbench"));
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
    ok(Command::new("kill").args(["-INT", &child.id().to_string()]));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    assert!(!cache.exists() && !text(&output).contains("hunter2"), "{}", text(&output));
}

#[test]
fn a_failed_clone_names_the_url_without_its_password() {
    let url = format!("http://me:hunter2@127.0.0.1:{}/x.git", free_port());
    let said = ends(3, bench().args(["protocol", "import", "--from", &url]), &["…@127.0.0.1"]);
    assert!(!said.contains("hunter2"), "{said}");
}
