//! Settings of a CUDA device that is opened, and its kernels.

use std::sync::Arc;

use candle_core::{CudaDevice, Device};
use cudarc::driver::{result, sys};
use paravt_qwen_vl::Error;

use crate::fused::{CudaLauncher, Fused};

/// Compute capability from which on tensor cores multiply bf16 and copies to shared memory are asynchronous.
const OLDEST: i32 = 8;

/// Kernels of ours on a GPU.
///
/// # Errors
/// A GPU that has not what they need.
pub(crate) fn fused(device: &CudaDevice) -> Result<Fused, Error> {
    let capability = device.cuda_stream().context().compute_capability();
    let (major, minor) =
        capability.map_err(|error| Error::compute(format!("compute capability: {error}")))?;
    if major < OLDEST {
        let found = format!("compute capability {major}.{minor}");
        return Err(Error::Compute(format!(
            "{found}: kernels of ours need {OLDEST}.0; use --gpu-kernels candle"
        )));
    }
    Ok(Fused::new(Arc::new(CudaLauncher::new(device.clone()))))
}

/// Maximum of the bytes in use of the device's memory pool since it was made. What cuBLAS and the driver keep for themselves is
/// not in it.
#[expect(unsafe_code, reason = "the driver's functions")]
pub(crate) fn peak_memory(device: &CudaDevice) -> Option<u64> {
    let context = device.cuda_stream().context().clone();
    if !context.has_async_alloc() {
        return None;
    }
    let mut bytes = 0u64;
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    // SAFETY: `context` keeps the primary context of its device open, whose default pool lives as long. The attribute is
    // documented to be written as a `cuuint64_t`, which `bytes` is, for the time of the call.
    unsafe {
        let pool = result::device::get_default_mem_pool(context.cu_device()).ok()?;
        result::mem_pool::get_attribute(pool, attribute, (&raw mut bytes).cast()).ok()?;
    }
    Some(bytes)
}

/// Freed memory stays with the process, and tensors carry no events.
///
/// The driver's own default returns freed memory at every synchronisation, which a decoded token has one of. Events order
/// streams among each other: two of them would be made per tensor, and one recorded per operand of a kernel, for the one
/// stream that there is.
///
/// # Errors
/// The driver's own.
#[expect(unsafe_code, reason = "the driver's functions, and candle's promise about streams")]
pub(crate) fn prepare(device: &Device) -> Result<(), Error> {
    let device = device.as_cuda_device().map_err(crate::tensor::fail)?;
    let context = device.cuda_stream().context().clone();
    let failed = |error: result::DriverError| Error::compute(format!("CUDA memory pool: {error}"));
    context.bind_to_thread().map_err(failed)?;
    // Without pools, as on some virtual GPUs, nothing is pooled that could be released.
    if context.has_async_alloc() {
        let mut threshold = u64::MAX;
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: `context` keeps the primary context of its device open, whose default pool lives as long. The attribute
        // is documented to be read from a `cuuint64_t`, which `threshold` is, for the time of the call.
        unsafe {
            let pool = result::device::get_default_mem_pool(context.cu_device()).map_err(failed)?;
            result::mem_pool::set_attribute(pool, attribute, (&raw mut threshold).cast()).map_err(failed)?;
        }
    }
    // SAFETY: every tensor of this device is made, used and freed on the device's one stream, whatever thread submits it:
    // candle refuses operands of another device, and the stream orders the three.
    unsafe { device.disable_event_tracking() };
    Ok(())
}
