#![forbid(unsafe_code)]
//! Every backend of the suite. Adding one is a folder beside this one, a line in `ALL` and its dependency.
//!
//! ```
//! let names: Vec<&str> = paravt_backends::doctor().into_iter().map(|(name, _)| name).collect();
//! assert_eq!(names, ["openai", "replay", "candle", "libtorch"]);
//! ```

mod flags;

use paravt_backend::Registration;

pub use flags::{Backends, Flags};
pub use paravt_backend::{DeclaredElsewhere, RequestFlags};
pub use paravt_backend_openai::remedy;

/// Every backend, the default first.
static ALL: &[Registration] = &[
    Registration::of::<paravt_backend_openai::OpenAiFlags>(),
    Registration::of::<paravt_backend_replay::ReplayFlags>(),
    Registration::of::<paravt_backend_candle::CandleFlags>(),
    Registration::of::<paravt_backend_libtorch::LibtorchFlags>(),
];

/// Every backend by name, with what it can use on this machine.
pub fn doctor() -> Vec<(&'static str, String)> {
    ALL.iter().map(|kind| (kind.name, (kind.doctor)())).collect()
}
