#![forbid(unsafe_code)]
//! LVBench. Options are part of the question; capabilities are multi-label.

use paravt_suite::data::{DataError, Id};
use paravt_suite::profile::Profile;
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::span::TimeSpan;
use paravt_suite::task::{Benchmark, IntoSample, REVERSED_EVIDENCE, RowContext, read};
use paravt_suite::text::{clock_seconds, embedded_options};
use serde::Deserialize;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&LVBENCH];
/// `lvbench`.
pub static LVBENCH: Benchmark = Benchmark::new(include_str!("../benchmark.toml"), read::<Row>);

/// The published columns.
#[derive(Deserialize)]
struct Row {
    uid: Id,
    video_path: String,
    /// With its options, one a line.
    question: String,
    question_type: Vec<String>,
    answer: String,
    /// Interval of the evidence, `mm:ss-mm:ss`.
    time_reference: Option<String>,
    #[serde(rename = "type")]
    video_type: String,
}

/// `MM:SS-MM:SS` or `HH:MM:SS-HH:MM:SS` in seconds.
fn time_reference(text: &str) -> Option<TimeSpan> {
    let (start, end) = text.split_once('-')?;
    Some(TimeSpan::new(clock_seconds(start)?, clock_seconds(end)?))
}

impl IntoSample for Row {
    fn into_sample(self, cx: &RowContext<'_>) -> Result<Option<Sample>, DataError> {
        let letters: String =
            embedded_options(&self.question).into_iter().map(|(letter, _)| letter).collect();
        if letters.is_empty() && cx.profile == Profile::Strict {
            return Err(cx.error("question", "the row has no options: no lines (A), (B), … in it"));
        }
        let mut flags = Vec::new();
        let gold = Gold::Choice { answer: cx.letter("answer", &self.answer, &letters, &mut flags)? };
        let evidence = self.time_reference.as_deref().and_then(time_reference);
        if evidence.is_some_and(|span| span.length() < 0.0) {
            flags.push(REVERSED_EVIDENCE.to_owned());
        }
        let video = cx.path("video_path", &self.video_path)?;
        let question = Question { stem: self.question, options: Vec::new(), letters, subtitles: None };
        Ok(Some(Sample {
            tags: Tags::from([
                ("question_type".to_owned(), self.question_type),
                ("type".to_owned(), vec![self.video_type]),
            ]),
            evidence,
            flags,
            ..cx.sample(self.uid.0, video, question, gold)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_becomes_a_sample() {
        let row = json!({"video_path": "k.mp4", "uid": "17", "question": "Q?\n(A) a\n(B) b\n(C) c\n(D) d",
            "question_type": ["reasoning", "summarization"], "answer": "D", "time_reference": "01:10-01:01:20",
            "type": "tv", "key": "k"});
        let value = row.as_object().unwrap();
        let sample = LVBENCH.sample("rows".as_ref(), 0, value, Profile::Paper).unwrap().unwrap();
        assert_eq!(sample.question.letters, "ABCD");
        assert_eq!(sample.tags["question_type"], ["reasoning", "summarization"], "every label counts");
        assert_eq!(sample.evidence, Some(TimeSpan::new(70.0, 3680.0)));
    }

    #[test]
    fn evidence_that_ends_before_it_starts_is_flagged() {
        let flags = |evidence: &str| {
            let row = json!({"video_path": "k.mp4", "uid": "1", "question": "Q?\n(A) a\n(B) b",
                "question_type": [], "answer": "A", "time_reference": evidence, "type": "tv", "key": "k"});
            let sample = LVBENCH.sample("rows".as_ref(), 0, row.as_object().unwrap(), Profile::Paper);
            let sample = sample.unwrap().unwrap();
            (sample.evidence.map(|span| (span.start, span.end)), sample.flags)
        };
        assert_eq!(flags("01:10-00:20"), (Some((70.0, 20.0)), vec![REVERSED_EVIDENCE.to_owned()]));
        assert_eq!(flags("01:10-01:10"), (Some((70.0, 70.0)), Vec::new()));
        assert_eq!(flags("None-None"), (None, Vec::new()));
    }

    #[test]
    fn a_question_without_options_is_asked_except_under_strict() {
        let row = json!({"question": "Q?", "uid": "1", "answer": "A", "video_path": "k.mp4",
            "question_type": [], "type": "tv"});
        let sample = |profile| LVBENCH.sample("rows".as_ref(), 9, row.as_object().unwrap(), profile);
        let error = sample(Profile::Strict).unwrap_err().to_string();
        assert!(error.contains("row 9") && error.contains("no options"), "{error}");
        // The reference asks it and compares the published letter.
        let asked = sample(Profile::Paper).unwrap().unwrap();
        assert_eq!((asked.gold, asked.flags.len()), (Gold::Choice { answer: "A".into() }, 1));
    }
}
