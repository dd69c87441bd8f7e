//! Products with weights.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};

use super::{back, fits, values, with_values};
use crate::cpu::{self, Weight, backward};

/// x (n, k) by weight (out, k) transposed, plus bias (out): (n, out).
///
/// One operation: the gradient of the weight is made in the weight's own layout and never turned.
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let product = if fits(x) && fits(weight) {
        x.contiguous()?.apply_op2(&weight.contiguous()?, Linear)?
    } else {
        x.matmul(&weight.t()?)?
    };
    match bias {
        Some(bias) => product.broadcast_add(bias),
        None => Ok(product),
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
        let product = cpu::matmul(values(x, lx)?, false, Weight::F32(values(w, lw)?), k, out, cpu::FEW);
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
