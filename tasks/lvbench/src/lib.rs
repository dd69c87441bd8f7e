#![forbid(unsafe_code)]
//! LVBench. Options are part of the question; capabilities are multi-label.
//!
//! ```
//! use paravt_suite::task::Task as _;
//!
//! let spec = paravt_task_lvbench::LVBENCH.spec();
//! assert_eq!((spec.expected_rows, spec.expected_videos), (1549, 103));
//! ```

use paravt_suite::data::{DataError, Id};
use paravt_suite::profile::Profile;
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::span::TimeSpan;
use paravt_suite::task::{Benchmark, IntoSample, RowContext, read};
use paravt_suite::text::clock_seconds;
use serde::Deserialize;

/// `lvbench`.
pub static LVBENCH: Benchmark = Benchmark::new(include_str!("../benchmark.toml"), read::<Row>);

/// The published columns.
#[derive(Deserialize)]
struct Row {
    uid: Id,
    video_path: String,
    /// With its options, one a line.
    question: String,
    /// Capabilities.
    question_type: Vec<String>,
    answer: String,
    /// Interval of the evidence, `mm:ss-mm:ss`.
    time_reference: Option<String>,
    /// Of the video.
    #[serde(rename = "type")]
    video_type: String,
}

/// Letters of the option lines `(A) …` inside a question. A line counts when it holds the next
/// letter: `(1) …` in the stem or `(B) …` before `(A) …` is not an option.
fn embedded_letters(question: &str) -> String {
    let mut next = 'A'..='Z';
    let mut found = String::new();
    let mut wanted = next.next();
    for line in question.lines() {
        let letter = line.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')'));
        if let (Some((letter, _)), Some(expected)) = (letter, wanted)
            && letter.chars().eq([expected])
        {
            found.push(expected);
            wanted = next.next();
        }
    }
    found
}

/// `MM:SS-MM:SS` or `HH:MM:SS-HH:MM:SS` in seconds.
fn time_reference(text: &str) -> Option<TimeSpan> {
    let (start, end) = text.split_once('-')?;
    Some(TimeSpan::new(clock_seconds(start)?, clock_seconds(end)?))
}

impl IntoSample for Row {
    fn into_sample(self, cx: &RowContext<'_>) -> Result<Option<Sample>, DataError> {
        let letters = embedded_letters(&self.question);
        if letters.is_empty() && cx.profile == Profile::Strict {
            return Err(cx.error("question", "the row has no options: no lines (A), (B), … in it"));
        }
        let mut flags = Vec::new();
        let gold = Gold::Choice { answer: cx.letter("answer", &self.answer, &letters, &mut flags)? };
        let video = cx.path("video_path", &self.video_path)?;
        let question = Question { stem: self.question, options: Vec::new(), letters, subtitles: None };
        Ok(Some(Sample {
            tags: Tags::from([
                ("question_type".to_owned(), self.question_type),
                ("type".to_owned(), vec![self.video_type]),
            ]),
            evidence: self.time_reference.as_deref().and_then(time_reference),
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
    fn only_option_lines_in_sequence_count() {
        assert_eq!(embedded_letters("Which of\n(1) x\n(B) y\nis it?\n(A) 1\n (B) 2\n(C)3"), "ABC");
        assert_eq!(embedded_letters("Q? (A) in the line"), "");
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
