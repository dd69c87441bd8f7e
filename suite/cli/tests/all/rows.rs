//! Rows that are not as published: carried while they are few, refused where they are not data.

use std::path::Path;
use std::process::Output;

use crate::common::server::{Script, Server};
use crate::common::{bench, ok, text, world};
use serde_json::{Value, json};

/// A data folder with MMVU's annotations as JSON, `change` made to its rows, and the world's videos.
fn mmvu(change: impl FnOnce(&mut Vec<Value>)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("mmvu/videos/Art")).unwrap();
    let video = world().join("lvbench/nanoLV_0.mp4");
    std::fs::copy(video, dir.path().join("mmvu/videos/Art/0.mp4")).unwrap();
    let row = |number: usize| {
        json!({"id": format!("validation_{number}"), "question": "Which?", "answer": "A",
            "question_type": "multiple-choice", "video": "https://host/resolve/main/videos/Art/0.mp4",
            "choices": {"A": "red", "B": "green"}, "metadata": {"subject": "Art"}})
    };
    let mut rows: Vec<Value> = (0..6).map(row).collect();
    change(&mut rows);
    std::fs::write(dir.path().join("mmvu/validation.json"), serde_json::to_vec(&rows).unwrap()).unwrap();
    dir
}

fn run(data: &Path, out: &Path, profile: &str) -> (Output, Server) {
    let server = Server::start(Script::default());
    let mut command = bench();
    command.args(["run", "mmvu", "--mode", "direct", "--nframes", "4", "--profile", profile, "--base-url"]);
    command.arg(&server.base_url).arg("--data").arg(data).arg("--out").arg(out);
    (command.output().unwrap(), server)
}

fn records(out: &Path) -> Vec<paravt_suite::record::Record> {
    paravt_suite::journal::read(&out.join("mmvu")).unwrap().records
}

#[test]
fn a_gold_without_an_option_is_asked_except_under_strict() {
    for (profile, errors) in [("release", 0), ("paper", 0), ("strict", 1)] {
        let data = mmvu(|rows| rows[2]["answer"] = json!("Z"));
        let out = tempfile::tempdir().unwrap();
        let (output, _server) = run(data.path(), out.path(), profile);
        assert_eq!(output.status.code(), Some(if errors == 0 { 0 } else { 4 }), "{}", text(&output));
        let records = records(out.path());
        assert_eq!(records.len(), 6, "{profile}: the other rows are not lost");
        let failed = records.iter().filter(|record| record.error.is_some());
        assert_eq!(failed.count(), errors, "{profile}");
        let row = records.iter().find(|record| record.sample.row == 2).unwrap();
        assert_eq!(row.score.value, 0.0, "{profile}");
        match &row.error {
            Some(error) => assert!(error.message.contains("row 2, column `answer`"), "{}", error.message),
            None => assert_eq!(row.sample.flags, ["gold_is_no_letter"]),
        }
    }
}

#[test]
fn two_rows_with_one_uid_are_both_asked() {
    let data = mmvu(|rows| rows[5]["id"] = json!("validation_1"));
    let out = tempfile::tempdir().unwrap();
    let (output, _server) = run(data.path(), out.path(), "paper");
    assert!(output.status.success(), "{}", text(&output));
    let mut uids: Vec<String> = records(out.path()).into_iter().map(|record| record.sample.uid).collect();
    uids.sort();
    assert_eq!((uids.len(), uids[2].as_str()), (6, "validation_1#5"));
}

#[test]
fn rows_that_are_mostly_unusable_and_paths_out_of_the_folder_are_refused() {
    let refused = |change: fn(&mut Vec<Value>), wanted: &[&str]| {
        let data = mmvu(change);
        let out = tempfile::tempdir().unwrap();
        let (output, server) = run(data.path(), out.path(), "paper");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for part in wanted {
            assert!(said.contains(part), "`{part}` in: {said}");
        }
        assert_eq!(server.requests.load(std::sync::atomic::Ordering::Relaxed), 0, "nothing was sent");
    };
    refused(
        |rows| rows[3]["video"] = json!("/etc/passwd"),
        &["row 3, column `video`", "leaves the data folder"],
    );
    refused(
        |rows| rows[3]["video"] = json!("https://host/resolve/main/../../secret.mp4"),
        &["row 3, column `video`", "leaves the data folder"],
    );
    refused(
        |rows| rows.iter_mut().take(3).for_each(|row| row["id"] = json!("")),
        &["3 of 6 rows cannot be used", "row 0, column `id`: the cell is empty"],
    );
}

#[test]
fn a_subtitle_file_that_is_a_pipe_ends_the_run_before_it_starts() {
    let data = tempfile::tempdir().unwrap();
    ok(bench().args(["data", "make", "--out"]).arg(data.path()));
    let srt = data.path().join("videomme/subtitle/nanoMME_0.srt");
    std::fs::remove_file(&srt).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&srt).status().unwrap().success());
    let output = bench()
        .args(["run", "videomme_wsub", "--dry-run", "--out", "runs", "--data"])
        .arg(data.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("nanoMME_0.srt") && text(&output).contains("not a regular file"));
}
