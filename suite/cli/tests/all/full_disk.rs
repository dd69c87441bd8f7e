//! A disk that fills up in the middle of a run.

use std::process::Command;

use crate::common::server::{Script, Server};
use crate::common::{bench, stable_records, text, world};

/// Needs a file system of a given size: a tmpfs in a mount namespace of its own (util-linux `unshare`).
#[test]
#[ignore = "needs user namespaces: run by ci/test"]
fn a_disk_that_fills_up_stops_the_run_and_loses_nothing() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("small");
    let kept = dir.path().join("kept");
    std::fs::create_dir_all(&small).unwrap();
    let arguments = |out: &std::path::Path| -> Vec<String> {
        let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
        [
            "run",
            "lvbench",
            "--protocol",
            "native",
            "--nframes",
            "16",
            "--concurrency",
            "1",
            "--base-url",
            &server.base_url,
            "--data",
        ]
        .iter()
        .map(|word| (*word).to_owned())
        .chain([text(world()), "--out".to_owned(), text(out)])
        .collect()
    };
    // The size holds the manifest and a few records; what was written is copied out before the mount ends.
    let script = format!(
        "mount -t tmpfs -o size=44k none {small} && {bench} {args}; status=$?; cp -r {small}/. {kept}; exit $status",
        small = small.display(),
        kept = kept.display(),
        bench = env!("CARGO_BIN_EXE_paravt-bench"),
        args = arguments(&small).join(" "),
    );
    std::fs::create_dir_all(&kept).unwrap();
    let output =
        Command::new("unshare").args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(text(&output).contains("disk is full"), "{}", text(&output));
    let saved = stable_records(&kept.join("lvbench"));

    let resumed = bench().args(arguments(&kept)).arg("--resume").output().unwrap();
    assert!(resumed.status.success(), "{}", text(&resumed));
    let all = stable_records(&kept.join("lvbench"));
    assert!(!saved.is_empty() && saved.len() < all.len(), "{} of {}", saved.len(), all.len());
    for record in &saved {
        assert!(all.contains(record), "{}", record.sample.uid);
    }
}
