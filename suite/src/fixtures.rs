//! Made-up samples and records for the unit tests of this crate.

use std::path::PathBuf;

use crate::profile::Profile;
use crate::record::{
    Measured, Outcome, RECORD_VERSION, Record, SampleError, SampleErrorClass, Score, Transcript,
};
use crate::sample::{Gold, Question, Sample, Tags};

/// A choice question with the gold letter B.
pub fn sample(uid: &str) -> Sample {
    Sample {
        task: "made_up".into(),
        uid: uid.into(),
        id: "not unique".into(),
        row: 0,
        video: PathBuf::from("/nowhere/clip.mp4"),
        question: Question {
            stem: "What is shown?".into(),
            options: vec!["a cat".into(), "a dog".into()],
            letters: "AB".into(),
            subtitles: None,
        },
        gold: Gold::Choice { answer: "B".into() },
        tags: Tags::new(),
        evidence: None,
        flags: Vec::new(),
    }
}

/// A scored record of a choice question.
pub fn record(uid: &str, value: f64) -> Record {
    Record {
        version: RECORD_VERSION,
        profile: Profile::Paper,
        protocol: "p".into(),
        sample: sample(uid),
        transcript: Transcript::default(),
        score: Score {
            outcome: Outcome::Scored,
            value,
            prediction: Some("B".into()),
            rule: Some("answer_tag".into()),
        },
        error: None,
        measured: Measured::default(),
    }
}

/// The same record with an error in the place of its answer.
pub fn failed(record: Record, class: SampleErrorClass) -> Record {
    Record {
        score: Score { outcome: Outcome::Error, value: 0.0, prediction: None, rule: None },
        error: Some(SampleError { class, message: "made up".into(), step: "turn0".into() }),
        ..record
    }
}
