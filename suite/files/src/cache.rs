//! The user's cache folder.

use std::path::PathBuf;

/// Where results are cached that can be made again; `None` where the environment names no place for it.
pub fn cache_dir() -> Option<PathBuf> {
    let from_env = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    from_env("PARAVT_BENCH_CACHE")
        .or_else(|| from_env("XDG_CACHE_HOME").map(|dir| dir.join("paravt-bench")))
        .or_else(|| from_env("HOME").map(|home| home.join(".cache/paravt-bench")))
}
