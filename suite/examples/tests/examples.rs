//! The examples run, one after the other, as their readers would run them.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use axum::routing::{get, post};
use axum::{Json, Router};
use paravt_nano::{WorldOptions, make_world};
use serde_json::{Value, json};

/// Runs a program; its standard output.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// A server that answers A to everything; its base URL.
fn serve(runtime: &tokio::runtime::Runtime) -> String {
    async fn complete(_: Json<Value>) -> Json<Value> {
        let message = json!({"role": "assistant", "content": "<answer>A</answer>"});
        Json(json!({"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}))
    }
    let app = Router::new()
        .route("/v1/models", get(|| async { Json(json!({"data": [{"id": "says-a"}]})) }))
        .route("/v1/chat/completions", post(complete))
        .layer(axum::extract::DefaultBodyLimit::disable());
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    runtime.spawn(async move { axum::serve(listener, app).await });
    base_url
}

#[test]
fn every_example_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (data, a, b) = (path("data"), path("a"), path("b"));
    make_world(Path::new(&data), &WorldOptions { videos: 2, questions: 3, ..WorldOptions::default() })
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();

    let evaluated = env!("CARGO_BIN_EXE_evaluate_one_split");
    let first = run(evaluated, &[&serve(&runtime), &data, &a]);
    assert!(first.contains("Finished: accuracy") && first.contains("0 failed"), "{first}");
    assert_eq!(first.matches("Some(\"A\")").count(), 6, "one line a sample: {first}");
    let again = run(evaluated, &[&serve(&runtime), &data, &a]);
    assert!(!again.contains("Some(\"A\")") && again.contains("Finished"), "nothing is left to do: {again}");

    let guessed = run(env!("CARGO_BIN_EXE_own_backend"), &["A", &data, &b]);
    let accuracy = |text: &str| {
        let rest = text.split("accuracy ").nth(1).unwrap();
        rest[..5].parse::<f64>().unwrap()
    };
    assert!(guessed.starts_with("always A") && guessed.contains("of 6 samples"), "{guessed}");
    assert_eq!(accuracy(&guessed), accuracy(&first), "the server gives the same answers");

    let read = run(env!("CARGO_BIN_EXE_read_a_run"), &[&a]);
    assert!(read.contains("by says-a, 6 records") && read.contains("complete: true"), "{read}");

    let compared = run(env!("CARGO_BIN_EXE_compare_two_runs"), &[&a, &b]);
    assert!(compared.contains("LVBench") && compared.contains("+0.0"), "{compared}");
}

#[test]
fn the_published_schema_of_records_is_generated_from_the_types() {
    let printed = run(env!("CARGO_BIN_EXE_record_schema"), &[]);
    let published = include_str!("../../docs/record.schema.json");
    assert!(
        printed == published,
        "suite/docs/record.schema.json is out of date; write it again: \
         cargo run -p paravt-examples --bin record_schema > suite/docs/record.schema.json"
    );
}

/// Validates every line of a journal, and the same lines with one field broken.
const VALIDATE: &str = r#"
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
valid = jsonschema.Draft202012Validator(schema).is_valid
records = [json.loads(line) for line in open(sys.argv[2])]
broken = [
    lambda record: record["score"].update(value="high"),
    lambda record: record["score"].update(outcome="guessed"),
    lambda record: record["sample"].pop("uid"),
    lambda record: record.update(profile="mine"),
    lambda record: record["transcript"]["messages"][0]["parts"][0].update(type="sound"),
]
accepted = sum(map(valid, records))
refused = 0
for record in records:
    for change in broken:
        copy = json.loads(json.dumps(record))
        change(copy)
        refused += not valid(copy)
print(len(records), accepted, refused)
"#;

#[test]
#[ignore = "needs Python: run by ci/test"]
fn records_of_a_run_are_valid_by_the_published_schema() {
    let python =
        std::env::var("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (data, out) = (path("data"), path("run"));
    make_world(Path::new(&data), &WorldOptions { videos: 2, questions: 3, ..WorldOptions::default() })
        .unwrap();
    run(env!("CARGO_BIN_EXE_own_backend"), &["A", &data, &out]);
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/record.schema.json");
    let journal = format!("{out}/journal.jsonl");
    assert_eq!(run(&python, &["-c", VALIDATE, schema, &journal]).trim(), "6 6 30");
}
