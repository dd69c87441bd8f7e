//! Random rollouts, and what the host's arithmetic makes of them.

pub(crate) mod runs;

use paravt_train::objective::{Knobs, Loss, RewardPosition, Sequence, advantages, pack, token_losses};
use paravt_train::seed::Seed;
use rand::Rng as _;
use serde::Serialize;

/// Largest difference, by the largest of the values that were wanted.
pub(crate) fn error(found: impl IntoIterator<Item = f64>, wanted: impl IntoIterator<Item = f64>) -> f64 {
    let (found, wanted): (Vec<f64>, Vec<f64>) = (found.into_iter().collect(), wanted.into_iter().collect());
    assert_eq!(found.len(), wanted.len());
    let difference = found.iter().zip(&wanted).map(|(one, other)| (one - other).abs());
    let most = |values: &mut dyn Iterator<Item = f64>| {
        values.fold(0.0, |most: f64, value| if value.is_nan() { f64::INFINITY } else { most.max(value) })
    };
    most(&mut { difference }) / most(&mut wanted.iter().map(|value| value.abs())).max(1e-12)
}

pub(crate) fn flat<T: Copy + Into<f64>>(rows: &[Vec<T>]) -> impl Iterator<Item = f64> {
    rows.iter().flatten().map(|&value| value.into())
}

/// A rollout with everything by its tokens or positions.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rollout {
    pub loss_mask: Vec<u8>,
    #[serde(skip)]
    pub mask: Vec<bool>,
    pub behaviour: Vec<f64>,
    pub reference: Vec<f64>,
    pub prox: Vec<f64>,
    pub new: Vec<f64>,
    pub reward: f64,
    pub group: usize,
}

impl Rollout {
    pub(crate) fn sequence(&self) -> Sequence<'_> {
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
pub(crate) fn rollouts(seed: u64, groups: usize, samples: usize) -> Vec<Rollout> {
    let mut rng = Seed::new("test", seed).rng();
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
pub(crate) fn objectives() -> Vec<Knobs> {
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
pub(crate) fn host_loss(rollouts: &[Rollout], knobs: &Knobs, parts: usize) -> (f64, Loss, Vec<Vec<f64>>) {
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
