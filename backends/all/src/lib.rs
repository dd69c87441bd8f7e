#![forbid(unsafe_code)]
//! Every backend of the suite as one set of flags. `suite/docs/backends.md` says how to add one.
//!
//! ```
//! let names: Vec<&str> = paravt_backends::doctor().into_iter().map(|(name, _)| name).collect();
//! assert_eq!(names, ["openai", "replay", "candle", "libtorch"]);
//! ```

mod flags;
mod replay;
mod request;

pub use flags::{BackendKind, Backends, Flags};
pub use paravt_backend_candle::HAS_CUDA;
pub use paravt_backend_openai::remedy;
pub use replay::{Replay, ReplayFlags};
pub use request::RequestFlags;

use std::path::Path;

use paravt_qwen_vl::engine::{MemoryPlan, Options};
use paravt_qwen_vl::flags::free_memory;
use paravt_qwen_vl::ops::{Device, Precision};

/// The page on adding a backend, whose code has to compile.
#[cfg(doctest)]
#[doc = include_str!("../../../suite/docs/backends.md")]
struct Page;

/// What the model of a folder takes in this process on candle, beside the memory that is free: on the CPU and on each GPU, by
/// the names of `--device` and `--dtype`.
///
/// # Errors
/// A file of the folder is missing or wrong.
pub fn plans(folder: &Path) -> anyhow::Result<Vec<(String, &'static str, MemoryPlan)>> {
    let gpus = paravt_devices::cuda().map(|cuda| cuda.gpus).unwrap_or_default();
    let on_cpu =
        [Precision::F32, Precision::Bf16].map(|precision| ("cpu".to_owned(), Device::Cpu, precision));
    let on_gpus = gpus
        .into_iter()
        .map(|gpu| (format!("cuda:{}", gpu.ordinal), Device::Cuda(gpu.ordinal), Precision::Bf16));
    let plan = |(name, device, precision): (String, Device, Precision)| {
        let options = Options { precision, memory: free_memory(device), ..Options::new(folder.to_owned()) };
        Ok((name, precision.as_str(), paravt_backend_candle::plan(options, device)?))
    };
    on_cpu.into_iter().chain(on_gpus).map(plan).collect()
}

/// Every backend by name, with what it can use on this machine.
pub fn doctor() -> [(&'static str, String); 4] {
    [
        ("openai", paravt_backend_openai::doctor()),
        ("replay", "needs a recorded run (--from)".to_owned()),
        ("candle", paravt_backend_candle::doctor()),
        ("libtorch", paravt_backend_libtorch::doctor()),
    ]
}
