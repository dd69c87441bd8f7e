//! A task of the user's own, without compiling: one TOML file beside rows and videos.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::server::{Script, Server};
use crate::common::{bench, ends, files, ok, run_task, stable_records, world};

const STRICT: [&str; 4] = ["--nframes", "8", "--profile", "strict"];

/// The address of a server that is not asked.
const NOWHERE: &str = "http://localhost:1";

/// A folder with a task of one kind over two videos of the generated world.
fn task(row: &str, rows: &Value) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("clips")).unwrap();
    let videos = files(world()).into_iter().filter(|file| file.extension().is_some_and(|e| e == "mp4"));
    for (video, name) in videos.zip(["a.mp4", "b.mp4"]) {
        std::fs::copy(video, dir.path().join("clips").join(name)).unwrap();
    }
    std::fs::write(dir.path().join("rows.json"), rows.to_string()).unwrap();
    let toml = format!(
        "name = \"mine\"\ntitle = \"My task\"\nlayout = {{ annotations = [\"rows.json\"], videos = [\"clips\"] }}\n\
         breakdowns = [{{ tag = \"place\", title = \"Place\" }}]\n{row}"
    );
    std::fs::write(dir.path().join("mine.toml"), toml).unwrap();
    dir
}

const CHOICE: &str = r#"
[row]
kind = "choice"
id = "qid"
video = "{clip}.mp4"
question = "At {place}: {q}"
options = ["one", "two", "three"]
answer = "right"
answer_is = "index"
tags = { place = "place" }
only = { split = "test" }
"#;

fn choice_rows() -> Value {
    json!([
        {"qid": "x1", "clip": "a", "q": "Who?", "one": "A man", "two": "A dog", "three": null, "right": 1, "place": "home", "split": "test"},
        {"qid": "x2", "clip": "b", "q": "What?", "one": "Red", "two": "Green", "three": "Blue", "right": 2, "place": "sea", "split": "test"},
        {"qid": "x3", "clip": "c", "q": "No?", "one": "Red", "two": "Green", "three": "Blue", "right": 2, "place": "sea", "split": "train"},
    ])
}

#[test]
fn a_choice_task_is_checked_listed_run_and_reported() {
    let dir = task(CHOICE, &choice_rows());
    let (file, out) = (dir.path().join("mine.toml"), dir.path().join("out"));
    let listed = ends(0, bench().args(["tasks", "--task"]).arg(&file), &[]);
    let line = listed.lines().find(|line| line.starts_with("mine ")).unwrap();
    assert!(line.contains("My task") && line.contains("accuracy"), "{line}");
    ends(0, bench().args(["data", "check", "--task"]).arg(&file), &["2/2 rows", "2/2 videos"]);

    let server = Server::start(Script::default());
    ok(run_task(&file, &out, &server.base_url).args(STRICT));
    let records = stable_records(&out.join("mine"));
    let by_id = |id: &str| records.iter().find(|record| record.sample.uid == id).unwrap();
    assert_eq!(records.len(), 2, "the training row does not count");
    let (first, second) = (&by_id("x1").sample, &by_id("x2").sample);
    assert_eq!((&*first.question.stem, &*first.question.letters), ("At home: Who?", "AB"));
    assert_eq!((first.gold.to_string(), second.gold.to_string()), ("B".into(), "C".into()));
    assert_eq!(second.tags["place"], ["sea"]);
    assert!(!first.video.is_absolute() && first.video.ends_with("a.mp4"), "{:?}", first.video);
    ends(0, bench().arg("report").arg(&out), &["My task"]);
    let manifest = std::fs::read_to_string(out.join("mine/manifest.json")).unwrap();
    assert!(!manifest.contains(dir.path().to_str().unwrap()), "no path of the machine");
}

#[test]
fn intervals_texts_and_numbers_are_scored_by_their_kind() {
    let server = Server::start(Script::default());
    for (row, cells, gold, metric) in [
        (
            "kind = \"interval\"\ninterval = [\"from\", \"to\"]",
            json!({"from": "0:02", "to": 4.5}),
            "2-4.5",
            "mIoU",
        ),
        ("kind = \"interval\"\ninterval = \"span\"", json!({"span": [1, 3]}), "1-3", "mIoU"),
        ("kind = \"text\"\nanswer = \"a\"", json!({"a": "A dog"}), "A dog", "accuracy"),
        ("kind = \"number\"\nanswer = \"a\"", json!({"a": "12"}), "12", "score"),
        (
            "kind = \"choice\"\nanswer = \"a\"\noptions = \"o\"\nlettered = true",
            json!({"a": "B", "o": ["A. red", "(B) blue"]}),
            "B",
            "accuracy",
        ),
        (
            "kind = \"choice\"\nanswer = \"a\"\nanswer_is = \"option\"\noptions = \"o\"",
            json!({"a": "blue", "o": ["red", "blue"]}),
            "B",
            "accuracy",
        ),
    ] {
        let rows: Vec<Value> = ["a", "b"]
            .map(|clip| {
                let mut row = cells.clone();
                (row["clip"], row["q"], row["place"]) =
                    (format!("{clip}.mp4").into(), "What?".into(), 3.into());
                row
            })
            .into();
        let toml = format!("[row]\nvideo = \"clip\"\nquestion = \"q\"\ntags.place = \"place\"\n{row}");
        let dir = task(&toml, &rows.into());
        let out = dir.path().join("out");
        ok(run_task(&dir.path().join("mine.toml"), &out, &server.base_url).args(STRICT));
        let records = stable_records(&out.join("mine"));
        assert_eq!(records[0].sample.gold.to_string(), gold, "{row}");
        let summary: Value =
            serde_json::from_slice(&std::fs::read(out.join("mine/summary.json")).unwrap()).unwrap();
        let found = &summary["metrics"][0];
        assert_eq!((&found["name"], &found["n"]), (&metric.into(), &2.into()), "{row}");
        if row.contains("lettered") {
            assert_eq!(records[0].sample.question.options, ["red", "blue"]);
        }
    }
}

#[test]
fn wrong_files_keys_rows_and_columns_are_named() {
    let refused = |row: &str, rows: &Value, words: &[&str]| {
        let dir = task(row, rows);
        ends(2, run_task(&dir.path().join("mine.toml"), &dir.path().join("out"), NOWHERE), words);
    };
    let rows = choice_rows();
    let with = |from: &str, to: &str| {
        assert!(CHOICE.contains(from), "{from}");
        CHOICE.replace(from, to)
    };
    refused("", &rows, &["mine.toml: missing table `row`"]);
    refused(&with("answer_is", "answer_as"), &rows, &["mine.toml: row: ", "did you mean `answer_is`?"]);
    refused(&with("\"index\"", "\"place\""), &rows, &["mine.toml: row: ", "unknown variant `place`"]);
    refused(
        &with("options = [\"one\", \"two\", \"three\"]", ""),
        &rows,
        &["mine.toml: row.options: missing"],
    );
    refused(
        &with("kind = \"choice\"", "kind = \"number\""),
        &rows,
        &["mine.toml: row.options: kind number has none"],
    );
    refused(&with("{clip}.mp4", "{clip.mp4"), &rows, &["mine.toml: row: ", "`{` without `}`"]);
    refused(
        &with("\"qid\"", "\"qidd\""),
        &rows,
        &["rows.json: column `qidd`: missing; the nearest is `qid`", "(row 0)\n"],
    );
    refused(
        &with("{clip}", "../{clip}"),
        &rows,
        &["rows.json: row 0, column `clip`", "leaves the data folder"],
    );
    let mut wrong = rows.clone();
    (wrong[0]["right"], wrong[1]["right"]) = (2.into(), "x".into());
    refused(CHOICE, &wrong, &["row 0, column `right`: expected an index from 0 to 1, found `2`"]);
    refused(
        &with("only = { split = \"test\" }", "only = { right = 9 }"),
        &rows,
        &["no sample is selected; row.only: right = `9` matches 0 of 3 rows"],
    );
    refused(
        &with("only = { split = \"test\" }", "only = { right = [[9]] }"),
        &rows,
        &["only.right: expected a text or a number"],
    );
    let named = with("[row]", "metric = { kind = \"grounding\", thresholds = [0.5] }\n[row]");
    refused(&named, &rows, &["mine.toml: metric: mIoU does not go with row.kind choice"]);

    let dir = task(CHOICE, &rows);
    let mut given = bench();
    given.args(["data", "check", "--task"]).arg(dir.path().join("rows.json"));
    ends(2, given, &["rows.json: rows in the place of a task file"]);
    let file = dir.path().join("mine.toml");
    let taken = std::fs::read_to_string(&file).unwrap().replace("\"mine\"", "\"mlvu\"");
    std::fs::write(&file, taken).unwrap();
    ends(2, bench().args(["tasks", "--task"]).arg(&file), &["name: `mlvu` is a built-in task"]);
}

#[test]
fn data_beside_the_task_file_need_no_data_root() {
    let dir = task(CHOICE, &choice_rows());
    let file = dir.path().join("mine.toml");
    let without_home = |line: &[&str]| {
        let mut command = bench();
        command.args(line).arg(&file).env_remove("HOME").env_remove("HF_HOME");
        command
    };
    ok(without_home(&["data", "check", "--task"]));
    let out = dir.path().join("out").display().to_string();
    let line = ["run", "--dry-run", "--protocol", "native", "--out", &out, "--task"];
    ends(0, without_home(&line), &["mine: 2 samples"]);
    ends(2, without_home(&["data", "check", "mlvu", "--task"]), &["neither --hf-home nor --data"]);
}

#[test]
fn a_check_finds_rows_that_a_run_refuses_and_a_selection_of_none() {
    let check = |dir: &Path, words: &[&str]| {
        ends(1, bench().args(["data", "check", "--task"]).arg(dir.join("mine.toml")), words);
    };
    let none = task(&CHOICE.replace("\"test\"", "\"nosuch\""), &choice_rows());
    check(none.path(), &["INCOMPLETE", "no rows"]);
    let reason = "mine: no sample is selected; row.only: split = `nosuch` matches 0 of 3 rows of rows.json";
    ends(2, run_task(&none.path().join("mine.toml"), &none.path().join("out"), NOWHERE), &[reason]);
    let letters = CHOICE.replace("answer_is = \"index\"\n", "");
    let mut rows = choice_rows();
    (rows[0]["right"], rows[1]["right"]) = ("B".into(), "A、Green".into());
    let damaged = task(&letters, &rows);
    let found = "alone or with its option, found `A、Green`";
    check(damaged.path(), &["INCOMPLETE  1 usable", "1 row unusable", found]);
}

#[test]
fn rows_and_videos_beside_the_task_file_are_found_with_a_data_folder_for_others() {
    let (dir, other) = (task(CHOICE, &choice_rows()), tempfile::tempdir().unwrap());
    let file = dir.path().join("mine.toml");
    let mut check = bench();
    check.args(["data", "check", "--task"]).arg(&file).arg("--data").arg(other.path());
    ends(0, check, &["2/2 rows", "2/2 videos  complete"]);
    let server = Server::start(Script::default());
    let mut run = run_task(&file, &other.path().join("out"), &server.base_url);
    ok(run.args(["--nframes", "8", "--data"]).arg(other.path()));
    let records = stable_records(&other.path().join("out/mine"));
    assert!(records.iter().all(|record| record.error.is_none()), "{records:?}");
    assert!(records.iter().all(|record| !record.sample.video.is_absolute()), "{records:?}");
}

#[test]
fn a_misspelt_field_is_named_with_its_line_and_the_nearest_one() {
    let dir = task(CHOICE, &choice_rows());
    let file = dir.path().join("mine.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    for (field, misspelt) in [("title", "titel"), ("breakdowns", "breakdown")] {
        std::fs::write(&file, good.replacen(&format!("\n{field} ="), &format!("\n{misspelt} ="), 1)).unwrap();
        let line = 1 + good.lines().position(|line| line.starts_with(field)).unwrap();
        let said = format!("mine.toml: line {line}: unknown field `{misspelt}`\ndid you mean `{field}`?");
        ends(2, bench().args(["data", "check", "--task"]).arg(&file), &[&said]);
    }
}

const LESS_PLAIN: &str = r#"
[row]
kind = { column = "type", values = { mc = "choice", open = "text" } }
id = "{clip}-{n}"
video = "{clip}.mp4"
question = "q"
options = "o"
answer = "a"
evidence = ["from", "to"]
tags = { place = "place", area = "area" }

[[row.derived]]
name = "from"
column = "time"
field = "start"

[[row.derived]]
name = "to"
column = "time"
field = "end"

[[row.derived]]
name = "area"
column = "n"
pattern = '^(.)'
groups = { low = ["1", "2"], high = ["3"] }
"#;

fn less_plain_rows() -> Value {
    let time = json!({"start": "0:01", "end": 2.5});
    json!([
        {"n": 11, "clip": "a", "type": "mc", "q": "Who?", "o": {"B": "A dog", "A": "A man"}, "a": "B", "time": time, "place": "x"},
        {"n": 31, "clip": "b", "type": "mc", "q": "Who?", "o": "A. A man\nB. A dog,\nor two", "a": "A", "time": time, "place": null},
        {"n": 21, "clip": "b", "type": "open", "q": "Who?", "o": [], "a": "A dog", "time": time, "place": "x"},
    ])
}

#[test]
fn options_kinds_and_columns_made_of_others_need_no_code() {
    let dir = task(LESS_PLAIN, &less_plain_rows());
    let (server, out) = (Server::start(Script::default()), dir.path().join("out"));
    ok(run_task(&dir.path().join("mine.toml"), &out, &server.base_url).args(STRICT));
    let records = stable_records(&out.join("mine"));
    let sample = |uid: &str| &records.iter().find(|record| record.sample.uid == uid).unwrap().sample;
    assert_eq!(sample("a-11").question.options, ["A man", "A dog"]);
    assert_eq!(sample("b-31").question.options, ["A man", "A dog,\nor two"]);
    assert_eq!((sample("b-21").gold.to_string(), &*sample("b-21").question.letters), ("A dog".into(), ""));
    let evidence = sample("a-11").evidence.unwrap();
    assert_eq!((evidence.start, evidence.end), (1.0, 2.5));
    assert_eq!(
        (&*sample("a-11").tags["area"], &*sample("b-31").tags["area"]),
        (&["low".to_owned()][..], &["high".to_owned()][..])
    );
    assert!(!sample("b-31").tags.contains_key("place"), "a cell that is null");
    let summary: Value =
        serde_json::from_slice(&std::fs::read(out.join("mine/summary.json")).unwrap()).unwrap();
    assert_eq!((&summary["metrics"][0]["name"], &summary["n"]), (&"accuracy".into(), &3.into()));
}

#[test]
fn what_does_not_go_together_is_named() {
    let refused = |row: &str, rows: &Value, word: &str| {
        let dir = task(row, rows);
        ends(2, bench().args(["tasks", "--task"]).arg(dir.path().join("mine.toml")), &[word]);
    };
    let rows = less_plain_rows();
    let with = |from: &str, to: &str| {
        assert!(LESS_PLAIN.contains(from), "{from}");
        LESS_PLAIN.replace(from, to)
    };
    refused(
        &with("open = \"text\"", "open = \"span\""),
        &rows,
        "expected `choice`, `interval`, `text` or `number`",
    );
    refused(
        &with("open = \"text\"", "open = \"interval\""),
        &rows,
        "mine.toml: row.kind: intervals and other answers have no metric in common",
    );
    refused(&with("'^(.)'", "'^.'"), &rows, "expected a group in parentheses");
    refused(
        &with("[\"from\", \"to\"]", "[\"from\"]"),
        &rows,
        "row.evidence: expected one column, or a list of two",
    );
    refused(
        &with("options = \"o\"", "options = \"o\"\nlettered = \"all\""),
        &rows,
        "expected true, false or \"some\"",
    );
    refused(&with("mc = ", "mcq = "), &rows, "column `type`: expected one of mcq, open, found `mc`");
    let mut other = rows.clone();
    (other[0]["o"], other[1]["o"]) = (json!({"A": "x", "C": "y"}), json!("A man\nA dog"));
    refused(LESS_PLAIN, &other, "column `o`: expected an object of texts by letter, AB");
    let metric = "metric = { kind = \"group_score\", group = \"clip\", place = \"n\", rule = \"type\", structure = \"s\", by = [] }\n";
    let grouped = LESS_PLAIN.replacen("[row]", &format!("{metric}[row]"), 1);
    refused(&grouped, &rows, "mine.toml: metric: `clip` is none of row.tags");
}
