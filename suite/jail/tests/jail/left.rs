//! Nothing grows and nothing is left.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{episode, jail, limits, namespace, residents, stdout, video};

fn count(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// A line of `/proc/…/status` in numbers.
fn status(process: &Path, name: &str) -> u64 {
    let text = std::fs::read_to_string(process.join("status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn a_thousand_calls_leave_files_threads_and_memory_as_they_were() {
    let mut episode = episode();
    let code = "n = globals().get('n', 0) + 1\nif n % 10 == 0: plt.figure(figsize=(1, 1)); plt.plot([1, 2]); plt.show()\n_captured_figures.clear()\nprint(len(video_clue_0[3].asnumpy()))";
    for _ in 0..20 {
        stdout(&mut episode, code);
    }
    let process = Path::new("/proc").join(episode.process_id().unwrap().to_string());
    let look = || {
        let open = count(&process.join("fd"));
        (open, status(&process, "Threads:"), status(&process, "VmRSS:"), count(Path::new("/proc/self/fd")))
    };
    let before = look();
    for _ in 0..1000 {
        assert_eq!(stdout(&mut episode, code), "240");
    }
    let after = look();
    assert_eq!((before.0, before.1), (after.0, after.1), "files and threads of the interpreter");
    assert!(after.2 < before.2 + (32 << 10), "its memory: {} kB, then {} kB", before.2, after.2);
    assert!(after.3 < before.3 + 100, "own files: {} then {}", before.3, after.3);
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn episodes_side_by_side_see_only_themselves() {
    let jail = jail(limits());
    std::thread::scope(|scope| {
        for number in 0..6 {
            let jail = &jail;
            scope.spawn(move || {
                let mut episode = jail.start(&video()).unwrap();
                let code = format!("open('/tmp/mine', 'x').write('{number}'); x = {number}");
                stdout(&mut episode, &code);
                assert_eq!(
                    stdout(&mut episode, "print(x, open('/tmp/mine').read())"),
                    format!("{number} {number}")
                );
                let inside = namespace(&episode);
                drop(episode);
                assert_eq!(residents(&inside), Vec::<PathBuf>::new());
            });
        }
    });
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn an_episode_that_is_dropped_while_it_starts_leaves_nothing() {
    let jail = jail(limits());
    let open = || count(Path::new("/proc/self/fd"));
    let before = open();
    for _ in 0..100 {
        drop(jail.start(&video()).unwrap());
    }
    // Other tests of this process may have some open.
    assert!(open() < before + 100, "own files: {before} then {}", open());
    for pause in [0, 20, 100] {
        let episode = jail.start(&video()).unwrap();
        let inside = namespace(&episode);
        std::thread::sleep(Duration::from_millis(pause));
        drop(episode);
        assert_eq!(residents(&inside), Vec::<PathBuf>::new(), "{pause}");
    }
}

/// Run by the test below in a process that is killed.
#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn holder() {
    if std::env::var_os("PARAVT_JAIL_HOLDER").is_none() {
        return;
    }
    let mut episode = episode();
    stdout(&mut episode, "print(1)");
    println!("namespace {}", namespace(&episode).display());
    let _ = episode.run("while True: pass");
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn a_killed_parent_leaves_nothing() {
    let mut holder = Command::new(std::env::current_exe().unwrap());
    holder.args(["--exact", "left::holder", "--ignored", "--nocapture"]).env("PARAVT_JAIL_HOLDER", "1");
    let mut holder = holder.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let inside =
        lines.find_map(|line| line.unwrap().split_once("namespace ").map(|(_, name)| PathBuf::from(name)));
    let inside = inside.unwrap();
    assert_eq!(residents(&inside).len(), 1);
    holder.kill().unwrap();
    holder.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    while !residents(&inside).is_empty() {
        assert!(Instant::now() < until, "{:?} are left", residents(&inside));
        std::thread::sleep(Duration::from_millis(20));
    }
}
