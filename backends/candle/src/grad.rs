//! The operations of training: the kernels of inference with a backward pass, so that a trainer
//! and its rollouts compute the same numbers. Off the CPU they are composed of candle's own.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, D, DType, Layout, Result, Shape, Tensor};
use candle_nn::ops;

use crate::cpu::{backward, elementwise};

/// x over its root mean square, times weight; over the last axis.
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    if !fits(x) {
        return ops::rms_norm_slow(x, weight, eps);
    }
    x.contiguous()?.apply_op2(weight, RmsNorm(eps))
}

/// x to mean 0 and variance 1, scaled and shifted; over the last axis.
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
    if !fits(x) {
        return ops::layer_norm_slow(x, weight, bias, eps);
    }
    x.contiguous()?.apply_op3(weight, bias, LayerNorm(eps))
}

/// silu(gate) * up.
pub fn gated(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    if !fits(gate) {
        return gate.silu()?.mul(up);
    }
    gate.contiguous()?.apply_op2(&up.contiguous()?, Gated)
}

/// Gaussian error linear unit by tanh.
pub fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    if fits(x) { x.contiguous()?.apply_op1(GeluTanh) } else { x.gelu() }
}

/// Rotary embedding of x (n, heads, dim) by tables (n, dim), halves paired; the tables are constants.
pub fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    if fits(x) {
        let (cos, sin) = (cos.flatten_all()?.to_vec1()?, sin.flatten_all()?.to_vec1()?);
        return x.contiguous()?.apply_op1(Rotate { cos, sin });
    }
    let half = x.dim(D::Minus1)? / 2;
    let (first, second) = (x.narrow(2, 0, half)?, x.narrow(2, half, half)?);
    let turned = Tensor::cat(&[second.neg()?, first], 2)?;
    let wide = |table: &Tensor| table.unsqueeze(1)?.to_dtype(x.dtype());
    x.broadcast_mul(&wide(cos)?)? + turned.broadcast_mul(&wide(sin)?)?
}

/// Attention of q (n, heads, dim) to k and v (m, key heads, dim): (n, heads, dim). With a causal mask
/// the last query sees all keys.
pub fn attend(q: &Tensor, k: &Tensor, v: &Tensor, causal: bool) -> Result<Tensor> {
    let (queries, heads, dim) = q.dims3()?;
    let (keys, key_heads, _) = k.dims3()?;
    let group = heads / key_heads;
    // (key heads, group * n, dim): the queries of a group share one product with their keys.
    let grouped = q.reshape((queries, key_heads, group, dim))?.permute((1, 2, 0, 3))?.contiguous()?;
    let grouped = grouped.reshape((key_heads, group * queries, dim))?;
    let (k, v) = (k.transpose(0, 1)?.contiguous()?, v.transpose(0, 1)?.contiguous()?);
    let scores = grouped.matmul(&k.transpose(1, 2)?)?;
    let queries_if_causal = causal.then_some(queries);
    let shares = softmax(&scores, keys, (dim as f32).powf(-0.5), queries_if_causal)?;
    let output = shares.matmul(&v)?.reshape((key_heads, group, queries, dim))?;
    output.permute((2, 0, 1, 3))?.contiguous()?.reshape((queries, heads, dim))
}

/// Softmax of scores (…, rows, keys) times `scale`; `queries` as in [`backward::softmax`].
fn softmax(scores: &Tensor, keys: usize, scale: f32, queries: Option<usize>) -> Result<Tensor> {
    if fits(scores) {
        return scores.contiguous()?.apply_op1(Softmax { scale, queries });
    }
    let scores = (scores.to_dtype(DType::F32)? * f64::from(scale))?;
    let scores = match queries {
        None => scores,
        Some(queries) => {
            let rows = scores.dim(D::Minus2)?;
            let hidden = |row: usize, key: usize| key > keys - queries + row % queries;
            let cell = |row: usize| move |key: usize| if hidden(row, key) { f32::NEG_INFINITY } else { 0.0 };
            let mask: Vec<f32> = (0..rows).flat_map(|row| (0..keys).map(cell(row))).collect();
            scores.broadcast_add(&Tensor::from_vec(mask, (rows, keys), scores.device())?)?
        }
    };
    ops::softmax(&scores, D::Minus1)
}

/// Whether the kernels take this tensor.
fn fits(x: &Tensor) -> bool {
    x.device().is_cpu() && x.dtype() == DType::F32
}

/// The values of a contiguous tensor on the CPU.
fn values<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        candle_core::bail!("a kernel got values that are not contiguous")
    };
    Ok(&storage.as_slice::<f32>()?[start..end])
}

/// Values of tensors for a backward kernel.
fn host(x: &Tensor) -> Result<Vec<f32>> {
    x.flatten_all()?.to_vec1()
}

fn back(values: Vec<f32>, like: &Tensor) -> Result<Option<Tensor>> {
    Tensor::from_vec(values, like.shape(), like.device()).map(Some)
}

fn made(values: Vec<f32>, layout: &Layout) -> Result<(CpuStorage, Shape)> {
    Ok((CpuStorage::F32(values), layout.shape().clone()))
}

struct RmsNorm(f32);

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        w: &CpuStorage,
        lw: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        made(elementwise::rms_norm(values(x, lx)?, values(w, lw)?, self.0), lx)
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (to_x, to_w) = backward::rms_norm(&host(x)?, &host(w)?, self.0, &host(grad)?);
        Ok((back(to_x, x)?, back(to_w, w)?))
    }
}

struct LayerNorm(f32);

impl CustomOp3 for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        w: &CpuStorage,
        lw: &Layout,
        b: &CpuStorage,
        lb: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        made(elementwise::layer_norm(values(x, lx)?, values(w, lw)?, values(b, lb)?, self.0), lx)
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        b: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (to_x, to_w) = backward::layer_norm(&host(x)?, &host(w)?, self.0, &host(grad)?);
        let to_b = grad.reshape(((), b.elem_count()))?.sum(0)?;
        Ok((back(to_x, x)?, back(to_w, w)?, Some(to_b)))
    }
}

struct Gated;

impl CustomOp2 for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        la: &Layout,
        b: &CpuStorage,
        lb: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        made(elementwise::gated(values(a, la)?, values(b, lb)?), la)
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (to_gate, to_up) = backward::gated(&host(a)?, &host(b)?, &host(grad)?);
        Ok((back(to_gate, a)?, back(to_up, b)?))
    }
}

struct GeluTanh;

impl CustomOp1 for GeluTanh {
    fn name(&self) -> &'static str {
        "gelu_tanh"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        made(elementwise::gelu_tanh(values(x, layout)?), layout)
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        back(backward::gelu_tanh(&host(x)?, &host(grad)?), x)
    }
}

struct Rotate {
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl CustomOp1 for Rotate {
    fn name(&self) -> &'static str {
        "rotate"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (_, heads, dim) = layout.shape().dims3()?;
        made(elementwise::rotate(values(x, layout)?, &self.cos, &self.sin, heads, dim), layout)
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        // Turned back by the same angles; both halves of a table are equal.
        let (_, heads, dim) = x.dims3()?;
        let sin: Vec<f32> = self.sin.iter().map(|sin| -sin).collect();
        back(elementwise::rotate(&host(grad)?, &self.cos, &sin, heads, dim), x)
    }
}

struct Softmax {
    scale: f32,
    queries: Option<usize>,
}

impl CustomOp1 for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let keys = layout.dims().last().copied().unwrap_or(1);
        made(backward::softmax(values(x, layout)?, keys, self.scale, self.queries), layout)
    }

    fn bwd(&self, x: &Tensor, shares: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let keys = x.dim(D::Minus1)?;
        back(backward::softmax_back(&host(shares)?, &host(grad)?, keys, self.scale, self.queries), x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    fn random(shape: &[usize], seed: u64) -> Var {
        let mut rng = StdRng::seed_from_u64(seed);
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| rng.random_range(-1.5..1.5)).collect();
        Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap()).unwrap()
    }

    /// Same values and same gradients as a composition of candle's own operations.
    fn assert_same(vars: &[&Var], ours: Result<Tensor>, theirs: Result<Tensor>) {
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        let far = |a: &Tensor, b: &Tensor| {
            let most = |x: Tensor| x.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
            most((a - b).unwrap()) / (1e-3 + most(b.clone()))
        };
        assert!(far(&ours, &theirs) < 2e-6);
        // A loss in which every element has a weight of its own.
        let weights = random(ours.dims(), 99);
        let grads = |x: &Tensor| (x * weights.as_tensor()).unwrap().sum_all().unwrap().backward().unwrap();
        let (ours, theirs) = (grads(&ours), grads(&theirs));
        for var in vars {
            let far = far(ours.get(var).unwrap(), theirs.get(var).unwrap());
            assert!(far < 5e-6, "{far}");
        }
    }

    #[test]
    fn gradients_are_those_of_compositions() {
        let (x, y) = (random(&[70, 48], 1), random(&[70, 48], 2));
        let (w, b) = (random(&[48], 3), random(&[48], 4));
        assert_same(&[&x, &w], rms_norm(&x, &w, 1e-6), ops::rms_norm_slow(&x, &w, 1e-6));
        assert_same(&[&x, &w, &b], layer_norm(&x, &w, &b, 1e-6), ops::layer_norm_slow(&x, &w, &b, 1e-6));
        assert_same(&[&x, &y], gated(&x, &y), x.silu().and_then(|x| x.mul(&y)));
        assert_same(&[&x], gelu_tanh(&x), x.gelu());
    }

    #[test]
    fn turning_and_attention_have_the_gradients_of_compositions() {
        let (q, k, v) = (random(&[6, 4, 8], 5), random(&[9, 2, 8], 6), random(&[9, 2, 8], 7));
        let angles = random(&[6, 4], 8);
        let wide = |x: Result<Tensor>| x.and_then(|x| Tensor::cat(&[&x, &x], 1)).unwrap();
        let (cos, sin) = (wide(angles.cos()), wide(angles.sin()));
        let composed = || {
            let turned = Tensor::cat(&[q.narrow(2, 4, 4)?.neg()?, q.narrow(2, 0, 4)?], 2)?;
            q.broadcast_mul(&cos.unsqueeze(1)?)? + turned.broadcast_mul(&sin.unsqueeze(1)?)?
        };
        assert_same(&[&q], rotate(&q, &cos, &sin), composed());
        for causal in [false, true] {
            let composed = || {
                let repeat = |x: &Tensor| {
                    let (n, heads, dim) = x.dims3()?;
                    x.unsqueeze(2)?.expand((n, heads, 2, dim))?.reshape((n, heads * 2, dim))?.transpose(0, 1)
                };
                let (k, v) = (repeat(&k)?.contiguous()?, repeat(&v)?.contiguous()?);
                let q = (q.transpose(0, 1)?.contiguous()? * 8f64.powf(-0.5))?;
                let mut scores = q.matmul(&k.transpose(1, 2)?)?;
                if causal {
                    let hidden = |query: usize, key: usize| key > query + 3;
                    let cell =
                        |query: usize| move |key: usize| if hidden(query, key) { f32::MIN } else { 0.0 };
                    let mask: Vec<f32> = (0..6).flat_map(|query| (0..9).map(cell(query))).collect();
                    scores = scores.broadcast_add(&Tensor::from_vec(mask, (6, 9), &Device::Cpu)?)?;
                }
                ops::softmax(&scores, D::Minus1)?.matmul(&v)?.transpose(0, 1)
            };
            assert_same(&[&q, &k, &v], attend(&q, &k, &v, causal), composed());
        }
    }
}
