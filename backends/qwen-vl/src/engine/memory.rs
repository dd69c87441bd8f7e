//! Memory estimate (weights, key-value cache) before a model is loaded.

use std::fmt;

use super::Options;
use crate::config::Config;
use crate::error::Error;
use crate::weights::Weights;

/// The arithmetic of weights and cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Bytes of the weights on the device.
    pub weights: u64,
    /// Bytes of the cache per token: keys and values of every layer.
    pub per_token: u64,
    /// Bytes that weights and cache may take together.
    pub limit: u64,
    /// Tokens of cache that fit beside the weights.
    pub cache_tokens: usize,
    layers: usize,
    key_heads: usize,
    head_dim: usize,
    element: usize,
}

impl MemoryPlan {
    /// Plans a checkpoint in the precision and within the memory of the options.
    pub fn new(config: &Config, weights: &Weights, options: &Options) -> Self {
        let (text, precision, limit) = (&config.text, options.precision, options.memory);
        let converted = weights.elements() * precision.bytes();
        let bytes = if options.narrow_weights { converted.min(weights.bytes()) } else { converted } as u64;
        let values = 2 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim;
        let per_token = (values * precision.bytes()) as u64;
        // A tenth stays free for activations.
        let free = limit.saturating_sub(bytes) / 10 * 9;
        Self {
            weights: bytes,
            per_token,
            limit,
            cache_tokens: usize::try_from(free / per_token.max(1)).unwrap_or(usize::MAX),
            layers: text.num_hidden_layers,
            key_heads: text.num_key_value_heads,
            head_dim: text.head_dim,
            element: precision.bytes(),
        }
    }

    /// # Errors
    /// The weights alone are too large.
    pub fn check_weights(&self) -> Result<(), Error> {
        if self.weights <= self.limit {
            return Ok(());
        }
        let message = format!("the weights take {}, {} are free", size(self.weights), size(self.limit));
        Err(Error::Memory(format!("{message}; a smaller --dtype or more memory is needed")))
    }

    /// # Errors
    /// A prompt with its answer is more than the cache holds.
    pub fn check_request(&self, prompt: usize, new: usize) -> Result<(), Error> {
        if prompt + new <= self.cache_tokens {
            return Ok(());
        }
        let need = size((prompt + new) as u64 * self.per_token);
        Err(Error::Memory(format!(
            "{prompt} prompt tokens and {new} new ones need {need} of cache; {self}; fewer frames, a lower \
             --max-tokens or a smaller --dtype would fit"
        )))
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layers, key_heads, head_dim, element, .. } = self;
        write!(
            f,
            "weights {}, cache {} per token (2 x {layers} layers x {key_heads} heads x {head_dim} x {element} \
             bytes), {} tokens fit in {}",
            size(self.weights),
            size(self.per_token),
            self.cache_tokens,
            size(self.limit),
        )
    }
}

fn size(bytes: u64) -> String {
    let (value, unit) = match bytes {
        0..1024 => return format!("{bytes} B"),
        1024..1_048_576 => (1024.0, "KiB"),
        1_048_576..1_073_741_824 => (1_048_576.0, "MiB"),
        _ => (1_073_741_824.0, "GiB"),
    };
    format!("{:.1} {unit}", bytes as f64 / value)
}
