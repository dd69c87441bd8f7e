//! The language model: grouped-query attention, gated MLP, multimodal rotary positions.

use super::joined::Joined;
use super::pass::{PassPlan, TextPass, Visual};
use super::rows::Rows;
use super::{Loader, Model};
use crate::config::{Config, Family};
use crate::error::Error;
use crate::ops::{KvSource, Linear, Ops};
use crate::weights::Weights;

/// Weights of the language model.
pub struct Text<T> {
    embeddings: T,
    layers: Vec<Layer<T>>,
    norm: T,
    head: Linear<T>,
}

struct Layer<T> {
    input_norm: T,
    /// Queries, keys and values.
    qkv: Joined<T, 3>,
    output: Linear<T>,
    /// Qwen3: norms of each query and key head.
    head_norms: Option<(T, T)>,
    post_norm: T,
    gate_up: Joined<T, 2>,
    down: Linear<T>,
}

impl<T: Clone> Text<T> {
    pub(super) fn load<O: Ops<Tensor = T>>(
        ops: &O,
        config: &Config,
        weights: &Weights,
    ) -> Result<Self, Error> {
        let text = &config.text;
        let loader = Loader::new(ops, weights, &["model.language_model.", "model."]);
        let (hidden, inner) = (text.hidden_size, text.intermediate_size);
        let (all, keys) =
            (text.num_attention_heads * text.head_dim, text.num_key_value_heads * text.head_dim);
        let bias = config.family == Family::Qwen25;
        let layer = |number: usize| {
            let layer = loader.inside(&format!("layers.{number}"));
            let attention = layer.inside("self_attn");
            let head_norm = |name: &str| attention.tensor(name, &[text.head_dim]);
            Ok(Layer {
                input_norm: layer.tensor("input_layernorm.weight", &[hidden])?,
                qkv: attention.joined([("q_proj", all), ("k_proj", keys), ("v_proj", keys)], hidden, bias)?,
                output: attention.linear("o_proj", hidden, all, false)?,
                head_norms: match config.family {
                    Family::Qwen3 => Some((head_norm("q_norm.weight")?, head_norm("k_norm.weight")?)),
                    Family::Qwen25 => None,
                },
                post_norm: layer.tensor("post_attention_layernorm.weight", &[hidden])?,
                gate_up: layer.joined([("mlp.gate_proj", inner), ("mlp.up_proj", inner)], hidden, false)?,
                down: layer.linear("mlp.down_proj", hidden, inner, false)?,
            })
        };
        let embeddings = loader.tensor("embed_tokens.weight", &[text.vocab_size, hidden])?;
        let head = if config.tied {
            Linear { weight: embeddings.clone(), bias: None }
        } else {
            Loader::new(ops, weights, &[""]).linear("lm_head", text.vocab_size, hidden, false)?
        };
        let layers = (0..text.num_hidden_layers).map(layer).collect::<Result<_, Error>>()?;
        Ok(Self { embeddings, layers, norm: loader.tensor("norm.weight", &[hidden])?, head })
    }
}

impl<O: Ops> Model<O> {
    /// Runs new tokens of several sequences in one pass: hidden states (wanted rows, hidden) after the
    /// last norm, sequence after sequence. The caches then hold the new tokens too.
    ///
    /// # Errors
    /// Tensor arithmetic, e.g. no memory.
    pub fn hidden(&self, batch: &mut [Rows<'_, O::Tensor>]) -> Result<O::Tensor, Error> {
        let ops = &self.ops;
        for rows in batch.iter_mut() {
            if let Some(cache) = &mut rows.cache {
                cache.reserve(ops, rows.ids.len())?;
            }
        }
        let x = self.embed(batch)?;
        let (pass, visual) = (TextPass::new(self, batch)?, Visual::of(batch));
        let normed = self.input_norm(0, &x)?;
        let mut state = (x, normed);
        for number in 0..self.text.layers.len() {
            let features = visual.deepstack(ops, number)?;
            state = self.layer(number, state, &pass, features.as_ref(), batch)?;
        }
        for rows in batch.iter_mut() {
            if let Some(cache) = &mut rows.cache {
                cache.length += rows.ids.len();
            }
        }
        Ok(state.1)
    }

    /// Layers of the language model.
    pub fn layers(&self) -> usize {
        self.text.layers.len()
    }

    /// x (rows, hidden) normed for a layer; past the last, as the head takes it.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn input_norm(&self, number: usize, x: &O::Tensor) -> Result<O::Tensor, Error> {
        self.ops.rms_norm(x, self.norm_before(number), self.config.text.rms_norm_eps)
    }

    fn norm_before(&self, number: usize) -> &O::Tensor {
        self.text.layers.get(number).map_or(&self.text.norm, |layer| &layer.input_norm)
    }

    /// One layer of a pass: x (rows, hidden) and its [`input_norm`](Self::input_norm) to those of the next layer, with
    /// the visual features that are added after it. Keys and values go into the caches of `batch`, which is empty where
    /// the sequences are whole and have none.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn layer(
        &self,
        number: usize,
        (mut x, normed): (O::Tensor, O::Tensor),
        pass: &TextPass<O>,
        features: Option<&O::Tensor>,
        batch: &[Rows<'_, O::Tensor>],
    ) -> Result<(O::Tensor, O::Tensor), Error> {
        let (ops, layer, eps) = (&self.ops, &self.text.layers[number], self.config.text.rms_norm_eps);
        let last = number + 1 == self.text.layers.len() && features.is_none();
        let attended = {
            let dim = self.config.text.head_dim;
            let ([q, k, v], plan) = match &pass.wanted {
                Some((wanted, of_wanted)) if last => {
                    // Every row leaves its keys and values; from here on only what is wanted counts.
                    let [k, v] = layer.qkv.some(ops, &normed, 1, dim)?;
                    x = ops.gather(&x, wanted)?;
                    let [q] = layer.qkv.some(ops, &ops.gather(&normed, wanted)?, 0, dim)?;
                    ([q, k, v], of_wanted)
                }
                _ => (layer.qkv.all(ops, &normed, dim)?, &pass.all),
            };
            drop(normed);
            let norms = layer.head_norms.as_ref();
            let q = plan.rotate(ops, q, norms.map(|norms| (&norms.0, eps)))?;
            let k = pass.all.rotate(ops, k, norms.map(|norms| (&norms.1, eps)))?;
            let sides = match &pass.keys {
                Some(rows) => [self.ops.gather(&k, rows)?, self.ops.gather(&v, rows)?],
                None => [k, v],
            };
            self.attend(layer, number, &q, &sides, plan, batch)?
        };
        let (x, normed) = ops.add_norm(attended, &x, &layer.post_norm, eps)?;
        let [gate, up] = layer.gate_up.all(ops, &normed, 1)?;
        drop(normed);
        let out = ops.linear(&ops.gated(gate, &up)?, &layer.down)?;
        let Some(features) = features else {
            return ops.add_norm(out, &x, self.norm_before(number + 1), eps);
        };
        let x = ops.index_add(ops.add(out, &x)?, &pass.visual, features)?;
        let normed = self.input_norm(number + 1, &x)?;
        Ok((x, normed))
    }

    /// Logits (rows, vocabulary) of hidden states.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn logits(&self, hidden: &O::Tensor) -> Result<O::Tensor, Error> {
        self.ops.linear(hidden, &self.text.head)
    }

    /// Token embeddings (rows, hidden) with visual features in the places of their placeholders.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn embed(&self, batch: &[Rows<'_, O::Tensor>]) -> Result<O::Tensor, Error> {
        let (ops, visual) = (&self.ops, Visual::of(batch));
        let ids: Vec<u32> = batch.iter().flat_map(|rows| rows.ids).copied().collect();
        if visual.places.is_empty() {
            return ops.gather(&self.text.embeddings, &ids);
        }
        // Text rows, then visual rows, then one gather that puts them in order.
        let mut order = vec![0; ids.len()];
        let mut is_visual = vec![false; ids.len()];
        for &place in &visual.places {
            is_visual[place as usize] = true;
        }
        let mut text_ids = Vec::with_capacity(ids.len());
        for (row, &id) in ids.iter().enumerate().filter(|(row, _)| !is_visual[*row]) {
            order[row] = text_ids.len() as u32;
            text_ids.push(id);
        }
        for (number, &place) in visual.places.iter().enumerate() {
            order[place as usize] = (text_ids.len() + number) as u32;
        }
        let mut parts: Vec<O::Tensor> =
            visual.features.iter().map(|features| features.merged.clone()).collect();
        if !text_ids.is_empty() {
            parts.insert(0, ops.gather(&self.text.embeddings, &text_ids)?);
        }
        ops.gather(&ops.cat(&parts)?, &order)
    }

    /// Attention of each sequence to its own keys, old and new; the new ones, k and v, go into the caches.
    fn attend(
        &self,
        layer: &Layer<O::Tensor>,
        number: usize,
        q: &O::Tensor,
        [k, v]: &[O::Tensor; 2],
        plan: &PassPlan<O>,
        batch: &[Rows<'_, O::Tensor>],
    ) -> Result<O::Tensor, Error> {
        let (ops, text) = (&self.ops, &self.config.text);
        let output = if batch.iter().all(|rows| rows.cache.is_none()) {
            ops.attention(q, KvSource::Packed(k, v), &plan.attention)?
        } else {
            let (mut keys, mut start) = (Vec::with_capacity(batch.len()), 0);
            for rows in batch {
                let new = rows.ids.len();
                let (k, v) = (ops.narrow(k, 0, start, new)?, ops.narrow(v, 0, start, new)?);
                keys.push(match &rows.cache {
                    Some(cache) => cache.extend(ops, number, &k, &v)?,
                    None => (k, v),
                });
                start += new;
            }
            ops.attention(q, KvSource::Cached(&keys), &plan.attention)?
        };
        let rows = ops.shape(&output)[0];
        let output = ops.reshape(&output, &[rows, text.num_attention_heads * text.head_dim])?;
        ops.linear(&output, &layer.output)
    }
}
