//! From logits to a token.

use std::path::Path;

use paravt_suite::backend::Generation;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;

use crate::error::Error;
use crate::processor::read_json;

/// What `generation_config.json` says where a request says nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Defaults {
    /// Tokens that end an answer.
    pub stop: Vec<u32>,
    /// Above 1, tokens seen before (the prompt's too) become less likely. Holds for greedy as well.
    pub repetition_penalty: f32,
    /// Nucleus; 1 keeps all.
    pub top_p: f64,
    /// Most likely tokens kept; 0 keeps all.
    pub top_k: usize,
}

impl Defaults {
    /// Reads `generation_config.json`; stop tokens fall back to `config.json`.
    ///
    /// # Errors
    /// A file that is no JSON, or no stop token anywhere.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("generation_config.json");
        let json = if path.is_file() { read_json(&path)? } else { Value::Null };
        let config = read_json(&folder.join("config.json"))?;
        let places = [&json["eos_token_id"], &config["text_config"]["eos_token_id"], &config["eos_token_id"]];
        // A generation config that has the key decides, even where it says `null`: no stop token.
        let found = if json.get("eos_token_id").is_some() { Some(places[0]) } else { None };
        let found = found.or_else(|| places.into_iter().find(|value| !value.is_null()));
        Ok(Self {
            stop: found.map(ids).unwrap_or_default(),
            repetition_penalty: json["repetition_penalty"].as_f64().unwrap_or(1.0) as f32,
            top_p: json["top_p"].as_f64().unwrap_or(1.0),
            top_k: json["top_k"].as_u64().unwrap_or(0) as usize,
        })
    }
}

fn ids(value: &Value) -> Vec<u32> {
    let one = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Value::Array(list) => list.iter().filter_map(one).collect(),
        value => one(value).into_iter().collect(),
    }
}

/// Chooses the tokens of one sequence.
pub struct Sampler {
    temperature: f64,
    top_p: f64,
    top_k: usize,
    repetition_penalty: f32,
    rng: StdRng,
}

impl Sampler {
    /// A request's parameters, with the model's defaults where it says nothing.
    pub fn new(generation: &Generation, defaults: &Defaults) -> Self {
        let rng = generation.seed.map_or_else(StdRng::from_os_rng, StdRng::seed_from_u64);
        Self {
            temperature: generation.temperature,
            top_p: generation.top_p.unwrap_or(defaults.top_p),
            top_k: generation.top_k.map_or(defaults.top_k, |top_k| top_k as usize),
            repetition_penalty: generation
                .repetition_penalty
                .map_or(defaults.repetition_penalty, |penalty| penalty as f32),
            rng,
        }
    }

    /// The next token; `seen` are the tokens before it, prompt included.
    pub fn next(&mut self, logits: &[f32], seen: &[u32]) -> u32 {
        let penalised;
        let logits = if self.repetition_penalty == 1.0 {
            logits
        } else {
            penalised = penalise(logits, seen, self.repetition_penalty);
            &penalised
        };
        if self.temperature <= 0.0 {
            return argmax(logits);
        }
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        let by_logit = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]);
        if self.top_k > 0 && self.top_k < order.len() {
            order.select_nth_unstable_by(self.top_k - 1, by_logit);
            order.truncate(self.top_k);
        }
        order.sort_unstable_by(by_logit);
        let most = logits[order[0] as usize];
        let weight = |id: u32| (f64::from(logits[id as usize] - most) / self.temperature).exp();
        let mut weights: Vec<f64> = order.iter().map(|&id| weight(id)).collect();
        let all: f64 = weights.iter().sum();
        // The nucleus: the fewest tokens that hold top_p of the probability.
        let mut held = 0.0;
        let within = weights.iter().position(|weight| {
            held += weight / all;
            held >= self.top_p
        });
        weights.truncate(within.map_or(weights.len(), |last| last + 1));
        let mut left = self.rng.random::<f64>() * weights.iter().sum::<f64>();
        for (id, weight) in order.iter().zip(&weights) {
            left -= weight;
            if left < 0.0 {
                return *id;
            }
        }
        order[weights.len() - 1]
    }
}

/// `RepetitionPenaltyLogitsProcessor`: each token once, however often it was seen.
fn penalise(logits: &[f32], seen: &[u32], penalty: f32) -> Vec<f32> {
    let mut out = logits.to_vec();
    for &id in seen {
        let before = logits[id as usize];
        out[id as usize] = if before < 0.0 { before * penalty } else { before / penalty };
    }
    out
}

/// The first of the largest.
fn argmax(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = id;
        }
    }
    best as u32
}

/// Natural logarithm of the model's probability of `id` at a temperature (1 is the model's own), before
/// any penalty.
pub fn log_probability(logits: &[f32], id: u32, temperature: f32) -> f32 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let scaled = |logit: f32| f64::from((logit - most) / temperature);
    let sum: f64 = logits.iter().map(|&logit| scaled(logit).exp()).sum();
    (scaled(logits[id as usize]) - sum.ln()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(temperature: f64, top_p: f64, top_k: usize, penalty: f32) -> Sampler {
        let rng = StdRng::seed_from_u64(1);
        Sampler { temperature, top_p, top_k, repetition_penalty: penalty, rng }
    }

    #[test]
    fn greedy_takes_the_first_of_the_largest_and_heeds_the_penalty() {
        let logits = [1.0, 3.0, 3.0, -1.0];
        assert_eq!(sampler(0.0, 1.0, 0, 1.0).next(&logits, &[]), 1);
        assert_eq!(sampler(0.0, 1.0, 0, 1.1).next(&logits, &[1, 1]), 2);
        assert_eq!(penalise(&logits, &[1, 1, 3], 2.0), vec![1.0, 1.5, 3.0, -2.0]);
    }

    #[test]
    fn sampling_follows_the_probabilities_within_nucleus_and_top_k() {
        let logits = [0.7f32.ln(), 0.2f32.ln(), 0.1f32.ln()];
        let shares = |mut sampler: Sampler| {
            let mut counts = [0.0; 3];
            for _ in 0..20_000 {
                counts[sampler.next(&logits, &[]) as usize] += 1.0 / 20_000.0;
            }
            counts
        };
        let near = |found: [f64; 3], wanted: [f64; 3]| {
            assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 0.015), "{found:?} {wanted:?}");
        };
        near(shares(sampler(1.0, 1.0, 0, 1.0)), [0.7, 0.2, 0.1]);
        near(shares(sampler(1.0, 0.8, 0, 1.0)), [0.7 / 0.9, 0.2 / 0.9, 0.0]);
        near(shares(sampler(1.0, 1.0, 1, 1.0)), [1.0, 0.0, 0.0]);
        // Temperature 2 takes square roots.
        let roots = [0.7f64.sqrt(), 0.2f64.sqrt(), 0.1f64.sqrt()];
        let all: f64 = roots.iter().sum();
        near(shares(sampler(2.0, 1.0, 0, 1.0)), roots.map(|root| root / all));
    }

    #[test]
    fn log_probabilities_are_of_the_softmax() {
        let logits = [0.5f32, -0.25, 3.0];
        let all: f32 = logits.iter().map(|logit| logit.exp()).sum();
        assert!((log_probability(&logits, 0, 1.0) - (0.5f32.exp() / all).ln()).abs() < 1e-6);
    }
}
