//! From logits to a token.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use paravt_suite::backend::Generation;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;
use serde_json::Value;

use crate::error::Error;
use crate::files::read_json;

/// Defaults of `generation_config.json` for requests that leave a setting open, as vLLM reads that file.
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
    /// A file that is not JSON, or a value of another type or outside of its range.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("generation_config.json");
        let json = if path.exists() { read_json(&path)? } else { Value::Null };
        let config_path = folder.join("config.json");
        let config = read_json(&config_path)?;
        // A generation config that has the key decides, even where it says `null`: no stop token.
        let stop = if let Some(found) = json.get("eos_token_id") {
            ids(&path, found)?
        } else {
            let places = [&config["text_config"]["eos_token_id"], &config["eos_token_id"]];
            let found = places.into_iter().find(|value| !value.is_null());
            found.map(|found| ids(&config_path, found)).transpose()?.unwrap_or_default()
        };
        let number = |key: &str, default: f64, range: RangeInclusive<f64>| match &json[key] {
            Value::Null => Ok(default),
            value => value.as_f64().filter(|number| range.contains(number)).ok_or_else(|| {
                let (low, high) = (range.start(), range.end());
                Error::file(&path, format!("{key} is {value}; a number from {low} to {high} is needed"))
            }),
        };
        Ok(Self {
            stop,
            repetition_penalty: number("repetition_penalty", 1.0, PENALTIES)? as f32,
            top_p: number("top_p", 1.0, 0.0..=1.0)?,
            // vLLM's -1 keeps all, as 0 does.
            top_k: number("top_k", 0.0, -1.0..=f64::from(u32::MAX))?.max(0.0) as usize,
        })
    }

    /// The same stop tokens, and the model's whole distribution: what policy gradients are taken of.
    #[must_use]
    pub fn neutral(self) -> Self {
        Self { stop: self.stop, repetition_penalty: 1.0, top_p: 1.0, top_k: 0 }
    }
}

impl fmt::Display for Defaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stop, repetition_penalty, top_p, top_k } = self;
        write!(
            f,
            "top_p {top_p}, top_k {top_k}, repetition_penalty {repetition_penalty}, stop tokens {stop:?}"
        )
    }
}

/// Divisors of logits that leave finite logits finite.
const PENALTIES: RangeInclusive<f64> = 1e-3..=1e3;

fn ids(path: &Path, value: &Value) -> Result<Vec<u32>, Error> {
    let one = |value: &Value| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| Error::file(path, format!("eos_token_id holds {value}; token ids are needed")))
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => list.iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}

/// Chooses the tokens of one sequence.
pub struct Sampler {
    temperature: f64,
    top_p: f64,
    top_k: usize,
    repetition_penalty: f32,
    rng: ChaCha12Rng,
}

impl Sampler {
    /// A request's parameters, with the model's defaults where it says nothing.
    ///
    /// # Errors
    /// A parameter outside of its range.
    pub fn new(generation: &Generation, defaults: &Defaults) -> Result<Self, Error> {
        let within = |name: &str, value: f64, range: RangeInclusive<f64>| {
            if range.contains(&value) {
                return Ok(value);
            }
            let (low, high) = (range.start(), range.end());
            Err(Error::Prompt(format!("{name} is {value}; a number from {low} to {high} is needed")))
        };
        let penalty = generation.repetition_penalty.unwrap_or(f64::from(defaults.repetition_penalty));
        Ok(Self {
            temperature: within("temperature", generation.temperature, 0.0..=f64::MAX)?,
            top_p: within("top_p", generation.top_p.unwrap_or(defaults.top_p), 0.0..=1.0)?,
            top_k: generation.top_k.map_or(defaults.top_k, |top_k| top_k as usize),
            repetition_penalty: within("repetition_penalty", penalty, PENALTIES)? as f32,
            rng: generation.seed.map_or_else(ChaCha12Rng::from_os_rng, ChaCha12Rng::seed_from_u64),
        })
    }

    /// The next token; `seen` are the tokens before it, prompt included. Its weights divide logits by the temperature in
    /// f64; [`log_probability`] and training divide in f32, which moves a ratio of the two from 1 by about 1e-7.
    ///
    /// # Errors
    /// A logit that is NaN or infinite.
    pub fn next(&mut self, logits: &[f32], seen: &[u32]) -> Result<u32, Error> {
        check(logits)?;
        let penalised;
        let logits = if self.repetition_penalty == 1.0 {
            logits
        } else {
            penalised = penalise(logits, seen, self.repetition_penalty);
            check(&penalised)?;
            &penalised
        };
        if self.temperature <= 0.0 {
            return Ok(argmax(logits));
        }
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        let by_logit = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]);
        if self.top_k > 0 && self.top_k < order.len() {
            order.select_nth_unstable_by(self.top_k - 1, by_logit);
            order.truncate(self.top_k);
        }
        order.sort_unstable_by(by_logit);
        let largest = logits[order[0] as usize];
        let weight = |id: u32| (f64::from(logits[id as usize] - largest) / self.temperature).exp();
        let mut weights: Vec<f64> = order.iter().map(|&id| weight(id)).collect();
        let all: f64 = weights.iter().sum();
        // The nucleus: the fewest tokens that hold top_p of the probability. Of all of it rounding would cut the last ones.
        if self.top_p < 1.0 {
            let mut held = 0.0;
            let within = weights.iter().position(|weight| {
                held += weight / all;
                held >= self.top_p
            });
            weights.truncate(within.map_or(weights.len(), |last| last + 1));
        }
        let mut left = self.rng.random::<f64>() * weights.iter().sum::<f64>();
        for (id, weight) in order.iter().zip(&weights) {
            left -= weight;
            if left < 0.0 {
                return Ok(*id);
            }
        }
        // Reached by rounding of the sum alone: weights are finite, the first of them is 1.
        Ok(order[weights.len() - 1])
    }
}

/// # Errors
/// Names the first logit that is NaN or infinite.
fn check(logits: &[f32]) -> Result<(), Error> {
    let wrong = logits.iter().position(|logit| !logit.is_finite());
    match wrong.or(logits.is_empty().then_some(0)) {
        None => Ok(()),
        Some(id) => {
            let value = logits.get(id).map_or_else(|| "missing".to_owned(), f32::to_string);
            Err(Error::Compute(format!("the logit of token {id} is {value}")))
        }
    }
}

/// `RepetitionPenaltyLogitsProcessor`: each token once, however often it was seen.
fn penalise(logits: &[f32], seen: &[u32], penalty: f32) -> Vec<f32> {
    let mut out = logits.to_vec();
    for &id in seen {
        // A tokenizer may know more tokens than the model has logits.
        if let Some(&before) = logits.get(id as usize) {
            out[id as usize] = if before < 0.0 { before * penalty } else { before / penalty };
        }
    }
    out
}

/// The first of the largest; of finite logits.
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
///
/// # Errors
/// It is NaN or infinite: logits that are not finite.
pub fn log_probability(logits: &[f32], id: u32, temperature: f32) -> Result<f32, Error> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let scaled = |logit: f32| f64::from((logit - largest) / temperature);
    let sum: f64 = logits.iter().map(|&logit| scaled(logit).exp()).sum();
    let found = (scaled(logits[id as usize]) - sum.ln()) as f32;
    if found.is_finite() {
        return Ok(found);
    }
    check(logits)?;
    Err(Error::Compute(format!("the log-probability of token {id} is {found}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sampler(temperature: f64, top_p: f64, top_k: usize, penalty: f32) -> Sampler {
        let rng = ChaCha12Rng::seed_from_u64(1);
        Sampler { temperature, top_p, top_k, repetition_penalty: penalty, rng }
    }

    #[test]
    fn greedy_takes_the_first_of_the_largest_and_heeds_the_penalty() {
        let logits = [1.0, 3.0, 3.0, -1.0];
        assert_eq!(sampler(0.0, 1.0, 0, 1.0).next(&logits, &[]).unwrap(), 1);
        assert_eq!(sampler(0.0, 1.0, 0, 1.1).next(&logits, &[1, 1]).unwrap(), 2);
        // Beyond the logits: a tokenizer's token that the model does not have.
        assert_eq!(sampler(0.0, 1.0, 0, 1.1).next(&logits, &[9]).unwrap(), 1);
        assert_eq!(penalise(&logits, &[1, 1, 3], 2.0), vec![1.0, 1.5, 3.0, -2.0]);
    }

    #[test]
    fn a_seed_draws_the_same_tokens_with_every_version_of_the_suite() {
        let mut sampler = sampler(1.0, 1.0, 0, 1.0);
        let logits = vec![0.0; 1000];
        let tokens: Vec<u32> = (0..6).map(|_| sampler.next(&logits, &[]).unwrap()).collect();
        assert_eq!(tokens, [974, 691, 427, 175, 254, 962]);
    }

    #[test]
    fn sampling_follows_the_probabilities_within_nucleus_and_top_k() {
        let logits = [0.7f32.ln(), 0.2f32.ln(), 0.1f32.ln()];
        let shares = |mut sampler: Sampler| {
            let mut counts = [0.0; 3];
            for _ in 0..20_000 {
                counts[sampler.next(&logits, &[]).unwrap() as usize] += 1.0 / 20_000.0;
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
        assert!((log_probability(&logits, 0, 1.0).unwrap() - (0.5f32.exp() / all).ln()).abs() < 1e-6);
    }

    #[test]
    fn logits_that_are_not_finite_are_errors_and_never_a_token() {
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in 0..3 {
                let mut logits = [0.5f32, -0.25, 3.0];
                logits[at] = wrong;
                for mut sampler in
                    [sampler(0.0, 1.0, 0, 1.0), sampler(1.0, 0.9, 2, 1.0), sampler(0.7, 1.0, 0, 1.2)]
                {
                    let error = sampler.next(&logits, &[0]).unwrap_err().to_string();
                    assert!(error.contains(&format!("token {at} is {wrong}")), "{error}");
                }
            }
            assert!(log_probability(&[wrong, 1.0], 0, 1.0).is_err(), "{wrong}");
        }
        // A NaN beside the token whose probability is asked for.
        assert!(log_probability(&[0.0, f32::NAN], 0, 1.0).is_err());
        assert!(sampler(0.0, 1.0, 0, 1.0).next(&[], &[]).is_err());
        assert!(sampler(1.0, 1.0, 0, 1.0).next(&[f32::NAN; 4], &[]).is_err());
    }

    #[test]
    fn request_settings_override_the_generation_config() {
        let defaults = Defaults { stop: vec![9], repetition_penalty: 1.5, top_p: 0.5, top_k: 1 };
        let silent = Generation { temperature: 1.0, ..Generation::greedy(1) };
        let found = |generation: &Generation, defaults: &Defaults| {
            let Sampler { top_p, top_k, repetition_penalty, .. } =
                Sampler::new(generation, defaults).unwrap();
            (top_p, top_k, repetition_penalty)
        };
        assert_eq!(found(&silent, &defaults), (0.5, 1, 1.5));
        assert_eq!(found(&silent, &defaults.clone().neutral()), (1.0, 0, 1.0));
        assert_eq!(defaults.clone().neutral().stop, [9]);
        let spoken =
            Generation { top_p: Some(0.9), top_k: Some(0), repetition_penalty: Some(1.0), ..silent.clone() };
        assert_eq!(found(&spoken, &defaults), (0.9, 0, 1.0));
        for wrong in [
            Generation { temperature: f64::NAN, ..silent.clone() },
            Generation { temperature: -1.0, ..silent.clone() },
            Generation { top_p: Some(1.5), ..silent.clone() },
            Generation { repetition_penalty: Some(0.0), ..silent },
        ] {
            assert!(Sampler::new(&wrong, &defaults).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_generation_config_with_values_that_mean_nothing_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, json: Value| std::fs::write(folder.path().join(name), json.to_string()).unwrap();
        write("config.json", json!({"eos_token_id": 3}));
        let read = || Defaults::read(folder.path()).map_err(|error| error.to_string());
        assert_eq!(
            read().unwrap(),
            Defaults { stop: vec![3], repetition_penalty: 1.0, top_p: 1.0, top_k: 0 }
        );
        write("generation_config.json", json!({"top_p": 0.8, "top_k": -1, "eos_token_id": [1, 2]}));
        assert_eq!(
            read().unwrap(),
            Defaults { stop: vec![1, 2], repetition_penalty: 1.0, top_p: 0.8, top_k: 0 }
        );
        for (key, value) in [
            ("top_p", json!("0.8")),
            ("top_p", json!(1.5)),
            ("top_k", json!(-7)),
            ("repetition_penalty", json!(0)),
            ("eos_token_id", json!(["</s>"])),
            ("eos_token_id", json!(-1)),
        ] {
            write("generation_config.json", json!({key: value}));
            let error = read().unwrap_err();
            assert!(error.contains(key) && error.contains("generation_config.json"), "{error}");
        }
    }
}
