//! The models' arithmetic on candle tensors.

use candle_core::{D, DType, Device, Tensor};
use candle_nn::ops;
use paravt_qwen_vl::Error;
use paravt_qwen_vl::ops::{Activation, Linear, Ops, Precision, Segment};
use paravt_qwen_vl::weights::{Dtype, View};

/// candle on one device.
pub struct CandleOps {
    device: Device,
    dtype: DType,
}

type Result<T> = std::result::Result<T, Error>;

/// candle's own error texts name shapes and types.
fn fail(error: candle_core::Error) -> Error {
    Error::Compute(format!("candle: {error}"))
}

impl CandleOps {
    /// Arithmetic in a precision on a device.
    pub fn new(device: Device, precision: Precision) -> Self {
        let dtype = match precision {
            Precision::F32 => DType::F32,
            Precision::Bf16 => DType::BF16,
            Precision::F16 => DType::F16,
        };
        Self { device, dtype }
    }
}

impl Ops for CandleOps {
    type Tensor = Tensor;

    fn weight(&self, view: &View<'_>, shape: &[usize]) -> Result<Tensor> {
        let dtype = match view.dtype {
            Dtype::BF16 => DType::BF16,
            Dtype::F16 => DType::F16,
            _ => DType::F32,
        };
        let tensor = Tensor::from_raw_buffer(view.data, dtype, shape, &self.device).map_err(fail)?;
        tensor.to_dtype(self.dtype).map_err(fail)
    }

    fn upload(&self, values: &[f32], shape: &[usize]) -> Result<Tensor> {
        self.upload_f32(values, shape)?.to_dtype(self.dtype).map_err(fail)
    }

    fn upload_f32(&self, values: &[f32], shape: &[usize]) -> Result<Tensor> {
        Tensor::from_slice(values, shape, &self.device).map_err(fail)
    }

    fn download(&self, x: &Tensor) -> Result<Vec<f32>> {
        let flat = x.to_dtype(DType::F32).and_then(|x| x.flatten_all());
        flat.and_then(|x| x.to_vec1()).map_err(fail)
    }

    fn shape(&self, x: &Tensor) -> Vec<usize> {
        x.dims().to_vec()
    }

    fn rows(&self, table: &Tensor, ids: &[u32]) -> Result<Tensor> {
        let ids = Tensor::from_slice(ids, ids.len(), &self.device).map_err(fail)?;
        table.index_select(&ids, 0).and_then(|x| x.to_dtype(self.dtype)).map_err(fail)
    }

    fn linear(&self, x: &Tensor, linear: &Linear<Tensor>) -> Result<Tensor> {
        let product = linear.weight.t().and_then(|weight| x.matmul(&weight)).map_err(fail)?;
        match &linear.bias {
            Some(bias) => product.broadcast_add(bias).map_err(fail),
            None => Ok(product),
        }
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
        x.contiguous().and_then(|x| ops::rms_norm(&x, weight, eps as f32)).map_err(fail)
    }

    fn layer_norm(&self, x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
        x.contiguous().and_then(|x| ops::layer_norm(&x, weight, bias, eps as f32)).map_err(fail)
    }

    fn activate(&self, x: &Tensor, activation: Activation) -> Result<Tensor> {
        match activation {
            Activation::Silu => x.silu(),
            Activation::Gelu => x.gelu_erf(),
            Activation::GeluTanh => x.gelu(),
        }
        .map_err(fail)
    }

    fn gated(&self, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        gate.silu().and_then(|gate| gate.mul(up)).map_err(fail)
    }

    fn add(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        a.add(b).map_err(fail)
    }

    fn add_rows(&self, x: &Tensor, places: &[u32], values: &Tensor) -> Result<Tensor> {
        let places = Tensor::from_slice(places, places.len(), &self.device).map_err(fail)?;
        x.index_add(&places, values, 0).map_err(fail)
    }

    fn weighted_rows(&self, table: &Tensor, ids: &[u32], weights: &[f32], taps: usize) -> Result<Tensor> {
        let count = ids.len() / taps;
        let sum = || {
            let ids = Tensor::from_slice(ids, ids.len(), &self.device)?;
            let weights = Tensor::from_slice(weights, (count, taps, 1), &self.device)?;
            let rows = table.index_select(&ids, 0)?.to_dtype(DType::F32)?;
            let rows = rows.reshape((count, taps, rows.dim(D::Minus1)?))?;
            rows.broadcast_mul(&weights)?.sum(1)?.to_dtype(self.dtype)
        };
        sum().map_err(fail)
    }

    fn rotate(&self, x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        let rotate = || {
            let half = cos.dim(1)? / 2;
            let (cos, sin) = (cos.narrow(1, 0, half)?.contiguous()?, sin.narrow(1, 0, half)?.contiguous()?);
            let x = x.to_dtype(DType::F32)?.unsqueeze(0)?.contiguous()?;
            candle_nn::rotary_emb::rope_thd(&x, &cos, &sin)?.squeeze(0)?.to_dtype(self.dtype)
        };
        rotate().map_err(fail)
    }

    fn attention(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        segments: &[Segment],
        causal: bool,
    ) -> Result<Tensor> {
        let (mut outputs, mut q_start, mut k_start) = (Vec::with_capacity(segments.len()), 0, 0);
        for segment in segments {
            let output = || {
                let q = q.narrow(0, q_start, segment.queries)?;
                let k = k.narrow(0, k_start, segment.keys)?;
                let v = v.narrow(0, k_start, segment.keys)?;
                attend(&q, &k, &v, causal)
            };
            outputs.push(output().map_err(fail)?);
            q_start += segment.queries;
            k_start += segment.keys;
        }
        self.cat(&outputs)
    }

    fn reshape(&self, x: &Tensor, shape: &[usize]) -> Result<Tensor> {
        x.reshape(shape).map_err(fail)
    }

    fn narrow(&self, x: &Tensor, axis: usize, start: usize, length: usize) -> Result<Tensor> {
        x.narrow(axis, start, length).map_err(fail)
    }

    fn cat(&self, parts: &[Tensor]) -> Result<Tensor> {
        if let [only] = parts { Ok(only.clone()) } else { Tensor::cat(parts, 0).map_err(fail) }
    }

    fn buffer(&self, capacity: usize, like: &Tensor) -> Result<Tensor> {
        let mut shape = like.dims().to_vec();
        shape[0] = capacity;
        Tensor::zeros(shape, like.dtype(), &self.device).map_err(fail)
    }

    fn write(&self, buffer: &Tensor, at: usize, rows: &Tensor) -> Result<()> {
        rows.contiguous().and_then(|rows| buffer.slice_set(&rows, 0, at)).map_err(fail)
    }
}

/// q (n, heads, dim), k and v (m, key heads, dim): (n, heads, dim). The last query sees all keys.
fn attend(q: &Tensor, k: &Tensor, v: &Tensor, causal: bool) -> candle_core::Result<Tensor> {
    let (queries, heads, dim) = q.dims3()?;
    let (keys, key_heads, _) = k.dims3()?;
    let group = heads / key_heads;
    // (key heads, group * n, dim): the queries of a group share one product with their keys.
    let grouped = q.reshape((queries, key_heads, group, dim))?.permute((1, 2, 0, 3))?.contiguous()?;
    let grouped = (grouped.reshape((key_heads, group * queries, dim))? * (dim as f64).powf(-0.5))?;
    let k = k.transpose(0, 1)?.contiguous()?;
    let v = v.transpose(0, 1)?.contiguous()?;
    let scores = grouped.matmul(&k.transpose(1, 2)?)?.to_dtype(DType::F32)?;
    let scores = if causal && queries > 1 {
        let offset = keys - queries;
        let row = |query: usize| {
            (0..keys).map(move |key| if key > query + offset { f32::NEG_INFINITY } else { 0.0 })
        };
        let mask: Vec<f32> = (0..queries).flat_map(row).collect();
        let mask = Tensor::from_vec(mask, (1, 1, queries, keys), q.device())?;
        scores.reshape((key_heads, group, queries, keys))?.broadcast_add(&mask)?.reshape((
            key_heads,
            group * queries,
            keys,
        ))?
    } else {
        scores
    };
    let shares = ops::softmax_last_dim(&scores)?.to_dtype(q.dtype())?;
    let output = shares.matmul(&v)?.reshape((key_heads, group, queries, dim))?;
    output.permute((2, 0, 1, 3))?.reshape((queries, heads, dim))
}
