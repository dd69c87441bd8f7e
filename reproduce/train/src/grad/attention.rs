//! Attention of packed sequences as one operation.

use candle_core::{CpuStorage, CustomOp3, D, DType, Layout, Result, Shape, Tensor};
use candle_nn::ops;
use paravt_backend_candle::seq_lens;
use paravt_backend_candle::tensor::by_segment;
use paravt_qwen_vl::ops::Segment;

use super::{back, fits, made, values, with_values};
use paravt_kernels::{self as kernels, Heads, Strided, backward};

/// Attention of q (n, heads, dim) to k and v (m, key heads, dim), each segment to its own keys:
/// (n, heads, dim). With a causal mask the last query of a segment sees all its keys.
///
/// One operation for all segments: a slice of each would have a gradient of the whole tensor's size.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, segments: &[Segment], causal: bool) -> Result<Tensor> {
    if fits(q) {
        let op = Attention { segments: segments.to_vec(), causal };
        return q.contiguous()?.apply_op3(&k.contiguous()?, &v.contiguous()?, op);
    }
    by_segment([q, k, v], segments, |q, k, v| composed(q, k, v, causal))
}

/// One segment of candle's own operations.
pub fn composed(q: &Tensor, k: &Tensor, v: &Tensor, causal: bool) -> Result<Tensor> {
    let (queries, heads, dim) = q.dims3()?;
    let (keys, key_heads, _) = k.dims3()?;
    let group = heads / key_heads;
    // (key heads, group * n, dim): the queries of a group share one product with their keys.
    let grouped = q.reshape((queries, key_heads, group, dim))?.permute((1, 2, 0, 3))?.contiguous()?;
    let grouped = grouped.reshape((key_heads, group * queries, dim))?;
    let (k, v) = (k.transpose(0, 1)?.contiguous()?, v.transpose(0, 1)?.contiguous()?);
    let scores = grouped.matmul(&k.transpose(1, 2)?)?.to_dtype(DType::F32)?;
    let mut scores = (scores * (dim as f64).powf(-0.5))?;
    if causal {
        let rows = group * queries;
        let hidden = |row: usize, key: usize| key > keys - queries + row % queries;
        let cell = |row: usize| move |key: usize| if hidden(row, key) { f32::NEG_INFINITY } else { 0.0 };
        let mask: Vec<f32> = (0..rows).flat_map(|row| (0..keys).map(cell(row))).collect();
        scores = scores.broadcast_add(&Tensor::from_vec(mask, (rows, keys), q.device())?)?;
    }
    let shares = ops::softmax(&scores, D::Minus1)?.to_dtype(q.dtype())?;
    let output = shares.matmul(&v)?.reshape((key_heads, group, queries, dim))?;
    output.permute((2, 0, 1, 3))?.contiguous()?.reshape((queries, heads, dim))
}

struct Attention {
    segments: Vec<Segment>,
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
        made(kernels::attention(sides, heads, &seq_lens(&self.segments), self.causal), lq)
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
            backward::attention([q, k, v], grad, heads, &seq_lens(&self.segments), self.causal)
        })?;
        Ok((back(to_q, q)?, back(to_k, k)?, back(to_v, v)?))
    }
}
