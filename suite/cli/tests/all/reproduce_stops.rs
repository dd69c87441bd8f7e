//! Signals to a recipe in stages that do not wait for them, after one that did; two commands on one folder.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{bench, ends, free_port, is_running, ok, text, until};
use crate::fetch::local::{Faults, TOKEN, TestHub};
use crate::fetch::lvbench;

/// Seconds that the stand-in for a server sleeps: a number that no other process has.
fn marker(number: u32) -> String {
    format!("7{}{number}", std::process::id())
}

/// A recipe that fetches a split and then waits for a server that never answers.
fn recipe(folder: &Path, marker: &str) {
    let port = free_port();
    let text = format!(
        "extends = \"served\"\nname = \"waiting\"\ntitle = \"waiting\"\nmodel = \"./model\"\nfetch.enabled = true\n\
         [serve]\nengine = \"transformers\"\nport = {port}\ncommand = \"sh -c 'exec sleep {marker}'\"\n\
         [evaluate]\nprofile = \"strict\"\nmode = \"native\"\n[matrix]\nsplit = [\"lvbench\"]\n"
    );
    std::fs::write(folder.join("waiting.toml"), text).unwrap();
}

fn command(folder: &Path, hub: &TestHub) -> Command {
    let mut command = bench();
    command.args(["reproduce", "waiting.toml", "--out", "out", "--protocol", "native"]).current_dir(folder);
    command.env("HOME", folder).env("HF_HOME", folder.join("hf")).env("HF_ENDPOINT", &hub.endpoint);
    command.env("HF_TOKEN", TOKEN).env("CUDA_VISIBLE_DEVICES", "").env_remove("HF_HUB_OFFLINE");
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn stopped(folder: &Path, hub: &TestHub, signal: &str, sleeping: &str) -> Output {
    let child = command(folder, hub).spawn().unwrap();
    until("the server is started", 60, || is_running(sleeping));
    let began = Instant::now();
    ok(Command::new("kill").args([signal, &child.id().to_string()]));
    let output = child.wait_with_output().unwrap();
    assert!(began.elapsed() < Duration::from_secs(20), "{}", text(&output));
    until("the server is gone", 60, || !is_running(sleeping));
    output
}

#[test]
fn a_signal_ends_a_stage_that_waits_after_one_that_took_signals() {
    let folder = tempfile::tempdir().unwrap();
    let hub = TestHub::start_as("lmms-eval/LVBench", &lvbench(&[]), Faults::default());
    let sleeping = format!("sleep {}", marker(1));
    recipe(folder.path(), &marker(1));
    for (number, signal) in ["-INT", "-TERM"].into_iter().enumerate() {
        // The first run downloads and has waited for Ctrl-C there.
        let output = stopped(folder.path(), &hub, signal, &sleeping);
        assert_eq!(output.status.code(), Some(130), "{signal}: {}", text(&output));
        assert!(text(&output).contains("repeat the command to continue"), "{}", text(&output));
        assert_eq!(text(&output).matches("(done before)").count(), number, "{}", text(&output));
        assert!(!text(&output).contains(TOKEN));
    }
}

#[test]
fn a_second_command_on_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let hub = TestHub::start_as("lmms-eval/LVBench", &lvbench(&[]), Faults::default());
    let sleeping = format!("sleep {}", marker(2));
    recipe(folder.path(), &marker(2));
    let mut first = command(folder.path(), &hub).spawn().unwrap();
    until("the server is started", 60, || is_running(&sleeping));
    ends(3, command(folder.path(), &hub), &["another process"]);
    assert!(first.try_wait().unwrap().is_none() && is_running(&sleeping), "the first one goes on");
    first.kill().unwrap();
    first.wait().unwrap();
    until("the server is gone", 60, || !is_running(&sleeping));
    // Nothing of the command that was killed is in the way.
    let output = stopped(folder.path(), &hub, "-TERM", &sleeping);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
}
