#![forbid(unsafe_code)]
//! Every backend of the suite as one set of flags. `suite/docs/backends.md` says how to add one.
//!
//! ```
//! let names: Vec<&str> = paravt_backends::doctor().into_iter().map(|(name, _)| name).collect();
//! assert_eq!(names, ["openai", "replay", "candle", "libtorch"]);
//! ```

mod flags;
mod request;

pub use flags::{Backends, Flags, Kind};
pub use paravt_backend_candle::HAS_CUDA;
pub use paravt_backend_openai::remedy;
pub use request::RequestFlags;

/// The page on adding a backend, whose code has to compile.
#[cfg(doctest)]
#[doc = include_str!("../../../suite/docs/backends.md")]
struct Page;

/// Every backend by name, with what it can use on this machine.
pub fn doctor() -> [(&'static str, String); 4] {
    [
        ("openai", paravt_backend_openai::doctor()),
        ("replay", "needs a recorded run (--from)".to_owned()),
        ("candle", paravt_backend_candle::doctor()),
        ("libtorch", paravt_backend_libtorch::doctor()),
    ]
}
