//! `audit` of sample files of other harnesses, alone, in pairs and beside the data of a split.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::common::server::{Script, Server};
use crate::common::{bench, ends, ok, run_task, text, world};

const FAILED: &str = "[LMMS_EVAL_REQUEST_FAILED after 2 retries] Error code: 500";

fn write(dir: &Path, name: &str, content: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

fn audit(arguments: &[&Path], extra: &[&str]) -> (i32, String) {
    let output = bench().arg("audit").args(arguments).args(extra).output().unwrap();
    (output.status.code().unwrap(), text(&output))
}

/// A line of lmms-eval's Video-MME, as its metric writes it.
fn lmms(row: usize, gold: &str, said: &str, taken: &str) -> Value {
    json!({"doc_id": row, "target": gold, "input": "Which?\nA. one\nB. two\nC. three\nD. four", "resps": [[said]],
        "filtered_resps": [said], "videomme_perception_score": {"videoID": format!("v{}", row / 2), "duration": "short",
        "pred_answer": taken, "answer": gold, "score": f64::from(u8::from(gold == taken))}})
}

#[test]
fn failures_draws_and_prose_are_counted_and_the_rest_is_scored() {
    let dir = tempfile::tempdir().unwrap();
    let rows = [
        lmms(0, "A", "A", "A"),
        lmms(1, "D", FAILED, "D"),
        lmms(2, "B", FAILED, "D"),
        lmms(3, "C", "", ""),
        lmms(4, "A", "I saw A man who ran.", "A"),
        lmms(5, "B", "It cannot be seen.", "B"),
        lmms(6, "B", "B. two", "B"),
        lmms(6, "B", "B. two", "B"),
    ];
    let log = write(dir.path(), "20260101_samples_videomme.jsonl", &lines(&rows));
    let (code, said) = audit(&[&log], &["-v", "--expected", "9"]);
    assert_eq!(code, 1, "{said}");
    insta::assert_snapshot!(said);
}

#[test]
fn files_of_every_harness_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let inspect = json!({"version": 2, "status": "success", "eval": {"task": "t", "model": "m", "dataset": {"samples": 3}}, "samples": [
        {"id": "a", "epoch": 1, "input": "Which?", "choices": ["x", "y"], "target": "A", "output": {"choices": [{"message":
            {"role": "assistant", "content": "A"}, "stop_reason": "stop"}]}, "scores": {"choice": {"value": "C", "answer": "A"}}},
        {"id": "b", "epoch": 1, "input": "Which?", "choices": ["x", "y"], "target": "B", "error": {"message": "timeout"}}]});
    let lm = json!({"doc_id": 0, "doc": {"choices": ["x", "y"]}, "target": 1, "arguments": {"gen_args_0": {"arg_0": "Which?"}},
        "resps": [["B"]], "filtered_resps": ["B"], "filter": "none", "exact_match": 1.0});
    for (file, tool, rows, failures, reported) in [
        (write(dir.path(), "x.json", &inspect.to_string()), "inspect", 2, 1, 1.0),
        (write(dir.path(), "samples_t_2026-01-01T00-00-00.jsonl", &lines(&[lm])), "lm-eval", 1, 0, 1.0),
        (
            write(
                dir.path(),
                "M_Video-MME.tsv",
                "index\tquestion\tA\tB\tanswer\tprediction\thit\tlog\n0\tq\tx\ty\tA\tB\t0\t\n1\tq\tx\ty\tA\tFailed to obtain answer via API.\t1\tFailed to predict, thus randomly generate one.\n",
            ),
            "vlmevalkit",
            2,
            1,
            0.5,
        ),
    ] {
        let (code, said) = audit(&[&file], &["--json"]);
        let json: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        let found = &json["audits"][0];
        assert_eq!((&found["tool"], &found["rows"]), (&json!(tool), &json!(rows)), "{said}");
        assert_eq!(
            (&found["doubts"][0]["rows"], &found["reported"]["value"]),
            (&json!(failures), &json!(reported))
        );
        assert_eq!(code, i32::from(tool != "lm-eval"), "{said}");
    }
}

#[test]
fn what_is_no_file_of_rows_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes, words) in [
        ("a.jsonl.gz", &b"\x1f\x8b\x08\x00"[..], "compressed by gzip; unpack it"),
        ("b.csv", b"\x1f\x8b\x08\x00", "compressed by gzip; unpack it"),
        ("c.csv", b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
        ("d.jsonl", b"PAR1", "parquet file is damaged"),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let (code, said) = audit(&[&path], &[]);
        assert!(code == 2 && said.contains(words) && said.matches(name).count() == 1, "{name}: {said}");
    }
}

#[test]
fn two_logs_are_paired_and_become_runs() {
    let dir = tempfile::tempdir().unwrap();
    let rows = |right: usize| -> String {
        let row = |n: usize| format!("s{n},v{},A,{}\n", n / 2, if n < right { "A" } else { "B" });
        format!("id,video,gold,said\n{}", (0..12).map(row).collect::<String>())
    };
    let [a, b] = [4, 10].map(|right| write(dir.path(), &format!("{right}.csv"), &rows(right)));
    let columns =
        write(dir.path(), "c.toml", "id = \"id\"\nvideo = \"video\"\nanswer = \"gold\"\nresponse = \"said\"");
    let columns = columns.to_str().unwrap();
    let out = dir.path().join("out");
    let (code, said) = audit(&[&a, &b], &["--columns", columns, "--out", out.to_str().unwrap()]);
    assert!(code == 0 && said.contains("+50.0") && said.contains("6 videos"), "{said}");
    assert!(std::fs::read_to_string(out.join("tables/audit.csv")).unwrap().contains("4.csv,table"));
    // Again, and there is a run already: the advice is one that `audit` can follow.
    let (code, again) = audit(&[&a, &b], &["--columns", columns, "--out", out.to_str().unwrap()]);
    assert!(code == 2 && again.contains("already holds a run; choose another --out"), "{again}");
    assert!(!again.contains("--resume"), "{again}");
    // The runs are like any other, but stand beside no published number.
    let runs = out.join("runs");
    let report =
        bench().arg("report").arg(&runs).args(["--paper-row", "ParaVT-8B", "--json"]).output().unwrap();
    let report = text(&report);
    assert!(report.contains("\"n_recorded\": 12"), "{report}");
    let manifest = std::fs::read_to_string(runs.join("1/imported/manifest.json")).unwrap();
    assert!(manifest.contains("\"imported\": \"table\"") && !manifest.contains(dir.path().to_str().unwrap()));
    let compared = bench().arg("compare").args([runs.join("1"), runs.join("2")]).output().unwrap();
    assert!(text(&compared).contains("+50.0"), "{}", text(&compared));
}

#[test]
fn every_name_of_a_file_can_be_given() {
    let dir = tempfile::tempdir().unwrap();
    let log = lines(&[lmms(0, "A", "A", "A"), lmms(1, "B", "C", "C")]);
    let byte = PathBuf::from(OsStr::from_bytes(b"caf\xE9.json"));
    for name in [Path::new("a,b.json"), &byte, Path::new("c.json"), Path::new("d.json")] {
        std::fs::write(dir.path().join(name), &log).unwrap();
    }
    let run = |arguments: &[&Path]| {
        let output = bench().current_dir(dir.path()).arg("audit").args(arguments).output().unwrap();
        (output.status.code().unwrap(), text(&output))
    };
    for (name, rows) in [(Path::new("a,b.json"), 2), (&byte, 2), (Path::new("c.json,d.json"), 4)] {
        let (code, said) = run(&[name]);
        assert!(code == 0 && said.contains(&format!("rows                  {rows}")), "{said}");
    }
    // An unset variable is no empty log.
    for name in ["", ",", "c.json,", "c.json,,d.json"] {
        let (code, said) = run(&[Path::new(name)]);
        assert_eq!(code, 2, "`{name}`: {said}");
    }
}

#[test]
fn an_imported_run_can_be_read_whatever_the_log_says() {
    let dir = tempfile::tempdir().unwrap();
    for (number, task) in ["..", "", "a/../../b", "."].into_iter().enumerate() {
        let inspect = json!({"version": 2, "eval": {"task": task, "model": "m", "dataset": {"samples": u64::MAX}, "config": {"epochs": u64::MAX}},
            "samples": [{"id": "a", "epoch": 1, "input": "Which?", "choices": ["x", "y"], "target": "A",
            "output": {"completion": "A", "usage": {"input_tokens": u64::MAX, "output_tokens": 1}},
            "scores": {"choice": {"value": "C", "answer": "A"}, "match": {"value": "I"}}}]});
        let log = write(dir.path(), "x.json", &inspect.to_string());
        let out = dir.path().join(format!("out{number}"));
        let (_, said) = audit(&[&log], &["--out", out.to_str().unwrap()]);
        assert!(said.contains("100.0 (N 1), choice") && said.contains("0.0 (N 1), match"), "{said}");
        let runs: Vec<_> =
            std::fs::read_dir(out.join("runs/1")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(runs.len() == 1 && runs[0].join("manifest.json").is_file(), "{runs:?}");
        // It has fewer samples than the log says, and can be read.
        ends(4, bench().arg("report").arg(&runs[0]), &[]);
    }
}

#[test]
fn rows_are_found_in_the_data_of_a_split() {
    let dir = tempfile::tempdir().unwrap();
    let columns = |extra: &str| {
        let text = format!("id = \"id\"\nresponse = \"said\"\n{extra}");
        write(dir.path(), "c.toml", &text).to_str().unwrap().to_owned()
    };
    let data = ["--split", "mlvu", "--data", world().to_str().unwrap()];
    let log = write(dir.path(), "log.csv", "id,said,gold\nnone,A,A\n");
    let (code, said) = audit(&[&log], &[&data[..], &["--columns", &columns("")]].concat());
    assert!(code == 2 && said.contains("no row belongs to mlvu"), "{said}");
    let rows =
        |gold: &str| write(dir.path(), "log.csv", &format!("id,said,gold\nrow-0,A,{gold}\nrow-1,B,\n"));
    let by_row = "row = \"id\"\nanswer = \"gold\"";
    let (code, said) = audit(&[&rows("Z")], &[&data[..], &["--columns", &columns(by_row)]].concat());
    assert!(code == 2 && said.contains("has the gold answer `Z` here"), "{said}");
    let (code, said) = audit(&[&rows("")], &[&data[..], &["--columns", &columns(by_row), "--json"]].concat());
    let json: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let found = &json["audits"][0];
    let expected = found["expected"].as_u64().unwrap();
    assert_eq!((code, found["missing"].as_u64().unwrap()), (1, expected - 2), "{said}");
    assert_eq!(found["strict"]["n"], expected);
    // Its published row is named, and not beside it.
    let out = dir.path().join("out");
    audit(&[&rows("")], &[&data[..], &["--columns", &columns(by_row), "-o", out.to_str().unwrap()]].concat());
    let report = bench().arg("report").arg(&out).args(["--paper-row", "ParaVT-8B", "-v"]).output().unwrap();
    assert!(text(&report).contains("imported from table"), "{}", text(&report));
}

#[test]
fn what_cannot_be_audited_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let plain = write(dir.path(), "p.csv", "id,said\n1,A\n");
    let chosen = json!({"doc_id": 0, "target": 1, "resps": [[[-1.5, false]]], "filtered_resps": [[-1.5, false]], "acc": 1.0});
    for (file, words) in [
        (plain, "a plain table; say with --columns FILE what its columns are. It has: id, said"),
        (write(dir.path(), "x.json", "{\"a\": "), "row 1: not JSON"),
        (write(dir.path(), "x.xlsx", "PK"), "not a zip archive"),
        (write(dir.path(), "e.csv", "id,said\n"), "no rows in this file"),
        (
            write(dir.path(), "samples_t.jsonl", &lines(&[chosen])),
            "row 1: answers were chosen by log-likelihood",
        ),
        (dir.path().join("none.csv"), "cannot be read"),
    ] {
        let (code, said) = audit(&[&file], &[]);
        assert!(code == 2 && said.contains(words), "{code} {said}");
    }
}

#[test]
fn flags_that_say_nothing_of_the_log_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let rows: Vec<Value> = (0..3).map(|row| lmms(row, "A", "A", "A")).collect();
    let log = write(dir.path(), "samples_videomme.jsonl", &lines(&rows));
    for (flags, words) in [
        (["--expected", "0"], "--expected"),
        (["--expected", "2"], "--expected 2: samples_videomme.jsonl has rows of 3 samples"),
        (["--data", "."], "--data: without --split no data are read"),
    ] {
        let (code, said) = audit(&[&log], &flags);
        assert!(code == 2 && said.contains(words), "{code} {said}");
    }
}

/// Choices of the corpus that the rules of answers are held to.
static REPLIES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/replies");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let all = read("choice_english.jsonl") + &read("choice_other.jsonl");
    let rows = all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    // A reply without a character is an error of the server and has no reading.
    let is_usable = |row: &Value| {
        row["kind"] == "choice"
            && !row["options"].to_string().contains("\\n")
            && row["reply"].as_str().is_some_and(|reply| !reply.trim().is_empty())
    };
    rows.filter(is_usable).collect()
});

/// The reply that a question's number stands for.
fn reply(asked: &str) -> String {
    let number = asked.split_once("row ").unwrap().1.split('?').next().unwrap();
    REPLIES[number.parse::<usize>().unwrap()]["reply"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_reads_each_reply_as_the_audit_of_its_log_does() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("clips")).unwrap();
    std::fs::copy(world().join("lvbench/nanoLV_0.mp4"), dir.path().join("clips/a.mp4")).unwrap();
    let (mut rows, mut log) = (Vec::new(), Vec::new());
    for (number, line) in REPLIES.iter().enumerate() {
        let options = line["options"].as_array().unwrap();
        rows.push(json!({"id": number, "clip": "a", "q": format!("row {number}?"), "options": options, "right": "A"}));
        let listed = options
            .iter()
            .zip('A'..)
            .map(|(option, letter)| format!("\n{letter}. {}", option.as_str().unwrap()));
        let input = format!("row {number}?{}", listed.collect::<String>());
        log.push(json!({"doc_id": number, "target": "A", "input": input, "resps": [[line["reply"]]],
            "filtered_resps": [line["reply"]], "acc": 0.0}));
    }
    write(dir.path(), "rows.json", &json!(rows).to_string());
    let task = "name = \"replies\"\nlayout = { annotations = [\"rows.json\"], videos = [\"clips\"] }\n[row]\n\
                kind = \"choice\"\nid = \"id\"\nvideo = \"{clip}.mp4\"\nquestion = \"q\"\noptions = \"options\"\n\
                answer = \"right\"\n";
    let task = write(dir.path(), "replies.toml", task);
    let server = Server::start(Script { reply: Some(reply), ..Script::default() });
    let ran = dir.path().join("ran");
    ok(run_task(&task, &ran, &server.base_url).args(["--mode", "direct", "--nframes", "4"]));
    let log = write(dir.path(), "20260101_samples_replies.jsonl", &lines(&log));
    let audited = dir.path().join("audited");
    let (_, said) = audit(&[&log], &["-o", audited.to_str().unwrap()]);
    let read = |folder: &Path| -> Vec<(usize, Option<String>, Option<String>)> {
        let runs = paravt_reports::find_runs(&[folder.to_owned()]).unwrap();
        let records = runs.into_iter().flat_map(|run| run.records);
        records.map(|record| (record.sample.row, record.score.prediction, record.score.rule)).collect()
    };
    let (ran, audited) = (read(&ran), read(&audited));
    assert_eq!(ran.len(), REPLIES.len(), "{said}");
    assert_eq!(ran, audited);
}
