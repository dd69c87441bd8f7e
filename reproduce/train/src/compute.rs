//! Device and precision of a trainer.

use std::fmt;
use std::sync::Arc;

use candle_core::Device;
use paravt_backend_candle::{INVARIANT_BATCH, open, start_with_weights};
use paravt_qwen_vl::engine::{Engine, Options};
use paravt_qwen_vl::ops::{self, Precision};

use crate::error::Result;
use crate::parameters::Parameters;

/// Device and precision of a trainer. The number type of weights, gradients and optimiser state is set apart from it, by
/// [`StatePrecision`](crate::optimizer::StatePrecision).
#[derive(Debug, Clone)]
pub struct Compute {
    place: ops::Device,
    pub(crate) device: Device,
    /// Of activations, and of weights where they are multiplied.
    pub(crate) precision: Precision,
}

impl Compute {
    /// Opens a device.
    ///
    /// # Errors
    /// There is no such GPU, or this build has no CUDA.
    pub fn new(device: ops::Device, precision: Precision) -> Result<Self> {
        Ok(Self { place: device, device: open(device)?, precision })
    }

    /// In f32 on the CPU.
    pub fn cpu() -> Self {
        Self { place: ops::Device::Cpu, device: Device::Cpu, precision: Precision::F32 }
    }

    /// The device.
    pub fn device(&self) -> ops::Device {
        self.place
    }

    /// Number type of activations.
    pub fn precision(&self) -> Precision {
        self.precision
    }
}

impl fmt::Display for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.place.kind(), self.precision.as_str())
    }
}

/// A model whose weights are those of a trainer, as they are at each moment. What it answers depends on
/// the prompt and the seed alone: nothing is kept from one prompt for the next, and at most [`INVARIANT_BATCH`]
/// decode together, on the CPU each as if it were alone.
///
/// # Errors
/// As [`Engine::start`].
pub fn start_rollouts(
    mut options: Options,
    compute: &Compute,
    parameters: &Arc<Parameters>,
) -> Result<Engine> {
    options.precision = compute.precision;
    // What is sampled is the distribution that the policy gradient is taken of.
    options.neutral_sampling = true;
    options.reuse = false;
    options.batch = options.batch.min(INVARIANT_BATCH);
    Ok(start_with_weights(options, &compute.device, parameters.source(&compute.device))?)
}
