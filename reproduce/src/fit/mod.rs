//! Whether a recipe fits on cards that are not here, and about how long it takes on them.

mod hours;
mod memory;
mod shape;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::str::FromStr;

use paravt_suite::data::DataRoot;
use paravt_suite::nearest;
use paravt_suite::protocol::Protocol;
use serde::Deserialize;

use crate::graph::{Graph, Stage};
use crate::servers::Fleet;
use hours::{Hours, Shown, Unknown};
use memory::{Flags, Placement};
use shape::Shape;

/// A GPU as its data sheet has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    pub name: String,
    /// Memory in GB.
    pub gb: f64,
    /// Dense bfloat16 operations a second, in units of 10^12.
    pub tflops: f64,
    /// Bytes from and to its memory a second, in units of 10^12.
    pub tb_per_s: f64,
}

/// Cards of one kind in one machine, as `8xH100`.
#[derive(Debug, Clone, PartialEq)]
pub struct Cards {
    pub count: usize,
    pub card: Card,
}

/// All known cards.
fn cards() -> Vec<Card> {
    #[derive(Deserialize)]
    struct File {
        cards: Vec<Card>,
    }
    toml::from_str::<File>(include_str!("cards.toml")).expect("read by a test").cards
}

impl FromStr for Cards {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (count, name) = match text.split_once('x') {
            Some((count, name)) if count.parse::<usize>().is_ok_and(|count| count > 0) => {
                (count.parse().unwrap_or(1), name)
            }
            _ => (1, text),
        };
        let all = cards();
        let names = || all.iter().map(|card| card.name.as_str());
        let card = all.iter().find(|card| card.name.eq_ignore_ascii_case(name.trim())).ok_or_else(|| {
            let (hint, known) =
                (nearest::hint(nearest::nearest(name, names())), names().collect::<Vec<_>>().join(", "));
            format!("expected a number and a card, as 8xH100; known are {known}{hint}")
        })?;
        Ok(Self { count, card: card.clone() })
    }
}

impl Graph {
    /// What its servers take of the memory of these cards, with the flags that make them fit, and the hours of its evaluations,
    /// as intervals. Nothing of it is measured. `imported` gives the agents' own protocols that are here.
    pub fn on_cards(
        &self,
        cards: &Cards,
        root: &DataRoot,
        imported: &dyn Fn(&str) -> Option<Protocol>,
    ) -> String {
        let Cards { count, card } = cards;
        let mut text =
            format!("\non {count} x {}, {} GB each; by arithmetic, not measured:\n", card.name, card.gb);
        let fleets: Vec<&Fleet> = self.stages().iter().filter_map(Stage::kind).collect();
        let (mut sum, mut unknown) = (Some(Hours::default()), BTreeSet::new());
        for fleet in &fleets {
            let model = &fleet.model;
            let (words, hours) = match Shape::of(model, root) {
                None => (format!("unknown until it is here: paravt-bench data fetch model:{model}"), None),
                Some(shape) => self.placed(fleet, &shape, cards, imported),
            };
            let _ = writeln!(text, "  {model}: {words}");
            if let Some((hours, without)) = &hours {
                let _ = writeln!(text, "    evaluations: {}", in_words(hours, without));
                unknown.extend(without.clone());
            }
            sum = sum.zip(hours).map(|(sum, (hours, _))| sum + hours);
        }
        if let Some(sum) = sum.filter(|_| fleets.len() > 1) {
            let _ = writeln!(text, "  all evaluations: {}", in_words(&sum, &unknown));
        }
        if let Some(protocol) = unknown.first() {
            let _ = writeln!(
                text,
                "  the frames of a protocol are known when it is here: `paravt-bench protocol import {protocol}`"
            );
        }
        text + "  videos that are read, and servers that start, take more; a run with --limit 20 measures it\n"
    }

    /// How a model lies on the cards, and the hours of its evaluations there.
    fn placed(
        &self,
        fleet: &Fleet,
        shape: &Shape,
        cards: &Cards,
        imported: &dyn Fn(&str) -> Option<Protocol>,
    ) -> (String, Option<(Hours, BTreeSet<String>)>) {
        let asked = self.evaluations().map(|(_, asked, _)| asked);
        let asked = asked.filter(|asked| asked.fleet.as_deref() == Some(fleet));
        let asked: Vec<_> = asked.map(|asked| (asked, Shown::of(asked, imported))).collect();
        let shown = asked.iter().filter_map(|(_, shown)| shown.as_ref().ok());
        let flags = Flags::of(fleet, shown.map(|shown| shown.longest_video(shape)).max().unwrap_or(0));
        let Some(placed) = Placement::of(shape, &flags, cards) else {
            let need = format!("does not fit: {:.1} GB of weights and their context", shape.weights_gb);
            return (need, None);
        };
        let (mut sum, mut without) = (Hours::default(), BTreeSet::new());
        for (asked, shown) in asked {
            match shown {
                Ok(shown) => {
                    let hours = Hours::of(asked, &shown, shape, &cards.card, &placed);
                    sum = sum + hours.unwrap_or_default();
                }
                Err(Unknown(protocol)) => drop(without.insert(protocol)),
            }
        }
        (placed.words(&flags, cards), Some((sum, without)))
    }
}

/// Hours, and the protocols whose evaluations are not in them.
fn in_words(hours: &Hours, without: &BTreeSet<String>) -> String {
    let names = without.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    match (without.is_empty(), *hours == Hours::default()) {
        (true, _) => hours.to_string(),
        (false, true) => format!("unknown without {names}"),
        (false, false) => format!("{hours}, without {names}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GraphOptions, Recipe};

    fn on(graph: &Graph, cards: &str, root: &DataRoot) -> String {
        graph.on_cards(&cards.parse().unwrap(), root, &|_| None)
    }

    #[test]
    fn cards_are_named_with_their_number() {
        let cards: Cards = "4xl40s".parse().unwrap();
        assert_eq!((cards.count, cards.card.gb), (4, 48.0));
        assert_eq!("H200".parse::<Cards>().unwrap().count, 1);
        assert!("8xH10".parse::<Cards>().unwrap_err().contains("did you mean `H100`?"));
    }

    #[test]
    fn table1_on_three_machines() {
        let graph = Recipe::load("table1").unwrap().graph(&GraphOptions::new("out")).unwrap();
        let root = DataRoot::new("nowhere");
        let all: Vec<String> = ["8xH100", "4xL40S", "1xH200"].map(|cards| on(&graph, cards, &root)).into();
        insta::assert_snapshot!(all.join(""));
    }

    #[test]
    fn large_models_are_split_over_cards() {
        let of = |model: &str, cards: &str| {
            let options = GraphOptions { model: Some(model.to_owned()), ..GraphOptions::new("out") };
            let graph = Recipe::load("qwen2.5-vl-7b").unwrap().graph(&options).unwrap();
            on(&graph, cards, &DataRoot::new("nowhere"))
        };
        let models = ["Qwen/Qwen3-VL-32B-Instruct", "Qwen/Qwen2.5-VL-72B-Instruct"];
        let machines = ["8xH100", "4xL40S", "1xH200", "8xB200", "8xRTX 4090", "2xA100-40GB"];
        let all: String = models.iter().flat_map(|model| machines.map(|cards| of(model, cards))).collect();
        insta::assert_snapshot!(all);
        let unknown = of("owner/other-34B", "8xH100");
        assert!(
            unknown.contains("unknown until it is here: paravt-bench data fetch model:owner/other-34B"),
            "{unknown}"
        );
    }
}
