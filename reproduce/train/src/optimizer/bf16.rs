use candle_core::{DType, Tensor};

use super::{Gradients, Moments, Step};
use crate::error::Result;

/// Values of bfloat16 in a tensor of f32.
pub(super) fn rounded(values: &Tensor) -> Result<Tensor> {
    Ok(values.to_dtype(DType::BF16)?.to_dtype(DType::F32)?)
}

/// One number as bfloat16 has it.
fn rounded_number(value: f64) -> Result<f64> {
    let device = candle_core::Device::Cpu;
    let value = Tensor::new(value as f32, &device)?.to_dtype(DType::BF16)?;
    Ok(f64::from(value.to_dtype(DType::F32)?.to_scalar::<f32>()?))
}

/// `clip_grad_norm_` of gradients in bfloat16: the norm of each is rounded, and so are the norm of the norms, the
/// factor and the products. Gives the gradients, rounded and clipped, and the norm before clipping.
pub(super) fn clipped(gradients: &Gradients, max_grad_norm: f64) -> Result<(Gradients, f64)> {
    let round = |(name, gradient): (&String, &Tensor)| Ok((name.clone(), rounded(gradient)?));
    let gradients: Vec<(String, Tensor)> = gradients.0.iter().map(round).collect::<Result<_>>()?;
    let mut squares = 0.0;
    for (_, gradient) in &gradients {
        squares += rounded_number(super::sum_of_squares(gradient)?.sqrt())?.powi(2);
    }
    let norm = rounded_number(squares.sqrt())?;
    let factor = rounded_number(max_grad_norm / rounded_number(norm + 1e-6)?)?;
    if max_grad_norm == 0.0 || factor >= 1.0 || !norm.is_finite() {
        return Ok((gradients.into_iter().collect(), norm));
    }
    let clip = |(name, gradient): (String, Tensor)| Ok((name, rounded(&(gradient * factor)?)?));
    Ok((gradients.into_iter().map(clip).collect::<Result<_>>()?, norm))
}

/// `torch.optim.AdamW` (not fused) of a weight, gradient and moments in bfloat16: every operation computes in f32 and
/// rounds what it stores. Gives the weight's new values and its moments.
///
/// At the recipe's rates nothing is left of the weight decay (1 - 2e-7 rounds to 1), and the second moment only grows
/// (0.999 of a bfloat16 rounds back to it).
pub(super) fn update(
    weight: &Tensor,
    gradient: &Tensor,
    moments: Option<&Moments>,
    step: &Step,
) -> Result<(Tensor, Moments)> {
    let steps = moments.map_or(0, |moments| moments.steps) + 1;
    let (first, second) = match moments {
        Some(Moments { first, second, .. }) => (first.to_dtype(DType::F32)?, second.to_dtype(DType::F32)?),
        None => (gradient.zeros_like()?, gradient.zeros_like()?),
    };
    let correct1 = 1.0 - step.beta1.powf(f64::from(steps));
    let correct2 = 1.0 - step.beta2.powf(f64::from(steps));
    let value = rounded(&(weight * step.kept)?)?;
    let first = rounded(&(&first + ((gradient - &first)? * (1.0 - step.beta1))?)?)?;
    let added = ((gradient * (1.0 - step.beta2))? * gradient)?;
    let second = rounded(&(rounded(&(second * step.beta2)?)? + added)?)?;
    // Divided, not multiplied by the inverse, which f32 rounds otherwise.
    let correction = Tensor::new(correct2.sqrt() as f32, weight.device())?;
    let spread = rounded(&rounded(&second.sqrt()?)?.broadcast_div(&correction)?)?;
    let spread = rounded(&(spread + step.eps)?)?;
    let value = rounded(&(value + ((&first * (-step.rate / correct1))? / spread)?)?)?;
    let (first, second) = (first.to_dtype(DType::BF16)?, second.to_dtype(DType::BF16)?);
    Ok((value, Moments { first, second, steps }))
}
