//! The policy that the traces demonstrate: which windows to crop, how to list what is seen, how to answer.

use std::ops::Range;

use crate::questions::{Ask, Question};
use crate::samples::Style;
use crate::scene::{Event, FPS, Scene, WINDOW};

/// Seconds that a look at one moment takes in before and after it.
const AROUND: u64 = 2;

/// An event as frames show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sighting {
    pub event: Event,
    /// Whole second of the first frame that shows it.
    pub from: u64,
    /// Whole second of the first frame that does not show it any more, or of the last frame.
    pub to: u64,
}

impl Sighting {
    /// E.g. ` red circle 36-40`: the name first, so that who has a name reads on to its times, and after a
    /// space, so that it is the same tokens everywhere.
    pub(crate) fn text(&self) -> String {
        format!(" {} {}-{}", self.event.name(), self.from, self.to)
    }
}

/// Events on frames at these times.
pub(crate) fn sightings(scene: &Scene, times: &[f64]) -> Vec<Sighting> {
    let mut seen: Vec<Sighting> = Vec::new();
    let mut open = false;
    for time in times {
        // The whole second as the frame's label has it, which is rounded to one decimal.
        let second = ((time * 10.0).round_ties_even() / 10.0) as u64;
        let event = scene.event_at(*time);
        if let Some(last) = seen.last_mut().filter(|_| open) {
            last.to = second;
            open = event.is_some_and(|event| event.kind == last.event.kind);
        }
        if let Some(event) = event.filter(|_| !open) {
            seen.push(Sighting { event: *event, from: second, to: second });
            open = true;
        }
    }
    seen
}

/// A sub-agent's answer.
pub(crate) fn list(seen: &[Sighting]) -> String {
    if seen.is_empty() {
        return " nothing".to_owned();
    }
    seen.iter().map(Sighting::text).collect::<Vec<_>>().join(";")
}

/// Times of some frames.
pub(crate) fn times(indices: &[usize]) -> Vec<f64> {
    indices.iter().map(|index| *index as f64 / FPS as f64).collect()
}

/// Windows that a question asks for: around its moment, or all of the video piece by piece.
pub(crate) fn windows(ask: &Ask, seconds: usize) -> Vec<Range<u64>> {
    match ask {
        Ask::Perception { second } | Ask::Colour { second } => {
            std::iter::once(*second - AROUND..*second + AROUND).collect()
        }
        Ask::Order { .. } | Ask::First { .. } | Ask::Grounding { .. } => {
            let window = u64::from(WINDOW);
            (0..(seconds as u64).div_ceil(window)).map(|n| n * window..(n + 1) * window).collect()
        }
    }
}

/// Thought and calls of one turn.
pub(crate) fn call(ask: &Ask, windows: &[Range<u64>]) -> String {
    let calls = windows.iter().map(|window| {
        format!(
            "<tool_call>\n{{\"name\": \"crop_video\", \"arguments\": {{\"start_time\": {}, \"end_time\": {}}}}}\n</tool_call>",
            window.start, window.end
        )
    });
    let thought = match ask {
        Ask::Perception { second } | Ask::Colour { second } => format!("look closer at {second} s"),
        Ask::Order { .. } | Ask::First { .. } | Ask::Grounding { .. } => "look everywhere".to_owned(),
    };
    format!("<think>\n{thought}\n</think>\n{}", calls.collect::<Vec<_>>().join("\n"))
}

/// The sightings that answer the question, in the order in which they are said; empty when
/// nothing does yet.
pub(crate) fn evidence(ask: &Ask, seen: &[Sighting]) -> Vec<Sighting> {
    let position = |event: &Event| seen.iter().position(|sighting| sighting.event.kind == event.kind);
    match ask {
        Ask::Perception { second } | Ask::Colour { second } => {
            let now = |sighting: &&Sighting| sighting.event.covers(*second as f64);
            seen.iter().filter(now).copied().collect()
        }
        Ask::Order { before, .. } => {
            let at = position(before);
            at.and_then(|at| seen.get(at..at + 2)).map(<[Sighting]>::to_vec).unwrap_or_default()
        }
        Ask::First { .. } => seen.iter().take(1).copied().collect(),
        Ask::Grounding { event } => position(event).map(|at| vec![seen[at]]).unwrap_or_default(),
    }
}

/// The answer as it stands in the tags.
pub(crate) fn answer(question: &Question, style: Style, evidence: &[Sighting]) -> String {
    match (question.ask, style) {
        // With a comma: the training reward reads no other interval.
        (Ask::Grounding { event }, _) => evidence.first().map_or_else(
            || format!("{}, {}", event.start as u64, event.end as u64),
            |seen| format!("{}, {}", seen.from, seen.to),
        ),
        // With a space, so that a name is the same tokens everywhere.
        (_, Style::Open) => format!(" {}", question.options[question.answer]),
        _ => question.letter().to_string(),
    }
}

/// Thought where nothing answers.
pub(crate) const NOT_SEEN: &str = " not in the overview";

/// Thought and answer. The thought names the evidence, as names and numbers that can be copied, and then
/// the option with its letter: beside its name a letter is found far more easily than in the tags.
pub(crate) fn conclude(question: &Question, style: Style, evidence: &[Sighting]) -> String {
    let thought = if evidence.is_empty() { NOT_SEEN.to_owned() } else { list(evidence) };
    answered(question, style, thought, evidence)
}

/// The same with a thought of one's own.
pub(crate) fn answered(
    question: &Question,
    style: Style,
    mut thought: String,
    evidence: &[Sighting],
) -> String {
    if !evidence.is_empty() && !question.options.is_empty() && style != Style::Open {
        thought.push_str(&format!("\n{}", lettered(&question.options[question.answer], question.letter())));
    }
    format!("<think>\n{thought}\n</think>\n{}", bare(question, style, evidence))
}

/// An option and its letter.
pub(crate) fn lettered(option: &str, letter: char) -> String {
    format!(" {option} {letter}")
}

/// The answer alone.
pub(crate) fn bare(question: &Question, style: Style, evidence: &[Sighting]) -> String {
    format!("<answer>{}</answer>", answer(question, style, evidence))
}
