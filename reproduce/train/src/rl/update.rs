//! The optimiser steps of a batch of rollouts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::figures::update_figures;
use super::{FirstUpdate, RlConfig, Rolled};
use crate::error::Result;
use crate::example::Example;
use crate::learner::{Learner, Scorer};
use crate::objective::strategy::{Strategy, Unit};
use crate::objective::{Advantages, Loss, Sequence, advantages, pack, policy_loss};
use crate::optimizer::{AdamW, Gradients};
use crate::rollout::Trajectory;

/// Models that are only asked for log-probabilities.
pub(super) struct Scorers {
    /// The model that the training began with, where the objective has a KL term.
    pub reference: Option<Scorer>,
    /// The policy itself, for the weights before the update, where a batch has several optimiser steps.
    pub before: Option<Scorer>,
}

/// A batch as the objective sees it.
struct Batch<'a> {
    rollouts: &'a [(usize, Trajectory)],
    /// What the models read of them.
    examples: Vec<Cow<'a, Example>>,
    held: TokenValues,
    advantages: Advantages,
    config: &'a RlConfig,
}

/// One mini-batch: its gradients and what there is to say about it.
#[derive(Default)]
struct Part {
    gradients: Gradients,
    loss: f64,
    entropies: f64,
    sums: Loss,
}

/// Takes the optimiser steps of a batch, each at `factor` times the peak learning rate, and gives the figures of
/// the log. Advantages compare whole groups; what a strategy left out is compared with, but not trained on.
///
/// The log-probabilities that ratios are taken from (`prox`) are those under the weights before the first of
/// these steps. Where there is one step they are those of the loss itself: nothing changes in between, every
/// ratio is 1 and no clip binds.
pub(super) fn update(
    learner: &Learner,
    optimizer: &mut AdamW,
    factor: f64,
    scorers: &Scorers,
    rolled: &Rolled,
    config: &RlConfig,
) -> Result<BTreeMap<&'static str, f64>> {
    let batch = Batch::new(learner, scorers, rolled, config)?;
    let parts = mini_batches(&rolled.all, &rolled.chosen, config.objective.strategy.as_ref());
    // Only a strategy, which comes with a scorer, takes several steps.
    let before = scorers.before.as_ref().filter(|_| parts.len() > 1);
    let before = before.map(|before| batch.logprobs(learner, before, &rolled.chosen)).transpose()?;
    // By place in the batch, as the mini-batches name them.
    let before: Option<BTreeMap<usize, Vec<f32>>> =
        before.map(|before| rolled.chosen.iter().copied().zip(before).collect());
    let (mut whole, mut norms) = (Part::default(), 0.0);
    for part in &parts {
        let done = batch.gradients(learner, part, before.as_ref())?;
        norms += optimizer.step(&done.gradients, factor)?;
        whole.loss += done.loss;
        whole.entropies += done.entropies;
        whole.sums += done.sums;
    }
    let steps = parts.len().max(1) as f64;
    let mut figures = update_figures(&batch.advantages, &whole.sums, whole.loss / steps, whole.entropies);
    figures.insert("grad_norm", norms / steps);
    figures.insert("optimizer_steps", parts.len() as f64);
    Ok(figures)
}

/// Loss and gradients of a batch's first optimiser step, which is not taken, and the passes it is computed in.
pub(super) fn first(
    learner: &Learner,
    scorers: &Scorers,
    rolled: Rolled,
    config: &RlConfig,
) -> Result<FirstUpdate> {
    let batch = Batch::new(learner, scorers, &rolled, config)?;
    let parts = mini_batches(&rolled.all, &rolled.chosen, config.objective.strategy.as_ref());
    let part = parts.first().map(Vec::as_slice).unwrap_or_default();
    let done = batch.gradients(learner, part, None)?;
    let passes = micro_batches(&batch.examples, part, config.micro_batch_tokens);
    let reference = batch.held.reference;
    Ok(FirstUpdate { rollouts: rolled.all, reference, passes, loss: done.loss, gradients: done.gradients })
}

impl<'a> Batch<'a> {
    fn new(learner: &Learner, scorers: &Scorers, rolled: &'a Rolled, config: &'a RlConfig) -> Result<Self> {
        let rollouts = rolled.all.as_slice();
        let read = |(_, one): &'a (usize, Trajectory)| match config.whole_attention {
            true => Ok(Cow::Borrowed(&one.example)),
            false => one.example.last_sequence().map(Cow::Owned),
        };
        let examples: Vec<Cow<'_, Example>> = rollouts.iter().map(read).collect::<Result<_>>()?;
        let all: Vec<usize> = (0..rollouts.len()).collect();
        let of = |reference| logprobs(learner, reference, &examples, &all, config);
        let reference = scorers.reference.as_ref().map(of).transpose()?;
        let held = TokenValues::new(rollouts, reference);
        let advantages = advantages(&held.sequences(rollouts), &config.objective)?;
        Ok(Self { rollouts, examples, held, advantages, config })
    }

    /// Log-probabilities of the trained tokens of the chosen sequences, sequence by sequence.
    fn logprobs(&self, learner: &Learner, scorer: &Scorer, chosen: &[usize]) -> Result<Vec<Vec<f32>>> {
        logprobs(learner, scorer, &self.examples, chosen, self.config)
    }

    /// Gradients of one optimiser step. `before`: log-probabilities of the trained tokens under the weights before
    /// the first step, by place; those of the loss itself where there are none.
    fn gradients(
        &self,
        learner: &Learner,
        chosen: &[usize],
        before: Option<&BTreeMap<usize, Vec<f32>>>,
    ) -> Result<Part> {
        let (parts, knobs) =
            (micro_batches(&self.examples, chosen, self.config.micro_batch_tokens), &self.config.objective);
        let sequences = self.held.sequences(self.rollouts);
        let learned = |&place: &usize| self.examples[place].learned();
        let trained: usize = chosen.iter().map(learned).sum();
        let gradients = |part: &Vec<usize>| {
            let packed = pack(&sequences, &self.advantages, part);
            let examples: Vec<&Example> = part.iter().map(|&place| &*self.examples[place]).collect();
            learner.gradients(&examples, knobs.temperature, |new, entropy| {
                let prox: Vec<f64> = match before {
                    Some(before) => {
                        part.iter().flat_map(|place| &before[place]).copied().map(f64::from).collect()
                    }
                    None => new.to_vec1::<f32>()?.into_iter().map(f64::from).collect(),
                };
                let (loss, sums) = policy_loss(new, &packed.with_prox(&prox), knobs)?;
                let loss = (loss * knobs.scale(prox.len(), trained, parts.len()))?;
                let entropies = f64::from(entropy.detach().sum_all()?.to_scalar::<f32>()?);
                Ok((loss, (entropies, sums)))
            })
        };
        learner.workers().fold(
            &parts,
            gradients,
            Part::default(),
            |whole, (gradients, loss, (entropies, sums))| {
                whole.loss += loss;
                whole.entropies += entropies;
                whole.sums += sums;
                whole.gradients.add(gradients)
            },
        )
    }
}

/// Per-token values of a batch on the host, as the objective reads them.
pub(super) struct TokenValues {
    behaviour: Vec<Vec<f64>>,
    reference: Option<Vec<Vec<f64>>>,
}

impl TokenValues {
    /// `reference`: log-probabilities of the trained tokens, sequence by sequence.
    pub(super) fn new(batch: &[(usize, Trajectory)], reference: Option<Vec<Vec<f32>>>) -> Self {
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

    pub(super) fn sequences<'a>(&'a self, batch: &'a [(usize, Trajectory)]) -> Vec<Sequence<'a>> {
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

/// Log-probabilities of the trained tokens of the chosen sequences, sequence by sequence.
fn logprobs(
    learner: &Learner,
    scorer: &Scorer,
    examples: &[Cow<'_, Example>],
    chosen: &[usize],
    config: &RlConfig,
) -> Result<Vec<Vec<f32>>> {
    let parts = micro_batches(examples, chosen, config.micro_batch_tokens);
    let found = learner.workers().map(&parts, |part| {
        let examples: Vec<&Example> = part.iter().map(|&place| &*examples[place]).collect();
        let mut values = scorer.logprobs(&examples, config.objective.temperature)?.into_iter();
        let cut = |example: &&Example| values.by_ref().take(example.learned()).collect();
        Ok(examples.iter().map(cut).collect::<Vec<Vec<f32>>>())
    })?;
    Ok(found.into_iter().flatten().collect())
}

/// The chosen sequences by optimiser step, in order: all at once without a strategy, `ppo_mini_batch_size` prompts
/// of each with one. The last has what is left.
fn mini_batches(
    batch: &[(usize, Trajectory)],
    chosen: &[usize],
    strategy: Option<&Strategy>,
) -> Vec<Vec<usize>> {
    let Some(strategy) = strategy else { return vec![chosen.to_vec()] };
    match strategy.unit {
        Unit::Rollouts => {
            chosen.chunks(strategy.ppo_mini_batch_size * strategy.n).map(<[usize]>::to_vec).collect()
        }
        Unit::Groups => {
            let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
            for &place in chosen {
                let group = batch[place].0;
                match groups.iter_mut().find(|(known, _)| *known == group) {
                    Some((_, members)) => members.push(place),
                    None => groups.push((group, vec![place])),
                }
            }
            let parts = groups.chunks(strategy.ppo_mini_batch_size);
            parts.map(|part| part.iter().flat_map(|(_, members)| members).copied().collect()).collect()
        }
    }
}

/// The chosen sequences in order, as many together as stay within the limit.
fn micro_batches(examples: &[Cow<'_, Example>], chosen: &[usize], limit: usize) -> Vec<Vec<usize>> {
    let (mut parts, mut open, mut held) = (Vec::new(), Vec::new(), 0);
    for &place in chosen {
        let length = examples[place].ids.len();
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

#[cfg(test)]
mod tests {
    use crate::Compute;
    use crate::objective::Knobs;
    use paravt_qwen_vl::prompt::Prompt;

    use super::*;
    use crate::optimizer::AdamWConfig;
    use crate::reward::Reward;
    use crate::rollout::RolloutFigures;

    fn trajectory(number: u32, reward: f64) -> Trajectory {
        let prompt = Prompt::of_ids((0..12).map(|at| 10 + (number * 7 + at * 3) % 50).collect());
        let example = Example::of_prompt(prompt, (0..12).map(|at| at >= 4).collect());
        let behaviour = vec![-1.0; example.learned()];
        let reward = Reward { total: reward, ..Reward::default() };
        Trajectory { example, behaviour, reward, figures: RolloutFigures::default() }
    }

    /// Ratios are taken from the weights before the first step: they move away from 1 with each step, and the clip
    /// binds. With one step of the whole batch it cannot.
    #[test]
    fn several_steps_of_a_batch_clip_against_the_weights_before_the_first() {
        let folder = tempfile::tempdir().unwrap();
        paravt_nano::write_model(folder.path(), 1).unwrap();
        let run = |ppo_mini_batch_size| {
            let learner = Learner::load(folder.path(), &Compute::cpu()).unwrap();
            let strategy = Strategy {
                train_batch_size: 4,
                ppo_mini_batch_size,
                n: 2,
                unit: Unit::Groups,
                ..Strategy::readme()
            };
            let objective = Knobs { strategy: Some(strategy), ..Knobs::pyvision() };
            let config = RlConfig { objective, micro_batch_tokens: 24, ..RlConfig::default() };
            let reward = |number: u32| f64::from(number % 2);
            let all =
                (0..8).map(|number| (number as usize / 2, trajectory(number, reward(number)))).collect();
            let rolled = Rolled { all, chosen: (0..8).collect(), ..Rolled::default() };
            let scorers = Scorers { reference: None, before: Some(learner.scorer().unwrap()) };
            let rate = AdamWConfig { learning_rate: 1e-2, ..AdamWConfig::default() };
            let mut optimizer = AdamW::new(rate, learner.parameters().all());
            let figures = update(&learner, &mut optimizer, 1.0, &scorers, &rolled, &config).unwrap();
            assert!(figures["max_ratio_error"] > 0.9, "no token of a model at random has e^-1: {figures:?}");
            let ratio_error = figures["max_ratio_error"];
            (figures["optimizer_steps"], optimizer.steps(), figures["clip_fraction"], ratio_error)
        };
        let (steps, taken, clipped, before) = run(4);
        assert_eq!((steps, taken, clipped), (1.0, 1, 0.0));
        let (steps, taken, clipped, error) = run(1);
        assert_eq!((steps, taken), (4.0, 4));
        assert!(clipped > 0.0, "{clipped}");
        assert!(
            (error / before - 1.0).abs() < 1e-4,
            "{error} and {before}: of the weights before the first step"
        );
        assert_eq!(run(3).1, 2, "the last step has what is left");
    }
}
