//! Qwen3-VL and Qwen2.5-VL on candle: the default in-process engine.

mod cpu;
mod grad;
mod ops;
mod parameters;

pub use candle_core::Device;
pub use cpu::exp;
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
    Engine::start("candle", options, move || CandleOps::new(device, precision).with_threads())
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
    options.reuse = false;
    options.batch = options.batch.min(ROLLOUTS);
    Engine::start("candle", options, move || CandleOps::sharing(&compute, parameters).with_threads())
}

/// Vector units that the kernels use here, e.g. `avx512f, amx-bf16`.
pub fn cpu_features() -> String {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        for (name, has) in [
            ("avx2", std::is_x86_feature_detected!("avx2")),
            ("fma", std::is_x86_feature_detected!("fma")),
            ("avx512f", std::is_x86_feature_detected!("avx512f")),
            ("amx-bf16", cpu::has_amx()),
        ] {
            if has {
                found.push(name);
            }
        }
    }
    if found.is_empty() { "portable code".to_owned() } else { found.join(", ") }
}
