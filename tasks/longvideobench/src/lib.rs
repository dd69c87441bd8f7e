#![forbid(unsafe_code)]
//! LongVideoBench, validation split.

use paravt_suite::data::{Cells, DataError, Folders, Layout, NO_LETTER, letters};
use paravt_suite::profile::Profile;
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::task::{Breakdown, HubSource, Metric, Task, TaskSpec};

/// Option columns of the published parquet.
const OPTIONS: [&str; 5] = ["option0", "option1", "option2", "option3", "option4"];
/// What fills an option column that the question does not use.
const FILLER: &str = "N/A";

/// LongVideoBench.
pub struct LongVideoBench {
    spec: TaskSpec,
    layout: Layout,
}

impl LongVideoBench {
    /// The validation split.
    pub fn new() -> Self {
        let parts =
            ('a'..='z').map(|letter| format!("a{letter}")).chain(('a'..='e').map(|l| format!("b{l}")));
        let spec = TaskSpec {
            name: "longvideobench".into(),
            title: "LongVideoBench (val)".into(),
            hub: HubSource {
                repos: vec!["longvideobench/LongVideoBench".into()],
                config: None,
                split: "validation".into(),
                revision: Some("60d1c89c1919a198b73be39c2babb213b29d6a5c".into()),
                annotations: "validation-00000-of-00001.parquet".into(),
                media: parts
                    .map(|part| format!("videos.tar.part.{part}"))
                    .chain(["subtitles.tar".into()])
                    .collect(),
                license: "CC-BY-NC-SA-4.0".into(),
                gated: true,
            },
            expected_rows: 1337,
            paper_rows: 1337,
            expected_videos: 753,
            metric: Metric::Accuracy { macro_over: None },
            breakdowns: [
                ("duration_group", "Duration group (s)", &["15", "60", "600", "3600"][..]),
                ("question_category", "Question category", &[]),
                ("level", "Level", &[]),
                ("topic_category", "Topic", &[]),
            ]
            .map(|(tag, title, order)| Breakdown {
                tag: tag.into(),
                title: title.into(),
                order: order.iter().map(|&label| label.into()).collect(),
            })
            .into(),
        };
        let layout = Layout {
            benchmark: "longvideobench",
            annotations: &["validation-00000-of-00001.parquet", "data/validation-00000-of-00001.parquet"],
            videos: &["datasets/longvideobench/videos", "longvideobench/videos", "videos"],
            subtitles: &["datasets/longvideobench/subtitles", "longvideobench/subtitles", "subtitles"],
            expected_subtitles: None,
        };
        Self { spec, layout }
    }
}

/// Upstream's gold for an index without an option: `?` for a negative one, else the letter that many
/// places after `A`, whether or not there is such an option.
fn unmatched_letter(correct: i64) -> char {
    let code = u32::try_from(correct).ok().and_then(|index| index.checked_add(u32::from('A')));
    code.and_then(char::from_u32).unwrap_or('?')
}

impl Default for LongVideoBench {
    fn default() -> Self {
        Self::new()
    }
}

impl Task for LongVideoBench {
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
        // Unused columns hold a filler; the letters count only what is left, as upstream does.
        let mut options = Vec::new();
        for column in OPTIONS {
            options.extend(
                cells.nullable_text(column)?.filter(|option| !option.is_empty() && *option != FILLER),
            );
        }
        let options: Vec<String> = options.into_iter().map(str::to_owned).collect();
        if options.is_empty() && profile == Profile::Strict {
            return Err(cells.error(OPTIONS[0], "the row has no options".into()));
        }
        let letters = letters(options.len());
        let correct = cells.integer("correct_choice")?;
        let mut flags = Vec::new();
        let answer = match usize::try_from(correct).ok().and_then(|index| letters.chars().nth(index)) {
            Some(letter) => letter,
            None if profile == Profile::Strict => {
                let message = format!("expected an index into {} options, found {correct}", options.len());
                return Err(cells.error("correct_choice", message));
            }
            None => {
                flags.push(NO_LETTER.to_owned());
                unmatched_letter(correct)
            }
        };
        let mut tags = Tags::new();
        for tag in ["duration_group", "question_category", "level", "topic_category"] {
            tags.insert(tag.into(), vec![cells.id(tag)?]);
        }
        let id = cells.id("id")?;
        Ok(Some(Sample {
            task: self.spec.name.clone(),
            uid: id.clone(),
            id,
            row: cells.row,
            video: folders.videos.join(cells.relative_path("video_path")?),
            question: Question {
                stem: cells.text("question")?.to_owned(),
                options,
                letters,
                subtitles: None,
            },
            gold: Gold::Choice { answer: answer.to_string() },
            tags,
            evidence: None,
            flags,
            defect: None,
        }))
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
            "duration_group": 15, "question_category": "S2A", "level": "L1", "topic_category": "T"});
        change(&mut row);
        let folders = Folders { videos: "v".into(), subtitles: None };
        let cells = Cells { file: "rows".as_ref(), row: 3, value: row.as_object().unwrap() };
        LongVideoBench::new().sample(&cells, &folders, profile).map(Option::unwrap)
    }

    #[test]
    fn fillers_go_and_letters_follow() {
        let sample = read(|_| ()).unwrap();
        assert_eq!(sample.question.options, ["cup", "key"]);
        assert_eq!(sample.gold, Gold::Choice { answer: "B".into() });
        assert_eq!(sample.tags["duration_group"], ["15"]);
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
            for column in OPTIONS {
                row[column] = json!("N/A");
            }
        });
        assert!(message.contains("no options"), "{message}");
    }
}
