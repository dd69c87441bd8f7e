//! The worked example of the release, and what holds of every batch.

use crate::common::{Rollout, error, flat, host_loss, objectives, rollouts};
use candle_core::{Device, IndexOp as _, Var};
use paravt_train::objective::{Aggregation, Knobs, Sequence, advantages, pack, policy_loss};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Example {
    config: serde_json::Value,
    rewards: Vec<f64>,
    lengths: Vec<usize>,
    loss_mask: Vec<Vec<f64>>,
    behave: Vec<Vec<f64>>,
    #[serde(rename = "ref")]
    reference: Vec<Vec<f64>>,
    prox: Vec<Vec<f64>>,
    new: Vec<Vec<f64>>,
    normalised_rewards: Vec<f64>,
    advantages: Vec<Vec<f64>>,
    normalised_advantages: Vec<Vec<f64>>,
    loss_tokens: f64,
    loss: f64,
}

#[test]
fn the_worked_example_of_the_release() {
    let example: Example = serde_json::from_str(include_str!("../data/grpo_example.json")).unwrap();
    let knobs = serde_json::to_value(Knobs::paragrpo()).unwrap();
    for (name, value) in example.config.as_object().unwrap() {
        let fixed = ["group_size", "std_unbiased", "kl_estimator"].contains(&name.as_str());
        assert!(fixed || knobs[name] == *value, "{name}: {value}");
    }
    let rollouts: Vec<Rollout> = (0..example.rewards.len())
        .map(|at| {
            let cut = |rows: &[Vec<f64>]| rows[at][..example.lengths[at]].to_vec();
            Rollout {
                loss_mask: Vec::new(),
                mask: cut(&example.loss_mask).into_iter().map(|mask| mask > 0.0).collect(),
                behaviour: cut(&example.behave),
                reference: cut(&example.reference),
                prox: cut(&example.prox),
                new: cut(&example.new),
                reward: example.rewards[at],
                group: at / 4,
            }
        })
        .collect();
    let batch: Vec<Sequence<'_>> = rollouts.iter().map(Rollout::sequence).collect();
    let knobs = Knobs::paragrpo();
    let made = advantages(&batch, &knobs).unwrap();
    let cut = |rows: &[Vec<f64>]| -> Vec<Vec<f64>> {
        rows.iter().zip(&example.lengths).map(|(row, &length)| row[..length].to_vec()).collect()
    };
    let near = |found: &[Vec<f64>], wanted: &[Vec<f64>]| {
        let most = flat(found).zip(flat(wanted)).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max);
        assert!(found.len() == wanted.len() && most <= 1e-6, "{most}");
        most
    };
    let normalised = near(&[made.normalised], &[example.normalised_rewards]);
    let raw = near(&made.raw, &cut(&example.advantages));
    let tokens = near(&made.tokens, &cut(&example.normalised_advantages));
    let (loss, sums, _) = host_loss(&rollouts, &knobs, 1);
    assert_eq!((made.trained as f64, sums.tokens as f64), (example.loss_tokens, example.loss_tokens));
    assert!((loss - example.loss).abs() <= 1e-6, "{loss}");
    println!(
        "differences: normalised {normalised:.1e}, advantages {raw:.1e}, normalised advantages {tokens:.1e}, loss {:.1e}",
        (loss - example.loss).abs()
    );
}

#[test]
fn contradictory_settings_are_refused_by_name() {
    let rollouts = rollouts(1, 1, 2);
    let mut batch: Vec<Sequence<'_>> = rollouts.iter().map(Rollout::sequence).collect();
    batch[1].behaviour = &[];
    let error = advantages(&batch, &Knobs::grpo()).unwrap_err().to_string();
    assert!(error.starts_with("sequence 1: 0 behaviour log-probabilities for "), "{error}");
    batch[1] = Sequence { reward: f64::NAN, ..rollouts[1].sequence() };
    let error = advantages(&batch, &Knobs::grpo()).unwrap_err().to_string();
    assert_eq!(error, "sequence 1: the reward is NaN");
}

/// Rewards and advantages of groups of 8.
#[test]
fn the_worked_groups_of_pyvision() {
    let groups = [
        ([1.2, 1.2, 1.1, 0.0, 0.0, 0.0, 0.0, 0.0], [0.7625, 0.7625, 0.6625, -0.4375, -0.4375]),
        ([1.0, 1.0, 1.0, 1.4, 1.1, 1.1, 1.2, 1.0], [-0.1, -0.1, -0.1, 0.3, 0.0]),
    ];
    for (rewards, wanted) in groups {
        let mask = [false, true, false, true, true, false];
        let sequence = |reward| Sequence {
            loss_mask: &mask,
            behaviour: &[-1.0; 6],
            reference: Some(&[-3.0; 6]),
            reward,
            group: 0,
        };
        let made = advantages(&rewards.map(sequence), &Knobs::pyvision()).unwrap();
        for (tokens, wanted) in made.tokens.iter().zip(wanted) {
            let row = [1.0, 0.0, 1.0, 1.0, 0.0, 0.0].map(|mask| mask * wanted);
            assert!(tokens.iter().zip(row).all(|(one, other)| (one - other).abs() < 1e-12), "{tokens:?}");
        }
    }
}

#[test]
fn the_tensor_has_the_gradient_of_the_host() {
    for (seed, knobs) in (0..).zip(objectives()) {
        let mut rollouts = rollouts(seed, 2, 4);
        // As they are in a tensor.
        let narrow = |value: &mut f64| *value = f64::from(*value as f32);
        rollouts.iter_mut().for_each(|rollout| rollout.new.iter_mut().for_each(narrow));
        let (value, _, wanted) = host_loss(&rollouts, &knobs, 1);
        let batch: Vec<Sequence<'_>> = rollouts.iter().map(Rollout::sequence).collect();
        let made = advantages(&batch, &knobs).unwrap();
        let packed = pack(&batch, &made, &[0, 1, 2, 3, 4, 5, 6, 7]);
        let at = |of: fn(&Rollout) -> &[f64]| -> Vec<f64> {
            packed.positions.iter().map(|&(sequence, position)| of(&rollouts[sequence])[position]).collect()
        };
        let prox = at(|rollout| &rollout.prox);
        let new: Vec<f32> = at(|rollout| &rollout.new).into_iter().map(|new| new as f32).collect();
        let new = Var::new(new, &Device::Cpu).unwrap();
        let (loss, sums) = policy_loss(&new, &packed.with_prox(&prox), &knobs).unwrap();
        let loss = (loss * knobs.scale(sums.tokens, made.trained, 1)).unwrap();
        let found = loss.backward().unwrap().get(&new).unwrap().to_vec1::<f32>().unwrap();
        let wanted = packed.positions.iter().map(|&(sequence, position)| wanted[sequence][position]);
        assert!(error(found.into_iter().map(f64::from), wanted) < 1e-6);
        assert!((f64::from(loss.to_scalar::<f32>().unwrap()) - value).abs() < 1e-6 * value.abs().max(1.0));
        let error = policy_loss(&new.i(1..).unwrap(), &packed.with_prox(&prox), &knobs).unwrap_err();
        assert!(error.to_string().contains("policy loss: new F32"), "{error}");
    }
}

#[test]
fn sequences_without_trained_tokens_have_no_advantages() {
    let empty = Sequence { loss_mask: &[], behaviour: &[], reference: None, reward: 1.0, group: 0 };
    let prompt = Sequence { loss_mask: &[true, false], behaviour: &[0.0; 2], ..empty };
    for knobs in objectives() {
        let made = advantages(&[empty, prompt], &knobs).unwrap();
        assert_eq!((made.trained, made.unrewarded, made.tokens), (0, 0, vec![vec![], vec![0.0, 0.0]]));
    }
}

/// How far sums in another order may be apart: their terms are large (ratios reach hundreds) and cancel.
const CANCELLED: f64 = 1e-9;

proptest! {
    #[test]
    fn the_gradient_is_independent_of_micro_batches(seed in 0u64..1_000, parts in 1usize..5) {
        for knobs in objectives().into_iter().filter(|knobs| knobs.aggregation == Aggregation::Tokens) {
            let rollouts = rollouts(seed, 2, 4);
            let (whole, sums, gradient) = host_loss(&rollouts, &knobs, 1);
            let (split, added, split_gradient) = host_loss(&rollouts, &knobs, parts);
            prop_assert!((whole - split).abs() < CANCELLED);
            prop_assert_eq!((sums.tokens, sums.clipped, sums.dropped), (added.tokens, added.clipped, added.dropped));
            prop_assert_eq!(gradient, split_gradient);
        }
    }

    #[test]
    fn the_order_of_sequences_does_not_matter(seed in 0u64..1_000, turn in 0usize..8) {
        for knobs in objectives() {
            let rollouts = rollouts(seed, 2, 4);
            let mut turned = rollouts.clone();
            turned.rotate_left(turn);
            let (one, _, gradient) = host_loss(&rollouts, &knobs, 1);
            let (other, _, mut turned_gradient) = host_loss(&turned, &knobs, 1);
            turned_gradient.rotate_right(turn);
            prop_assert!((one - other).abs() <= CANCELLED * one.abs().max(1.0));
            prop_assert!(error(flat(&turned_gradient), flat(&gradient)) < 1e-9);
        }
    }

    #[test]
    fn rewards_beyond_the_clip_are_equal(seed in 0u64..1_000, more in 0.0f64..10.0) {
        // (2.2 - 0.2) * 10 is the clip.
        let knobs = Knobs::grpo();
        let mut rollouts = rollouts(seed, 2, 4);
        rollouts[0].reward = 2.2;
        let (one, _, gradient) = host_loss(&rollouts, &knobs, 1);
        rollouts[0].reward += more;
        let (other, _, other_gradient) = host_loss(&rollouts, &knobs, 1);
        prop_assert!((one - other).abs() < 1e-12);
        prop_assert!(error(flat(&other_gradient), flat(&gradient)) < 1e-12);
    }

    #[test]
    fn advantages_are_invariant_to_a_shift_of_all_rewards(seed in 0u64..1_000, shift in -1.0f64..1.0) {
        for knobs in objectives() {
            // Wide enough that nothing is clipped.
            let knobs = Knobs { reward_clip: 1e3, ..knobs };
            let rollouts = rollouts(seed, 2, 4);
            let mut shifted = rollouts.clone();
            shifted.iter_mut().for_each(|rollout| rollout.reward += shift);
            let (_, _, gradient) = host_loss(&rollouts, &knobs, 1);
            let (_, _, other) = host_loss(&shifted, &knobs, 1);
            prop_assert!(error(flat(&other), flat(&gradient)) < 1e-8);
        }
    }

    #[test]
    fn advantages_of_a_group_sum_to_zero(seed in 0u64..1_000, scale in 0.1f64..5.0) {
        for knobs in objectives() {
            let mut rollouts = rollouts(seed, 1, 6);
            rollouts.iter_mut().for_each(|rollout| rollout.reward *= scale);
            let batch: Vec<Sequence<'_>> = rollouts.iter().map(Rollout::sequence).collect();
            let made = advantages(&batch, &knobs).unwrap();
            prop_assert!(made.normalised.iter().sum::<f64>().abs() < 1e-9);
            if knobs.adv_norm {
                let (sum, squares) = flat(&made.tokens).fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
                prop_assert!(sum.abs() < 1e-9 && (squares / (made.trained as f64 - 1.0).max(1.0) - 1.0).abs() < 1e-2);
            }
        }
    }
}
