#![forbid(unsafe_code)]
//! MLVU dev, multiple choice.

use paravt_suite::data::{Cells, DataError, Folders, Layout, letters};
use paravt_suite::profile::Profile;
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::task::{Breakdown, HubSource, Metric, Task, TaskSpec};

/// What only this benchmark does differently by profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    /// §2.4 row 1: the loader looks for an option whose text equals the published letter, finds
    /// none and sets the gold to `?`. Off: the published letter is the gold.
    pub gold_by_text: bool,
    /// §2.1: the question carries its options and the protocol lists them again. Off: once.
    pub options_twice: bool,
}

impl Quirks {
    /// The switches of a profile.
    pub fn of(profile: Profile) -> Self {
        Self { gold_by_text: profile == Profile::Release, options_twice: profile != Profile::Strict }
    }
}

/// MLVU.
pub struct Mlvu {
    spec: TaskSpec,
    layout: Layout,
}

impl Mlvu {
    /// The dev questions; the hub calls the split `test`.
    pub fn new() -> Self {
        let spec = TaskSpec {
            name: "mlvu".into(),
            title: "MLVU (dev)".into(),
            hub: HubSource {
                repos: vec!["sy1998/MLVU_dev".into()],
                config: None,
                split: "test".into(),
                revision: Some("96207eb9aa7101e2a495dd147684a7e618c79e12".into()),
                annotations: "mlvu/test-00000-of-00001.parquet".into(),
                media: (1..=8).map(|part| format!("video_part_{part}.zip")).collect(),
                license: "CC-BY-NC-SA-4.0".into(),
                gated: false,
            },
            expected_rows: 2174,
            paper_rows: 2174,
            expected_videos: 1122,
            metric: Metric::Accuracy { macro_over: Some("task_type".into()) },
            breakdowns: vec![Breakdown { tag: "task_type".into(), title: "Task".into(), order: Vec::new() }],
        };
        let layout = Layout {
            benchmark: "mlvu",
            annotations: &["mlvu/test-00000-of-00001.parquet"],
            videos: &["MLVU/video", "mlvu", "video", "."],
            subtitles: &[],
            expected_subtitles: None,
        };
        Self { spec, layout }
    }
}

impl Default for Mlvu {
    fn default() -> Self {
        Self::new()
    }
}

/// The question without the option block at its end.
fn without_options(question: &str) -> &str {
    let end = question.find("\n(A)").unwrap_or(question.len());
    question[..end].trim_end()
}

impl Task for Mlvu {
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
        let quirks = Quirks::of(profile);
        let question = cells.text("question")?;
        let options = cells.options("candidates", profile)?;
        let letters = letters(options.len());
        let mut flags = Vec::new();
        let answer = if quirks.gold_by_text {
            let text = cells.text("answer")?.trim();
            let found = options.iter().position(|option| option.trim() == text);
            found.and_then(|index| letters.chars().nth(index)).unwrap_or('?').to_string()
        } else {
            cells.letter("answer", &letters, profile, &mut flags)?
        };
        let task_type = cells.text("task_type")?.to_owned();
        let stem = if quirks.options_twice { question } else { without_options(question) };
        Ok(Some(Sample {
            task: self.spec.name.clone(),
            uid: cells.id("question_id")?,
            id: format!("{task_type}-{}", cells.row),
            row: cells.row,
            video: folders.videos.join(cells.relative_path("video_name")?),
            question: Question { stem: stem.to_owned(), options, letters, subtitles: None },
            gold: Gold::Choice { answer },
            tags: Tags::from([("task_type".to_owned(), vec![task_type])]),
            evidence: None,
            flags,
            defect: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paravt_suite::data::NO_LETTER;
    use serde_json::json;

    fn sample(profile: Profile, answer: &str) -> Result<Sample, DataError> {
        let row = json!({"video_name": "n.mp4", "duration": 480.5, "question": "Q?\n(A) kite\n(B) drone\n",
            "candidates": ["kite", "drone"], "answer": answer, "task_type": "needle", "question_id": "Q7"});
        let cells = Cells { file: "rows".as_ref(), row: 5, value: row.as_object().unwrap() };
        let folders = Folders { videos: "v".into(), subtitles: None };
        Mlvu::new().sample(&cells, &folders, profile).map(Option::unwrap)
    }

    #[test]
    fn the_released_loader_finds_no_gold() {
        let gold = |profile, answer| sample(profile, answer).unwrap().gold;
        assert_eq!(gold(Profile::Release, "B"), Gold::Choice { answer: "?".into() });
        assert_eq!(gold(Profile::Release, " drone"), Gold::Choice { answer: "B".into() });
        assert_eq!(gold(Profile::Paper, "B"), Gold::Choice { answer: "B".into() });
    }

    #[test]
    fn a_gold_without_an_option_is_never_right_and_refused_under_strict() {
        let paper = sample(Profile::Paper, "E").unwrap();
        assert_eq!(
            (paper.gold, paper.flags),
            (Gold::Choice { answer: "E".into() }, vec![NO_LETTER.to_owned()])
        );
        let spaced = sample(Profile::Paper, "B ").unwrap();
        assert_eq!((spaced.gold, spaced.flags.len()), (Gold::Choice { answer: "B".into() }, 0));
        let message = sample(Profile::Strict, "E").unwrap_err().to_string();
        assert!(message.contains("row 5, column `answer`: the answer `E` is not one of the letters: AB"));
    }

    #[test]
    fn options_stand_twice_except_under_strict() {
        assert_eq!(sample(Profile::Paper, "A").unwrap().question.stem, "Q?\n(A) kite\n(B) drone\n");
        assert_eq!(sample(Profile::Strict, "A").unwrap().question.stem, "Q?");
        assert_eq!(sample(Profile::Strict, "A").unwrap().id, "needle-5");
    }
}
