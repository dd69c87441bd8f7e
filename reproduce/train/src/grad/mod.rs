//! The operations of training: the kernels of inference with a backward pass, so that a trainer
//! and its rollouts compute the same numbers. Off the CPU they are composed of candle's own.

mod attention;
mod fused;
mod ops;
mod recompute;

use std::sync::Arc;

use candle_core::{D, DType, Result, Tensor};
use candle_nn::ops as nn;
use paravt_kernels::{self as kernels, GEMV_MAX_M, Weight, backward, elementwise};

use fused::Fused;
pub(crate) use ops::{GradOps, SCORES};
pub(crate) use recompute::{GradientSink, encode, hidden, recomputed};

/// x (n, k) by weight (out, k) transposed, plus bias (out): (n, out).
///
/// One operation: the gradient of the weight is made in the weight's own layout and never turned.
pub(crate) fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if !fits(x) || !fits(weight) {
        let product = x.matmul(&weight.t()?)?;
        return bias.map_or(Ok(product.clone()), |bias| product.broadcast_add(bias));
    }
    let ((n, _), (out, k)) = (x.dims2()?, weight.dims2()?);
    let product = move |x: &[f32], w: &[f32]| kernels::linear(x, Weight::F32(w), k, out, GEMV_MAX_M);
    // Pixels want no gradient.
    let wants_x = x.track_op();
    let back = move |x: &[f32], w: &[f32], grad: &[f32]| backward::linear(x, w, grad, (out, k), wants_x);
    let Some(bias) = bias else {
        let back = move |[x, w]: [&[f32]; 2], grad: &[f32]| {
            let (to_x, to_w) = back(x, w, grad);
            [to_x, Some(to_w)]
        };
        return Fused::new("linear", (n, out), move |[x, w]| product(x, w), back).of(x, weight);
    };
    let forward = move |[x, w, b]: [&[f32]; 3]| {
        let mut product = product(x, w);
        elementwise::add_bias(&mut product, b);
        product
    };
    let back = move |[x, w, b]: [&[f32]; 3], grad: &[f32]| {
        let (to_x, to_w) = back(x, w, grad);
        [to_x, Some(to_w), Some(backward::bias(grad, b.len()))]
    };
    Fused::new("biased-linear", (n, out), forward, back).of(x, weight, bias)
}

/// x over its root mean square, times weight; over the last axis.
pub(crate) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    if !fits(x) {
        return nn::rms_norm_slow(x, weight, eps);
    }
    let back = move |[x, w]: [&[f32]; 2], grad: &[f32]| {
        <[_; 2]>::from(backward::rms_norm(x, w, eps, grad)).map(Some)
    };
    Fused::new("rms_norm", x.shape(), move |[x, w]| elementwise::rms_norm(x, w, eps), back).of(x, weight)
}

/// x to mean 0 and variance 1, scaled and shifted; over the last axis.
pub(crate) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
    if !fits(x) {
        return nn::layer_norm_slow(x, weight, bias, eps);
    }
    let forward = move |[x, w, b]: [&[f32]; 3]| elementwise::layer_norm(x, w, b, eps);
    let back = move |[x, w, b]: [&[f32]; 3], grad: &[f32]| {
        let (to_x, to_w) = backward::layer_norm(x, w, eps, grad);
        [to_x, to_w, backward::bias(grad, b.len())].map(Some)
    };
    Fused::new("layer_norm", x.shape(), forward, back).of(x, weight, bias)
}

/// silu(gate) * up.
pub(crate) fn gated(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    if !fits(gate) {
        return gate.silu()?.mul(up);
    }
    let forward = |[gate, up]: [&[f32]; 2]| changed(gate, |gate| elementwise::silu_mul(gate, up));
    let back =
        |[gate, up]: [&[f32]; 2], grad: &[f32]| <[_; 2]>::from(backward::silu_mul(gate, up, grad)).map(Some);
    Fused::new("gated", gate.shape(), forward, back).of(gate, up)
}

/// Gaussian error linear unit by tanh.
pub(crate) fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    if !fits(x) {
        return x.gelu();
    }
    let back = |[x]: [&[f32]; 1], grad: &[f32]| [Some(backward::gelu_tanh(x, grad))];
    Fused::new("gelu_tanh", x.shape(), |[x]| changed(x, elementwise::gelu_tanh), back).of(x)
}

/// Gaussian error linear unit, exact.
pub(crate) fn gelu(x: &Tensor) -> Result<Tensor> {
    if !fits(x) {
        return x.gelu_erf();
    }
    let back = |[x]: [&[f32]; 1], grad: &[f32]| [Some(backward::gelu(x, grad))];
    Fused::new("gelu", x.shape(), |[x]| changed(x, elementwise::gelu), back).of(x)
}

/// Rotary embedding of x (n, heads, dim) by tables (n, dim), halves paired; the tables are constants.
pub(crate) fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    if fits(x) {
        let (_, heads, dim) = x.dims3()?;
        let cos: Vec<f32> = cos.flatten_all()?.to_vec1()?;
        let sin: Vec<f32> = sin.flatten_all()?.to_vec1()?;
        // Turned back by the same angles; both halves of a table are equal.
        let back: Vec<f32> = sin.iter().map(|sin| -sin).collect();
        let turned = move |x: &[f32], sin: &[f32]| {
            changed(x, |x| elementwise::rope(x, heads * dim, &cos, sin, heads, dim))
        };
        let turned = Arc::new(turned);
        let unturned = Arc::clone(&turned);
        let back = move |_: [&[f32]; 1], grad: &[f32]| [Some(unturned(grad, &back))];
        return Fused::new("rotate", x.shape(), move |[x]| turned(x, &sin), back).of(x);
    }
    let half = x.dim(D::Minus1)? / 2;
    let (first, second) = (x.narrow(2, 0, half)?, x.narrow(2, half, half)?);
    let turned = Tensor::cat(&[second.neg()?, first], 2)?;
    let wide = |table: &Tensor| table.unsqueeze(1)?.to_dtype(x.dtype());
    x.broadcast_mul(&wide(cos)?)? + turned.broadcast_mul(&wide(sin)?)?
}

/// Whether the kernels take this tensor.
fn fits(x: &Tensor) -> bool {
    x.device().is_cpu() && x.dtype() == DType::F32
}

/// A copy of values after a kernel that works in place.
fn changed(values: &[f32], kernel: impl FnOnce(&mut [f32])) -> Vec<f32> {
    let mut values = values.to_vec();
    kernel(&mut values);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use attention::{GradPlan, attention};
    use candle_core::{Device, Var};
    use paravt_qwen_vl::ops::{KvSource, Segment};
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
        assert_same(&[&x, &w], rms_norm(&x, &w, 1e-6), nn::rms_norm_slow(&x, &w, 1e-6));
        assert_same(&[&x, &w, &b], layer_norm(&x, &w, &b, 1e-6), nn::layer_norm_slow(&x, &w, &b, 1e-6));
        assert_same(&[&x, &y], gated(&x, &y), x.silu().and_then(|x| x.mul(&y)));
        assert_same(&[&x], gelu_tanh(&x), x.gelu());
        assert_same(&[&x], gelu(&x), x.gelu_erf());
    }

    #[test]
    fn rotary_embedding_has_the_gradients_of_its_composition() {
        let q = random(&[6, 4, 8], 5);
        let angles = random(&[6, 4], 8);
        let wide = |x: Result<Tensor>| x.and_then(|x| Tensor::cat(&[&x, &x], 1)).unwrap();
        let (cos, sin) = (wide(angles.cos()), wide(angles.sin()));
        let composed = || {
            let turned = Tensor::cat(&[q.narrow(2, 4, 4)?.neg()?, q.narrow(2, 0, 4)?], 2)?;
            q.broadcast_mul(&cos.unsqueeze(1)?)? + turned.broadcast_mul(&sin.unsqueeze(1)?)?
        };
        assert_same(&[&q], rotate(&q, &cos, &sin), composed());
    }

    #[test]
    fn products_have_the_gradients_of_candles() {
        let (x, w, b) = (random(&[75, 40], 1), random(&[130, 40], 2), random(&[130], 3));
        let composed = || x.matmul(&w.t()?)?.broadcast_add(&b);
        assert_same(&[&x, &w, &b], linear(&x, &w, Some(&b)), composed());
        let pixels = x.detach();
        assert_same(&[&w], linear(&pixels, &w, None), pixels.matmul(&w.t().unwrap()));
        assert_same(&[&x, &w], linear(&x, &w, None), x.matmul(&w.t().unwrap()));
    }

    /// Attention of one segment by its definition.
    fn defined_one(q: &Tensor, k: &Tensor, v: &Tensor, causal: bool) -> Result<Tensor> {
        let ((queries, heads, dim), (keys, key_heads, _)) = (q.dims3()?, k.dims3()?);
        let repeat = |x: &Tensor| {
            let wide = x.unsqueeze(2)?.expand((keys, key_heads, heads / key_heads, dim))?;
            wide.reshape((keys, heads, dim))?.transpose(0, 1)?.contiguous()
        };
        let (k, v) = (repeat(k)?, repeat(v)?);
        let q = (q.transpose(0, 1)?.contiguous()? * (dim as f64).powf(-0.5))?;
        let mut scores = q.matmul(&k.transpose(1, 2)?)?;
        if causal {
            let hidden = |query: usize, key: usize| key > query + keys - queries;
            let cell = |query: usize| move |key: usize| if hidden(query, key) { f32::MIN } else { 0.0 };
            let mask: Vec<f32> = (0..queries).flat_map(|query| (0..keys).map(cell(query))).collect();
            scores = scores.broadcast_add(&Tensor::from_vec(mask, (queries, keys), &Device::Cpu)?)?;
        }
        nn::softmax(&scores, D::Minus1)?.matmul(&v)?.transpose(0, 1)?.contiguous()
    }

    #[test]
    fn attention_has_the_gradients_of_its_definition() {
        let segments = [(6, 9), (150, 150), (1, 4), (16, 16), (16, 16), (16, 16)];
        let segments = segments.map(|(queries, keys)| Segment { queries, keys });
        let (n, m) = segments.iter().fold((0, 0), |(n, m), s| (n + s.queries, m + s.keys));
        let (q, k, v) = (random(&[n, 4, 8], 5), random(&[m, 2, 8], 6), random(&[m, 2, 8], 7));
        let parts = |x: &Tensor, length: fn(&Segment) -> usize| -> Vec<Tensor> {
            let ends = segments.iter().scan(0, |end, segment| {
                *end += length(segment);
                Some((*end - length(segment), length(segment)))
            });
            ends.map(|(start, length)| x.narrow(0, start, length).unwrap()).collect()
        };
        let sides = || parts(&k, |s| s.keys).into_iter().zip(parts(&v, |s| s.keys)).collect::<Vec<_>>();
        for causal in [false, true] {
            let defined = || {
                let each = parts(&q, |s| s.queries).into_iter().zip(sides());
                let outputs: Result<Vec<_>> =
                    each.map(|(q, (k, v))| defined_one(&q, &k, &v, causal)).collect();
                Tensor::cat(&outputs?, 0)
            };
            // The kernels, and what other devices and types use.
            // The scores of all at once, of some sequences, of some queries, of one.
            for (dtype, scores) in [(DType::F32, 0)]
                .into_iter()
                .chain([1 << 20, 4 * 520, 4 * 300, 1].map(|scores| (DType::BF16, scores)))
            {
                let plan = GradPlan::new(&segments, causal, &Device::Cpu, dtype, scores);
                assert_same(&[&q, &k, &v], attention(&q, KvSource::Packed(&k, &v), &plan), defined());
                assert_same(&[&q, &k, &v], attention(&q, KvSource::Cached(&sides()), &plan), defined());
            }
        }
    }
}
