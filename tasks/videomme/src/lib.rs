#![forbid(unsafe_code)]
//! Video-MME, without and with subtitles.

use paravt_suite::data::{DataError, Id};
use paravt_suite::sample::{Gold, Question, Sample};
use paravt_suite::task::{Benchmark, IntoSample, KeptQuirks, RowContext, letters, read};
use paravt_upstream::paravt::srt::{parse_srt, timed_subtitles};
use serde::Deserialize;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&VIDEO_MME, &VIDEO_MME_WITH_SUBTITLES];
/// `videomme`.
pub static VIDEO_MME: Benchmark = Benchmark::new(include_str!("../benchmark.toml"), read::<Row>);

/// `videomme_wsub`.
pub static VIDEO_MME_WITH_SUBTITLES: Benchmark =
    Benchmark::new(include_str!("../benchmark.toml"), read::<Row>)
        .with_changes(include_str!("../with_subtitles.toml"))
        .with_subtitles(shown_subtitles);

/// The published columns.
#[derive(Deserialize)]
struct Row {
    question_id: Id,
    #[serde(rename = "videoID")]
    video_id: String,
    question: String,
    options: Vec<String>,
    answer: String,
    duration: String,
    domain: String,
    sub_category: String,
    task_type: String,
}

fn shown_subtitles(content: &str, quirks: KeptQuirks<'_>) -> String {
    if quirks.has("untimed_subtitles") { parse_srt(content) } else { timed_subtitles(content) }
}

/// `A. Apples.` without its letter.
fn without_letter(option: &str) -> &str {
    let mut rest = option.chars();
    let lettered =
        rest.next().is_some_and(|c| c.is_ascii_uppercase()) && matches!(rest.next(), Some('.' | ')'));
    if lettered { rest.as_str().trim_start() } else { option }
}

impl IntoSample for Row {
    fn into_sample(self, cx: &RowContext<'_>) -> Result<Option<Sample>, DataError> {
        let letters = letters(self.options.len());
        cx.need_options("options", &letters)?;
        let video = cx.path("videoID", &self.video_id)?.with_added_extension("mp4");
        let mut flags = Vec::new();
        let gold = Gold::Choice { answer: cx.letter("answer", &self.answer, &letters, &mut flags)? };
        let doubled = cx.quirks.has("doubled_letters");
        let shown = |option: String| if doubled { option } else { without_letter(&option).to_owned() };
        let options = self.options.into_iter().map(shown).collect();
        let tags = [
            ("duration", self.duration),
            ("domain", self.domain),
            ("sub_category", self.sub_category),
            ("task_type", self.task_type),
        ];
        let question = Question { stem: self.question, options, letters, subtitles: None };
        Ok(Some(Sample {
            id: self.video_id,
            tags: tags.map(|(tag, label)| (tag.to_owned(), vec![label])).into(),
            flags,
            ..cx.sample(self.question_id.0, video, question, gold)
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use paravt_suite::data::Folders;
    use paravt_suite::profile::Profile;
    use serde_json::json;

    fn sample(task: &Benchmark, folders: &Folders, profile: Profile) -> Sample {
        let row = json!({"video_id": "001", "duration": "short", "domain": "Knowledge", "sub_category": "Law",
            "url": "u", "videoID": "vid", "question_id": "001-1", "task_type": "OCR Problems",
            "question": "Q?", "options": ["A. red", "B. blue."], "answer": "B"});
        let file = Path::new("rows");
        let sample = task.sample(file, 0, row.as_object().unwrap(), profile).unwrap().unwrap();
        task.find_files(sample, file, folders, profile).unwrap()
    }

    #[test]
    fn letters_are_doubled_except_under_strict() {
        let folders = Folders { videos: "v".into(), subtitles: None };
        let task = &VIDEO_MME;
        assert_eq!(sample(task, &folders, Profile::Paper).question.options, ["A. red", "B. blue."]);
        assert_eq!(sample(task, &folders, Profile::Strict).question.options, ["red", "blue."]);
        assert_eq!(without_letter("Apples"), "Apples");
    }

    #[test]
    fn subtitles_are_whole_or_timed_and_their_absence_is_flagged() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders { videos: dir.path().into(), subtitles: Some(dir.path().into()) };
        let task = &VIDEO_MME_WITH_SUBTITLES;
        assert_eq!(sample(task, &folders, Profile::Paper).flags, ["no_subtitles"]);
        std::fs::write(
            dir.path().join("vid.srt"),
            "1\n00:01:00,0 --> 00:01:01,0\nhi\n\n2\n00:01:02,0 --> 0\nhi\n",
        )
        .unwrap();
        assert_eq!(sample(task, &folders, Profile::Release).question.subtitles.as_deref(), Some("hi\nhi"));
        assert_eq!(sample(task, &folders, Profile::Strict).question.subtitles.as_deref(), Some("[01:00] hi"));
        assert_eq!(sample(&VIDEO_MME, &folders, Profile::Paper).question.subtitles, None);
    }

    #[test]
    fn a_folder_in_the_place_of_subtitles_is_none_except_under_strict() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("vid.srt")).unwrap();
        let folders = Folders { videos: dir.path().into(), subtitles: Some(dir.path().into()) };
        for profile in [Profile::Release, Profile::Paper] {
            let sample = sample(&VIDEO_MME_WITH_SUBTITLES, &folders, profile);
            assert_eq!((sample.question.subtitles, sample.flags), (None, vec!["no_subtitles".to_owned()]));
        }
        let row = sample(&VIDEO_MME, &folders, Profile::Strict);
        let refused = VIDEO_MME_WITH_SUBTITLES.find_files(row, Path::new("rows"), &folders, Profile::Strict);
        assert!(refused.unwrap_err().to_string().contains("a folder"));
    }

    #[test]
    fn invalid_utf8_is_dropped_from_subtitles() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders { videos: dir.path().into(), subtitles: Some(dir.path().into()) };
        let bytes = b"1\n00:00:01,000 --> 00:00:02,000\ncaf\xc3\xa9 \xff\xef\xbf\xbd!\n";
        std::fs::write(dir.path().join("vid.srt"), bytes).unwrap();
        let sample = sample(&VIDEO_MME_WITH_SUBTITLES, &folders, Profile::Release);
        assert_eq!(sample.question.subtitles.as_deref(), Some("café \u{fffd}!"));
    }

    #[test]
    fn other_extensions_are_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("vid.mkv"), "").unwrap();
        let found = |name: &str, profile| VIDEO_MME.layout().video(dir.path(), name.as_ref(), profile);
        assert_eq!(found("vid.mp4", Profile::Paper), Path::new("vid.mkv"));
        assert_eq!(found("vid.mp4", Profile::Release), Path::new("vid.mp4"), "the driver knows no other");
        assert_eq!(found("other.mp4", Profile::Paper), Path::new("other.mp4"));
    }
}
