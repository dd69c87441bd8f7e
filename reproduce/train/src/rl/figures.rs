//! Figures of a step for the training log.

use std::collections::BTreeMap;

use crate::objective::{Advantages, Loss};
use crate::rollout::Trajectory;
use crate::structure::Structure;

/// Means over rollouts: rewards, format compliance (`f_tau`), tool calls (`kappa`), turns, lengths.
pub(super) fn rollout_figures(all: &[(usize, Trajectory)]) -> BTreeMap<&'static str, f64> {
    let mean = |value: &dyn Fn(&Trajectory) -> f64| {
        all.iter().map(|(_, one)| value(one)).sum::<f64>() / all.len().max(1) as f64
    };
    let structure = Structure::sum(all.iter().map(|(_, one)| one.figures.structure));
    let calls: f64 = all.iter().map(|(_, one)| one.figures.calls as f64).sum();
    let succeeded: f64 = all.iter().map(|(_, one)| one.figures.succeeded as f64).sum();
    let mut rewards: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (group, one) in all {
        rewards.entry(*group).or_default().push(one.reward.total);
    }
    let flat = rewards.values().filter(|group| group.iter().all(|reward| *reward == group[0])).count();
    let mut figures = structure.shares();
    figures.extend([
        ("flat_groups", flat as f64 / rewards.len().max(1) as f64),
        ("compliance", mean(&|one| one.figures.compliance)),
        ("reward", mean(&|one| one.reward.total)),
        ("reward_accuracy", mean(&|one| one.reward.accuracy)),
        ("f_tau", mean(&|one| one.reward.format)),
        ("reward_tool", mean(&|one| one.reward.tool)),
        ("kappa", mean(&|one| one.figures.calls as f64)),
        ("tool_success", if calls > 0.0 { succeeded / calls } else { 0.0 }),
        ("turns", mean(&|one| one.figures.turns as f64)),
        ("frames", mean(&|one| one.figures.frames as f64)),
        ("length", mean(&|one| one.example.ids.len() as f64)),
        ("generated_tokens", mean(&|one| one.figures.generated as f64)),
        ("subagent_tokens", mean(&|one| one.figures.subagent_tokens as f64)),
        ("truncated", mean(&|one| f64::from(u8::from(one.figures.truncated)))),
        ("retokenised_tokens", mean(&|one| one.figures.retokenised as f64)),
    ]);
    figures
}

/// Of the update: sums over its trained tokens.
pub(super) fn update_figures(
    advantages: &Advantages,
    sums: &Loss,
    loss: f64,
    entropies: f64,
) -> BTreeMap<&'static str, f64> {
    BTreeMap::from([
        ("loss", loss),
        ("kl", advantages.kl_mean),
        ("entropy", sums.mean(entropies)),
        ("clip_fraction", sums.mean(sums.clipped as f64)),
        ("behaviour_weight", sums.mean(sums.behaviour_weight)),
        ("max_ratio_error", sums.max_ratio_error),
        ("dropped_tokens", sums.dropped as f64),
        ("trained_tokens", sums.tokens as f64),
        ("unrewarded", advantages.unrewarded as f64),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::Example;
    use crate::reward::Reward;
    use crate::rollout::RolloutFigures;

    #[test]
    fn kappa_counts_all_calls_and_the_release_those_that_succeeded() {
        let rollout = |calls, succeeded| {
            let example =
                Example { ids: vec![1], positions: vec![[0; 3]], media: Vec::new(), trained: vec![false] };
            let figures = RolloutFigures { calls, succeeded, ..RolloutFigures::default() };
            (0, Trajectory { example, behaviour: Vec::new(), reward: Reward::default(), figures })
        };
        let figures = rollout_figures(&[rollout(3, 2), rollout(0, 0), rollout(1, 0)]);
        assert_eq!((figures["kappa"], figures["tool_success"]), (4.0 / 3.0, 0.5));
        // `tool_stats/tool_call_count` of the release: the mean of the calls that a sub-agent answered.
        assert_eq!(figures["kappa"] * figures["tool_success"], 2.0 / 3.0);
    }
}
