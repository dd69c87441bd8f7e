//! Where the form of a turn breaks: `<think>…</think>`, then calls or an answer in their tags.

use std::collections::BTreeMap;

/// Places of a turn, by their names in the log, in the order of the form.
pub const PLACES: [&str; 5] = ["think_opens", "think_closes", "tag_follows", "call_closes", "answer_closes"];

/// How many turns came to each place of [`PLACES`], and how many of them had there what the form wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Structure {
    came: [usize; 5],
    kept: [usize; 5],
}

impl Structure {
    /// Counts a turn of the model, with the text that was forced on it. It comes to a place where it kept all before.
    pub fn add(&mut self, turn: &str) {
        let turn = turn.trim();
        let Some(thought) = self.step(0, turn.strip_prefix("<think>")) else { return };
        let Some((_, rest)) = self.step(1, thought.split_once("</think>")) else { return };
        let rest = rest.trim();
        let (calls, answers) = (rest.starts_with("<tool_call>"), rest.starts_with("<answer>"));
        if self.step(2, (calls || answers).then_some(())).is_none() {
            return;
        }
        let count = |tag: &str| rest.matches(tag).count();
        if calls {
            self.step(3, (count("<tool_call>") == count("</tool_call>")).then_some(()));
        } else {
            self.step(4, rest.ends_with("</answer>").then_some(()));
        }
    }

    fn step<T>(&mut self, place: usize, found: Option<T>) -> Option<T> {
        self.came[place] += 1;
        self.kept[place] += usize::from(found.is_some());
        found
    }

    /// The counts of several.
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), |mut sum, one| {
            for place in 0..PLACES.len() {
                sum.came[place] += one.came[place];
                sum.kept[place] += one.kept[place];
            }
            sum
        })
    }

    /// Share of the turns that kept a place among those that came to it; places to which none came are left out.
    pub fn shares(&self) -> BTreeMap<&'static str, f64> {
        let places = PLACES.iter().zip(self.came.iter().zip(&self.kept));
        places
            .filter(|(_, (came, _))| **came > 0)
            .map(|(name, (came, kept))| (*name, *kept as f64 / *came as f64))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_comes_as_far_as_it_keeps_the_form() {
        let mut structure = Structure::default();
        for turn in [
            "<think>\nlook\n</think>\n<tool_call>\n{}\n</tool_call>\n<tool_call>\n{}",
            "<think>\nred\n</think>\n<answer>B</answer>",
            "<think>\nred\nB",
            "look closer\n<tool_call>\n{}\n</tool_call>",
            "<think>x</think> B",
        ] {
            structure.add(turn);
        }
        let shares = structure.shares();
        assert_eq!(shares["think_opens"], 4.0 / 5.0);
        assert_eq!(shares["think_closes"], 3.0 / 4.0);
        assert_eq!(shares["tag_follows"], 2.0 / 3.0);
        assert_eq!((shares["call_closes"], shares["answer_closes"]), (0.0, 1.0));
        assert!(Structure::default().shares().is_empty());
    }
}
