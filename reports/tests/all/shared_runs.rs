//! Run directories that somebody else made: edited, of other protocols, with pipes in place of files.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{jpegs, whole};
use paravt_reports::page::{Thumbnails, Videos};
use paravt_reports::terminal::Detail;
use paravt_reports::{Report, ReportError, Run, find_runs, json, markdown, readable_runs, terminal};
use paravt_suite::fixtures::image;
use paravt_suite::journal::{JOURNAL, Journal};
use paravt_suite::message::{FrameOrigin, Role};
use paravt_suite::record::{Record, RecordedMessage};

const TITLE: &str = "Video-MME (w/o subtitles)";

/// Writes a run of eight samples as a run directory.
fn write(dir: &Path, change: impl FnOnce(&mut Run)) -> PathBuf {
    let mut run = whole("videomme", TITLE, 8, 4);
    change(&mut run);
    Journal::create(dir, &run.manifest).unwrap().append(&run.records).unwrap();
    dir.to_owned()
}

#[test]
fn records_that_the_run_cannot_have_written_are_refused_with_the_sample() {
    let refused = |change: fn(&mut Record), reason: &str| {
        let dir = tempfile::tempdir().unwrap();
        let run = write(&dir.path().join("run"), |run| change(&mut run.records[2]));
        let error = Report::read(&[run], None).unwrap_err();
        assert!(matches!(&error, ReportError::Record { uid, .. } if uid == "2"), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    };
    refused(|record| record.score.value = 5.0, "score 5 is not between 0 and 1");
    refused(|record| record.score.value = -0.5, "score -0.5");
    refused(|record| record.score.value = 1e308, "not between 0 and 1");
    refused(|record| record.protocol = "4567".into(), "recorded under protocol 4567");
    refused(|record| record.measured.seconds = 1e308, "seconds is out of range");
    refused(|record| record.measured.call_seconds = vec![-1.0], "-1 seconds");
    refused(|record| record.transcript.dropped_calls = usize::MAX, "out of range");
    refused(|record| record.sample.task = "lvbench".into(), "split lvbench");
    refused(
        |record| {
            record.score.value = 1.0;
            record.error = crate::common::damaged().records[3].error.clone();
        },
        "beside an error",
    );
}

/// One damaged record hides its run, and no other; the report is not complete, and names no path.
#[test]
fn a_damaged_run_is_left_out_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let runs = ["a", "b"].map(|name| {
        let change = |run: &mut Run| {
            run.manifest.label = Some(name.into());
            run.records[2].score.value *= if name == "b" { 5.0 } else { 1.0 };
        };
        write(&dir.path().join("stages").join(name), change)
    });
    assert!(find_runs(&runs).is_err());
    let (readable, damaged) = readable_runs(&runs).unwrap();
    assert_eq!((readable.len(), damaged[0].run.as_str()), (1, "stages/b"));
    assert!(damaged[0].why.contains("sample `2`"), "{damaged:?}");
    let report = Report::read(&[dir.path().to_owned()], None).unwrap();
    assert!(!report.complete() && report.cells.len() == 1 && report.damaged == damaged);
    let shown = terminal(&report, Detail::Brief).to_string();
    for text in [shown, markdown(&report), json(&report)] {
        assert!(text.contains("stages/b") && !text.contains(dir.path().to_str().unwrap()), "{text}");
    }
}

#[test]
fn a_pipe_in_place_of_a_file_is_refused_at_once() {
    for name in [JOURNAL, "training.jsonl"] {
        let dir = tempfile::tempdir().unwrap();
        let run = write(&dir.path().join("run"), |_| ());
        let pipe = run.join(name);
        let _ = std::fs::remove_file(&pipe);
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let error = Report::read(&[run], None).unwrap_err();
        assert!(matches!(&error, ReportError::NotAFile(path) if path.ends_with(name)), "{error}");
    }
}

#[test]
fn runs_of_one_label_are_told_apart_and_a_run_named_twice_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let runs = ["a", "b"].map(|name| {
        write(&dir.path().join(name).join("videomme"), |run| run.manifest.label = Some("mine".into()))
    });
    let twice = [runs[0].clone(), runs[1].clone(), runs[0].join("../videomme"), dir.path().join("b")];
    let called: Vec<String> =
        Report::read(&twice, None).unwrap().cells.iter().map(|cell| cell.run.clone()).collect();
    assert_eq!(called, ["mine (a)", "mine (b)"]);
    let called: Vec<String> =
        find_runs(&twice).unwrap().iter().map(|run| run.manifest.display_name()).collect();
    assert_eq!(called, ["mine (a)", "mine (b)"]);
    let one = Report::read(&runs[..1], None).unwrap();
    assert_eq!(one.cells[0].run, "mine", "a label that is unique stays as it is");
}

#[test]
fn escape_sequences_in_names_are_escaped_for_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let run = write(&dir.path().join("run"), |run| {
        run.manifest.backend.model = "m\u{1b}[2J\u{202e}".into();
        run.manifest.label = Some("good\nsplit  reproduced\u{9b}31m".into());
        run.manifest.task.title = "title\u{7}".into();
        run.records[0].sample.flags = vec!["flag\u{1b}]0;x".into()];
        run.records[0].sample.tags.insert("duration".into(), vec!["\u{1b}[31mshort\nlong".into()]);
    });
    let shown = terminal(&Report::read(&[run], None).unwrap(), Detail::Full).to_string();
    assert!(!shown.chars().any(|c| c != '\n' && c.is_control()), "{shown:?}");
    assert!(shown.contains("good⟨U+000A⟩split  reproduced⟨U+009B⟩31m"), "{shown}");
    assert!(shown.contains("flag⟨U+001B⟩]0;x") && !shown.contains('\u{202e}'), "{shown}");
}

#[test]
fn frames_come_from_the_callers_data_and_never_from_a_path_in_a_journal() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe.mp4");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let path = pipe.clone();
    let run = write(&dir.path().join("run"), |run| {
        let seen = image(FrameOrigin { index: 3, time: 0.5 });
        for record in &mut run.records {
            record.sample.video = path.clone();
            record.transcript.messages = vec![RecordedMessage::new(Role::User, vec![seen.clone()])];
        }
    });
    let runs = find_runs(&[run]).unwrap();
    let out = dir.path().join("report");
    std::fs::create_dir(&out).unwrap();
    let none = Thumbnails::write(&runs, &Videos::new(), &out, &jpegs).unwrap();
    assert_eq!((none.unknown, none.unreadable), (1, 0));
    // Also a pipe in the data itself is not opened.
    let videos = Videos::from([(("videomme".to_owned(), "0".to_owned()), pipe)]);
    let read = Thumbnails::write(&runs, &videos, &out, &jpegs).unwrap();
    assert_eq!(read.unreadable, 1);
    assert!(!out.join("frames").exists());
}
