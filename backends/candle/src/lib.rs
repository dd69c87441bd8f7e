//! Qwen3-VL and Qwen2.5-VL on candle: the default in-process engine.

mod grad;
mod ops;
mod parameters;

pub use candle_core::Device;
pub use ops::{CandleOps, Compute, ROLLOUTS};
pub use parameters::{Parameter, Parameters};

use std::sync::Arc;

use paravt_qwen_vl::Error;
use paravt_qwen_vl::engine::{Engine, Options};

/// Whether candle's CUDA kernels are built in.
pub const HAS_CUDA: bool = cfg!(feature = "cuda");

/// Loads a model on a device.
///
/// # Errors
/// As [`Engine::start`].
pub fn start(mut options: Options, device: Device) -> Result<Engine, Error> {
    let precision = options.precision;
    options.narrow_weights = device.is_cpu();
    options.memory = options.memory.min(free_memory(&device).unwrap_or(u64::MAX));
    let deterministic = options.deterministic;
    if deterministic {
        options.reuse = false;
        options.batch = options.batch.min(CandleOps::invariant_batch(&device, precision));
    }
    Engine::start("candle", options, move || {
        let ops = CandleOps::new(device, precision).with_threads()?;
        Ok(if deterministic { ops.batch_invariant() } else { ops })
    })
}

/// Unallocated bytes of a GPU; `None` of the CPU, and in builds without the feature `cuda`.
pub fn free_memory(device: &Device) -> Option<u64> {
    #[cfg(feature = "cuda")]
    if let Device::Cuda(device) = device {
        return device.cuda_stream().context().mem_get_info().ok().map(|(free, _)| free as u64);
    }
    let _ = device;
    None
}

/// A model whose weights are those of a trainer, as they are at each moment. What it answers depends on
/// the prompt and the seed alone: nothing is kept from one prompt for the next, and at most [`ROLLOUTS`]
/// decode together, on the CPU each as if it were alone.
///
/// # Errors
/// As [`Engine::start`].
pub fn start_shared(
    mut options: Options,
    compute: Compute,
    parameters: Arc<Parameters>,
) -> Result<Engine, Error> {
    options.precision = compute.precision;
    options.memory = options.memory.min(free_memory(&compute.device).unwrap_or(u64::MAX));
    // What is sampled is the distribution that the policy gradient is taken of.
    options.neutral_sampling = true;
    options.reuse = false;
    options.batch = options.batch.min(ROLLOUTS);
    Engine::start("candle", options, move || CandleOps::sharing(&compute, parameters).with_threads())
}

/// The instruction set that the kernels use here, e.g. `avx512`.
pub fn cpu_features() -> String {
    paravt_kernels::isa().to_string()
}
