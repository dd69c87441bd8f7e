#![forbid(unsafe_code)]
//! Charades-STA, test split: temporal grounding.

use paravt_suite::data::{Cells, DataError, Folders, Layout};
use paravt_suite::profile::Profile;
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::task::{HubSource, Metric, Task, TaskSpec};

/// Interval of the first three published rows, which the reference prompt gives away as its
/// worked example (§2.4 row 17).
const PROMPT_EXAMPLE: (f64, f64) = (24.3, 30.4);
/// Half a step of the published half floats at that size.
const HALF_STEP: f64 = 1.0 / 64.0;

/// Flag of a row whose interval does not end after it starts.
const REVERSED: &str = "reversed_gold";

/// Charades-STA.
pub struct CharadesSta {
    spec: TaskSpec,
    layout: Layout,
}

impl CharadesSta {
    /// The test split.
    pub fn new() -> Self {
        let spec = TaskSpec {
            name: "charades".into(),
            title: "Charades-STA (test)".into(),
            hub: HubSource {
                repos: vec!["lmms-eval/charades_sta".into(), "lmms-lab/charades_sta".into()],
                config: None,
                split: "test".into(),
                revision: None,
                annotations: "data/test-00000-of-00001.parquet".into(),
                media: (1..=4).map(|part| format!("Charades_v1_480_part_{part}.zip")).collect(),
                license: "card says MIT; the Charades videos are non-commercial".into(),
                gated: false,
            },
            expected_rows: 3720,
            paper_rows: 3720,
            expected_videos: 1334,
            metric: Metric::Grounding { thresholds: vec![0.3, 0.5, 0.7] },
            breakdowns: Vec::new(),
        };
        let layout = Layout {
            benchmark: "charades_sta",
            annotations: &["data/test-00000-of-00001.parquet"],
            videos: &["charades_sta/Charades_v1_480", "Charades_v1_480"],
            subtitles: &[],
            expected_subtitles: None,
        };
        Self { spec, layout }
    }
}

impl Default for CharadesSta {
    fn default() -> Self {
        Self::new()
    }
}

impl Task for CharadesSta {
    fn spec(&self) -> &TaskSpec {
        &self.spec
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn sample(
        &self,
        cells: &Cells<'_>,
        folders: &Folders,
        profile: Profile,
    ) -> Result<Option<Sample>, DataError> {
        let times = cells.numbers("timestamp")?;
        let [start, end] = times[..] else {
            return Err(cells.error("timestamp", format!("expected start and end, found {times:?}")));
        };
        if !(start.is_finite() && end.is_finite()) {
            return Err(cells.error("timestamp", format!("expected two finite times, found {times:?}")));
        }
        let mut flags = Vec::new();
        // The reference scores such a row 0 whatever is answered: nothing lies between its times.
        if start >= end {
            if profile == Profile::Strict {
                let message = format!("expected a start before the end, found {start} and {end}");
                return Err(cells.error("timestamp", message));
            }
            flags.push(REVERSED.to_owned());
        }
        if (start - PROMPT_EXAMPLE.0).abs() < HALF_STEP && (end - PROMPT_EXAMPLE.1).abs() < HALF_STEP {
            flags.push("prompt_example".to_owned());
        }
        Ok(Some(Sample {
            task: self.spec.name.clone(),
            // Captions repeat and float text differs by printer: the row is the stable key (rows 7, 16).
            uid: cells.row.to_string(),
            id: cells.row.to_string(),
            row: cells.row,
            video: folders.videos.join(cells.relative_path("video")?),
            question: Question { stem: cells.text("caption")?.to_owned(), ..Question::default() },
            gold: Gold::Interval { start, end },
            tags: Tags::new(),
            evidence: Some((start, end)),
            flags,
            defect: None,
        }))
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
        let cells = Cells { file: "rows".as_ref(), row: 1, value: row.as_object().unwrap() };
        let folders = Folders { videos: "v".into(), subtitles: None };
        CharadesSta::new().sample(&cells, &folders, profile).map(Option::unwrap)
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
        assert_eq!(reversed.flags, [REVERSED]);
        for answer in ["0 - 20", "5 - 10", "10 - 5", "6 - 7"] {
            let score = paravt_upstream::paravt::scoring::score(&reversed.gold, answer);
            assert_eq!(score.value, 0.0, "{answer}");
        }
        let message = sample_under(Profile::Strict, json!([10.0, 5.0])).unwrap_err().to_string();
        assert!(message.contains("row 1, column `timestamp`: expected a start before the end"), "{message}");
    }
}
