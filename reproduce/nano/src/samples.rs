//! Questions as the tasks hand them to the suite.

use std::path::Path;

use paravt_suite::sample::{Gold, Question as Shown, Sample, Tags};
use paravt_suite::span::TimeSpan;
use rand::Rng;

use crate::questions::{Ask, Question};

/// Form of a question with options; the splits differ in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Options apart (LongVideoBench, MMVU, MLVU under `strict`).
    Plain,
    /// A full stop after each (Video-MME under `strict`).
    Dotted,
    /// Letters in the options (Video-MME as published).
    Doubled,
    /// Options inside the question (LVBench).
    Embedded,
    /// Inside the question and apart (MLVU as published).
    Twice,
    /// No options, a name as the answer (MMVU under `strict`).
    Open,
}

impl Style {
    /// All styles with options.
    const CHOICE: [Self; 5] = [Self::Plain, Self::Dotted, Self::Doubled, Self::Embedded, Self::Twice];

    /// A style that suits a question; half are plain.
    pub(crate) fn random(ask: &Ask, rng: &mut impl Rng) -> Self {
        match ask {
            Ask::Perception { .. } if rng.random_bool(0.15) => Self::Open,
            _ if rng.random_bool(0.5) => Self::Plain,
            _ => Self::CHOICE[rng.random_range(0..Self::CHOICE.len())],
        }
    }
}

/// A question about a video as a sample.
pub(crate) fn sample(question: &Question, style: Style, uid: &str, video: &Path) -> Sample {
    let lettered = || ('A'..).zip(&question.options);
    let options: Vec<String> = match style {
        Style::Plain | Style::Twice => question.options.clone(),
        Style::Dotted => question.options.iter().map(|option| format!("{option}.")).collect(),
        Style::Doubled => lettered().map(|(letter, option)| format!("{letter}. {option}.")).collect(),
        Style::Embedded | Style::Open => Vec::new(),
    };
    let stem = match style {
        _ if question.options.is_empty() => question.text.clone(),
        Style::Embedded => question.embedded(),
        Style::Twice => format!("{}\n", question.embedded()),
        _ => question.text.clone(),
    };
    let gold = match question.ask {
        Ask::Grounding { event } => Gold::Interval { start: event.start, end: event.end },
        _ if style == Style::Open => Gold::open(question.options[question.answer].clone()),
        _ => Gold::Choice { answer: question.letter().to_string() },
    };
    let letters = if matches!(gold, Gold::Choice { .. }) { "ABCD" } else { "" };
    let shown = Shown { stem, options, letters: letters.to_owned(), subtitles: None };
    Sample {
        tags: Tags::from([("kind".to_owned(), vec![question.kind().to_owned()])]),
        evidence: Some(TimeSpan::new(question.evidence.0 as f64, question.evidence.1 as f64)),
        ..Sample::new("nano", uid.to_owned(), 0, video.to_owned(), shown, gold)
    }
}
