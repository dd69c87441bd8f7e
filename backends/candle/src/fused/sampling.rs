//! Launches of `sampling.cu`.

use candle_core::{DType, Result, Tensor};
use paravt_qwen_vl::sampling::Draw;

use super::{Arg, Fused, Launch, Module, room};

const THREADS: usize = 1024;
/// Values of bf16, which are counted.
const KEYS: usize = 1 << 16;

impl Fused {
    /// See [`Ops::sample`].
    ///
    /// # Errors
    /// The launch.
    ///
    /// [`Ops::sample`]: paravt_qwen_vl::ops::Ops::sample
    pub fn sample(&self, logits: &Tensor, draws: &[Draw]) -> Result<Option<Vec<(u32, f32)>>> {
        let (rows, width) = logits.dims2()?;
        let logits = logits.contiguous()?;
        let values = draws.iter().flat_map(|draw| {
            let Draw { temperature, top_k, top_p, uniform, logprob_temperature } = *draw;
            [temperature, top_k as f64, top_p, uniform, f64::from(logprob_temperature)]
        });
        let values = Tensor::from_vec(values.collect::<Vec<f64>>(), (rows, 5), logits.device())?;
        let found = room((rows, 2), DType::U32, logits.device())?;
        let counts = (draws.iter().any(|draw| draw.temperature > 0.0))
            .then(|| Tensor::zeros((rows, KEYS), DType::U32, logits.device()))
            .transpose()?;
        let counted = counts.as_ref().map_or(Arg::Null, Arg::Out);
        let args = [Arg::In(&logits), Arg::In(&values), counted, Arg::Out(&found), Arg::Int(width)];
        let (module, kernel) = (Module::Sampling, "sample");
        self.0.launch(&Launch { module, kernel, grid: [rows, 1, 1], threads: THREADS, args: &args })?;
        let found: Vec<Vec<u32>> = found.to_vec2()?;
        let finite = found.iter().all(|row| (row[0] as usize) < width);
        Ok(finite.then(|| found.iter().map(|row| (row[0], f32::from_bits(row[1]))).collect()))
    }
}
