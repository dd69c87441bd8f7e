//! The embedded world: generated videos of coloured shapes, and miniatures of every split in the
//! exact published schemas, laid out as lmms-eval leaves them under `$HF_HOME`.
//!
//! Everything follows from a seed: scenes, questions, golds and files.

mod encode;
mod questions;
mod scene;
mod splits;
mod tables;

use std::path::{Path, PathBuf};

use rand::SeedableRng as _;
use rand::rngs::StdRng;

pub use encode::EncodeError;
pub use scene::{Event, Scene};

/// How large the world is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorldOptions {
    /// Videos per benchmark.
    pub videos: usize,
    /// Questions per video.
    pub questions: usize,
    /// Everything follows from it.
    pub seed: u64,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self { videos: 3, questions: 2, seed: 0 }
    }
}

/// Why a world could not be made.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A file could not be written.
    #[error("{path}: {message}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// A video could not be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Writes all seven splits below `out`.
///
/// # Errors
/// A file cannot be written, or FFmpeg has no H.264 encoder.
pub fn make_world(out: &Path, options: &WorldOptions) -> Result<(), WorldError> {
    for (number, benchmark) in splits::ALL.iter().enumerate() {
        // A generator of its own for each benchmark: one more question here moves nothing there.
        let mut rng = StdRng::seed_from_u64(options.seed.wrapping_mul(1009).wrapping_add(number as u64));
        benchmark(out, options, &mut rng)?;
    }
    Ok(())
}
