//! Generation batches until there is enough, then the best of them.

use std::collections::BTreeSet;

use super::{Rollout, Strategy, Unit, Verdict, filter, spreads};

/// Generation batches are used up and the step is still short; upstream stops training here rather
/// than train on less (RT:1935-1944).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kept} of {wanted} after {batches} generation batches: the filters leave too few, often because all rollouts of a \
     prompt earn the same reward; see the rewards of the steps before, or raise max_num_gen_batches"
)]
pub struct Short {
    /// Rollouts or groups that survived.
    pub kept: usize,
    /// Those that a step needs.
    pub wanted: usize,
    /// Generation batches so far.
    pub batches: usize,
}

struct Survivor {
    /// Counted from the first rollout of the first batch.
    rollout: usize,
    /// Batch and group: group numbers may start again with every batch.
    group: (usize, usize),
    std: f64,
}

/// Generation batches of a step for which no bound is given. Upstream goes on for ever where a collapsed policy earns the
/// same reward every time.
const MAX_GEN_BATCHES: usize = 100;

/// Rollouts of one step.
pub struct Pool<'a> {
    strategy: &'a Strategy,
    seen: usize,
    batches: usize,
    survivors: Vec<Survivor>,
}

impl<'a> Pool<'a> {
    /// Empty.
    pub fn new(strategy: &'a Strategy) -> Self {
        Self { strategy, seen: 0, batches: 0, survivors: Vec::new() }
    }

    /// Adds a generation batch of full groups.
    pub fn add(&mut self, rollouts: &[Rollout]) {
        let spreads = spreads(rollouts);
        for (place, verdict) in filter(rollouts, self.strategy).into_iter().enumerate() {
            if verdict == Verdict::Kept {
                let group = rollouts[place].group;
                self.survivors.push(Survivor {
                    rollout: self.seen + place,
                    group: (self.batches, group),
                    std: spreads[&group].std,
                });
            }
        }
        self.seen += rollouts.len();
        self.batches += 1;
    }

    /// Whether another generation batch is wanted.
    ///
    /// # Errors
    /// It is, but none is left.
    pub(crate) fn wants_more(&self) -> Result<bool, Short> {
        if self.strategy.filters.is_empty() {
            return Ok(self.batches == 0);
        }
        let (kept, wanted) = (self.kept(), self.wanted());
        if kept >= wanted {
            return Ok(false);
        }
        let most = match self.strategy.max_num_gen_batches {
            0 => MAX_GEN_BATCHES,
            given => given,
        };
        match self.batches {
            0 => {}
            batches if batches < most => {
                tracing::info!("{kept} of {wanted} after {batches} generation batches; at most {most}");
            }
            batches => return Err(Short { kept, wanted, batches }),
        }
        Ok(true)
    }

    /// The rollouts to train on, numbered from the first one that was added, best group first or in
    /// order of arrival. Groups that spread alike stay in order of arrival, which upstream leaves
    /// open.
    pub fn select(&self) -> Vec<usize> {
        let mut ranked: Vec<&Survivor> = self.survivors.iter().collect();
        // Upstream only sorts what it has to cut; the order within a step has no meaning.
        if self.strategy.std_sort_enable && self.kept() > self.wanted() {
            ranked.sort_by(|one, other| other.std.total_cmp(&one.std));
        }
        match self.strategy.unit {
            Unit::Rollouts => ranked.truncate(self.wanted()),
            Unit::Groups => {
                let mut groups = BTreeSet::new();
                ranked.retain(|survivor| {
                    groups.contains(&survivor.group)
                        || groups.len() < self.wanted() && groups.insert(survivor.group)
                });
            }
        }
        ranked.into_iter().map(|survivor| survivor.rollout).collect()
    }

    fn kept(&self) -> usize {
        match self.strategy.unit {
            Unit::Rollouts => self.survivors.len(),
            Unit::Groups => {
                self.survivors.iter().map(|survivor| survivor.group).collect::<BTreeSet<_>>().len()
            }
        }
    }

    fn wanted(&self) -> usize {
        match self.strategy.unit {
            Unit::Rollouts => self.strategy.train_batch_size * self.strategy.n,
            Unit::Groups => self.strategy.train_batch_size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::rollout;
    use super::super::{EndReason, Strategy};
    use super::*;
    use proptest::prelude::*;

    fn group(number: usize, rewards: &[f64]) -> Vec<Rollout> {
        rewards.iter().map(|&reward| rollout(number, reward)).collect()
    }

    fn small(unit: Unit) -> Strategy {
        Strategy { train_batch_size: 2, n: 4, unit, ..Strategy::readme() }
    }

    /// Spreads 0.5 (0), none (1), 0.816 (2), 0.577 (3): ranked 2, 3, 0.
    fn batch() -> Vec<Rollout> {
        let rewards = [[1.0, 0.0, 0.0, 0.0], [1.0; 4], [2.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]];
        rewards.iter().enumerate().flat_map(|(number, rewards)| group(number, rewards)).collect()
    }

    #[test]
    fn the_groups_that_spread_most_are_kept() {
        let strategy = small(Unit::Rollouts);
        let mut pool = Pool::new(&strategy);
        assert_eq!(pool.wants_more(), Ok(true));
        pool.add(&batch());
        assert_eq!(pool.wants_more(), Ok(false));
        assert_eq!(pool.select(), [8, 9, 10, 11, 12, 13, 14, 15]);
        let by_arrival = Strategy { std_sort_enable: false, ..strategy };
        let mut pool = Pool::new(&by_arrival);
        pool.add(&batch());
        assert_eq!(pool.select(), [0, 1, 2, 3, 8, 9, 10, 11]);
    }

    #[test]
    fn rollouts_split_a_group_and_groups_do_not() {
        let mut rollouts = batch();
        rollouts[9].end_reason = EndReason::OverLength;
        let kept = |unit| {
            let strategy = small(unit);
            let mut pool = Pool::new(&strategy);
            pool.add(&rollouts);
            pool.select()
        };
        assert_eq!(kept(Unit::Rollouts), [8, 10, 11, 12, 13, 14, 15, 0]);
        assert_eq!(kept(Unit::Groups), [8, 10, 11, 12, 13, 14, 15]);
    }

    #[test]
    fn batches_are_added_up_and_bounded() {
        let strategy = Strategy { max_num_gen_batches: 2, train_batch_size: 3, ..small(Unit::Rollouts) };
        let mut pool = Pool::new(&strategy);
        pool.add(&group(0, &[1.0, 0.0, 0.0, 0.0]));
        assert_eq!(pool.wants_more(), Ok(true));
        // The same number in another batch is another prompt.
        pool.add(&group(0, &[1.0, 1.0, 0.0, 0.0]));
        assert_eq!(pool.wants_more(), Err(Short { kept: 8, wanted: 12, batches: 2 }));
        pool.add(&group(0, &[1.0, 1.0, 1.0, 1.0]));
        pool.add(&group(0, &[3.0, 1.0, 1.0, 1.0]));
        assert_eq!((pool.wants_more(), pool.select().len()), (Ok(false), 12));
        let groups = Strategy { unit: Unit::Groups, ..strategy.clone() };
        let mut pool = Pool::new(&groups);
        pool.add(&group(0, &[1.0, 0.0, 0.0, 0.0]));
        pool.add(&group(0, &[1.0, 1.0, 0.0, 0.0]));
        assert_eq!(pool.wants_more(), Err(Short { kept: 2, wanted: 3, batches: 2 }));
        // A collapsed policy: no bound is given, and no group ever spreads.
        let unbounded = Strategy { max_num_gen_batches: 0, ..strategy };
        let mut pool = Pool::new(&unbounded);
        for _ in 0..MAX_GEN_BATCHES {
            assert_eq!(pool.wants_more(), Ok(true));
            pool.add(&group(0, &[1.0; 4]));
        }
        let short = Short { kept: 0, wanted: 12, batches: MAX_GEN_BATCHES };
        assert_eq!(pool.wants_more(), Err(short));
    }

    #[test]
    fn without_filters_one_batch_is_enough() {
        let strategy = Strategy { filters: Vec::new(), ..small(Unit::Rollouts) };
        let mut pool = Pool::new(&strategy);
        pool.add(&group(0, &[1.0; 4]));
        assert_eq!((pool.wants_more(), pool.select()), (Ok(false), vec![0, 1, 2, 3]));
    }

    proptest! {
        #[test]
        fn dropped_groups_spread_no_more_than_kept_ones(
            rewards in prop::collection::vec(prop::collection::vec(0u8..4, 4), 1..12),
        ) {
            let strategy = small(Unit::Rollouts);
            let mut pool = Pool::new(&strategy);
            for (number, rewards) in rewards.iter().enumerate() {
                pool.add(&group(number, &rewards.iter().map(|&reward| f64::from(reward)).collect::<Vec<_>>()));
            }
            let kept = pool.select();
            let std = |rollout: &usize| {
                let group: Vec<f64> = rewards[rollout / 4].iter().map(|&reward| f64::from(reward)).collect();
                super::super::Spread::of(&group).std
            };
            prop_assert!(kept.iter().all(|rollout| std(rollout) > 0.0));
            prop_assert_eq!(kept.iter().collect::<BTreeSet<_>>().len(), kept.len());
            let least = kept.iter().map(std).fold(f64::INFINITY, f64::min);
            let cut = (0..4 * rewards.len()).filter(|rollout| !kept.contains(rollout));
            prop_assert!(kept.is_empty() || cut.map(|rollout| std(&rollout)).all(|std| std <= least));
        }
    }
}
