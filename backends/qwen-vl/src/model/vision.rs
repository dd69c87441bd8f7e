//! The vision towers: patches (n, channels * frames * height * width) to features of the language model.

use super::joined::Joined;
use super::pass::PassPlan;
use super::rows::Features;
use super::tables::{frame_segments, position_taps, vision_rotary, windows};
use super::{Loader, Model};
use crate::config::{Config, Family};
use crate::error::Error;
use crate::ops::{Activation, KvSource, Linear, Ops, Segment};
use crate::positions::Grid;
use crate::weights::Weights;

/// A pass of the vision tower: what its blocks share.
pub struct VisionPass<O: Ops> {
    whole: PassPlan<O>,
    /// Qwen2.5-VL: of blocks whose patches see their window.
    within_windows: Option<PassPlan<O>>,
    /// Places of merged patches by window.
    order: Option<Vec<u32>>,
}

/// Weights of a vision tower.
pub struct Vision<T> {
    patch: Linear<T>,
    /// Qwen3-VL: the learned square of position embeddings.
    positions: Option<T>,
    blocks: Vec<Block<T>>,
    merger: Merger<T>,
    deepstack: Vec<(usize, Merger<T>)>,
}

struct Block<T> {
    norm1: Norm<T>,
    qkv: Linear<T>,
    output: Linear<T>,
    norm2: Norm<T>,
    mlp: Mlp<T>,
}

/// Layer norm (with bias) or RMS norm; epsilon 1e-6 in both towers.
struct Norm<T> {
    weight: T,
    bias: Option<T>,
}

enum Mlp<T> {
    Plain { inner: Linear<T>, outer: Linear<T> },
    Gated { gate_up: Joined<T, 2>, down: Linear<T> },
}

struct Merger<T> {
    norm: Norm<T>,
    /// Whether the norm sees merged patches; otherwise single ones.
    after_merging: bool,
    inner: Linear<T>,
    outer: Linear<T>,
}

const EPS: f64 = 1e-6;

impl<T: Clone> Vision<T> {
    pub(super) fn load<O: Ops<Tensor = T>>(
        ops: &O,
        config: &Config,
        weights: &Weights,
    ) -> Result<Self, Error> {
        let vision = &config.vision;
        let loader = Loader::new(ops, weights, &["model.visual.", "visual."]);
        let qwen3 = config.family == Family::Qwen3;
        let hidden = vision.hidden_size;
        let (channels, frames, side) = (vision.in_channels, vision.temporal_patch_size, vision.patch_size);
        // A convolution whose stride is its kernel is a matrix over flattened patches.
        let name = format!("{}patch_embed.proj.weight", loader.prefix);
        let published = [hidden, channels, frames, side, side];
        let patch = Linear {
            weight: loader.take(&name, &published, &[hidden, vision.patch_values()])?,
            bias: qwen3.then(|| loader.tensor("patch_embed.proj.bias", &[hidden])).transpose()?,
        };
        let positions = qwen3
            .then(|| loader.tensor("pos_embed.weight", &[vision.num_position_embeddings, hidden]))
            .transpose()?;
        let block = |number: usize| Block::load(&loader.inside(&format!("blocks.{number}")), config);
        let blocks = (0..vision.depth).map(block).collect::<Result<_, _>>()?;
        let deepstack = vision.deepstack_visual_indexes.iter().enumerate().map(|(number, &after)| {
            let loader = loader.inside(&format!("deepstack_merger_list.{number}"));
            Ok((after, Merger::load(&loader, config, true)?))
        });
        let deepstack = deepstack.collect::<Result<_, Error>>()?;
        let merger = Merger::load(&loader.inside("merger"), config, false)?;
        Ok(Self { patch, positions, blocks, merger, deepstack })
    }
}

impl<T: Clone> Norm<T> {
    fn load<O: Ops<Tensor = T>>(
        loader: &Loader<'_, O>,
        name: &str,
        width: usize,
        bias: bool,
    ) -> Result<Self, Error> {
        let weight = loader.tensor(&format!("{name}.weight"), &[width])?;
        let bias = bias.then(|| loader.tensor(&format!("{name}.bias"), &[width])).transpose()?;
        Ok(Self { weight, bias })
    }

    fn apply<O: Ops<Tensor = T>>(&self, ops: &O, x: &T) -> Result<T, Error> {
        match &self.bias {
            Some(bias) => ops.layer_norm(x, &self.weight, bias, EPS),
            None => ops.rms_norm(x, &self.weight, EPS),
        }
    }
}

impl<T: Clone> Block<T> {
    fn load<O: Ops<Tensor = T>>(loader: &Loader<'_, O>, config: &Config) -> Result<Self, Error> {
        let (hidden, inner) = (config.vision.hidden_size, config.vision.intermediate_size);
        let qwen3 = config.family == Family::Qwen3;
        let mlp = if qwen3 {
            Mlp::Plain {
                inner: loader.linear("mlp.linear_fc1", inner, hidden, true)?,
                outer: loader.linear("mlp.linear_fc2", hidden, inner, true)?,
            }
        } else {
            Mlp::Gated {
                gate_up: loader.joined([("mlp.gate_proj", inner), ("mlp.up_proj", inner)], hidden, true)?,
                down: loader.linear("mlp.down_proj", hidden, inner, true)?,
            }
        };
        Ok(Self {
            norm1: Norm::load(loader, "norm1", hidden, qwen3)?,
            qkv: loader.linear("attn.qkv", 3 * hidden, hidden, true)?,
            output: loader.linear("attn.proj", hidden, hidden, true)?,
            norm2: Norm::load(loader, "norm2", hidden, qwen3)?,
            mlp,
        })
    }

    fn apply<O: Ops<Tensor = T>>(
        &self,
        ops: &O,
        x: &T,
        heads: usize,
        plan: &PassPlan<O>,
    ) -> Result<T, Error> {
        let x = ops.add(self.attend(ops, x, heads, plan)?, x)?;
        let normed = self.norm2.apply(ops, &x)?;
        let out = match &self.mlp {
            Mlp::Plain { inner, outer } => {
                ops.linear(&ops.activate(ops.linear(&normed, inner)?, Activation::GeluTanh)?, outer)?
            }
            Mlp::Gated { gate_up, down } => {
                let [gate, up] = gate_up.all(ops, &normed, 1)?;
                ops.linear(&ops.gated(gate, &up)?, down)?
            }
        };
        ops.add(out, &x)
    }

    /// Attention with its norm and products, (patches, hidden). What it makes on the way ends here.
    fn attend<O: Ops<Tensor = T>>(
        &self,
        ops: &O,
        x: &T,
        heads: usize,
        plan: &PassPlan<O>,
    ) -> Result<T, Error> {
        let shape = ops.shape(x);
        let qkv = ops.linear(&self.norm1.apply(ops, x)?, &self.qkv)?;
        let qkv = ops.reshape(&qkv, &[shape[0], 3 * heads, shape[1] / heads])?;
        let part = |number: usize| ops.narrow(&qkv, 1, number * heads, heads);
        let (q, k, v) = (plan.rotate(ops, part(0)?, None)?, plan.rotate(ops, part(1)?, None)?, part(2)?);
        let attended = ops.attention(&q, KvSource::Packed(&k, &v), &plan.attention)?;
        ops.linear(&ops.reshape(&attended, &shape)?, &self.output)
    }
}

impl<T: Clone> Merger<T> {
    fn load<O: Ops<Tensor = T>>(
        loader: &Loader<'_, O>,
        config: &Config,
        after_merging: bool,
    ) -> Result<Self, Error> {
        let vision = &config.vision;
        let width = vision.hidden_size * vision.spatial_merge_size * vision.spatial_merge_size;
        let qwen3 = config.family == Family::Qwen3;
        let (norm, inner, outer) =
            if qwen3 { ("norm", "linear_fc1", "linear_fc2") } else { ("ln_q", "mlp.0", "mlp.2") };
        Ok(Self {
            norm: Norm::load(loader, norm, if after_merging { width } else { vision.hidden_size }, qwen3)?,
            after_merging,
            inner: loader.linear(inner, width, width, true)?,
            outer: loader.linear(outer, vision.out_hidden_size, width, true)?,
        })
    }

    /// (patches, hidden) to (merged patches, out).
    fn apply<O: Ops<Tensor = T>>(&self, ops: &O, x: &T, merge: usize) -> Result<T, Error> {
        let shape = ops.shape(x);
        let merged = [shape[0] / (merge * merge), shape[1] * merge * merge];
        let x = if self.after_merging {
            self.norm.apply(ops, &ops.reshape(x, &merged)?)?
        } else {
            ops.reshape(&self.norm.apply(ops, x)?, &merged)?
        };
        ops.linear(&ops.activate(ops.linear(&x, &self.inner)?, Activation::Gelu)?, &self.outer)
    }
}

impl<O: Ops> Model<O> {
    /// Features of images or frames: `patches` (n, patch values) as the processor flattens them.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn encode(&self, patches: O::Tensor, grids: &[Grid]) -> Result<Features<O::Tensor>, Error> {
        let (mut x, pass) = self.enter_vision(patches, grids)?;
        let mut deepstack = Vec::with_capacity(self.vision.deepstack.len());
        for number in 0..self.blocks() {
            x = self.block(number, &x, &pass)?;
            deepstack.extend(self.deepstack(number, &x)?);
        }
        self.leave_vision(&x, deepstack, &pass)
    }

    /// Blocks of the vision tower.
    pub fn blocks(&self) -> usize {
        self.vision.blocks.len()
    }

    /// x (patches, hidden) as the first block takes it.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn enter_vision(
        &self,
        patches: O::Tensor,
        grids: &[Grid],
    ) -> Result<(O::Tensor, VisionPass<O>), Error> {
        let (ops, vision, config) = (&self.ops, &self.vision, &self.config.vision);
        let merge = config.spatial_merge_size;
        let mut x = ops.linear(&patches, &vision.patch)?;
        drop(patches);
        if let Some(positions) = &vision.positions {
            let (ids, weights) = position_taps(config, grids);
            x = ops.add(x, &ops.embedding_bag(positions, &ids, &weights, 4)?)?;
        }
        let frames = frame_segments(grids);
        let (mut cos, mut sin) = vision_rotary(config, grids);
        let head_dim = config.hidden_size / config.num_heads;
        let window = (self.config.family == Family::Qwen25).then(|| windows(config, grids));
        if let Some((order, _)) = &window {
            x = self.reorder(&x, order)?;
            cos = reorder_rows(&cos, order, merge * merge * head_dim);
            sin = reorder_rows(&sin, order, merge * merge * head_dim);
        }
        let tables = ops.rotary(cos, sin, head_dim)?;
        let plan = |segments: &[Segment]| PassPlan::new(ops, tables.clone(), segments, false);
        let whole = plan(&frames)?;
        let within_windows = window.as_ref().map(|(_, segments)| plan(segments)).transpose()?;
        Ok((x, VisionPass { whole, within_windows, order: window.map(|(order, _)| order) }))
    }

    /// One block: x (patches, hidden) to the same shape.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn block(&self, number: usize, x: &O::Tensor, pass: &VisionPass<O>) -> Result<O::Tensor, Error> {
        let config = &self.config.vision;
        let sees_whole = config.fullatt_block_indexes.contains(&number);
        let plan = pass.within_windows.as_ref().filter(|_| !sees_whole).unwrap_or(&pass.whole);
        self.vision.blocks[number].apply(&self.ops, x, config.num_heads, plan)
    }

    /// Features of the `DeepStack` level that follows a block, if one does: (merged patches, hidden of the language model).
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn deepstack(&self, number: usize, x: &O::Tensor) -> Result<Option<O::Tensor>, Error> {
        let merge = self.config.vision.spatial_merge_size;
        let merger = self.vision.deepstack.iter().find(|(after, _)| *after == number);
        merger.map(|(_, merger)| merger.apply(&self.ops, x, merge)).transpose()
    }

    /// Features of what the last block gave.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn leave_vision(
        &self,
        x: &O::Tensor,
        deepstack: Vec<O::Tensor>,
        pass: &VisionPass<O>,
    ) -> Result<Features<O::Tensor>, Error> {
        let mut merged = self.vision.merger.apply(&self.ops, x, self.config.vision.spatial_merge_size)?;
        if let Some(order) = &pass.order {
            let mut back = vec![0; order.len()];
            for (row, &block) in order.iter().enumerate() {
                back[block as usize] = row as u32;
            }
            merged = self.ops.gather(&merged, &back)?;
        }
        Ok(Features { merged, deepstack })
    }

    /// Moves merged blocks of patches: (n, hidden).
    fn reorder(&self, x: &O::Tensor, order: &[u32]) -> Result<O::Tensor, Error> {
        let shape = self.ops.shape(x);
        let blocks = self.ops.reshape(x, &[order.len(), shape[0] / order.len() * shape[1]])?;
        self.ops.reshape(&self.ops.gather(&blocks, order)?, &shape)
    }
}

fn reorder_rows(values: &[f32], order: &[u32], width: usize) -> Vec<f32> {
    order.iter().flat_map(|&row| &values[row as usize * width..(row as usize + 1) * width]).copied().collect()
}
