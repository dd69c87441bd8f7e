//! Questions about what a scene shows, with right answers.

use rand::Rng;
use rand::seq::SliceRandom as _;

use crate::scene::{Event, SHAPES, Scene};

/// A question with four options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChoiceQuestion {
    /// The question.
    pub text: String,
    /// Four different options.
    pub options: Vec<String>,
    /// Index of the right one.
    pub answer: usize,
    /// What it asks about: `perception`, `order` or `count`.
    pub kind: &'static str,
    /// Seconds of the evidence.
    pub evidence: (u64, u64),
}

impl ChoiceQuestion {
    /// The right letter.
    pub fn letter(&self) -> char {
        (b'A' + self.answer as u8) as char
    }

    /// The option lines `(A) …` that some data sets keep inside the question.
    pub fn embedded(&self) -> String {
        let lines = ('A'..).zip(&self.options).map(|(letter, option)| format!("({letter}) {option}"));
        format!("{}\n{}", self.text, lines.collect::<Vec<_>>().join("\n"))
    }
}

/// The n-th question about a scene; kinds take turns.
pub fn choice(scene: &Scene, number: usize, rng: &mut impl Rng) -> ChoiceQuestion {
    match number % 3 {
        0 => seen_at(scene, rng),
        1 => order(scene, rng),
        _ => count(scene, rng),
    }
}

fn seen_at(scene: &Scene, rng: &mut impl Rng) -> ChoiceQuestion {
    let event = scene.events[rng.random_range(0..scene.events.len())];
    let second = ((event.start + event.end) / 2.0) as u64;
    let text = format!("What is shown {second} seconds into the video?");
    let (options, answer) = options_of_events(scene, event, rng);
    ChoiceQuestion { text, options, answer, kind: "perception", evidence: window(event) }
}

fn order(scene: &Scene, rng: &mut impl Rng) -> ChoiceQuestion {
    let number = rng.random_range(1..scene.events.len());
    let (before, event) = (scene.events[number - 1], scene.events[number]);
    let text = format!("What appears next after the {}?", before.name());
    let (options, answer) = options_of_events(scene, event, rng);
    ChoiceQuestion { text, options, answer, kind: "order", evidence: (window(before).0, window(event).1) }
}

fn count(scene: &Scene, rng: &mut impl Rng) -> ChoiceQuestion {
    let shape = rng.random_range(0..SHAPES.len());
    let right = scene.events.iter().filter(|event| event.shape == shape).count();
    let mut numbers: Vec<usize> = (0..=scene.events.len()).filter(|number| *number != right).collect();
    numbers.shuffle(rng);
    numbers.truncate(3);
    numbers.push(right);
    numbers.shuffle(rng);
    let answer = numbers.iter().position(|number| *number == right).unwrap_or_default();
    ChoiceQuestion {
        text: format!("How many times does a {} appear, of any colour?", SHAPES[shape]),
        options: numbers.iter().map(usize::to_string).collect(),
        answer,
        kind: "count",
        evidence: (0, scene.seconds as u64),
    }
}

/// The event's name among three other events of the scene.
fn options_of_events(scene: &Scene, right: Event, rng: &mut impl Rng) -> (Vec<String>, usize) {
    let mut names: Vec<String> =
        scene.events.iter().map(Event::name).filter(|name| *name != right.name()).collect();
    names.shuffle(rng);
    names.truncate(3);
    let answer = rng.random_range(0..=names.len());
    names.insert(answer, right.name());
    (names, answer)
}

fn window(event: Event) -> (u64, u64) {
    (event.start as u64, event.end.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    #[test]
    fn every_question_has_four_different_options_and_a_right_one() {
        for seed in 0..100 {
            let mut rng = StdRng::seed_from_u64(seed);
            let scene = Scene::random(&mut rng);
            let question = choice(&scene, seed as usize, &mut rng);
            let mut options = question.options.clone();
            options.sort();
            options.dedup();
            assert_eq!((options.len(), question.answer < 4), (4, true), "{question:?}");
        }
    }
}
