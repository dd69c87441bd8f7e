//! Made-up runs of the seven splits' sizes, to measure the page: `full_run page FILE` writes it over 14,805 samples.
#![allow(clippy::unwrap_used)]

#[path = "../tests/all/common/mod.rs"]
mod common;

use std::time::Instant;

use common::{manifest, page_of, record, spec};
use paravt_reports::{Report, Run, Training};
use paravt_suite::fixtures;
use paravt_suite::message::{FrameOrigin, Role};
use paravt_suite::profile::Profile;
use paravt_suite::record::{Record, RecordedMessage, RecordedPart};
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

/// One sample with a conversation of realistic length.
fn sample(draw: &mut Draw, task: &str, row: usize, per_video: usize) -> Record {
    let grounding = task == "charades";
    let value = if grounding { draw.next() } else { f64::from(u8::from(draw.next() < 0.6)) };
    let mut record = record(task, Profile::Paper, row, value);
    record.sample.video = format!("videos/{}.mp4", row / per_video).into();
    if grounding {
        record.sample.gold = Gold::Interval { start: 4.0, end: 12.5 };
    }
    record.sample.question.stem = draw.words(20);
    record.sample.question.options = (0..4).map(|_| draw.words(8)).collect();
    record.sample.question.letters = "ABCD".into();
    let length = 100.0 + 3000.0 * draw.next();
    let frame = |number: usize| FrameOrigin { index: 30 * number, time: length * number as f64 / 63.0 };
    let image = |number| fixtures::image(frame(number));
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
        let frames = (0..10).map(frame).collect();
        record.transcript.tool_calls.push(fixtures::crop(0, index, (start, start + 10.0), frames));
        record.transcript.messages.push(RecordedMessage::new(Role::User, (0..10).map(image).collect()));
        record.transcript.messages.push(say(Role::Assistant, draw.words(100)));
    }
    record.transcript.final_text = format!("{}<answer>B</answer>", draw.words(60));
    record
}

fn runs() -> Vec<Run> {
    let mut draw = Draw(7);
    SPLITS
        .iter()
        .map(|&(name, title, rows, per_video)| {
            let metric = match name {
                "charades" => Metric::Grounding { thresholds: vec![0.3, 0.5, 0.7] },
                _ => Metric::Accuracy { macro_over: None },
            };
            let records = (0..rows).map(|row| sample(&mut draw, name, row, per_video)).collect();
            let manifest = manifest(spec(name, title, metric, rows), Profile::Paper, rows);
            Run { path: name.into(), manifest, records, torn_bytes: 0, training: Training::default() }
        })
        .collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [mode, file] if mode == "page" => write_page(&runs(), file),
        _ => panic!("full_run page FILE"),
    }
}

fn write_page(runs: &[Run], file: &str) {
    let start = Instant::now();
    let report = Report::build(runs, Some("ParaVT-8B")).unwrap();
    let page = page_of(&report, runs);
    let samples: usize = runs.iter().map(|run| run.records.len()).sum();
    let megabytes = page.len() as f64 / 1e6;
    println!("{samples} samples: {megabytes:.1} MB in {:.1} s", start.elapsed().as_secs_f64());
    std::fs::write(file, page).unwrap();
}
