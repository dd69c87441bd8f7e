//! AdamW with decoupled weight decay, gradient clipping, and a state that can be saved.
//!
//! Source: `torch.optim.AdamW` (decoupled decay, bias-corrected) and `torch.nn.utils.clip_grad_norm_`.

use std::collections::BTreeMap;

use candle_core::backprop::GradStore;
use candle_core::{DType, Tensor};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::parameters::Parameter;

/// Which weights decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// All: what both released trainers do (`fsdp2_trainer.py` and `fsdp_engine.py` hand every parameter
    /// to one group).
    All,
    /// Matrices only; norms and biases keep their size, as in the Trainer of transformers.
    Matrices,
}

/// Knobs of the optimiser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamWConfig {
    /// Peak learning rate. SFT recipe 2e-5 (`qwen3vl_8b.yaml`), RL recipe 2e-6 (`_base.yaml`).
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Share of a weight that is taken away per step, times the learning rate.
    pub weight_decay: f64,
    pub decay: Decay,
    /// Maximum global norm of the gradients; 0 disables clipping.
    pub max_grad_norm: f64,
    /// Beginnings of the names of weights that are not trained: no gradient of theirs counts in the norm, and they do
    /// not decay. PyVision-RL freezes the vision tower with its mergers (`workers/fsdp_workers.py:243-258` of `62ca599`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub freeze: Vec<String>,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self {
            learning_rate: 2e-5,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.01,
            decay: Decay::All,
            max_grad_norm: 1.0,
            freeze: Vec::new(),
        }
    }
}

/// Moments of one weight, f32, in its shape, and the steps that it took part in: a weight
/// that first gets a gradient late has its moments corrected as in its own first steps.
struct Moments {
    first: Tensor,
    second: Tensor,
    steps: u32,
}

/// Values whose squares are summed at a time.
const NORM_CHUNK: usize = 1 << 22;

/// The optimiser of named weights.
pub struct AdamW {
    config: AdamWConfig,
    weights: BTreeMap<String, Parameter>,
    moments: BTreeMap<String, Moments>,
    steps: usize,
}

/// Gradients by name, summed over micro-batches, f32.
#[derive(Default)]
pub struct Gradients(BTreeMap<String, Tensor>);

impl Gradients {
    /// Those of one backward pass.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn of(weights: &BTreeMap<String, Parameter>, mut store: GradStore) -> Result<Self> {
        let mut found = BTreeMap::new();
        for (name, weight) in weights {
            let narrow = weight.narrow.as_ref().and_then(|narrow| store.remove(narrow));
            let narrow = narrow.map(|gradient| gradient.to_dtype(DType::F32)).transpose()?;
            let gradient = match (store.remove(&weight.var), narrow) {
                (Some(wide), Some(narrow)) => (wide + narrow)?,
                (Some(gradient), None) | (None, Some(gradient)) => gradient,
                (None, None) => continue,
            };
            found.insert(name.clone(), gradient);
        }
        Ok(Self(found))
    }

    /// Adds others to these.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn add(&mut self, others: Self) -> Result<()> {
        let sum = |(name, gradient): (String, Tensor)| -> Result<(String, Tensor)> {
            let sum = match self.0.get(&name) {
                Some(sum) => (sum + gradient)?,
                None => gradient,
            };
            Ok((name, sum))
        };
        let sums: Vec<_> = others.0.into_par_iter().map(sum).collect::<Result<_>>()?;
        self.0.extend(sums);
        Ok(())
    }

    /// The gradient of a weight; `None` where no loss reached it.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }

    /// Those of some weights alone.
    fn only(&self, weights: &BTreeMap<String, Parameter>) -> Self {
        let wanted = self.0.iter().filter(|(name, _)| weights.contains_key(*name));
        wanted.map(|(name, gradient)| (name.clone(), gradient.clone())).collect()
    }

    /// L2 norm of all together; squares are summed in f64.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn norm(&self) -> Result<f64> {
        let squares: Vec<f64> =
            self.0.par_iter().map(|(_, gradient)| sum_of_squares(gradient)).collect::<Result<_>>()?;
        Ok(squares.iter().sum::<f64>().sqrt())
    }
}

impl FromIterator<(String, Tensor)> for Gradients {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(gradients: I) -> Self {
        Self(gradients.into_iter().collect())
    }
}

/// In f64, a part of the tensor at a time.
fn sum_of_squares(tensor: &Tensor) -> Result<f64> {
    let (flat, mut sum) = (tensor.flatten_all()?, 0.0);
    let count = flat.elem_count();
    for start in (0..count).step_by(NORM_CHUNK) {
        let part = flat.narrow(0, start, NORM_CHUNK.min(count - start))?.to_dtype(DType::F64)?;
        sum += part.sqr()?.sum_all()?.to_scalar::<f64>()?;
    }
    Ok(sum)
}

/// What a step does to a weight.
struct Step {
    rate: f64,
    /// Of the weight after decay.
    kept: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
}

/// New values of a weight, and its moments, in f32.
fn update(
    weight: &Tensor,
    gradient: &Tensor,
    moments: Option<&Moments>,
    step: &Step,
) -> Result<(Tensor, Moments)> {
    let Step { rate, kept, beta1, beta2, eps } = *step;
    let (first, second, steps) = match moments {
        Some(Moments { first, second, steps }) => (
            ((first * beta1)? + (gradient * (1.0 - beta1))?)?,
            ((second * beta2)? + (gradient.sqr()? * (1.0 - beta2))?)?,
            steps + 1,
        ),
        None => ((gradient * (1.0 - beta1))?, (gradient.sqr()? * (1.0 - beta2))?, 1),
    };
    let correct1 = 1.0 - beta1.powf(f64::from(steps));
    let correct2 = 1.0 - beta2.powf(f64::from(steps));
    let spread = ((second.sqrt()? / correct2.sqrt())? + eps)?;
    let change = (&first / spread)?;
    let value = ((weight * kept)? - (change * (rate / correct1))?)?;
    Ok((value, Moments { first, second, steps }))
}

impl AdamW {
    /// An optimiser without history, of the weights that are not frozen.
    pub fn new(config: AdamWConfig, mut weights: BTreeMap<String, Parameter>) -> Self {
        weights.retain(|name, _| !config.freeze.iter().any(|start| name.starts_with(start)));
        Self { config, weights, moments: BTreeMap::new(), steps: 0 }
    }

    /// The weights it changes.
    pub fn weights(&self) -> &BTreeMap<String, Parameter> {
        &self.weights
    }

    /// Steps taken.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// One step at `factor` times the peak learning rate. Gives the norm of the gradients before clipping.
    /// Gradients that are no numbers change nothing and are an error.
    ///
    /// # Errors
    /// Tensor arithmetic; a norm that is not finite.
    pub fn step(&mut self, gradients: &Gradients, factor: f64) -> Result<f64> {
        let AdamWConfig { learning_rate, beta1, beta2, eps, weight_decay, decay, max_grad_norm, .. } =
            self.config;
        let gradients = &gradients.only(&self.weights);
        let norm = gradients.norm()?;
        if !norm.is_finite() {
            let name = "the norm of the gradients".to_owned();
            return Err(Error::Diverged { step: self.steps + 1, name, value: norm });
        }
        // torch adds 1e-6 to the norm.
        let clip = if max_grad_norm > 0.0 { (max_grad_norm / (norm + 1e-6)).min(1.0) } else { 1.0 };
        self.steps += 1;
        let rate = learning_rate * factor;
        let step = |(name, weight, held): (&String, &Parameter, Option<Moments>)| -> Result<_> {
            let decays = decay == Decay::All || weight.published.len() > 1;
            let kept = 1.0 - if decays { rate * weight_decay } else { 0.0 };
            let step = Step { rate, kept, beta1, beta2, eps };
            let Some(gradient) = gradients.get(name) else { return Ok(held) };
            let value = weight.var.as_tensor().detach();
            let (value, moments) = update(&value, &(gradient * clip)?, held.as_ref(), &step)?;
            weight.set(&value)?;
            Ok(Some(moments))
        };
        self.each(step)?;
        Ok(norm)
    }

    /// Takes each weight's moments and gives it new ones, weight by weight: all old and all new ones are never held
    /// together. On the CPU several weights at a time.
    fn each(
        &mut self,
        step: impl Fn((&String, &Parameter, Option<Moments>)) -> Result<Option<Moments>> + Sync,
    ) -> Result<()> {
        let mut moments = std::mem::take(&mut self.moments);
        let with_moments = |(name, weight)| (name, weight, moments.remove(name));
        let weights: Vec<(&String, &Parameter, _)> = self.weights.iter().map(with_moments).collect();
        let on_cpu = self.weights.values().all(|weight| weight.var.device().is_cpu());
        let step = |(name, weight, held): (&String, &Parameter, _)| -> Result<_> {
            Ok((name.clone(), step((name, weight, held))?))
        };
        let made: Vec<(String, Option<Moments>)> = if on_cpu {
            weights.into_par_iter().map(step).collect::<Result<_>>()?
        } else {
            weights.into_iter().map(step).collect::<Result<_>>()?
        };
        self.moments = made.into_iter().filter_map(|(name, held)| Some((name, held?))).collect();
        Ok(())
    }

    /// The state as named tensors: `NAME.first`, `NAME.second` and `NAME.steps` of each weight that got a
    /// gradient so far, and `steps` of the optimiser.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn state(&self) -> Result<std::collections::HashMap<String, Tensor>> {
        let mut state = std::collections::HashMap::new();
        for (name, moments) in &self.moments {
            state.insert(format!("{name}.first"), moments.first.clone());
            state.insert(format!("{name}.second"), moments.second.clone());
            state.insert(format!("{name}.steps"), Tensor::new(moments.steps, &candle_core::Device::Cpu)?);
        }
        state.insert("steps".to_owned(), Tensor::new(self.steps as u32, &candle_core::Device::Cpu)?);
        Ok(state)
    }

    /// Takes a saved state.
    ///
    /// # Errors
    /// A tensor is missing or has another shape; a state of an older version, which has no steps by weight.
    pub fn restore(&mut self, mut state: std::collections::HashMap<String, Tensor>) -> Result<()> {
        let missing = |what: &str| {
            Error::OptimizerState(format!(
                "has no `{what}`; start over a training that an older version began"
            ))
        };
        let steps = state.remove("steps").ok_or_else(|| missing("steps"))?;
        self.steps = steps.to_scalar::<u32>()? as usize;
        self.moments.clear();
        for (name, weight) in &self.weights {
            let (first, second) =
                (state.remove(&format!("{name}.first")), state.remove(&format!("{name}.second")));
            let (Some(first), Some(second)) = (first, second) else { continue };
            if first.shape() != weight.var.shape() || second.shape() != weight.var.shape() {
                return Err(Error::OptimizerState(format!("has another shape for `{name}`")));
            }
            let device = weight.var.device();
            let steps = format!("{name}.steps");
            let steps = state.remove(&steps).ok_or_else(|| missing(&steps))?.to_scalar::<u32>()?;
            let moments =
                Moments { first: first.to_device(device)?, second: second.to_device(device)?, steps };
            self.moments.insert(name.clone(), moments);
        }
        match state.into_keys().next() {
            Some(stray) => Err(Error::OptimizerState(format!("holds `{stray}`, which no weight has"))),
            None => Ok(()),
        }
    }
}
