//! Qwen3-VL and Qwen2.5-VL on libtorch. Empty without the feature `libtorch`.

#[cfg(feature = "libtorch")]
mod ops;

#[cfg(feature = "libtorch")]
pub use engine::{Device, HAS_LIBTORCH, start, version};
#[cfg(feature = "libtorch")]
pub use ops::TorchOps;

/// Whether libtorch is linked.
#[cfg(not(feature = "libtorch"))]
pub const HAS_LIBTORCH: bool = false;

#[cfg(feature = "libtorch")]
mod engine {
    use paravt_qwen_vl::Error;
    use paravt_qwen_vl::engine::{Engine, Options};
    pub use tch::Device;

    use crate::TorchOps;

    /// Whether libtorch is linked.
    pub const HAS_LIBTORCH: bool = true;

    /// Loads a model on a device.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start(mut options: Options, device: Device) -> Result<Engine, Error> {
        let precision = options.precision;
        options.narrow_weights = false;
        Engine::start("libtorch", options, move || Ok(TorchOps::new(device, precision)))
    }

    /// What is linked and what it can use, e.g. `2.13.0, 2 threads, no CUDA`.
    pub fn version() -> String {
        let cuda = if tch::Cuda::is_available() {
            format!("{} CUDA device(s)", tch::Cuda::device_count())
        } else {
            "no CUDA".to_owned()
        };
        format!("{}, {} threads, {cuda}", tch_version(), tch::get_num_threads())
    }

    /// The version this build was made for; the bindings refuse any other.
    fn tch_version() -> &'static str {
        "2.13"
    }
}
