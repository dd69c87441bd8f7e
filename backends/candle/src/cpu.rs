//! The models' arithmetic on candle tensors by the kernels of `paravt-kernels`.

use std::sync::Arc;

use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Storage, Tensor, WithDType};
use half::bf16;
use paravt_kernels::{self as kernels, GEMV_MAX_M, Heads, KvElement, SeqLens, Strided, Weight, elementwise};
use paravt_qwen_vl::Error;
use paravt_qwen_vl::ops::{Activation, KvSource, Linear, Ops, Precision, Segment};
use paravt_qwen_vl::weights::TensorView;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::tensor::{self, Result, WeightSource, fail};

/// Largest number of sequences that decode together, each with the bits of its own.
pub const INVARIANT_BATCH: usize = 64;

/// The kernels of this crate on the CPU.
pub struct CpuOps {
    device: Device,
    dtype: DType,
    weights: Option<WeightSource>,
    /// See [`CpuOps::with_threads`].
    threads: Option<ThreadPool>,
    /// Rows of a product up to which each row's result is the same, whatever rows it is computed with.
    invariant_rows: usize,
}

impl CpuOps {
    /// Arithmetic in a precision.
    pub fn new(precision: Precision) -> Self {
        let dtype = tensor::dtype(precision);
        Self { device: Device::Cpu, dtype, weights: None, threads: None, invariant_rows: GEMV_MAX_M }
    }

    /// Takes weights from elsewhere than the checkpoint.
    #[must_use]
    pub fn with_weights(self, source: Option<WeightSource>) -> Self {
        Self { weights: source, ..self }
    }

    /// Up to [`INVARIANT_BATCH`] sequences that decode together have the answers that each has alone, in f32 and bf16
    /// (see [`CpuOps::invariant_batch`]).
    #[must_use]
    pub fn batch_invariant(self) -> Self {
        Self { invariant_rows: INVARIANT_BATCH, ..self }
    }

    /// Largest number of sequences that may decode together where an answer may not depend on the others. Products in
    /// f16 are candle's own.
    pub fn invariant_batch(precision: Precision) -> usize {
        if precision == Precision::F16 { 1 } else { INVARIANT_BATCH }
    }

    /// Makes the calling thread, which does the arithmetic, a member of a thread pool of its own, for the life of this
    /// value. A kernel called from outside of a pool would wake two threads and sleep itself, thousands of times a prompt.
    ///
    /// # Errors
    /// No threads, or the calling one has a pool already.
    pub(crate) fn with_threads(mut self) -> Result<Self> {
        let pool = ThreadPoolBuilder::new().num_threads(rayon::current_num_threads()).use_current_thread();
        self.threads = Some(pool.build().map_err(|error| Error::Compute(format!("threads: {error}")))?);
        Ok(self)
    }

    /// x (n, k) by a matrix (out, k) in f16.
    fn linear_f16(&self, x: &Tensor, linear: &Linear<Tensor>) -> Result<Tensor> {
        let cast = |weight: &Tensor| weight.to_dtype(self.dtype);
        let product = || match &linear.bias {
            Some(bias) => x.matmul(&cast(&linear.weight)?.t()?)?.broadcast_add(&cast(bias)?),
            None => x.matmul(&cast(&linear.weight)?.t()?),
        };
        product().map_err(fail)
    }

    /// Runs a kernel in place on a tensor's values, from the first on; the kernel takes the row stride.
    fn in_place(&self, x: &Tensor, kernel: impl Fn(&mut [f32], usize)) -> Result<Tensor> {
        let changed = || {
            let x = rows_together(&tensor::convert(x, DType::F32)?)?;
            x.inplace_op1(&InPlace(kernel))?;
            tensor::convert(&x, self.dtype)
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

/// The values of each row one after the other; rows may be apart.
fn rows_together(x: &Tensor) -> candle_core::Result<Tensor> {
    if x.narrow(0, 0, x.dim(0)?.min(1))?.is_contiguous() { Ok(x.clone()) } else { x.contiguous() }
}

/// [`rows_together`] in f32.
fn wide_rows(x: &Tensor) -> Result<Tensor> {
    tensor::convert(x, DType::F32).and_then(|x| rows_together(&x)).map_err(fail)
}

/// The sequences of a batch, as the kernels name them.
pub fn seq_lens(segments: &[Segment]) -> Vec<SeqLens> {
    segments.iter().map(|segment| SeqLens { queries: segment.queries, keys: segment.keys }).collect()
}

/// The sequences of a pass, as the kernels name them.
#[derive(Debug, Clone)]
pub struct CpuPlan {
    seqs: Vec<SeqLens>,
    causal: bool,
}

/// The rows (n, heads, dim) of a tensor on the CPU, as it is stored.
fn rows_of<'a, T: WithDType>(storage: &'a Storage, layout: &Layout) -> Result<Strided<'a, T>> {
    let Storage::Cpu(values) = storage else {
        return Err(Error::Compute("values are not on the CPU".to_owned()));
    };
    let values = values.as_slice().map_err(fail)?;
    Ok(Strided { values: &values[span(layout)], row_stride: layout.stride()[0] })
}

/// Attention of f32 queries to keys and values of sequences in caches of type `T`, each in a place of its own.
fn attend_cached<T: KvElement + WithDType>(
    q: &Tensor,
    sides: &[(Tensor, Tensor)],
    heads: Heads,
    seqs: &[SeqLens],
    causal: bool,
) -> Result<Vec<f32>> {
    let q = wide_rows(q)?;
    let sides = sides.iter().map(|(k, v)| Ok([rows_together(k)?, rows_together(v)?]));
    let sides = sides.collect::<candle_core::Result<Vec<_>>>().map_err(fail)?;
    let held: Vec<_> = sides.iter().map(|kv| kv.each_ref().map(Tensor::storage_and_layout)).collect();
    let rows = held.iter().map(|[k, v]| Ok([rows_of::<T>(&k.0, k.1)?, rows_of(&v.0, v.1)?]));
    let (storage, layout) = q.storage_and_layout();
    let (q, rows) = (rows_of(&storage, layout)?, rows.collect::<Result<Vec<_>>>()?);
    Ok(kernels::attention_cached(q, &rows, heads, seqs, causal))
}

/// Runs a kernel on the values of a tensor on the CPU.
fn with_values<R>(x: &Tensor, kernel: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    let x = tensor::convert(x, DType::F32).and_then(|x| x.contiguous()).map_err(fail)?;
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

impl Ops for CpuOps {
    type Tensor = Tensor;
    type Plan = CpuPlan;
    type Rotary = Arc<[Vec<f32>; 2]>;

    crate::tensor_moves!();

    fn weight(&self, view: &TensorView<'_>, shape: &[usize]) -> Result<Tensor> {
        if let Some(source) = &self.weights {
            return source(view, shape);
        }
        let tensor = tensor::read(view, shape, &Device::Cpu).map_err(fail)?;
        // bfloat16 matrices stay as published: half the memory and half the time to read them, and their
        // values are f32 values already.
        let stays = tensor.dtype() == DType::BF16 && shape.len() > 1;
        if stays { Ok(tensor) } else { tensor.to_dtype(self.dtype).map_err(fail) }
    }

    fn linear(&self, x: &Tensor, linear: &Linear<Tensor>) -> Result<Tensor> {
        if self.dtype == DType::F16 {
            return self.linear_f16(x, linear);
        }
        let w = &linear.weight;
        let (n, (out, k)) = (x.dims()[0], w.dims2().map_err(fail)?);
        let max_m = self.invariant_rows;
        let of_pairs = |x: Weight<'_>, w: Weight<'_>| match (x, w) {
            (Weight::Bf16(x), Weight::Bf16(w)) if n > max_m => kernels::gemm_bf16(x, w, k, out),
            _ => None,
        };
        let mut product = match with_weight(x, |x| with_weight(w, |w| Ok(of_pairs(x, w))))? {
            Some(product) => product,
            None => with_values(x, |x| with_weight(w, |w| Ok(kernels::linear(x, w, k, out, max_m))))?,
        };
        if let Some(bias) = &linear.bias {
            with_values(bias, |bias| {
                elementwise::add_bias(&mut product, bias);
                Ok(())
            })?;
        }
        self.upload(product, &[n, out])
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
        let normed =
            |x: &[f32]| with_values(weight, |weight| Ok(elementwise::rms_norm(x, weight, eps as f32)));
        self.upload(with_values(x, normed)?, x.dims())
    }

    fn layer_norm(&self, x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
        let normed = with_values(x, |x| {
            with_values(weight, |weight| {
                with_values(bias, |bias| Ok(elementwise::layer_norm(x, weight, bias, eps as f32)))
            })
        });
        self.upload(normed?, x.dims())
    }

    fn activate(&self, x: Tensor, activation: Activation) -> Result<Tensor> {
        match activation {
            Activation::GeluTanh => self.in_place(&whole(&x)?, |x, _| elementwise::gelu_tanh(x)),
            Activation::Gelu => self.in_place(&whole(&x)?, |x, _| elementwise::gelu(x)),
            Activation::Silu => x.silu().map_err(fail),
        }
    }

    fn gated(&self, gate: Tensor, up: &Tensor) -> Result<Tensor> {
        let gate = apart(whole(&gate)?, &[up])?;
        alike(&gate, up)?;
        with_values(up, |up| self.in_place(&gate, |gate, _| elementwise::silu_mul(gate, up)))
    }

    fn add(&self, x: Tensor, y: &Tensor) -> Result<Tensor> {
        let x = apart(whole(&x)?, &[y])?;
        alike(&x, y)?;
        with_values(y, |y| self.in_place(&x, |x, _| elementwise::add(x, y)))
    }

    fn index_add(&self, x: Tensor, places: &[u32], values: &Tensor) -> Result<Tensor> {
        let (rows, width) = values.dims2().map_err(fail)?;
        let (all, across) = x.dims2().map_err(fail)?;
        if rows != places.len() || width != across || places.iter().any(|&place| place as usize >= all) {
            let shapes = format!("{:?} to {} rows of {:?}", values.dims(), places.len(), x.dims());
            return Err(Error::Compute(format!("rows cannot be added: {shapes}")));
        }
        let x = apart(x, &[values])?;
        with_values(values, |values| {
            self.in_place(&x, |x, stride| {
                for (&place, values) in places.iter().zip(values.chunks(width)) {
                    elementwise::add_to_row(&mut x[place as usize * stride..][..width], values);
                }
            })
        })
    }

    fn embedding_bag(&self, table: &Tensor, ids: &[u32], weights: &[f32], taps: usize) -> Result<Tensor> {
        let (all, width) = table.dims2().map_err(fail)?;
        if let Some(id) = ids.iter().find(|id| **id as usize >= all) {
            return Err(Error::Compute(format!("row {id} of a table of {all}")));
        }
        let sums = with_weight(table, |table| {
            Ok(match table {
                Weight::F32(table) => elementwise::embedding_bag(table, width, ids, weights, taps),
                Weight::Bf16(table) => elementwise::embedding_bag(table, width, ids, weights, taps),
            })
        });
        self.upload(sums?, &[ids.len() / taps, width])
    }

    fn rotary(&self, cos: Vec<f32>, sin: Vec<f32>, _: usize) -> Result<Arc<[Vec<f32>; 2]>> {
        Ok(Arc::new([cos, sin]))
    }

    fn rotate(&self, x: Tensor, tables: &Arc<[Vec<f32>; 2]>) -> Result<Tensor> {
        let (_, heads, dim) = x.dims3().map_err(fail)?;
        let [cos, sin] = &**tables;
        self.in_place(&x, |x, stride| elementwise::rope(x, stride, cos, sin, heads, dim))
    }

    fn plan(&self, segments: &[Segment], causal: bool) -> Result<CpuPlan> {
        Ok(CpuPlan { seqs: seq_lens(segments), causal })
    }

    fn attention(&self, q: &Tensor, keys: KvSource<'_, Tensor>, plan: &CpuPlan) -> Result<Tensor> {
        let CpuPlan { seqs, causal } = plan;
        let (_, query, dim) = q.dims3().map_err(fail)?;
        let heads = |k: &Tensor| Ok(Heads { query, kv: k.dims3().map_err(fail)?.1, dim });
        let found = match keys {
            KvSource::Packed(k, v) => {
                let (q, k, v) = (wide_rows(q)?, wide_rows(k)?, wide_rows(v)?);
                let [q, keys, v] = [&q, &k, &v].map(Tensor::storage_and_layout);
                let rows = [rows_of(&q.0, q.1)?, rows_of(&keys.0, keys.1)?, rows_of(&v.0, v.1)?];
                kernels::attention(rows, heads(&k)?, seqs, *causal)
            }
            KvSource::Cached([]) => Vec::new(),
            KvSource::Cached(sides) => {
                let heads = heads(&sides[0].0)?;
                match self.dtype {
                    DType::F32 => attend_cached::<f32>(q, sides, heads, seqs, *causal)?,
                    DType::BF16 => attend_cached::<bf16>(q, sides, heads, seqs, *causal)?,
                    // Widened one at a time: all of them would be as large again.
                    _ => {
                        let (mut found, mut start) = (Vec::with_capacity(q.elem_count()), 0);
                        for ((k, v), seq) in sides.iter().zip(seqs) {
                            let q = q.narrow(0, start, seq.queries).map_err(fail)?;
                            let wide = [(wide_rows(k)?, wide_rows(v)?)];
                            found.extend(attend_cached::<f32>(&q, &wide, heads, &[*seq], *causal)?);
                            start += seq.queries;
                        }
                        found
                    }
                }
            }
        };
        self.upload(found, q.dims())
    }

    fn write(&self, buffer: &Tensor, at: usize, rows: &Tensor) -> Result<()> {
        if self.dtype != DType::F32 {
            return buffer.slice_set(&whole(rows)?, 0, at).map_err(fail);
        }
        let place = buffer.narrow(0, at, rows.dims()[0]).map_err(fail)?;
        alike(&place, rows)?;
        if shares(&place, rows) {
            return Err(Error::Compute("rows of a buffer cannot be written into the same buffer".to_owned()));
        }
        with_values(rows, |rows| self.in_place(&place, |place, _| elementwise::copy(place, rows)).map(drop))
    }
}
