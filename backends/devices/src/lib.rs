//! What this machine can compute on. CUDA and NCCL are looked for when asked, never linked, so that
//! one binary starts with and without them.

use std::ffi::c_int;
use std::num::NonZero;

use cudarc::driver::{CudaContext, sys};

/// Processors and memory of the machine.
#[derive(Debug, Clone)]
pub struct Host {
    /// Processors that this process may use.
    pub cores: usize,
    /// Memory in bytes; `None` where the system does not say.
    pub memory: Option<u64>,
    /// Memory that can be had without swapping, in bytes.
    pub available: Option<u64>,
}

/// One CUDA device.
#[derive(Debug, Clone)]
pub struct Gpu {
    /// Number by which backends name it.
    pub ordinal: usize,
    /// The maker's name.
    pub name: String,
    /// Compute capability, e.g. (9, 0).
    pub capability: (i32, i32),
    /// Memory in bytes.
    pub memory: u64,
    /// Memory that nobody holds, in bytes.
    pub free: u64,
}

impl Gpu {
    /// Whether its matrix units take bfloat16 (compute capability 8.0 and later).
    pub fn has_bf16(&self) -> bool {
        self.capability.0 >= 8
    }
}

/// A CUDA driver and what it offers.
#[derive(Debug, Clone)]
pub struct Cuda {
    /// Highest CUDA version that the driver serves, e.g. (12, 8).
    pub version: (i32, i32),
    /// The kernel module's own version, e.g. `550.54.15`, where the system shows it.
    pub driver: Option<String>,
    /// Its devices.
    pub gpus: Vec<Gpu>,
}

/// Looks at processors and memory.
pub fn host() -> Host {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
    };
    Host {
        cores: std::thread::available_parallelism().map_or(1, NonZero::get),
        memory: field("MemTotal:"),
        available: field("MemAvailable:"),
    }
}

/// Looks for CUDA.
///
/// # Errors
/// Why there is none to use: no driver library, or what the driver says.
pub fn cuda() -> Result<Cuda, String> {
    // SAFETY: only loads the driver's library, which runs nothing but its own start-up.
    if !unsafe { sys::is_culib_present() } {
        return Err("no CUDA driver library (libcuda) on this machine".to_owned());
    }
    let failed = |error: cudarc::driver::DriverError| format!("the CUDA driver fails: {error}");
    let count = CudaContext::device_count().map_err(failed)?;
    let mut version: c_int = 0;
    // SAFETY: writes one integer through a pointer to one integer.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(failed)?;
    let gpus = (0..count.max(0) as usize)
        .map(|ordinal| {
            let context = CudaContext::new(ordinal)?;
            let (free, memory) = context.mem_get_info()?;
            let (free, memory) = (free as u64, memory as u64);
            let (name, capability) = (context.name()?, context.compute_capability()?);
            Ok(Gpu { ordinal, name, capability, memory, free })
        })
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    Ok(Cuda { version: (version / 1000, version % 1000 / 10), driver: kernel_driver(), gpus })
}

/// The version in the line that the NVIDIA kernel module shows.
fn kernel_driver() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    driver_version(&text).map(str::to_owned)
}

fn driver_version(text: &str) -> Option<&str> {
    let is_version =
        |word: &&str| word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    text.lines().next()?.split_whitespace().find(is_version)
}

/// Version of the NCCL library, e.g. (2, 30, 3); `None` where it cannot be loaded.
pub fn nccl() -> Option<(i32, i32, i32)> {
    type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
    // SAFETY: NCCL's start-up has no precondition; the symbol has this type in every release, writes
    // one integer and answers 0 for success.
    let version = unsafe {
        let library = libloading::Library::new("libnccl.so.2").ok()?;
        let get_version = library.get::<GetVersion>(b"ncclGetVersion\0").ok()?;
        let mut version = 0;
        (get_version(&mut version) == 0).then_some(version)?
    };
    // Written as 2.8.3 -> 2803 until 2.8, and 2.9.6 -> 20906 since.
    Some(match version {
        10_000.. => (version / 10_000, version / 100 % 100, version % 100),
        _ => (version / 1000, version / 100 % 10, version % 100),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_cores_and_memory() {
        let host = host();
        assert!(host.cores >= 1);
        assert!(host.available.zip(host.memory).is_none_or(|(available, memory)| available <= memory));
    }

    #[test]
    fn looking_for_a_gpu_answers_with_a_reason_or_with_devices_and_never_fails() {
        match cuda() {
            Ok(cuda) => assert!(cuda.version.0 >= 11 && cuda.gpus.iter().all(|gpu| gpu.free <= gpu.memory)),
            Err(reason) => assert!(reason.contains("CUDA")),
        }
    }

    #[test]
    fn the_kernel_module_names_its_version() {
        let text =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n";
        assert_eq!(driver_version(text), Some("550.54.15"));
        assert_eq!(driver_version(""), None);
    }
}
