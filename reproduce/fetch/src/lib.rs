#![forbid(unsafe_code)]
//! Published data on this machine: hub downloads into the hub's own cache layout, archives unpacked
//! safely, training files materialized.
//!
//! [`fetch`] does one [`Source`]: it lists the repository at its revision, checks the disk, downloads
//! what is missing in parallel ranges (an interrupted download is resumed), verifies size
//! and hash of every file, and unpacks the archives. Progress goes to an [`Observer`].
//!
//! ```
//! use paravt_fetch::{RepoType, Source};
//!
//! let model = Source::model("Qwen/Qwen3-VL-8B-Instruct", "main")?;
//! assert_eq!(model.kind, RepoType::Model);
//! assert!(Source::model("not an identifier", "main").is_err());
//! # Ok::<(), paravt_fetch::FetchError>(())
//! ```

mod archive;
mod cache;
mod disk;
mod download;
mod environment;
mod error;
mod fetch;
mod hub;
mod materialize;
mod names;
mod observer;
mod repository;
mod retry;
mod size;
mod source;

pub use archive::{Archive, Refused, Unpacked, unpack};
pub use cache::Cache;
pub use disk::available;
pub use environment::{home, is_offline};
pub use error::FetchError;
pub use fetch::{FetchOptions, Fetched, Plan, fetch, model, plan};
pub use hub::{Hub, Token};
pub use materialize::{
    Materialize, Materialized, Media, PathForm, Probe, RowsReport, Unreadable, materialize,
};
pub use observer::{Event, Observer, Silent};
pub use repository::{HubFile, Oid, RepoType};
pub use retry::Retries;
pub use size::size;
pub use source::{Only, Source, Unpack, training};
