//! Products with weights.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor};

use super::{back, fits, values, with_values};
use paravt_kernels::{self as kernels, GEMV_MAX_M, Weight, backward, elementwise};

/// x (n, k) by weight (out, k) transposed, plus bias (out): (n, out).
///
/// One operation: the gradient of the weight is made in the weight's own layout and never turned.
pub(crate) fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    match (fits(x) && fits(weight), bias) {
        (true, None) => x.contiguous()?.apply_op2(&weight.contiguous()?, Linear),
        (true, Some(bias)) => x.contiguous()?.apply_op3(&weight.contiguous()?, bias, BiasedLinear),
        (false, None) => x.matmul(&weight.t()?),
        (false, Some(bias)) => x.matmul(&weight.t()?)?.broadcast_add(bias),
    }
}

struct Linear;

impl CustomOp2 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        w: &CpuStorage,
        lw: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let ((n, _), (out, k)) = (lx.shape().dims2()?, lw.shape().dims2()?);
        let product = kernels::linear(values(x, lx)?, Weight::F32(values(w, lw)?), k, out, GEMV_MAX_M);
        Ok((CpuStorage::F32(product), (n, out).into()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (out, k) = w.dims2()?;
        // Pixels want no gradient.
        let (to_x, to_w) = with_values([x, w, grad], |[values, w, grad]| {
            backward::linear(values, w, grad, (out, k), x.track_op())
        })?;
        Ok((to_x.map(|to_x| back(to_x, x)).transpose()?.flatten(), back(to_w, w)?))
    }
}

struct BiasedLinear;

impl CustomOp3 for BiasedLinear {
    fn name(&self) -> &'static str {
        "biased-linear"
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
        let (mut product, shape) = Linear.cpu_fwd(x, lx, w, lw)?;
        if let CpuStorage::F32(product) = &mut product {
            elementwise::add_bias(product, values(b, lb)?);
        }
        Ok((product, shape))
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        b: &Tensor,
        product: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (to_x, to_w) = Linear.bwd(x, w, product, grad)?;
        let to_b = with_values([grad], |[grad]| backward::bias(grad, b.elem_count()))?;
        Ok((to_x, to_w, back(to_b, b)?))
    }
}
