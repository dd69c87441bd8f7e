//! Made-up runs of the seven splits' sizes, to measure tables and page: `full_run page FILE` writes
//! the page over 14,805 samples, `full_run miniature FILE` one of the embedded reproduction's shape (three arms on seven
//! splits of 48 samples); `full_run million` counts a million records in memory up to all tables,
//! `full_run journals DIR` the same from run directories, which it writes first.
#![allow(clippy::unwrap_used)]

#[path = "../tests/all/common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::time::Instant;

use common::{manifest, record, spec};
use paravt_reports::{Report, Run, Training, page};
use paravt_suite::journal::Journal;
use paravt_suite::message::{FrameOrigin, Role};
use paravt_suite::profile::Profile;
use paravt_suite::record::{Record, RecordedMessage, RecordedPart, ToolCall, ToolOutcome};
use paravt_suite::sample::Gold;
use paravt_suite::task::Metric;

/// Splits of the published table with their rows and questions per video.
const SPLITS: [(&str, &str, usize, usize); 7] = [
    ("videomme", "Video-MME (w/o subtitles)", 2_700, 3),
    ("videomme_wsub", "Video-MME (w/ subtitles)", 2_700, 3),
    ("longvideobench", "LongVideoBench (val)", 1_337, 2),
    ("lvbench", "LVBench", 1_549, 15),
    ("mlvu", "MLVU (dev)", 2_174, 2),
    ("mmvu", "MMVU (val)", 625, 2),
    ("charades", "Charades-STA (test)", 3_720, 3),
];

/// A deterministic stream of numbers between 0 and 1.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1_u32 << 31)
    }

    /// Words that compress about as badly as a model's.
    fn words(&mut self, count: usize) -> String {
        const WORDS: [&str; 24] = [
            "the", "video", "shows", "a", "person", "who", "opens", "door", "then", "turns", "light", "near",
            "window", "because", "question", "asks", "about", "second", "scene", "answer", "option", "seems",
            "right", "frame",
        ];
        let mut text = String::new();
        for _ in 0..count {
            text.push_str(WORDS[(self.next() * WORDS.len() as f64) as usize]);
            if self.next() < 0.1 {
                text.push_str(&format!(" {:.0}", 1000.0 * self.next()));
            }
            text.push(' ');
        }
        text
    }
}

/// One sample with a conversation of realistic length when `talk` is on.
fn sample(draw: &mut Draw, task: &str, row: usize, per_video: usize, talk: bool) -> Record {
    let grounding = task == "charades";
    let value = if grounding { draw.next() } else { f64::from(u8::from(draw.next() < 0.6)) };
    let mut record = record(task, Profile::Paper, row, value);
    record.sample.video = format!("videos/{}.mp4", row / per_video).into();
    if grounding {
        record.sample.gold = Gold::Interval { start: 4.0, end: 12.5 };
    }
    if !talk {
        return record;
    }
    record.sample.question.stem = draw.words(20);
    record.sample.question.options = (0..4).map(|_| draw.words(8)).collect();
    record.sample.question.letters = "ABCD".into();
    let length = 100.0 + 3000.0 * draw.next();
    let frame = |number: usize| FrameOrigin { index: 30 * number, time: length * number as f64 / 63.0 };
    let image =
        |number| RecordedPart::Image { origin: Some(frame(number)), width: 640, height: 360, bytes: 30_000 };
    let say = |role, text: String| RecordedMessage::new(role, vec![RecordedPart::Text { text }]);
    let mut overview: Vec<RecordedPart> = (0..64).map(image).collect();
    overview.push(RecordedPart::Text { text: record.sample.question.stem.clone() });
    record.transcript.messages = vec![
        say(Role::System, "You are a careful watcher of long videos. ".repeat(30)),
        RecordedMessage::new(Role::User, overview),
        say(Role::Assistant, draw.words(150)),
    ];
    for index in 0..(4.0 * draw.next()) as usize {
        let start = length * draw.next() * 0.9;
        record.transcript.tool_calls.push(ToolCall {
            turn: 0,
            index,
            call: serde_json::json!({"name": "crop_video", "arguments": {"start_time": start, "end_time": start + 10.0}}),
            start: Some(start),
            end: Some(start + 10.0),
            outcome: ToolOutcome::Frames { frames: (0..10).map(frame).collect() },
        });
        record.transcript.messages.push(RecordedMessage::new(Role::User, (0..10).map(image).collect()));
        record.transcript.messages.push(say(Role::Assistant, draw.words(100)));
    }
    record.transcript.final_text = format!("{}<answer>B</answer>", draw.words(60));
    record
}

fn runs(talk: bool) -> Vec<Run> {
    let mut draw = Draw(7);
    SPLITS
        .iter()
        .map(|&(name, title, rows, per_video)| {
            let metric = match name {
                "charades" => Metric::Grounding { thresholds: vec![0.3, 0.5, 0.7] },
                _ => Metric::Accuracy { macro_over: None },
            };
            let records = (0..rows).map(|row| sample(&mut draw, name, row, per_video, talk)).collect();
            let manifest = manifest(spec(name, title, metric, rows), Profile::Paper, rows);
            Run { path: name.into(), manifest, records, torn_bytes: 0, training: Training::default() }
        })
        .collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["page", file] => write_page(&runs(true), file),
        ["miniature", file] => write_page(&miniature(), file),
        ["million"] => million(),
        ["journals", dir] => journals(dir.as_ref()),
        _ => {
            panic!("full_run page FILE | full_run miniature FILE | full_run million | full_run journals DIR")
        }
    }
}

fn write_page(runs: &[Run], file: &str) {
    let start = Instant::now();
    let report = Report::build(runs, Some("ParaVT-8B")).unwrap();
    let page = page::page(&report, runs, &page::Thumbnails::default()).unwrap();
    let samples: usize = runs.iter().map(|run| run.records.len()).sum();
    let megabytes = page.len() as f64 / 1e6;
    println!("{samples} samples: {megabytes:.1} MB in {:.1} s", start.elapsed().as_secs_f64());
    std::fs::write(file, page).unwrap();
}

/// Three arms with the trainings' curves, some of which do not change.
fn miniature() -> Vec<Run> {
    let mut draw = Draw(11);
    let mut runs = Vec::new();
    for (arm, (label, share)) in
        [("without tools", 0.25), ("one call at a time", 0.6), ("parallel", 0.9)].into_iter().enumerate()
    {
        for &(name, title, ..) in &SPLITS {
            let metric = match name {
                "charades" => Metric::Grounding { thresholds: vec![0.3, 0.5, 0.7] },
                _ => Metric::Accuracy { macro_over: None },
            };
            let records = (0..48).map(|row| small(&mut draw, name, row, arm, share)).collect();
            let mut manifest = manifest(spec(name, title, metric, 48), Profile::Paper, 48);
            manifest.label = Some(label.into());
            let training = Training { series: curves(&mut draw), about: None };
            runs.push(Run {
                path: format!("{arm}/{name}").into(),
                manifest,
                records,
                torn_bytes: 0,
                training: if arm == 2 && name == "videomme" { training } else { Training::default() },
            });
        }
    }
    runs
}

/// A sample of the miniature: tools in the arms that have them, evidence in the second half of the video.
fn small(draw: &mut Draw, task: &str, row: usize, arm: usize, share: f64) -> Record {
    let mut record = sample(draw, task, row, 4, true);
    // All arms are asked the same about the same videos.
    let mut shared = Draw(1 + row as u64);
    record.sample.question.stem = shared.words(20);
    record.sample.question.options = (0..4).map(|_| shared.words(8)).collect();
    if task != "charades" {
        record.score.value = f64::from(u8::from(draw.next() < share));
        let start = 60.0 + 700.0 * shared.next();
        record.sample.evidence = Some(paravt_suite::span::TimeSpan::new(start, start + 40.0));
    }
    record.transcript.tool_calls.truncate([0, 1, 5][arm]);
    record
}

fn curves(draw: &mut Draw) -> std::collections::BTreeMap<String, Vec<(f64, f64)>> {
    let value = |curve: usize, step: usize, noise: f64| match curve % 4 {
        3 => curve as f64,
        _ => 1.0 - (-(step as f64) / (2.0 + curve as f64)).exp() + 0.1 * noise,
    };
    let mut points = |curve| (0..16).map(|step| (step as f64, value(curve, step, draw.next()))).collect();
    (0..25).map(|curve| (format!("curve_{curve:02}"), points(curve))).collect()
}

/// Times that the seven splits make a million records.
const ROUNDS: usize = 68;

/// More than a million records in memory.
fn million() {
    let runs = runs(false);
    let records = ROUNDS * runs.iter().map(|run| run.records.len()).sum::<usize>();
    let start = Instant::now();
    let report = Report::build(std::iter::repeat_n(&runs, ROUNDS).flatten(), Some("ParaVT-8B")).unwrap();
    conclude(records, &report, start);
}

/// The same from disk. Writing is another process's time and memory: it runs once.
fn journals(dir: &Path) {
    let paths: Vec<PathBuf> = (0..ROUNDS).map(|round| dir.join(round.to_string())).collect();
    if !dir.exists() {
        let runs = runs(false);
        for (path, run) in paths.iter().flat_map(|path| runs.iter().map(move |run| (path, run))) {
            let path = path.join(&run.manifest.task.name);
            std::fs::create_dir_all(&path).unwrap();
            Journal::create(&path, &run.manifest).unwrap().append(&run.records).unwrap();
        }
        return println!("written; run it again to measure");
    }
    let start = Instant::now();
    let report = Report::read(&paths, Some("ParaVT-8B")).unwrap();
    let records = report.cells.iter().map(|cell| cell.summary.n_recorded).sum();
    conclude(records, &report, start);
}

fn conclude(records: usize, report: &Report, start: Instant) {
    let tables = report.tables().unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!("{records} records to {} tables in {seconds:.2} s; {peak}", tables.len());
}
