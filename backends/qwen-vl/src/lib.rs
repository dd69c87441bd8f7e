//! Qwen3-VL and Qwen2.5-VL in process: everything but the tensor arithmetic, which an engine brings as
//! [`ops::Ops`].
//!
//! A conversation passes through these rooms in order: [`chat`] renders it, [`processor`] turns images
//! and video frames into patches, [`prompt`] lays out tokens and [`positions`], [`model`] computes,
//! [`sampling`] chooses tokens; [`engine`] runs all of it as a backend.

pub mod chat;
pub mod config;
pub mod engine;
mod error;
mod files;
#[cfg(feature = "flags")]
pub mod flags;
pub mod hub;
pub mod model;
pub mod ops;
pub mod positions;
pub mod processor;
pub mod prompt;
pub mod sampling;
#[cfg(feature = "testing")]
pub mod testing;
pub mod weights;

pub use error::Error;
