//! The operations of training: the kernels of inference with a backward pass, so that a trainer
//! and its rollouts compute the same numbers. Off the CPU they are composed of candle's own.

mod attention;
mod linear;
mod ops;

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, D, DType, Layout, Result, Shape, Storage, Tensor,
};
use candle_nn::ops as nn;

pub(crate) use linear::linear;
pub(crate) use ops::GradOps;

use paravt_kernels::{backward, elementwise};

/// x over its root mean square, times weight; over the last axis.
pub(crate) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    if !fits(x) {
        return nn::rms_norm_slow(x, weight, eps);
    }
    x.contiguous()?.apply_op2(weight, RmsNorm(eps))
}

/// x to mean 0 and variance 1, scaled and shifted; over the last axis.
pub(crate) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor> {
    if !fits(x) {
        return nn::layer_norm_slow(x, weight, bias, eps);
    }
    x.contiguous()?.apply_op3(weight, bias, LayerNorm(eps))
}

/// silu(gate) * up.
pub(crate) fn gated(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    if !fits(gate) {
        return gate.silu()?.mul(up);
    }
    gate.contiguous()?.apply_op2(&up.contiguous()?, Gated)
}

/// Gaussian error linear unit by tanh.
pub(crate) fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    if fits(x) { x.contiguous()?.apply_op1(GeluTanh) } else { x.gelu() }
}

/// Gaussian error linear unit, exact.
pub(crate) fn gelu(x: &Tensor) -> Result<Tensor> {
    if fits(x) { x.contiguous()?.apply_op1(Gelu) } else { x.gelu_erf() }
}

/// Rotary embedding of x (n, heads, dim) by tables (n, dim), halves paired; the tables are constants.
pub(crate) fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
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

/// Runs a backward kernel on the values of tensors on the CPU.
fn with_values<R, const N: usize>(tensors: [&Tensor; N], kernel: impl FnOnce([&[f32]; N]) -> R) -> Result<R> {
    let mut dense = Vec::with_capacity(N);
    for tensor in tensors {
        dense.push(tensor.contiguous()?);
    }
    let held: Vec<_> = dense.iter().map(Tensor::storage_and_layout).collect();
    let mut slices: [&[f32]; N] = [&[]; N];
    for (slice, (storage, layout)) in slices.iter_mut().zip(&held) {
        let Storage::Cpu(storage) = &**storage else { candle_core::bail!("values are not on the CPU") };
        *slice = values(storage, layout)?;
    }
    Ok(kernel(slices))
}

fn back(values: Vec<f32>, like: &Tensor) -> Result<Option<Tensor>> {
    Tensor::from_vec(values, like.shape(), like.device()).map(Some)
}

fn made(values: Vec<f32>, layout: &Layout) -> Result<(CpuStorage, Shape)> {
    Ok((CpuStorage::F32(values), layout.shape().clone()))
}

/// A copy of values after a kernel that works in place.
fn changed(
    storage: &CpuStorage,
    layout: &Layout,
    kernel: impl FnOnce(&mut [f32]),
) -> Result<(CpuStorage, Shape)> {
    let mut values = values(storage, layout)?.to_vec();
    kernel(&mut values);
    made(values, layout)
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
        let (to_x, to_w) = with_values([x, w, grad], |[x, w, grad]| backward::rms_norm(x, w, self.0, grad))?;
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
        let (to_x, to_w) =
            with_values([x, w, grad], |[x, w, grad]| backward::layer_norm(x, w, self.0, grad))?;
        let to_b = with_values([grad], |[grad]| backward::bias(grad, b.elem_count()))?;
        Ok((back(to_x, x)?, back(to_w, w)?, back(to_b, b)?))
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
        let b = values(b, lb)?;
        changed(a, la, |a| elementwise::silu_mul(a, b))
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (to_gate, to_up) = with_values([a, b, grad], |[a, b, grad]| backward::silu_mul(a, b, grad))?;
        Ok((back(to_gate, a)?, back(to_up, b)?))
    }
}

struct GeluTanh;

impl CustomOp1 for GeluTanh {
    fn name(&self) -> &'static str {
        "gelu_tanh"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        changed(x, layout, elementwise::gelu_tanh)
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        back(with_values([x, grad], |[x, grad]| backward::gelu_tanh(x, grad))?, x)
    }
}

struct Gelu;

impl CustomOp1 for Gelu {
    fn name(&self) -> &'static str {
        "gelu"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        changed(x, layout, elementwise::gelu)
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        back(with_values([x, grad], |[x, grad]| backward::gelu(x, grad))?, x)
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
        changed(x, layout, |x| elementwise::rope(x, heads * dim, &self.cos, &self.sin, heads, dim))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        // Turned back by the same angles; both halves of a table are equal.
        let (_, heads, dim) = x.dims3()?;
        let sin: Vec<f32> = self.sin.iter().map(|sin| -sin).collect();
        let mut turned = with_values([grad], |[grad]| grad.to_vec())?;
        elementwise::rope(&mut turned, heads * dim, &self.cos, &sin, heads, dim);
        back(turned, x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use attention::{GradPlan, attention};
    use candle_core::{Device, Var};
    use paravt_qwen_vl::ops::{Keys, Segment};
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
            for dtype in [DType::F32, DType::BF16] {
                let plan = GradPlan::new(&segments, causal, &Device::Cpu, dtype).unwrap();
                assert_same(&[&q, &k, &v], attention(&q, Keys::Packed(&k, &v), &plan), defined());
                assert_same(&[&q, &k, &v], attention(&q, Keys::Apart(&sides()), &plan), defined());
            }
        }
    }
}
