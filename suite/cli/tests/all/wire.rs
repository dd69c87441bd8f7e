//! Requests are those of the reference's driver.
//!
//! `tests/wire` holds what ParaVT cf55249 `paravt/eval/driver.py` sent over the data root beside it, recorded by
//! `ci/compare/wire CHECKOUT --record` in the pinned environment, with the stand-in's words in the place of its own.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::common::server::{Script, Server};
use crate::common::{SPLITS, imported, run_on, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::Value;

/// Mean difference of a picture's cells in levels, mostly of two JPEG decoders; another way to reduce chroma
/// costs three.
const CELL: f64 = 1.0;
/// Mean difference of the block where the chroma varies most, and decoders differ most too.
const BLOCK: f64 = 5.0;

/// What was recorded of one split, mode and channel.
#[derive(Deserialize)]
struct Recording {
    nframes: usize,
    samples: Vec<Outcome>,
    exchanges: Vec<Exchange>,
}

/// What became of a sample.
#[derive(Deserialize)]
struct Outcome {
    score: f64,
    tool_calls: usize,
    #[serde(default)]
    error: bool,
}

#[derive(Deserialize, Clone)]
struct Exchange {
    path: String,
    /// Messages that the request shares with the one before.
    same: usize,
    messages: Vec<Value>,
    status: u16,
    /// The text of a completion, or the body of a refusal.
    reply: Value,
    /// The request's other fields.
    #[serde(flatten)]
    fields: serde_json::Map<String, Value>,
}

/// Descriptions of all recorded pictures.
#[derive(Deserialize)]
struct Pictures {
    grid: usize,
    block: usize,
    how: Vec<Encoding>,
    pictures: Vec<Picture>,
}

/// Quantisation tables, then (across, down, table) of each component.
#[derive(Deserialize, Debug, PartialEq)]
struct Encoding(Vec<Vec<u8>>, Vec<[u8; 3]>);

#[derive(Deserialize)]
struct Picture {
    size: [usize; 2],
    how: usize,
    /// Mean colours of the cells, row by row.
    cells: String,
    /// Left and top of the block.
    at: [usize; 2],
    block: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire")
}

fn read<T: for<'a> Deserialize<'a>>(name: &str) -> T {
    serde_json::from_slice(&std::fs::read(folder().join(name)).unwrap()).unwrap()
}

fn pictures() -> &'static Pictures {
    static PICTURES: OnceLock<Pictures> = OnceLock::new();
    PICTURES.get_or_init(|| read("pictures.json"))
}

/// Without the repetitions of a request that the server refuses as it is: the reference asks three times,
/// this driver once.
fn without_repetitions(exchanges: Vec<Exchange>) -> Vec<Exchange> {
    let mut kept: Vec<Exchange> = Vec::new();
    for exchange in exchanges {
        let repeats = exchange.messages.is_empty() && exchange.status == 400;
        if !repeats || kept.last().is_none_or(|last| last.status != 400) {
            kept.push(exchange);
        }
    }
    kept
}

/// The run's requests, answered by the recorded replies one after the other, and its journal.
fn sent(
    split: &str,
    mode: &str,
    channel: &str,
    recording: &Recording,
    exchanges: &[Exchange],
) -> (Vec<Value>, Vec<paravt_suite::record::Record>) {
    let replies = exchanges.iter().map(|one| (one.status, one.reply.clone())).collect();
    let server = Server::start(Script { replies: Some(replies), ..Script::default() });
    let out = tempfile::tempdir().unwrap();
    let mut command = run_on(&folder().join("root"), &[split], out.path(), &server.base_url);
    command.env("PARAVT_BENCH_CACHE", imported()).args(["--profile", "release", "--protocol", "paravt"]);
    command.args(["--mode", mode, "--channel", channel, "--nframes", &recording.nframes.to_string()]);
    let output = command.args(["--concurrency", "1", "--retry-pause", "0.01"]).output().unwrap();
    let contents = paravt_suite::journal::read(&out.path().join(split));
    let mut records = contents.unwrap_or_else(|error| panic!("{error}: {}", text(&output))).records;
    records.sort_by_key(|record| record.sample.row);
    let requests = std::mem::take(&mut *server.all.lock().unwrap());
    (requests, records)
}

/// Quantisation tables and sampling of a JPEG file.
fn encoding(data: &[u8]) -> Encoding {
    let (mut tables, mut components, mut at) = (std::collections::BTreeMap::new(), Vec::new(), 2);
    while data[at + 1] != 0xDA {
        let length = usize::from(data[at + 2]) << 8 | usize::from(data[at + 3]);
        let body = &data[at + 4..at + 2 + length];
        match data[at + 1] {
            0xDB => tables.extend(body.chunks(65).map(|table| (table[0], table[1..].to_vec()))),
            0xC0..=0xC2 => {
                components = body[6..].chunks(3).map(|part| [part[1] >> 4, part[1] & 15, part[2]]).collect();
            }
            _ => {}
        }
        at += 2 + length;
    }
    Encoding(tables.into_values().collect(), components)
}

/// Mean absolute difference of two lists of levels.
fn distance(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(*b))).sum::<f64>() / a.len() as f64
}

/// Largest differences that were met: of a cell, of a block.
type Largest = (f64, f64);

fn compare_picture(number: usize, url: &str, largest: &mut Largest) -> Vec<String> {
    let all = pictures();
    let expected = &all.pictures[number];
    let Some(data) = url.strip_prefix("data:image/jpeg;base64,") else {
        return vec![format!("{}… is not a JPEG file in base64", &url[..url.len().min(30)])];
    };
    let data = BASE64.decode(data).unwrap();
    let pixels = image::load_from_memory_with_format(&data, image::ImageFormat::Jpeg).unwrap().into_rgb8();
    let [width, height] = [pixels.width(), pixels.height()].map(|side| side as usize);
    let mut found = Vec::new();
    if encoding(&data) != all.how[expected.how] {
        found.push("quantisation tables or sampling".to_owned());
    }
    if [width, height] != expected.size {
        found.push(format!("{width} by {height} pixels, expected {:?}", expected.size));
        return found;
    }
    let level = |x: usize, y: usize, channel: usize| pixels.as_raw()[(y * width + x) * 3 + channel];
    let edges = |side: usize| -> Vec<usize> { (0..=all.grid).map(|n| n * side / all.grid).collect() };
    let mut cells = Vec::new();
    for rows in edges(height).windows(2) {
        for columns in edges(width).windows(2) {
            let count = ((rows[1] - rows[0]) * (columns[1] - columns[0])) as f64;
            cells.extend((0..3).map(|channel| {
                let places = (rows[0]..rows[1]).flat_map(|y| (columns[0]..columns[1]).map(move |x| (x, y)));
                let sum: f64 = places.map(|(x, y)| f64::from(level(x, y, channel))).sum();
                (sum / count).round() as u8
            }));
        }
    }
    let [left, top] = expected.at;
    let block: Vec<u8> = (0..all.block * all.block * 3)
        .map(|n| level(left + n / 3 % all.block, top + n / 3 / all.block, n % 3))
        .collect();
    let cells = distance(&cells, &BASE64.decode(&expected.cells).unwrap());
    let block = distance(&block, &BASE64.decode(&expected.block).unwrap());
    *largest = (largest.0.max(cells), largest.1.max(block));
    if cells > CELL || block > BLOCK {
        found.push(format!("picture {number}: cells differ by {cells:.2} levels, the block by {block:.2}"));
    }
    found
}

/// Differences of a value to what was recorded; pictures are compared by their descriptions.
fn compare(expected: &Value, found: &Value, place: &str, differing: &mut Vec<String>, largest: &mut Largest) {
    match (expected, found) {
        (Value::Object(a), Value::String(url)) if a.contains_key("picture") => {
            let number = a["picture"].as_u64().unwrap() as usize;
            let lines = compare_picture(number, url, largest);
            differing.extend(lines.into_iter().map(|line| format!("{place}: {line}")));
        }
        (Value::Object(a), Value::Object(b))
            if a.len() == b.len() && a.keys().all(|key| b.contains_key(key)) =>
        {
            a.iter().for_each(|(key, a)| compare(a, &b[key], &format!("{place}.{key}"), differing, largest));
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (number, (a, b)) in a.iter().zip(b).enumerate() {
                compare(a, b, &format!("{place}[{number}]"), differing, largest);
            }
        }
        (Value::String(a), Value::String(b)) => {
            if a.replace("ROOT", folder().join("root").to_str().unwrap()) != *b {
                differing.push(format!("{place}: {a:?}, ours {b:?}"));
            }
        }
        (a, b) if a == b => {}
        (a, b) => differing.push(format!("{place}: {}, ours {}", cut(a), cut(b))),
    }
}

fn cut(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

/// Requests and outcomes of one recording.
fn check(split: &str, mode: &str, channel: &str) {
    let recording: Recording = read(&format!("{split}-{mode}-{channel}.json"));
    let exchanges = without_repetitions(recording.exchanges.clone());
    let (requests, records) = sent(split, mode, channel, &recording, &exchanges);
    let (mut differing, mut messages, mut largest) = (Vec::new(), Vec::new(), (0.0, 0.0));
    for (number, (exchange, request)) in exchanges.iter().zip(&requests).enumerate() {
        messages.truncate(exchange.same);
        messages.extend(exchange.messages.iter().cloned());
        let mut expected = exchange.fields.clone();
        expected.insert("messages".to_owned(), Value::from(messages.clone()));
        assert_eq!(exchange.path, "/v1/chat/completions", "the only one that the server answers");
        compare(&Value::from(expected), request, &format!("request {number}"), &mut differing, &mut largest);
    }
    let shown = differing.iter().take(8).cloned().collect::<Vec<_>>().join("\n");
    assert!(differing.is_empty(), "{split} {mode} {channel}: {} differences\n{shown}", differing.len());
    assert_eq!(requests.len(), exchanges.len(), "{split} {mode} {channel}: requests");
    println!("{split} {mode} {channel}: {} requests, {largest:.2?}", requests.len());

    assert_eq!(records.len(), recording.samples.len(), "{split} {mode} {channel}: samples");
    for (record, expected) in records.iter().zip(&recording.samples) {
        let place = format!("{split} {mode} {channel}: sample {}", record.sample.uid);
        assert_eq!(record.score.value, expected.score, "{place}");
        // The reference forgets the calls of a sample that fails, and takes a failed request's message for an answer.
        if record.error.is_none() {
            assert!(!expected.error, "{place} is an error of the reference");
            assert_eq!(record.transcript.tool_calls.len(), expected.tool_calls, "{place}");
        }
    }
}

fn check_mode(mode: &str) {
    for split in SPLITS {
        check(split, mode, "image");
    }
    for split in ["charades", "lvbench"] {
        check(split, mode, "video");
    }
}

#[test]
fn requests_of_mode_direct_are_the_references() {
    check_mode("direct");
}

#[test]
fn requests_of_mode_reasoning_are_the_references() {
    check_mode("reasoning");
}

#[test]
fn requests_of_mode_agentic_general_are_the_references() {
    check_mode("agentic_general");
}

#[test]
fn requests_of_mode_agentic_minimal_are_the_references() {
    check_mode("agentic_minimal");
}

/// `ci/compare/wire --record` runs under this file; PARAVT_UPDATE=1 writes it.
#[test]
fn the_protocol_beside_the_recordings_is_the_stand_in() {
    let stored = std::fs::read_to_string(imported().join("protocol/paravt.json")).unwrap();
    let file = folder().join("paravt.json");
    if std::env::var_os("PARAVT_UPDATE").is_some() {
        std::fs::write(&file, &stored).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), stored);
}
