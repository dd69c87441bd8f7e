//! A real browser opens the page from disk and does what a reader does, while a model, a file name
//! and a label try to break out of it.
//!
//! Needs Chromium, its driver and the Python that `ci/setup` installs (`PARAVT_PYTHON`). Screenshots
//! go to `$PARAVT_SCREENSHOTS`, where it is set.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{jpegs, whole};
use paravt_reports::page::{self, Thumbnails};
use paravt_reports::{Report, Run, Training};
use paravt_suite::fixtures::{crop, image};
use paravt_suite::message::{FrameOrigin, Role};
use paravt_suite::record::{Record, RecordedMessage, RecordedPart, ToolCall, ToolOutcome};
use serde_json::Value;

/// What must never run, open, load or turn a line around.
const HOSTILE: [&str; 8] = [
    "<script>window.hostile = 1; alert(1)</script>",
    "\"><img src=x onerror=\"window.hostile = 2\">",
    "</script><script>window.hostile = 3</script>",
    "<!-- --><svg onload=\"window.hostile = 4\">",
    "\u{202e}gnihton siht\u{202c} \u{2066}x",
    "<img src=\"https://example.org/pixel.png\"><link rel=stylesheet href=\"https://example.org/x.css\">",
    "{{ 7 * 7 }} {% raw %} ${7*7} javascript:window.hostile=5",
    "]]></pre></dialog></main><form action=https://example.org><button>x",
];

/// A row of Video-MME that is right with tools and wrong without.
const PAIR: usize = 105;

/// A frame of a video of one frame a second.
fn frame(time: f64) -> FrameOrigin {
    FrameOrigin { index: time as usize, time }
}

fn say(role: Role, text: &str) -> RecordedMessage {
    RecordedMessage::new(role, vec![RecordedPart::Text { text: text.to_owned() }])
}

/// Everything that a sample can carry in from outside, hostile.
fn poison(record: &mut Record) {
    let all = HOSTILE.join("\n");
    let window = |index: usize, start: f64, end: f64, outcome| ToolCall {
        call: serde_json::json!({"name": "crop_video", "arguments": {"start_time": start, "video_path": all}}),
        outcome,
        ..crop(index / 2, index % 2, (start, end), vec![])
    };
    record.sample.uid =
        format!("hostile {} {}", record.sample.row, HOSTILE[record.sample.row % HOSTILE.len()]);
    record.sample.video = format!("videos/{}.mp4", HOSTILE[1].replace('/', "_")).into();
    record.sample.question.stem = all.clone();
    record.sample.question.options = HOSTILE.iter().map(|text| (*text).to_owned()).collect();
    record.sample.question.letters = "ABCDEFGH".into();
    record.sample.evidence = Some(paravt_suite::span::TimeSpan::new(120.0, 180.0));
    record.transcript.messages = vec![
        say(Role::System, &all),
        RecordedMessage::new(Role::User, (0..8).map(|at| image(frame(100.0 * f64::from(at)))).collect()),
        say(Role::Assistant, &format!("{all}{}", "x<b>&".repeat(200_000))),
    ];
    record.transcript.tool_calls = vec![
        window(0, 100.0, 160.0, ToolOutcome::Frames { frames: vec![frame(100.0), frame(130.0)] }),
        window(1, 400.0, 460.0, ToolOutcome::Summary { frames: vec![frame(400.0)], text: all.clone() }),
        window(2, 650.0, 690.0, ToolOutcome::CropFailed { reason: all.clone() }),
    ];
    record.transcript.final_text = all.clone();
    record.transcript.calls[0].text = all.clone();
    record.score.prediction = Some(HOSTILE[0].to_owned());
    record.score.rule = Some(HOSTILE[1].to_owned());
}

/// Three splits, one of them in two modes, one that trained; hostile wherever text comes from outside.
fn runs() -> Vec<Run> {
    let mut tool = whole("videomme", "Video-MME (w/o subtitles)", 240, 150);
    let mut direct = whole("videomme", "Video-MME (w/o subtitles)", 240, 140);
    direct.manifest.plan.mode = paravt_suite::protocol::PromptMode::named("direct");
    let mut lvbench = whole("lvbench", "LVBench", 300, 96);
    let mmvu = whole("mmvu", "MMVU (val, multiple choice)", 120, 84);
    for record in &mut tool.records {
        let row = record.sample.row as f64;
        let start = (37.0 * row) % 700.0;
        record.transcript.messages = vec![RecordedMessage::new(
            Role::User,
            (0..8)
                .map(|at| image(frame(103.0 * f64::from(at))))
                .chain([RecordedPart::Text { text: "What happens after the door opens?".into() }])
                .collect(),
        )];
        for index in 0..record.sample.row % 4 {
            let start = start + 12.0 * index as f64;
            record.transcript.tool_calls.push(crop(0, index, (start, start + 10.0), vec![frame(start)]));
        }
    }
    for run in [&mut tool, &mut direct] {
        run.records[PAIR].sample.evidence = Some(paravt_suite::span::TimeSpan::new(500.0, 560.0));
    }
    direct.records.iter_mut().skip(100).take(20).for_each(|record| record.score.value = 0.0);
    for row in [3, 4, 5, 6] {
        poison(&mut lvbench.records[row]);
    }
    lvbench.records[3].transcript.truncated = true;
    lvbench.manifest.backend.model = HOSTILE[1].into();
    lvbench.manifest.command = vec!["paravt-bench".into(), "run".into(), HOSTILE[2].into()];
    for record in &mut lvbench.records {
        let label = if record.sample.row % 3 == 0 { HOSTILE[4] } else { HOSTILE[0] };
        record.sample.tags.insert("duration".into(), vec![label.to_owned()]);
    }
    let curve =
        |value: fn(f64) -> f64| (0..50).map(|step| (f64::from(step), value(f64::from(step)))).collect();
    lvbench.training = Training {
        series: [
            ("f_tau".to_owned(), curve(|step| 0.13 + 0.5 * (1.0 - (-step / 15.0).exp()))),
            (HOSTILE[0].to_owned(), curve(|step| (step / 5.0).sin())),
        ]
        .into(),
        about: None,
        ..Training::default()
    };
    vec![direct, tool, lvbench, mmvu]
}

/// Makes the hostile samples' video, so that there are frames to show.
fn film(folder: &Path, runs: &mut [Run]) {
    std::fs::create_dir(folder).unwrap();
    let path = folder.join(format!("{}.mp4", HOSTILE[1].replace('/', "_")));
    std::fs::write(&path, "").unwrap();
    for record in runs.iter_mut().flat_map(|run| &mut run.records) {
        if record.sample.uid.starts_with("hostile") {
            record.sample.video.clone_from(&path);
        }
    }
}

fn browse(page: &Path, screenshots: &Path, pair: &str) -> Value {
    let python =
        std::env::var("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
    let output = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser.py"))
        .args([page, screenshots])
        .arg(pair)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The videos where the made-up runs say they are.
fn videos(runs: &[Run]) -> page::Videos {
    let of = |run: &Run| {
        let task = run.manifest.task.name.clone();
        run.records
            .iter()
            .map(|record| ((task.clone(), record.sample.uid.clone()), record.sample.video.clone()))
            .collect::<Vec<_>>()
    };
    runs.iter().flat_map(of).collect()
}

#[test]
#[ignore = "needs a browser and Python: run by ci/test"]
fn the_page_shows_everything_and_runs_no_foreign_script() {
    let mut runs = runs();
    let report = Report::build(&runs, Some("ParaVT-8B")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let screenshots = std::env::var_os("PARAVT_SCREENSHOTS").map_or(dir.path().join("shots"), Into::into);
    // A folder that a URL has to escape.
    let folder = dir.path().join("a report #1 %41");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("index.html");
    film(&dir.path().join("videos"), &mut runs);
    let thumbnails = Thumbnails::write(&runs, &videos(&runs), &folder, &jpegs).unwrap();
    assert!(thumbnails.unreadable > 0, "all other videos are made up");
    std::fs::write(&path, page::page(&report, &runs, &thumbnails).unwrap()).unwrap();
    let shown = page::address(&report, 1, Some(0), &PAIR.to_string());
    let pair = format!("{shown}&split=videomme&flip=gained");
    let found = browse(&path, &screenshots, &pair);

    assert_eq!(found["console"], serde_json::json!([]), "console");
    assert_eq!(found["requests"], serde_json::json!([]), "network");
    assert_eq!(found["ran"], Value::Null, "something a model wrote has run");
    assert_eq!((&found["inserted"], &found["handlers"]), (&serde_json::json!([]), &serde_json::json!(0)));
    assert_eq!(found["title"], "paravt-bench");

    assert_eq!(found["all"], "900 of 900 samples");
    assert!(found["drawn"].as_u64().unwrap() < 60, "only rows in view are drawn: {}", found["drawn"]);
    for (filter, samples) in [
        ("result=right", 450),
        ("result=wrong", 450),
        ("tools=used", 184),
        ("flip=gained", 30),
        ("flip=any", 30),
        ("loss=truncated", 1),
        ("run=direct · made-up-8b", 240),
        ("split=lvbench", 300),
        ("name", 4),
        ("question", 4),
        ("not in questions", 0),
        ("transcript", 240),
    ] {
        let count = &found["search"]["counts"][filter];
        assert_eq!(*count, format!("{samples} of 900 samples"), "{filter}");
    }
    tables_sort_and_filter(&found["tables"]);
    an_address_restores_a_pair(&found["pair"]);
    everything_is_reached_by_keys(&found["keyboard"]);

    let transcript = found["transcript"].as_str().unwrap();
    for text in HOSTILE.iter().filter(|text| !text.contains('\u{202e}')) {
        assert!(transcript.contains(text), "{text} is not shown in {transcript}");
    }
    assert!(transcript.contains("⟨U+202E⟩gnihton siht⟨U+202C⟩"), "{transcript}");
    assert!(found["long_texts"][0].as_str().unwrap().starts_with("Show all 1000"), "{}", found["long_texts"]);
    assert!(found["transcript_length"].as_u64().unwrap() > 1_000_000);
    // The frames that the record names: 8 of the overview, 2 and 1 of the crops; every one of them loads.
    assert_eq!((&found["frames"], &found["frames_loaded"]), (&serde_json::json!(11), &serde_json::json!(11)));
    assert_eq!(found["closed"], true);
    let address = found["address"].as_str().unwrap();
    assert!(address.starts_with("#q=hostile&sample=lvbench%2Fhostile"), "{address}");
    assert_eq!(found["first_column"], 0, "the first column stays in view");
    assert_eq!(
        (&found["wide"], &found["phone_wide"]),
        (&Value::Bool(false), &Value::Bool(false)),
        "page scrolls sideways"
    );
    let cut = found["cut"].as_u64().unwrap();
    assert!(
        cut > 3 && found["unmarked"] == 0,
        "{cut} boxes are wider than a phone, {} without a sign",
        found["unmarked"]
    );
    for scheme in ["light", "dark"] {
        let least = &found["contrast"][scheme];
        assert!(least[0].as_f64().unwrap() >= 4.5, "{scheme}: {least}");
    }
    // What is folded on the screen is folded on paper.
    assert!(found["pages"].as_u64().unwrap() <= 10, "{} pages", found["pages"]);
    assert!(found["first_paint_ms"].as_f64().unwrap() < 5_000.0, "{}", found["first_paint_ms"]);
}

fn tables_sort_and_filter(found: &Value) {
    // Below each split its runs; a split that was not run has no score.
    let order = |at: usize| -> Vec<Vec<f64>> {
        let splits = found["orders"][at].as_array().unwrap();
        assert_eq!(splits.len(), 7, "{found}");
        let scores = |split: &Value| {
            let texts = split.as_array().unwrap().iter().map(|text| text.as_str().unwrap());
            texts.filter(|text| !text.is_empty()).map(|score| score.parse().unwrap()).collect()
        };
        splits.iter().map(scores).collect()
    };
    let (as_written, up, down) = (order(0), order(1), order(2));
    assert!(up.iter().all(|split| split.is_sorted()), "{found}");
    assert!(down.iter().all(|split| split.is_sorted_by(|a, b| a >= b)), "{found}");
    assert_ne!(down, as_written, "{found}");
    assert_eq!(order(3), as_written, "the third click restores the order");
    assert_eq!(
        (&found["address"], &found["sort"]),
        (&"#sort.scores=score_percent".into(), &"ascending".into())
    );
    assert_eq!(found["left"], serde_json::json!(["span", ""]), "the row of LVBench under its split");
    let links = found["links"].as_array().unwrap();
    for name in ["scores", "comparison", "breakdowns", "samples", "calls", "frames", "cost", "setups"] {
        assert!(links.contains(&format!("tables/{name}.csv").into()), "{name}: {links:?}");
    }
}

fn an_address_restores_a_pair(found: &Value) {
    assert_eq!(found["title"], format!("videomme {PAIR} · agentic_general · made-up-8b: right"));
    assert_eq!(found["sides"][0], "agentic_general · made-up-8b: right");
    assert_eq!(found["sides"][1], "direct · made-up-8b: wrong");
    assert_eq!(found["count"], "30 of 900 samples");
    assert_eq!(
        (&found["split"], &found["flip"], &found["result"]),
        (&"videomme".into(), &"gained".into(), &"".into())
    );
    // One window; the evidence; eight frames of the overview and one of the window.
    assert_eq!((&found["windows"], &found["evidence"], &found["frames"]), (&1.into(), &1.into(), &9.into()));
    assert_eq!(found["lines"][0], "agentic_general · made-up-8b: 8 frames of the overview, 1 of crops");
    assert_eq!(found["lines"][1], "direct · made-up-8b: no recorded frame");
    assert_eq!(found["wide"], false);
}

fn everything_is_reached_by_keys(found: &Value) {
    assert_eq!((&found["first"], &found["rings"]), (&"To the samples".into(), &true.into()), "{found}");
    let order = found["order"].as_array().unwrap();
    let at = |name: &str| {
        order.iter().position(|focus| focus == name).unwrap_or_else(|| panic!("{name}: {order:?}"))
    };
    let places = ["Scores", "Chart of scores", "scores.csv", "q", "flip", "samples.csv", "list"].map(at);
    assert!(places.is_sorted(), "{order:?}");
    let rows: Vec<&str> = found["rows"].as_array().unwrap().iter().map(|row| row.as_str().unwrap()).collect();
    assert_eq!(rows[..5], ["0", "0", "1", "119", "0"], "two runs answer each question of the first split");
    assert_eq!(found["opened"], "videomme 0 · direct · made-up-8b: right");
    assert_eq!(found["next"], "videomme 0 · agentic_general · made-up-8b: right");
    assert_eq!((&found["back"], &found["row"]), (&"list".into(), &"0".into()));
}
