//! ParaVT cf55249: tool calls of driver and rewards, scoring, subtitles, and the import of the texts.

pub mod import;
pub mod scoring;
pub mod srt;
pub mod toolcall;

use paravt_suite::agent::Reference;

/// The evaluation driver, `paravt/eval`.
pub const REFERENCE: Reference = Reference {
    name: "paravt",
    syntax: &toolcall::DriverSyntax,
    scorer: &scoring::DriverScoring,
    agent_loop: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use paravt_suite::profile::{Extraction, Profile, Switches};
    use paravt_suite::sample::{Gold, Question, Sample};

    #[test]
    fn switch_extraction_decides_what_an_answer_is() {
        let base = Profile::Release.switches();
        let value = |extraction, gold: &Gold, text: &str| {
            let question = Question { letters: "ABCD".into(), ..Question::default() };
            let sample = Sample::new("mlvu", "a".into(), 0, "v.mp4".into(), question, gold.clone());
            REFERENCE.score(&sample, text, false, &Switches { extraction, ..base }).value
        };
        // A letter in prose, and a letter that the row does not have.
        let choice = |answer: &str| Gold::Choice { answer: answer.into() };
        for (gold, text) in [(choice("I"), "I think so"), (choice("E"), "<answer>E</answer>")] {
            assert_eq!(value(Extraction::Upstream, &gold, text), 1.0, "{text}");
            assert_eq!(value(Extraction::Strict, &gold, text), 0.0, "{text}");
        }
        // The release reads the times in the thoughts.
        let interval = Gold::Interval { start: 3.0, end: 9.0 };
        let text = "<think>3 - 9</think><answer>20 - 30</answer>";
        assert_eq!(value(Extraction::Upstream, &interval, text), 1.0);
        assert_eq!(value(Extraction::Strict, &interval, text), 0.0);
    }
}
