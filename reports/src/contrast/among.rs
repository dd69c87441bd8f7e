//! The contrasts among the runs of a report.

use std::collections::BTreeMap;

use super::{Contrast, Pair, Side};
use crate::authors::model_of;
use crate::names::{MANY, Varying};
use crate::order::group_by;
use crate::question::{Factor, Question};

/// Two runs, by their positions, and how they differ.
struct Edge {
    runs: [usize; 2],
    question: Question,
}

/// The contrasts among runs, in the order of the first runs. Runs under a probe have a table of their own.
///
/// Of each split and profile: runs that differ in one thing, those of more than two values each with the least of them
/// or, without an order, with the first; then what these leave unconnected, by the pair with the fewest differences, unless
/// the two are compared with published rows of different models: that would be no ablation.
pub(crate) fn among(runs: &[Side<'_>]) -> Vec<Contrast> {
    let varying = Varying::of(&runs.iter().map(|run| run.manifest).collect::<Vec<_>>());
    let plain = runs.iter().enumerate().filter(|(_, run)| run.manifest.plan.probe.is_none());
    let key = |run: &Side<'_>| (run.manifest.task.name.clone(), run.manifest.plan.profile());
    let groups = group_by(plain.map(|(position, run)| (key(run), position)));
    let mut chosen: Vec<[usize; 2]> = groups.iter().flat_map(|(_, group)| of_split(runs, group)).collect();
    chosen.extend(subtitled(runs));
    let pairs = chosen.into_iter().filter_map(|[first, second]| {
        // Runs without a sample in common have nothing to compare; the rest of the report stands.
        let mut pair = Pair::of([(first, &runs[first]), (second, &runs[second])]).ok()?;
        if pair.factor.is_ordered() {
            // What the two share, where other runs have something else: B has the tool, and the settings of it.
            let also = pair.also.iter().map(|one| one.name.as_str());
            let apart: Vec<&str> = pair.factor.field().into_iter().chain(also).collect();
            let context = varying.name(runs[pair.positions[1]].manifest, &apart);
            pair.question.extend(context.map(|context| format!(" ({context})")));
        }
        Some(pair)
    });
    Contrast::all(pairs.collect())
}

/// Pairs of the runs of one split.
fn of_split(runs: &[Side<'_>], group: &[usize]) -> Vec<[usize; 2]> {
    let firsts = if group.len() > MANY { 1 } else { group.len() };
    let mut edges: Vec<Edge> = Vec::new();
    for (number, first) in group[..firsts].iter().enumerate() {
        for second in &group[number + 1..] {
            let question = runs[*first].question(&runs[*second]);
            edges.push(Edge { runs: [*first, *second], question });
        }
    }
    let mut sets = Sets::of(group);
    let mut chosen = Vec::new();
    let single = |edge: &&Edge| edge.question.also.is_empty();
    let mut factors: Vec<&Factor> = edges.iter().filter(single).map(|edge| &edge.question.factor).collect();
    factors.sort();
    factors.dedup();
    for factor in factors {
        let of_factor = |edge: &&Edge| single(edge) && edge.question.factor == *factor;
        let mut classes = Sets::of(group);
        edges.iter().filter(of_factor).for_each(|edge| classes.join(edge.runs));
        let mut centres: BTreeMap<usize, usize> = BTreeMap::new();
        for run in group {
            let centre = centres.entry(classes.of_run(*run)).or_insert(*run);
            let is_less = |edge: &&Edge| {
                let [a, b] =
                    if edge.question.is_swapped { [1, 0] } else { [0, 1] }.map(|side| edge.runs[side]);
                [a, b] == [*run, *centre]
            };
            if factor.is_ordered() && edges.iter().filter(of_factor).any(|edge| is_less(&edge)) {
                *centre = *run;
            }
        }
        for edge in edges.iter().filter(of_factor) {
            if edge.runs.contains(&centres[&classes.of_run(edge.runs[0])]) {
                chosen.push(edge.runs);
                sets.join(edge.runs);
            }
        }
    }
    // The sort is stable: of equally near pairs the first.
    let of_one_row = |edge: &&Edge| {
        let [first, second] = edge.runs.map(|run| runs[run].manifest.paper_row.as_deref().map(model_of));
        first.is_none() || second.is_none() || first == second
    };
    let mut rest: Vec<&Edge> = edges.iter().filter(|edge| !single(edge)).filter(of_one_row).collect();
    rest.sort_by_key(|edge| edge.question.also.len());
    for edge in rest {
        if sets.of_run(edge.runs[0]) != sets.of_run(edge.runs[1]) {
            chosen.push(edge.runs);
            sets.join(edge.runs);
        }
    }
    chosen
}

/// Pairs of runs of the same rows in two splits, with subtitles and without, that differ in nothing else.
fn subtitled(runs: &[Side<'_>]) -> Vec<[usize; 2]> {
    let mut found = Vec::new();
    let plain = |run: &Side<'_>| run.manifest.plan.probe.is_none();
    for (first, a) in runs.iter().enumerate().filter(|(_, run)| plain(run)) {
        for (second, b) in runs.iter().enumerate().skip(first + 1).filter(|(_, run)| plain(run)) {
            let [one, other] = [a, b].map(|side| &side.manifest.task);
            let same_rows = one.name != other.name && one.hub == other.hub && a.subtitles != b.subtitles;
            let same_profile = a.manifest.plan.profile() == b.manifest.plan.profile();
            if same_rows && same_profile && a.question(b).also.is_empty() {
                found.push([first, second]);
            }
        }
    }
    found
}

/// Disjoint sets of runs, each named by one of them.
struct Sets(BTreeMap<usize, usize>);

impl Sets {
    fn of(runs: &[usize]) -> Self {
        Self(runs.iter().map(|run| (*run, *run)).collect())
    }

    fn of_run(&self, run: usize) -> usize {
        self.0[&run]
    }

    fn join(&mut self, [a, b]: [usize; 2]) {
        let (kept, gone) = (self.0[&a], self.0[&b]);
        self.0.values_mut().filter(|set| **set == gone).for_each(|set| *set = kept);
    }
}
