#![forbid(unsafe_code)]
//! VSI-Bench: options or a number.

mod scoring;

use paravt_suite::data::{DataError, Id};
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::task::{Benchmark, IntoSample, RowContext, letters, read};
use serde::Deserialize;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&VSI_BENCH];
/// `vsibench`.
pub static VSI_BENCH: Benchmark =
    Benchmark::new(include_str!("../benchmark.toml"), read::<Row>).with_scorer(&scoring::FirstWord);

/// The published columns.
#[derive(Deserialize)]
struct Row {
    id: Id,
    /// Data set of the scene: the folder of its video.
    dataset: String,
    scene_name: String,
    question_type: String,
    question: String,
    /// A letter, or a number as text.
    ground_truth: String,
    /// `A. …`, one for each letter; null where a number is asked for.
    options: Option<Vec<String>>,
}

/// `A. The lamp` without its letter, which the protocol writes.
fn without_letter(option: &str, letter: char) -> &str {
    option.strip_prefix(letter).and_then(|rest| rest.strip_prefix(". ")).unwrap_or(option)
}

impl IntoSample for Row {
    fn into_sample(self, cx: &RowContext<'_>) -> Result<Option<Sample>, DataError> {
        let mut flags = Vec::new();
        let mut question = Question { stem: self.question, ..Question::default() };
        let gold = match self.options {
            Some(options) => {
                question.letters = letters(options.len());
                cx.need_options("options", &question.letters)?;
                let lettered = question.letters.chars().zip(&options);
                question.options =
                    lettered.map(|(letter, option)| without_letter(option, letter).to_owned()).collect();
                let answer = cx.letter("ground_truth", &self.ground_truth, &question.letters, &mut flags)?;
                Gold::Choice { answer }
            }
            None => {
                let answer = self.ground_truth.trim().parse().ok().filter(|answer: &f64| *answer > 0.0);
                let message = || format!("expected a positive number, found `{}`", self.ground_truth);
                Gold::Number { answer: answer.ok_or_else(|| cx.error("ground_truth", message()))? }
            }
        };
        let video = cx.path("scene_name", &format!("{}/{}.mp4", self.dataset, self.scene_name))?;
        let tags = [("question_type", self.question_type), ("dataset", self.dataset)];
        Ok(Some(Sample {
            tags: tags.map(|(tag, label)| (tag.to_owned(), vec![label])).into_iter().collect::<Tags>(),
            flags,
            ..cx.sample(self.id.0, video, question, gold)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paravt_suite::profile::Profile;
    use serde_json::{Value, json};

    fn sample(change: impl FnOnce(&mut Value)) -> Result<Sample, DataError> {
        let mut row = json!({"id": 7, "dataset": "scannet", "scene_name": "scene0011_00",
            "question_type": "object_rel_distance", "question": "Which is closest?",
            "ground_truth": "B", "options": ["A. sofa", "B. A. lamp"]});
        change(&mut row);
        let row = row.as_object().unwrap();
        VSI_BENCH.sample("rows".as_ref(), 4, row, Profile::Strict).map(Option::unwrap)
    }

    #[test]
    fn options_lose_the_letter_that_the_protocol_writes() {
        let sample = sample(|_| ()).unwrap();
        assert_eq!(
            (&*sample.question.options, &*sample.question.letters),
            (&["sofa".into(), "A. lamp".into()][..], "AB")
        );
        assert_eq!(sample.gold, Gold::Choice { answer: "B".into() });
        assert_eq!((&*sample.uid, sample.video.to_str()), ("7", Some("scannet/scene0011_00.mp4")));
    }

    #[test]
    fn a_row_without_options_asks_for_a_number() {
        let number = |text: &str| {
            sample(|row| (row["options"], row["ground_truth"]) = (Value::Null, text.into()))
                .map(|sample| sample.gold)
        };
        assert_eq!(number("2.4").unwrap(), Gold::Number { answer: 2.4 });
        for text in ["two", "0", "nan", ""] {
            let message = number(text).unwrap_err().to_string();
            assert!(
                message.contains("row 4, column `ground_truth`: expected a positive number"),
                "{message}"
            );
        }
    }

    #[test]
    fn paths_stay_below_the_videos() {
        let error = sample(|row| row["dataset"] = "../..".into()).unwrap_err();
        assert!(matches!(error, DataError::OutsideData { .. }), "{error}");
    }
}
