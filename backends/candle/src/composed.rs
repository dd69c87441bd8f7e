//! The models' arithmetic by candle's own operations, on any device that candle has; on a GPU in bf16 with kernels of ours
//! in the place of the slowest.

use std::sync::{Mutex, PoisonError};

use candle_core::{DType, Device, Tensor};
use candle_nn::ops;
use paravt_qwen_vl::Error;
use paravt_qwen_vl::ops::{Activation, KvSource, Linear, Ops, PassLimits, Precision, Segment};
use paravt_qwen_vl::processor::Scale;
use paravt_qwen_vl::sampling::Draw;
use paravt_qwen_vl::weights::TensorView;

use crate::fused::{AttentionPlan, Fused};
use crate::tensor::{self, MAX_ELEMENTS, Result, WeightSource, fail};

/// candle's own operations on one device.
pub struct ComposedOps {
    device: Device,
    dtype: DType,
    weights: Option<WeightSource>,
    /// Maximum scores of attention at a time.
    scores: usize,
    /// Token ids, on the device once they were needed.
    ids: Mutex<Option<Tensor>>,
    fused: Option<Fused>,
}

/// The sequences of a pass, for one of two kinds of attention.
pub enum Plan {
    /// By candle's operations.
    Composed(tensor::Plan),
    /// By a kernel of ours.
    Fused(AttentionPlan),
}

impl ComposedOps {
    /// Of passes on a GPU: enough rows for its matrix units, and scores that take 1.5 GiB.
    pub const LIMITS: PassLimits = PassLimits { tokens: 2048, patches: 8192, scores: 1 << 27 };

    /// The same with kernels of ours.
    pub(crate) const FUSED: PassLimits = PassLimits { scores: 0, ..Self::LIMITS };

    /// Arithmetic in a precision on a device.
    pub fn new(device: Device, precision: Precision) -> Self {
        Self {
            device,
            dtype: tensor::dtype(precision),
            weights: None,
            scores: MAX_ELEMENTS,
            ids: Mutex::new(None),
            fused: None,
        }
    }

    /// With kernels of ours, in bf16: they compute in no other precision.
    #[must_use]
    pub fn with_fused(self, fused: Option<Fused>) -> Self {
        let fused = fused.filter(|_| self.dtype == DType::BF16);
        Self { fused, ..self }
    }

    /// Attention makes at most so many scores at a time, but those of a query.
    #[must_use]
    pub fn with_scores(self, scores: usize) -> Self {
        Self { scores, ..self }
    }

    /// See [`Self::LIMITS`]; kernels of ours hold no scores.
    pub fn limits(&self) -> PassLimits {
        if self.fused.is_some() { Self::FUSED } else { Self::LIMITS }
    }

    /// Takes weights from elsewhere than the checkpoint.
    #[must_use]
    pub fn with_weights(self, source: Option<WeightSource>) -> Self {
        Self { weights: source, ..self }
    }

    /// Of each row of logits (n, vocabulary): the first largest, its log-probability, and 0 if all are finite, as (n, 3).
    fn likeliest(&self, logits: &Tensor) -> candle_core::Result<Tensor> {
        let logits = logits.to_dtype(DType::F32)?;
        let (n, vocabulary) = logits.dims2()?;
        let ids = self.ids(vocabulary)?.broadcast_as((n, vocabulary))?;
        let largest = logits.max_keepdim(1)?;
        let past = Tensor::full(f32::MAX, (n, vocabulary), &self.device)?;
        let places = logits.broadcast_eq(&largest)?.where_cond(&ids, &past)?;
        let sum = logits.broadcast_sub(&largest)?.exp()?.sum_keepdim(1)?;
        let wrong = (&logits * 0.0)?.sum_keepdim(1)?;
        Tensor::cat(&[places.min_keepdim(1)?, sum.log()?.neg()?, wrong], 1)
    }

    /// 0, 1, 2, ... (1, vocabulary): whole numbers are exact in f32 far beyond a vocabulary.
    fn ids(&self, vocabulary: usize) -> candle_core::Result<Tensor> {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        match &*ids {
            Some(ids) if ids.dim(1)? == vocabulary => Ok(ids.clone()),
            _ => {
                let made = Tensor::arange(0f32, vocabulary as f32, &self.device)?.unsqueeze(0)?;
                Ok(ids.insert(made).clone())
            }
        }
    }

    /// A weight in the engine's precision: one from elsewhere has its own.
    fn cast(&self, weight: &Tensor) -> Result<Tensor> {
        weight.to_dtype(self.dtype).map_err(fail)
    }
}

impl Ops for ComposedOps {
    type Tensor = Tensor;
    type Plan = Plan;
    /// Cosines and sines (n, dim / 2).
    type Rotary = (Tensor, Tensor);

    crate::tensor_moves!();

    /// Bytes travel, a quarter of the values.
    fn upload_patches(&self, bytes: &[u8], scale: Scale, shape: [usize; 2]) -> Result<Tensor> {
        let normalised = || {
            let [n, width] = shape;
            let channel = |values: [f32; 3]| Tensor::new(&values, &self.device)?.reshape((1, 3, 1));
            let bytes = Tensor::from_slice(bytes, (n, 3, width / 3), &self.device)?.to_dtype(DType::F32)?;
            let values = bytes.broadcast_sub(&channel(scale.mean)?)?.broadcast_div(&channel(scale.std)?)?;
            values.reshape((n, width))?.to_dtype(self.dtype)
        };
        normalised().map_err(fail)
    }

    fn weight(&self, view: &TensorView<'_>, shape: &[usize]) -> Result<Tensor> {
        if let Some(source) = &self.weights {
            return source(view, shape);
        }
        self.cast(&tensor::read(view, shape, &self.device).map_err(fail)?)
    }

    fn linear(&self, x: &Tensor, linear: &Linear<Tensor>) -> Result<Tensor> {
        let weight = self.cast(&linear.weight)?;
        let product = weight.t().and_then(|weight| x.matmul(&weight)).map_err(fail)?;
        match (&linear.bias, &self.fused) {
            (None, _) => Ok(product),
            (Some(bias), Some(fused)) => fused.add_bias(&product, &self.cast(bias)?).map_err(fail),
            (Some(bias), None) => product.broadcast_add(&self.cast(bias)?).map_err(fail),
        }
    }

    /// Not of weights from elsewhere: what is joined is a copy, which would not follow theirs.
    fn join(&self, parts: &[Linear<Tensor>]) -> Result<Option<Linear<Tensor>>> {
        let biased = parts.iter().filter(|part| part.bias.is_some()).count();
        if self.weights.is_some() || (biased != 0 && biased != parts.len()) {
            return Ok(None);
        }
        let weights: Vec<&Tensor> = parts.iter().map(|part| &part.weight).collect();
        let biases: Vec<&Tensor> = parts.iter().filter_map(|part| part.bias.as_ref()).collect();
        let weight = Tensor::cat(&weights, 0).map_err(fail)?;
        let bias = (biased > 0).then(|| Tensor::cat(&biases, 0)).transpose().map_err(fail)?;
        Ok(Some(Linear { weight, bias }))
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
        let weight = self.cast(weight)?;
        x.contiguous().and_then(|x| ops::rms_norm(&x, &weight, eps as f32)).map_err(fail)
    }

    fn add_norm(&self, x: Tensor, y: &Tensor, weight: &Tensor, eps: f64) -> Result<(Tensor, Tensor)> {
        if let Some(fused) = &self.fused {
            return fused.add_norm(&x, y, &self.cast(weight)?, eps).map_err(fail);
        }
        let sum = self.add(x, y)?;
        let normed = self.rms_norm(&sum, weight, eps)?;
        Ok((sum, normed))
    }

    fn norm_rotate(
        &self,
        x: Tensor,
        norm: Option<(&Tensor, f64)>,
        tables: &(Tensor, Tensor),
    ) -> Result<Tensor> {
        if let Some(fused) = &self.fused {
            let weight = norm.map(|(weight, eps)| Ok((self.cast(weight)?, eps))).transpose()?;
            let norm = weight.as_ref().map(|(weight, eps)| (weight, *eps));
            return fused.norm_rotate(&x, norm, &tables.0, &tables.1).map_err(fail);
        }
        let normed = norm.map(|(weight, eps)| self.rms_norm(&x, weight, eps)).transpose()?;
        self.rotate(normed.unwrap_or(x), tables)
    }

    fn layer_norm(&self, x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
        let (weight, bias) = (self.cast(weight)?, self.cast(bias)?);
        x.contiguous().and_then(|x| ops::layer_norm(&x, &weight, &bias, eps as f32)).map_err(fail)
    }

    fn activate(&self, x: Tensor, activation: Activation) -> Result<Tensor> {
        match activation {
            Activation::Silu => x.silu(),
            Activation::Gelu => x.gelu_erf(),
            Activation::GeluTanh => x.gelu(),
        }
        .map_err(fail)
    }

    fn gated(&self, gate: Tensor, up: &Tensor) -> Result<Tensor> {
        if let Some(fused) = &self.fused {
            return fused.gated(&gate, up).map_err(fail);
        }
        gate.silu().and_then(|gate| gate.mul(up)).map_err(fail)
    }

    fn add(&self, x: Tensor, y: &Tensor) -> Result<Tensor> {
        x.add(y).map_err(fail)
    }

    fn index_add(&self, x: Tensor, places: &[u32], values: &Tensor) -> Result<Tensor> {
        tensor::index_add(&x, places, values).map_err(fail)
    }

    fn embedding_bag(&self, table: &Tensor, ids: &[u32], weights: &[f32], taps: usize) -> Result<Tensor> {
        tensor::embedding_bag(table, ids, weights, taps, self.dtype).map_err(fail)
    }

    fn rotary(&self, cos: Vec<f32>, sin: Vec<f32>, dim: usize) -> Result<(Tensor, Tensor)> {
        let half = |table: Vec<f32>| {
            let values: Vec<f32> = table.chunks(dim).flat_map(|row| &row[..dim / 2]).copied().collect();
            Tensor::from_vec(values, (table.len() / dim, dim / 2), &self.device).map_err(fail)
        };
        Ok((half(cos)?, half(sin)?))
    }

    fn rotate(&self, x: Tensor, (cos, sin): &(Tensor, Tensor)) -> Result<Tensor> {
        let rotate = || {
            let x = x.to_dtype(DType::F32)?.unsqueeze(0)?.contiguous()?;
            candle_nn::rotary_emb::rope_thd(&x, cos, sin)?.squeeze(0)?.to_dtype(self.dtype)
        };
        rotate().map_err(fail)
    }

    fn plan(&self, segments: &[Segment], causal: bool) -> Result<Plan> {
        let plan = match &self.fused {
            Some(_) => AttentionPlan::new(segments, causal, &self.device).map(Plan::Fused),
            None => tensor::plan(segments, causal, self.scores, &self.device).map(Plan::Composed),
        };
        plan.map_err(fail)
    }

    fn attention(&self, q: &Tensor, keys: KvSource<'_, Tensor>, plan: &Plan) -> Result<Tensor> {
        match (plan, &self.fused) {
            (Plan::Composed(plan), _) => tensor::attention(q, keys, plan, ops::softmax_last_dim),
            (Plan::Fused(plan), Some(fused)) => fused.attention(q, keys, plan),
            (Plan::Fused(_), None) => return Err(Error::Compute("a plan of other kernels".to_owned())),
        }
        .map_err(fail)
    }

    fn sample(&self, logits: &Tensor, draws: &[Draw]) -> Result<Option<Vec<(u32, f32)>>> {
        if let Some(fused) = &self.fused {
            return fused.sample(logits, draws).map_err(fail);
        }
        if draws.iter().any(|draw| draw.temperature > 0.0) {
            return Ok(None);
        }
        let rows: Vec<Vec<f32>> = self.likeliest(logits).and_then(|found| found.to_vec2()).map_err(fail)?;
        let finite = rows.iter().all(|row| row[2] == 0.0);
        Ok(finite.then(|| rows.iter().map(|row| (row[0] as u32, row[1])).collect()))
    }

    fn write(&self, buffer: &Tensor, at: usize, rows: &Tensor) -> Result<()> {
        rows.contiguous().and_then(|rows| buffer.slice_set(&rows, 0, at)).map_err(fail)
    }
}
