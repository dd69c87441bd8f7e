//! Objectives: from rewards and log-probabilities to a loss and its gradient, as AReaL (ParaVT) and
//! PyVision-RL `62ca599` compute them.
//!
//! A step goes [`advantages`] over the whole batch, [`pack`] for each micro-batch, then
//! [`token_logprobs`] and [`policy_loss`] on its trained positions, the sum scaled by
//! [`Knobs::scale`]. Which rollouts make up the batch is the business of [`strategy`].
//!
//! Everything up to the loss is arithmetic on plain slices in f64; only the log-probabilities are
//! tensors.

mod advantages;
mod knobs;
mod logprobs;
mod loss;
mod moments;
pub mod strategy;

pub use advantages::{Advantages, Error, Packed, Sequence, advantages, pack};
pub use knobs::{Aggregation, GroupNorm, Knobs, RewardPosition};
pub use logprobs::{cross_entropy, token_logprobs};
pub use loss::{Loss, Tokens, policy_loss, token_losses};
