//! Attention of packed sequences as one operation.

use candle_core::{D, DType, Device, Result, Tensor};
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
    /// For candle's own operations.
    Composed(Plan),
}

impl GradPlan {
    /// A plan for activations of a type on a device.
    pub(crate) fn new(segments: &[Segment], causal: bool, device: &Device, dtype: DType) -> Result<Self> {
        if device.is_cpu() && dtype == DType::F32 {
            return Ok(Self::Kernels { seqs: seq_lens(segments), causal });
        }
        Ok(Self::Composed(tensor::plan(segments, causal, MAX_ELEMENTS, device)?))
    }
}

/// Attention of q (n, heads, dim) within the segments of a plan: (n, heads, dim).
pub(super) fn attention(q: &Tensor, keys: KvSource<'_, Tensor>, plan: &GradPlan) -> Result<Tensor> {
    let (seqs, causal) = match plan {
        GradPlan::Composed(plan) => {
            return tensor::attention(q, keys, plan, |scores| ops::softmax(scores, D::Minus1));
        }
        GradPlan::Kernels { seqs, causal } => (seqs.clone(), *causal),
    };
    let (k, v) = match keys {
        KvSource::Packed(k, v) => (k.clone(), v.clone()),
        KvSource::Cached(sides) => {
            let (keys, values): (Vec<_>, Vec<_>) = sides.iter().cloned().unzip();
            (Tensor::cat(&keys, 0)?, Tensor::cat(&values, 0)?)
        }
    };
    let ((_, query, dim), (_, kv, _)) = (q.dims3()?, k.dims3()?);
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
