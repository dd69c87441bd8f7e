//! Device and precision of a trainer.

use std::fmt;

use candle_core::Device;
use paravt_backend_candle::{free_memory, open};
use paravt_qwen_vl::ops::{self, Precision};

use crate::error::Result;

/// Device and precision of a trainer, whose weights, gradients and optimiser state are f32.
#[derive(Debug, Clone)]
pub struct Compute {
    place: ops::Device,
    pub(crate) device: Device,
    /// Of activations, and of weights where they are multiplied.
    pub(crate) precision: Precision,
    /// Logits (tokens x vocabulary) that are held at a time, where memory is worth more than a third of the work:
    /// activations are then computed again for their gradients, layer by layer.
    pub(crate) recompute: Option<usize>,
    /// Bytes that were free on a GPU when it was opened.
    pub(crate) free: Option<u64>,
}

/// Logits at a time on a GPU: an eighth of a GiB.
const LOGITS: usize = 1 << 25;

impl Compute {
    /// Opens a device.
    ///
    /// # Errors
    /// There is no such GPU, or this build has no CUDA.
    pub fn new(device: ops::Device, precision: Precision) -> Result<Self> {
        let (place, device) = (device, open(device)?);
        let (recompute, free) = ((!place.is_cpu()).then_some(LOGITS), free_memory(&device));
        Ok(Self { place, device, precision, recompute, free })
    }

    /// In f32 on the CPU.
    pub fn cpu() -> Self {
        Self {
            place: ops::Device::Cpu,
            device: Device::Cpu,
            precision: Precision::F32,
            recompute: None,
            free: None,
        }
    }

    /// As on a GPU: activations are computed again for their gradients, and so many logits are held at a time.
    #[must_use]
    pub fn recomputing(self, logits: usize) -> Self {
        Self { recompute: Some(logits), ..self }
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
