#![forbid(unsafe_code)]
//! LVBench. Options stand inside the question; capabilities are multi-label.

use paravt_suite::data::{Cells, DataError, Folders, Layout};
use paravt_suite::profile::Profile;
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::task::{Breakdown, HubSource, Metric, Task, TaskSpec};

/// The six capabilities in the order of the official table.
const CAPABILITIES: [&str; 6] = [
    "entity recognition",
    "event understanding",
    "key information retrieval",
    "temporal grounding",
    "reasoning",
    "summarization",
];

/// LVBench.
pub struct LvBench {
    spec: TaskSpec,
    layout: Layout,
}

impl LvBench {
    /// The only split; the hub calls it `train`.
    pub fn new() -> Self {
        let spec = TaskSpec {
            name: "lvbench".into(),
            title: "LVBench".into(),
            hub: HubSource {
                repos: vec!["lmms-eval/LVBench".into(), "lmms-lab/LVBench".into()],
                config: None,
                split: "train".into(),
                revision: None,
                annotations: "data/train-00000-of-00001.parquet".into(),
                media: (1..=14).map(|part| format!("video_chunks/videos_chunk_{part:03}.zip")).collect(),
                license: "CC-BY-NC-SA-4.0, academic use only".into(),
                gated: false,
            },
            expected_rows: 1549,
            paper_rows: 1549,
            expected_videos: 103,
            metric: Metric::Accuracy { macro_over: None },
            breakdowns: vec![
                Breakdown {
                    tag: "question_type".into(),
                    title: "Capability".into(),
                    order: CAPABILITIES.map(str::to_owned).into(),
                },
                Breakdown { tag: "type".into(), title: "Video type".into(), order: Vec::new() },
            ],
        };
        let layout = Layout {
            benchmark: "lvbench",
            annotations: &["data/train-00000-of-00001.parquet"],
            videos: &["lvbench", "videos", "."],
            subtitles: &[],
            expected_subtitles: None,
        };
        Self { spec, layout }
    }
}

impl Default for LvBench {
    fn default() -> Self {
        Self::new()
    }
}

/// Letters of the option lines `(A) …` inside a question. A line counts when it holds the next
/// letter: `(1) …` in the stem or `(B) …` before `(A) …` is no option.
fn embedded_letters(question: &str) -> String {
    let mut next = 'A'..='Z';
    let mut found = String::new();
    let mut wanted = next.next();
    for line in question.lines() {
        let letter = line.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')'));
        if let (Some((letter, _)), Some(expected)) = (letter, wanted)
            && letter.chars().eq([expected])
        {
            found.push(expected);
            wanted = next.next();
        }
    }
    found
}

/// `MM:SS-MM:SS` or `HH:MM:SS-HH:MM:SS` in seconds.
fn time_reference(text: &str) -> Option<(f64, f64)> {
    let clock = |text: &str| {
        text.trim().split(':').try_fold(0.0, |total, part| Some(total * 60.0 + part.parse::<f64>().ok()?))
    };
    let (start, end) = text.split_once('-')?;
    Some((clock(start)?, clock(end)?))
}

impl Task for LvBench {
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
        let stem = cells.text("question")?.to_owned();
        let letters = embedded_letters(&stem);
        if letters.is_empty() && profile == Profile::Strict {
            return Err(cells.error("question", "the row has no options: no lines (A), (B), … in it".into()));
        }
        let mut flags = Vec::new();
        let uid = cells.id("uid")?;
        Ok(Some(Sample {
            task: self.spec.name.clone(),
            id: uid.clone(),
            uid,
            row: cells.row,
            video: folders.videos.join(cells.relative_path("video_path")?),
            gold: Gold::Choice { answer: cells.letter("answer", &letters, profile, &mut flags)? },
            question: Question { stem, options: Vec::new(), letters, subtitles: None },
            tags: Tags::from([
                ("question_type".to_owned(), cells.texts("question_type")?),
                ("type".to_owned(), vec![cells.text("type")?.to_owned()]),
            ]),
            evidence: cells.optional_text("time_reference").and_then(time_reference),
            flags,
            defect: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_becomes_a_sample() {
        let row = json!({"video_path": "k.mp4", "uid": "17", "question": "Q?\n(A) a\n(B) b\n(C) c\n(D) d",
            "question_type": ["reasoning", "summarization"], "answer": "D", "time_reference": "01:10-01:01:20",
            "type": "tv", "key": "k"});
        let cells = Cells { file: "rows".as_ref(), row: 0, value: row.as_object().unwrap() };
        let folders = Folders { videos: "v".into(), subtitles: None };
        let sample = LvBench::new().sample(&cells, &folders, Profile::Paper).unwrap().unwrap();
        assert_eq!(sample.question.letters, "ABCD");
        assert_eq!(sample.tags["question_type"], ["reasoning", "summarization"], "every label counts");
        assert_eq!(sample.evidence, Some((70.0, 3680.0)));
    }

    #[test]
    fn only_option_lines_in_sequence_count() {
        assert_eq!(embedded_letters("Which of\n(1) x\n(B) y\nis it?\n(A) 1\n (B) 2\n(C)3"), "ABC");
        assert_eq!(embedded_letters("Q? (A) in the line"), "");
    }

    #[test]
    fn a_question_without_options_is_asked_except_under_strict() {
        let row = json!({"question": "Q?", "uid": "1", "answer": "A", "video_path": "k.mp4",
            "question_type": [], "type": "tv"});
        let cells = Cells { file: "rows".as_ref(), row: 9, value: row.as_object().unwrap() };
        let folders = Folders { videos: "v".into(), subtitles: None };
        let sample = |profile| LvBench::new().sample(&cells, &folders, profile);
        let error = sample(Profile::Strict).unwrap_err().to_string();
        assert!(error.contains("row 9") && error.contains("no options"), "{error}");
        // The reference asks it and compares the published letter.
        let asked = sample(Profile::Paper).unwrap().unwrap();
        assert_eq!((asked.gold, asked.flags.len()), (Gold::Choice { answer: "A".into() }, 1));
    }
}
