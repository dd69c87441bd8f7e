//! State shared by all layers of a forward pass.

use crate::error::Error;
use crate::ops::{Ops, Segment};

/// The rows of a packed batch, prepared once for all layers.
pub(super) struct PassPlan<O: Ops> {
    rotary: O::Rotary,
    /// The keys that each row attends to.
    pub attention: O::Plan,
}

impl<O: Ops> PassPlan<O> {
    /// A plan of rows with rotary tables.
    pub(super) fn new(ops: &O, rotary: O::Rotary, segments: &[Segment], causal: bool) -> Result<Self, Error> {
        Ok(Self { rotary, attention: ops.plan(segments, causal)? })
    }

    /// Queries or keys (rows, heads, head_dim), each head normed where there are a weight and an epsilon, turned by their
    /// positions.
    pub(super) fn rotate(
        &self,
        ops: &O,
        x: O::Tensor,
        norm: Option<(&O::Tensor, f64)>,
    ) -> Result<O::Tensor, Error> {
        ops.norm_rotate(x, norm, &self.rotary)
    }
}
