//! The models' arithmetic by candle's own operations: on a GPU, or on any device that candle has.

use candle_core::{DType, Device, Tensor};
use candle_nn::ops;
use paravt_qwen_vl::ops::{Activation, KvSource, Linear, Ops, Precision, Segment};
use paravt_qwen_vl::weights::View;

use crate::tensor::{self, Result, Run, WeightSource, fail};

/// candle's own operations on one device.
pub struct ComposedOps {
    device: Device,
    dtype: DType,
    weights: Option<WeightSource>,
}

impl ComposedOps {
    /// Arithmetic in a precision on a device.
    pub fn new(device: Device, precision: Precision) -> Self {
        Self { device, dtype: tensor::dtype(precision), weights: None }
    }

    /// Takes weights from elsewhere than the checkpoint.
    #[must_use]
    pub fn with_weights(self, source: Option<WeightSource>) -> Self {
        Self { weights: source, ..self }
    }

    /// A weight in the engine's precision: one from elsewhere has its own.
    fn cast(&self, weight: &Tensor) -> Result<Tensor> {
        weight.to_dtype(self.dtype).map_err(fail)
    }
}

impl Ops for ComposedOps {
    type Tensor = Tensor;
    type Plan = Vec<Run>;

    crate::tensor_moves!();

    fn weight(&self, view: &View<'_>, shape: &[usize]) -> Result<Tensor> {
        if let Some(source) = &self.weights {
            return source(view, shape);
        }
        self.cast(&tensor::read(view, shape, &self.device).map_err(fail)?)
    }

    fn linear(&self, x: &Tensor, linear: &Linear<Tensor>) -> Result<Tensor> {
        let weight = self.cast(&linear.weight)?;
        let product = weight.t().and_then(|weight| x.matmul(&weight)).map_err(fail)?;
        match &linear.bias {
            Some(bias) => product.broadcast_add(&self.cast(bias)?).map_err(fail),
            None => Ok(product),
        }
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
        let weight = self.cast(weight)?;
        x.contiguous().and_then(|x| ops::rms_norm(&x, &weight, eps as f32)).map_err(fail)
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

    fn rotate(&self, x: Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        let rotate = || {
            let half = cos.dim(1)? / 2;
            let (cos, sin) = (cos.narrow(1, 0, half)?.contiguous()?, sin.narrow(1, 0, half)?.contiguous()?);
            let x = x.to_dtype(DType::F32)?.unsqueeze(0)?.contiguous()?;
            candle_nn::rotary_emb::rope_thd(&x, &cos, &sin)?.squeeze(0)?.to_dtype(self.dtype)
        };
        rotate().map_err(fail)
    }

    fn plan(&self, segments: &[Segment], causal: bool) -> Result<Vec<Run>> {
        tensor::plan(segments, causal, &self.device).map_err(fail)
    }

    fn attention(&self, q: &Tensor, keys: KvSource<'_, Tensor>, plan: &Vec<Run>) -> Result<Tensor> {
        tensor::attention(q, keys, plan, ops::softmax_last_dim).map_err(fail)
    }

    fn write(&self, buffer: &Tensor, at: usize, rows: &Tensor) -> Result<()> {
        rows.contiguous().and_then(|rows| buffer.slice_set(&rows, 0, at)).map_err(fail)
    }
}
