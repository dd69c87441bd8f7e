//! Rows that are not as published: carried while they are few, refused where they are not data.

use std::path::Path;
use std::process::Command;

use crate::common::server::{Script, Server};
use crate::common::{bench, ends, ok, run_on, world};
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

fn run(server: &Server, data: &Path, out: &Path, profile: &str) -> Command {
    let mut command = run_on(data, &["mmvu"], out, &server.base_url);
    command.args(["--mode", "direct", "--nframes", "4", "--profile", profile]);
    command
}

fn records(out: &Path) -> Vec<paravt_suite::record::Record> {
    paravt_suite::journal::read(&out.join("mmvu")).unwrap().records
}

#[test]
fn a_gold_without_an_option_is_asked_except_under_strict() {
    let server = Server::start(Script::default());
    for (profile, errors) in [("release", 0), ("paper", 0), ("strict", 1)] {
        let data = mmvu(|rows| rows[2]["answer"] = json!("Z"));
        let out = tempfile::tempdir().unwrap();
        ends(if errors == 0 { 0 } else { 4 }, run(&server, data.path(), out.path(), profile), &[]);
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
    ok(run(&Server::start(Script::default()), data.path(), out.path(), "paper"));
    let mut uids: Vec<String> = records(out.path()).into_iter().map(|record| record.sample.uid).collect();
    uids.sort();
    assert_eq!((uids.len(), uids[2].as_str()), (6, "validation_1#5"));
}

#[test]
fn rows_that_are_mostly_unusable_and_paths_out_of_the_folder_are_refused() {
    let server = Server::start(Script::default());
    let refused = |change: fn(&mut Vec<Value>), words: &[&str]| {
        let data = mmvu(change);
        let out = tempfile::tempdir().unwrap();
        ends(2, run(&server, data.path(), out.path(), "paper"), words);
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
    ok(Command::new("mkfifo").arg(&srt));
    let mut command = bench();
    command.args(["run", "videomme_wsub", "--dry-run", "--out", "runs", "--data"]).arg(data.path());
    ends(2, command, &["nanoMME_0.srt", "not a regular file"]);
}
