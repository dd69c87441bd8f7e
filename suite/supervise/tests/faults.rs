//! What can go wrong with a supervised process, each with a real one.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant};

use paravt_supervise::{Command, Error, Process};

/// Marker and folder of the process that is killed in [`no_orphan_is_left_when_this_process_is_killed`].
const HOLDER: [&str; 2] = ["PARAVT_SUPERVISE_MARKER", "PARAVT_SUPERVISE_FOLDER"];

fn shell(script: &str) -> Command {
    Command { program: "sh".into(), args: vec!["-c".to_owned(), script.to_owned()], ..Command::default() }
}

/// Processes whose command line contains a text and that are not dead.
fn running(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(text) {
            found.push(format!("{} {line}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

fn gone(text: &str, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    while !running(text).is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    running(text).is_empty()
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("server.log")).unwrap()
}

/// As in a container whose first process waits for no child: this program is the first of a PID namespace, and a dead
/// grandchild stays as a zombie in the group of the process that is stopped.
#[test]
#[ignore = "needs user namespaces: run by ci/test"]
fn zombies_that_nobody_waits_for_do_not_keep_a_stop_waiting() {
    const INSIDE: &str = "PARAVT_SUPERVISE_FIRST";
    if std::env::var_os(INSIDE).is_some() {
        let folder = tempfile::tempdir().unwrap();
        let orphan = shell("(sleep 0.2 &); sleep 0.4; exec sleep 423");
        let mut process = Process::start("server", &orphan, folder.path()).unwrap();
        std::thread::sleep(Duration::from_millis(800));
        let stats = std::fs::read_dir("/proc").unwrap().flatten();
        let is_zombie = |stat: String| stat.contains(") Z ");
        let mut stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        assert!(stats.any(is_zombie), "a zombie is there");
        process.stop(Duration::from_secs(5));
        return;
    }
    let name = "zombies_that_nobody_waits_for_do_not_keep_a_stop_waiting";
    let mut outer = Program::new("timeout");
    outer.args([
        "--signal=KILL", "60", "unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child",
    ]);
    outer.arg("--mount-proc").arg(std::env::current_exe().unwrap());
    let output = outer.args(["--include-ignored", "--exact", name]).env(INSIDE, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_crash_at_the_start_shows_the_code_and_the_last_lines() {
    let folder = tempfile::tempdir().unwrap();
    let mut process =
        Process::start("server", &shell("echo no GPU here >&2; exit 7"), folder.path()).unwrap();
    let error = process.wait_ready(Duration::from_secs(30), || Err("refused".to_owned())).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Ended { .. }), "{text}");
    assert!(
        text.contains("exit status: 7") && text.contains("no GPU here") && text.contains("server.log"),
        "{text}"
    );

    let missing = Command { program: "no-such-program-here".into(), ..Command::default() };
    let mut process = Process::start("server", &missing, folder.path()).unwrap();
    let text = process.wait_ready(Duration::from_secs(30), || Err(String::new())).unwrap_err().to_string();
    assert!(text.contains("127") && text.contains("no-such-program-here"), "{text}");
}

#[test]
fn a_silent_stall_ends_with_the_failure_of_the_probe() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start("server", &shell("echo loading; sleep 421"), folder.path()).unwrap();
    let wait = Duration::from_millis(700);
    let error = process.wait_ready(wait, || Err("connection refused".to_owned())).unwrap_err().to_string();
    assert!(error.contains("connection refused") && error.contains("loading"), "{error}");
    assert!(process.silence() >= Duration::from_millis(400) && process.exited().is_none());
}

/// A server that takes the request and never answers.
#[test]
fn a_probe_that_waits_longer_than_the_limit_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("answer");
    assert!(Program::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Holds the writing end open: who reads waits until it ends.
    let script =
        format!("echo listening; exec 3<>'{0}'; setsid env -i sleep 428 & exec sleep 428", fifo.display());
    let mut process = Process::start("server", &shell(&script), folder.path()).unwrap();
    while !process.tail().contains("listening") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let probe = || std::fs::read_to_string(&fifo).map(|_| ()).map_err(|error| error.to_string());
    let error = process.wait_ready(Duration::from_secs(2), probe).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::NotReady { .. }), "{text}");
    assert!(text.contains("after 2 s") && text.contains("did not answer the last request"), "{text}");
    assert!(gone("sleep 428", Duration::from_secs(5)), "{:?}", running("sleep 428"));
}

#[test]
fn the_death_of_a_server_is_noticed_and_its_workers_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut process =
        Process::start("server", &shell("sleep 422 & sleep 422 & exit 3"), folder.path()).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while process.exited().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(process.exited().unwrap().code(), Some(3));
    process.stop(Duration::from_secs(5));
    assert!(gone("sleep 422", Duration::ZERO), "{:?}", running("sleep 422"));
    assert!(!folder.path().join("server.pid").exists());
}

#[test]
fn a_stop_sends_sigterm_and_kills_what_ignores_it() {
    let folder = tempfile::tempdir().unwrap();
    let polite = shell("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done");
    let mut process = Process::start("server", &polite, folder.path()).unwrap();
    while !process.tail().contains("up") {
        std::thread::sleep(Duration::from_millis(10));
    }
    process.stop(Duration::from_secs(20));
    assert!(log(folder.path()).contains("saved"), "{}", log(folder.path()));
    assert_eq!(process.exited().unwrap().code(), Some(0));

    let deaf = shell("trap '' TERM; echo deaf; while :; do sleep 0.1; done");
    let mut process = Process::start("server", &deaf, folder.path()).unwrap();
    while !process.tail().contains("deaf") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let began = Instant::now();
    process.stop(Duration::from_millis(300));
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(process.exited().unwrap().code(), None, "ended by a signal");
}

#[test]
fn a_line_of_a_gigabyte_is_cut_and_nothing_after_it_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let flood = "head -c 1073741824 /dev/zero | tr '\\0' x; echo; echo after";
    let mut process = Process::start("server", &shell(flood), folder.path()).unwrap();
    while process.exited().is_none() {
        std::thread::sleep(Duration::from_millis(50));
    }
    process.stop(Duration::from_secs(1));
    let text = log(folder.path());
    assert!(text.len() < 8192, "{} bytes", text.len());
    let cut = (1 << 30) - 4096;
    assert!(text.contains(&format!("[{cut} bytes cut]\nafter\n")), "{}", &text[4000..]);
}

#[test]
fn a_process_of_an_earlier_command_is_ended_and_another_of_its_number_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut left = Process::start("server", &shell("exec sleep 423"), folder.path()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let note = std::fs::read(folder.path().join("server.pid")).unwrap();
    let other = Process::start("other", &shell("exec sleep 424"), folder.path()).unwrap();
    // The number of `other` with the start of `left`: given out again.
    let text = String::from_utf8(note).unwrap();
    let stale = text.replace(&left.id().to_string(), &other.id().to_string());
    std::fs::write(folder.path().join("third.pid"), stale).unwrap();
    drop(Process::start("third", &shell("exit 0"), folder.path()).unwrap());
    // Of two processes of one clock tick the note says the same.
    let of_other = std::fs::read_to_string(folder.path().join("other.pid")).unwrap();
    let started = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["started"].clone();
    if started(&of_other) != started(&text) {
        assert!(!running("sleep 424").is_empty(), "another process of that number was killed");
    }
    // Its own number and start: a leftover.
    let again = Process::start("server", &shell("exec sleep 425"), folder.path()).unwrap();
    assert!(left.exited().is_some(), "the leftover was not ended");
    drop((again, other, left));
    assert!(gone("sleep 425", Duration::ZERO));
}

#[test]
fn processes_that_left_the_group_are_killed_with_it() {
    let folder = tempfile::tempdir().unwrap();
    // As torchrun starts its workers: in a session of their own. The leader is gone before the stop.
    let script =
        "setsid sleep 426 & setsid sh -c 'sleep 426 & wait' & sleep 0.3; echo Error one; echo Error two";
    let mut process =
        Process::start_counting("server", &shell(script), folder.path(), &["Error", "never"]).unwrap();
    while process.exited().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!running("sleep 426").is_empty());
    process.stop(Duration::from_millis(200));
    assert!(gone("sleep 426", Duration::ZERO), "{:?}", running("sleep 426"));
    assert_eq!((process.count("Error"), process.count("never")), (2, 0));
}

/// As a daemon starts: forked twice, in a session of its own, with an environment that is empty.
#[test]
fn daemons_with_an_environment_of_their_own_end_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = "(setsid env -i sh -c 'env -i sleep 429 & exit' &)";
    for script in [format!("{daemon}; echo up; sleep 60"), format!("{daemon}; sleep 0.2; echo up")] {
        let mut process = Process::start("server", &shell(&script), folder.path()).unwrap();
        while !process.tail().contains("up") || running("sleep 429").is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let of_others = Process::start("other", &shell("exec env -i sleep 430"), folder.path()).unwrap();
        let mut child = Program::new("sleep").arg("431").spawn().unwrap();
        process.stop(Duration::from_millis(300));
        assert!(gone("sleep 429", Duration::from_secs(5)), "{:?}", running("sleep 429"));
        assert_eq!(running("sleep 430").len(), 1, "another server goes on");
        assert!(child.try_wait().unwrap().is_none(), "a child of this process goes on");
        child.kill().unwrap();
        child.wait().unwrap();
        drop(of_others);
    }
}

/// Starts four processes and waits to be killed.
fn hold(marker: &str, folder: &str) {
    let script =
        format!("(setsid env -i sleep {marker} &); setsid sleep {marker} & sleep {marker} & sleep {marker}");
    let _process = Process::start("server", &shell(&script), Path::new(folder)).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

/// Starts this program with this test alone, which then is the process that is killed.
#[test]
fn no_orphan_is_left_when_this_process_is_killed() {
    if let [Ok(marker), Ok(folder)] = HOLDER.map(std::env::var) {
        return hold(&marker, &folder);
    }
    let folder = tempfile::tempdir().unwrap();
    for number in 0..20_u32 {
        // A duration that no other process sleeps.
        let marker = format!("6{}{number:02}", std::process::id());
        let mut child = Program::new(std::env::current_exe().unwrap())
            .args(["--exact", "no_orphan_is_left_when_this_process_is_killed", "--nocapture"])
            .env(HOLDER[0], &marker)
            .env(HOLDER[1], folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Moments from the very start of the process to long after that of its children.
        std::thread::sleep(Duration::from_millis(u64::from(number * number)));
        child.kill().unwrap();
        child.wait().unwrap();
        // What had begun to start may still appear: it must go by itself.
        std::thread::sleep(Duration::from_millis(100));
        assert!(gone(&format!("sleep {marker}"), Duration::from_secs(10)), "{:?}", running(&marker));
    }
}

#[test]
fn secrets_of_the_environment_are_in_no_line_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let secret = "hf_a_secret_of_this_test";
    // Once in the open, once as an error shows it, once where the line is cut.
    let script = "echo \"token $A_TOKEN\"; env | grep A_TOKEN >&2; head -c 4090 /dev/zero | tr '\\0' x; \
                  echo \"$A_TOKEN and more\"; exit 5";
    let mut command = shell(script);
    command.env.insert("A_TOKEN".to_owned(), secret.to_owned());
    let mut process = Process::start("server", &command, folder.path()).unwrap();
    let error = process.wait_ready(Duration::from_secs(30), || Err(String::new())).unwrap_err().to_string();
    for text in [log(folder.path()), error] {
        assert!(text.contains("token …\n") && text.contains("A_TOKEN=…\n"), "{text}");
        assert!(!text.contains("hf_"), "{text}");
    }

    // A server that prints all of it.
    let mut command = shell("env; exit 5");
    for (name, value) in [
        ("PGPASSWORD", "hunter2"),
        ("DB_PWD", "swordfish"),
        ("APIKEY", "secretsecret"),
        ("HTTPS_PROXY", "http://u:pw@127.0.0.1:1"),
        ("GREETING", "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF==\n-----END KEY-----"),
    ] {
        command.env.insert(name.to_owned(), value.to_owned());
    }
    let mut process = Process::start("all", &command, folder.path()).unwrap();
    let error = process.wait_ready(Duration::from_secs(30), || Err(String::new())).unwrap_err().to_string();
    for text in [std::fs::read_to_string(folder.path().join("all.log")).unwrap(), error] {
        for secret in ["hunter2", "swordfish", "secretsecret", "u:pw", "MIIE", "kqhk"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

#[test]
fn a_link_in_the_place_of_the_log_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs");
    std::fs::write(&theirs, "theirs").unwrap();
    std::os::unix::fs::symlink(&theirs, folder.path().join("server.log")).unwrap();
    std::os::unix::fs::symlink(&theirs, folder.path().join("server.pid")).unwrap();
    let mut process = Process::start("server", &shell("echo ours"), folder.path()).unwrap();
    while process.exited().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    process.stop(Duration::from_secs(1));
    assert_eq!(log(folder.path()), "ours\n");
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
}

#[test]
fn the_exception_of_the_rank_that_failed_first_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "echo '[rank3]: ValueError: the cause'; for n in $(seq 60); do echo \"line $n\"; done; exit 1";
    let mut process = Process::start("server", &shell(script), folder.path()).unwrap();
    let error = process.wait_ready(Duration::from_secs(30), || Err(String::new())).unwrap_err().to_string();
    assert!(error.contains("[rank3]: ValueError: the cause\n  line 11\n"), "{error}");
    assert_eq!(error.matches("the cause").count(), 1);
}

#[test]
fn a_stop_at_once_after_the_start_returns() {
    let (sender, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..40 {
            // The process is stopped before, while or after it has told its guard its number.
            drop(Process::start("server", &shell("sleep 427"), folder.path()).unwrap());
        }
        sender.send(()).unwrap();
    });
    done.recv_timeout(Duration::from_secs(60)).expect("no stop waits for ever");
    assert!(gone("sleep 427", Duration::from_secs(5)), "{:?}", running("sleep 427"));
}
