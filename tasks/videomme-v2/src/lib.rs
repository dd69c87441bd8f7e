#![forbid(unsafe_code)]
//! Video-MME-v2: four questions with eight options about each video, scored together.

mod scoring;

use paravt_suite::task::{Benchmark, KeptQuirks};
use serde_json::Value;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&VIDEO_MME_V2, &WITH_SUBTITLES];
/// `videomme_v2`.
pub static VIDEO_MME_V2: Benchmark =
    Benchmark::described(include_str!("../benchmark.toml")).with_scorer(&scoring::FirstCapital);
/// `videomme_v2_wsub`.
pub(crate) static WITH_SUBTITLES: Benchmark = Benchmark::described(include_str!("../benchmark.toml"))
    .with_changes(include_str!("../with_subtitles.toml"))
    .with_scorer(&scoring::FirstCapital)
    .with_subtitles(spoken);

/// The words of a file with one JSON object a line, with a space between two (`load_subtitle_v2` in lmms-eval 75571cf
/// `lmms_eval/tasks/videomme_v2/utils.py`). A file with a line that holds no word shows none, as there.
fn spoken(content: &str, _quirks: KeptQuirks<'_>) -> String {
    let lines = content.lines().map(str::trim).filter(|line| !line.is_empty());
    let word = |line: &str| Some(serde_json::from_str::<Value>(line).ok()?["text"].as_str()?.to_owned());
    lines.map(word).collect::<Option<Vec<_>>>().unwrap_or_default().join(" ")
}
