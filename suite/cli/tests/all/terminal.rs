//! Closed pipes, a full device on standard output, and text that steers a terminal.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::server::{Script, Server};
use crate::common::{bench, ends, ok, run, text, world};

/// A command with its standard output, or its standard error too, going to a reader who has left.
fn into_closed_pipe(mut command: Command, stderr_too: bool) -> std::process::Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    if stderr_too {
        command.stderr(writer.try_clone().unwrap());
    } else {
        command.stderr(Stdio::piped());
    }
    command.stdout(writer).spawn().unwrap().wait_with_output().unwrap()
}

/// Every command that prints and needs no server; what it makes goes below `out`.
fn printing_commands(out: &Path) -> Vec<Vec<String>> {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let (data, frames, made) = (world().to_str().unwrap(), out.join("frames"), out.join("made"));
    let video = world().join("lvbench/nanoLV_0.mp4");
    let server = "--base-url=http://127.0.0.1:9/v1";
    vec![
        owned(&["tasks"]),
        owned(&["doctor"]),
        owned(&["doctor", "--json"]),
        owned(&["data", "check", "--data", data]),
        owned(&["data", "check", "-v", "--data", data]),
        owned(&["data", "check", "--json", "--data", data]),
        owned(&["data", "make", "--videos", "1", "--questions", "1", "--out", made.to_str().unwrap()]),
        owned(&["protocol", "list"]),
        owned(&["protocol", "show", "native", "mlvu"]),
        owned(&["frames", video.to_str().unwrap(), "--out", frames.to_str().unwrap()]),
        owned(&["run", "lvbench", "--dry-run", "--mode=native", "--out=runs", server, "--data", data]),
        owned(&["reproduce", "--help"]),
        owned(&["nonsense"]),
        owned(&["report", "/nowhere"]),
        owned(&["compare", "/nowhere", "/nowhere"]),
    ]
}

#[test]
fn closed_pipes_cause_no_panic_and_no_other_exit_code() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [read, closed, both] = folders.each_ref().map(|folder| printing_commands(folder.path()));
    for ((read, closed), both) in read.iter().zip(closed).zip(both) {
        let expected = bench().args(read).current_dir(folders[0].path()).output().unwrap();
        assert!(!text(&expected).trim().is_empty(), "{read:?} prints nothing");
        for (arguments, stderr_too) in [(closed, false), (both, true)] {
            let mut command = bench();
            command.args(&arguments).current_dir(folders[0].path());
            let output = into_closed_pipe(command, stderr_too);
            let said = text(&output);
            assert_eq!(output.status.code(), expected.status.code(), "{arguments:?}: {said}");
            assert!(!said.contains("panicked") && !said.contains("Broken pipe"), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn a_full_device_on_standard_output_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    ends(3, bench().arg("tasks").stdout(full), &["cannot write to standard output"]);
}

/// What a command prints on a terminal of so many columns.
fn on_terminal(columns: usize, arguments: &str) -> Vec<String> {
    let command =
        format!("stty rows 24 cols {columns}; '{}' {arguments}", env!("CARGO_BIN_EXE_paravt-bench"));
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--command", &command, "/dev/null"]).env("NO_COLOR", "1").stdin(Stdio::null());
    terminal.env("HF_ENDPOINT", "http://127.0.0.1:9").env_remove("HF_HUB_OFFLINE").env_remove("HF_TOKEN");
    let output = terminal.output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn errors_are_as_wide_as_the_terminal_and_whole_in_a_log() {
    let arguments = "reproduce paravt-8b --from nowhere --out /tmp/none";
    let logged = bench().args(arguments.split(' ')).output().unwrap();
    let logged = String::from_utf8(logged.stderr).unwrap();
    assert!(logged.lines().count() == 1 && logged.len() > 300, "{logged}");
    for (columns, widest) in [(60, 60), (90, 90), (300, 100)] {
        let lines = on_terminal(columns, arguments);
        let longest = lines.iter().map(|line| line.chars().count()).max().unwrap();
        assert!((widest - 25..=widest).contains(&longest), "{columns} columns: {lines:#?}");
        assert!(lines[0].starts_with("error: ") && lines[1].starts_with("    "), "{lines:#?}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&lines.join(" ")), words(&logged));
    }
}

#[test]
fn a_dry_run_without_a_network_says_so_after_one_more_try() {
    let began = Instant::now();
    let lines = on_terminal(60, "data fetch lvbench --dry-run --dir /tmp/none");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert!(lines.iter().any(|line| line.starts_with("error: cannot list lvbench")), "{lines:#?}");
    // The notice before it is folded as well.
    let is_notice = |line: &String| line.contains("lmms-eval/LVBench");
    assert!(lines.iter().filter(|line| is_notice(line)).count() > 1, "{lines:#?}");
    assert!(lines.iter().all(|line| line.chars().count() <= 60), "{lines:#?}");
}

#[test]
fn doctor_masks_the_secrets_of_a_url() {
    for json in [&[][..], &["--json"]] {
        let mut command = bench();
        command.env("OPENAI_BASE_URL", "http://me:hunter2@host:1/v1?api_key=K1,https://K2@other/v1");
        let output = command.arg("doctor").args(json).output().unwrap();
        let said = text(&output);
        assert!(said.contains("http://…@host:1/v1?…,https://…@other/v1"), "{said}");
        assert!(!said.contains("hunter2") && !said.contains("K1") && !said.contains("K2"), "{said}");
    }
}

#[test]
fn a_dry_run_counts_calls_of_any_size() {
    let calls = |arguments: &[&str]| {
        let mut command = run(&["lvbench"], Path::new("runs"), "http://127.0.0.1:9/v1");
        command.args(["--dry-run", "--nframes", "8", "--limit", "2"]).args(arguments);
        let said = ends(0, command, &[]);
        said.lines().find_map(|line| line.trim().strip_prefix("model calls: ").map(str::to_owned)).unwrap()
    };
    assert_eq!(calls(&["--mode", "direct"]), "2 to 2");
    assert_eq!(calls(&["--mode", "agentic_general", "--max-turns", "3"]), "2 to 8");
    let endless = ["--mode", "agentic_general", "--max-turns", "18446744073709551615"];
    assert_eq!(calls(&endless), "2 to 36893488147419103232");
    let subagent = ["--mode", "agentic_general", "--crop", "subagent", "--max-turns", "3", "--max-parallel"];
    let with = |cap: &'static str| [&subagent[..], &[cap]].concat();
    assert_eq!(calls(&with("5")), "2 to 38");
    assert!(calls(&with("0")).starts_with("2 or more"));
}

#[test]
fn frames_of_an_impossible_size_and_pipes_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let video = world().join("lvbench/nanoLV_0.mp4");
    let mut command = bench();
    command
        .args(["frames", "--min-pixels", "100000000000", "--max-pixels", "200000000000", "--out"])
        .arg(&out);
    ends(2, command.arg(&video), &["pixels"]);
    let pipe = dir.path().join("pipe.mp4");
    ok(Command::new("mkfifo").arg(&pipe));
    ends(2, bench().arg("frames").arg("--out").arg(&out).arg(&pipe), &["not a regular file"]);
}

#[test]
fn a_run_on_a_terminal_is_a_line_with_samples_score_and_pace() {
    let server = Server::start(Script::default());
    let out = tempfile::tempdir().unwrap();
    let (url, data, out) = (&server.base_url, world().display(), out.path().display());
    let flags = format!("--base-url {url} --data {data} --nframes 8 --profile strict --out {out}");
    let lines = on_terminal(100, &format!("run lvbench {flags}"));
    let shown = lines
        .iter()
        .flat_map(|line| line.split('\r'))
        .any(|line| ["lvbench ", "/6  score ", "errors 0", " left"].iter().all(|part| line.contains(part)));
    assert!(shown, "{lines:#?}");
}
