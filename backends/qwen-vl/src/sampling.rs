//! From logits to a token.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

use paravt_suite::backend::Generation;
use paravt_suite::settings::SamplingParams;
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

/// What one token is drawn by, from logits as they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    /// 0 takes the likeliest token, of equal ones the first.
    pub temperature: f64,
    /// Most likely tokens kept; 0 keeps all.
    pub top_k: usize,
    /// Nucleus; 1 keeps all.
    pub top_p: f64,
    /// From 0 to 1, exclusive: share of the kept probability that likelier tokens than the drawn one have at most.
    pub uniform: f64,
    /// Of the log-probability; see [`log_probability`].
    pub logprob_temperature: f32,
}

/// Chooses the tokens of one sequence.
pub struct Sampler {
    temperature: f64,
    top_p: f64,
    top_k: usize,
    repetition_penalty: f32,
    /// Taken from the logits of what the answer already holds; 0 for none, as every model's default.
    presence_penalty: f32,
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
        let SamplingParams { top_p, top_k, repetition_penalty, presence_penalty, .. } = &generation.sampling;
        let penalty = repetition_penalty.unwrap_or(f64::from(defaults.repetition_penalty));
        Ok(Self {
            temperature: within("temperature", generation.temperature, 0.0..=f64::MAX)?,
            top_p: within("top_p", top_p.unwrap_or(defaults.top_p), 0.0..=1.0)?,
            top_k: top_k.map_or(defaults.top_k, |top_k| top_k as usize),
            repetition_penalty: within("repetition_penalty", penalty, PENALTIES)? as f32,
            presence_penalty: within("presence_penalty", presence_penalty.unwrap_or(0.0), -2.0..=2.0)? as f32,
            rng: generation.seed.map_or_else(ChaCha12Rng::from_os_rng, ChaCha12Rng::seed_from_u64),
        })
    }

    /// What the next token is drawn by, where what was said before does not matter. The random number is used up by
    /// [`Sampler::drawn`] or [`Sampler::next`].
    pub fn draw(&self) -> Option<Draw> {
        let draw = || Draw {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            uniform: if self.temperature > 0.0 { self.rng.clone().random() } else { 0.0 },
            logprob_temperature: 1.0,
        };
        (!self.penalises()).then(draw)
    }

    /// Whether what was said before changes a logit.
    fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0
    }

    /// After a token that the device has drawn.
    pub fn drawn(&mut self) {
        if self.temperature > 0.0 {
            let _: f64 = self.rng.random();
        }
    }

    /// The next token; `seen` are the tokens before it, of which the last `said` are the answer's. Its weights divide
    /// logits by the temperature in f64; [`log_probability`] and training divide in f32, which moves a ratio of the two
    /// from 1 by about 1e-7.
    ///
    /// # Errors
    /// A logit that is NaN or infinite.
    pub fn next(&mut self, logits: &[f32], seen: &[u32], said: usize) -> Result<u32, Error> {
        check(logits)?;
        let penalised;
        let logits = if self.penalises() {
            let answer = &seen[seen.len() - said..];
            penalised = penalise(logits, (seen, self.repetition_penalty), (answer, self.presence_penalty));
            check(&penalised)?;
            &penalised
        } else {
            logits
        };
        if self.temperature <= 0.0 {
            return Ok(argmax(logits));
        }
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |id: u32| (f64::from(logits[id as usize] - largest) / self.temperature).exp();
        let weighed = |id: u32| (id, weight(id));
        let all = 0..logits.len() as u32;
        let count = if self.top_k == 0 { logits.len() } else { self.top_k.min(logits.len()) };
        // Of all of it the nucleus is not looked for: rounding would cut the last tokens.
        if count == logits.len() && self.top_p >= 1.0 {
            let sum = all.map(weight).sum();
            return Ok(draw(&mut self.rng, sum, Falling::new(logits).map(weighed)));
        }
        let falling = || Falling::new(logits).take(count);
        let sum: f64 = if count < logits.len() { falling().map(weight).sum() } else { all.map(weight).sum() };
        // The nucleus: the fewest tokens that hold top_p of the probability.
        let (mut kept, mut held) = (Vec::new(), 0.0);
        for (id, weight) in falling().map(weighed) {
            kept.push((id, weight));
            held += weight / sum;
            if self.top_p < 1.0 && held >= self.top_p {
                break;
            }
        }
        let sum = kept.iter().map(|(_, weight)| weight).sum();
        Ok(draw(&mut self.rng, sum, kept.into_iter()))
    }
}

/// One of some ids by their weights, whose sum is given.
fn draw(rng: &mut ChaCha12Rng, sum: f64, weights: impl Iterator<Item = (u32, f64)>) -> u32 {
    let mut left = rng.random::<f64>() * sum;
    let mut last = 0;
    for (id, weight) in weights {
        (last, left) = (id, left - weight);
        if left < 0.0 {
            break;
        }
    }
    // Reached by rounding of the sum alone: weights are finite, the first of them is 1.
    last
}

/// Ids by falling logit, equal ones by id: sorted as far as they are asked for, which is seldom far.
struct Falling<'a> {
    logits: &'a [f32],
    ids: Vec<u32>,
    sorted: usize,
    next: usize,
}

impl<'a> Falling<'a> {
    fn new(logits: &'a [f32]) -> Self {
        Self { logits, ids: (0..logits.len() as u32).collect(), sorted: 0, next: 0 }
    }
}

impl Iterator for Falling<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.next == self.sorted {
            let rest = &mut self.ids[self.sorted..];
            let logit = |id: &u32| self.logits[*id as usize];
            let falling = |a: &u32, b: &u32| logit(b).total_cmp(&logit(a)).then(a.cmp(b));
            let block = (3 * self.sorted).max(64).min(rest.len());
            if block < rest.len() {
                rest.select_nth_unstable_by(block, falling);
            }
            rest[..block].sort_unstable_by(falling);
            self.sorted += block;
        }
        self.next += 1;
        self.ids.get(self.next - 1).copied()
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

/// Each token once, however often it was seen: `RepetitionPenaltyLogitsProcessor` of transformers, then what the chat API
/// calls presence penalty, in the order of vLLM (`apply_penalties`).
fn penalise(logits: &[f32], (seen, factor): (&[u32], f32), (answer, taken): (&[u32], f32)) -> Vec<f32> {
    let mut out = logits.to_vec();
    let repeated = |before: f32| if before < 0.0 { before * factor } else { before / factor };
    // A tokenizer may know more tokens than the model has logits.
    for &id in seen {
        if let Some(&before) = logits.get(id as usize) {
            out[id as usize] = repeated(before);
        }
    }
    for &id in answer {
        if let Some(&before) = logits.get(id as usize) {
            out[id as usize] = repeated(before) - taken;
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
mod tests;
