//! Qwen3-VL and Qwen2.5-VL on candle: the default in-process engine.

mod ops;

pub use ops::CandleOps;

use candle_core::Device;
use paravt_qwen_vl::Error;
use paravt_qwen_vl::engine::{Engine, Options};

/// Loads a model on a device.
///
/// # Errors
/// As [`Engine::start`].
pub fn start(options: Options, device: Device) -> Result<Engine, Error> {
    let precision = options.precision;
    Engine::start("candle", options, move || Ok(CandleOps::new(device, precision)))
}
