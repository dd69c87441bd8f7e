//! A sample: one question about one video, or about images, as a task hands it to the engine.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::span::TimeSpan;
use crate::text::embedded_options;

/// Breakdown labels of a sample, e.g. `duration -> ["short"]`; several values for multi-label tags.
pub type Tags = BTreeMap<String, Vec<String>>;

/// One question about one video, or about images.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Name of the split, e.g. `videomme_wsub`; also the key of its question template.
    pub task: String,
    /// Name of the sample, unique within the split and stable over versions of this program; `--ids` takes it.
    pub uid: String,
    /// The id that the driver of the reference writes; not always unique (Video-MME has that of the video).
    pub id: String,
    /// Zero-based row in the published file.
    pub row: usize,
    /// Name of the video: the benchmark's name and the path below the folder of its videos. A file that does not exist
    /// is an error of this sample.
    pub video: PathBuf,
    /// The images that the question is about in the place of a video, named as it is; the first one is `video`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<PathBuf>,
    /// The question.
    pub question: Question,
    /// The gold answer.
    pub gold: Gold,
    /// Labels for the breakdowns.
    pub tags: Tags,
    /// Interval of the evidence in the video, where the data set gives one.
    /// Gold information: never shown to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<TimeSpan>,
    /// Data-quality flags of the row, e.g. `no_subtitles`; reports count them beside the score.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// Why the row cannot be asked; its record is an error of class `data`, counted as wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defect: Option<String>,
}

impl Sample {
    /// A sample with nothing else in it; its id is the uid.
    pub fn new(task: &str, uid: String, row: usize, video: PathBuf, question: Question, gold: Gold) -> Self {
        Self {
            task: task.to_owned(),
            id: uid.clone(),
            uid,
            row,
            video,
            images: Vec::new(),
            question,
            gold,
            tags: Tags::new(),
            evidence: None,
            flags: Vec::new(),
            defect: None,
        }
    }

    /// Text of the gold option; `None` where there is none.
    pub fn gold_text(&self) -> Option<&str> {
        match &self.gold {
            Gold::Choice { answer } => self.question.option_text(answer),
            Gold::Interval { .. } | Gold::Text { .. } | Gold::Number { .. } => None,
        }
    }

    /// Whether the question is about images, not about a video.
    pub fn is_about_images(&self) -> bool {
        !self.images.is_empty()
    }

    /// The names of the files that it is about: its images, or its video.
    pub fn media(&self) -> &[PathBuf] {
        if self.images.is_empty() { std::slice::from_ref(&self.video) } else { &self.images }
    }

    /// The same sample with its files under other names.
    #[must_use]
    pub(crate) fn with_media(mut self, named: impl Fn(&Path) -> PathBuf) -> Self {
        self.images.iter_mut().for_each(|image| *image = named(image));
        self.video = named(&self.video);
        self
    }

    /// File name of the video.
    pub fn video_name(&self) -> String {
        self.video.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned())
    }
}

/// SHA-256 over samples in their order; lower-case hexadecimal.
///
/// The facts of every `benchmark.toml` hold such hashes: what changes the JSON of a sample changes them all.
pub(crate) fn sha256(samples: impl IntoIterator<Item = impl Borrow<Sample>>) -> String {
    let mut hasher = Sha256::new();
    for sample in samples {
        hasher.update(serde_json::to_vec(sample.borrow()).expect("plain structs with string keys serialise"));
        hasher.update(b"\n");
    }
    paravt_files::hex(&hasher.finalize())
}

/// The parts that a protocol's template puts together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Question {
    /// The question (or the caption to ground), as the profile wants it.
    pub stem: String,
    /// Option texts in display order; the protocol letters them. Empty where the stem carries them.
    pub options: Vec<String>,
    /// Letters that are valid answers of this row, e.g. `"ABCD"`; empty for other than choice questions.
    pub letters: String,
    /// Subtitle text, already reduced to what the split shows; absent or empty when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtitles: Option<String>,
}

impl Question {
    /// Texts of the options, of the list or out of the stem, without letters and the blanks around them.
    pub(crate) fn option_texts(&self) -> Vec<&str> {
        if self.letters.is_empty() {
            return Vec::new();
        }
        if self.options.is_empty() {
            return embedded_options(&self.stem).into_iter().map(|(_, text)| text.trim()).collect();
        }
        let letters = self.letters.chars().zip(&self.options);
        let bare: Option<Vec<&str>> = letters
            .map(|(letter, option)| option.trim_start().strip_prefix(letter)?.strip_prefix(['.', ')']))
            .collect();
        let texts = bare.unwrap_or_else(|| self.options.iter().map(String::as_str).collect());
        texts.into_iter().map(str::trim).collect()
    }

    /// Text of the option of a letter.
    pub fn option_text(&self, letter: &str) -> Option<&str> {
        let place = self.letters.chars().position(|other| letter.chars().eq([other]))?;
        self.option_texts().get(place).copied()
    }
}

/// The gold answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Gold {
    /// A choice question. The string is compared as it is: `release` keeps what the upstream
    /// loader produces, even where that is not a letter.
    Choice {
        /// Usually one letter.
        answer: String,
    },
    /// A temporal grounding question; seconds from the start of the video.
    Interval {
        /// Start in seconds.
        start: f64,
        /// End in seconds.
        end: f64,
    },
    /// An open-ended question, compared by normalised exact match.
    Text {
        /// The reference answer.
        answer: String,
        /// Whether it is part of the headline; else it is reported apart.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        counted: bool,
    },
    /// A question for a count or a quantity, scored by mean relative accuracy.
    Number {
        /// The reference answer, in the question's unit.
        answer: f64,
    },
}

impl Gold {
    /// An open-ended question that is reported apart.
    pub fn open(answer: impl Into<String>) -> Self {
        Gold::Text { answer: answer.into(), counted: false }
    }

    /// Whether the question is reported apart and never part of the headline.
    pub fn is_excluded_from_headline(&self) -> bool {
        matches!(self, Gold::Text { counted: false, .. })
    }

    /// Key of the generic question template and of the forced-answer text.
    pub fn kind(&self) -> QuestionKind {
        match self {
            Gold::Choice { .. } => QuestionKind::Choice,
            Gold::Interval { .. } => QuestionKind::Grounding,
            Gold::Text { .. } => QuestionKind::Open,
            Gold::Number { .. } => QuestionKind::Number,
        }
    }

    /// The interval that a grounding question asks for.
    pub fn interval(&self) -> Option<TimeSpan> {
        match self {
            Gold::Interval { start, end } => Some(TimeSpan::new(*start, *end)),
            Gold::Choice { .. } | Gold::Text { .. } | Gold::Number { .. } => None,
        }
    }
}

impl std::fmt::Display for Gold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Gold::Choice { answer } | Gold::Text { answer, .. } => f.write_str(answer),
            Gold::Interval { start, end } => write!(f, "{start}-{end}"),
            Gold::Number { answer } => write!(f, "{answer}"),
        }
    }
}

/// The kinds of question that the suite scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// One letter out of several.
    Choice,
    /// A time interval.
    Grounding,
    /// Free text.
    Open,
    /// A count or a quantity.
    Number,
}

impl QuestionKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Choice, Self::Grounding, Self::Open, Self::Number];

    /// Keys under which a protocol may have texts for the kind, the most special one first.
    pub(crate) fn text_keys(self) -> &'static [&'static str] {
        match self {
            Self::Choice => &["choice"],
            Self::Grounding => &["grounding"],
            Self::Open => &["open"],
            // A number is a short answer: a protocol without texts of its own for it asks openly.
            Self::Number => &["number", "open"],
        }
    }
}
