#![forbid(unsafe_code)]
//! MMVU, validation split.

mod disciplines;

use std::collections::BTreeMap;
use std::path::PathBuf;

use paravt_suite::data::{DataError, Id};
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::task::{Benchmark, IntoSample, RowContext, read};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&MMVU];
/// `mmvu`.
pub static MMVU: Benchmark = Benchmark::new(include_str!("../benchmark.toml"), read::<Row>);

/// The published columns.
#[derive(Deserialize)]
struct Row {
    id: Id,
    /// URL of the video in the repository; the mirror calls it `video_path`.
    video: Option<String>,
    video_path: Option<String>,
    question: String,
    question_type: String,
    /// An object by letter, or its JSON text; may be null in open-ended rows.
    choices: Option<Value>,
    answer: String,
    metadata: Option<Value>,
}

impl Row {
    /// Non-empty choices by letter.
    fn choices(&self, cx: &RowContext<'_>, open: bool) -> Result<BTreeMap<String, String>, DataError> {
        if open && cx.published.value.get("choices").is_some_and(Value::is_null) {
            return Ok(BTreeMap::new());
        }
        let value = cx.published.required("choices", self.choices.as_ref())?;
        let parsed = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let object: Option<&Map<String, Value>> = parsed.as_ref().unwrap_or(value).as_object();
        let object = object.ok_or_else(|| cx.error("choices", "expected an object of letters"))?;
        if let Some(key) = object.keys().find(|key| key.chars().count() != 1) {
            return Err(cx.error("choices", format!("`{key}` is not one letter")));
        }
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(object.iter().filter_map(|(letter, value)| Some((letter.clone(), text(value)?))).collect())
    }

    /// The video's path in the repository: what follows `/main/` in the published URL.
    fn video_in_repository(&self, cx: &RowContext<'_>) -> Result<PathBuf, DataError> {
        let (column, video) = match cx.published.value.contains_key("video") {
            true => ("video", &self.video),
            false => ("video_path", &self.video_path),
        };
        let video = cx.published.required(column, video.as_deref())?;
        match video.split_once("/main/") {
            Some((_, path)) => cx.path(column, path),
            None if video.starts_with("http://") || video.starts_with("https://") => {
                Err(cx.error(column, format!("expected a URL with `/main/`, found {video}")))
            }
            None => cx.path(column, video),
        }
    }

    /// The published subject, else the folder of the video, with spaces.
    fn subject(&self, video: &std::path::Path) -> String {
        let published = self.metadata.as_ref().and_then(|metadata| metadata["subject"].as_str());
        let folder = || video.parent().and_then(|folder| folder.file_name()).unwrap_or_default();
        published.map_or_else(|| folder().to_string_lossy().into_owned(), str::to_owned).replace('_', " ")
    }

    fn gold(
        &self,
        cx: &RowContext<'_>,
        open: bool,
        letters: &str,
        flags: &mut Vec<String>,
    ) -> Result<Gold, DataError> {
        if open {
            let answer = self.answer.trim().to_owned();
            let as_choice = cx.quirks.has("open_ended_as_choice");
            return Ok(if as_choice { Gold::Choice { answer } } else { Gold::open(answer) });
        }
        // Upstream takes the blanks off this benchmark's answers alone.
        Ok(Gold::Choice { answer: cx.letter("answer", self.answer.trim(), letters, flags)? })
    }
}

impl IntoSample for Row {
    fn into_sample(self, cx: &RowContext<'_>) -> Result<Option<Sample>, DataError> {
        let open = match self.question_type.as_str() {
            "open-ended" => true,
            "multiple-choice" => false,
            other => {
                let message = format!("`{other}` is neither multiple-choice nor open-ended");
                return Err(cx.error("question_type", message));
            }
        };
        if open && cx.quirks.has("open_ended_left_out") {
            return Ok(None);
        }
        let choices = self.choices(cx, open)?;
        let letters: String = choices.keys().map(String::as_str).collect();
        if !open {
            cx.need_options("choices", &letters)?;
        }
        let mut flags = Vec::new();
        let gold = self.gold(cx, open, &letters, &mut flags)?;
        let video = self.video_in_repository(cx)?;
        let subject = self.subject(&video);
        let mut tags = Tags::from([("question_type".to_owned(), vec![self.question_type])]);
        if let Some(discipline) = disciplines::discipline(&subject) {
            tags.insert("discipline".into(), vec![discipline.to_owned()]);
        }
        tags.insert("subject".into(), vec![subject]);
        let options = choices.into_values().collect();
        let question = Question { stem: self.question, options, letters, subtitles: None };
        Ok(Some(Sample { tags, flags, ..cx.sample(self.id.0, video, question, gold) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paravt_suite::profile::Profile;
    use serde_json::json;

    fn sample(open: bool, profile: Profile) -> Option<Sample> {
        let text = |text: &str| if open { String::new() } else { text.to_owned() };
        let row = json!({"id": "validation_3", "question": "Q?", "answer": if open { " Doppler " } else { "B" },
            "video": "https://example.org/resolve/main/videos/Modern_Physics/4.mp4",
            "question_type": if open { "open-ended" } else { "multiple-choice" },
            "metadata": {"subject": "Modern Physics"}, "choices": {"B": text("tilt"), "A": text("pan"), "C": ""}});
        MMVU.sample("rows".as_ref(), 0, row.as_object().unwrap(), profile).unwrap()
    }

    #[test]
    fn choices_are_sorted_and_empty_ones_dropped() {
        let sample = sample(false, Profile::Paper).unwrap();
        assert_eq!(
            (sample.question.options, sample.question.letters),
            (vec!["pan".into(), "tilt".into()], "AB".into())
        );
        assert_eq!(sample.tags["discipline"], ["Science"]);
        assert_eq!(sample.video, PathBuf::from("videos/Modern_Physics/4.mp4"));
    }

    #[test]
    fn open_ended_rows_by_profile() {
        assert_eq!(sample(true, Profile::Release).unwrap().gold, Gold::Choice { answer: "Doppler".into() });
        assert_eq!(sample(true, Profile::Paper), None);
        assert_eq!(sample(true, Profile::Strict).unwrap().gold, Gold::open("Doppler"));
    }

    #[test]
    fn the_video_folder_may_be_videos_itself_except_under_release() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("Art")).unwrap();
        std::fs::write(dir.path().join("Art/4.mp4"), "").unwrap();
        let path = |profile| MMVU.layout().video(dir.path(), "videos/Art/4.mp4".as_ref(), profile);
        assert_eq!(path(Profile::Paper), PathBuf::from("Art/4.mp4"));
        assert_eq!(path(Profile::Release), PathBuf::from("videos/Art/4.mp4"));
    }
}
