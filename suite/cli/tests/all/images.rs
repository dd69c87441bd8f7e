//! Questions about images: V* with two small pictures, asked directly, by a model that writes code, and refused where a
//! protocol is about videos.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::server::{Script, Server};
use crate::common::{self, bench, ends, ok, python, run_on, run_task, stable_records, store_standin, text};
use crate::fetch::fetch;
use crate::fetch::local::{Faults, TestHub};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use base64::Engine as _;
use image::{ImageBuffer, Rgb};
use paravt_suite::record::{EndReason, Record, RecordedPart, ToolOutcome};
use paravt_upstream::pyvision::{IMAGE, UNSEEN};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

/// Two rows and their pictures, one of them larger than a model is shown.
fn vstar(root: &Path) {
    let folder = root.join("vstar_bench");
    std::fs::create_dir_all(folder.join("direct_attributes")).unwrap();
    let rows = [(0, "B", (300, 200)), (1, "A", (2100, 1400))].map(|(number, label, (width, height))| {
        let picture = ImageBuffer::from_fn(width, height, |x, y| Rgb([(x % 251) as u8, (y % 241) as u8, 90]));
        let name = format!("direct_attributes/sa_{number}.jpg");
        picture.save(folder.join(&name)).unwrap();
        json!({"image": name, "text": "Which?\n(A) red\n(B) blue\nAnswer with a letter.", "category": "direct_attributes",
            "question_id": number.to_string(), "label": label})
    });
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    std::fs::write(folder.join("test_questions.jsonl"), lines.join("\n")).unwrap();
}

fn run(root: &Path, out: &Path, server: &Server, flags: &[&str]) -> Command {
    let mut command = run_on(root, &["vstar"], out, &server.base_url);
    command.args(flags);
    command
}

fn says(answer: &mut Value, text: &str) {
    answer["choices"][0]["message"]["content"] = text.into();
}

fn answers(answer: &mut Value) {
    says(answer, "<answer>B</answer>");
}

#[test]
fn images_are_sent_as_they_lie_and_asked_by_a_protocol_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    vstar(dir.path());
    let server = Server::start(Script { rewrite: Some(answers), ..Script::default() });
    let out = dir.path().join("out");
    let said = text(&ok(run(dir.path(), &out, &server, &["--concurrency", "1"])));
    assert!(said.contains("protocol  images, the default"), "{said}");
    assert!(said.contains("frames    the images, as they are"), "{said}");
    let records = stable_records(&out.join("vstar"));
    assert_eq!(records.iter().map(|record| record.score.value).collect::<Vec<_>>(), [1.0, 0.0]);
    assert_eq!(records[0].sample.images, [Path::new("vstar_bench/direct_attributes/sa_0.jpg")]);
    let body = server.latest.lock().unwrap().clone();
    let parts = body["messages"][1]["content"].as_array().unwrap();
    let sent = parts[0]["image_url"]["url"].as_str().unwrap();
    let file = std::fs::read(dir.path().join("vstar_bench/direct_attributes/sa_1.jpg")).unwrap();
    assert_eq!(sent.len(), "data:image/jpeg;base64,".len() + file.len().div_ceil(3) * 4, "the file itself");
    let question = parts[1]["text"].as_str().unwrap();
    assert!(question.starts_with("Which?\n(A) red\n(B) blue\nAnswer with a letter.\n"), "{question}");

    let small = dir.path().join("small");
    ok(run(dir.path(), &small, &server, &["--max-image-kb", "150", "--concurrency", "1"]));
    let body = server.latest.lock().unwrap().clone();
    let sent = body["messages"][1]["content"][0]["image_url"]["url"].as_str().unwrap().len();
    assert!(sent < 150_000 / 3 * 4 + 30 && sent < file.len(), "{sent}");

    ends(0, run(dir.path(), &dir.path().join("dry"), &server, &["--dry-run"]), &["2 samples"]);
    let checked =
        bench().args(["data", "check", "vstar", "--decode", "--data"]).arg(dir.path()).output().unwrap();
    let checked = text(&checked);
    assert!(checked.contains("2 of 191"), "{checked}");
}

#[test]
fn protocols_and_splits_of_other_media_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    vstar(dir.path());
    let server = Server::start(Script::default());
    let out = dir.path().join("out");
    let refused = |flags: &[&str], words: &str| {
        ends(2, run(dir.path(), &out, &server, flags), &[words]);
    };
    refused(&["--protocol", "native"], "use --protocol images");
    refused(&["--channel", "video"], "--channel");
    let mut film = common::run(&["mmvu"], &out, &server.base_url);
    ends(2, film.args(["--protocol", "images"]), &["use --protocol native"]);
}

/// Prints the size, shows a part, then answers.
fn looks(answer: &mut Value) {
    let turn = answer["usage"]["prompt_tokens"].as_u64().unwrap() / 2;
    let text = match turn {
        0 => "<code>\n```python\nprint(image_clue_0.size, image_clue_0.mode)\n```\n",
        1 => "<code>\n```python\nplt.imshow(image_clue_0.crop((0, 0, 50, 50)))\nplt.show()\nprint(1)\n```\n",
        _ => "<answer>\n\\boxed{B}\n</answer>",
    };
    says(answer, text);
}

fn looks_at_the_hint(answer: &mut Value) {
    looks(answer);
    let text =
        answer["choices"][0]["message"]["content"].as_str().unwrap().replace("image_clue", "image_hint");
    says(answer, &text);
}

/// The parts of a message, an image as its size.
fn parts(record: &Record, index: usize) -> String {
    let parts = record.transcript.messages[index].parts.iter().map(|part| match part {
        RecordedPart::Text { text } => text.clone(),
        RecordedPart::Image { width, height, .. } => format!("[{width}x{height}]"),
        other => panic!("{other:?}"),
    });
    parts.collect()
}

fn episodes(protocol: &str, rewrite: fn(&mut Value)) -> Vec<Record> {
    let dir = tempfile::tempdir().unwrap();
    vstar(dir.path());
    let (cache, out) = (dir.path().join("cache"), dir.path().join("out"));
    store_standin(protocol, &cache);
    let server = Server::start(Script { rewrite: Some(rewrite), ..Script::default() });
    let mut command = run(dir.path(), &out, &server, &["--protocol", protocol]);
    ok(command.env("PARAVT_BENCH_CACHE", &cache).arg("--code-python").arg(python()));
    let records = stable_records(&out.join("vstar"));
    assert_eq!(records.iter().map(|record| record.score.value).collect::<Vec<_>>(), [1.0, 0.0]);
    for record in &records {
        let episode = record.transcript.episode.as_ref().unwrap();
        assert_eq!((episode.end, episode.figures), (EndReason::Done, 1));
        let ran = |call: &paravt_suite::record::ToolCall| matches!(call.outcome, ToolOutcome::Ran { .. });
        assert!(record.transcript.tool_calls.iter().all(ran));
    }
    records
}

#[test]
#[ignore = "needs bubblewrap and the Python of ci/setup"]
fn code_has_the_image_and_the_model_is_shown_it() {
    let records = episodes(IMAGE.name, looks);
    let question = "Which?\n(A) red\n(B) blue\nAnswer with a letter.\nEnd with \\boxed{}\n";
    // Sides in steps of 28 pixels, at most two million pixels.
    let [small, large] = ["[308x196]", "[1708x1148]"];
    assert_eq!(
        parts(&records[0], 0),
        format!("<image_clue_0>{small}</image_clue_0>\nWrite code.\n300x200\n{question}")
    );
    assert!(parts(&records[1], 0).starts_with(&format!("<image_clue_0>{large}</image_clue_0>\n")));
    assert_eq!(
        parts(&records[0], 2),
        "<tool_response>\n<interpreter>\nPrinted:\n(300, 200) RGB</interpreter></tool_response>"
    );
    assert_eq!(
        parts(&records[0], 4),
        "<tool_response>\n<interpreter>Printed:\n1\nShown:\n<image_clue_1>[640x480]</image_clue_1></interpreter></tool_response>"
    );
}

#[test]
#[ignore = "needs bubblewrap and the Python of ci/setup"]
fn an_image_that_the_model_is_not_shown_is_a_hint_of_its_code() {
    let records = episodes(UNSEEN.name, looks_at_the_hint);
    assert!(parts(&records[1], 0).starts_with("Write code.\nSize: 2100x1400\nWhich?"));
    assert_eq!(
        parts(&records[1], 4),
        "<tool_response>\n<interpreter>\nPrinted:\n1\nShown:\n<image_clue_0>[640x480]</image_clue_0></interpreter></tool_response>"
    );
}

/// Doubtful items of a task file: counted by `data check`, in the manifest, and left out of a second mean.
#[test]
fn a_report_has_a_second_mean_without_doubtful_items() {
    let dir = tempfile::tempdir().unwrap();
    let picture = ImageBuffer::from_pixel(60, 40, Rgb([9u8, 9, 9]));
    let row = |number: usize, answer: &str| {
        picture.save(dir.path().join(format!("{number}.png"))).unwrap();
        json!({"id": number.to_string(), "image": format!("{number}.png"), "question": "Which?", "options": ["x", "y"],
            "answer": answer})
    };
    let rows: Vec<Value> =
        ["B", "B", "A", "B", "A"].into_iter().enumerate().map(|(n, gold)| row(n, gold)).collect();
    std::fs::write(dir.path().join("rows.json"), Value::from(rows).to_string()).unwrap();
    let task = dir.path().join("task.toml");
    let text_of = "name = \"own\"\nlayout = { annotations = [\"rows.json\"], videos = [\".\"] }\n\
                   [[doubtful]]\nuids = [\"2\", \"9\"]\nreason = \"both are right\"\nsource = \"our own look\"\n\
                   [row]\nkind = \"choice\"\nid = \"id\"\nimages = [\"image\"]\nquestion = \"question\"\n\
                   options = \"options\"\nanswer = \"answer\"\n";
    std::fs::write(&task, text_of).unwrap();
    let checked = text(&bench().args(["data", "check", "-v", "--task"]).arg(&task).output().unwrap());
    assert!(checked.contains("1 row of 2 named doubted by others"), "{checked}");
    assert!(checked.contains("2, 9: both are right (our own look)"), "{checked}");
    let server = Server::start(Script { rewrite: Some(answers), ..Script::default() });
    let out = dir.path().join("out");
    ok(run_task(&task, &out, &server.base_url));
    ends(0, bench().arg("report").arg(&out), &["own: 75.0 without 1 of 5, +15.00"]);
    let json: Value =
        serde_json::from_slice(&ok(bench().args(["report", "--json"]).arg(&out)).stdout).unwrap();
    let second = &json["errata"][0];
    assert_eq!((&second["n"], &second["doubtful"]), (&json!(5), &json!(1)));
    assert!((second["change"].as_f64().unwrap() - 0.15).abs() < 1e-12, "{second}");
    // A probe that changes frames has none here; one that takes the images away has.
    let probed = |probe: &str| {
        let mut command = run_task(&task, &dir.path().join(probe), &server.base_url);
        command.args(["--probe", probe]);
        command
    };
    ends(2, probed("freeze"), &[]);
    for probe in ["blind", "shuffle:1"] {
        ok(probed(probe));
    }
}

/// HR-Bench as it is published: a parquet file with its pictures in base64, each of them four times.
fn hrbench() -> Vec<u8> {
    let pictures = [(90, "jpg"), (120, "png")].map(|(blue, ending)| {
        let picture = ImageBuffer::from_fn(1500, 900, |x, y| Rgb([(x % 251) as u8, (y % 241) as u8, blue]));
        let (dir, name) = (tempfile::tempdir().unwrap(), format!("picture.{ending}"));
        picture.save(dir.path().join(&name)).unwrap();
        base64::engine::general_purpose::STANDARD.encode(std::fs::read(dir.path().join(&name)).unwrap())
    });
    let rows = |cell: &dyn Fn(usize) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values((0..8).map(cell)))
    };
    let options = |letter: usize| rows(&move |row| format!("option {}", (letter + row / 2) % 4));
    let columns = [
        ("index", Arc::new(Int64Array::from_iter_values(0..8)) as ArrayRef),
        ("question", rows(&|row| format!("What is number {}?", row % 2))),
        ("answer", rows(&|row| ["A", "D", "C", "B"][row / 2].to_owned())),
        ("category", rows(&|row| ["single", "cross"][row % 2].to_owned())),
        ("A", options(0)),
        ("B", options(1)),
        ("C", options(2)),
        ("D", options(3)),
        ("cycle_category", rows(&|row| (row / 2).to_string())),
        ("image", rows(&|row| pictures[row % 2].clone())),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn pictures_in_a_column_are_fetched_once_and_asked() {
    let rows = hrbench();
    let hub = TestHub::start_as("DreamMr/HR-Bench", &[("hr_bench_4k.parquet", rows)], Faults::default());
    let dir = tempfile::tempdir().unwrap();
    let said = text(&fetch(&hub, dir.path(), &["hrbench_4k"]).output().unwrap());
    assert!(said.contains("2 members"), "{said}");
    assert_eq!(hub.served.reads.load(Ordering::SeqCst), 1, "rows and pictures are one download");
    let folder = dir.path().join("hrbench/hr_bench_4k");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| {
        image::open(path).is_ok_and(|picture| (picture.width(), picture.height()) == (1500, 900))
    });
    assert_eq!(files.len(), 2);

    let server = Server::start(Script { rewrite: Some(answers), ..Script::default() });
    let out = dir.path().join("out");
    let mut command = run_on(dir.path(), &["hrbench_4k"], &out, &server.base_url);
    ok(command.args(["--concurrency", "1"]));
    let records = stable_records(&out.join("hrbench_4k"));
    // B is right in the last order alone.
    assert_eq!(records.iter().map(|record| record.score.value).sum::<f64>(), 2.0);
    let videos: std::collections::BTreeSet<_> = records.iter().map(|record| &record.sample.video).collect();
    assert_eq!((records.len(), videos.len()), (8, 2), "the four orders of a question are one cluster");
    assert_eq!(records[0].sample.tags["cycle"], ["0"]);
}
