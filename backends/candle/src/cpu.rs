//! The models' arithmetic on candle tensors.

use std::sync::Arc;

use candle_core::{CpuStorage, D, DType, Device, InplaceOp1, Layout, Storage, Tensor};
use candle_nn::ops;
use paravt_kernels::{self as kernels, GEMV_MAX_M, Heads, SeqLens, Strided, Weight, elementwise};
use paravt_qwen_vl::Error;
use paravt_qwen_vl::ops::{Activation, Linear, Ops, Precision, Segment};
use paravt_qwen_vl::weights::{Dtype, View};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::grad;
use crate::parameters::Parameters;

/// candle on one device.
pub struct CandleOps {
    device: Device,
    dtype: DType,
    purpose: Purpose,
    /// See [`CandleOps::with_threads`].
    threads: Option<ThreadPool>,
    /// Rows of a product up to which each row's result is the same, whatever rows it is computed with.
    invariant_rows: usize,
}

/// Where and in what a trainer computes. The weights themselves, their gradients and the optimiser's
/// state are f32 whatever the precision: a step is far smaller than the last bit of a bfloat16 weight.
#[derive(Debug, Clone)]
pub struct Compute {
    /// The one device.
    pub device: Device,
    /// Of activations, and of weights where they are multiplied.
    pub precision: Precision,
}

impl Compute {
    /// In f32 on the CPU.
    pub fn cpu() -> Self {
        Self { device: Device::Cpu, precision: Precision::F32 }
    }
}

impl std::fmt::Display for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", if self.device.is_cpu() { "cpu" } else { "cuda" }, self.precision.as_str())
    }
}

/// What the arithmetic is for.
enum Purpose {
    /// Weights are constants; kernels need no backward pass.
    Inference,
    /// The same with the weights of a trainer.
    Rollouts(Arc<Parameters>),
    /// Every operation is differentiable.
    Training(Arc<Parameters>),
}

/// Most rollouts that decode together.
pub const ROLLOUTS: usize = 64;

type Result<T> = std::result::Result<T, Error>;

/// candle's own error texts name shapes and types.
fn fail(error: candle_core::Error) -> Error {
    Error::compute(format!("candle: {error}"))
}

impl CandleOps {
    /// Arithmetic in a precision on a device.
    pub fn new(device: Device, precision: Precision) -> Self {
        Self {
            device,
            dtype: dtype(precision),
            purpose: Purpose::Inference,
            threads: None,
            invariant_rows: GEMV_MAX_M,
        }
    }

    /// Differentiable arithmetic; weights become f32 parameters when a model is loaded.
    pub fn training(compute: &Compute, parameters: Arc<Parameters>) -> Self {
        let (device, dtype) = (compute.device.clone(), dtype(compute.precision));
        Self {
            device,
            dtype,
            purpose: Purpose::Training(parameters),
            threads: None,
            invariant_rows: GEMV_MAX_M,
        }
    }

    /// Arithmetic of inference with a trainer's weights.
    pub fn sharing(compute: &Compute, parameters: Arc<Parameters>) -> Self {
        let (device, dtype) = (compute.device.clone(), dtype(compute.precision));
        Self {
            device,
            dtype,
            purpose: Purpose::Rollouts(parameters),
            threads: None,
            invariant_rows: ROLLOUTS,
        }
    }

    /// Sequences that decode together have the answers that each has alone (on the CPU, in f32 and bf16; elsewhere
    /// only one decodes at a time, see [`CandleOps::invariant_batch`]).
    #[must_use]
    pub fn batch_invariant(self) -> Self {
        Self { invariant_rows: ROLLOUTS, ..self }
    }

    /// Most sequences that may decode together where an answer may not depend on the others.
    pub fn invariant_batch(device: &Device, precision: Precision) -> usize {
        if device.is_cpu() && precision != Precision::F16 { ROLLOUTS } else { 1 }
    }

    /// On the CPU, makes the calling thread, which is to do the arithmetic, one of a pool of its own, for as
    /// long as it lives. A kernel that is asked for from outside of a pool wakes two threads and sleeps
    /// itself, thousands of times a prompt.
    ///
    /// # Errors
    /// No threads, or the calling one has a pool already.
    pub fn with_threads(mut self) -> Result<Self> {
        if !self.device.is_cpu() {
            return Ok(self);
        }
        let pool = ThreadPoolBuilder::new().num_threads(rayon::current_num_threads()).use_current_thread();
        self.threads = Some(pool.build().map_err(|error| Error::Compute(format!("threads: {error}")))?);
        Ok(self)
    }
}

fn dtype(precision: Precision) -> DType {
    match precision {
        Precision::F32 => DType::F32,
        Precision::Bf16 => DType::BF16,
        Precision::F16 => DType::F16,
    }
}

impl CandleOps {
    /// A weight in the engine's precision: a trainer's is f32.
    fn cast(&self, weight: &Tensor) -> Result<Tensor> {
        weight.to_dtype(self.dtype).map_err(fail)
    }

    /// Whether the kernels of this crate are to be used.
    fn on_cpu(&self) -> bool {
        !self.trains() && self.device.is_cpu()
    }

    /// Whether gradients are asked for.
    fn trains(&self) -> bool {
        matches!(self.purpose, Purpose::Training(_))
    }

    /// A kernel's result in the engine's precision.
    fn wrap(&self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        Tensor::from_vec(values, shape, &self.device).and_then(|x| x.to_dtype(self.dtype)).map_err(fail)
    }
}

impl CandleOps {
    /// x (n, k) by a matrix (out, k) where a kernel of this crate does it better.
    fn product(&self, x: &Tensor, linear: &Linear<Tensor>) -> Result<Option<Tensor>> {
        if !self.on_cpu() || self.dtype == DType::F16 {
            return Ok(None);
        }
        let w = &linear.weight;
        let (n, (out, k)) = (x.dims()[0], w.dims2().map_err(fail)?);
        let max_m = self.invariant_rows;
        let mut product = with_values(x, |x| with_weight(w, |w| Ok(kernels::linear(x, w, k, out, max_m))))?;
        if let Some(bias) = &linear.bias {
            with_values(bias, |bias| {
                elementwise::add_bias(&mut product, bias);
                Ok(())
            })?;
        }
        self.wrap(product, &[n, out]).map(Some)
    }
}

impl CandleOps {
    /// Runs a kernel on a tensor's own values on the CPU: from the first on, rows as far apart as the kernel
    /// is told.
    fn in_place(&self, x: &Tensor, kernel: impl Fn(&mut [f32], usize)) -> Result<Tensor> {
        let changed = || {
            let x = rows_together(x)?;
            x.inplace_op1(&InPlace(kernel))?;
            x.to_dtype(self.dtype)
        };
        changed().map_err(fail)
    }
}

/// The same values one after the other.
fn whole(x: &Tensor) -> Result<Tensor> {
    x.contiguous().map_err(fail)
}

/// A tensor that a kernel may write over while it reads others: a copy where one of those has the same storage.
fn apart(x: Tensor, others: &[&Tensor]) -> Result<Tensor> {
    if others.iter().any(|other| shares(&x, other)) { x.copy().map_err(fail) } else { Ok(x) }
}

/// Whether two tensors are views of one storage.
fn shares(a: &Tensor, b: &Tensor) -> bool {
    let address = |tensor: &Tensor| std::ptr::from_ref::<Storage>(&tensor.storage_and_layout().0);
    address(a) == address(b)
}

/// Two tensors of one shape, as kernels of two expect.
fn alike(x: &Tensor, y: &Tensor) -> Result<()> {
    if x.dims() == y.dims() {
        return Ok(());
    }
    Err(Error::Compute(format!("shapes differ: {:?} and {:?}", x.dims(), y.dims())))
}

/// A kernel that gets the values of a tensor and how far its rows are apart.
struct InPlace<F>(F);

impl<F: Fn(&mut [f32], usize)> InplaceOp1 for InPlace<F> {
    fn name(&self) -> &'static str {
        "in place"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        let CpuStorage::F32(values) = storage else {
            candle_core::bail!("a kernel got values that are not f32")
        };
        (self.0)(&mut values[span(layout)], layout.stride().first().copied().unwrap_or(1));
        Ok(())
    }
}

/// From a tensor's first value to its last; nothing of one without values.
fn span(layout: &Layout) -> std::ops::Range<usize> {
    let start = layout.start_offset();
    if layout.shape().elem_count() == 0 {
        return start..start;
    }
    let steps = layout.dims().iter().zip(layout.stride());
    let last: usize = steps.map(|(size, stride)| (size - 1) * stride).sum();
    start..start + last + 1
}

/// In f32, the values of each row one after the other; rows may be apart.
fn rows_together(x: &Tensor) -> candle_core::Result<Tensor> {
    let x = x.to_dtype(DType::F32)?;
    if x.narrow(0, 0, x.dim(0)?.min(1))?.is_contiguous() { Ok(x) } else { x.contiguous() }
}

/// Runs a kernel on the rows of a tensor (n, heads, dim) on the CPU.
fn with_rows<R>(x: &Tensor, kernel: impl FnOnce(Strided<'_>) -> Result<R>) -> Result<R> {
    let x = rows_together(x).map_err(fail)?;
    let (storage, layout) = x.storage_and_layout();
    let Storage::Cpu(CpuStorage::F32(values)) = &*storage else {
        return Err(Error::Compute("values are not on the CPU".to_owned()));
    };
    kernel(Strided { values: &values[span(layout)], row_stride: x.stride()[0] })
}

/// The sequences of a batch, as the kernels name them.
pub(crate) fn seq_lens(segments: &[Segment]) -> Vec<SeqLens> {
    segments.iter().map(|segment| SeqLens { queries: segment.queries, keys: segment.keys }).collect()
}

/// Runs a kernel on the values of a tensor on the CPU.
fn with_values<R>(x: &Tensor, kernel: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    let x = x.to_dtype(DType::F32).and_then(|x| x.contiguous()).map_err(fail)?;
    let (storage, layout) = x.storage_and_layout();
    let Storage::Cpu(CpuStorage::F32(values)) = &*storage else {
        return Err(Error::Compute("values are not on the CPU".to_owned()));
    };
    kernel(&values[layout.start_offset()..][..x.elem_count()])
}

/// Runs a kernel on a matrix as it is stored.
fn with_weight<R>(w: &Tensor, kernel: impl FnOnce(Weight<'_>) -> Result<R>) -> Result<R> {
    if w.dtype() != DType::BF16 {
        return with_values(w, |values| kernel(Weight::F32(values)));
    }
    let w = w.contiguous().map_err(fail)?;
    let (storage, layout) = w.storage_and_layout();
    let Storage::Cpu(CpuStorage::BF16(values)) = &*storage else {
        return Err(Error::Compute("weights are not on the CPU".to_owned()));
    };
    kernel(Weight::Bf16(&values[layout.start_offset()..][..w.elem_count()]))
}

impl Ops for CandleOps {
    type Tensor = Tensor;

    fn weight(&self, view: &View<'_>, shape: &[usize]) -> Result<Tensor> {
        let dtype = match view.dtype {
            Dtype::BF16 => DType::BF16,
            Dtype::F16 => DType::F16,
            _ => DType::F32,
        };
        let read = || Tensor::from_raw_buffer(view.data, dtype, shape, &self.device);
        if let Purpose::Training(parameters) | Purpose::Rollouts(parameters) = &self.purpose {
            let tensor = parameters
                .get_or_add(view.name, view.shape, || read()?.to_dtype(DType::F32))
                .map_err(fail)?;
            return Ok(if self.trains() { tensor } else { tensor.detach() });
        }
        let tensor = read().map_err(fail)?;
        // bfloat16 matrices stay as published: half the memory and half the time to read them, and their
        // values are f32 values already.
        let stays = self.on_cpu() && dtype == DType::BF16 && shape.len() > 1;
        if stays { Ok(tensor) } else { tensor.to_dtype(self.dtype).map_err(fail) }
    }

    fn upload(&self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        self.upload_f32(values, shape)?.to_dtype(self.dtype).map_err(fail)
    }

    fn upload_f32(&self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        Tensor::from_vec(values, shape, &self.device).map_err(fail)
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
        if let Some(product) = self.product(x, linear)? {
            return Ok(product);
        }
        let weight = self.cast(&linear.weight)?;
        let bias = linear.bias.as_ref().map(|bias| self.cast(bias)).transpose()?;
        if self.trains() {
            return grad::linear(x, &weight, bias.as_ref()).map_err(fail);
        }
        let product = weight.t().and_then(|weight| x.matmul(&weight)).map_err(fail)?;
        match bias {
            Some(bias) => product.broadcast_add(&bias).map_err(fail),
            None => Ok(product),
        }
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
        if self.trains() {
            return grad::rms_norm(x, &self.cast(weight)?, eps as f32).map_err(fail);
        }
        if self.on_cpu() {
            let normed =
                |x: &[f32]| with_values(weight, |weight| Ok(elementwise::rms_norm(x, weight, eps as f32)));
            return self.wrap(with_values(x, normed)?, x.dims());
        }
        let weight = self.cast(weight)?;
        x.contiguous().and_then(|x| ops::rms_norm(&x, &weight, eps as f32)).map_err(fail)
    }

    fn layer_norm(&self, x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
        if self.trains() {
            let (weight, bias) = (self.cast(weight)?, self.cast(bias)?);
            return grad::layer_norm(x, &weight, &bias, eps as f32).map_err(fail);
        }
        if self.on_cpu() {
            let normed = with_values(x, |x| {
                with_values(weight, |weight| {
                    with_values(bias, |bias| Ok(elementwise::layer_norm(x, weight, bias, eps as f32)))
                })
            });
            return self.wrap(normed?, x.dims());
        }
        let (weight, bias) = (self.cast(weight)?, self.cast(bias)?);
        x.contiguous().and_then(|x| ops::layer_norm(&x, &weight, &bias, eps as f32)).map_err(fail)
    }

    fn activate(&self, x: Tensor, activation: Activation) -> Result<Tensor> {
        match activation {
            Activation::GeluTanh if self.on_cpu() => {
                return self.in_place(&whole(&x)?, |x, _| elementwise::gelu_tanh(x));
            }
            Activation::Gelu if self.on_cpu() => {
                return self.in_place(&whole(&x)?, |x, _| elementwise::gelu(x));
            }
            Activation::GeluTanh if self.trains() => grad::gelu_tanh(&x),
            Activation::Gelu if self.trains() => grad::gelu(&x),
            Activation::Silu => x.silu(),
            Activation::Gelu => x.gelu_erf(),
            Activation::GeluTanh => x.gelu(),
        }
        .map_err(fail)
    }

    fn gated(&self, gate: Tensor, up: &Tensor) -> Result<Tensor> {
        if self.trains() {
            return grad::gated(&gate, up).map_err(fail);
        }
        if self.on_cpu() {
            let gate = apart(whole(&gate)?, &[up])?;
            alike(&gate, up)?;
            return with_values(up, |up| self.in_place(&gate, |gate, _| elementwise::silu_mul(gate, up)));
        }
        gate.silu().and_then(|gate| gate.mul(up)).map_err(fail)
    }

    fn add(&self, x: Tensor, y: &Tensor) -> Result<Tensor> {
        if self.on_cpu() {
            let x = apart(whole(&x)?, &[y])?;
            alike(&x, y)?;
            return with_values(y, |y| self.in_place(&x, |x, _| elementwise::add(x, y)));
        }
        x.add(y).map_err(fail)
    }

    fn add_rows(&self, x: Tensor, places: &[u32], values: &Tensor) -> Result<Tensor> {
        if self.on_cpu() {
            let (rows, width) = values.dims2().map_err(fail)?;
            let (most, across) = x.dims2().map_err(fail)?;
            if rows != places.len() || width != across || places.iter().any(|&place| place as usize >= most) {
                let shapes = format!("{:?} to {} rows of {:?}", values.dims(), places.len(), x.dims());
                return Err(Error::Compute(format!("rows cannot be added: {shapes}")));
            }
            let x = apart(x, &[values])?;
            return with_values(values, |values| {
                self.in_place(&x, |x, stride| {
                    for (&place, values) in places.iter().zip(values.chunks(width)) {
                        elementwise::add_to_row(&mut x[place as usize * stride..][..width], values);
                    }
                })
            });
        }
        let places = Tensor::from_slice(places, places.len(), &self.device).map_err(fail)?;
        x.index_add(&places, values, 0).map_err(fail)
    }

    fn weighted_rows(&self, table: &Tensor, ids: &[u32], weights: &[f32], taps: usize) -> Result<Tensor> {
        let count = ids.len() / taps;
        if self.on_cpu() {
            let (most, width) = table.dims2().map_err(fail)?;
            if let Some(id) = ids.iter().find(|id| **id as usize >= most) {
                return Err(Error::Compute(format!("row {id} of a table of {most}")));
            }
            let sums = with_weight(table, |table| {
                Ok(match table {
                    Weight::F32(table) => elementwise::embedding_bag(table, width, ids, weights, taps),
                    Weight::Bf16(table) => elementwise::embedding_bag(table, width, ids, weights, taps),
                })
            });
            return self.wrap(sums?, &[count, width]);
        }
        let sum = || {
            let ids = Tensor::from_slice(ids, ids.len(), &self.device)?;
            let weights = Tensor::from_slice(weights, (count, taps, 1), &self.device)?;
            let rows = table.index_select(&ids, 0)?.to_dtype(DType::F32)?;
            let rows = rows.reshape((count, taps, rows.dim(D::Minus1)?))?;
            rows.broadcast_mul(&weights)?.sum(1)?.to_dtype(self.dtype)
        };
        sum().map_err(fail)
    }

    fn rotate(&self, x: Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        if self.trains() {
            return grad::rotate(&x, cos, sin).map_err(fail);
        }
        if self.on_cpu() {
            let (_, heads, dim) = x.dims3().map_err(fail)?;
            let x = apart(x, &[cos, sin])?;
            return with_values(cos, |cos| {
                with_values(sin, |sin| {
                    self.in_place(&x, |x, stride| elementwise::rope(x, stride, cos, sin, heads, dim))
                })
            });
        }
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
        if self.on_cpu() {
            let ((_, queries, dim), (_, keys, _)) = (q.dims3().map_err(fail)?, k.dims3().map_err(fail)?);
            let heads = Heads { query: queries, kv: keys, dim };
            let seqs = seq_lens(segments);
            let found = with_rows(q, |q| {
                with_rows(k, |k| with_rows(v, |v| Ok(kernels::attention([q, k, v], heads, &seqs, causal))))
            });
            return self.wrap(found?, q.dims());
        }
        if self.trains() {
            return grad::attention(q, k, v, segments, causal).map_err(fail);
        }
        grad::by_segment(q, k, v, segments, |q, k, v| attend(q, k, v, causal)).map_err(fail)
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

    fn buffer(&self, shape: [usize; 3]) -> Result<Tensor> {
        Tensor::zeros(&shape, self.dtype, &self.device).map_err(fail)
    }

    fn write(&self, buffer: &Tensor, at: usize, rows: &Tensor) -> Result<()> {
        if self.on_cpu() && self.dtype == DType::F32 {
            let place = buffer.narrow(0, at, rows.dims()[0]).map_err(fail)?;
            alike(&place, rows)?;
            if shares(&place, rows) {
                return Err(Error::Compute(
                    "rows of a buffer cannot be written into the same buffer".to_owned(),
                ));
            }
            return with_values(rows, |rows| {
                self.in_place(&place, |place, _| elementwise::copy(place, rows)).map(drop)
            });
        }
        buffer.slice_set(&whole(rows)?, 0, at).map_err(fail)
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
