//! Runs as files of other harnesses, as those harnesses read them; data frames as notebooks read them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::server::{Script, Server};
use crate::common::{bench, ends, files, ok, run, stable_records, text, world};
use crate::documents::root;
use paravt_suite::record::{Outcome, Record};
use serde_json::{Value, json};

/// Splits of the runs: choices, intervals, and questions of which some are not part of the score.
const SPLITS: [&str; 3] = ["videomme", "charades", "mmvu"];

/// Answers without a letter D: the server sends no choice in its place.
fn without_d(reply: &mut Value) {
    let content = reply["choices"][0]["message"]["content"].as_str().unwrap_or_default();
    if content.contains("<answer>D") || content.contains("<answer>0.0") {
        reply["choices"] = Value::Array(Vec::new());
    }
}

/// Runs of which some samples failed, in a folder with their records by split.
fn runs() -> (tempfile::TempDir, BTreeMap<&'static str, Vec<Record>>) {
    let server = Server::start(Script { rewrite: Some(without_d), ..Script::default() });
    let dir = tempfile::tempdir().unwrap();
    ends(4, run(&SPLITS, dir.path(), &server.base_url).args(["--nframes", "8"]), &[]);
    let records = SPLITS.map(|split| (split, stable_records(&dir.path().join(split))));
    (dir, records.into())
}

fn export(runs: &Path, format: &str, out: &Path) -> Command {
    let mut command = bench();
    command.arg("export").arg(runs).args(["--to", format, "--model", "lab/scripted", "--out"]).arg(out);
    command
}

/// Uids of the samples without an answer.
fn failed(records: &[Record]) -> Vec<&str> {
    let failed = records.iter().filter(|record| record.score.outcome == Outcome::Error);
    let mut failed: Vec<&str> = failed.map(|record| record.sample.uid.as_str()).collect();
    failed.sort_unstable();
    failed
}

fn is_counted(record: &&Record) -> bool {
    !record.sample.gold.is_excluded_from_headline()
}

/// Records with an answer that counts.
fn answered(records: &[Record]) -> Vec<&Record> {
    let answered = records.iter().filter(is_counted);
    answered.filter(|record| record.score.outcome != Outcome::Error).collect()
}

/// The mean over all samples that count, a failed one as 0.
fn score(records: &[Record]) -> f64 {
    let counted: Vec<f64> = records.iter().filter(is_counted).map(|record| record.score.value).collect();
    counted.iter().sum::<f64>() / counted.len() as f64
}

#[test]
fn exports_hold_no_path_or_address_of_the_machine_and_count_what_they_leave_out() {
    let (dir, records) = runs();
    for format in ["inspect", "inspect-eval", "lmms-eval", "lm-eval", "eee", "atif", "vlmevalkit"] {
        let out = tempfile::tempdir().unwrap();
        let output = ok(export(dir.path(), format, out.path()));
        let written = files(out.path());
        assert_eq!(
            text(&output).matches(out.path().to_str().unwrap()).count(),
            written.len(),
            "one line a file"
        );
        for file in written {
            let content = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
            for private in [dir.path(), world(), Path::new("127.0.0.1")] {
                assert!(
                    !content.contains(private.to_str().unwrap()),
                    "{} in {}",
                    private.display(),
                    file.display()
                );
            }
        }
        let with_failed = records.values().filter(|records| !failed(records).is_empty()).count();
        let leaves_out = ["lmms-eval", "lm-eval", "vlmevalkit"].contains(&format);
        let said = text(&output).matches("without an answer").count();
        assert_eq!(said, if leaves_out { with_failed } else { 0 }, "{format}: {}", text(&output));
    }
}

#[test]
fn frames_of_a_format_without_images_are_refused() {
    let (dir, _) = runs();
    let out = tempfile::tempdir().unwrap();
    ends(2, export(dir.path(), "eee", out.path()).arg("--frames"), &["holds no images"]);
}

/// The last line that a Python script prints, as JSON.
fn facts(python: &str, script: &Path, arguments: &[&str]) -> Value {
    let python = std::env::var(python)
        .unwrap_or_else(|_| panic!("{python} is not set: run ci/setup or ci/compare/exports"));
    let output = ok(Command::new(python).arg(script).args(arguments));
    let printed = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(printed.lines().next_back().unwrap()).unwrap()
}

fn close(a: &Value, b: f64) -> bool {
    a.as_f64().is_some_and(|a| (a - b).abs() < 1e-9)
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn notebooks_compute_what_the_report_says() {
    let (first, _) = runs();
    let server = Server::start(Script::default());
    let second = tempfile::tempdir().unwrap();
    ok(run(&["videomme"], second.path(), &server.base_url).args(["--nframes", "4"]));
    let [a, b] = [&first, &second].map(|dir| dir.path().join("videomme"));
    let records = [&a, &b].map(|run| stable_records(run));
    let out = tempfile::tempdir().unwrap();
    let written =
        bench().arg("report").args([&a, &b]).arg("-o").arg(out.path()).arg("--json").output().unwrap();
    let report: Value = serde_json::from_slice(&written.stdout).unwrap();
    let compared = bench().arg("compare").args([&a, &b]).arg("--json").output().unwrap();
    let compared: Value = serde_json::from_slice(&compared.stdout).unwrap();
    let names: Vec<&str> =
        report["cells"].as_array().unwrap().iter().map(|cell| cell["run"].as_str().unwrap()).collect();
    let title = report["cells"][0]["title"].as_str().unwrap();
    let tables = out.path().join("tables");
    for library in ["polars", "pandas", "duckdb"] {
        let script = root().join(format!("suite/examples/notebooks/with_{library}.py"));
        let found = facts("PARAVT_PYTHON", &script, &[tables.to_str().unwrap(), title, names[0], names[1]]);
        for (name, cell) in names.iter().zip(report["cells"].as_array().unwrap()) {
            let ours = 100.0 * cell["summary"]["metrics"][0]["value"].as_f64().unwrap();
            assert!(close(&found["scores"][format!("{title}|{name}")], ours), "{library}: {found}");
        }
        let difference = 100.0 * (score(&records[1]) - score(&records[0]));
        assert!(close(&found["difference"], difference), "{library}: {found}");
        let ours = find(&compared, "difference").expect("a comparison has a difference");
        assert!(
            (ours - difference).abs() < 1e-6 || (100.0 * ours - difference).abs() < 1e-6,
            "{ours} {difference}"
        );
        assert_eq!(found["pairs"], records[0].len());
        for (calls, accuracy) in found["by_calls"].as_object().unwrap() {
            let of_calls: Vec<f64> = records[0]
                .iter()
                .filter(|record| record.transcript.tool_calls.len().to_string() == *calls)
                .map(|record| record.score.value)
                .collect();
            assert!(
                close(accuracy, 100.0 * of_calls.iter().sum::<f64>() / of_calls.len() as f64),
                "{library}: {found}"
            );
        }
        let calls: usize = records[0].iter().map(|record| record.transcript.tool_calls.len()).sum();
        assert_eq!(found["calls"], calls);
    }
}

/// The first number of this name, at any depth.
fn find(value: &Value, name: &str) -> Option<f64> {
    match value {
        Value::Object(fields) => {
            let here = fields.get(name).and_then(Value::as_f64);
            here.or_else(|| fields.values().find_map(|value| find(value, name)))
        }
        Value::Array(values) => values.iter().find_map(|value| find(value, name)),
        _ => None,
    }
}

mod readers {
    use super::*;

    /// What a tool finds in an export of the runs.
    fn read_back(runs: &Path, format: &str, flags: &[&str], tool: &str) -> Value {
        let out = tempfile::tempdir().unwrap();
        ok(export(runs, format, out.path()).args(flags));
        let script = root().join("reports/interop/tests/read_back.py");
        facts("PARAVT_READER", &script, &[tool, out.path().to_str().unwrap()])
    }

    fn rows(records: &[&Record]) -> Vec<usize> {
        records.iter().map(|record| record.sample.row).collect()
    }

    #[test]
    #[ignore = "needs other harnesses: run by ci/compare/exports"]
    fn inspect_opens_the_logs() {
        let (dir, records) = runs();
        let data = world().to_str().unwrap();
        for (format, flags) in
            [("inspect", &[][..]), ("inspect-eval", &[]), ("inspect", &["--frames", "--data", data])]
        {
            let facts = read_back(dir.path(), format, flags, "inspect");
            for (split, records) in &records {
                let (log, failed) = (&facts[split], failed(records));
                assert_eq!(
                    log["status"],
                    if failed.is_empty() { "success" } else { "error" },
                    "{format} {split}"
                );
                assert_eq!((&log["model"], &log["profile"]), (&json!("lab/scripted"), &json!("strict")));
                assert_eq!(
                    (&log["samples"], &log["summaries"]),
                    (&json!(records.len()), &json!(records.len()))
                );
                assert_eq!(log["alone"], true, "each sample is read on its own");
                assert_eq!((&log["errors"], &log["summary_errors"]), (&json!(failed), &json!(failed)));
                assert_eq!(
                    log["texts_of_failed"],
                    json!(vec![""; failed.len()]),
                    "a failed sample has no answer text"
                );
                let answered = answered(records);
                assert_eq!(log["scored"], answered.len());
                let values: Vec<f64> = answered.iter().map(|record| record.score.value).collect();
                assert_eq!(log["values"], json!(values), "{format} {split}");
                let metric = if *split == "charades" { "mIoU" } else { "accuracy" };
                assert!(close(&log["metrics"][metric], score(records)), "{log}");
                assert_eq!(log["headline"], metric);
                let calls: usize = records.iter().map(|record| record.transcript.tool_calls.len()).sum();
                assert_eq!(
                    (&log["tool_calls"], &log["tool_results"]),
                    (&json!(calls), &json!(calls)),
                    "{split}"
                );
                assert_eq!(log["images"].as_u64() > Some(0), flags.contains(&"--frames"), "{split}: {log}");
                assert_eq!(log["images_are_jpeg"], true);
            }
        }
        let tables = read_back(dir.path(), "inspect", &[], "inspect-tables");
        let samples: usize = records.values().map(Vec::len).sum();
        assert_eq!((&tables["evals"], &tables["samples"]), (&json!(SPLITS.len()), &json!(samples)));
        let status = if failed(&records["videomme"]).is_empty() { "success" } else { "error" };
        assert_eq!(tables["status"]["videomme"], status);
    }

    #[test]
    #[ignore = "needs other harnesses: run by ci/compare/exports"]
    fn lmms_eval_takes_the_samples_as_a_baseline() {
        let (dir, records) = runs();
        let facts = read_back(dir.path(), "lmms-eval", &[], "lmms-eval");
        for (split, records) in &records {
            let (found, answered) = (&facts[split], answered(records));
            assert_eq!(found["rows"], json!(rows(&answered)), "{split}");
            let mean = answered.iter().map(|record| record.score.value).sum::<f64>() / answered.len() as f64;
            assert!(close(&found["score"], mean), "{split}: {found}");
            let metric = if *split == "charades" { "mIoU" } else { "accuracy" };
            assert!(close(&found["metrics"][metric], score(records)), "{split}: {found}");
            assert_eq!(
                (&found["n"]["effective"], &found["profile"]),
                (&json!(answered.len()), &json!("strict"))
            );
        }
    }

    #[test]
    #[ignore = "needs other harnesses: run by ci/compare/exports"]
    fn lm_eval_and_a_converter_of_its_files_find_tasks_and_scores() {
        let (dir, records) = runs();
        let facts = read_back(dir.path(), "lm-eval", &[], "lm-eval");
        for (split, records) in &records {
            let (found, answered) = (&facts[split], answered(records));
            assert_eq!(
                (&found["rows"], &found["has_results"]),
                (&json!(rows(&answered)), &json!(true)),
                "{split}"
            );
            let metric = if *split == "charades" { "mIoU" } else { "accuracy" };
            assert!(close(&found["converted"][metric]["score"], score(records)), "{split}: {found}");
            assert_eq!(found["converted"][metric]["n"], answered.len());
        }
    }

    #[test]
    #[ignore = "needs other harnesses: run by ci/compare/exports"]
    fn every_eval_ever_finds_its_files_valid() {
        let (dir, records) = runs();
        let facts = read_back(dir.path(), "eee", &[], "eee");
        for (split, records) in &records {
            let found = &facts[split];
            assert_eq!((&found["errors"], &found["warnings"]), (&json!([]), &json!([])));
            assert_eq!(
                (&found["samples"], &found["failed"]),
                (&json!(records.len()), &json!(failed(records)))
            );
            let metric = if *split == "charades" { "mIoU" } else { "accuracy" };
            assert!(close(&found["metrics"][metric], score(records)), "{split}: {found}");
            for texts in found["texts_of_failed"].as_array().unwrap() {
                assert_eq!(texts, &json!([]), "a failed sample has no answer text");
            }
            let agentic = records.iter().filter(|record| !record.transcript.tool_calls.is_empty()).count();
            assert_eq!(found["agentic"], agentic);
        }
    }

    #[test]
    #[ignore = "needs other harnesses: run by ci/compare/exports"]
    fn harbor_validates_every_trajectory() {
        let (dir, records) = runs();
        let facts = read_back(dir.path(), "atif", &[], "atif");
        for (split, records) in &records {
            let found = &facts[split];
            assert_eq!(
                (&found["trajectories"], &found["invalid"]),
                (&json!(records.len()), &json!([])),
                "{split}"
            );
            let calls: usize = records.iter().map(|record| record.transcript.tool_calls.len()).sum();
            assert_eq!((&found["tool_calls"], &found["results"]), (&json!(calls), &json!(calls)), "{split}");
            let usages =
                records.iter().flat_map(|record| &record.transcript.calls).filter_map(|call| call.usage);
            let tokens: u64 = usages.map(|usage| usage.prompt_tokens + usage.completion_tokens).sum();
            assert_eq!(found["tokens"], json!(tokens), "{split}");
        }
    }

    #[test]
    #[ignore = "needs other harnesses: run by ci/compare/exports"]
    fn vlmevalkit_scores_the_predictions_itself() {
        let (dir, records) = runs();
        let facts = read_back(dir.path(), "vlmevalkit", &[], "vlmevalkit");
        let records = &records["videomme"];
        let (found, answered) = (&facts["Video-MME_8frame"], answered(records));
        assert_eq!((&found["rows"], &found["missing"]), (&json!(rows(&answered)), &json!(0)));
        // Every reply of the scripted model has its letter in a tag, so both read the same answers.
        let right: f64 = answered.iter().map(|record| record.score.value).sum();
        assert_eq!(found["right"].as_f64(), Some(right), "{found}");
        let overall = found["overall"].as_f64().unwrap();
        assert!(
            (overall - right / answered.len() as f64).abs() < 1e-3,
            "its numbers have three decimals: {found}"
        );
    }
}
