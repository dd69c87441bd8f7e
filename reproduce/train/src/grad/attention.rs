//! Attention of packed sequences as one operation.

use std::ops::Range;

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::ops;
use paravt_backend_candle::seq_lens;
use paravt_backend_candle::tensor::{self, MAX_ELEMENTS, Plan};
use paravt_qwen_vl::ops::{KvSource, Segment};

use super::fused::Fused;
use paravt_kernels::{self as kernels, Heads, SeqLens, Strided, backward};

/// The sequences of a pass.
pub(crate) enum GradPlan {
    /// For the kernels: f32 on the CPU. One operation for all sequences.
    Kernels { seqs: Vec<SeqLens>, causal: bool },
    /// For candle's own operations, which make at most so many scores at a time, but those of a query.
    Composed { segments: Vec<Segment>, causal: bool, scores: usize },
}

impl GradPlan {
    /// A plan for activations of a type on a device.
    pub(crate) fn new(
        segments: &[Segment],
        causal: bool,
        device: &Device,
        dtype: DType,
        scores: usize,
    ) -> Self {
        if device.is_cpu() && dtype == DType::F32 {
            return Self::Kernels { seqs: seq_lens(segments), causal };
        }
        Self::Composed { segments: segments.to_vec(), causal, scores: scores.min(MAX_ELEMENTS) }
    }
}

/// Attention of q (n, heads, dim) within the segments of a plan: (n, heads, dim).
pub(super) fn attention(q: &Tensor, keys: KvSource<'_, Tensor>, plan: &GradPlan) -> Result<Tensor> {
    let (k, v) = match keys {
        KvSource::Packed(k, v) => (k.clone(), v.clone()),
        KvSource::Cached(sides) => {
            let (keys, values): (Vec<_>, Vec<_>) = sides.iter().cloned().unzip();
            (Tensor::cat(&keys, 0)?, Tensor::cat(&values, 0)?)
        }
    };
    let ((_, query, dim), (_, kv, _)) = (q.dims3()?, k.dims3()?);
    let (seqs, causal) = match plan {
        GradPlan::Composed { segments, causal, scores } => {
            return composed([q, &k, &v], pieces(segments, *causal, scores / query, q.device())?);
        }
        GradPlan::Kernels { seqs, causal } => (seqs.clone(), *causal),
    };
    let heads = Heads { query, kv, dim };
    let its = seqs.clone();
    let forward = move |[q, k, v]: [&[f32]; 3]| {
        let rows = |values, heads: usize| Strided { values, row_stride: heads * dim };
        kernels::attention([rows(q, query), rows(k, kv), rows(v, kv)], heads, &its, causal)
    };
    let back = move |inputs: [&[f32]; 3], grad: &[f32]| {
        backward::attention(inputs, grad, heads, &seqs, causal).map(Some)
    };
    Fused::new("attention", q.shape(), forward, back).of(q, &k, &v)
}

/// Queries that attend at a time, and the keys that they see, with a plan of their own.
struct Piece {
    queries: Range<usize>,
    keys: Range<usize>,
    plan: Plan,
}

/// Pieces of at most so many queries times keys, or of one query. Those of a sequence that is cut are whole sequences
/// themselves: the last query of a causal one sees all keys of its piece.
fn pieces(segments: &[Segment], causal: bool, most: usize, device: &Device) -> Result<Vec<Piece>> {
    let (mut made, mut q, mut k) = (Vec::new(), 0, 0);
    let mut add = |queries: Range<usize>, keys: Range<usize>, segments: &[Segment]| -> Result<()> {
        let plan = tensor::plan(segments, causal, MAX_ELEMENTS, device)?;
        made.push(Piece { queries, keys, plan });
        Ok(())
    };
    for alike in segments.chunk_by(|a, b| a == b) {
        let Segment { queries, keys } = alike[0];
        if queries * keys <= most {
            for group in alike.chunks(most / (queries * keys).max(1)) {
                let (rows, seen) = (group.len() * queries, group.len() * keys);
                add(q..q + rows, k..k + seen, group)?;
                (q, k) = (q + rows, k + seen);
            }
            continue;
        }
        for _ in alike {
            let rows = (most / keys).max(1);
            for start in (0..queries).step_by(rows) {
                let end = (start + rows).min(queries);
                let seen = if causal { keys - queries + end } else { keys };
                add(q + start..q + end, k..k + seen, &[Segment { queries: end - start, keys: seen }])?;
            }
            (q, k) = (q + queries, k + keys);
        }
    }
    Ok(made)
}

/// Attention piece by piece. The scores of a piece are made again for its gradients.
fn composed([q, k, v]: [&Tensor; 3], pieces: Vec<Piece>) -> Result<Tensor> {
    fn attend([q, k, v]: [&Tensor; 3], plan: &Plan) -> Result<Tensor> {
        tensor::attention(q, KvSource::Packed(k, v), plan, |scores| ops::softmax(scores, D::Minus1))
    }
    fn rows(x: &Tensor, range: &Range<usize>) -> Result<Tensor> {
        x.detach().narrow(0, range.start, range.len())
    }
    let parts = pieces.iter().map(|Piece { queries, keys, plan }| {
        attend([&rows(q, queries)?, &rows(k, keys)?, &rows(v, keys)?], plan)
    });
    let value = tensor::cat(&parts.collect::<Result<Vec<_>>>()?)?;
    let back = move |[q, k, v]: [&Tensor; 3], grad: &Tensor| {
        let mut to_q = Vec::with_capacity(pieces.len());
        let sides = [k, v].map(|side| Tensor::zeros(side.shape(), DType::F32, side.device()));
        let [to_k, to_v] = sides;
        let (to_k, to_v) = (to_k?, to_v?);
        for Piece { queries, keys, plan } in &pieces {
            let leaf = |x: &Tensor, range| Var::from_tensor(&rows(x, range)?);
            let (q, k, v) = (leaf(q, queries)?, leaf(k, keys)?, leaf(v, keys)?);
            let value = attend([&q, &k, &v], plan)?;
            let mut found = (value * rows(grad, queries)?)?.sum_all()?.backward()?;
            to_q.extend(found.remove(&q));
            for (sum, leaf) in [(&to_k, &k), (&to_v, &v)] {
                let Some(part) = found.remove(leaf) else { continue };
                let part = (rows(sum, keys)? + part.to_dtype(DType::F32)?)?;
                sum.slice_set(&part, 0, keys.start)?;
            }
        }
        let typed = |x: Tensor| x.to_dtype(q.dtype()).map(Some);
        Ok([Some(tensor::cat(&to_q)?), typed(to_k)?, typed(to_v)?])
    };
    Fused::given("attention", &value, back)?.of(q, k, v)
}
