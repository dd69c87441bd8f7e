//! Questions about what a scene shows, with right answers.

use rand::Rng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};

use crate::scene::{COLOURS, Event, KINDS, Scene, Side, kind_name};

/// Subject of a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Ask {
    /// Event at a second.
    Perception { second: u64 },
    /// Which colour the shape at a second has.
    Colour { second: u64 },
    /// Event after an event.
    Order {
        before: Event,
        /// The one that comes next.
        after: Event,
    },
    /// Which event is the first.
    First { event: Event },
    /// When an event happens.
    Grounding { event: Event },
}

/// A question and its answer. Grounding has no options.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    pub ask: Ask,
    /// The question; of grounding, what to find.
    pub text: String,
    /// Four different options.
    pub options: Vec<String>,
    /// Index of the right one.
    pub answer: usize,
    /// Seconds of the evidence.
    pub evidence: (u64, u64),
}

impl Question {
    /// `perception`, `colour`, `order`, `first` or `grounding`.
    pub(crate) fn kind(&self) -> &'static str {
        match self.ask {
            Ask::Perception { .. } => "perception",
            Ask::Colour { .. } => "colour",
            Ask::Order { .. } => "order",
            Ask::First { .. } => "first",
            Ask::Grounding { .. } => "grounding",
        }
    }

    /// The right letter.
    pub(crate) fn letter(&self) -> char {
        (b'A' + self.answer as u8) as char
    }

    /// The question with its option lines `(A) …`, as some data sets keep them.
    pub(crate) fn embedded(&self) -> String {
        let lines = ('A'..).zip(&self.options).map(|(letter, option)| format!("({letter}) {option}"));
        format!("{}\n{}", self.text, lines.collect::<Vec<_>>().join("\n"))
    }
}

/// The n-th question with options about a scene; kinds take turns.
pub(crate) fn choice(scene: &Scene, side: Side, number: usize, rng: &mut impl Rng) -> Question {
    match number % 3 {
        0 => perception(scene, side, rng),
        1 => order(scene, rng),
        _ => colour(scene, side, rng),
    }
}

/// A question about a second at which one event is shown.
pub(crate) fn perception(scene: &Scene, side: Side, rng: &mut impl Rng) -> Question {
    let (event, second) = moment(scene, side, rng);
    let (options, answer) = names(scene, event, &[], rng);
    let text = format!("What is at {second} s?");
    Question { ask: Ask::Perception { second }, text, options, answer, evidence: whole_seconds(&event) }
}

fn colour(scene: &Scene, side: Side, rng: &mut impl Rng) -> Question {
    let (event, second) = moment(scene, side, rng);
    let mut options: Vec<String> = COLOURS.iter().map(|colour| colour.0.to_owned()).collect();
    options.retain(|colour| colour != event.colour());
    options.shuffle(rng);
    options.truncate(3);
    let answer = rng.random_range(0..=options.len());
    options.insert(answer, event.colour().to_owned());
    let text = format!("Which colour is the {} at {second} s?", event.shape());
    Question { ask: Ask::Colour { second }, text, options, answer, evidence: whole_seconds(&event) }
}

/// A question about what follows an event.
pub(crate) fn order(scene: &Scene, rng: &mut impl Rng) -> Question {
    let number = rng.random_range(1..scene.events.len());
    let (before, after) = (scene.events[number - 1], scene.events[number]);
    let (options, answer) = names(scene, after, &[before.kind], rng);
    let evidence = (whole_seconds(&before).0, whole_seconds(&after).1);
    let text = format!("What comes next after the {}?", before.name());
    Question { ask: Ask::Order { before, after }, text, options, answer, evidence }
}

/// A question about how the video begins: all of these have the same words, and the video decides.
pub(crate) fn first(scene: &Scene, rng: &mut impl Rng) -> Question {
    let event = scene.events[0];
    let (options, answer) = names(scene, event, &[], rng);
    let text = "What comes first?".to_owned();
    Question { ask: Ask::First { event }, text, options, answer, evidence: whole_seconds(&event) }
}

/// When an event happens.
pub(crate) fn grounding(event: Event) -> Question {
    let text = format!("a {} appears.", event.name());
    let evidence = whole_seconds(&event);
    Question { ask: Ask::Grounding { event }, text, options: Vec::new(), answer: 0, evidence }
}

/// An event and a second at which this side may ask about it. Seconds of both sides take turns, and
/// an event has two at least.
fn moment(scene: &Scene, side: Side, rng: &mut impl Rng) -> (Event, u64) {
    let moments: Vec<(Event, u64)> = scene
        .events
        .iter()
        .flat_map(|event| event.moments().map(move |second| (*event, second)))
        .filter(|(event, second)| side.has_moment(event.kind, *second))
        .collect();
    moments.choose(rng).copied().unwrap_or((scene.events[0], scene.events[0].start as u64 + 1))
}

/// The event's name among two other events of the scene and one that the scene does not have: who
/// has seen some events in an overview cannot tell the answer by that.
fn names(scene: &Scene, right: Event, without: &[usize], rng: &mut impl Rng) -> (Vec<String>, usize) {
    let mut there: Vec<usize> = scene.events.iter().map(|event| event.kind).collect();
    let mut absent: Vec<usize> = (0..KINDS).filter(|kind| !there.contains(kind)).collect();
    there.retain(|kind| *kind != right.kind && !without.contains(kind));
    there.shuffle(rng);
    absent.shuffle(rng);
    let mut kinds: Vec<usize> = there.into_iter().take(2).chain(absent.into_iter().take(1)).collect();
    kinds.push(right.kind);
    kinds.shuffle(rng);
    let answer = kinds.iter().position(|kind| *kind == right.kind).unwrap_or_default();
    (kinds.into_iter().map(kind_name).collect(), answer)
}

fn whole_seconds(event: &Event) -> (u64, u64) {
    (event.start as u64, event.end.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::world_rng;

    fn questions(side: Side) -> Vec<(Scene, Question)> {
        let mut rng = world_rng(1);
        let mut found = Vec::new();
        for _ in 0..300 {
            let scene = Scene::random(side, &mut rng);
            found.extend((0..3).map(|number| (scene.clone(), choice(&scene, side, number, &mut rng))));
            found.push((scene.clone(), grounding(scene.events[0])));
        }
        found
    }

    #[test]
    fn every_question_has_four_different_options_and_the_right_one_is_right() {
        let mut rng = world_rng(2);
        let begins =
            questions(Side::Test).into_iter().map(|(scene, _)| (scene.clone(), first(&scene, &mut rng)));
        for (scene, question) in questions(Side::Test).into_iter().chain(begins.collect::<Vec<_>>()) {
            let right = || question.options[question.answer].clone();
            match question.ask {
                Ask::Perception { second } => {
                    assert_eq!(right(), scene.event_at(second as f64).unwrap().name());
                }
                Ask::Colour { second } => {
                    assert_eq!(right(), scene.event_at(second as f64).unwrap().colour());
                }
                Ask::Order { before, after } => {
                    let at = scene.events.iter().position(|event| *event == before).unwrap();
                    assert_eq!((scene.events[at + 1], right()), (after, after.name()));
                }
                Ask::First { event } => {
                    assert!(scene.events.iter().all(|other| event.start <= other.start));
                    assert_eq!(right(), event.name());
                }
                Ask::Grounding { event } => {
                    assert!(scene.events.contains(&event));
                    continue;
                }
            }
            let different: BTreeSet<_> = question.options.iter().collect();
            assert_eq!(different.len(), 4, "{question:?}");
        }
    }

    /// What two questions would have to share for one to give the other away.
    fn twin((_, question): &(Scene, Question)) -> String {
        let answer = question.options.get(question.answer);
        match question.ask {
            Ask::Grounding { event } => format!("{} {}", question.text, event.start as u64),
            _ => format!("{} {}", question.text, answer.unwrap()),
        }
    }

    #[test]
    fn no_test_question_is_in_training() {
        let train: BTreeSet<String> = questions(Side::Train).iter().map(twin).collect();
        let test: BTreeSet<String> = questions(Side::Test).iter().map(twin).collect();
        assert!(test.len() > 300, "{}", test.len());
        let shared: Vec<_> = train.intersection(&test).collect();
        assert!(shared.is_empty(), "{shared:?}");
    }
}
