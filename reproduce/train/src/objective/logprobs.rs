//! Log-probabilities of given tokens and entropies, from logits.

use candle_core::{CpuStorage, CustomOp1, D, DType, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use paravt_kernels::logprobs::{Row, backward_row, forward_row};

use crate::storage::{host, values};

/// Log-probabilities (n) of `targets` (n) and entropies (n) in nats, both f32, under the softmax of
/// logits (n, vocab) divided by `temperature`. Differentiable by the logits, both of them.
///
/// On the CPU this is one pass over the logits and one for the gradient, nothing of (n, vocab) being
/// kept in between; on other devices it is composed of candle's operations.
///
/// # Errors
/// Shapes that do not go together, a target outside of the vocabulary, a temperature not above 0.
pub fn token_logprobs(logits: &Tensor, targets: &[u32], temperature: f64) -> Result<(Tensor, Tensor)> {
    let (n, vocab) = logits.dims2()?;
    if targets.len() != n {
        bail!("logits {:?} for {} targets", logits.shape(), targets.len());
    }
    if let Some(target) = targets.iter().find(|&&target| target as usize >= vocab) {
        bail!("target {target} is outside of logits {:?}", logits.shape());
    }
    if temperature.is_nan() || temperature <= 0.0 {
        bail!("temperature {temperature}");
    }
    let logits = logits.to_dtype(DType::F32)?;
    if !logits.device().is_cpu() {
        return composed(&logits, targets, temperature);
    }
    let op = LogProbs { targets: targets.to_vec(), temperature: temperature as f32 };
    let both = logits.contiguous()?.apply_op1(op)?;
    Ok((both.get(0)?, both.get(1)?))
}

/// Mean over the tokens of minus the log-probability of the targets (n) under logits (n, vocab):
/// the loss of supervised training, a scalar f32 tensor.
///
/// # Errors
/// As [`token_logprobs`], and for no targets at all.
pub fn cross_entropy(logits: &Tensor, targets: &[u32]) -> Result<Tensor> {
    if targets.is_empty() {
        bail!("cross entropy of no tokens");
    }
    token_logprobs(logits, targets, 1.0)?.0.mean_all()?.neg()
}

/// [`token_logprobs`] in candle's own operations; logits are (n, vocab) f32.
fn composed(logits: &Tensor, targets: &[u32], temperature: f64) -> Result<(Tensor, Tensor)> {
    let logits = (logits / temperature)?;
    let largest = logits.max_keepdim(D::Minus1)?.detach(); // (n, 1)
    let shifted = logits.broadcast_sub(&largest)?;
    let log_sum = shifted.exp()?.sum_keepdim(D::Minus1)?.log()?; // (n, 1)
    let all = shifted.broadcast_sub(&log_sum)?; // (n, vocab)
    let targets = Tensor::new(targets, logits.device())?.unsqueeze(1)?; // (n, 1)
    let entropy = (all.exp()? * &all)?.sum(D::Minus1)?.neg()?;
    Ok((all.gather(&targets, 1)?.squeeze(1)?, entropy))
}

/// (n, vocab) to (2, n): log-probabilities, then entropies.
struct LogProbs {
    targets: Vec<u32>,
    temperature: f32,
}

impl CustomOp1 for LogProbs {
    fn name(&self) -> &'static str {
        "token-logprobs"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (n, vocab) = layout.shape().dims2()?;
        let logits = values(storage, layout)?;
        let mut out = vec![0.0; 2 * n];
        let (logprobs, entropies) = out.split_at_mut(n);
        let rows = logits.par_chunks(vocab.max(1)).zip(&self.targets);
        logprobs.par_iter_mut().zip(entropies).zip(rows).for_each(|((logprob, entropy), (row, &target))| {
            (*logprob, *entropy) = forward_row(row, target as usize, self.temperature);
        });
        Ok((CpuStorage::F32(out), Shape::from((2, n))))
    }

    fn bwd(&self, logits: &Tensor, both: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let (n, vocab) = logits.dims2()?;
        let (storage, layout) = logits.storage_and_layout();
        let logits = host(&storage, layout)?;
        let (both, gradient) = (both.to_vec2::<f32>()?, gradient.to_vec2::<f32>()?);
        let mut out = vec![0.0; n * vocab];
        let rows = out.par_chunks_mut(vocab.max(1)).zip(logits.par_chunks(vocab.max(1)));
        rows.enumerate().for_each(|(at, (out, row))| {
            let from = Row {
                target: self.targets[at] as usize,
                temperature: self.temperature,
                logprob: both[0][at],
                entropy: both[1][at],
                by_logprob: gradient[0][at],
                by_entropy: gradient[1][at],
            };
            backward_row(out, row, &from);
        });
        Tensor::from_vec(out, (n, vocab), &candle_core::Device::Cpu).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    fn logits(n: usize, vocab: usize) -> Var {
        let value = |at: usize| ((at * 7_919 + 13) % 1_009) as f32 / 120.0 - 4.0;
        Var::from_vec((0..n * vocab).map(value).collect::<Vec<f32>>(), (n, vocab), &Device::Cpu).unwrap()
    }

    #[test]
    fn one_pass_and_composed_agree() {
        for (n, vocab) in [(1, 1), (3, 5), (9, 16), (4, 1_000)] {
            let logits = logits(n, vocab);
            let targets: Vec<u32> = (0..n).map(|at| (at * 31 % vocab) as u32).collect();
            let weights = Tensor::arange(1f32, n as f32 + 1.0, &Device::Cpu).unwrap();
            let results = |(logprobs, entropy): (Tensor, Tensor)| {
                let sum = ((&logprobs * &weights).unwrap() + (&entropy * 0.3).unwrap()).unwrap();
                let gradient = sum.sum_all().unwrap().backward().unwrap().get(&logits).unwrap().clone();
                let flat = |tensor: Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                [logprobs, entropy, gradient].map(flat)
            };
            let one = results(token_logprobs(&logits, &targets, 0.7).unwrap());
            let other = results(composed(&logits, &targets, 0.7).unwrap());
            for (one, other) in one.iter().zip(&other) {
                for (one, other) in one.iter().zip(other) {
                    assert!((one - other).abs() <= 2e-6 * (1.0 + other.abs()), "{n} {vocab}: {one} {other}");
                }
            }
        }
    }

    #[test]
    fn far_and_forbidden_logits() {
        let row = [1e30f32, -1e30, f32::NEG_INFINITY, 1e30];
        let logits = Var::from_slice(&row, (1, 4), &Device::Cpu).unwrap();
        let (logprobs, entropy) = token_logprobs(&logits, &[0], 1.0).unwrap();
        let half = std::f32::consts::LN_2;
        assert_eq!(
            (logprobs.to_vec1::<f32>().unwrap(), entropy.to_vec1().unwrap()),
            (vec![-half], vec![half])
        );
        let gradients = logprobs.sum_all().unwrap().backward().unwrap();
        let gradient = gradients.get(&logits).unwrap().to_vec2::<f32>().unwrap().remove(0);
        let wanted = [0.5, 0.0, 0.0, -0.5];
        assert!(gradient.iter().zip(wanted).all(|(one, other)| (one - other).abs() < 1e-7), "{gradient:?}");
    }

    #[test]
    fn narrow_transposed_and_no_logits() {
        let wide = logits(6, 4);
        let turned = wide.t().unwrap().to_dtype(DType::BF16).unwrap();
        let (logprobs, _) = token_logprobs(&turned, &[0, 1, 2, 5], 1.0).unwrap();
        assert_eq!((logprobs.dims(), logprobs.dtype()), (&[4][..], DType::F32));
        let gradients = logprobs.sum_all().unwrap().backward().unwrap();
        assert_eq!(gradients.get(&wide).unwrap().dims(), [6, 4]);
        let none = Tensor::zeros((0, 4), DType::F32, &Device::Cpu).unwrap();
        assert_eq!(token_logprobs(&none, &[], 1.0).unwrap().0.dims(), [0]);
    }

    #[test]
    fn contradictory_settings_are_refused_by_name() {
        let logits = logits(2, 3);
        let error = |targets: &[u32], temperature| {
            token_logprobs(&logits, targets, temperature).unwrap_err().to_string()
        };
        assert!(error(&[0], 1.0).contains("logits [2, 3] for 1 targets"));
        assert!(error(&[0, 3], 1.0).contains("target 3 is outside of logits [2, 3]"));
        assert!(error(&[0, 1], 0.0).contains("temperature 0"));
        assert!(cross_entropy(&logits, &[]).unwrap_err().to_string().contains("no tokens"));
    }
}
