//! The clipped policy loss (AReaL `ppo_actor_loss_fn`, verl `compute_policy_loss`).

use std::ops::AddAssign;

use candle_core::{DType, Tensor, bail};

use super::knobs::Knobs;

/// Inputs of the loss for the trained tokens of a micro-batch; all slices are (n).
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'a> {
    pub advantages: &'a [f64],
    /// Log-probabilities under the weights before the update.
    pub prox: &'a [f64],
    /// Log-probabilities under the policy that sampled them; not used unless the loss is decoupled.
    pub behaviour: &'a [f64],
}

/// Sums over trained tokens, and a maximum. Those of micro-batches can be added.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Loss {
    /// Token losses, before [`Knobs::scale`].
    pub sum: f64,
    /// Trained tokens, dropped ones included.
    pub tokens: usize,
    /// Tokens whose ratio was clipped.
    pub clipped: usize,
    /// Tokens whose loss reached the bound of the dual clip.
    pub dual_clipped: usize,
    /// Tokens above the cap of the behaviour weight.
    pub dropped: usize,
    /// Ratios exp(new - prox).
    pub ratio: f64,
    /// new - prox, in nats: minus this is the KL of the update.
    pub log_ratio: f64,
    /// Behaviour weights exp(prox - behaviour), 0 for dropped tokens.
    pub behaviour_weight: f64,
    /// Maximum of |exp(prox - behaviour) - 1|: how far the sampling engine is from the trainer, at the same weights.
    pub max_ratio_error: f64,
}

impl Loss {
    /// A sum or count as a mean over the tokens.
    pub fn mean(&self, sum: f64) -> f64 {
        sum / self.tokens.max(1) as f64
    }
}

impl AddAssign for Loss {
    fn add_assign(&mut self, other: Self) {
        self.sum += other.sum;
        self.tokens += other.tokens;
        self.clipped += other.clipped;
        self.dual_clipped += other.dual_clipped;
        self.dropped += other.dropped;
        self.ratio += other.ratio;
        self.log_ratio += other.log_ratio;
        self.behaviour_weight += other.behaviour_weight;
        self.max_ratio_error = self.max_ratio_error.max(other.max_ratio_error);
    }
}

/// The token losses in f64: the sums, and the gradient of [`Loss::sum`] by each new
/// log-probability (n).
///
/// # Panics
/// Where the slices differ in length.
pub fn token_losses(new: &[f64], tokens: &Tokens<'_>, knobs: &Knobs) -> (Loss, Vec<f64>) {
    let n = new.len();
    assert!(
        tokens.advantages.len() == n && tokens.prox.len() == n && tokens.behaviour.len() == n,
        "{n} new log-probabilities, {} advantages, {} prox, {} behaviour",
        tokens.advantages.len(),
        tokens.prox.len(),
        tokens.behaviour.len(),
    );
    let mut total = Loss::default();
    let gradient = (0..n).map(|at| {
        let (loss, gradient) =
            token_loss(new[at], tokens.advantages[at], tokens.prox[at], tokens.behaviour[at], knobs);
        total += loss;
        gradient
    });
    let gradient = gradient.collect();
    (total, gradient)
}

fn token_loss(new: f64, advantage: f64, prox: f64, behaviour: f64, knobs: &Knobs) -> (Loss, f64) {
    let log_ratio = new - prox;
    let ratio = log_ratio.exp();
    let (low, high) = (1.0 - knobs.eps_clip, 1.0 + knobs.eps_clip_higher.unwrap_or(knobs.eps_clip));
    let free = -advantage * ratio;
    let bounded = -advantage * ratio.clamp(low, high);
    let clipped = bounded > free;
    let mut loss = if clipped { bounded } else { free };
    // A positive advantage has a negative loss, which this bound never meets.
    let bound = knobs.c_clip.map_or(f64::INFINITY, |factor| factor * advantage.abs());
    let dual_clipped = loss > bound;
    loss = loss.min(bound);

    let weight = if knobs.use_decoupled_loss { (prox - behaviour).exp() } else { 1.0 };
    let dropped = knobs.use_decoupled_loss && weight > knobs.behav_imp_weight_cap;
    let weight = if dropped { 0.0 } else { weight };
    let sums = Loss {
        // Not a product: a loss may be infinite.
        sum: if dropped { 0.0 } else { loss * weight },
        tokens: 1,
        clipped: clipped.into(),
        dual_clipped: dual_clipped.into(),
        dropped: dropped.into(),
        ratio,
        log_ratio,
        behaviour_weight: weight,
        max_ratio_error: (prox - behaviour).exp_m1().abs(),
    };
    // The ratio is its own derivative; a bound has none.
    let constant = clipped || dual_clipped || dropped;
    (sums, if constant { 0.0 } else { free * weight })
}

/// The loss of a micro-batch as a scalar f32 tensor, differentiable by `new` (n), and its sums.
/// Multiplied by [`Knobs::scale`] it can be differentiated and added up.
///
/// The arithmetic is [`token_losses`]: its gradient is handed to the graph as a constant factor, so
/// there is one formula and second derivatives do not exist.
///
/// # Errors
/// A shape or type other than (n) f32, or slices of other lengths.
pub fn policy_loss(new: &Tensor, tokens: &Tokens<'_>, knobs: &Knobs) -> candle_core::Result<(Tensor, Loss)> {
    let n = new.dims1()?;
    let lengths = [tokens.advantages.len(), tokens.prox.len(), tokens.behaviour.len()];
    if new.dtype() != DType::F32 || lengths != [n; 3] {
        bail!(
            "policy loss: new {:?} {:?}, advantages, prox, behaviour {lengths:?}",
            new.dtype(),
            new.shape()
        );
    }
    let values: Vec<f64> = new.to_vec1::<f32>()?.into_iter().map(f64::from).collect();
    let (loss, gradient) = token_losses(&values, tokens, knobs);
    let gradient: Vec<f32> = gradient.into_iter().map(|value| value as f32).collect();
    let linear = (new * Tensor::from_vec(gradient, n, new.device())?)?.sum_all()?;
    // The linear part cancels and leaves its gradient.
    let value = ((&linear - linear.detach())? + loss.sum)?;
    Ok((value, loss))
}
