//! One optimiser step's gradients.

use std::collections::BTreeMap;

use super::figures::update_figures;
use super::{RlConfig, Rolled};
use crate::error::{Error, Result};
use crate::example::Example;
use crate::learner::Learner;
use crate::objective::{Knobs, Loss, Sequence, advantages, pack, policy_loss, token_logprobs};
use crate::optimizer::Gradients;
use crate::rollout::Trajectory;
use crate::workers;

/// Gradients of a step and what there is to say about it.
pub struct Update {
    pub gradients: Gradients,
    pub figures: BTreeMap<&'static str, f64>,
}

/// One optimiser step's gradients. Advantages compare whole groups; what a strategy left out is compared
/// with, but not trained on. The recomputed log-probabilities of the trainer (`prox`) are those of
/// the loss itself: a step is one minibatch, nothing changes in between.
pub fn update(
    learner: &Learner,
    reference: Option<&Learner>,
    rolled: &Rolled,
    config: &RlConfig,
) -> Result<Update> {
    let (knobs, batch, limit) = (&config.objective, &rolled.all, config.micro_batch_tokens);
    let reference =
        reference.map(|reference| reference_logprobs(reference, batch, limit, knobs)).transpose()?;
    let held = Held::new(batch, reference);
    let sequences = held.sequences(batch);
    let advantages = advantages(&sequences, knobs).map_err(|error| Error::Settings(error.to_string()))?;
    let weights = learner.parameters().all();
    let parts = micro_batches(batch, &rolled.chosen, limit);
    let trained: usize = rolled.chosen.iter().map(|&place| batch[place].1.example.learned()).sum();
    let done = workers::map(&parts, |part| {
        let packed = pack(&sequences, &advantages, part);
        let examples: Vec<&Example> = part.iter().map(|&place| &batch[place].1.example).collect();
        let targets: Vec<u32> = examples.iter().flat_map(|example| example.targets()).collect();
        let (new, entropy) = token_logprobs(&learner.logits(&examples)?, &targets, knobs.temperature)?;
        let prox: Vec<f64> = new.to_vec1::<f32>()?.into_iter().map(f64::from).collect();
        let (loss, sums) = policy_loss(&new, &packed.with_prox(&prox), knobs)?;
        let loss = (loss * knobs.scale(prox.len(), trained, parts.len()))?;
        let entropy = f64::from(entropy.detach().sum_all()?.to_scalar::<f32>()?);
        let value = f64::from(loss.to_scalar::<f32>()?);
        Ok((value, entropy, sums, Gradients::of(&weights, &loss.backward()?)?))
    })?;
    let (mut gradients, mut sums, mut total, mut entropies) =
        (Gradients::default(), Loss::default(), 0.0, 0.0);
    for (value, entropy, part, its) in done {
        total += value;
        entropies += entropy;
        sums += part;
        gradients.add(its)?;
    }
    let figures = update_figures(&advantages, &sums, total, entropies);
    Ok(Update { gradients, figures })
}

/// Per-token values of a batch on the host, as the objective reads them.
pub struct Held {
    behaviour: Vec<Vec<f64>>,
    reference: Option<Vec<Vec<f64>>>,
}

impl Held {
    /// `reference`: log-probabilities of the trained tokens, sequence by sequence.
    pub fn new(batch: &[(usize, Trajectory)], reference: Option<Vec<Vec<f32>>>) -> Self {
        let behaviour = batch.iter().map(|(_, one)| {
            let mut values = vec![0.0; one.example.ids.len()];
            for (row, &value) in one.example.rows().zip(&one.behaviour) {
                values[row + 1] = f64::from(value);
            }
            values
        });
        let reference = reference.map(|reference| {
            let spread = |((_, one), found): (&(usize, Trajectory), Vec<f32>)| {
                let mut values = vec![0.0; one.example.ids.len()];
                for (row, value) in one.example.rows().zip(found) {
                    values[row] = f64::from(value);
                }
                values
            };
            batch.iter().zip(reference).map(spread).collect()
        });
        Self { behaviour: behaviour.collect(), reference }
    }

    pub fn sequences<'a>(&'a self, batch: &'a [(usize, Trajectory)]) -> Vec<Sequence<'a>> {
        let sequence = |(place, (group, one)): (usize, &'a (usize, Trajectory))| Sequence {
            loss_mask: &one.example.trained,
            behaviour: &self.behaviour[place],
            reference: self.reference.as_ref().map(|reference| reference[place].as_slice()),
            reward: one.reward.total,
            group: *group,
        };
        batch.iter().enumerate().map(sequence).collect()
    }
}

/// Log-probabilities of the trained tokens under the reference, sequence by sequence.
fn reference_logprobs(
    reference: &Learner,
    batch: &[(usize, Trajectory)],
    limit: usize,
    knobs: &Knobs,
) -> Result<Vec<Vec<f32>>> {
    let all: Vec<usize> = (0..batch.len()).collect();
    let parts = micro_batches(batch, &all, limit);
    let found = workers::map(&parts, |part| {
        let examples: Vec<&Example> = part.iter().map(|&place| &batch[place].1.example).collect();
        let targets: Vec<u32> = examples.iter().flat_map(|example| example.targets()).collect();
        let logits = reference.logits(&examples)?.detach();
        let (logprobs, _) = token_logprobs(&logits, &targets, knobs.temperature)?;
        let mut values = logprobs.to_vec1::<f32>()?.into_iter();
        let cut = |example: &&Example| values.by_ref().take(example.learned()).collect();
        Ok(examples.iter().map(cut).collect::<Vec<Vec<f32>>>())
    })?;
    Ok(found.into_iter().flatten().collect())
}

/// The chosen sequences in order, as many together as stay within the limit.
fn micro_batches(batch: &[(usize, Trajectory)], chosen: &[usize], limit: usize) -> Vec<Vec<usize>> {
    let (mut parts, mut open, mut held) = (Vec::new(), Vec::new(), 0);
    for &place in chosen {
        let length = batch[place].1.example.ids.len();
        if held + length > limit && !open.is_empty() {
            parts.push(std::mem::take(&mut open));
            held = 0;
        }
        open.push(place);
        held += length;
    }
    if !open.is_empty() {
        parts.push(open);
    }
    parts
}
