#![forbid(unsafe_code)]
//! MMVU, validation split.

mod disciplines;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_suite::data::{Cells, DataError, Folders, Layout};
use paravt_suite::profile::Profile;
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::task::{Breakdown, HubSource, Metric, Task, TaskSpec};
use serde_json::Value;

/// What the 375 open-ended rows are taken for (§2.4 row 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenEnded {
    /// As choice questions without options, compared as raw strings: the released loader.
    AsChoice,
    /// Left out: the published column is over the 625 choice questions.
    LeftOut,
    /// As open questions, reported apart.
    Apart,
}

/// What only this benchmark does differently by profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    /// §2.4 row 2.
    pub open_ended: OpenEnded,
    /// §2.4 row 6: the video folder given apart must be the parent of `videos/`. Off: it may also
    /// be `videos/` itself, as the reference's own example file has it.
    pub video_dir_is_parent: bool,
}

impl Quirks {
    /// The switches of a profile.
    pub fn of(profile: Profile) -> Self {
        let open_ended = match profile {
            Profile::Release => OpenEnded::AsChoice,
            Profile::Paper => OpenEnded::LeftOut,
            Profile::Strict => OpenEnded::Apart,
        };
        Self { open_ended, video_dir_is_parent: profile == Profile::Release }
    }
}

/// MMVU.
pub struct Mmvu {
    spec: TaskSpec,
    layout: Layout,
}

impl Mmvu {
    /// The validation split.
    pub fn new() -> Self {
        let spec = TaskSpec {
            name: "mmvu".into(),
            title: "MMVU (val)".into(),
            hub: HubSource {
                repos: vec!["yale-nlp/MMVU".into(), "lmms-eval/MMVU".into(), "lmms-lab/MMVU".into()],
                config: None,
                split: "validation".into(),
                revision: None,
                annotations: "validation.json".into(),
                media: vec!["videos/<Subject>/<n>.mp4".into()],
                license: "not stated; treat as research only".into(),
                gated: false,
            },
            expected_rows: 1000,
            paper_rows: 625,
            expected_videos: 583,
            metric: Metric::Accuracy { macro_over: None },
            breakdowns: vec![
                Breakdown {
                    tag: "discipline".into(),
                    title: "Discipline".into(),
                    order: disciplines::DISCIPLINES.map(str::to_owned).into(),
                },
                Breakdown { tag: "subject".into(), title: "Subject".into(), order: Vec::new() },
                Breakdown { tag: "question_type".into(), title: "Question type".into(), order: Vec::new() },
            ],
        };
        let layout = Layout {
            benchmark: "mmvu",
            annotations: &["validation.json", "data/validation-00000-of-00001.parquet"],
            videos: &["mmvu"],
            subtitles: &[],
            expected_subtitles: None,
        };
        Self { spec, layout }
    }
}

impl Default for Mmvu {
    fn default() -> Self {
        Self::new()
    }
}

/// Non-empty choices by letter. They come as an object, or in the mirror as its JSON text; an
/// open-ended row may have null for them.
fn choices(cells: &Cells<'_>, open: bool) -> Result<BTreeMap<String, String>, DataError> {
    if open && cells.value.get("choices").is_some_and(Value::is_null) {
        return Ok(BTreeMap::new());
    }
    let value = cells.get("choices")?;
    let parsed = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let object = parsed.as_ref().unwrap_or(value).as_object().cloned();
    let object = object.ok_or_else(|| cells.error("choices", "expected an object of letters".into()))?;
    if let Some(key) = object.keys().find(|key| key.chars().count() != 1) {
        return Err(cells.error("choices", format!("`{key}` is not one letter")));
    }
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    Ok(object.iter().filter_map(|(letter, value)| Some((letter.clone(), text(value)?))).collect())
}

/// The video's path in the repository: what follows `/main/` in the published URL.
fn video_in_repository(cells: &Cells<'_>) -> Result<String, DataError> {
    let column = if cells.value.contains_key("video") { "video" } else { "video_path" };
    let video = cells.text(column)?;
    let path = match video.split_once("/main/") {
        Some((_, path)) => path,
        None if video.starts_with("http://") || video.starts_with("https://") => {
            return Err(cells.error(column, format!("expected a URL with `/main/`, found {video}")));
        }
        None => video,
    };
    cells.stays_inside(column, path)?;
    Ok(path.to_owned())
}

fn video_path(folder: &Path, in_repository: &str, quirks: Quirks) -> PathBuf {
    let path = folder.join(in_repository);
    match in_repository.strip_prefix("videos/") {
        Some(rest) if !quirks.video_dir_is_parent && !path.is_file() && folder.join(rest).is_file() => {
            folder.join(rest)
        }
        _ => path,
    }
}

impl Task for Mmvu {
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
        let question_type = cells.text("question_type")?;
        let open = match question_type {
            "open-ended" => true,
            "multiple-choice" => false,
            other => {
                let message = format!("`{other}` is neither multiple-choice nor open-ended");
                return Err(cells.error("question_type", message));
            }
        };
        if open && quirks.open_ended == OpenEnded::LeftOut {
            return Ok(None);
        }
        let choices = choices(cells, open)?;
        if choices.is_empty() && !open && profile == Profile::Strict {
            return Err(cells.error("choices", "the row has no options".into()));
        }
        let letters: String = choices.keys().map(String::as_str).collect();
        let mut flags = Vec::new();
        let answer = cells.text("answer")?.trim().to_owned();
        let gold = match (open, quirks.open_ended) {
            (true, OpenEnded::Apart) => Gold::Text { answer },
            (true, _) => Gold::Choice { answer },
            (false, _) => {
                // Upstream takes the spaces off this benchmark's answers alone.
                let published = cells.letter("answer", &letters, profile, &mut flags)?;
                let answer = published.trim().to_owned();
                if letters.contains(&answer) && answer.chars().count() == 1 {
                    flags.clear();
                }
                Gold::Choice { answer }
            }
        };
        let subject = cells.value.get("metadata").and_then(|metadata| metadata["subject"].as_str());
        let mut tags = Tags::from([("question_type".to_owned(), vec![question_type.to_owned()])]);
        let in_repository = video_in_repository(cells)?;
        let folder = in_repository.rsplit('/').nth(1).unwrap_or_default();
        let subject = subject.unwrap_or(folder).replace('_', " ");
        if let Some(discipline) = disciplines::discipline(&subject) {
            tags.insert("discipline".into(), vec![discipline.to_owned()]);
        }
        tags.insert("subject".into(), vec![subject]);
        let id = cells.id("id")?;
        Ok(Some(Sample {
            task: self.spec.name.clone(),
            uid: id.clone(),
            id,
            row: cells.row,
            video: video_path(&folders.videos, &in_repository, quirks),
            question: Question {
                stem: cells.text("question")?.to_owned(),
                options: choices.into_values().collect(),
                letters,
                subtitles: None,
            },
            gold,
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

    fn sample(open: bool, profile: Profile) -> Option<Sample> {
        let text = |text: &str| if open { String::new() } else { text.to_owned() };
        let row = json!({"id": "validation_3", "question": "Q?", "answer": if open { " Doppler " } else { "B" },
            "video": "https://example.org/resolve/main/videos/Modern_Physics/4.mp4",
            "question_type": if open { "open-ended" } else { "multiple-choice" },
            "metadata": {"subject": "Modern Physics"}, "choices": {"B": text("tilt"), "A": text("pan"), "C": ""}});
        let cells = Cells { file: "rows".as_ref(), row: 0, value: row.as_object().unwrap() };
        let folders = Folders { videos: "v".into(), subtitles: None };
        Mmvu::new().sample(&cells, &folders, profile).unwrap()
    }

    #[test]
    fn choices_are_sorted_and_empty_ones_dropped() {
        let sample = sample(false, Profile::Paper).unwrap();
        assert_eq!(
            (sample.question.options, sample.question.letters),
            (vec!["pan".into(), "tilt".into()], "AB".into())
        );
        assert_eq!(sample.tags["discipline"], ["Science"]);
        assert_eq!(sample.video, PathBuf::from("v/videos/Modern_Physics/4.mp4"));
    }

    #[test]
    fn open_ended_rows_by_profile() {
        assert_eq!(sample(true, Profile::Release).unwrap().gold, Gold::Choice { answer: "Doppler".into() });
        assert_eq!(sample(true, Profile::Paper), None);
        assert_eq!(sample(true, Profile::Strict).unwrap().gold, Gold::Text { answer: "Doppler".into() });
    }

    #[test]
    fn the_video_folder_may_be_videos_itself_except_under_release() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("Art")).unwrap();
        std::fs::write(dir.path().join("Art/4.mp4"), "").unwrap();
        let path = |profile| video_path(dir.path(), "videos/Art/4.mp4", Quirks::of(profile));
        assert_eq!(path(Profile::Paper), dir.path().join("Art/4.mp4"));
        assert_eq!(path(Profile::Release), dir.path().join("videos/Art/4.mp4"));
    }
}
