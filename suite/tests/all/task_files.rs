//! Task files and the files of rows that they name.

use std::path::Path;

use paravt_suite::data::{DataError, DataRoot};
use paravt_suite::media::Depth;
use paravt_suite::profile::Profile;
use paravt_suite::task::{Benchmark, DataCheck, Finding, Task as _};

const TEXT: &str = "kind = \"text\"\nid = \"id\"\nvideo = \"v\"\nquestion = \"q\"\nanswer = \"a\"";

/// A folder with files and the task over them.
fn task(layout: &str, row: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, Result<Benchmark, String>) {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let file = dir.path().join("mine.toml");
    std::fs::write(
        &file,
        format!("name = \"mine\"\nlayout = {{ {layout}, videos = [\".\"] }}\n[row]\n{row}\n"),
    )
    .unwrap();
    let task = Benchmark::from_file(&file).map_err(|error| error.to_string());
    (dir, task)
}

fn ids(dir: &Path, task: &Benchmark) -> Result<Vec<String>, DataError> {
    let samples = task.load(&DataRoot::new(dir), Profile::Strict)?.samples;
    Ok(samples.iter().map(|sample| format!("{}:{}", sample.row, sample.uid)).collect())
}

fn check(dir: &Path, task: &Benchmark) -> DataCheck {
    task.check(&DataRoot::new(dir), &Depth::Header)
}

fn row(id: &str) -> String {
    format!("{{\"id\": \"{id}\", \"v\": \"v.mp4\", \"q\": \"Q?\", \"a\": \"yes\"}}\n")
}

#[test]
fn every_file_of_a_table_is_read_in_order() {
    let (one, two) = (row("x"), row("y") + &row("z"));
    let csv = "id,v,q,a\nw,v.mp4,Q?,no\n";
    let series = ["d/t-00000-of-00002.jsonl", "d/t-00001-of-00002.jsonl"];
    let files = [("b.jsonl", &*one), ("a.json", &two), ("c.csv", csv), (series[0], &two), (series[1], &one)];
    for (annotations, expected) in [
        ("\"b.jsonl\", \"a.json\"", "0:x 1:y 2:z"),
        ("\"a.json\", \"c.csv\", \"b.jsonl\"", "0:y 1:z 2:w 3:x"),
        ("\"d/t-*.jsonl\"", "0:y 1:z 2:x"),
        ("\"d/t-00001-of-00002.jsonl\", \"d/t-00000-of-00002.jsonl\"", "0:x 1:y 2:z"),
        ("\"b.jsonl\", \"b.json?\"", "0:x"),
    ] {
        let (dir, task) = task(&format!("annotations = [{annotations}]"), TEXT, &files);
        let task = task.unwrap();
        assert_eq!(ids(dir.path(), &task).unwrap().join(" "), expected, "{annotations}");
        let rows = expected.split(' ').count();
        assert_eq!(task.spec().expected_rows, rows);
        let check = check(dir.path(), &task);
        assert_eq!(
            (check.rows, check.files.len()),
            (rows, if rows > 1 { annotations.matches(',').count().max(1) + 1 } else { 0 }),
            "{annotations}"
        );
    }
}

#[test]
fn half_a_table_is_refused_by_the_name_of_the_other_half() {
    let (one, two) = (row("x"), row("y"));
    let other = two.replace("\"q\"", "\"frage\"");
    let bad = two.replace("\"yes\"", "[]").repeat(2);
    let twice = one.clone() + &two;
    for (annotations, files, words) in [
        ("\"a.json\", \"b.json\"", &[("a.json", &*one)][..], &["b.json, one of several, not found"][..]),
        ("\"n-*.json\"", &[("a.json", &*one)], &["annotation file n-*.json not found"]),
        (
            "\"n-*-of-00002.json\"",
            &[("n-00001-of-00002.json", &*one)],
            &["n-00000-of-00002.json, one of several"],
        ),
        (
            "\"n-00000-of-00002.json\"",
            &[("n-00000-of-00002.json", &*one), ("n-00001-of-00002.json", &two)],
            &["n-00000-of-00002.json: one of 2 files", "does not name `n-00001-of-00002.json`"],
        ),
        (
            "\"a.json\", \"b.json\"",
            &[("a.json", &*one), ("b.json", &other)],
            &["b.json: column `frage`: b.json has it, a.json"],
        ),
        (
            "\"a.json\", \"b.json\"",
            &[("a.json", &*one), ("b.json", &one)],
            &["b.json: row 0 (line 1) has the id `x` of a.json, row 0"],
        ),
        (
            "\"a.json\", \"b.jsonl\"",
            &[("a.json", &*one), ("b.jsonl", &bad)],
            &["b.jsonl: row 0 (line 1), column `a`"],
        ),
        ("\"d/r.json\", \"e/r.json\"", &[("r.json", &*twice)], &["d/r.json, e/r.json not found"]),
        ("\"../*.json\"", &[], &["layout.annotations: expected a file by a relative path"]),
        ("\"a/**/b.json\"", &[], &["layout.annotations: `a/**/b.json`: `**` is not read"]),
        ("\"a[.json\"", &[], &["layout.annotations: `a[.json`"]),
    ] {
        let (dir, task) = task(&format!("annotations = [{annotations}]"), TEXT, files);
        let message = match task {
            Ok(task) => ids(dir.path(), &task).unwrap_err().to_string(),
            Err(message) => message,
        };
        assert!(words.iter().all(|word| message.contains(word)), "{annotations}: {message}");
    }
}

#[test]
fn another_copy_of_the_rows_is_read_where_the_first_is_not_there() {
    let layout = "annotations = [\"a.json\", \"b.json\"], other_annotations = [\"c.json\", \"d.json\"]";
    let [a, b, c, d] = ["a", "b", "c", "d"].map(row);
    for (files, expected) in [
        (&[("a.json", &*a), ("b.json", &b), ("c.json", &c)][..], "0:a 1:b"),
        (&[("a.json", &*a), ("d.json", &d), ("c.json", &c)], "0:c"),
        (&[("d.json", &*d)], "0:d"),
    ] {
        let (dir, task) = task(layout, TEXT, files);
        assert_eq!(ids(dir.path(), &task.unwrap()).unwrap().join(" "), expected);
    }
    let (_dir, none) = task(layout, TEXT, &[]);
    let message = none.err().unwrap();
    assert!(message.contains("annotation file a.json, b.json or c.json or d.json not found"), "{message}");
}

#[test]
fn no_row_and_no_selected_row_say_so_with_counts() {
    let (x, y) = (row("x"), row("y"));
    let only = format!("{TEXT}\nonly = {{ q = \"R?\", a = [\"1\", \"2\"] }}");
    for (row, content, reason) in [
        (TEXT, "[]", "no rows in a.json"),
        (&*only, &*(x + &y), "row.only: a = `1` or `2`, q = `R?` matches 0 of 2 rows of a.json"),
    ] {
        let (dir, task) = task("annotations = [\"a.json\"]", row, &[("a.json", content)]);
        let task = task.unwrap();
        let empty = task.load(&DataRoot::new(dir.path()), Profile::Strict).unwrap().empty;
        assert_eq!(empty.as_deref(), Some(reason));
        let findings = check(dir.path(), &task).findings;
        assert!(findings.contains(&Finding::NoRows { reason: reason.to_owned() }), "{findings:?}");
    }
}

#[test]
fn odd_gold_intervals_are_kept_and_flagged() {
    let csv = "v,q,from,to\nv.mp4,a,1,2.5\nv.mp4,b,9,0:04\nv.mp4,c,-2,4\nv.mp4,d,-0:01,3\n";
    let columns = "kind = \"interval\"\nvideo = \"v\"\nquestion = \"q\"\ninterval = [\"from\", \"to\"]";
    let (dir, task) = task("annotations = [\"a.csv\"]", columns, &[("a.csv", csv)]);
    let task = task.unwrap();
    let samples = task.load(&DataRoot::new(dir.path()), Profile::Strict).unwrap().samples;
    let found: Vec<String> = samples.iter().map(|s| format!("{} {}", s.gold, s.flags.join(" "))).collect();
    assert_eq!(found, ["1-2.5 ", "9-4 reversed_gold", "-2-4 gold_before_video", "-1-3 gold_before_video"]);
    let check = check(dir.path(), &task);
    let flagged: Vec<_> = check.flagged.iter().map(|(flag, rows)| (&**flag, rows.len())).collect();
    assert_eq!(flagged, [("gold_before_video", 2), ("reversed_gold", 1)]);
    assert_eq!(check.flagged["reversed_gold"], ["row 1: 9 to 4, mine/v.mp4"]);
}
