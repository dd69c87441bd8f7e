//! Attention of packed sequences as one operation.

use candle_core::{CpuStorage, CustomOp3, D, DType, Device, Layout, Result, Shape, Tensor};
use candle_nn::ops;
use paravt_backend_candle::seq_lens;
use paravt_backend_candle::tensor::{self, Run};
use paravt_qwen_vl::ops::{Keys, Segment};

use super::{back, made, values, with_values};
use paravt_kernels::{self as kernels, Heads, SeqLens, Strided, backward};

/// The sequences of a pass.
pub(crate) enum GradPlan {
    /// For the kernels: f32 on the CPU. One operation for all sequences.
    Kernels { seqs: Vec<SeqLens>, causal: bool },
    /// For candle's own operations.
    Composed(Vec<Run>),
}

impl GradPlan {
    /// A plan for activations of a type on a device.
    pub(crate) fn new(segments: &[Segment], causal: bool, device: &Device, dtype: DType) -> Result<Self> {
        if device.is_cpu() && dtype == DType::F32 {
            return Ok(Self::Kernels { seqs: seq_lens(segments), causal });
        }
        Ok(Self::Composed(tensor::plan(segments, causal, device)?))
    }
}

/// Attention of q (n, heads, dim) within the segments of a plan: (n, heads, dim).
pub(super) fn attention(q: &Tensor, keys: Keys<'_, Tensor>, plan: &GradPlan) -> Result<Tensor> {
    let (seqs, causal) = match plan {
        GradPlan::Composed(plan) => {
            return tensor::attention(q, keys, plan, |scores| ops::softmax(scores, D::Minus1));
        }
        GradPlan::Kernels { seqs, causal } => (seqs.clone(), *causal),
    };
    let (k, v) = match keys {
        Keys::Packed(k, v) => (k.contiguous()?, v.contiguous()?),
        Keys::Apart(sides) => {
            let (keys, values): (Vec<_>, Vec<_>) = sides.iter().cloned().unzip();
            (Tensor::cat(&keys, 0)?, Tensor::cat(&values, 0)?)
        }
    };
    q.contiguous()?.apply_op3(&k, &v, Attention { seqs, causal })
}

struct Attention {
    seqs: Vec<SeqLens>,
    causal: bool,
}

fn heads(q: &Shape, k: &Shape) -> Result<Heads> {
    let ((_, queries, dim), (_, keys, _)) = (q.dims3()?, k.dims3()?);
    Ok(Heads { query: queries, kv: keys, dim })
}

impl CustomOp3 for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        lq: &Layout,
        k: &CpuStorage,
        lk: &Layout,
        v: &CpuStorage,
        lv: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let heads = heads(lq.shape(), lk.shape())?;
        let dim = heads.dim;
        let rows = |values, heads: usize| Strided { values, row_stride: heads * dim };
        let sides = [
            rows(values(q, lq)?, heads.query),
            rows(values(k, lk)?, heads.kv),
            rows(values(v, lv)?, heads.kv),
        ];
        made(kernels::attention(sides, heads, &self.seqs, self.causal), lq)
    }

    fn bwd(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let heads = heads(q.shape(), k.shape())?;
        let [to_q, to_k, to_v] = with_values([q, k, v, grad], |[q, k, v, grad]| {
            backward::attention([q, k, v], grad, heads, &self.seqs, self.causal)
        })?;
        Ok((back(to_q, q)?, back(to_k, k)?, back(to_v, v)?))
    }
}
