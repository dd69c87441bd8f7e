//! The run directory: torn lines, damaged lines, locks, a full disk.

use std::collections::BTreeMap;
use std::path::Path;

use paravt_suite::fixtures::{self, manifest};
use paravt_suite::journal::{self, JOURNAL, Journal, JournalError};
use paravt_suite::profile::Profile;
use paravt_suite::record::{Measured, RECORD_VERSION, Record};
use paravt_suite::run::{Inputs, Manifest};

fn record(row: usize, value: f64) -> Record {
    let mut record = fixtures::record(&format!("q{row}"), value);
    record.sample.row = row;
    record.profile = Profile::Strict;
    record.transcript.final_text = "line one\nline \u{2028} two".into();
    record
}

/// The records of a run, without the name of the run, which is made up anew each time.
fn read(dir: &Path) -> Vec<Record> {
    let mut records = journal::read(dir).unwrap().records;
    records.iter_mut().for_each(|record| assert!(record.measured.run.take().is_some()));
    records
}

#[test]
fn records_come_back_by_row_and_the_last_one_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(dir.path(), &manifest()).unwrap();
    journal.append(&[record(2, 0.0), record(0, 1.0)]).unwrap();
    journal.append(&[record(2, 1.0)]).unwrap();
    assert_eq!(read(dir.path()), vec![record(0, 1.0), record(2, 1.0)]);
    assert_eq!(journal::read(dir.path()).unwrap().torn_bytes, 0);
}

#[test]
fn a_journal_cut_anywhere_keeps_every_whole_record() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(dir.path(), &manifest()).unwrap();
    journal.append(&[record(0, 1.0), record(1, 0.0)]).unwrap();
    drop(journal);
    let path = dir.path().join(JOURNAL);
    let whole = std::fs::read(&path).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let (mut journal, _, contents) = Journal::resume(dir.path(), &manifest()).unwrap();
        assert_eq!(contents.records.len(), usize::from(length >= first), "cut at {length}");
        journal.append(&[record(2, 1.0)]).unwrap();
        drop(journal);
        assert_eq!(read(dir.path()).last(), Some(&record(2, 1.0)), "cut at {length}");
        assert_eq!(journal::read(dir.path()).unwrap().torn_bytes, 0);
    }
}

#[test]
fn damage_before_the_end_is_named_by_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(dir.path(), &manifest()).unwrap();
    journal.append(&[record(0, 1.0), record(1, 0.0)]).unwrap();
    drop(journal);
    let path = dir.path().join(JOURNAL);
    let text = std::fs::read_to_string(&path).unwrap().replacen("\"version\"", "\"vers", 1);
    std::fs::write(&path, text).unwrap();
    let error = Journal::resume(dir.path(), &manifest()).unwrap_err();
    assert!(matches!(error, JournalError::Damaged { line: 1, .. }), "{error}");
}

/// Lines are read by row: the error is that of a reader from the first line on, also of a record that a later one replaces.
#[test]
fn of_several_damaged_lines_the_first_is_named() {
    let dir = tempfile::tempdir().unwrap();
    drop(Journal::create(dir.path(), &manifest()).unwrap());
    let rows = (0..10).rev().chain([4]);
    let lines: Vec<String> = rows.map(|row| serde_json::to_string(&record(row, 1.0)).unwrap()).collect();
    for (damaged, first) in [(vec![5], 6), (vec![8, 3], 4), (vec![10, 0], 1), (vec![9], 10)] {
        let mut lines = lines.clone();
        damaged
            .iter()
            .for_each(|line: &usize| lines[*line] = lines[*line].replacen("\"score\"", "\"scor\"", 1));
        std::fs::write(dir.path().join(JOURNAL), lines.join("\n") + "\n").unwrap();
        let error = journal::read(dir.path()).unwrap_err();
        assert!(matches!(error, JournalError::Damaged { line, .. } if line == first), "{damaged:?}: {error}");
    }
}

#[test]
fn a_second_writer_of_a_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::create(dir.path(), &manifest()).unwrap();
    assert!(matches!(Journal::resume(dir.path(), &manifest()), Err(JournalError::Locked { .. })));
    drop(journal);
    assert!(matches!(Journal::create(dir.path(), &manifest()), Err(JournalError::Exists { .. })));
    let mut other = manifest();
    other.plan.nframes = 16;
    other.backend.model = "n".into();
    let error = Journal::resume(dir.path(), &other).unwrap_err().to_string();
    assert!(error.contains("nframes was 4, now 16") && error.contains("model was m, now n"), "{error}");
}

#[test]
fn records_are_not_appended_behind_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = dir.path().join("theirs");
    let run = dir.path().join("run");
    std::fs::create_dir(&run).unwrap();
    std::os::unix::fs::symlink(&theirs, run.join("journal.jsonl")).unwrap();
    for (there, refused) in [(false, "a link, not a regular file"), (true, "holds journal.jsonl of a run")] {
        let error = Journal::create(&run, &manifest()).unwrap_err().to_string();
        assert!(error.contains(refused), "{error}");
        assert_eq!(theirs.exists(), there);
        std::fs::write(&theirs, "theirs").unwrap();
    }
}

/// A journal on a device that is always full: nothing is lost, and the message says what to do.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_that_loses_no_record() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(Path::new("/dev/full"), dir.path().join(JOURNAL)).unwrap();
    let mut journal = Journal::create(dir.path(), &manifest()).unwrap();
    let error = journal.append(&[record(0, 1.0)]).unwrap_err().to_string();
    assert!(error.contains("disk is full") && error.contains("finished sample is safe"), "{error}");
}

/// A complete last line, whatever stands in it, is never cut off.
#[test]
fn a_complete_line_is_damage_by_name_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    drop(Journal::create(dir.path(), &manifest()).unwrap());
    let path = dir.path().join(JOURNAL);
    let good = serde_json::to_string(&record(0, 1.0)).unwrap();
    for last in ["{\"version\": 2, \"half\": ", "", "\0\0\0", "null", "{\"version\": 0}"] {
        let whole = format!("{good}\n{last}\n");
        std::fs::write(&path, &whole).unwrap();
        let error = Journal::resume(dir.path(), &manifest()).unwrap_err();
        assert!(
            matches!(error, JournalError::Damaged { line: 2, .. } | JournalError::Version { .. }),
            "{last:?}: {error}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole, "{last:?}");
    }
}

/// A record of a newer version is neither damage nor torn, whatever its shape.
#[test]
fn newer_versions_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    drop(Journal::create(dir.path(), &manifest()).unwrap());
    let path = dir.path().join(JOURNAL);
    let mut same_shape = record(0, 1.0);
    same_shape.version = RECORD_VERSION + 1;
    for line in [serde_json::to_string(&same_shape).unwrap(), r#"{"uid": 3, "version": 99}"#.into()] {
        std::fs::write(&path, format!("{line}\n")).unwrap();
        let error = journal::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("written by a newer version of paravt-bench (format"), "{error}");
        assert!(error.contains(&format!("reads up to {RECORD_VERSION})")), "{error}");
        assert!(Journal::resume(dir.path(), &manifest()).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{line}\n"), "nothing is cut off");
    }
    let manifest_path = dir.path().join(journal::MANIFEST);
    std::fs::write(&manifest_path, r#"{"version": 99, "shape": "another"}"#).unwrap();
    let error = journal::read_manifest(dir.path()).unwrap_err().to_string();
    assert!(error.contains("newer version") && error.contains("format 99"), "{error}");
}

#[test]
fn unknown_fields_are_tolerated_everywhere() {
    fn with_more(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(fields) => {
                fields.values_mut().for_each(with_more);
                fields.insert("a_field_of_tomorrow".into(), 1.into());
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(with_more),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(record(0, 1.0)).unwrap();
    value["sample"]["tags"] = serde_json::Value::Null;
    with_more(&mut value);
    value["sample"]["tags"] = serde_json::json!({});
    let read: Record = serde_json::from_value(value).unwrap();
    assert_eq!(read, record(0, 1.0));
}

#[test]
fn a_damaged_manifest_is_not_called_a_journal() {
    let dir = tempfile::tempdir().unwrap();
    drop(Journal::create(dir.path(), &manifest()).unwrap());
    for text in ["", "{}", "{\"version\": 1}", "not JSON"] {
        std::fs::write(dir.path().join(journal::MANIFEST), text).unwrap();
        let error = Journal::resume(dir.path(), &manifest()).unwrap_err();
        assert!(matches!(error, JournalError::BadManifest { .. }), "{error}");
        let message = error.to_string();
        assert!(
            message.contains("manifest.json: damaged") && !message.contains("remove the line"),
            "{message}"
        );
    }
}

#[test]
fn everything_that_can_change_an_answer_keeps_a_run_from_being_continued() {
    let mut ours = manifest();
    ours.backend.details = BTreeMap::from([
        ("dtype".into(), "f32".into()),
        ("weights".into(), "aaaa".into()),
        ("base_urls".into(), "http://a/v1".into()),
        ("cache_tokens".into(), "100".into()),
    ]);
    ours.inputs = Inputs { samples: "s".into(), ..Inputs::default() };
    ours.constants = BTreeMap::from([("jpeg_quality".into(), "85".into())]);
    type Change = fn(&mut Manifest);
    let refused: [(&str, Change); 10] = [
        ("dtype was f32, now bf16", |m| {
            m.backend.details.insert("dtype".into(), "bf16".into()).map_or((), drop)
        }),
        ("weights was aaaa, now bbbb", |m| {
            m.backend.details.insert("weights".into(), "bbbb".into()).map_or((), drop)
        }),
        ("sampler was not set, now new", |m| {
            m.backend.details.insert("sampler".into(), "new".into()).map_or((), drop)
        }),
        ("dtype was f32, now not set", |m| m.backend.details.remove("dtype").map_or((), drop)),
        ("samples was s, now t", |m| m.inputs.samples = "t".into()),
        ("constants.jpeg_quality was 85, now 90", |m| {
            m.constants.insert("jpeg_quality".into(), "90".into()).map_or((), drop)
        }),
        ("switches.frame_loss_is_error was true, now false", |m| {
            m.plan.rules.switch(|switches| switches.frame_loss_is_error = false);
        }),
        ("data.rows.parquet was d, now e", |m| {
            m.data.insert("rows.parquet".into(), "e".into()).map_or((), drop)
        }),
        ("selection.limit was not set, now 2", |m| m.selection.limit = Some(2)),
        ("seed was not set, now 1", |m| m.plan.seed = Some(1)),
    ];
    for (said, change) in refused {
        let mut wanted = ours.clone();
        change(&mut wanted);
        assert_eq!(ours.differences(&wanted), [said]);
    }
    let mut moved = ours.clone();
    moved.backend.details.insert("base_urls".into(), "http://b/v1".into());
    moved.backend.details.insert("cache_tokens".into(), "7".into());
    moved.binary = "another".into();
    moved.label = Some("a new name".into());
    moved.host.cores = 99;
    moved.host.gpus = Some(2);
    assert_eq!(ours.differences(&moved), Vec::<String>::new());
    ours.continue_with(&moved);
    assert_eq!(ours.backend.details["base_urls"], "http://a/v1 http://b/v1");
    assert_eq!(
        (ours.label.as_deref(), &ours.continued_by),
        (Some("a new name"), &vec!["another".to_owned()])
    );
    assert_eq!(ours.host.gpus, Some(2));
    let before = ours.clone();
    moved.host.gpus = None;
    ours.continue_with(&Manifest { label: None, ..moved });
    assert_eq!(ours, before, "continued the same way once more, without a label and GPUs");
}

#[test]
fn files_of_a_run_without_its_manifest_are_not_continued() {
    for file in [JOURNAL, journal::SUMMARY, journal::PROTOCOL] {
        let dir = tempfile::tempdir().unwrap();
        // What a killed start leaves is no run yet.
        std::fs::write(dir.path().join(JOURNAL), "").unwrap();
        std::fs::write(dir.path().join(file), "mine\n").unwrap();
        let error = Journal::create(dir.path(), &manifest()).unwrap_err();
        assert!(matches!(error, JournalError::Orphan { .. }), "{error}");
        assert!(error.to_string().contains(&format!("holds {file} of a run")), "{error}");
        assert_eq!(std::fs::read(dir.path().join(file)).unwrap(), b"mine\n");
        assert!(!dir.path().join(journal::MANIFEST).exists());
        std::fs::write(dir.path().join(file), "").unwrap();
        drop(Journal::create(dir.path(), &manifest()).unwrap());
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(std::process::Command::new("mkfifo").arg(dir.path().join(JOURNAL)).status().unwrap().success());
    let error = Journal::create(dir.path(), &manifest()).unwrap_err().to_string();
    assert!(error.contains("a pipe, not a regular file"), "{error}");
}

#[test]
fn a_journal_beside_the_manifest_of_another_run_is_refused() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for dir in &dirs {
        Journal::create(dir.path(), &manifest()).unwrap().append(&[record(0, 1.0)]).unwrap();
        assert!(journal::read_run(dir.path()).is_ok());
    }
    std::fs::copy(dirs[0].path().join(JOURNAL), dirs[1].path().join(JOURNAL)).unwrap();
    let error = Journal::resume(dirs[1].path(), &manifest()).unwrap_err().to_string();
    assert!(error.contains("another run recorded it"), "{error}");
    // A run of an earlier version names itself nowhere.
    let old = journal::read_manifest(dirs[1].path()).unwrap();
    let old = serde_json::to_vec(&Manifest { id: None, ..old }).unwrap();
    std::fs::write(dirs[1].path().join(journal::MANIFEST), old).unwrap();
    assert!(Journal::resume(dirs[1].path(), &manifest()).is_ok());
}

#[test]
fn a_run_whose_folder_is_moved_away_writes_into_no_other() {
    let root = tempfile::tempdir().unwrap();
    let (dir, moved) = (root.path().join("run"), root.path().join("moved"));
    let mut first = Journal::create(&dir, &manifest()).unwrap();
    first.append(&[record(0, 1.0)]).unwrap();
    paravt_files::rename(&dir, &moved).unwrap();
    let mut second = Journal::create(&dir, &manifest()).unwrap();
    second.append(&[record(1, 0.0)]).unwrap();
    let before = std::fs::read(dir.join(journal::MANIFEST)).unwrap();
    for error in
        [first.append(&[record(2, 1.0)]).unwrap_err(), first.write_manifest(&manifest()).unwrap_err()]
    {
        assert!(matches!(error, JournalError::Moved { .. }), "{error}");
    }
    assert_eq!((read(&moved), read(&dir)), (vec![record(0, 1.0)], vec![record(1, 0.0)]));
    assert_eq!(std::fs::read(dir.join(journal::MANIFEST)).unwrap(), before);
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(matches!(second.append(&[record(2, 1.0)]), Err(JournalError::Moved { .. })));
}

#[test]
fn records_of_another_run_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Journal::create(dir.path(), &manifest()).unwrap());
    let run = journal::read_manifest(dir.path()).unwrap().id;
    let of_run = |row| {
        let record = record(row, 1.0);
        Record { measured: Measured { run: run.clone(), ..record.measured.clone() }, ..record }
    };
    let good = of_run(1);
    for (change, said) in [
        (
            (|r| r.protocol = "other".into()) as fn(&mut Record),
            "recorded under protocol other, the run is of native (p)",
        ),
        (|r| r.profile = Profile::Paper, "recorded under profile paper, the run is of strict"),
        (|r| r.sample.task = "mlvu".into(), "it belongs to split mlvu, the run to made_up"),
        (|r| r.score.value = 5.0, "score 5 is not between 0 and 1"),
        (|r| r.measured.run = None, "another run recorded it"),
        (|r| r.score.value = -0.5, "score -0.5 is not between 0 and 1"),
    ] {
        let mut foreign = of_run(0);
        change(&mut foreign);
        let lines = [&good, &foreign].map(|record| serde_json::to_string(record).unwrap() + "\n").concat();
        std::fs::write(dir.path().join(JOURNAL), lines).unwrap();
        let error = journal::read_run(dir.path()).unwrap_err().to_string();
        assert!(error.contains("sample q0") && error.contains(said), "{error}");
        assert!(Journal::resume(dir.path(), &manifest()).is_err());
    }
}

/// A resumed run that is killed before the samples of a replaced video are redone still has to redo them.
#[test]
fn a_replaced_video_stays_replaced_until_its_samples_are_redone() {
    let videos = |bytes: u64| BTreeMap::from([("b/v.mp4".to_owned(), bytes)]);
    let inputs = |bytes| Inputs { samples: "s".into(), videos: videos(bytes), ..Inputs::default() };
    let mut stored = Manifest { inputs: inputs(10), ..manifest() };
    let mut wanted = Manifest { inputs: inputs(20), ..manifest() };
    wanted.inputs.videos.insert("b/new.mp4".into(), 5);
    assert_eq!(stored.differences(&wanted), Vec::<String>::new());
    stored.continue_with(&wanted);
    stored.continue_with(&wanted);
    let seen = &mut stored.inputs;
    assert_eq!((seen.videos["b/v.mp4"], seen.replaced["b/v.mp4"], seen.videos["b/new.mp4"]), (10, 20, 5));
    assert_eq!(seen.bytes("b/v.mp4"), Some(20));
    seen.accept_replacements();
    assert_eq!((seen.videos["b/v.mp4"], seen.replaced.len()), (20, 0));
}
