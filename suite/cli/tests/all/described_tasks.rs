//! Benchmarks whose rows a table of their description maps: from published files to report.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use paravt_reports::decide::Effect;
use paravt_reports::statistics::Cluster;
use paravt_suite::record::{Outcome, Record};
use paravt_suite::summary::Summary;
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use crate::common::server::{Script, Server};
use crate::common::{bench, ok, run_on, stable_records, text, world};

fn texts<T: AsRef<str>>(values: &[T]) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values.iter().map(AsRef::as_ref)))
}

fn write(root: &Path, file: &str, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(place(root, file)).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn place(root: &Path, file: &str) -> PathBuf {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

/// A generated video under each of these names.
fn videos(root: &Path, names: &[&str]) {
    for name in names {
        std::fs::copy(world().join("lvbench/nanoLV_0.mp4"), place(root, name)).unwrap();
    }
}

/// What a server that always writes the same makes of a split: summary, records, and the report's text and JSON.
fn run(root: &Path, split: &str, profile: &str, reply: &str) -> (Summary, Vec<Record>, String, Value) {
    let message = json!({"role": "assistant", "content": reply});
    let server = Server::start(Script { choice: [("message", message)].into(), ..Script::default() });
    let out = root.join("out").join(profile);
    let flags = ["--nframes", "4", "--mode", "direct", "--profile", profile];
    ok(run_on(root, &[split], &out, &server.base_url).args(flags));
    let run = out.join(split);
    let summary = paravt_reports::find_runs(std::slice::from_ref(&run)).unwrap()[0].summary().unwrap();
    let report = |json: bool| {
        let mut command = bench();
        command.arg("report").arg(&run);
        ok(command.arg(if json { "--json" } else { "-v" }))
    };
    let parsed = serde_json::from_slice(&report(true).stdout).unwrap();
    (summary, stable_records(&run), text(&report(false)), parsed)
}

const STRUCTURES: [[&str; 2]; 3] =
    [["relevance", "[1, 2, 3, 4]"], ["logic", "[1, [2, 3], 4]"], ["logic", "[1, 2, 3, 4]"]];
/// Golds of the four questions of three videos.
const GOLDS: [[&str; 4]; 3] = [["H", "H", "H", "A"], ["H", "A", "H", "H"], ["A", "H", "H", "H"]];

fn video_mme_v2(root: &Path) {
    let of = |value: fn(usize, usize) -> String| -> Vec<String> {
        (0..3).flat_map(|video| (0..4).map(move |place| value(video, place))).collect()
    };
    let options =
        ["A", "B", "C", "D", "E", "F", "G", "H"].map(|letter| format!("{letter}. {letter}x")).join("\n");
    write(
        root,
        "videomme_v2/test.parquet",
        vec![
            ("video_id", texts(&of(|video, _| format!("00{}", video + 1)))),
            ("question_id", texts(&of(|video, place| format!("00{}-{}", video + 1, place + 1)))),
            ("question", texts(&of(|_, _| "Which?".to_owned()))),
            ("options", texts(&vec![options; 12])),
            ("answer", texts(&of(|video, place| GOLDS[video][place].to_owned()))),
            ("group_type", texts(&of(|video, _| STRUCTURES[video][0].to_owned()))),
            ("group_structure", texts(&of(|video, _| STRUCTURES[video][1].to_owned()))),
            ("level", Arc::new(Int64Array::from_iter_values((0..12).map(|row| 1 + row % 4 % 3)))),
            ("second_head", texts(&of(|video, _| format!("ability {video}")))),
            ("third_head", texts(&of(|_, _| "x".to_owned()))),
        ],
    );
    videos(root, &["videomme_v2/001.mp4", "videomme_v2/002.mp4", "videomme_v2/003.mp4"]);
    let words = "{\"text\": \"hello\", \"start_time\": 0.0}\n\n{\"text\": \"there\", \"start_time\": 0.4}\n";
    std::fs::write(place(root, "videomme_v2/subtitle/001.jsonl"), words).unwrap();
    std::fs::write(place(root, "videomme_v2/subtitle/002.jsonl"), "{\"text\": 3}\n").unwrap();
}

#[test]
fn the_group_score_of_video_mme_v2_is_the_headline_with_an_interval_over_videos() {
    let dir = tempfile::tempdir().unwrap();
    video_mme_v2(dir.path());
    let (summary, records, shown, json) = run(dir.path(), "videomme_v2", "paper", "Answer: H");
    let groups = [0.5625, 100.0 * 4.0 / 12.0 / 100.0, 0.0];
    let expected = groups.iter().sum::<f64>() / 3.0;
    let metric = |name: &str| {
        let metric = summary.metrics.iter().find(|metric| metric.name == name).unwrap();
        (metric.value, metric.n)
    };
    assert_eq!(summary.headline().name, "group score");
    assert_eq!((metric("group score"), metric("accuracy")), ((expected, 3), (0.75, 12)));
    assert_eq!(metric("group score, group_type logic"), (groups[1] / 2.0, 2));
    // The last question of every group is of level 1.
    assert_eq!(metric("group score, level 1"), (expected, 3));
    let level = summary.breakdowns.iter().find(|breakdown| breakdown.tag == "level").unwrap();
    assert_eq!(level.groups.iter().map(|group| group.n).collect::<Vec<_>>(), [6, 3, 3]);
    assert!(records.iter().all(|record| record.score.rule.as_deref() == Some("first_capital")));

    let cell = &json["cells"][0];
    let clusters = groups.map(|sum| Cluster { sum, n: 1 });
    let (low, high) = Effect::share(&clusters).unwrap().interval().unwrap();
    for (found, expected) in [(&cell["interval"][0], low), (&cell["interval"][1], high)] {
        assert!((found.as_f64().unwrap() - expected).abs() < 1e-12, "{found} {expected}");
    }
    assert!(shown.contains("group score 29.9 over N 12"), "{shown}");
    assert!(shown.contains("score: group score; accuracy over samples: 75.0"), "{shown}");
    assert!(shown.contains("group score, group_type logic: 16.7"), "{shown}");

    let (strict, ..) = run(dir.path(), "videomme_v2", "strict", "Hello, the answer is H.");
    assert_eq!(strict.headline().value, expected, "strict reads the letter that is stated");
}

#[test]
fn subtitles_of_words_are_shown_in_order() {
    let dir = tempfile::tempdir().unwrap();
    video_mme_v2(dir.path());
    let (summary, records, ..) = run(dir.path(), "videomme_v2_wsub", "strict", "H");
    let shown = |uid: &str| {
        let record = records.iter().find(|record| record.sample.uid == uid).unwrap();
        record.sample.question.subtitles.clone()
    };
    assert_eq!(
        (shown("001-2").as_deref(), shown("002-1"), shown("003-1")),
        (Some("hello there"), None, None)
    );
    assert_eq!(summary.flags["no_subtitles"], 8);
}

#[test]
fn video_holmes_and_lsdbench_are_read_scored_and_broken_down() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let question = |id: u32, kind: &str, answer: &str| {
        let options = json!({"A": "a lamp", "B": "a dog", "C": "c", "D": "d", "E": "e", "F": "f"});
        json!({"video ID": "v1", "Question ID": id, "Question Type": kind, "Question": "Why?", "Options": options,
            "Answer": answer, "Explanation": "x"})
    };
    let rows = json!([question(1, "TA", "F"), question(2, "SR", "F"), question(3, "SR", "B")]);
    std::fs::write(place(root, "video_holmes/test_Video-Holmes.json"), rows.to_string()).unwrap();
    videos(root, &["video_holmes/videos_cropped/v1.mp4", "lsdbench/u-1.mp4"]);
    let (summary, _, shown, _) = run(root, "video_holmes", "paper", "I am sure: (F)");
    assert_eq!((summary.headline().value, summary.headline().n), (2.0 / 3.0, 3));
    let types: Vec<_> = summary.breakdowns[0].groups.iter().map(|group| (&*group.label, group.n)).collect();
    assert_eq!(types, [("SR", 2), ("TA", 1)], "the order of the official table");
    assert!(shown.contains("Question type"), "{shown}");

    let row = json!({"question": "What?", "options": {"A": "a", "B": "b", "C": "c", "D": "d"}, "correct_answer": "D",
        "video_id": "u-1", "time_range": {"start": "00:00:01", "end": "00:00:03"}});
    std::fs::write(place(root, "lsdbench/mc_qa_annotations_1300.json"), json!([row]).to_string()).unwrap();
    let (summary, records, ..) = run(root, "lsdbench", "release", "A or D?");
    assert_eq!(summary.headline().value, 1.0);
    assert_eq!(records[0].sample.evidence.map(|evidence| evidence.length()), Some(2.0));
}

#[test]
fn a_reply_of_which_lmms_eval_would_draw_a_letter_is_unparsed() {
    let dir = tempfile::tempdir().unwrap();
    let row = json!({"video ID": "v1", "Question ID": 1, "Question Type": "SR", "Question": "Why?", "Answer": "A",
        "Options": {"A": "a", "B": "b", "C": "c", "D": "d", "E": "e", "F": "f"}});
    let file = place(dir.path(), "video_holmes/test_Video-Holmes.json");
    std::fs::write(file, json!([row]).to_string()).unwrap();
    videos(dir.path(), &["video_holmes/videos_cropped/v1.mp4"]);
    let (summary, records, ..) = run(dir.path(), "video_holmes", "paper", "none");
    assert_eq!((summary.n_unparsed, records[0].score.outcome), (1, Outcome::Unparsed));
}

#[test]
fn video_mmmu_has_choices_and_open_questions_in_one_mean() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let mut options = ListBuilder::new(StringBuilder::new());
    for row in [&["A. 7", "B. 12"][..], &["7", "12", "13"], &[]] {
        row.iter().for_each(|option| options.values().append_value(option));
        options.append(true);
    }
    write(
        root,
        "video_mmmu/Adaptation/test-00000-of-00001.parquet",
        vec![
            ("id", texts(&["dev_Math_1", "validation_Finance_2", "new_Math_3"])),
            ("question", texts(&["How many?", "How much?", "How long?"])),
            ("options", Arc::new(options.finish())),
            ("answer", texts(&["B", "A", "12.0"])),
            ("question_type", texts(&["multiple-choice", "multiple-choice", "open"])),
            ("qa_type", texts(&["x", "x", "y"])),
        ],
    );
    videos(root, &["video_mmmu/Science/dev_Math_1.mp4", "video_mmmu/Business/validation_Finance_2.mp4"]);
    videos(root, &["video_mmmu/Science/new_Math_3.mp4"]);
    let (summary, records, shown, _) =
        run(root, "video_mmmu_adaptation", "paper", "So the result is 12 by option B");
    assert_eq!((summary.headline().value, summary.headline().n), (2.0 / 3.0, 3));
    assert!(records.iter().all(|record| record.error.is_none()), "{records:?}");
    let domain = &summary.breakdowns[0].groups;
    assert_eq!(
        domain.iter().map(|group| (&*group.label, group.n)).collect::<Vec<_>>(),
        [("Business", 1), ("Science", 2)]
    );
    assert!(shown.contains("Architecture") || shown.contains("Math"), "{shown}");
}
