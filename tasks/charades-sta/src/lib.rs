#![forbid(unsafe_code)]
//! Charades-STA, test split: temporal grounding.

use paravt_suite::data::DataError;
use paravt_suite::profile::Profile;
use paravt_suite::sample::{Gold, Question, Sample};
use paravt_suite::span::TimeSpan;
use paravt_suite::task::{Benchmark, IntoSample, REVERSED_GOLD, RowContext, read};
use serde::Deserialize;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&CHARADES_STA];
/// `charades`.
pub static CHARADES_STA: Benchmark = Benchmark::new(include_str!("../benchmark.toml"), read::<Row>);

/// Interval of the first four published rows, which the reference prompt gives away as its worked example.
const PROMPT_EXAMPLE: (f64, f64) = (24.3, 30.4);
/// Half a step of the published half floats at that size.
const HALF_STEP: f64 = 1.0 / 64.0;

/// The published columns.
#[derive(Deserialize)]
struct Row {
    video: String,
    caption: String,
    /// Start and end in seconds, published as half floats.
    timestamp: Vec<f64>,
}

impl IntoSample for Row {
    fn into_sample(self, cx: &RowContext<'_>) -> Result<Option<Sample>, DataError> {
        let times = &self.timestamp;
        let [start, end] = times[..] else {
            return Err(cx.error("timestamp", format!("expected start and end, found {times:?}")));
        };
        if !(start.is_finite() && end.is_finite()) {
            return Err(cx.error("timestamp", format!("expected two finite times, found {times:?}")));
        }
        let mut flags = Vec::new();
        // The reference scores such a row 0 whatever is answered: nothing lies between its times.
        if start >= end {
            if cx.profile == Profile::Strict {
                let message = format!("expected a start before the end, found {start} and {end}");
                return Err(cx.error("timestamp", message));
            }
            flags.push(REVERSED_GOLD.to_owned());
        }
        if (start - PROMPT_EXAMPLE.0).abs() < HALF_STEP && (end - PROMPT_EXAMPLE.1).abs() < HALF_STEP {
            flags.push("prompt_example".to_owned());
        }
        let video = cx.path("video", &self.video)?;
        let question = Question { stem: self.caption, ..Question::default() };
        // Captions repeat and float text differs by printer: the row is the stable key.
        let uid = cx.number.to_string();
        let sample = cx.sample(uid, video, question, Gold::Interval { start, end });
        Ok(Some(Sample { evidence: Some(TimeSpan::new(start, end)), flags, ..sample }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample(timestamp: serde_json::Value) -> Result<Sample, DataError> {
        sample_under(Profile::Paper, timestamp)
    }

    fn sample_under(profile: Profile, timestamp: serde_json::Value) -> Result<Sample, DataError> {
        let row = json!({"video": "3MSZA.mp4", "caption": "person turn a light on.", "timestamp": timestamp});
        CHARADES_STA.sample("rows".as_ref(), 1, row.as_object().unwrap(), profile).map(Option::unwrap)
    }

    #[test]
    fn half_float_gold_is_kept_and_the_prompts_example_flagged() {
        let first = sample(json!([24.296875, 30.40625])).unwrap();
        assert_eq!(first.gold, Gold::Interval { start: 24.296875, end: 30.40625 });
        assert_eq!(first.flags, ["prompt_example"]);
        assert!(sample(json!([3.5, 11.25])).unwrap().flags.is_empty());
        assert!(sample(json!([3.5])).unwrap_err().to_string().contains("timestamp"));
    }

    #[test]
    fn a_reversed_interval_scores_zero_as_upstream_and_is_refused_under_strict() {
        let reversed = sample(json!([10.0, 5.0])).unwrap();
        assert_eq!(reversed.flags, [REVERSED_GOLD]);
        for answer in ["0 - 20", "5 - 10", "10 - 5", "6 - 7"] {
            let score = paravt_upstream::paravt::scoring::score(&reversed.gold, answer);
            assert_eq!(score.value, 0.0, "{answer}");
        }
        let message = sample_under(Profile::Strict, json!([10.0, 5.0])).unwrap_err().to_string();
        assert!(message.contains("row 1, column `timestamp`: expected a start before the end"), "{message}");
    }
}
