//! Probes, repetitions and the comparison of inputs, from the command to the report.

use std::path::Path;

use paravt_suite::journal;
use paravt_suite::record::{Record, RecordedPart};

use crate::common::server::{Script, Server};
use crate::common::{SPLITS, bench, ends, ok, run, run_again, stable_records};

/// A run of one split without tools, eight frames; the records.
fn records(task: &str, out: &Path, server: &Server, flags: &[&str]) -> Vec<Record> {
    let mut command = run(&[task], out, &server.base_url);
    ok(command.args(["--mode", "direct", "--nframes", "8"]).args(flags));
    stable_records(&out.join(task))
}

/// Indices and times of the overview, and the bytes of its images.
fn frames(record: &Record) -> Vec<(usize, f64, usize)> {
    let parts = record.transcript.messages.iter().flat_map(|message| &message.parts);
    let of = |part: &RecordedPart| match part {
        RecordedPart::Image { origin: Some(origin), bytes, .. } => Some((origin.index, origin.time, *bytes)),
        _ => None,
    };
    parts.filter_map(of).collect()
}

#[test]
fn every_probe_runs_on_every_split_that_it_has_something_to_take_from() {
    let server = Server::start(Script::default());
    for probe in ["blind", "shuffle:1", "none-right", "freeze", "reverse", "half-frames"] {
        for profile in ["paper", "strict"] {
            let dir = tempfile::tempdir().unwrap();
            let flags = ["--probe", probe, "--profile", profile, "--mode", "direct", "--nframes", "8"];
            // Charades-STA has no options.
            let tasks = if ["shuffle:1", "none-right"].contains(&probe) { &SPLITS[..6] } else { &SPLITS[..] };
            ok(run(tasks, dir.path(), &server.base_url).args(flags));
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut refused = run(&["charades"], dir.path(), &server.base_url);
    let words = "--probe shuffle:1: charades: no sample has options";
    ends(2, refused.args(["--probe", "shuffle:1"]), &[words]);
}

#[test]
fn probes_of_frames_show_the_frames_that_they_say() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let of = |probe: &str| {
        let flags = if probe == "none" { vec![] } else { vec!["--probe", probe] };
        records("lvbench", &dir.path().join(probe), &server, &flags)
    };
    let (plain, freeze, reverse, half) = (of("none"), of("freeze"), of("reverse"), of("half-frames"));
    let pictures =
        |frames: &[(usize, f64, usize)]| frames.iter().map(|frame| (frame.0, frame.2)).collect::<Vec<_>>();
    for (((plain, freeze), reverse), half) in plain.iter().zip(&freeze).zip(&reverse).zip(&half) {
        let (plain, freeze, reverse) = (frames(plain), frames(freeze), frames(reverse));
        assert_eq!((plain.len(), frames(half).len()), (8, 4));
        let middle = plain[4];
        assert!(freeze.iter().all(|frame| (frame.0, frame.2) == (middle.0, middle.2)), "{freeze:?}");
        let times = |frames: &[(usize, f64, usize)]| frames.iter().map(|frame| frame.1).collect::<Vec<_>>();
        assert_eq!(times(&freeze), times(&plain));
        let mut backwards = pictures(&plain);
        backwards.reverse();
        assert_eq!(pictures(&reverse), backwards);
        assert!(times(&reverse).is_sorted() && reverse[0].1 == 0.0, "{reverse:?}");
    }
}

#[test]
fn a_report_sets_probed_runs_beside_the_run_and_compare_says_what_differs() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let plain = records("mlvu", &path("plain"), &server, &[]);
    let blind = records("mlvu", &path("blind"), &server, &["--probe", "blind"]);
    let shuffled = records("mlvu", &path("shuffled"), &server, &["--probe", "shuffle:1"]);
    assert!(blind.iter().all(|record| frames(record).is_empty() && record.error.is_none()));
    assert!(plain.iter().zip(&shuffled).all(|(a, b)| a.sample.gold_text() == b.sample.gold_text()));
    let mut report = bench();
    report.arg("report").arg(dir.path()).arg("-o").arg(path("report"));
    ends(0, report, &["mlvu blind: ", "same option chosen: "]);
    let table = std::fs::read_to_string(path("report/tables/probes.csv")).unwrap();
    assert_eq!(table.lines().count(), 3, "{table}");
    for (name, words) in [
        // The native texts say how long the video is, where that is known.
        ("blind", "other text, other frames: 8 against none"),
        ("shuffled", "other text, same frames, same size, same bytes"),
    ] {
        ends(0, bench().arg("compare").args([path("plain"), path(name)]).arg("--inputs"), &[words]);
    }
    let mut wrong = run(&["mlvu"], &path("plain"), &server.base_url);
    wrong.args(["--mode", "direct", "--nframes", "8", "--resume", "--probe", "freeze"]);
    ends(2, wrong, &["probe was not set, now freeze"]);
}

#[test]
fn a_repeated_run_resumes_replays_and_reports_its_draws() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let repeat = ["--repeat", "3", "--temperature", "0.8", "--seed", "5"];
    let whole = records("mmvu", &dir.path().join("whole"), &server, &repeat);
    let latest = server.latest.lock().unwrap().clone();
    assert!((5..8).contains(&latest["seed"].as_u64().unwrap()), "{latest}");
    let run_dir = dir.path().join("whole/mmvu");
    let once = records("mmvu", &dir.path().join("once"), &server, &[]);
    assert_eq!(whole.len(), 3 * once.len());
    // The last third of the journal is lost; the same command brings it back.
    let path = run_dir.join(journal::JOURNAL);
    let lines = std::fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = lines.lines().take(2 * once.len()).collect();
    std::fs::write(&path, kept.join("\n") + "\n").unwrap();
    let flags = [&repeat[..], &["--resume"]].concat();
    assert_eq!(records("mmvu", &dir.path().join("whole"), &server, &flags), whole);
    // Answers were drawn as the recorded run says, whatever the flags leave out; another way is refused.
    let replayed = |out: &str, flags: &[&str]| {
        let mut replay = run_again(&["mmvu"], &dir.path().join(out), &run_dir);
        replay.args(["--mode", "direct", "--nframes", "8", "--repeat", "3"]).args(flags);
        replay
    };
    ok(replayed("replay", &repeat[2..]));
    assert_eq!(stable_records(&dir.path().join("replay/mmvu")), whole);
    ok(replayed("silent", &[]));
    let manifest = journal::read_manifest(&dir.path().join("silent/mmvu")).unwrap();
    assert_eq!((manifest.plan.temperature, manifest.plan.seed), (0.8, Some(5)));
    let words = "--temperature: --backend replay returns answers as they were drawn";
    ends(2, replayed("other", &["--temperature", "0.5"]), &[words]);
    let measures = ["mmvu: 3 repetitions", "mean", "pass@2", "pass@3", "pass^3", "majority", "agreement"];
    ends(0, bench().arg("report").arg(&run_dir), &measures);
    let mut greedy = run(&["mmvu"], &dir.path().join("greedy"), &server.base_url);
    ends(0, greedy.args(["--repeat", "2", "--limit", "1"]), &["warning: --repeat 2 at temperature 0"]);
}
