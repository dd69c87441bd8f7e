#![forbid(unsafe_code)]
//! LongVideoBench, validation split.

use paravt_suite::data::{DataError, Id, nullable};
use paravt_suite::profile::Profile;
use paravt_suite::sample::{Gold, Question, Sample};
use paravt_suite::task::{Benchmark, IntoSample, NO_LETTER, RowContext, letters, read};
use serde::Deserialize;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&LONG_VIDEO_BENCH];
/// `longvideobench`.
pub static LONG_VIDEO_BENCH: Benchmark = Benchmark::new(include_str!("../benchmark.toml"), read::<Row>);

/// Filler of an option column that the question does not use.
const FILLER: &str = "N/A";

/// The published columns.
#[derive(Deserialize)]
struct Row {
    id: Id,
    video_path: String,
    question: String,
    #[serde(deserialize_with = "nullable")]
    option0: Option<String>,
    #[serde(deserialize_with = "nullable")]
    option1: Option<String>,
    #[serde(deserialize_with = "nullable")]
    option2: Option<String>,
    #[serde(deserialize_with = "nullable")]
    option3: Option<String>,
    #[serde(deserialize_with = "nullable")]
    option4: Option<String>,
    correct_choice: i64,
    duration_group: Id,
    question_category: Id,
    topic_category: Id,
    /// Of `lvb_val.json` in the same repository; the parquet file has no such column, and no prompt shows it.
    level: Option<Id>,
}

/// Upstream's gold for an index without an option: `?` for a negative one, else the letter that many
/// places after `A`, whether or not there is such an option.
fn unmatched_letter(correct: i64) -> char {
    let code = u32::try_from(correct).ok().and_then(|index| index.checked_add(u32::from('A')));
    code.and_then(char::from_u32).unwrap_or('?')
}

impl IntoSample for Row {
    fn into_sample(self, cx: &RowContext<'_>) -> Result<Option<Sample>, DataError> {
        // Unused columns hold a filler; the letters count only what is left, as upstream does.
        let options = [self.option0, self.option1, self.option2, self.option3, self.option4];
        let used = |option: &String| !option.is_empty() && option != FILLER;
        let options: Vec<String> = options.into_iter().flatten().filter(used).collect();
        let letters = letters(options.len());
        cx.need_options("option0", &letters)?;
        let correct = self.correct_choice;
        let mut flags = Vec::new();
        let answer = match usize::try_from(correct).ok().and_then(|index| letters.chars().nth(index)) {
            Some(letter) => letter,
            None if cx.profile == Profile::Strict => {
                let message = format!("expected an index into {} options, found {correct}", options.len());
                return Err(cx.error("correct_choice", message));
            }
            None => {
                flags.push(NO_LETTER.to_owned());
                unmatched_letter(correct)
            }
        };
        let tags = [
            ("duration_group", Some(self.duration_group)),
            ("question_category", Some(self.question_category)),
            ("topic_category", Some(self.topic_category)),
            ("level", self.level),
        ];
        let tags = tags.into_iter().filter_map(|(tag, label)| Some((tag.to_owned(), vec![label?.0])));
        let video = cx.path("video_path", &self.video_path)?;
        let question = Question { stem: self.question, options, letters, subtitles: None };
        let gold = Gold::Choice { answer: answer.to_string() };
        Ok(Some(Sample { tags: tags.collect(), flags, ..cx.sample(self.id.0, video, question, gold) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(change: impl FnOnce(&mut Value)) -> Result<Sample, DataError> {
        read_under(Profile::Paper, change)
    }

    fn read_under(profile: Profile, change: impl FnOnce(&mut Value)) -> Result<Sample, DataError> {
        let mut row = json!({"id": "v_0", "video_path": "v.mp4", "question": "Q?", "option0": "cup",
            "option1": "N/A", "option2": "key", "option3": "", "option4": "N/A", "correct_choice": 1,
            "duration_group": 15, "question_category": "S2A", "topic_category": "T"});
        change(&mut row);
        LONG_VIDEO_BENCH.sample("rows".as_ref(), 3, row.as_object().unwrap(), profile).map(Option::unwrap)
    }

    #[test]
    fn filler_options_are_dropped_and_letters_renumbered() {
        let sample = read(|_| ()).unwrap();
        assert_eq!(sample.question.options, ["cup", "key"]);
        assert_eq!(sample.gold, Gold::Choice { answer: "B".into() });
        assert_eq!(sample.tags["duration_group"], ["15"]);
    }

    #[test]
    fn the_level_is_a_tag_where_the_rows_have_one() {
        assert!(
            !read(|_| ()).unwrap().tags.contains_key("level"),
            "the published parquet has no such column"
        );
        assert_eq!(read(|row| row["level"] = json!("L1")).unwrap().tags["level"], ["L1"]);
    }

    #[test]
    fn a_lost_or_mistyped_option_column_never_shortens_the_list() {
        let lost = read(|row| drop(row.as_object_mut().unwrap().remove("option2"))).unwrap_err().to_string();
        assert!(lost.contains("column `option2`: missing"), "{lost}");
        let mistyped = read(|row| row["option2"] = json!(7)).unwrap_err().to_string();
        assert!(mistyped.contains("row 3, column `option2`: expected a string, found `7`"), "{mistyped}");
        assert_eq!(read(|row| row["option4"] = Value::Null).unwrap().question.options.len(), 2);
    }

    #[test]
    fn golds_without_an_option_are_upstreams_except_under_strict() {
        for (index, gold) in [(-1, "?"), (2, "C"), (30, "_")] {
            let sample = read(|row| row["correct_choice"] = json!(index)).unwrap();
            assert_eq!(sample.gold, Gold::Choice { answer: gold.into() });
            assert_eq!(sample.flags, [NO_LETTER]);
        }
    }

    #[test]
    fn bad_rows_are_named_under_strict() {
        let text = |change: fn(&mut Value)| read_under(Profile::Strict, change).unwrap_err().to_string();
        let message = text(|row| row["correct_choice"] = json!(2));
        assert!(message.contains("row 3") && message.contains("correct_choice"), "{message}");
        let message = text(|row| {
            for column in 0..5 {
                row[format!("option{column}")] = json!("N/A");
            }
        });
        assert!(message.contains("no options"), "{message}");
    }
}
