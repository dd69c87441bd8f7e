//! Helpers shared by all arithmetic on candle tensors.

use std::sync::Arc;

use candle_core::{D, DType, Device, Tensor};
use paravt_qwen_vl::Error;
use paravt_qwen_vl::ops::{KvSource, Precision, Segment};
use paravt_qwen_vl::weights::{Dtype, View};

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Source of weights in place of the checkpoint: from a tensor's view in the file and the shape in the model to the
/// tensor, e.g. one that a trainer changes.
pub type WeightSource = Arc<dyn Fn(&View<'_>, &[usize]) -> Result<Tensor> + Send + Sync>;

/// candle's own error texts name shapes and types.
pub fn fail(error: candle_core::Error) -> Error {
    Error::compute(format!("candle: {error}"))
}

/// candle's name of a precision.
pub fn dtype(precision: Precision) -> DType {
    match precision {
        Precision::F32 => DType::F32,
        Precision::Bf16 => DType::BF16,
        Precision::F16 => DType::F16,
    }
}

/// A tensor of a checkpoint in its published type.
///
/// # Errors
/// A shape of another number of elements, no memory.
pub fn read(view: &View<'_>, shape: &[usize], device: &Device) -> candle_core::Result<Tensor> {
    let dtype = match view.dtype {
        Dtype::BF16 => DType::BF16,
        Dtype::F16 => DType::F16,
        _ => DType::F32,
    };
    Tensor::from_raw_buffer(view.data, dtype, shape, device)
}

/// The methods of [`Ops`](paravt_qwen_vl::ops::Ops) that move values and compute nothing, for a type with the fields
/// `device` and `dtype`.
#[macro_export]
macro_rules! tensor_moves {
    () => {
        fn upload(&self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
            self.upload_f32(values, shape)?.to_dtype(self.dtype).map_err(fail)
        }

        fn upload_f32(&self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
            Tensor::from_vec(values, shape, &self.device).map_err(fail)
        }

        fn download(&self, x: &Tensor) -> Result<Vec<f32>> {
            x.to_dtype(DType::F32).and_then(|x| x.flatten_all()?.to_vec1()).map_err(fail)
        }

        fn shape(&self, x: &Tensor) -> Vec<usize> {
            x.dims().to_vec()
        }

        fn gather(&self, table: &Tensor, ids: &[u32]) -> Result<Tensor> {
            tensor::gather(table, ids, self.dtype).map_err(fail)
        }

        fn reshape(&self, x: &Tensor, shape: &[usize]) -> Result<Tensor> {
            x.reshape(shape).map_err(fail)
        }

        fn narrow(&self, x: &Tensor, axis: usize, start: usize, length: usize) -> Result<Tensor> {
            x.narrow(axis, start, length).map_err(fail)
        }

        fn cat(&self, parts: &[Tensor]) -> Result<Tensor> {
            tensor::cat(parts).map_err(fail)
        }

        fn buffer(&self, shape: [usize; 3]) -> Result<Tensor> {
            Tensor::zeros(&shape, self.dtype, &self.device).map_err(fail)
        }
    };
}

/// Rows of a table (n, c) by their ids: (ids, c).
///
/// # Errors
/// An id past the table.
pub fn gather(table: &Tensor, ids: &[u32], dtype: DType) -> candle_core::Result<Tensor> {
    let ids = Tensor::from_slice(ids, ids.len(), table.device())?;
    table.index_select(&ids, 0)?.to_dtype(dtype)
}

/// Sums over `taps` of table rows by weight; ids and weights are (n, taps), row-major.
///
/// # Errors
/// An id past the table.
pub fn embedding_bag(
    table: &Tensor,
    ids: &[u32],
    weights: &[f32],
    taps: usize,
    dtype: DType,
) -> candle_core::Result<Tensor> {
    let count = ids.len() / taps;
    let weights = Tensor::from_slice(weights, (count, taps, 1), table.device())?;
    let rows = gather(table, ids, DType::F32)?;
    let rows = rows.reshape((count, taps, rows.dim(D::Minus1)?))?;
    rows.broadcast_mul(&weights)?.sum(1)?.to_dtype(dtype)
}

/// Adds `values` to the rows `places` of x (n, c).
///
/// # Errors
/// A place past the rows, values of another width.
pub fn index_add(x: &Tensor, places: &[u32], values: &Tensor) -> candle_core::Result<Tensor> {
    let places = Tensor::from_slice(places, places.len(), x.device())?;
    x.index_add(&places, values, 0)
}

/// Parts one after the other along the first axis.
///
/// # Errors
/// No parts, parts of other shapes.
pub fn cat(parts: &[Tensor]) -> candle_core::Result<Tensor> {
    if let [only] = parts { Ok(only.clone()) } else { Tensor::cat(parts, 0) }
}

/// Sequences that lie one after the other in a packed batch and have the same lengths.
#[derive(Debug, Clone)]
pub struct Run {
    count: usize,
    /// Of each.
    segment: Segment,
    /// (queries, keys), 0 or minus infinity, f32; none where every query sees all keys.
    mask: Option<Tensor>,
}

/// The sequences of a pass, their masks on the device.
///
/// # Errors
/// No memory.
pub fn plan(segments: &[Segment], causal: bool, device: &Device) -> candle_core::Result<Vec<Run>> {
    let alike = segments.chunk_by(|a, b| a == b);
    alike
        .map(|alike| {
            let segment = alike[0];
            let mask = (causal && segment.queries > 1).then(|| causal_mask(segment, device)).transpose()?;
            Ok(Run { count: alike.len(), segment, mask })
        })
        .collect()
}

fn causal_mask(Segment { queries, keys }: Segment, device: &Device) -> candle_core::Result<Tensor> {
    let row = |query: usize| {
        (0..keys).map(move |key| if key > query + keys - queries { f32::NEG_INFINITY } else { 0.0 })
    };
    let mask: Vec<f32> = (0..queries).flat_map(row).collect();
    Tensor::from_vec(mask, (queries, keys), device)
}

/// Attention by candle's own operations, with `softmax` over the last axis; see [`Ops::attention`].
///
/// # Errors
/// Shapes that the plan is not of, no memory.
///
/// [`Ops::attention`]: paravt_qwen_vl::ops::Ops::attention
pub fn attention(
    q: &Tensor,
    keys: KvSource<'_, Tensor>,
    plan: &[Run],
    softmax: fn(&Tensor) -> candle_core::Result<Tensor>,
) -> candle_core::Result<Tensor> {
    let (mut outputs, mut q_start) = (Vec::with_capacity(plan.len()), 0);
    match keys {
        KvSource::Packed(k, v) => {
            let mut k_start = 0;
            for run in plan {
                // All rows at once where there is one run: the gradient of a slice has the size of the whole.
                let rows = |x: &Tensor, start, length| x.narrow(0, start, run.count * length);
                let Segment { queries, keys } = run.segment;
                let (k, v) = (rows(k, k_start, keys)?, rows(v, k_start, keys)?);
                outputs.push(attend([&rows(q, q_start, queries)?, &k, &v], run, softmax)?);
                q_start += run.count * queries;
                k_start += run.count * keys;
            }
        }
        KvSource::Cached(sides) => {
            let each =
                plan.iter().flat_map(|run| std::iter::repeat_n(Run { count: 1, ..run.clone() }, run.count));
            for ((k, v), run) in sides.iter().zip(each) {
                let queries = run.segment.queries;
                outputs.push(attend([&q.narrow(0, q_start, queries)?, k, v], &run, softmax)?);
                q_start += queries;
            }
        }
    }
    cat(&outputs)
}

/// q (count * queries, heads, dim), k and v (count * keys, key heads, dim): (count * queries, heads, dim).
fn attend(
    [q, k, v]: [&Tensor; 3],
    run: &Run,
    softmax: fn(&Tensor) -> candle_core::Result<Tensor>,
) -> candle_core::Result<Tensor> {
    let Run { count, segment: Segment { queries, keys }, mask } = run;
    let ((rows, heads, dim), (_, key_heads, _)) = (q.dims3()?, k.dims3()?);
    let (group, batch) = (heads / key_heads, count * key_heads);
    // (count * key heads, group * queries, dim): the queries of a group share one product with their keys.
    let grouped =
        q.reshape((*count, *queries, key_heads, group, dim))?.permute((0, 2, 3, 1, 4))?.contiguous()?;
    let grouped = grouped.reshape((batch, group * queries, dim))?;
    let side = |x: &Tensor| {
        let x = x.reshape((*count, *keys, key_heads, dim))?.transpose(1, 2)?.contiguous()?;
        x.reshape((batch, *keys, dim))
    };
    let (k, v) = (side(k)?, side(v)?);
    let scores = grouped.matmul(&k.transpose(1, 2)?)?.to_dtype(DType::F32)?;
    let mut scores = (scores * (dim as f64).powf(-0.5))?;
    if let Some(mask) = mask {
        let shape = scores.shape().clone();
        scores = scores.reshape((batch, group, *queries, *keys))?.broadcast_add(mask)?.reshape(shape)?;
    }
    let probs = softmax(&scores)?.to_dtype(q.dtype())?;
    let output = probs.matmul(&v)?.reshape((*count, key_heads, group, *queries, dim))?;
    output.permute((0, 3, 1, 2, 4))?.contiguous()?.reshape((rows, heads, dim))
}
