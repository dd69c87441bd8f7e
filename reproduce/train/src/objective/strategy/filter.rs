//! Which rollouts survive.

use std::collections::BTreeMap;

use super::{Filter, Rollout, Strategy};
use crate::objective::moments::moments;

/// Rewards of a full group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub count: usize,
    /// Mean; 0 for a single rollout (CA:165-186).
    pub mean: f64,
    /// Standard deviation (N - 1), the key of the ranking; 1 for a single rollout (CA:165-186).
    pub std: f64,
    /// Standard deviation (N), which the filter compares (`np.std`).
    pub population_std: f64,
}

impl Spread {
    /// Of the rewards of one group.
    pub fn of(rewards: &[f64]) -> Self {
        let count = rewards.len();
        if count <= 1 {
            return Self { count, mean: 0.0, std: 1.0, population_std: 0.0 };
        }
        let (mean, std) = moments(rewards.iter().copied());
        Self { count, mean, std, population_std: std * ((count - 1) as f64 / count as f64).sqrt() }
    }
}

/// Spread of each group of a generation batch.
pub fn spreads(rollouts: &[Rollout]) -> BTreeMap<usize, Spread> {
    let mut groups: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for rollout in rollouts {
        groups.entry(rollout.group).or_default().push(rollout.reward);
    }
    groups.into_iter().map(|(group, rewards)| (group, Spread::of(&rewards))).collect()
}

/// Verdict on a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Kept,
    /// The first rule that drops it.
    Dropped(Filter),
}

/// Verdicts on a generation batch of full groups. Only the first rule looks at groups; the others
/// leave parts of them.
pub fn filter(rollouts: &[Rollout], strategy: &Strategy) -> Vec<Verdict> {
    let spreads = spreads(rollouts);
    let mut filters = strategy.filters.clone();
    filters.sort_unstable();
    let verdict = |rollout: &Rollout| {
        let spread = spreads[&rollout.group];
        let drops = |&&filter: &&Filter| drops(filter, rollout, spread, strategy);
        filters.iter().find(drops).map_or(Verdict::Kept, |&filter| Verdict::Dropped(filter))
    };
    rollouts.iter().map(verdict).collect()
}

fn drops(filter: Filter, rollout: &Rollout, spread: Spread, strategy: &Strategy) -> bool {
    match filter {
        Filter::SeqReward => spread.count > 1 && spread.population_std <= strategy.spread_tolerance,
        Filter::Hasimage => !rollout.hasimage,
        Filter::VtokenImagesNumConsis => !rollout.vision_consistent,
        Filter::Trajlength => rollout.trajlength > strategy.max_trajlength,
        Filter::EndReason => !strategy.end_reason_filter_reserve_names.contains(&rollout.end_reason),
        Filter::PosSampleNegAdv => rollout.is_answer_right && rollout.advantage < 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::rollout;
    use super::super::{EndReason, Rollout};
    use super::*;

    #[test]
    fn spreads_of_the_worked_groups() {
        // Rewards, mean, std (N - 1), std (N).
        let cases: [([f64; 8], f64, f64, f64); 5] = [
            ([1.2, 1.2, 1.1, 0.0, 0.0, 0.0, 0.0, 0.0], 0.4375, 0.604_595, 0.565_547),
            ([1.0, 1.0, 1.0, 1.0, 1.1, 1.1, 1.2, 1.4], 1.1, 0.141_421, 0.132_288),
            ([1.4, 1.4, 1.4, 1.4, 1.0, 1.0, 1.0, 1.0], 1.2, 0.213_809, 0.2),
            ([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.125, 0.353_553, 0.330_719),
            ([1.4, 1.4, 1.4, 1.4, 0.0, 0.0, 0.0, 0.0], 0.7, 0.748_331, 0.7),
        ];
        for (rewards, mean, std, population) in cases {
            let spread = Spread::of(&rewards);
            let pairs = [(spread.mean, mean), (spread.std, std), (spread.population_std, population)];
            assert!(pairs.iter().all(|(one, other)| (one - other).abs() < 6e-7), "{spread:?}");
        }
        let single = Spread::of(&[0.3]);
        assert_eq!((single.mean, single.std), (0.0, 1.0));
    }

    #[test]
    fn the_first_rule_in_upstreams_order_is_named() {
        let flawed = Rollout { hasimage: false, end_reason: EndReason::OverLength, ..rollout(1, 0.0) };
        let batch = [
            rollout(0, 1.0),
            rollout(0, 1.0),
            rollout(1, 1.1),
            flawed,
            Rollout { end_reason: EndReason::OverLength, ..rollout(1, 0.0) },
            Rollout { end_reason: EndReason::ErrorInAction, ..rollout(1, 0.0) },
            Rollout { vision_consistent: false, ..rollout(1, 0.0) },
            Rollout { trajlength: 128_001, ..rollout(1, 0.0) },
            rollout(2, 0.0),
        ];
        let mut strategy = Strategy::readme();
        strategy.filters.reverse();
        use Verdict::{Dropped, Kept};
        let wanted = [
            Dropped(Filter::SeqReward),
            Dropped(Filter::SeqReward),
            Kept,
            Dropped(Filter::Hasimage),
            Dropped(Filter::EndReason),
            Kept,
            Dropped(Filter::VtokenImagesNumConsis),
            Dropped(Filter::Trajlength),
            Kept,
        ];
        assert_eq!(filter(&batch, &strategy), wanted);
    }

    #[test]
    fn correct_rollouts_below_the_mean_can_be_dropped() {
        let batch = [1.0, 1.0, 1.4].map(|reward| Rollout {
            advantage: reward - 3.4 / 3.0,
            is_answer_right: true,
            ..rollout(0, reward)
        });
        assert!(filter(&batch, &Strategy::readme()).iter().all(|verdict| *verdict == Verdict::Kept));
        let strategy = Strategy { filters: vec![Filter::PosSampleNegAdv], ..Strategy::readme() };
        let dropped = Verdict::Dropped(Filter::PosSampleNegAdv);
        assert_eq!(filter(&batch, &strategy), [dropped, dropped, Verdict::Kept]);
    }

    #[test]
    fn rounding_errors_are_not_a_spread() {
        let batch = [0.3f32, 0.3f32.next_up()].map(|reward| rollout(0, reward.into()));
        assert_eq!(filter(&batch, &Strategy::readme())[0], Verdict::Dropped(Filter::SeqReward));
    }
}
