//! Memory of a training step on a GPU, counted before the first one begins.

use paravt_qwen_vl::config::Config;

use crate::compute::Compute;
use crate::error::{Error, Result};
use crate::grad::SCORES;

/// Bytes of f32: weights, gradients and moments, and the widest of what a composed operation holds.
const WIDE: u64 = 4;
/// Tensors of scores that a piece of attention holds for its gradients, and of logits a piece of the head.
const COPIES: u64 = 12;

/// The arithmetic of a step whose activations are computed again for their gradients.
#[derive(Debug, Clone, Copy)]
pub struct StepMemory {
    /// Weights in both precisions, gradients of a pass and of the step, both moments.
    pub state: u64,
    /// What stays from the forward to the backward pass, for each token of a pass: what goes into each layer, and into each
    /// block of the vision tower for each of its patches.
    pub kept: u64,
    /// One layer or block, for each token or its patches.
    pub layer: u64,
    /// Scores, logits and the largest weight's gradients: whatever the tokens.
    pub at_once: u64,
}

impl StepMemory {
    /// Of a model with so many weights. Every token is taken for a visual one.
    pub fn new(config: &Config, weights: usize, compute: &Compute) -> Self {
        let (text, vision) = (&config.text, &config.vision);
        let element = compute.precision.bytes() as u64;
        let narrow = if element < WIDE { element } else { 0 };
        let (hidden, inner) = (text.hidden_size, text.intermediate_size);
        let sides = (text.num_attention_heads + text.num_key_value_heads) * text.head_dim;
        let patches = vision.spatial_merge_size.pow(2);
        let features = (vision.deepstack_visual_indexes.len() + 1) * 2 * hidden;
        let kept = text.num_hidden_layers * hidden
            + features
            + patches * (vision.depth * vision.hidden_size + vision.patch_values());
        // Norms hold f32 copies; products what goes in and what comes out; and each a gradient.
        let layer = 16 * hidden + 16 * sides + 8 * inner;
        let block =
            patches * (16 * vision.hidden_size + 40 * vision.hidden_size + 10 * vision.intermediate_size);
        let matrix = (text.vocab_size * hidden).max(2 * sides * hidden + 3 * hidden * inner) as u64;
        let logits = compute.recompute.unwrap_or(0).max(text.vocab_size) as u64;
        Self {
            state: weights as u64 * (5 * WIDE + narrow),
            kept: kept as u64 * WIDE.min(2 * element),
            layer: layer.max(block) as u64 * WIDE,
            at_once: COPIES * WIDE * logits.max(SCORES as u64) + 4 * WIDE * matrix,
        }
    }

    /// Bytes of a step whose passes have so many tokens.
    pub fn bytes(&self, tokens: usize) -> u64 {
        self.state + self.at_once + tokens as u64 * (self.kept + self.layer)
    }

    /// # Errors
    /// Passes of so many tokens, the setting `field`, do not fit into what is free.
    pub fn check(&self, field: &str, tokens: usize, free: u64) -> Result<()> {
        let need = self.bytes(tokens);
        if need <= free {
            return Ok(());
        }
        let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
        let fitting = free.saturating_sub(self.bytes(0)) / (self.kept + self.layer);
        let advice = match fitting {
            0 => "the weights with their gradients and moments leave no room for a pass: train it by an external engine"
                .to_owned(),
            tokens => format!("{tokens} would fit"),
        };
        let message =
            format!("is {tokens}; a step takes up to {}, {} are free; {advice}", gib(need), gib(free));
        Err(Error::Setting { field: field.to_owned(), message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_does_not_fit_is_refused_with_what_would() {
        let memory = StepMemory { state: 10 << 30, kept: 1 << 20, layer: 1 << 20, at_once: 1 << 30 };
        assert!(memory.check("pack_tokens", 512, 12 << 30).is_ok());
        let refused = |tokens, free| memory.check("pack_tokens", tokens, free).unwrap_err().to_string();
        assert_eq!(
            refused(1024, 12 << 30),
            "`pack_tokens` is 1024; a step takes up to 13.0 GiB, 12.0 GiB are free; 512 would fit"
        );
        assert!(refused(1, 11 << 30).contains("external engine"));
    }
}
