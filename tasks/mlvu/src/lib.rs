#![forbid(unsafe_code)]
//! MLVU dev, multiple choice.

use paravt_suite::data::{DataError, Id};
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::task::{Benchmark, IntoSample, RowContext, letters, read};
use serde::Deserialize;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&MLVU];
/// `mlvu`.
pub static MLVU: Benchmark = Benchmark::new(include_str!("../benchmark.toml"), read::<Row>);

/// The published columns.
#[derive(Deserialize)]
struct Row {
    question_id: Id,
    video_name: String,
    /// With its options at the end.
    question: String,
    candidates: Vec<String>,
    answer: String,
    task_type: String,
}

/// The question without the option block at its end.
fn without_options(question: &str) -> &str {
    let end = question.find("\n(A)").unwrap_or(question.len());
    question[..end].trim_end()
}

impl IntoSample for Row {
    fn into_sample(self, cx: &RowContext<'_>) -> Result<Option<Sample>, DataError> {
        let options = self.candidates;
        let letters = letters(options.len());
        cx.need_options("candidates", &letters)?;
        let mut flags = Vec::new();
        let answer = if cx.quirks.has("gold_by_text") {
            let found = options.iter().position(|option| option.trim() == self.answer.trim());
            found.and_then(|index| letters.chars().nth(index)).unwrap_or('?').to_string()
        } else {
            cx.letter("answer", &self.answer, &letters, &mut flags)?
        };
        let stem =
            if cx.quirks.has("options_twice") { &self.question } else { without_options(&self.question) };
        let question = Question { stem: stem.to_owned(), options, letters, subtitles: None };
        let video = cx.path("video_name", &self.video_name)?;
        Ok(Some(Sample {
            id: format!("{}-{}", self.task_type, cx.number),
            tags: Tags::from([("task_type".to_owned(), vec![self.task_type])]),
            flags,
            ..cx.sample(self.question_id.0, video, question, Gold::Choice { answer })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paravt_suite::profile::Profile;
    use paravt_suite::task::NO_LETTER;
    use serde_json::json;

    fn sample(profile: Profile, answer: &str) -> Result<Sample, DataError> {
        let row = json!({"video_name": "n.mp4", "duration": 480.5, "question": "Q?\n(A) kite\n(B) drone\n",
            "candidates": ["kite", "drone"], "answer": answer, "task_type": "needle", "question_id": "Q7"});
        MLVU.sample("rows".as_ref(), 5, row.as_object().unwrap(), profile).map(Option::unwrap)
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
