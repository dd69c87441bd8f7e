#![forbid(unsafe_code)]
//! Video-MME, without and with subtitles.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use paravt_suite::data::{Cells, DataError, Folders, Layout, letters};
use paravt_suite::files::read_limited;
use paravt_suite::profile::Profile;
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::task::{Breakdown, HubSource, Metric, Task, TaskSpec};
use paravt_upstream::paravt::srt::{parse_srt, timed_subtitles};

/// Video extensions in the order that lmms-eval tries them.
const EXTENSIONS: [&str; 3] = ["mp4", "MP4", "mkv"];
/// Bytes that a subtitle file may have; the published ones are below one million.
const MAX_SUBTITLES: u64 = 16 << 20;

/// What only this benchmark does differently by profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    /// §2.4 row 3: published options carry `A. ` already and the protocol letters them again. On:
    /// options stay as published (`A. A. Apples.`). Off: the published letter is taken off.
    pub doubled_letters: bool,
    /// §2.4 row 15: the whole subtitle file without times, duplicates kept. Off: `[mm:ss]` lines.
    pub untimed_subtitles: bool,
    /// Videos are `.mp4`. Off: other extensions are found too. No published file tells the two apart.
    pub only_mp4: bool,
}

impl Quirks {
    /// The switches of a profile.
    pub fn of(profile: Profile) -> Self {
        let kept = profile != Profile::Strict;
        Self { doubled_letters: kept, untimed_subtitles: kept, only_mp4: profile == Profile::Release }
    }
}

/// Video-MME in one of its two settings.
pub struct VideoMme {
    spec: TaskSpec,
    layout: Layout,
    subtitles: bool,
}

/// The published row, by column name.
struct Row {
    question_id: String,
    video_id: String,
    question: String,
    options: Vec<String>,
    answer: String,
}

impl VideoMme {
    /// `videomme`.
    pub fn without_subtitles() -> Self {
        Self::new("videomme", "Video-MME (w/o subtitles)", false)
    }

    /// `videomme_wsub`.
    pub fn with_subtitles() -> Self {
        Self::new("videomme_wsub", "Video-MME (w/ subtitles)", true)
    }

    fn new(name: &str, title: &str, subtitles: bool) -> Self {
        let archives = (1..=20).map(|part| format!("videos_chunked_{part:02}.zip"));
        let spec = TaskSpec {
            name: name.into(),
            title: title.into(),
            hub: HubSource {
                repos: vec!["lmms-eval/Video-MME".into(), "lmms-lab/Video-MME".into()],
                config: Some("videomme".into()),
                split: "test".into(),
                revision: Some("ead1408f75b618502df9a1d8e0950166bf0a2a0b".into()),
                annotations: "videomme/test-00000-of-00001.parquet".into(),
                media: archives.chain(subtitles.then(|| "subtitle.zip".to_owned())).collect(),
                license: "academic use only, no commercial use".into(),
                gated: false,
            },
            expected_rows: 2700,
            paper_rows: 2700,
            expected_videos: 900,
            metric: Metric::Accuracy { macro_over: None },
            breakdowns: vec![
                breakdown("duration", "Duration", &["short", "medium", "long"]),
                breakdown("domain", "Domain", &[]),
                breakdown("sub_category", "Sub-category", &[]),
                breakdown("task_type", "Task type", &[]),
            ],
        };
        let layout = Layout {
            benchmark: "videomme",
            annotations: &["videomme/test-00000-of-00001.parquet"],
            videos: &["videomme/data", "data"],
            subtitles: &["videomme/subtitle", "subtitle"],
            expected_subtitles: subtitles.then_some(744),
        };
        Self { spec, layout, subtitles }
    }

    /// Subtitle text as the profile shows it; `None` when there is none for the video.
    ///
    /// # Errors
    /// The file is there and is not a regular, readable file of at most [`MAX_SUBTITLES`] bytes.
    fn subtitle_text(
        &self,
        cells: &Cells<'_>,
        folders: &Folders,
        video_id: &str,
        quirks: Quirks,
    ) -> Result<Option<String>, DataError> {
        let Some(folder) = &folders.subtitles else { return Ok(None) };
        let file = format!("{video_id}.srt");
        let bytes = match read_limited(&folder.join(&file), MAX_SUBTITLES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cells.error("videoID", format!("subtitles {file}: {error}"))),
        };
        // Upstream reads with errors ignored: bytes that are not UTF-8 are dropped.
        let content: String = bytes.utf8_chunks().map(|chunk| chunk.valid()).collect();
        let text = if quirks.untimed_subtitles { parse_srt(&content) } else { timed_subtitles(&content) };
        Ok((!text.is_empty()).then_some(text))
    }
}

fn breakdown(tag: &str, title: &str, order: &[&str]) -> Breakdown {
    Breakdown {
        tag: tag.into(),
        title: title.into(),
        order: order.iter().map(|&label| label.into()).collect(),
    }
}

/// `A. Apples.` without its letter.
fn without_letter(option: &str) -> &str {
    let mut rest = option.chars();
    let lettered =
        rest.next().is_some_and(|c| c.is_ascii_uppercase()) && matches!(rest.next(), Some('.' | ')'));
    if lettered { rest.as_str().trim_start() } else { option }
}

/// The first of the known extensions that exists, `.mp4` where none does.
fn video(folder: &Path, video_id: &str, quirks: Quirks) -> PathBuf {
    let known = if quirks.only_mp4 { &EXTENSIONS[..1] } else { &EXTENSIONS };
    let mut paths = known.iter().map(|extension| folder.join(format!("{video_id}.{extension}")));
    paths.find(|path| path.is_file()).unwrap_or_else(|| folder.join(format!("{video_id}.mp4")))
}

impl Task for VideoMme {
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
        let options = cells.options("options", profile)?;
        let mut flags = Vec::new();
        let row = Row {
            question_id: cells.id("question_id")?,
            video_id: cells.relative_path("videoID")?.to_owned(),
            question: cells.text("question")?.to_owned(),
            answer: cells.letter("answer", &letters(options.len()), profile, &mut flags)?,
            options,
        };
        let mut tags = Tags::new();
        for tag in ["duration", "domain", "sub_category", "task_type"] {
            tags.insert(tag.into(), vec![cells.text(tag)?.to_owned()]);
        }
        let subtitles =
            if self.subtitles { self.subtitle_text(cells, folders, &row.video_id, quirks)? } else { None };
        if self.subtitles && subtitles.is_none() {
            flags.push("no_subtitles".to_owned());
        }
        let shown = |option: &String| {
            if quirks.doubled_letters { option.clone() } else { without_letter(option).to_owned() }
        };
        Ok(Some(Sample {
            task: self.spec.name.clone(),
            uid: row.question_id,
            video: video(&folders.videos, &row.video_id, quirks),
            id: row.video_id,
            row: cells.row,
            question: Question {
                stem: row.question,
                letters: letters(row.options.len()),
                options: row.options.iter().map(shown).collect(),
                subtitles,
            },
            gold: Gold::Choice { answer: row.answer },
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
    use serde_json::json;

    fn sample(task: &VideoMme, folders: &Folders, profile: Profile) -> Sample {
        let row = json!({"video_id": "001", "duration": "short", "domain": "Knowledge", "sub_category": "Law",
            "url": "u", "videoID": "vid", "question_id": "001-1", "task_type": "OCR Problems",
            "question": "Q?", "options": ["A. red", "B. blue."], "answer": "B"});
        let cells = Cells { file: Path::new("rows"), row: 0, value: row.as_object().unwrap() };
        task.sample(&cells, folders, profile).unwrap().unwrap()
    }

    #[test]
    fn letters_are_doubled_except_under_strict() {
        let folders = Folders { videos: "v".into(), subtitles: None };
        let task = VideoMme::without_subtitles();
        assert_eq!(sample(&task, &folders, Profile::Paper).question.options, ["A. red", "B. blue."]);
        assert_eq!(sample(&task, &folders, Profile::Strict).question.options, ["red", "blue."]);
        assert_eq!(without_letter("Apples"), "Apples");
    }

    #[test]
    fn subtitles_are_whole_or_timed_and_their_absence_is_flagged() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders { videos: dir.path().into(), subtitles: Some(dir.path().into()) };
        let task = VideoMme::with_subtitles();
        assert_eq!(sample(&task, &folders, Profile::Paper).flags, ["no_subtitles"]);
        std::fs::write(
            dir.path().join("vid.srt"),
            "1\n00:01:00,0 --> 00:01:01,0\nhi\n\n2\n00:01:02,0 --> 0\nhi\n",
        )
        .unwrap();
        assert_eq!(sample(&task, &folders, Profile::Release).question.subtitles.as_deref(), Some("hi\nhi"));
        assert_eq!(
            sample(&task, &folders, Profile::Strict).question.subtitles.as_deref(),
            Some("[01:00] hi")
        );
        assert_eq!(sample(&VideoMme::without_subtitles(), &folders, Profile::Paper).question.subtitles, None);
    }

    #[test]
    fn bytes_that_are_no_text_are_dropped_from_subtitles_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders { videos: dir.path().into(), subtitles: Some(dir.path().into()) };
        let bytes = b"1\n00:00:01,000 --> 00:00:02,000\ncaf\xc3\xa9 \xff\xef\xbf\xbd!\n";
        std::fs::write(dir.path().join("vid.srt"), bytes).unwrap();
        let sample = sample(&VideoMme::with_subtitles(), &folders, Profile::Release);
        assert_eq!(sample.question.subtitles.as_deref(), Some("café \u{fffd}!"));
    }

    #[test]
    fn other_extensions_are_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("vid.mkv"), "").unwrap();
        let found = |name, profile| video(dir.path(), name, Quirks::of(profile));
        assert_eq!(found("vid", Profile::Paper), dir.path().join("vid.mkv"));
        assert_eq!(found("vid", Profile::Release), dir.path().join("vid.mp4"), "the driver knows no other");
        assert_eq!(found("other", Profile::Paper), dir.path().join("other.mp4"));
    }
}
