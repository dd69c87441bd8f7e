#![forbid(unsafe_code)]
//! The vocabulary and the engine of paravt-bench.
//!
//! One [`Sample`](sample::Sample) leaves a dataset row, meets a model
//! ([`Backend`](backend::Backend)) under a named [`Protocol`](protocol::Protocol) and
//! [`Profile`](profile::Profile), and arrives as one scored [`Record`](record::Record) in a run's
//! journal. [`evaluate`] is the front door. This library knows no task, backend, recipe, report or paper
//! by name.
//!
//! ```
//! use paravt_suite::evaluate::RunConfig;
//! use paravt_suite::profile::Profile;
//! use paravt_suite::protocol::native;
//!
//! let config = RunConfig::from_json(r#"{"profile": "strict", "nframes": 32}"#)?;
//! let plan = config.plan(&native::protocol())?;
//! assert_eq!((plan.profile(), plan.nframes), (Profile::Strict, 32));
//! # Ok::<(), paravt_suite::evaluate::ConfigError>(())
//! ```
//!
//! `suite/examples/src/bin` has whole programs: an evaluation, a backend, a reader of runs.

pub mod agent;
pub mod backend;
pub mod code;
pub mod conversation;
pub mod data;
pub mod evaluate;
pub mod fields;
pub mod fingerprint;
#[cfg(any(test, feature = "testing"))]
pub mod fixtures;
pub mod format;
pub mod frames;
pub mod journal;
pub mod message;
pub mod nearest;
pub mod observer;
pub mod plan;
pub mod printable;
pub mod probe;
pub mod profile;
pub mod protocol;
pub mod record;
pub mod redact;
pub mod reference;
pub mod run;
pub mod runner;
pub mod sample;
pub mod scoring;
pub mod settings;
pub mod span;
pub mod summary;
pub mod task;
pub mod text;
pub mod tokens;
pub mod videos;

pub use paravt_media as media;
