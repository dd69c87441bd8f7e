#![forbid(unsafe_code)]
//! Charades-STA, test split: temporal grounding (spec/benchmarks.md §1.6).

use paravt_suite::data::{Cells, DataError, Folders, Layout};
use paravt_suite::profile::Profile;
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::task::{HubSource, Metric, Task, TaskSpec};

/// Interval of the first three published rows, which the reference prompt gives away as its
/// worked example (§2.4 row 17).
const PROMPT_EXAMPLE: (f64, f64) = (24.3, 30.4);
/// Half a step of the published half floats at that size.
const HALF_STEP: f64 = 1.0 / 64.0;

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
        _profile: Profile,
    ) -> Result<Option<Sample>, DataError> {
        let times = cells.numbers("timestamp")?;
        let [start, end] = times[..] else {
            return Err(cells.error("timestamp", format!("start and end are needed, found {times:?}")));
        };
        if !(start.is_finite() && end.is_finite()) {
            return Err(cells.error("timestamp", format!("{start} - {end} is no interval")));
        }
        let given_away =
            (start - PROMPT_EXAMPLE.0).abs() < HALF_STEP && (end - PROMPT_EXAMPLE.1).abs() < HALF_STEP;
        Ok(Some(Sample {
            task: self.spec.name.clone(),
            // Captions repeat and float text differs by printer: the row is the stable key (rows 7, 16).
            uid: cells.row.to_string(),
            id: cells.row.to_string(),
            row: cells.row,
            video: folders.videos.join(cells.text("video")?),
            question: Question { stem: cells.text("caption")?.to_owned(), ..Question::default() },
            gold: Gold::Interval { start, end },
            tags: Tags::new(),
            evidence: Some((start, end)),
            flags: if given_away { vec!["prompt_example".to_owned()] } else { Vec::new() },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample(timestamp: serde_json::Value) -> Result<Sample, DataError> {
        let row = json!({"video": "3MSZA.mp4", "caption": "person turn a light on.", "timestamp": timestamp});
        let cells = Cells { file: "rows".as_ref(), row: 1, value: row.as_object().unwrap() };
        let folders = Folders { videos: "v".into(), subtitles: None };
        CharadesSta::new().sample(&cells, &folders, Profile::Paper).map(Option::unwrap)
    }

    #[test]
    fn half_float_gold_is_kept_and_the_prompts_example_flagged() {
        let first = sample(json!([24.296875, 30.40625])).unwrap();
        assert_eq!(first.gold, Gold::Interval { start: 24.296875, end: 30.40625 });
        assert_eq!(first.flags, ["prompt_example"]);
        assert!(sample(json!([3.5, 11.25])).unwrap().flags.is_empty());
        assert!(sample(json!([3.5])).unwrap_err().to_string().contains("timestamp"));
    }
}
