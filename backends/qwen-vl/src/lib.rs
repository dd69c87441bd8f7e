//! Qwen3-VL and Qwen2.5-VL in process: everything but the tensor arithmetic, which an engine brings as
//! [`ops::Ops`].
//!
//! A conversation passes through these modules in order: [`chat`] renders it, [`processor`] turns images
//! and video frames into patches, [`prompt`] lays out tokens and [`positions`], [`model`] computes,
//! [`sampling`] chooses tokens; [`engine`] runs all of it as a backend.
//!
//! ```
//! use paravt_qwen_vl::sampling::log_probability;
//!
//! // Two tokens of equal logits: each has probability 1/2.
//! let log_p = log_probability(&[3.0, 3.0], 1, 1.0)?;
//! assert!((log_p - 0.5_f32.ln()).abs() < 1e-6);
//! # Ok::<(), paravt_qwen_vl::Error>(())
//! ```

pub mod chat;
pub mod config;
pub mod engine;
mod error;
mod files;
#[cfg(feature = "flags")]
pub mod flags;
mod image_cache;
pub mod model;
pub mod ops;
pub mod positions;
pub mod processor;
pub mod prompt;
pub mod sampling;
pub mod spread;
#[cfg(feature = "testing")]
pub mod testing;
pub mod weights;

pub use error::Error;
