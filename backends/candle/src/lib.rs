//! Qwen3-VL and Qwen2.5-VL on candle: the default in-process engine.
//!
//! ```
//! use paravt_backend_candle::start;
//! use paravt_qwen_vl::engine::Options;
//! use paravt_qwen_vl::ops::Device;
//!
//! // A model is loaded from its folder; what is wrong with that is an error that names the file.
//! let error = start(Options::new("nowhere".into()), Device::Cpu).err().expect("there is no such model");
//! assert!(error.to_string().contains("nowhere"));
//! ```

// The lints of ci/test see the crate with the feature.
#![cfg_attr(not(feature = "cuda"), deny(unused))]

mod composed;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
pub mod fused;
pub mod tensor;

pub use composed::ComposedOps;
pub use cpu::{CpuOps, CpuPlan, INVARIANT_BATCH, seq_lens};
pub use paravt_kernels::{Isa, UnsupportedIsa, set_isa};

use paravt_qwen_vl::Error;
use paravt_qwen_vl::config::Config;
use paravt_qwen_vl::engine::{Engine, MemoryPlan, Options};
use paravt_qwen_vl::ops::{Device, Precision};
use paravt_qwen_vl::weights::Weights;

use crate::fused::Fused;
use crate::tensor::WeightSource;

/// Whether candle's CUDA kernels are built in.
pub const HAS_CUDA: bool = cfg!(feature = "cuda");

/// Loads a model on a device.
///
/// # Errors
/// As [`Engine::start`]; the device cannot be opened.
pub fn start(mut options: Options, device: Device) -> Result<Engine, Error> {
    options.narrow_weights = device == Device::Cpu;
    if options.deterministic {
        let precision = options.precision;
        let batch = if device == Device::Cpu { CpuOps::invariant_batch(precision) } else { 1 };
        options.reuse = false;
        options.batch = options.batch.min(batch);
    }
    if let Device::Cuda(ordinal) = device
        && let Ok(cuda) = paravt_devices::cuda()
        && let Some(gpu) = cuda.gpus.get(ordinal)
    {
        options.rates = [gpu.bandwidth, gpu.matrix_rate];
    }
    let invariant = options.deterministic;
    start_on(options, &open(device)?, None, invariant)
}

/// What a model takes on a device, which is not opened. On a GPU with the kernels that the options name.
///
/// # Errors
/// A file of the folder is missing or wrong.
pub fn plan(options: Options, device: Device) -> Result<MemoryPlan, Error> {
    let pass = match (device, options.precision) {
        (Device::Cpu, _) => options.pass,
        (_, Precision::Bf16) if !options.candle_kernels => ComposedOps::FUSED,
        _ => ComposedOps::LIMITS,
    };
    let (config, weights) = (Config::read(&options.folder)?, Weights::open(&options.folder)?);
    let narrow_weights = device == Device::Cpu;
    Ok(MemoryPlan::new(&config, &weights, &Options { pass, narrow_weights, ..options }))
}

/// A model whose weights come from elsewhere than its folder, on a device that is open already. On the CPU an answer
/// has the same bits alone and beside up to [`INVARIANT_BATCH`] others.
///
/// # Errors
/// As [`Engine::start`].
pub fn start_with_weights(
    options: Options,
    device: &candle_core::Device,
    weights: WeightSource,
) -> Result<Engine, Error> {
    start_on(options, device, Some(weights), true)
}

fn start_on(
    mut options: Options,
    device: &candle_core::Device,
    weights: Option<WeightSource>,
    batch_invariant: bool,
) -> Result<Engine, Error> {
    let precision = options.precision;
    options.memory = options.memory.min(free_memory(device).unwrap_or(u64::MAX));
    if device.is_cpu() {
        return Engine::start("candle", options, move |_| {
            let ops = CpuOps::new(precision).with_weights(weights).with_threads()?;
            Ok(if batch_invariant { ops.batch_invariant() } else { ops })
        });
    }
    let fused = if options.candle_kernels { None } else { fused(device)? };
    let ops = ComposedOps::new(device.clone(), precision).with_weights(weights).with_fused(fused);
    options.pass = ops.limits();
    Engine::start("candle", options, move |pass| Ok(ops.with_scores(pass.scores)))
}

/// The fused CUDA kernels on a GPU; `None` of the CPU, and in builds without the feature `cuda`.
///
/// # Errors
/// The GPU is older than tensor cores for bf16.
pub fn fused(device: &candle_core::Device) -> Result<Option<Fused>, Error> {
    #[cfg(feature = "cuda")]
    if let candle_core::Device::Cuda(device) = device {
        return cuda::fused(device).map(Some);
    }
    let _ = device;
    Ok(None)
}

/// Opens a device.
///
/// # Errors
/// There is no such GPU, or this build has no CUDA.
pub fn open(device: Device) -> Result<candle_core::Device, Error> {
    match device {
        Device::Cpu => Ok(candle_core::Device::Cpu),
        Device::Cuda(_) if !HAS_CUDA => {
            Err(Error::Compute("--device cuda: this binary was built without the feature `cuda`; install it with --features cuda, or use --device cpu".to_owned()))
        }
        // One stream for all host threads, which orders what they submit.
        Device::Cuda(ordinal) => {
            let opened = candle_core::Device::new_cuda_with_stream(ordinal);
            let device = opened.map_err(|error| match paravt_devices::cuda() {
                Err(reason) => Error::Compute(format!("--device cuda: {reason}")),
                Ok(_) => tensor::fail(error),
            })?;
            #[cfg(feature = "cuda")]
            cuda::prepare(&device)?;
            Ok(device)
        }
    }
}

/// Unallocated bytes of a GPU; `None` of the CPU, and in builds without the feature `cuda`.
pub fn free_memory(device: &candle_core::Device) -> Option<u64> {
    #[cfg(feature = "cuda")]
    if let candle_core::Device::Cuda(device) = device {
        return device.cuda_stream().context().mem_get_info().ok().map(|(free, _)| free as u64);
    }
    let _ = device;
    None
}

/// Maximum of the bytes that this process had in use of a GPU's memory pool, or of its resident memory on the CPU. `None` on
/// GPUs without pools.
pub fn peak_memory(device: &candle_core::Device) -> Option<u64> {
    #[cfg(feature = "cuda")]
    if let candle_core::Device::Cuda(device) = device {
        return cuda::peak_memory(device);
    }
    if device.is_cpu() { paravt_devices::peak_memory() } else { None }
}

/// What it can use on this machine: the kernels' instruction set and the GPUs.
pub fn doctor() -> String {
    let gpus = paravt_devices::cuda().map(|cuda| cuda.gpus.len()).unwrap_or_default();
    let cuda = match (HAS_CUDA, gpus) {
        (true, 0) => "; built with CUDA, but no GPU is here".to_owned(),
        (true, gpus) => format!(" and {gpus} GPU(s)"),
        (false, 0) => "; built without CUDA".to_owned(),
        (false, gpus) => format!("; {gpus} GPU(s) are here, but this build is without the feature `cuda`"),
    };
    format!("CPU ({}){cuda}", paravt_kernels::isa())
}
