//! What the code of a model finds.

use std::path::Path;
use std::time::Duration;

use paravt_jail::{Error, Jail, Limits, Outcome};

use crate::{episode, jail, limits, stdout, video};

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn variables_last_and_figures_come_back() {
    let mut episode = episode();
    let seen = episode.opened().unwrap();
    assert_eq!((seen.frames, seen.fps, seen.width, seen.height), (50, 25.0, 320, 240));
    assert_eq!(stdout(&mut episode, "x = len(video_clue_0)\nprint('  frames', x, '\\n')"), "frames 50");
    let code = "for i in (0, 10):\n    plt.imshow(video_clue_0[i].asnumpy())\n    plt.show()\nprint(x + 1)";
    let output = episode.run(code).unwrap();
    assert_eq!((output.stdout.as_str(), output.figures_made, output.figures_total), ("51", 2, 2));
    assert_eq!(
        output.figures.iter().map(|figure| (figure.width, figure.height)).collect::<Vec<_>>(),
        [(640, 480); 2]
    );
    let output = episode.run("plt.figure(figsize=(3, 2)); plt.plot([1, 2]); plt.show()").unwrap();
    assert_eq!((output.figures.len(), output.figures_total, output.figures[0].width), (1, 3, 300));
    // As in the release: another spelling shows nothing, and the guard of scripts is false.
    let output =
        episode.run("plt.plot([1]); plt.show(block=False)\nif __name__ == '__main__': print(1)").unwrap();
    assert_eq!((output.figures.len(), output.stdout.as_str(), output.outcome), (0, "", Outcome::Done));
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn exceptions_keep_the_variables_and_exit_is_one() {
    let mut episode = episode();
    let raised = |text: &str| Outcome::Raised(text.to_owned());
    assert_eq!(episode.run("x = 1\nprint(2)\nraise ValueError('ä\\ud800')").unwrap().outcome, raised("ä?"));
    assert_eq!(episode.run("exit()").unwrap().outcome, raised("SystemExit"));
    assert_eq!(episode.run("1 +").unwrap().outcome, raised("invalid syntax (<string>, line 1)"));
    assert_eq!(stdout(&mut episode, "print(x)"), "1");
    let output = episode.run("plt.figure(figsize=(400, 1)); plt.show()").unwrap();
    assert!(matches!(output.outcome, Outcome::Raised(text) if text.contains("ratio 200")));
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn limits_cut_and_count() {
    let limits = Limits { stdout: 10, figures: 2, ..limits() };
    let mut episode = jail(limits.clone()).start(&video()).unwrap();
    let output = episode.run("print('äöü' * 1000)").unwrap();
    assert_eq!((output.stdout.as_str(), output.stdout_bytes), ("äöüäö", 6001));
    assert!(output.text_is_cut(&limits));
    let output = episode.run("for _ in range(5):\n    plt.plot([1]); plt.show()").unwrap();
    assert_eq!((output.figures.len(), output.figures_lost(), output.figures_total), (2, 3, 5));
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn a_new_interpreter_follows_one_that_a_call_ended() {
    let mut episode = episode();
    assert_eq!(stdout(&mut episode, "x = 1"), "");
    let output = episode.run("import os; os._exit(3)").unwrap();
    assert_eq!(output.outcome, Outcome::Ended("the interpreter ended".to_owned()));
    let output = episode.run("x").unwrap();
    assert!(output.restarted);
    assert_eq!(output.outcome, Outcome::Raised("name 'x' is not defined".to_owned()));
    assert!(!episode.run("1").unwrap().restarted);
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn opening_the_video_is_paid_by_the_first_call() {
    let limits = Limits { call: Duration::from_nanos(1), ..limits() };
    let output = jail(limits).start(&video()).unwrap().run("print(1)").unwrap();
    assert_eq!(output.outcome, Outcome::TimedOut);
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn what_cannot_start_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.mp4");
    assert!(jail(limits()).start(&path).unwrap_err().to_string().contains("cannot find the video"));
    std::fs::write(&path, "not a video").unwrap();
    let error = jail(limits()).start(&path).unwrap().run("1").unwrap_err();
    assert!(
        matches!(&error, Error::Start { message, .. } if message.contains("Error reading /video/0.mp4")),
        "{error}"
    );
    let late = Limits { start: Duration::from_millis(1), ..limits() };
    let error = jail(late).start(&video()).unwrap().run("1").unwrap_err().to_string();
    assert!(error.contains("not ready in time"), "{error}");
    let error = Jail::new(Path::new("/nowhere/python"), limits()).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/python cannot run the code of a model"), "{error}");
    // A video below a folder that the jail shows would be seen with all that lies beside it.
    for file in [std::env::var("PARAVT_PYTHON").unwrap().as_str(), "/usr/bin/env"] {
        let error = jail(limits()).start(Path::new(file)).unwrap_err();
        assert!(matches!(error, Error::Exposed { .. }), "{error}");
    }
}

/// Run by itself once more where the kernel forbids namespaces.
#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn a_kernel_that_forbids_namespaces_is_an_error_with_a_remedy() {
    if std::env::var_os("PARAVT_JAIL_FORBIDDEN").is_some() {
        for error in [jail(limits()).start(&video()).map(drop), jail(limits()).check()] {
            let error = error.unwrap_err();
            assert!(matches!(error, Error::Refused { .. }), "{error}");
            assert!(error.to_string().contains("sysctl -w user.max_user_namespaces"), "{error}");
        }
        return;
    }
    jail(limits()).check().unwrap();
    let mut forbidden = std::process::Command::new("unshare");
    forbidden.args(["--user", "--map-root-user", "sh", "-c"]);
    forbidden.args([r#"echo 0 > /proc/sys/user/max_user_namespaces && exec "$@""#, "sh"]);
    forbidden.arg(std::env::current_exe().unwrap()).env("PARAVT_JAIL_FORBIDDEN", "1");
    let name = "behaviour::a_kernel_that_forbids_namespaces_is_an_error_with_a_remedy";
    assert!(forbidden.args(["--exact", name, "--ignored"]).status().unwrap().success());
}
