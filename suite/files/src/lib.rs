#![forbid(unsafe_code)]
//! Files and folders: reading what others provide, writing what is whole after a crash or a power cut, locks, hashes,
//! and paths in commands that are printed.
//!
//! Errors are those of [`std::fs`]; the caller, who knows what the file is for, names it.
//!
//! ```
//! let folder = std::env::temp_dir().join(format!("paravt-files-{}", std::process::id()));
//! std::fs::create_dir_all(&folder)?;
//! paravt_files::write_atomic(&folder.join("notes"), b"whole or not there")?;
//! assert_eq!(paravt_files::read_text(&folder.join("notes"), 1 << 10)?, "whole or not there");
//! paravt_files::remove(&folder)?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod cache;
mod folder;
mod hash;
mod listing;
mod lock;
mod read;
mod shell;
mod write;

pub use cache::cache_dir;
pub use folder::{make_once, remove, replace_dir, sync_dir};
pub use hash::{hex, picture_name, sha256, sha256_file};
pub use listing::Listing;
pub use lock::Lock;
pub use read::{open_regular, read_limited, read_text};
pub use shell::{quote, quote_path};
pub use write::{is_temporary, make_dir, rename, write_atomic, write_atomic_by, write_named};
