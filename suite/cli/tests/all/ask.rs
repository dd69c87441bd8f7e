//! What a person at a terminal does first: what is here, and one question about one video.

use crate::common::server::{Script, Server};
use crate::common::{bench, ends, files, ok, text, world};

fn a_video() -> std::path::PathBuf {
    let is_video = |path: &std::path::PathBuf| path.extension().is_some_and(|extension| extension == "mp4");
    files(world()).into_iter().find(is_video).unwrap()
}

#[test]
fn a_question_shows_its_tool_calls_and_ends_in_an_answer() {
    let server = Server::start(Script::default());
    let mut command = bench();
    command.arg("ask").arg(a_video()).args(["What happens first?", "--option", "rain", "--option", "sun"]);
    let output = ok(command.args(["--nframes", "4", "--base-url", &server.base_url]));
    let shown = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(shown.contains("── turn0: 2 messages, 4 frames"), "{shown}");
    assert!(shown.contains("looks at"), "{shown}");
    assert!(shown.contains("── turn1"), "{shown}");
    let last = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(last.lines().last().unwrap().starts_with("answer: "), "{last}");
}

#[test]
fn a_model_that_cannot_be_reached_is_an_error_and_no_answer() {
    let mut command = bench();
    command.arg("ask").arg(a_video()).args(["What?", "--nframes", "4", "--tries", "1", "--model", "m"]);
    let said = ends(4, command.args(["--base-url", "http://127.0.0.1:9/v1"]), &[]);
    assert!(!said.contains("answer:"), "{said}");

    // Without --model the server is asked for one first: a precondition.
    let mut command = bench();
    command.arg("ask").arg(a_video()).args(["What?", "--tries", "1", "--base-url", "http://127.0.0.1:9/v1"]);
    ends(3, command, &[]);
}

#[test]
fn a_missing_video_is_named() {
    let mut command = bench();
    command.args(["ask", "nowhere.mp4", "What?", "--base-url", "http://x"]);
    ends(2, command, &["nowhere.mp4: no such file"]);
}

#[test]
fn a_file_that_is_no_video_ends_with_the_code_of_frames() {
    let dir = tempfile::tempdir().unwrap();
    let rows = dir.path().join("rows.json");
    std::fs::write(&rows, "[{}]").unwrap();
    let server = Server::start(Script::default());
    let out = dir.path().join("out").display().to_string();
    for (name, flags) in
        [("ask", ["?", "--base-url", &server.base_url]), ("frames", ["--nframes=4", "--out", &out])]
    {
        ends(2, bench().arg(name).arg(&rows).args(flags), &[]);
    }
}

#[test]
fn a_reply_without_an_answer_is_followed_by_what_was_expected() {
    let message = serde_json::json!({"role": "assistant", "content": "nothing to see"});
    let server = Server::start(Script { choice: [("message", message)].into(), ..Script::default() });
    let (letters, none) = ("expected one of the letters A, B", "none found in the text above");
    for (question, found, expected) in [
        (&["--option", "rain", "--option", "sun"][..], none, letters),
        (
            &["--profile", "paper", "--option", "rain", "--option", "sun"],
            "`n`, which is not an option",
            letters,
        ),
        (&["--ground"], none, "expected an interval in seconds"),
    ] {
        let mut command = bench();
        command.arg("ask").arg(a_video()).args(["What?", "--nframes", "4", "--base-url", &server.base_url]);
        let said = text(&command.args(question).output().unwrap());
        assert!(said.contains(&format!("answer: {found}; {expected}")), "{said}");
    }
}

#[test]
fn the_doctor_looks_at_everything_and_says_why_there_is_no_gpu() {
    let output = ok(bench().args(["doctor", "--json"]));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["cores"].as_u64().unwrap() >= 1);
    assert!(found["decoders"].as_array().unwrap().contains(&"h264".into()), "{found}");
    assert!(found["cuda"].is_null() != found["no_cuda_because"].is_null(), "{found}");
    assert!(found["backends"]["openai"].is_string(), "{found}");
    let shown = text(&bench().arg("doctor").output().unwrap());
    assert!(shown.contains("FFmpeg") && shown.contains("GPU"), "{shown}");
}
