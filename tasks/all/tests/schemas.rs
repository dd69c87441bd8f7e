//! Small cuts of every published schema, laid out as the hub does: column names and Arrow types are those of the
//! published files, the contents are made up.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float16Builder, ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field};
use half::f16;
use paravt_nano::{WorldOptions, make_world};
use paravt_suite::data::DataRoot;
use paravt_suite::profile::Profile;
use paravt_suite::task::Task as _;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};

type Columns = Vec<(&'static str, ArrayRef)>;

fn text<const N: usize>(values: [&str; N]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn integers<const N: usize>(values: [i64; N]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn doubles<const N: usize>(values: [f64; N]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

/// Lists as pyarrow writes them: their field is called `element`.
fn text_lists<const N: usize>(rows: [Option<&[&str]>; N]) -> ArrayRef {
    let field = Field::new("element", DataType::Utf8, true);
    let mut builder = ListBuilder::new(StringBuilder::new()).with_field(field);
    for row in rows {
        row.iter().copied().flatten().for_each(|value| builder.values().append_value(value));
        builder.append(row.is_some());
    }
    Arc::new(builder.finish())
}

fn half_lists<const N: usize>(rows: [[f32; 2]; N]) -> ArrayRef {
    let field = Field::new("element", DataType::Float16, true);
    let mut builder = ListBuilder::new(Float16Builder::new()).with_field(field);
    for row in rows {
        row.iter().for_each(|value| builder.values().append_value(f16::from_f32(*value)));
        builder.append(true);
    }
    Arc::new(builder.finish())
}

const VIDEO_MME: &str = "lmms-eval/Video-MME/videomme/test-00000-of-00001.parquet";
const LONG_VIDEO_BENCH: &str = "longvideobench/LongVideoBench/validation-00000-of-00001.parquet";
const LVBENCH: &str = "lmms-eval/LVBench/data/train-00000-of-00001.parquet";
const MLVU: &str = "sy1998/MLVU_dev/mlvu/test-00000-of-00001.parquet";
const CHARADES: &str = "lmms-eval/charades_sta/data/test-00000-of-00001.parquet";
const VSI_BENCH: &str = "nyu-visionx/VSI-Bench/test-00000-of-00001.parquet";
const VIDEO_MME_V2: &str = "MME-Benchmarks/Video-MME-v2/test.parquet";
const VIDEO_MMMU: &str = "lmms-eval/VideoMMMU/Perception/test-00000-of-00001.parquet";
const VIDEO_HOLMES: &str = "TencentARC/Video-Holmes/test_Video-Holmes.json";
const LSDBENCH: &str = "TainU/LSDBench/mc_qa_annotations_1300.json";
const TIMESCOPE: &str = "Apollo-LMMs/TimeScope/data/test-00000-of-00001.parquet";
const MMVU: &str = "yale-nlp/MMVU/validation.json";

fn video_mme() -> Columns {
    vec![
        ("video_id", text(["001", "001"])),
        ("duration", text(["short", "long"])),
        ("domain", text(["Knowledge", "Multilingual"])),
        ("sub_category", text(["Shapes", "Shapes"])),
        ("url", text(["https://example.org/v", "https://example.org/v"])),
        ("videoID", text(["aB-_0", "aB-_0"])),
        ("question_id", text(["001-1", "001-2"])),
        ("task_type", text(["OCR Problems", "Counting Problem"])),
        ("question", text(["Which shape?", "¿Qué color?\nNow.\u{a0}"])),
        (
            "options",
            text_lists([
                Some(&["A. A.", "B. disc", "C. D", "D. ring"]),
                Some(&["A. red", "B. blue", "C. red", "D. green"]),
            ]),
        ),
        ("answer", text(["D", "C"])),
    ]
}

fn long_video_bench() -> Columns {
    vec![
        ("video_id", text(["v1", "v1"])),
        ("id", text(["v1_0", "v1_1"])),
        ("video_path", text(["v1.mp4", "v1.mp4"])),
        ("subtitle_path", text(["v1_en.json", "v1_en.json"])),
        ("correct_choice", integers([4, 0])),
        ("question", text(["Who enters?", "Who leaves?"])),
        ("option0", text(["a disc", "a\nring"])),
        ("option1", text(["a ring", "a disc"])),
        ("option2", text(["a cube", "a cube"])),
        ("option3", text(["a cone", "N/A"])),
        ("option4", text(["a star", "N/A"])),
        ("duration", doubles([8.5, 8.5])),
        ("duration_group", integers([60, 60])),
        ("question_category", text(["S2O", "TOS"])),
        ("topic_category", text(["T", "T"])),
        ("starting_timestamp_for_subtitles", doubles([0.0, 3.5])),
    ]
}

fn lvbench() -> Columns {
    vec![
        ("key", text(["k1", "k1", "k1"])),
        ("video_path", text(["k1.mp4", "k1.mp4", "k1.mp4"])),
        ("type", text(["tv", "tv", "live"])),
        ("uid", text(["7", "8", "9"])),
        (
            "question",
            text([
                "Who?\n(A) disc\n(B) ring\n(C) cube\n(D) cone",
                "Where?\n(A) left\n(B) right\n(C) left\n(D) up",
                "When?\n(A) 1\n(B) 2\n(C) 3\n(D) 4",
            ]),
        ),
        ("answer", text(["D", "A", "B"])),
        (
            "question_type",
            text_lists([
                Some(&["entity recognition", "reasoning"]),
                Some(&["reasoning"]),
                Some(&["summarization"]),
            ]),
        ),
        ("time_reference", text(["01:10-01:00:20", "03:00-02:00", "None-None"])),
    ]
}

fn mlvu() -> Columns {
    vec![
        ("video_name", text(["a_1.mp4", "b_2.mp4"])),
        ("duration", doubles([480.25, 32550.13])),
        ("question", text(["Which?\n(A) 1\n(B) 2\n(C) 1\n(D) \n", "How?\n(A) x\n(B) y\n(C) z\n(D) w\n"])),
        ("candidates", text_lists([Some(&["1", "2", "1", ""]), Some(&["x", "y", "z", "w"])])),
        ("answer", text(["A", "D"])),
        ("task_type", text(["count", "plotQA"])),
        ("question_id", text(["Q0", "Q1"])),
    ]
}

fn charades() -> Columns {
    vec![
        ("video", text(["X1.mp4", "X1.mp4"])),
        ("caption", text(["a disc turns.", "a ring rolls."])),
        ("timestamp", half_lists([[24.3, 30.4], [0.0, 6.9]])),
    ]
}

fn vsi_bench() -> Columns {
    vec![
        ("id", integers([0, 1])),
        ("dataset", text(["scannet", "arkitscenes"])),
        ("scene_name", text(["scene0_00", "410"])),
        ("question_type", text(["object_rel_distance", "room_size_estimation"])),
        ("question", text(["Which is near?", "How large?"])),
        ("ground_truth", text(["B", "23.4"])),
        ("options", text_lists([Some(&["A. disc", "B. ring", "C. cube"]), None])),
    ]
}

fn video_mme_v2() -> Columns {
    let options = "A. one\nB. two\nC. 3\nD. 4\nE. 5\nF. 6\nG. 7\nH. 8";
    vec![
        ("video_id", text(["001", "001"])),
        ("question_id", text(["001-1", "001-2"])),
        ("question", text(["Which?", "Why?"])),
        ("options", text([options, options])),
        ("answer", text(["H", "A"])),
        ("group_type", text(["logic", "logic"])),
        ("group_structure", text(["[1, [2, 3], 4]", "[1, [2, 3], 4]"])),
        ("level", integers([1, 3])),
        ("second_head", text(["x", "y"])),
        ("third_head", text(["x", "y"])),
    ]
}

fn video_mmmu() -> Columns {
    vec![
        ("id", text(["dev_Music_1", "new_Public_Health_2"])),
        ("question", text(["What?", "How many?"])),
        ("options", text_lists([Some(&["A. disc", "B. ring"]), Some(&["1", "2", "3"])])),
        ("answer", text(["B", "C"])),
        ("question_type", text(["multiple-choice", "multiple-choice"])),
        ("qa_type", text(["OCR", "ASR"])),
        ("link_selected", text(["https://example.org/v", "https://example.org/v"])),
    ]
}

fn video_holmes() -> Value {
    json!([{
        "video ID": "v1", "Question ID": 1, "Question Type": "SR", "Question": "Who?",
        "Options": {"A": "a", "B": "b", "C": "c", "D": "d", "E": "e", "F": "f"}, "Answer": "E", "Explanation": "x",
    }])
}

fn lsdbench() -> Value {
    json!([{
        "question": "What?", "options": {"A": "a", "B": "b", "C": "c", "D": "d"}, "correct_answer": "D",
        "original_question": "x", "original_answer": "x", "segment": "x", "video_id": "u-1",
        "time_range": {"start": "00:10:00", "end": "00:11:00"},
    }])
}

fn mmvu() -> Value {
    let row = |id: usize, question_type: &str, choices: [&str; 5], answer: &str| {
        let [a, b, c, d, e] = choices;
        json!({
            "id": format!("validation_{id}"),
            "video": format!("https://huggingface.co/datasets/yale-nlp/MMVU/resolve/main/videos/Art/{id}.mp4"),
            "youtube_url": "https://example.org/v",
            "question_type": question_type,
            "metadata": {"subject": "Art", "textbook": "", "rationale": "", "knowledge": ["x"]},
            "question": "Which?",
            "choices": {"A": a, "B": b, "C": c, "D": d, "E": e},
            "answer": answer,
        })
    };
    json!([
        row(0, "multiple-choice", ["1", "2", "3", "4", "5"], "E"),
        row(1, "open-ended", [""; 5], "a long ring ")
    ])
}

/// Made of the columns that lmms-eval reads and the form of a prompt that was published.
fn timescope() -> Columns {
    let how = "Answer the question based on the given video. Only give me the answer.";
    let input = [
        format!(
            "{how}\n\nQuestion: What leaves the box?\nA: a kite\nB: a drone\nC: both: A and B\nD: none\nE: a dog\nF: a cat\n"
        ),
        format!("{how}\nQuestion: Which words, in order?\nA: one\nB: two"),
    ];
    vec![
        ("id", integers([0, 0])),
        ("video", text(["60/a.mp4", "28800/b.mp4"])),
        ("length", integers([60, 28800])),
        ("type", text(["QA", "OCR"])),
        ("input", text([&input[0], &input[1]])),
        ("answer", text(["C", "B"])),
    ]
}

fn parquet_files() -> [(&'static str, Columns); 9] {
    [
        (VIDEO_MME_V2, video_mme_v2()),
        (VIDEO_MMMU, video_mmmu()),
        (VIDEO_MME, video_mme()),
        (LONG_VIDEO_BENCH, long_video_bench()),
        (LVBENCH, lvbench()),
        (MLVU, mlvu()),
        (CHARADES, charades()),
        (VSI_BENCH, vsi_bench()),
        (TIMESCOPE, timescope()),
    ]
}

/// `OWNER/NAME/FILE` in the hub's cache below a root.
fn in_cache(root: &Path, file: &str) -> std::path::PathBuf {
    let mut parts = file.splitn(3, '/');
    let [owner, name, file] = std::array::from_fn(|_| parts.next().unwrap());
    root.join(format!("hub/datasets--{owner}--{name}/snapshots")).join("0".repeat(40)).join(file)
}

/// Writes all cuts below a root.
fn lay_out(root: &Path) {
    let create = |file: &str| {
        let path = in_cache(root, file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(path).unwrap()
    };
    for (file, columns) in parquet_files() {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer = ArrowWriter::try_new(create(file), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }
    for (file, rows) in [(MMVU, mmvu()), (VIDEO_HOLMES, video_holmes()), (LSDBENCH, lsdbench())] {
        serde_json::to_writer(create(file), &rows).unwrap();
    }
}

/// A sample as it is to be read: uid, gold, letters, flags.
type Expected<'a> = (&'a str, &'a str, &'a str, &'a [&'a str]);

#[test]
fn every_published_schema_is_read() {
    let root = tempfile::tempdir().unwrap();
    lay_out(root.path());
    let twice = "gold_text_twice";
    let expected: [(&str, &[Expected]); 13] = [
        ("videomme", &[("001-1", "D", "ABCD", &[]), ("001-2", "C", "ABCD", &[twice])]),
        (
            "videomme_wsub",
            &[("001-1", "D", "ABCD", &["no_subtitles"]), ("001-2", "C", "ABCD", &[twice, "no_subtitles"])],
        ),
        ("longvideobench", &[("v1_0", "E", "ABCDE", &[]), ("v1_1", "A", "ABC", &[])]),
        (
            "lvbench",
            &[
                ("7", "D", "ABCD", &[]),
                ("8", "A", "ABCD", &["reversed_evidence", twice]),
                ("9", "B", "ABCD", &[]),
            ],
        ),
        ("mlvu", &[("Q0", "A", "ABCD", &["empty_option", twice]), ("Q1", "D", "ABCD", &[])]),
        ("mmvu", &[("validation_0", "E", "ABCDE", &[]), ("validation_1", "a long ring", "", &[])]),
        // Half floats.
        ("charades", &[("0", "24.296875-30.40625", "", &["prompt_example"]), ("1", "0-6.8984375", "", &[])]),
        ("vsibench", &[("0", "B", "ABC", &[]), ("1", "23.4", "", &[])]),
        ("video_holmes", &[("v1.1", "E", "ABCDEF", &[])]),
        ("lsdbench", &[("0", "D", "ABCD", &[])]),
        ("timescope", &[("60/QA/0", "C", "ABCDEF", &[]), ("28800/OCR/0", "B", "AB", &[])]),
        ("videomme_v2", &[("001-1", "H", "ABCDEFGH", &[]), ("001-2", "A", "ABCDEFGH", &[])]),
        (
            "video_mmmu_perception",
            &[("dev_Music_1", "B", "AB", &[]), ("new_Public_Health_2", "C", "ABC", &[])],
        ),
    ];
    for (name, rows) in expected {
        let task = paravt_tasks::named(name).unwrap();
        let samples = task.load(&DataRoot::new(root.path()), Profile::Strict).unwrap().samples;
        let found: Vec<_> = samples
            .iter()
            .map(|sample| {
                let gold = sample.gold.to_string();
                (sample.uid.clone(), gold, sample.question.letters.clone(), sample.flags.clone())
            })
            .collect();
        let wanted: Vec<_> = rows
            .iter()
            .map(|(uid, gold, letters, flags)| {
                let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
                ((*uid).to_owned(), (*gold).to_owned(), (*letters).to_owned(), flags)
            })
            .collect();
        assert_eq!(found, wanted, "{name}");
    }
}

/// A split with subtitles says before a run that it found none, and what fetches them.
#[test]
fn missing_subtitles_are_a_warning() {
    let root = tempfile::tempdir().unwrap();
    lay_out(root.path());
    let warning = |task: &str| {
        let task = paravt_tasks::named(task).unwrap();
        task.load(&DataRoot::new(root.path()), Profile::Paper).unwrap().warning
    };
    let text = warning("videomme_wsub").unwrap();
    assert!(
        text.starts_with("videomme_wsub: subtitles of 0 videos, published 744: 2 of 2 questions"),
        "{text}"
    );
    assert!(text.contains("paravt-bench data fetch videomme_wsub"), "{text}");
    assert_eq!(warning("videomme"), None);
    let folder = root.path().join("videomme/subtitle");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("aB-_0.srt"), "1\n00:00:01,000 --> 00:00:02,000\nhi\n").unwrap();
    assert_eq!(warning("videomme_wsub"), None, "other rows than the published ones have other subtitles");
}

/// Columns of a parquet file with their types, in order; how a list calls its field is left out.
fn columns_of(path: &Path) -> Vec<(String, String)> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    reader
        .schema()
        .fields()
        .iter()
        .map(|field| (field.name().clone(), type_name(field.data_type())))
        .collect()
}

fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::List(inner) => format!("list of {}", inner.data_type()),
        other => other.to_string(),
    }
}

/// Splits beside the seven of the paper's table.
const NOT_GENERATED: [&str; 4] = [VSI_BENCH, VIDEO_MME_V2, VIDEO_MMMU, TIMESCOPE];

/// The generated world has the published columns, all of them and no others.
#[test]
fn generated_files_have_the_published_columns() {
    let root = tempfile::tempdir().unwrap();
    make_world(root.path(), &WorldOptions { videos: 1, questions: 3, ..WorldOptions::default() }).unwrap();
    for (file, columns) in parquet_files().into_iter().filter(|(file, _)| !NOT_GENERATED.contains(file)) {
        let mut published: Vec<(String, String)> = columns
            .iter()
            .map(|(name, values)| ((*name).to_owned(), type_name(values.data_type())))
            .collect();
        let mut generated = columns_of(&in_cache(root.path(), file));
        published.sort();
        generated.sort();
        assert_eq!(generated, published, "{file}");
    }
    let generated: Value = serde_json::from_reader(File::open(in_cache(root.path(), MMVU)).unwrap()).unwrap();
    let published = mmvu();
    for row in generated.as_array().unwrap() {
        assert_eq!(keys(row), keys(&published[0]));
        assert_eq!(keys(&row["metadata"]), keys(&published[0]["metadata"]));
        assert_eq!(keys(&row["choices"]), keys(&published[0]["choices"]));
    }
}

fn keys(value: &Value) -> Vec<String> {
    let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
    keys.sort();
    keys
}

/// Splits of which no copy of the published options is known.
const NOT_PINNED: [&str; 14] = [
    "video_holmes", "videomme_v2", "videomme_v2_wsub", "video_mmmu_perception", "video_mmmu_comprehension",
    "video_mmmu_adaptation", "vstar", "hrbench_4k", "hrbench_8k", "extremewhen", "timescope",
    "timelens_charades", "timelens_activitynet", "timelens_qvhighlights",
];

/// Every other split's samples are pinned under every profile.
#[test]
fn the_samples_of_every_split_are_pinned() {
    for task in paravt_tasks::all() {
        if NOT_PINNED.contains(&task.spec().name.as_str()) {
            assert!(task.published().samples.is_empty(), "{}", task.spec().name);
            continue;
        }
        for profile in Profile::ALL {
            let pinned = task.published().samples.get(&profile).unwrap();
            let is_sha256 = |hash: &String| hash.len() == 64 && hash.chars().all(|c| c.is_ascii_hexdigit());
            assert!(!pinned.is_empty() && pinned.iter().all(is_sha256), "{}", task.spec().name);
        }
    }
}
