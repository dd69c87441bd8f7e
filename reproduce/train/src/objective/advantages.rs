//! From rewards to advantages of tokens (AReaL `PPOActor.compute_advantages`).

use std::collections::BTreeMap;

use super::knobs::{GroupNorm, Knobs, RewardPosition};
use super::loss::Tokens;
use super::moments::moments;

/// One rollout. Token t of `tokens` is predicted at position t - 1; the last position predicts
/// nothing that is known.
#[derive(Debug, Clone, Copy)]
pub struct Sequence<'a> {
    /// (tokens) whether the policy generated the token.
    pub loss_mask: &'a [bool],
    /// (tokens) log-probability under the policy that sampled it; not read where the mask is false.
    pub behaviour: &'a [f64],
    /// (positions) log-probability of the next token under the reference model; there is no KL term
    /// without it.
    pub reference: Option<&'a [f64]>,
    /// Reward of the whole rollout.
    pub reward: f64,
    /// The same for all samples of one prompt.
    pub group: usize,
}

impl Sequence<'_> {
    /// Positions that predict a generated token, in order.
    pub fn trained(&self) -> impl DoubleEndedIterator<Item = usize> {
        (1..self.loss_mask.len()).filter(|&token| self.loss_mask[token]).map(|token| token - 1)
    }
}

/// Why no advantages can be computed for a batch.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A slice whose length does not match its tokens.
    #[error("sequence {sequence}: {found} {what} for {tokens} tokens")]
    Length { sequence: usize, what: &'static str, found: usize, tokens: usize },
    /// A reward or log-probability that would spread over the whole batch.
    #[error("sequence {sequence}: {what} is {value}")]
    NotFinite { sequence: usize, what: &'static str, value: f64 },
}

/// Advantages of a batch and what they were made of. Outer vectors are by sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Advantages {
    /// Rewards after bias, scaling and clip.
    pub scaled: Vec<f64>,
    /// Those, normalised within their prompts.
    pub normalised: Vec<f64>,
    /// (positions) before batch normalisation; positions that are not trained hold the value that
    /// passes over them.
    pub raw: Vec<Vec<f64>>,
    /// (positions) as the loss uses them; 0 where not trained.
    pub tokens: Vec<Vec<f64>>,
    /// Mean KL (k1) of the trained tokens to the reference, in nats; 0 without a reference.
    pub kl_mean: f64,
    /// Trained tokens of the batch.
    pub trained: usize,
    /// Sequences with trained tokens whose reward stands at a position that is passed over.
    pub unrewarded: usize,
}

/// Rewards scaled, compared within their groups, spread over tokens and normalised over a whole batch.
///
/// # Errors
/// Slices of unequal lengths, and rewards or log-probabilities that are not finite.
pub fn advantages(batch: &[Sequence<'_>], knobs: &Knobs) -> Result<Advantages, Error> {
    for (place, sequence) in batch.iter().enumerate() {
        check(place, sequence)?;
    }
    let clip = knobs.reward_clip;
    let scale = |sequence: &Sequence<'_>| (sequence.reward + knobs.reward_bias) * knobs.reward_scaling;
    let scaled: Vec<f64> = batch.iter().map(|sequence| scale(sequence).clamp(-clip, clip)).collect();
    let normalised = group_normalised(batch, &scaled, knobs);

    let mut kl_sum = 0.0;
    let mut unrewarded = 0;
    let mut raw = Vec::with_capacity(batch.len());
    for (sequence, &reward) in batch.iter().zip(&normalised) {
        let place = rewarded_position(sequence, knobs);
        unrewarded += usize::from(place.is_none() && sequence.trained().next().is_some());
        raw.push(estimate(sequence, reward, place, knobs, &mut kl_sum));
    }
    let trained = batch.iter().map(|sequence| sequence.trained().count()).sum::<usize>();
    let tokens = batch_normalised(batch, &raw, knobs);
    let kl_mean = kl_sum / trained.max(1) as f64;
    Ok(Advantages { scaled, normalised, raw, tokens, kl_mean, trained, unrewarded })
}

fn check(place: usize, sequence: &Sequence<'_>) -> Result<(), Error> {
    let tokens = sequence.loss_mask.len();
    let reference = sequence.reference.map(|values| ("reference log-probabilities", values));
    let slices = [("behaviour log-probabilities", sequence.behaviour)].into_iter().chain(reference);
    for (what, values) in slices {
        if values.len() != tokens {
            return Err(Error::Length { sequence: place, what, found: values.len(), tokens });
        }
    }
    let finite = |what: &'static str, value: f64| {
        if value.is_finite() { Ok(()) } else { Err(Error::NotFinite { sequence: place, what, value }) }
    };
    finite("the reward", sequence.reward)?;
    for position in sequence.trained() {
        finite("a behaviour log-probability", sequence.behaviour[position + 1])?;
        sequence.reference.map_or(Ok(()), |of| finite("a reference log-probability", of[position]))?;
    }
    Ok(())
}

fn group_normalised(batch: &[Sequence<'_>], scaled: &[f64], knobs: &Knobs) -> Vec<f64> {
    let mut groups: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (sequence, &value) in batch.iter().zip(scaled) {
        groups.entry(sequence.group).or_default().push(value);
    }
    let normalise = |(sequence, &value): (&Sequence<'_>, &f64)| {
        let group = &groups[&sequence.group];
        let (mean, std) = moments(group.iter().copied());
        match knobs.group_norm {
            GroupNorm::MeanStd => (value - mean) / (std + knobs.norm_eps),
            GroupNorm::Mean if group.len() == 1 => value,
            GroupNorm::Mean => value - mean,
        }
    };
    batch.iter().zip(scaled).map(normalise).collect()
}

/// Position of the reward, if any.
fn rewarded_position(sequence: &Sequence<'_>, knobs: &Knobs) -> Option<usize> {
    let last = sequence.trained().next_back()?;
    match knobs.reward_position {
        RewardPosition::LastTrained => Some(last),
        RewardPosition::PredictsLast => (last + 2 == sequence.loss_mask.len()).then_some(last),
    }
}

/// Generalised advantages without a critic, from the back; positions that are not trained neither add
/// nor reset. Adds the KL of the trained tokens to `kl_sum`.
fn estimate(
    sequence: &Sequence<'_>,
    reward: f64,
    rewarded: Option<usize>,
    knobs: &Knobs,
    kl_sum: &mut f64,
) -> Vec<f64> {
    let mut out = vec![0.0; sequence.loss_mask.len()];
    let mut following = 0.0;
    for position in (0..out.len().saturating_sub(1)).rev() {
        if sequence.loss_mask[position + 1] {
            let kl = sequence.reference.map_or(0.0, |reference| {
                let kl = sequence.behaviour[position + 1] - reference[position];
                kl.clamp(-knobs.kl_clamp, knobs.kl_clamp)
            });
            *kl_sum += kl;
            let outcome = if rewarded == Some(position) { reward } else { 0.0 };
            following = outcome - knobs.kl_coef * kl + knobs.discount * knobs.gae_lambda * following;
        }
        out[position] = following;
    }
    out
}

fn batch_normalised(batch: &[Sequence<'_>], raw: &[Vec<f64>], knobs: &Knobs) -> Vec<Vec<f64>> {
    let trained = || {
        let rows = batch.iter().zip(raw);
        rows.flat_map(|(sequence, raw)| sequence.trained().map(|position| raw[position]))
    };
    let values: Vec<f64> = trained().collect();
    let (mean, scale) = if knobs.adv_norm {
        let (mean, std) = moments(values.iter().copied());
        (mean, std + knobs.norm_eps)
    } else {
        (0.0, 1.0)
    };
    let row = |(sequence, raw): (&Sequence<'_>, &Vec<f64>)| {
        let mut out = vec![0.0; raw.len()];
        sequence.trained().for_each(|position| out[position] = (raw[position] - mean) / scale);
        out
    };
    batch.iter().zip(raw).map(row).collect()
}

/// The trained positions of a micro-batch side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct Packed {
    /// (n) sequence of the batch, and position in it that predicts the token after it.
    pub positions: Vec<(usize, usize)>,
    /// (n) of the tokens.
    pub advantages: Vec<f64>,
    /// (n) log-probabilities of the tokens under the policy that sampled them.
    pub behaviour: Vec<f64>,
}

impl Packed {
    /// What the loss needs, with the log-probabilities (n) that the trainer recomputed before the
    /// update.
    pub fn with_prox<'a>(&'a self, prox: &'a [f64]) -> Tokens<'a> {
        Tokens { advantages: &self.advantages, prox, behaviour: &self.behaviour }
    }
}

/// Packs the sequences `which` of a batch.
pub fn pack(batch: &[Sequence<'_>], advantages: &Advantages, which: &[usize]) -> Packed {
    let at = |&sequence: &usize| batch[sequence].trained().map(move |position| (sequence, position));
    let positions: Vec<(usize, usize)> = which.iter().flat_map(at).collect();
    let values = |of: &dyn Fn(usize, usize) -> f64| {
        positions.iter().map(|&(sequence, position)| of(sequence, position)).collect()
    };
    Packed {
        advantages: values(&|sequence, position| advantages.tokens[sequence][position]),
        behaviour: values(&|sequence, position| batch[sequence].behaviour[position + 1]),
        positions,
    }
}
