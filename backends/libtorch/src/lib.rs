//! Qwen3-VL and Qwen2.5-VL on libtorch. Without the feature `libtorch`, nothing starts.
//!
//! ```
//! println!("libtorch: {}", paravt_backend_libtorch::doctor());
//! ```

#[cfg(feature = "libtorch")]
mod ops;

use paravt_qwen_vl::Error;
use paravt_qwen_vl::engine::{Engine, Options};
use paravt_qwen_vl::ops::Device;

#[cfg(feature = "libtorch")]
pub use ops::TorchOps;

/// Loads a model on a device.
///
/// # Errors
/// As [`Engine::start`].
#[cfg(feature = "libtorch")]
pub fn start(mut options: Options, device: Device) -> Result<Engine, Error> {
    let precision = options.precision;
    options.narrow_weights = device == Device::Cpu;
    if options.deterministic {
        // libtorch has other kernels for one row than for several.
        (options.reuse, options.batch) = (false, 1);
    }
    if device != Device::Cpu {
        options.pass = ops::LIMITS;
    }
    Engine::start("libtorch", options, move |_| Ok(TorchOps::new(device, precision)))
}

/// Refuses: this build lacks the feature `libtorch`.
///
/// # Errors
/// Always.
#[cfg(not(feature = "libtorch"))]
pub fn start(_: Options, _: Device) -> Result<Engine, Error> {
    Err(Error::Compute("--backend libtorch: this binary was built without the feature `libtorch`; install it with --features libtorch, or use --backend candle".to_owned()))
}

/// Version, threads and devices of the linked library, e.g. `2.13, 2 threads, no CUDA`.
#[cfg(feature = "libtorch")]
pub fn doctor() -> String {
    let cuda = if tch::Cuda::is_available() {
        format!("{} CUDA device(s)", tch::Cuda::device_count())
    } else {
        "no CUDA".to_owned()
    };
    // The bindings refuse to build with any other version.
    format!("2.13, {} threads, {cuda}", tch::get_num_threads())
}

/// That this build lacks the library.
#[cfg(not(feature = "libtorch"))]
pub fn doctor() -> String {
    "not in this build (feature `libtorch`)".to_owned()
}
