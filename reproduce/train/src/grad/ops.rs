//! The models' arithmetic with gradients.

use std::sync::Arc;

use super::attention::{self, GradPlan};
use candle_core::{DType, Device, Tensor};
use paravt_backend_candle::tensor::{self, fail};
use paravt_qwen_vl::Error;
use paravt_qwen_vl::ops::{Activation, KvSource, Linear, Ops, Segment};
use paravt_qwen_vl::weights::TensorView;

use crate::compute::Compute;
use crate::parameters::Parameters;

type Result<T> = std::result::Result<T, Error>;

/// Scores of composed attention that are made at a time.
pub(crate) const SCORES: usize = 1 << 25;

/// Differentiable arithmetic; weights become f32 parameters when a model is loaded.
pub(crate) struct GradOps {
    device: Device,
    dtype: DType,
    parameters: Arc<Parameters>,
}

impl GradOps {
    /// Arithmetic where a trainer computes.
    pub(crate) fn new(compute: &Compute, parameters: Arc<Parameters>) -> Self {
        Self { device: compute.device.clone(), dtype: tensor::dtype(compute.precision), parameters }
    }
}

impl Ops for GradOps {
    type Tensor = Tensor;
    type Plan = GradPlan;
    type Rotary = (Tensor, Tensor);

    paravt_backend_candle::tensor_moves!();

    fn weight(&self, view: &TensorView<'_>, shape: &[usize]) -> Result<Tensor> {
        self.parameters.get_or_read(view, shape).map(|found| found.var.as_tensor().clone()).map_err(fail)
    }

    fn linear(&self, x: &Tensor, linear: &Linear<Tensor>) -> Result<Tensor> {
        let bias = linear.bias.as_ref().map(|bias| self.parameters.narrow(bias));
        super::linear(x, &self.parameters.narrow(&linear.weight), bias.as_ref()).map_err(fail)
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
        super::rms_norm(x, &self.parameters.narrow(weight), eps as f32).map_err(fail)
    }

    fn layer_norm(&self, x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
        let (weight, bias) = (self.parameters.narrow(weight), self.parameters.narrow(bias));
        super::layer_norm(x, &weight, &bias, eps as f32).map_err(fail)
    }

    fn activate(&self, x: Tensor, activation: Activation) -> Result<Tensor> {
        match activation {
            Activation::Silu => x.silu(),
            Activation::Gelu => super::gelu(&x),
            Activation::GeluTanh => super::gelu_tanh(&x),
        }
        .map_err(fail)
    }

    fn gated(&self, gate: Tensor, up: &Tensor) -> Result<Tensor> {
        super::gated(&gate, up).map_err(fail)
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
        let table = |values: Vec<f32>| {
            let rows = values.len() / dim;
            Tensor::from_vec(values, (rows, dim), &self.device).map_err(fail)
        };
        Ok((table(cos)?, table(sin)?))
    }

    fn rotate(&self, x: Tensor, (cos, sin): &(Tensor, Tensor)) -> Result<Tensor> {
        super::rotate(&x, cos, sin).map_err(fail)
    }

    fn plan(&self, segments: &[Segment], causal: bool) -> Result<GradPlan> {
        Ok(GradPlan::new(segments, causal, &self.device, self.dtype, SCORES))
    }

    fn attention(&self, q: &Tensor, keys: KvSource<'_, Tensor>, plan: &GradPlan) -> Result<Tensor> {
        attention::attention(q, keys, plan).map_err(fail)
    }

    fn write(&self, buffer: &Tensor, at: usize, rows: &Tensor) -> Result<()> {
        rows.contiguous().and_then(|rows| buffer.slice_set(&rows, 0, at)).map_err(fail)
    }
}
