//! Memory of weights, caches and passes, counted before a model is loaded.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use paravt_suite::backend::Memory;

use super::Options;
use crate::config::{Config, TextConfig, VisionConfig};
use crate::error::Error;
use crate::ops::{Ops, PassLimits};
use crate::weights::Weights;

/// The arithmetic of weights, caches and passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Bytes of the weights on the device.
    pub weights: u64,
    /// Bytes of the cache per token: keys and values of every layer.
    pub per_token: u64,
    /// Bytes that a pass takes per token of its keys: one layer's keys and values in the order of heads, and the mask.
    pub per_key: u64,
    /// Bytes of a pass beside that, at its peak.
    pub activations: u64,
    /// Maxima of a pass: the engine's, or less where memory is small.
    pub pass: PassLimits,
    /// Bytes that weights, caches and passes may take together.
    pub limit: u64,
    /// Tokens of cache that fit beside weights and passes.
    pub cache_tokens: usize,
    per_patch: u64,
    layers: usize,
    key_heads: usize,
    head_dim: usize,
    element: usize,
}

/// Bytes of the types in which engines compute, whatever the precision of what they keep.
const WIDE: usize = 4;
/// Bytes of a score at the peak of its softmax: before, after, and as the weight of a value.
const SCORE: usize = 3 * WIDE;
/// Fewest rows of a pass: fewer would read all weights for next to nothing.
const MIN_ROWS: usize = 16;

impl MemoryPlan {
    /// Plans a checkpoint in the precision and within the memory of the options.
    pub fn new(config: &Config, weights: &Weights, options: &Options) -> Self {
        let (text, precision, limit) = (&config.text, options.precision, options.memory);
        let converted = weights.elements() * precision.bytes();
        let bytes = if options.narrow_weights { converted.min(weights.bytes()) } else { converted } as u64;
        let key_values = 2 * text.num_key_value_heads * text.head_dim;
        let per_token = (text.num_hidden_layers * key_values * precision.bytes()) as u64;
        let free = limit.saturating_sub(bytes);
        let (per_row, per_patch) = (row_bytes(text, &config.vision), patch_bytes(&config.vision));
        // At least one query of all heads to all keys of the context.
        let fewest = text.num_attention_heads * text.max_position_embeddings;
        let pass = within(options.pass, fewest, free / 4, (per_row, per_patch));
        let per_key = ((key_values + if pass.scores > 0 { pass.tokens } else { 0 }) * WIDE) as u64;
        let logits = (options.batch.max(1) * text.vocab_size * 2 * WIDE) as u64;
        let rows = (pass.tokens as u64 * per_row).max(pass.patches as u64 * per_patch);
        let activations = rows + logits + (pass.scores * SCORE) as u64;
        let cache_tokens = free.saturating_sub(activations) / (per_token + per_key).max(1);
        Self {
            weights: bytes,
            per_token,
            per_key,
            activations,
            pass,
            limit,
            cache_tokens: usize::try_from(cache_tokens).unwrap_or(usize::MAX),
            per_patch,
            layers: text.num_hidden_layers,
            key_heads: text.num_key_value_heads,
            head_dim: text.head_dim,
            element: precision.bytes(),
        }
    }

    /// Bytes of the caches with room for so many tokens, and of what a pass takes for them.
    pub fn caches(&self, tokens: usize) -> u64 {
        tokens as u64 * (self.per_token + self.per_key)
    }

    /// Bytes of the activations of a prompt whose largest frame has so many patches.
    pub(super) fn activations_with(&self, frame: usize) -> u64 {
        self.activations.max(frame as u64 * self.per_patch)
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
    /// A prompt with its answer is more than the cache holds, or its largest frame, of so many patches, more than a pass
    /// has memory for.
    pub(crate) fn check_request(&self, prompt: usize, new: usize, frame: usize) -> Result<(), Error> {
        let (tokens, beside) = (self.caches(prompt + new), self.activations_with(frame));
        let free = self.limit.saturating_sub(self.weights);
        if prompt + new <= self.cache_tokens && tokens.saturating_add(beside) <= free {
            return Ok(());
        }
        let need = format!("{} of cache and {}", size(tokens), size(beside));
        Err(Error::Memory(format!(
            "{prompt} prompt tokens and {new} new ones need {need} of activations; {self}; fewer or smaller frames, a \
             lower --max-tokens or a smaller --dtype would fit"
        )))
    }
}

/// Elements of the largest tensor of a pass: kernels count them by C's `int`.
const MAX_ELEMENTS: usize = i32::MAX as usize;

/// The engine's limits, or fewer rows and scores where those of a pass would take more than `bytes` each, or more elements
/// than kernels count. `fewest` are the scores of one query.
fn within(limits: PassLimits, fewest: usize, bytes: u64, (row, patch): (u64, u64)) -> PassLimits {
    let rows = |limit: usize, each: u64| {
        let fitting = usize::try_from(bytes.min((MAX_ELEMENTS * WIDE) as u64) / each.max(1));
        limit.min(fitting.unwrap_or(usize::MAX).max(MIN_ROWS))
    };
    let fitting = usize::try_from(bytes / SCORE as u64).unwrap_or(usize::MAX).max(fewest);
    PassLimits {
        tokens: rows(limits.tokens, row),
        patches: rows(limits.patches, patch),
        scores: limits.scores.min(fitting).min(MAX_ELEMENTS),
    }
}

/// Bytes of a token at the widest places of a layer: the residual stream with its norms and products, the features that
/// enter it, queries and keys that are turned, and the gated MLP.
fn row_bytes(text: &TextConfig, vision: &VisionConfig) -> u64 {
    let (queries, keys) =
        (text.num_attention_heads * text.head_dim, text.num_key_value_heads * text.head_dim);
    let features = vision.deepstack_visual_indexes.len() + 2;
    let stream = (4 + features) * text.hidden_size;
    let attention = 6 * queries + 6 * keys + 4 * text.head_dim;
    ((stream + attention.max(4 * text.intermediate_size)) * WIDE) as u64
}

/// Bytes of a patch at the widest places of the vision tower, which are those of a token there; and its pixels.
fn patch_bytes(vision: &VisionConfig) -> u64 {
    let merged = vision.spatial_merge_size.pow(2).max(1);
    let features = (vision.deepstack_visual_indexes.len() + 2) * vision.out_hidden_size.div_ceil(merged);
    let stream = 4 * vision.hidden_size + features + 2 * vision.patch_values();
    let attention = 12 * vision.hidden_size + 4 * vision.hidden_size / vision.num_heads.max(1);
    ((stream + attention.max(5 * vision.intermediate_size)) * WIDE) as u64
}

/// What an engine's thread has taken so far.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Maximum of the tokens that all caches had room for.
    tokens: AtomicUsize,
    /// Maximum of the bytes that were planned for activations.
    activations: AtomicU64,
    /// See [`Ops::peak_memory`]; 0 where the engine cannot tell.
    peak: AtomicU64,
}

impl Taken {
    /// Caches have room for so many tokens.
    pub(super) fn caches(&self, tokens: usize) {
        self.tokens.fetch_max(tokens, Ordering::Relaxed);
    }

    /// So many bytes are planned for activations.
    pub(super) fn activations(&self, bytes: u64) {
        self.activations.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Looks at the arithmetic's own count.
    pub(super) fn peak<O: Ops>(&self, ops: &O) {
        self.peak.fetch_max(ops.peak_memory().unwrap_or_default(), Ordering::Relaxed);
    }

    /// The peak, and what the plan says for as many tokens.
    pub(super) fn report(&self, plan: &MemoryPlan) -> Memory {
        let (peak, tokens) = (self.peak.load(Ordering::Relaxed), self.tokens.load(Ordering::Relaxed));
        let activations = self.activations.load(Ordering::Relaxed).max(plan.activations);
        let planned = plan.weights + activations + plan.caches(tokens);
        Memory { planned, peak: (peak > 0).then_some(peak) }
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layers, key_heads, head_dim, element, .. } = self;
        write!(
            f,
            "weights {}, activations {}, cache {} per token (2 x {layers} layers x {key_heads} heads x {head_dim} x \
             {element} bytes), {} tokens fit in {}",
            size(self.weights),
            size(self.activations),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// From the smallest models to far beyond the largest published ones, whatever an engine's limits and memory.
        #[test]
        fn no_tensor_of_a_pass_has_more_elements_than_kernels_count(
            (heads, keys) in (1usize..=128, 1usize..=1 << 24),
            (tokens, patches, scores) in (1usize..=1 << 20, 1usize..=1 << 20, 0usize..=1 << 40),
            // Bytes of a row in all its tensors together.
            (row, patch) in (1u64..=1 << 22, 1u64..=1 << 22),
            bytes in 0u64..=1 << 40,
        ) {
            let limits = PassLimits { tokens, patches, scores };
            let pass = within(limits, heads * keys, bytes, (row, patch));
            for (rows, each) in [(pass.tokens, row), (pass.patches, patch)] {
                prop_assert!(rows as u64 * each <= 4 * MAX_ELEMENTS as u64);
                prop_assert!(rows as u64 * each <= bytes || rows <= MIN_ROWS);
            }
            prop_assert!(pass.tokens <= tokens && pass.patches <= patches && pass.scores <= scores);
            prop_assert!(pass.scores <= MAX_ELEMENTS);
            prop_assert!((pass.scores * SCORE) as u64 <= bytes || pass.scores <= heads * keys);
        }
    }
}
