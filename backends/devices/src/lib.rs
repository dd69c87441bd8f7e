//! Accelerators and memory of this machine. NVML (the NVIDIA driver's management library) and NCCL are
//! loaded when asked for; this crate links neither, and opens no CUDA context on any GPU.
//!
//! A binary with the feature `cuda` is another matter: candle links libcuda, libnvrtc, libcublas and libcurand,
//! and starts only where those libraries are.
//!
//! ```
//! let host = paravt_devices::host();
//! assert!(host.cores > 0);
//! match paravt_devices::cuda() {
//!     Ok(cuda) => println!("{} GPUs", cuda.gpus.len()),
//!     Err(reason) => println!("no GPU: {reason}"),
//! }
//! ```

mod health;

use std::ffi::c_int;
use std::num::NonZero;

use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use serde::Serialize;

pub use health::{GpuProcess, Health, health, memory_in_use, utilization};

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
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Gpu {
    /// Number by which CUDA programs name it (see [`cuda`]).
    pub ordinal: usize,
    pub name: String,
    /// Compute capability, e.g. (9, 0).
    pub capability: (i32, i32),
    /// Memory in bytes.
    pub memory: u64,
    /// Unallocated memory in bytes.
    pub free: u64,
    /// Whether the GPU is partitioned into MIG instances; a CUDA program then sees one instance, which has less
    /// memory than stands here.
    pub mig: bool,
    /// Bytes per second between it and its memory, by the data sheet's arithmetic: largest clock, two transfers in each
    /// cycle, width of the bus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<u64>,
    /// bfloat16 operations per second of its matrix units at the largest clock, a sum and a product counted apart; `None` of
    /// GPUs whose rate for each multiprocessor is not known here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matrix_rate: Option<u64>,
}

/// Dense bfloat16 operations of a multiprocessor in a cycle, by compute capability. NVIDIA's white papers on A100 (GA100), H100
/// (GH100): 312 and 989 T/s on 108 and 132 of them at 1,410 and 1,830 MHz.
fn operations_per_cycle(capability: (i32, i32)) -> Option<u64> {
    match capability {
        (8, 0) => Some(2048),
        (9, 0) => Some(4096),
        _ => None,
    }
}

/// CUDA cores of a multiprocessor with these capabilities are 64 and 128.
fn cores_per_multiprocessor(capability: (i32, i32)) -> u64 {
    if capability == (8, 0) { 64 } else { 128 }
}

/// See [`Gpu::bandwidth`].
fn bandwidth(memory_mhz: u32, bus_bits: u32) -> u64 {
    2 * u64::from(memory_mhz) * 1_000_000 * u64::from(bus_bits) / 8
}

/// See [`Gpu::matrix_rate`].
fn matrix_rate(capability: (i32, i32), cores: u32, mhz: u32) -> Option<u64> {
    let multiprocessors = u64::from(cores) / cores_per_multiprocessor(capability);
    Some(operations_per_cycle(capability)? * multiprocessors * u64::from(mhz) * 1_000_000)
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
    /// The driver's own version, e.g. `550.54.15`.
    pub driver: Option<String>,
    /// Devices that a CUDA program of this environment sees.
    pub gpus: Vec<Gpu>,
}

/// Looks at processors and memory.
pub fn host() -> Host {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Host {
        cores: std::thread::available_parallelism().map_or(1, NonZero::get),
        memory: kib(&info, "MemTotal:"),
        available: kib(&info, "MemAvailable:"),
    }
}

/// Bytes of a field of a kernel's file, which has them in KiB.
fn kib(file: &str, field: &str) -> Option<u64> {
    let line = file.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Maximum of this process's resident memory so far, in bytes: what it has of its own, and the pages of files that it
/// maps. `None` where the system does not say.
pub fn peak_memory() -> Option<u64> {
    kib(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), "VmHWM:")
}

/// GPUs and driver, by NVML.
///
/// `CUDA_VISIBLE_DEVICES` selects and orders the GPUs as CUDA does. Without it the order is that of the PCI bus;
/// CUDA's own order differs where GPUs of several kinds are mixed and `CUDA_DEVICE_ORDER` is not `PCI_BUS_ID`.
///
/// # Errors
/// No driver, or the driver's own message.
pub fn cuda() -> Result<Cuda, String> {
    let nvml = open()?;
    let version = nvml.sys_cuda_driver_version().map_err(failed)?;
    let gpus = selected(&nvml)?
        .into_iter()
        .enumerate()
        .map(|(ordinal, device)| {
            let (memory, capability) = (device.memory_info()?, device.cuda_compute_capability()?);
            // Virtual GPUs do not say all of it.
            let clock = |kind| device.max_clock_info(kind).ok();
            let memory_rate = clock(Clock::Memory).zip(device.memory_bus_width().ok());
            let processors = device.num_cores().ok().zip(clock(Clock::SM));
            let level = (capability.major, capability.minor);
            Ok(Gpu {
                ordinal,
                name: device.name()?,
                capability: level,
                memory: memory.total,
                free: memory.free,
                // GPUs without the ability answer with an error.
                mig: device.mig_mode().is_ok_and(|mode| mode.current == 1),
                bandwidth: memory_rate.map(|(mhz, bits)| bandwidth(mhz, bits)),
                matrix_rate: processors.and_then(|(cores, mhz)| matrix_rate(level, cores, mhz)),
            })
        })
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    let version = (version / 1000, version % 1000 / 10);
    Ok(Cuda { version, driver: nvml.sys_driver_version().ok(), gpus })
}

fn failed(error: NvmlError) -> String {
    format!("NVML, the management library of the CUDA driver, fails: {error}")
}

fn open() -> Result<Nvml, String> {
    Nvml::init().map_err(|error| match error {
        NvmlError::LibloadingError(_) => {
            "no CUDA driver on this machine (libnvidia-ml.so.1 not found)".to_owned()
        }
        error => failed(error),
    })
}

/// The GPUs that a CUDA program of this environment sees, in its order.
fn selected(nvml: &Nvml) -> Result<Vec<Device<'_>>, String> {
    let count = nvml.device_count().map_err(failed)?;
    let devices = (0..count).map(|index| nvml.device_by_index(index)).collect::<Result<Vec<_>, _>>();
    let devices = devices.map_err(failed)?;
    let uuids = devices.iter().map(|device| device.uuid()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let list = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let mut devices: Vec<Option<Device<'_>>> = devices.into_iter().map(Some).collect();
    Ok(visible(list.as_deref(), &uuids).into_iter().filter_map(|index| devices[index].take()).collect())
}

/// NVML indices of the GPUs that CUDA shows, in CUDA's order: entries are numbers or beginnings of UUIDs, and the
/// first one that names no GPU, or one again, ends the list.
fn visible(list: Option<&str>, uuids: &[String]) -> Vec<usize> {
    let Some(list) = list else { return (0..uuids.len()).collect() };
    let mut found = Vec::new();
    for entry in list.split(',').map(str::trim) {
        // A MIG instance was named by its GPU's UUID until driver 470: `MIG-GPU-<uuid>/<instance>/<compute>`.
        let name = entry.strip_prefix("MIG-").unwrap_or(entry).split('/').next().unwrap_or_default();
        let index = match name.parse::<usize>() {
            Ok(index) => Some(index).filter(|index| *index < uuids.len()),
            Err(_) if name.starts_with("GPU-") => {
                let mut matching = (0..uuids.len()).filter(|&index| uuids[index].starts_with(name));
                matching.next().filter(|_| matching.next().is_none())
            }
            Err(_) => None,
        };
        match index {
            Some(index) if !found.contains(&index) => found.push(index),
            _ => break,
        }
    }
    found
}

/// A library that a program with candle's CUDA kernels is linked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Its name, without a version.
    pub name: &'static str,
    /// The package of PyPI that brings it.
    pub package: &'static str,
    /// The file's name with its version, e.g. `libcublas.so.13`; `None` where none can be loaded.
    pub found: Option<String>,
}

/// Major versions of CUDA that programs are built with, newest first.
const CUDA_MAJORS: [u32; 2] = [13, 12];

/// The libraries without which a program with CUDA does not start, beside the driver's libcuda.
pub fn cuda_libraries() -> Vec<Library> {
    let libraries = [
        // For libcurand.
        ("libcudart", "nvidia-cuda-runtime"),
        ("libcublas", "nvidia-cublas"),
        ("libcublasLt", "nvidia-cublas"),
        ("libnvrtc", "nvidia-cuda-nvrtc"),
        // Its number is not CUDA's.
        ("libcurand", "nvidia-curand"),
    ];
    let found = |name: &str| {
        let majors: &[u32] = if name == "libcurand" { &[10] } else { &CUDA_MAJORS };
        majors.iter().map(|major| format!("{name}.so.{major}")).find(|file| loads(file))
    };
    libraries.map(|(name, package)| Library { name, package, found: found(name) }).into()
}

#[expect(unsafe_code, reason = "a library is loaded to see whether it can be")]
fn loads(file: &str) -> bool {
    // SAFETY: the start-up code of CUDA's libraries has no precondition, and a program with CUDA has run it already.
    unsafe { libloading::Library::new(file) }.is_ok()
}

/// Version of the NCCL library, e.g. (2, 30, 3); `None` where it cannot be loaded.
#[expect(unsafe_code, reason = "NCCL has no Rust binding that loads it at run time")]
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
    fn the_peak_of_a_process_follows_what_it_touches() {
        let size = 1 << 26;
        let before = peak_memory().unwrap();
        let touched = std::hint::black_box(vec![1u8; size]);
        drop(touched);
        assert!(before > 0 && peak_memory().unwrap() >= before.max(size as u64));
    }

    #[test]
    fn a_missing_driver_is_a_reason_and_a_driver_lists_its_gpus() {
        match cuda() {
            Ok(cuda) => assert!(cuda.version.0 >= 11 && cuda.gpus.iter().all(|gpu| gpu.free <= gpu.memory)),
            Err(reason) => assert!(reason.contains("CUDA")),
        }
    }

    #[test]
    fn rates_are_those_of_the_data_sheets() {
        // A100 80 GB: 2,039 GB/s, 312 T/s; H100 SXM: 3,352 GB/s, 989 T/s.
        let near = |found: u64, wanted: f64| (found as f64 / wanted - 1.0).abs() < 2e-3;
        assert!(near(bandwidth(1593, 5120), 2.039e12) && near(bandwidth(2619, 5120), 3.352e12));
        assert!(near(matrix_rate((8, 0), 6912, 1410).unwrap(), 3.12e14));
        assert!(near(matrix_rate((9, 0), 16_896, 1830).unwrap(), 9.894e14));
        assert_eq!(matrix_rate((8, 9), 18_176, 2520), None);
    }

    #[test]
    fn a_library_is_found_only_where_the_loader_finds_it() {
        assert!(loads("libc.so.6") && !loads("libcudart.so.0"));
        let libraries = cuda_libraries();
        assert_eq!(libraries.len(), 5);
        let starts =
            |library: &Library| library.found.as_ref().is_none_or(|file| file.starts_with(library.name));
        assert!(libraries.iter().all(starts), "{libraries:?}");
    }

    #[test]
    fn cuda_visible_devices_selects_and_orders_gpus_as_cuda_does() {
        let uuids = ["GPU-aa11", "GPU-aa22", "GPU-bb33"].map(str::to_owned);
        for (list, wanted) in [
            (None, &[0, 1, 2][..]),
            (Some(""), &[]),
            (Some("2, 0"), &[2, 0]),
            (Some("1,7,0"), &[1]),
            (Some("1,-1,0"), &[1]),
            (Some("0,1,0"), &[0, 1]),
            (Some("GPU-bb,GPU-aa11"), &[2, 0]),
            // Two GPUs begin so.
            (Some("GPU-aa"), &[]),
            (Some("MIG-GPU-aa22/1/0"), &[1]),
        ] {
            assert_eq!(visible(list, &uuids), wanted, "{list:?}");
        }
    }
}
