//! Qwen3-VL and Qwen2.5-VL on libtorch. Without the feature `libtorch` only its flags.
//!
//! ```
//! #[cfg(feature = "libtorch")]
//! println!("libtorch {}", paravt_backend_libtorch::version());
//! ```

#[cfg(feature = "flags")]
mod flags;
#[cfg(feature = "libtorch")]
mod ops;

#[cfg(feature = "flags")]
pub use flags::LibtorchFlags;

#[cfg(feature = "libtorch")]
pub use engine::{start, version};
#[cfg(feature = "libtorch")]
pub use ops::TorchOps;

#[cfg(feature = "libtorch")]
mod engine {
    use paravt_qwen_vl::Error;
    use paravt_qwen_vl::engine::{Engine, Options};
    use paravt_qwen_vl::ops::Device;

    use crate::TorchOps;

    /// Loads a model on a device.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start(mut options: Options, device: Device) -> Result<Engine, Error> {
        let precision = options.precision;
        options.narrow_weights = device == Device::Cpu;
        if options.deterministic {
            // libtorch has other kernels for one row than for several.
            (options.reuse, options.batch) = (false, 1);
        }
        Engine::start("libtorch", options, move || Ok(TorchOps::new(device, precision)))
    }

    /// Version, threads and devices of the linked library, e.g. `2.13, 2 threads, no CUDA`.
    pub fn version() -> String {
        let cuda = if tch::Cuda::is_available() {
            format!("{} CUDA device(s)", tch::Cuda::device_count())
        } else {
            "no CUDA".to_owned()
        };
        // The bindings refuse to build with any other version.
        format!("2.13, {} threads, {cuda}", tch::get_num_threads())
    }
}
