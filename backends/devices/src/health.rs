//! State of the GPUs, by NVML: who uses them, what has failed, how they are connected.

use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError, P2pCapabilitiesIndex, P2pStatus};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use serde::Serialize;

use crate::{failed, open, selected};

/// NVLink connections that a GPU may have.
const MAX_LINKS: u32 = 18;

/// State of one GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Processes that compute on it. Inside a container NVML may hide them.
    pub processes: Vec<GpuProcess>,
    /// Uncorrected memory errors since the driver was loaded; `None` where the GPU does not count them.
    pub uncorrected_errors: Option<u64>,
    /// NVLink connections that are up.
    pub links: u32,
    /// Ordinals of the other GPUs whose memory it cannot reach directly.
    pub unreachable: Vec<usize>,
}

/// A process on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuProcess {
    pub pid: u32,
    /// Its program, where that can be read.
    pub program: Option<String>,
    /// GPU memory that it uses, in bytes, where NVML says so.
    pub memory: Option<u64>,
}

/// State of the GPUs that a CUDA program of this environment sees, in its order.
///
/// # Errors
/// No driver, or the driver's own message.
pub fn health() -> Result<Vec<Health>, String> {
    let nvml = open()?;
    let devices = selected(&nvml)?;
    (0..devices.len()).map(|ordinal| of_device(&devices, ordinal).map_err(failed)).collect()
}

fn of_device(devices: &[Device<'_>], ordinal: usize) -> Result<Health, NvmlError> {
    let device = &devices[ordinal];
    let processes = device.running_compute_processes()?.into_iter().map(|process| GpuProcess {
        pid: process.pid,
        program: program(process.pid),
        memory: match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        },
    });
    let links =
        (0..MAX_LINKS).filter(|&link| device.link_wrapper_for(link).is_active().is_ok_and(|is_up| is_up));
    let reaches = |other: &Device<'_>| {
        // A driver that cannot say is not a refusal.
        !matches!(device.p2p_status(other, P2pCapabilitiesIndex::Read), Ok(status) if status != P2pStatus::Ok)
    };
    let unreachable = (0..devices.len()).filter(|&other| other != ordinal && !reaches(&devices[other]));
    Ok(Health {
        processes: processes.collect(),
        uncorrected_errors: device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile).ok(),
        links: u32::try_from(links.count()).unwrap_or(MAX_LINKS),
        unreachable: unreachable.collect(),
    })
}

/// The name of a process's program.
fn program(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim().to_owned())
}

/// Bytes in use on each GPU that a CUDA program of this environment sees, in its order.
///
/// # Errors
/// No driver, or the driver's own message.
pub fn memory_in_use() -> Result<Vec<u64>, String> {
    let nvml: Nvml = open()?;
    let devices = selected(&nvml)?;
    let used = devices.iter().map(|device| device.memory_info().map(|memory| memory.used));
    used.collect::<Result<_, _>>().map_err(failed)
}

/// Utilisation in per cent of each GPU that a CUDA program of this environment sees, in its order.
///
/// # Errors
/// No driver, or the driver's own message.
pub fn utilization() -> Result<Vec<u32>, String> {
    let nvml = open()?;
    let used = selected(&nvml)?.into_iter().map(|device| device.utilization_rates().map(|rates| rates.gpu));
    used.collect::<Result<_, _>>().map_err(failed)
}
