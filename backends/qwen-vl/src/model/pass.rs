//! State shared by all layers of a forward pass.

use super::Model;
use super::rows::{Features, Rows};
use super::tables::text_rotary;
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

/// A pass of the language model: what its layers share.
pub struct TextPass<O: Ops> {
    pub(super) all: PassPlan<O>,
    /// Of the last layer, where not the hidden states of all rows are wanted: the places of those that are.
    pub(super) wanted: Option<(Vec<u32>, PassPlan<O>)>,
    /// Places of the visual rows.
    pub(super) visual: Vec<u32>,
    /// The rows whose keys each sequence attends to, sequence after sequence, where some are of several.
    pub(super) keys: Option<Vec<u32>>,
}

impl<O: Ops> TextPass<O> {
    /// Of new tokens of several sequences.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn new(model: &Model<O>, batch: &[Rows<'_, O::Tensor>]) -> Result<Self, Error> {
        let plan = |queries: fn(&Rows<'_, O::Tensor>) -> usize| {
            let positions = batch.iter().flat_map(|rows| &rows.positions[rows.ids.len() - queries(rows)..]);
            let (cos, sin) = text_rotary(&model.config, &positions.copied().collect::<Vec<_>>());
            let tables = model.ops.rotary(cos, sin, model.config.text.head_dim)?;
            let segment = |rows: &Rows<'_, O::Tensor>| {
                let cached = rows.cache.as_ref().map_or(0, |cache| cache.len());
                Segment { queries: queries(rows), keys: cached + rows.shared.len() + rows.ids.len() }
            };
            let segments: Vec<Segment> = batch.iter().map(segment).collect();
            PassPlan::new(&model.ops, tables, &segments, true)
        };
        let wanted = wanted_rows(batch).map(|rows| Ok((rows, plan(|rows| rows.wanted())?))).transpose()?;
        let visual = Visual::of(batch).places;
        Ok(Self { all: plan(|rows| rows.ids.len())?, wanted, visual, keys: key_rows(batch) })
    }
}

/// Places among a batch's rows of those whose hidden states are wanted; `None` where all are.
fn wanted_rows<T>(batch: &[Rows<'_, T>]) -> Option<Vec<u32>> {
    if batch.iter().all(|rows| rows.wanted() == rows.ids.len()) {
        return None;
    }
    let (mut wanted, mut end) = (Vec::new(), 0);
    for rows in batch {
        end += rows.ids.len() as u32;
        wanted.extend(end - rows.wanted() as u32..end);
    }
    Some(wanted)
}

/// Places among a batch's rows of the keys of each sequence; `None` where each has its own rows alone.
fn key_rows<T>(batch: &[Rows<'_, T>]) -> Option<Vec<u32>> {
    if batch.iter().all(|rows| rows.shared.is_empty()) {
        return None;
    }
    let (mut keys, mut start) = (Vec::new(), 0);
    for rows in batch {
        let end = start + rows.ids.len();
        keys.extend(rows.shared.clone().chain(start..end).map(|row| row as u32));
        start = end;
    }
    Some(keys)
}

/// The visual rows of a batch.
pub(super) struct Visual<'a, T> {
    pub(super) places: Vec<u32>,
    pub(super) features: Vec<&'a Features<T>>,
}

impl<'a, T: Clone> Visual<'a, T> {
    pub(super) fn of(batch: &[Rows<'a, T>]) -> Self {
        let (mut places, mut features, mut start) = (Vec::new(), Vec::new(), 0);
        for rows in batch {
            places.extend(rows.visual.iter().map(|place| start + place));
            features.extend(rows.features);
            start += rows.ids.len() as u32;
        }
        Self { places, features }
    }

    pub(super) fn deepstack<O: Ops<Tensor = T>>(&self, ops: &O, layer: usize) -> Result<Option<T>, Error> {
        let parts: Vec<T> =
            self.features.iter().filter_map(|features| features.deepstack.get(layer).cloned()).collect();
        match parts.len() {
            0 => Ok(None),
            1 => Ok(parts.into_iter().next()),
            _ => ops.cat(&parts).map(Some),
        }
    }
}
