//! Where the programs of the release and their inputs are.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::files::absolute;

/// Folders and files on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    /// Checkout of ParaVT at the pinned commit.
    pub checkout: PathBuf,
    /// Folder with a copy of the release's AReaL as `areal`: below a link it does not find its configuration.
    pub engines: PathBuf,
    /// Environment of lmms-engine.
    pub sft_environment: PathBuf,
    /// Environment of AReaL and SGLang.
    pub rl_environment: PathBuf,
    /// Folder of the base model.
    pub base: PathBuf,
    /// Folder of the rows of SFT, `paravt_sft_*.parquet`, with plain absolute paths.
    pub sft_rows: PathBuf,
    /// Rows of reinforcement learning.
    pub rl_rows: PathBuf,
}

impl Paths {
    /// The folders of the machine and the words that stand for them in records.
    pub(crate) fn words<'a>(&'a self, folder: &'a Path) -> [(&'a Path, &'static str); 8] {
        [
            (folder, "{stage}"),
            (&self.sft_environment, "{sft_environment}"),
            (&self.rl_environment, "{rl_environment}"),
            (&self.sft_rows, "{sft_rows}"),
            (&self.rl_rows, "{rl_rows}"),
            (&self.base, "{base}"),
            (&self.checkout, "{checkout}"),
            (&self.engines, "{engines}"),
        ]
    }

    /// With absolute paths.
    pub(crate) fn absolute(&self) -> Result<Self> {
        Ok(Self {
            checkout: absolute(&self.checkout)?,
            engines: absolute(&self.engines)?,
            sft_environment: absolute(&self.sft_environment)?,
            rl_environment: absolute(&self.rl_environment)?,
            base: absolute(&self.base)?,
            sft_rows: absolute(&self.sft_rows)?,
            rl_rows: absolute(&self.rl_rows)?,
        })
    }
}
