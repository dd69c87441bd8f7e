//! What a server takes of the memory of its cards, and how many cards it needs.

use std::iter::successors;

use super::{Cards, Shape};
use crate::servers::Fleet;

/// Share of a card that a server may take where its command does not say: vLLM's.
const UTILIZATION: f64 = 0.9;
/// GB that a process takes beside tensors: context, kernels, graphs.
const OVERHEAD_GB: f64 = 2.0;
/// Tokens of a batch below which the frames of a long video, as one video, are refused.
const LEAST_BATCH: u64 = 16_384;
/// Tokens of a context that is long enough for most.
const CONTEXT: u64 = 32_768;

/// What of a server's command its memory depends on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Flags {
    /// Cards of a server.
    pub cards: usize,
    pub context: u64,
    /// Tokens that are computed at once.
    pub batch: u64,
    /// Tokens of a batch below which a video that is shown would be refused.
    pub least_batch: u64,
    pub utilization: f64,
}

impl Flags {
    /// Those of servers that are shown a video of so many tokens.
    pub(super) fn of(fleet: &Fleet, longest_video: u64) -> Self {
        let tokens = |flag: &str| fleet.flag(flag)?.parse().ok();
        Self {
            cards: fleet.serve.gpus.max(1),
            context: tokens("--max-model-len").unwrap_or(CONTEXT),
            batch: tokens("--max-num-batched-tokens").unwrap_or(LEAST_BATCH),
            least_batch: LEAST_BATCH.max(longest_video),
            utilization: fleet
                .flag("--gpu-memory-utilization")
                .and_then(|share| share.parse().ok())
                .unwrap_or(UTILIZATION),
        }
    }
}

/// How a model lies on cards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Placement {
    /// Cards of one server.
    pub cards: usize,
    pub servers: usize,
    /// Tokens that are computed at once.
    batch: u64,
    needed: Needed,
}

/// GB on each card.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Needed {
    weights: f64,
    context: f64,
    batch: f64,
}

impl Needed {
    fn of(shape: &Shape, context: u64, batch: u64, cards: usize) -> Self {
        let each = cards as f64;
        let (text, vision) = (&shape.text, &shape.vision);
        // States of a token whole on each card, its MLP split over them; bfloat16.
        let of_text = 2.0 * (6.0 * text.hidden as f64 + 3.0 * text.intermediate as f64 / each);
        let of_patch = 2.0 * (6.0 * vision.hidden as f64 + 2.0 * vision.intermediate as f64 / each);
        let features = 2.0 * ((1 + vision.deepstack) * text.hidden) as f64;
        // Four patches are a visual token. Encoder and language model work one after the other; the features stay.
        let of_token = of_text.max(4.0 * of_patch) + features;
        // Beyond their number, heads of keys and values are copied.
        let split = each.min(text.kv_heads as f64);
        Self {
            weights: shape.weights_gb / each,
            context: context as f64 * shape.cache_bytes() / split / 1e9,
            batch: batch as f64 * of_token / 1e9,
        }
    }

    fn sum(&self) -> f64 {
        self.weights + self.context + self.batch + OVERHEAD_GB
    }
}

impl Placement {
    /// The fewest cards for a server, and on these the largest batch up to that of its command; `None` where it does not fit.
    pub(super) fn of(shape: &Shape, flags: &Flags, cards: &Cards) -> Option<Self> {
        let smaller = |batch: &u64| Some(batch / 2).filter(|batch| *batch >= flags.least_batch);
        let counts = [1, 2, 4, 8].into_iter().filter(|each| (flags.cards..=cards.count).contains(each));
        let counts = counts.filter(|each| shape.text.heads.is_multiple_of(*each));
        let all =
            counts.flat_map(|each| successors(Some(flags.batch), smaller).map(move |batch| (each, batch)));
        let of = |(each, batch)| Self {
            cards: each,
            servers: cards.count / each,
            batch,
            needed: Needed::of(shape, flags.context, batch, each),
        };
        all.map(of).find(|placed| placed.needed.sum() <= cards.card.gb * flags.utilization)
    }

    /// In words, and the flags that have to be others.
    pub(super) fn words(&self, flags: &Flags, cards: &Cards) -> String {
        let count =
            |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let Needed { weights, context, batch } = self.needed;
        let mut text = format!(
            "{} of {}: about {:.0} of {:.0} GB on a card ({weights:.1} weights, {context:.1} context, {batch:.1} batch)",
            count(self.servers, "server"),
            count(self.cards, "card"),
            self.needed.sum(),
            cards.card.gb * flags.utilization,
        );
        if self.cards > flags.cards {
            text += &format!("\n    set `gpus = {}` in [serve]", self.cards);
        }
        if self.batch < flags.batch {
            text += &format!("\n    set `--max-num-batched-tokens {}` in its command", self.batch);
        }
        text
    }
}
