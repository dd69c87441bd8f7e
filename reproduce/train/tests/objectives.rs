//! The same advantages, losses and gradients as torch computes by the formulas, and the worked example
//! of the release.
//!
//! Needs the Python that `ci/setup` installs (`PARAVT_PYTHON`).
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::process::{Command, Stdio};

use candle_core::{Device, Tensor, Var};
use paravt_train::objective::{
    Aggregation, Knobs, Loss, RewardPosition, Sequence, advantages, cross_entropy, pack, policy_loss,
    token_logprobs, token_losses,
};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

/// Largest difference, by the largest of the values that were wanted.
fn error(found: impl IntoIterator<Item = f64>, wanted: impl IntoIterator<Item = f64>) -> f64 {
    let (found, wanted): (Vec<f64>, Vec<f64>) = (found.into_iter().collect(), wanted.into_iter().collect());
    assert_eq!(found.len(), wanted.len());
    let difference = found.iter().zip(&wanted).map(|(one, other)| (one - other).abs());
    let most = |values: &mut dyn Iterator<Item = f64>| {
        values.fold(0.0, |most: f64, value| if value.is_nan() { f64::INFINITY } else { most.max(value) })
    };
    most(&mut { difference }) / most(&mut wanted.iter().map(|value| value.abs())).max(1e-12)
}

fn flat<T: Copy + Into<f64>>(rows: &[Vec<T>]) -> impl Iterator<Item = f64> {
    rows.iter().flatten().map(|&value| value.into())
}

/// A rollout with everything by its tokens or positions.
#[derive(Clone, Debug, Serialize)]
struct Rollout {
    loss_mask: Vec<u8>,
    #[serde(skip)]
    mask: Vec<bool>,
    behaviour: Vec<f64>,
    reference: Vec<f64>,
    prox: Vec<f64>,
    new: Vec<f64>,
    reward: f64,
    group: usize,
}

impl Rollout {
    fn sequence(&self) -> Sequence<'_> {
        Sequence {
            loss_mask: &self.mask,
            behaviour: &self.behaviour,
            reference: Some(&self.reference),
            reward: self.reward,
            group: self.group,
        }
    }
}

/// Groups of `samples` rollouts of 2 to 12 tokens; log-probabilities apart enough that ratios are
/// clipped, weights capped and the KL clamped now and then.
fn rollouts(seed: u64, groups: usize, samples: usize) -> Vec<Rollout> {
    let mut rng = StdRng::seed_from_u64(seed);
    let rollout = |place: usize| {
        let tokens = rng.random_range(2..=12);
        let mut mask: Vec<bool> = (0..tokens).map(|token| token > 0 && rng.random_bool(0.7)).collect();
        mask[tokens / 2] = tokens > 1;
        let behaviour: Vec<f64> = (0..tokens).map(|_| -rng.random_range(0.01..3.0)).collect();
        // By the position that predicts; the last one predicts nothing.
        let next = |token: usize| behaviour[(token + 1).min(tokens - 1)];
        let mut near = |spread: f64| -> Vec<f64> {
            let draw = |token| next(token) + rng.random_range(-spread..spread);
            (0..tokens).map(draw).collect()
        };
        let (reference, prox) = (near(12.0), near(2.0));
        let new = prox.iter().map(|prox| prox + rng.random_range(-1.5..1.5)).collect();
        Rollout {
            loss_mask: mask.iter().map(|&mask| mask.into()).collect(),
            mask,
            behaviour,
            reference,
            prox,
            new,
            reward: f64::from(rng.random_range(0..25_u32)) / 10.0,
            group: place / samples,
        }
    };
    (0..groups * samples).map(rollout).collect()
}

/// The objectives of the recipes, and knobs that no recipe turns.
fn objectives() -> Vec<Knobs> {
    let turned = Knobs {
        discount: 0.95,
        gae_lambda: 0.9,
        eps_clip: 0.1,
        eps_clip_higher: Some(0.3),
        c_clip: Some(1.5),
        reward_clip: 5.0,
        kl_clamp: 2.0,
        reward_position: RewardPosition::LastTrained,
        ..Knobs::grpo()
    };
    vec![Knobs::grpo(), Knobs::paragrpo(), Knobs::pyvision(), turned]
}

/// Loss, and its gradient by position, of the host's arithmetic on the batch cut into `parts`.
fn host_loss(rollouts: &[Rollout], knobs: &Knobs, parts: usize) -> (f64, Loss, Vec<Vec<f64>>) {
    let batch: Vec<Sequence<'_>> = rollouts.iter().map(Rollout::sequence).collect();
    let made = advantages(&batch, knobs).unwrap();
    let (mut value, mut sums) = (0.0, Loss::default());
    let mut gradients: Vec<Vec<f64>> = rollouts.iter().map(|rollout| vec![0.0; rollout.mask.len()]).collect();
    let all: Vec<usize> = (0..batch.len()).collect();
    for which in all.chunks(batch.len().div_ceil(parts)) {
        let packed = pack(&batch, &made, which);
        let at = |of: fn(&Rollout) -> &[f64]| -> Vec<f64> {
            packed.positions.iter().map(|&(sequence, position)| of(&rollouts[sequence])[position]).collect()
        };
        let (new, prox) = (at(|rollout| &rollout.new), at(|rollout| &rollout.prox));
        let (loss, gradient) = token_losses(&new, &packed.with_prox(&prox), knobs);
        let scale = knobs.scale(loss.tokens, made.trained, parts);
        value += loss.sum * scale;
        sums += loss;
        for (&(sequence, position), gradient) in packed.positions.iter().zip(gradient) {
            gradients[sequence][position] = gradient * scale;
        }
    }
    (value, sums, gradients)
}

#[derive(Serialize)]
struct Softmax {
    logits: Vec<Vec<f32>>,
    targets: Vec<u32>,
    temperature: f64,
    by_logprob: Vec<f32>,
    by_entropy: Vec<f32>,
}

#[derive(Serialize)]
struct Chain {
    knobs: Knobs,
    logits: Vec<Vec<f32>>,
    targets: Vec<u32>,
    advantages: Vec<f64>,
    prox: Vec<f64>,
    behaviour: Vec<f64>,
}

#[derive(Serialize)]
struct Batch {
    knobs: Knobs,
    sequences: Vec<Rollout>,
}

#[derive(Serialize)]
struct Cases {
    batches: Vec<Batch>,
    softmax: Vec<Softmax>,
    chains: Vec<Chain>,
}

#[derive(Deserialize)]
struct BatchResult {
    scaled: Vec<f64>,
    normalised: Vec<f64>,
    raw: Vec<Vec<f64>>,
    tokens: Vec<Vec<f64>>,
    kl_mean: f64,
    loss: f64,
    gradient: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct SoftmaxResult {
    logprobs: Vec<f64>,
    entropy: Vec<f64>,
    gradient: Vec<Vec<f64>>,
    cross_entropy: f64,
    cross_entropy_gradient: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct ChainResult {
    loss: f64,
    gradient: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct Results {
    batches: Vec<BatchResult>,
    softmax: Vec<SoftmaxResult>,
    chains: Vec<ChainResult>,
}

fn torch(cases: &Cases) -> Results {
    let python =
        std::env::var("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
    let mut child = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/objectives.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    serde_json::to_writer(child.stdin.as_mut().unwrap(), cases).unwrap();
    child.stdin.take().unwrap().flush().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn logits(rng: &mut StdRng, n: usize, vocab: usize, spread: f32) -> Vec<Vec<f32>> {
    let row = |rng: &mut StdRng| (0..vocab).map(|_| rng.random_range(-spread..spread)).collect();
    (0..n).map(|_| row(rng)).collect()
}

fn cases() -> Cases {
    let objectives = objectives();
    let batch = |seed: u64| Batch {
        knobs: objectives[seed as usize % objectives.len()].clone(),
        sequences: rollouts(seed, 1 + seed as usize % 3, 2 + seed as usize % 7),
    };
    let mut rng = StdRng::seed_from_u64(5);
    let mut softmax = Vec::new();
    let mut chains = Vec::new();
    for (n, vocab, spread) in [(1, 2, 1.0), (7, 33, 5.0), (24, 257, 12.0), (5, 4_099, 30.0)] {
        let targets: Vec<u32> = (0..n).map(|_| rng.random_range(0..vocab as u32)).collect();
        for knobs in &objectives {
            let mut numbers =
                |low: f64, high: f64| -> Vec<f64> { (0..n).map(|_| rng.random_range(low..high)).collect() };
            let (by_logprob, by_entropy) = (numbers(-2.0, 2.0), numbers(-1.0, 1.0));
            let (advantages, offsets, behind) = (numbers(-3.0, 3.0), numbers(-0.6, 0.6), numbers(-2.0, 2.0));
            let logits = logits(&mut rng, n, vocab, spread);
            let narrow = |values: Vec<f64>| values.into_iter().map(|value| value as f32).collect();
            // Near the new log-probabilities, or every token would be clipped.
            let tensor = Tensor::new(logits.clone(), &Device::Cpu).unwrap();
            let new =
                token_logprobs(&tensor, &targets, knobs.temperature).unwrap().0.to_vec1::<f32>().unwrap();
            let prox: Vec<f64> =
                new.iter().zip(offsets).map(|(&new, offset)| f64::from(new) + offset).collect();
            let behaviour = prox.iter().zip(behind).map(|(prox, behind)| prox + behind).collect();
            softmax.push(Softmax {
                logits: logits.clone(),
                targets: targets.clone(),
                temperature: knobs.temperature,
                by_logprob: narrow(by_logprob),
                by_entropy: narrow(by_entropy),
            });
            chains.push(Chain {
                knobs: knobs.clone(),
                logits,
                targets: targets.clone(),
                advantages,
                prox,
                behaviour,
            });
        }
    }
    Cases { batches: (0..60).map(batch).collect(), softmax, chains }
}

fn check_batch(case: &Batch, wanted: &BatchResult) {
    let batch: Vec<Sequence<'_>> = case.sequences.iter().map(Rollout::sequence).collect();
    let made = advantages(&batch, &case.knobs).unwrap();
    let (loss, _, gradient) = host_loss(&case.sequences, &case.knobs, 1);
    let errors = [
        error(made.scaled, wanted.scaled.clone()),
        error(made.normalised, wanted.normalised.clone()),
        error(flat(&made.raw), flat(&wanted.raw)),
        error(flat(&made.tokens), flat(&wanted.tokens)),
        error([made.kl_mean], [wanted.kl_mean]),
        error([loss], [wanted.loss]),
        error(flat(&gradient), flat(&wanted.gradient)),
    ];
    assert!(errors.iter().all(|&error| error <= 1e-9), "{errors:?} {:?}", case.knobs);
}

fn check_softmax(case: &Softmax, wanted: &SoftmaxResult) -> f64 {
    let logits = Var::new(case.logits.clone(), &Device::Cpu).unwrap();
    let weights = |values: &[f32]| Tensor::new(values, &Device::Cpu).unwrap();
    let (logprobs, entropy) = token_logprobs(&logits, &case.targets, case.temperature).unwrap();
    let sum = (logprobs.clone() * weights(&case.by_logprob)).unwrap().sum_all().unwrap();
    let sum = (sum + (&entropy * weights(&case.by_entropy)).unwrap().sum_all().unwrap()).unwrap();
    let gradient = |of: &Tensor| of.backward().unwrap().get(&logits).unwrap().to_vec2::<f32>().unwrap();
    let values = |of: &Tensor| of.to_vec1::<f32>().unwrap().into_iter().map(f64::from).collect::<Vec<_>>();
    let supervised = cross_entropy(&logits, &case.targets).unwrap();
    let errors = [
        error(values(&logprobs), wanted.logprobs.clone()),
        error(values(&entropy), wanted.entropy.clone()),
        error(flat(&gradient(&sum)), flat(&wanted.gradient)),
        error([f64::from(supervised.to_scalar::<f32>().unwrap())], [wanted.cross_entropy]),
        error(flat(&gradient(&supervised)), flat(&wanted.cross_entropy_gradient)),
    ];
    assert!(errors.iter().all(|&error| error <= 1e-5), "{errors:?}");
    errors.into_iter().fold(0.0, f64::max)
}

fn check_chain(case: &Chain, wanted: &ChainResult) -> f64 {
    let logits = Var::new(case.logits.clone(), &Device::Cpu).unwrap();
    let (new, _) = token_logprobs(&logits, &case.targets, case.knobs.temperature).unwrap();
    let tokens = paravt_train::objective::Tokens {
        advantages: &case.advantages,
        prox: &case.prox,
        behaviour: &case.behaviour,
    };
    let (loss, sums) = policy_loss(&new, &tokens, &case.knobs).unwrap();
    let n = case.targets.len();
    let loss = (loss * case.knobs.scale(n, n, 1)).unwrap();
    let gradient = loss.backward().unwrap().get(&logits).unwrap().to_vec2::<f32>().unwrap();
    let value = f64::from(loss.to_scalar::<f32>().unwrap());
    assert!((value - sums.mean(sums.sum)).abs() <= 1e-6 * value.abs().max(1e-3));
    // The mean of a few tokens of either sign may be small beside them.
    let value = (value - wanted.loss).abs() / wanted.loss.abs().max(0.1);
    let errors = [value, error(flat(&gradient), flat(&wanted.gradient))];
    assert!(errors.iter().all(|&error| error <= 1e-4), "{errors:?} {:?}", case.knobs);
    errors.into_iter().fold(0.0, f64::max)
}

#[test]
fn everything_is_as_torch_has_it() {
    let cases = cases();
    let results = torch(&cases);
    assert_eq!(results.batches.len(), 60);
    cases.batches.iter().zip(&results.batches).for_each(|(case, wanted)| check_batch(case, wanted));
    let most = |errors: &mut dyn Iterator<Item = f64>| errors.fold(0.0, f64::max);
    let softmax =
        most(&mut cases.softmax.iter().zip(&results.softmax).map(|(case, of)| check_softmax(case, of)));
    let chains = most(&mut cases.chains.iter().zip(&results.chains).map(|(case, of)| check_chain(case, of)));
    println!("largest relative errors: log-probabilities {softmax:.1e}, losses by logits {chains:.1e}");
}

#[test]
fn the_cases_reach_every_branch() {
    let mut sums = Loss::default();
    let mut unrewarded = 0;
    for case in cases().batches {
        sums += host_loss(&case.sequences, &case.knobs, 1).1;
        let batch: Vec<Sequence<'_>> = case.sequences.iter().map(Rollout::sequence).collect();
        unrewarded += advantages(&batch, &case.knobs).unwrap().unrewarded;
    }
    let counts = [sums.clipped, sums.dual_clipped, sums.dropped, unrewarded];
    assert!(counts.iter().all(|&count| count > 20), "{counts:?} of {}", sums.tokens);
}

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
    let example: Example = serde_json::from_str(include_str!("data/grpo_example.json")).unwrap();
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
fn what_does_not_go_together_is_said() {
    let rollouts = rollouts(1, 1, 2);
    let mut batch: Vec<Sequence<'_>> = rollouts.iter().map(Rollout::sequence).collect();
    batch[1].behaviour = &[];
    let error = advantages(&batch, &Knobs::grpo()).unwrap_err().to_string();
    assert!(error.starts_with("sequence 1: 0 behaviour log-probabilities for "), "{error}");
    batch[1] = Sequence { reward: f64::NAN, ..rollouts[1].sequence() };
    let error = advantages(&batch, &Knobs::grpo()).unwrap_err().to_string();
    assert_eq!(error, "sequence 1: the reward is NaN");
}

#[test]
fn nothing_trained_is_nothing() {
    let empty = Sequence { loss_mask: &[], behaviour: &[], reference: None, reward: 1.0, group: 0 };
    let prompt = Sequence { loss_mask: &[true, false], behaviour: &[0.0; 2], ..empty };
    for knobs in objectives() {
        let made = advantages(&[empty, prompt], &knobs).unwrap();
        assert_eq!((made.trained, made.unrewarded, made.tokens), (0, 0, vec![vec![], vec![0.0, 0.0]]));
    }
}

proptest! {
    #[test]
    fn micro_batches_do_not_show(seed in 0u64..1_000, parts in 1usize..5) {
        for knobs in objectives().into_iter().filter(|knobs| knobs.aggregation == Aggregation::Tokens) {
            let rollouts = rollouts(seed, 2, 4);
            let (whole, sums, gradient) = host_loss(&rollouts, &knobs, 1);
            let (split, added, split_gradient) = host_loss(&rollouts, &knobs, parts);
            prop_assert!((whole - split).abs() < 1e-12);
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
            prop_assert!((one - other).abs() <= 1e-11 * one.abs().max(1.0));
            prop_assert!(error(flat(&turned_gradient), flat(&gradient)) < 1e-9);
        }
    }

    #[test]
    fn rewards_beyond_the_clip_are_alike(seed in 0u64..1_000, more in 0.0f64..10.0) {
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
    fn a_shift_of_all_rewards_is_no_advantage(seed in 0u64..1_000, shift in -1.0f64..1.0) {
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
    fn a_group_sums_to_nothing(seed in 0u64..1_000, scale in 0.1f64..5.0) {
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
