//! Helpers shared by all arithmetic on candle tensors.

use std::sync::Arc;

use candle_core::{CpuStorage, D, DType, Device, Storage, Tensor};
use paravt_kernels::elementwise;
use paravt_qwen_vl::Error;
use paravt_qwen_vl::ops::{KvSource, Precision, Segment};
use paravt_qwen_vl::weights::{Dtype, TensorView};

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Source of weights in place of the checkpoint: from a tensor's view in the file and the shape in the model to the
/// tensor, e.g. one that a trainer changes.
pub type WeightSource = Arc<dyn Fn(&TensorView<'_>, &[usize]) -> Result<Tensor> + Send + Sync>;

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
pub fn read(view: &TensorView<'_>, shape: &[usize], device: &Device) -> candle_core::Result<Tensor> {
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
            let uploaded = Tensor::from_vec(values, shape, &self.device);
            uploaded.and_then(|x| tensor::convert(&x, self.dtype)).map_err(fail)
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

        fn peak_memory(&self) -> Option<u64> {
            $crate::peak_memory(&self.device)
        }
    };
}

/// The same values in another type. Between f32 and bf16 on the CPU on all cores, where candle would use one.
///
/// # Errors
/// No memory.
pub fn convert(x: &Tensor, dtype: DType) -> candle_core::Result<Tensor> {
    match on_all_cores(x, dtype) {
        Some(converted) => converted,
        None => x.to_dtype(dtype),
    }
}

fn on_all_cores(x: &Tensor, dtype: DType) -> Option<candle_core::Result<Tensor>> {
    let (storage, layout) = x.storage_and_layout();
    let (start, end) = layout.contiguous_offsets()?;
    Some(match (&*storage, dtype) {
        (Storage::Cpu(CpuStorage::F32(values)), DType::BF16) => {
            Tensor::from_vec(elementwise::narrow(&values[start..end]), x.shape(), &Device::Cpu)
        }
        (Storage::Cpu(CpuStorage::BF16(values)), DType::F32) => {
            Tensor::from_vec(elementwise::widen(&values[start..end]), x.shape(), &Device::Cpu)
        }
        _ => return None,
    })
}

/// Rows of a table (n, ...) by their ids: (ids, ...).
///
/// # Errors
/// An id past the table.
pub fn gather(table: &Tensor, ids: &[u32], dtype: DType) -> candle_core::Result<Tensor> {
    let ids = Tensor::from_slice(ids, ids.len(), table.device())?;
    table.contiguous()?.index_select(&ids, 0)?.to_dtype(dtype)
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

/// The sequences of a pass, for [`attention`].
#[derive(Debug, Clone)]
pub struct Plan {
    runs: Vec<Run>,
    /// Maximum elements of a tensor of scores.
    scores: usize,
}

/// Sequences that lie one after the other in a packed batch and have the same lengths.
#[derive(Debug, Clone)]
struct Run {
    count: usize,
    segment: Segment,
    /// (queries, keys), 0 or minus infinity, f32; none where every query sees all keys.
    mask: Option<Tensor>,
}

/// Elements of the largest tensor that candle's CUDA kernels index, whose counters are C's `int`.
pub const MAX_ELEMENTS: usize = i32::MAX as usize;

/// Plans the sequences of a pass, their masks on the device. At most so many `scores` are made at a time, but those of a
/// query.
///
/// # Errors
/// No memory.
pub fn plan(segments: &[Segment], causal: bool, scores: usize, device: &Device) -> candle_core::Result<Plan> {
    let alike = segments.chunk_by(|a, b| a == b);
    let runs = alike.map(|alike| {
        let segment = alike[0];
        let mask = (causal && segment.queries > 1).then(|| causal_mask(segment, device)).transpose()?;
        Ok(Run { count: alike.len(), segment, mask })
    });
    Ok(Plan { runs: runs.collect::<candle_core::Result<_>>()?, scores: scores.min(MAX_ELEMENTS) })
}

/// Made on the device. Keys before the first query are seen by all.
fn causal_mask(Segment { queries, keys }: Segment, device: &Device) -> candle_core::Result<Tensor> {
    let seen = Tensor::tril2(queries, DType::U8, device)?;
    let (zeros, hidden) = (
        Tensor::zeros((queries, queries), DType::F32, device)?,
        Tensor::full(f32::NEG_INFINITY, (queries, queries), device)?,
    );
    let own = seen.where_cond(&zeros, &hidden)?;
    if keys == queries {
        return Ok(own);
    }
    Tensor::cat(&[Tensor::zeros((queries, keys - queries), DType::F32, device)?, own], 1)
}

/// Sequences, and queries of each, whose scores are made at a time: as many as `scores` has room for, one query at least.
fn chunk(scores: usize, heads: usize, Run { count, segment, .. }: &Run) -> (usize, usize) {
    let of_query = heads * segment.keys;
    let queries = (scores / of_query.max(1)).clamp(1, segment.queries.max(1));
    if queries < segment.queries {
        return (1, queries);
    }
    ((scores / (of_query * segment.queries).max(1)).clamp(1, *count), queries)
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
    plan: &Plan,
    softmax: fn(&Tensor) -> candle_core::Result<Tensor>,
) -> candle_core::Result<Tensor> {
    let (mut outputs, mut q_start) = (Vec::with_capacity(plan.runs.len()), 0);
    match keys {
        KvSource::Packed(k, v) => {
            let mut k_start = 0;
            for run in &plan.runs {
                // All rows at once where there is one run: the gradient of a slice has the size of the whole.
                let rows = |x: &Tensor, start, length| x.narrow(0, start, run.count * length);
                let Segment { queries, keys } = run.segment;
                let (k, v) = (rows(k, k_start, keys)?, rows(v, k_start, keys)?);
                attend([&rows(q, q_start, queries)?, &k, &v], run, plan.scores, softmax, &mut outputs)?;
                q_start += run.count * queries;
                k_start += run.count * keys;
            }
        }
        KvSource::Cached(sides) => {
            let each = plan
                .runs
                .iter()
                .flat_map(|run| std::iter::repeat_n(Run { count: 1, ..run.clone() }, run.count));
            for ((k, v), run) in sides.iter().zip(each) {
                let queries = run.segment.queries;
                let q = q.narrow(0, q_start, queries)?;
                attend([&q, k, v], &run, plan.scores, softmax, &mut outputs)?;
                q_start += queries;
            }
        }
    }
    cat(&outputs)
}

/// q (count * queries, heads, dim), k and v (count * keys, key heads, dim): adds parts of (count * queries, heads, dim).
fn attend(
    [q, k, v]: [&Tensor; 3],
    run: &Run,
    scores: usize,
    softmax: fn(&Tensor) -> candle_core::Result<Tensor>,
    outputs: &mut Vec<Tensor>,
) -> candle_core::Result<()> {
    let Run { count, segment: Segment { queries, keys }, mask } = run;
    let ((_, heads, dim), (_, key_heads, _)) = (q.dims3()?, k.dims3()?);
    // (count, key heads, keys, dim).
    let side = |x: &Tensor| x.reshape((*count, *keys, key_heads, dim))?.transpose(1, 2)?.contiguous();
    let (k, v) = (side(k)?, side(v)?);
    let q = q.reshape((*count, *queries, heads, dim))?;
    let (sequences, rows) = chunk(scores, heads, run);
    for first in (0..*count).step_by(sequences) {
        let number = sequences.min(count - first);
        for start in (0..*queries).step_by(rows) {
            let end = (start + rows).min(*queries);
            // The last query of a causal segment sees all keys.
            let seen = if mask.is_some() { keys - queries + end } else { *keys };
            let part = |x: &Tensor| x.narrow(0, first, number)?.narrow(2, 0, seen);
            let mask = mask.as_ref().map(|mask| mask.narrow(0, start, end - start)?.narrow(1, 0, seen));
            let q = q.narrow(0, first, number)?.narrow(1, start, end - start)?;
            outputs.push(attend_at_once([&q, &part(&k)?, &part(&v)?], mask.transpose()?.as_ref(), softmax)?);
        }
    }
    Ok(())
}

/// q (count, queries, heads, dim), k and v (count, key heads, keys, dim), mask (queries, keys): (count * queries, heads, dim).
fn attend_at_once(
    [q, k, v]: [&Tensor; 3],
    mask: Option<&Tensor>,
    softmax: fn(&Tensor) -> candle_core::Result<Tensor>,
) -> candle_core::Result<Tensor> {
    let ((count, queries, heads, dim), (_, key_heads, keys, _)) = (q.dims4()?, k.dims4()?);
    let group = heads / key_heads;
    // (count, key heads, group * queries, dim): the queries of a group share one product with their keys.
    let grouped =
        q.reshape((count, queries, key_heads, group, dim))?.permute((0, 2, 3, 1, 4))?.contiguous()?;
    let grouped = grouped.reshape((count, key_heads, group * queries, dim))?;
    let scores = grouped.matmul(&k.transpose(2, 3)?)?.to_dtype(DType::F32)?;
    let mut scores = (scores * (dim as f64).powf(-0.5))?;
    if let Some(mask) = mask {
        let shape = scores.shape().clone();
        scores =
            scores.reshape((count, key_heads, group, queries, keys))?.broadcast_add(mask)?.reshape(shape)?;
    }
    let probs = softmax(&scores)?.to_dtype(q.dtype())?;
    drop(scores);
    let output = probs.matmul(v)?.reshape((count, key_heads, group, queries, dim))?;
    output.permute((0, 3, 1, 2, 4))?.contiguous()?.reshape((count * queries, heads, dim))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Up to the largest published shapes and beyond: no kernel is given an index past its counter.
        #[test]
        fn no_scores_are_indexed_past_a_counter(
            (heads, keys, hidden) in (1usize..=128, 1usize..=1 << 20, 0usize..1 << 20),
            (count, scores) in (1usize..=1024, 1usize..=MAX_ELEMENTS),
        ) {
            let segment = Segment { queries: (keys - hidden.min(keys - 1)).min(1 << 16), keys };
            let (sequences, queries) = chunk(scores, heads, &Run { count, segment, mask: None });
            prop_assert!(sequences * heads * queries * keys <= scores.max(heads * keys));
            prop_assert!(sequences * heads * queries * keys <= MAX_ELEMENTS);
            prop_assert!((1..=count).contains(&sequences) && (1..=segment.queries).contains(&queries));
        }
    }

    #[test]
    fn a_causal_mask_hides_what_comes_after_each_query() {
        for (queries, keys) in [(2, 2), (3, 7), (5, 6)] {
            let mask =
                causal_mask(Segment { queries, keys }, &Device::Cpu).unwrap().to_vec2::<f32>().unwrap();
            for (query, row) in mask.iter().enumerate() {
                let seen: Vec<bool> = row.iter().map(|value| *value == 0.0).collect();
                let wanted: Vec<bool> = (0..keys).map(|key| key <= query + keys - queries).collect();
                assert_eq!(seen, wanted, "query {query} of {queries}, {keys} keys");
                assert!(row.iter().all(|value| *value == 0.0 || *value == f32::NEG_INFINITY));
            }
        }
    }
}
