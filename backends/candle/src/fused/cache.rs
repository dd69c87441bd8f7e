//! Compiled kernels in a folder, so that a program compiles them once per machine.

use std::path::PathBuf;

use candle_core::{Error, Result};

/// Bytes of a file at most: the largest of ours has 0.3 MB.
const LIMIT: u64 = 64 << 20;

/// A text with all that its compiled form depends on.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// CUDA C++.
    pub text: &'a str,
    /// Of the compiler, the architecture among them.
    pub options: &'a [String],
    /// Version of the compiler.
    pub compiler: (i32, i32),
}

/// Compiled texts by the hash of their [`Source`].
#[derive(Debug, Clone)]
pub struct KernelCache(Option<PathBuf>);

impl KernelCache {
    /// In a folder, which is made when it is first written to; without one, nothing is kept.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    /// In the user's cache folder.
    pub fn of_user() -> Self {
        Self(paravt_files::cache_dir().map(|folder| folder.join("kernels")))
    }

    /// The compiled form of a text, from its file or from `compile`. A file that is damaged is written again.
    ///
    /// # Errors
    /// Those of `compile`. That a file cannot be written is a warning.
    pub fn get(&self, source: Source<'_>, compile: impl FnOnce() -> Result<String>) -> Result<String> {
        let Some(folder) = &self.0 else { return compile() };
        let Source { text, options, compiler: (major, minor) } = source;
        let key = paravt_files::sha256(format!("NVRTC {major}.{minor} {}\n{text}", options.join(" ")));
        let path = folder.join(format!("{key}.ptx"));
        // The first line is the hash of the rest.
        let known = paravt_files::read_text(&path, LIMIT).ok();
        let known = known.as_deref().and_then(|file| file.split_once('\n'));
        if let Some((hash, compiled)) = known
            && hash == paravt_files::sha256(compiled)
        {
            return Ok(compiled.to_owned());
        }
        let compiled = compile()?;
        let file = format!("{}\n{compiled}", paravt_files::sha256(&compiled));
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| paravt_files::write_atomic(&path, file.as_bytes()))
            .map_err(Error::wrap);
        if let Err(error) = written {
            tracing::warn!("{}: compiled kernels are not kept: {error}", path.display());
        }
        Ok(compiled)
    }
}
