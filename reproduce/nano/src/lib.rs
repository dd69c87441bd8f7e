//! The embedded world: generated videos of coloured shapes, and miniatures of every split in the
//! exact published schemas, laid out as lmms-eval leaves them under `$HF_HOME`. Beside them what a
//! small model learns from: traces, prompts, cheap conversations before those, and the model itself.
//!
//! Everything follows from a seed: scenes, questions, golds and files.
//!
//! ```
//! // The protocol of the miniature: short texts, and the crop tool.
//! let protocol = paravt_nano::protocol();
//! assert_eq!(protocol.tool.name, "crop_video");
//! ```

mod base;
mod curriculum;
mod encode;
mod model;
mod policy;
mod prompts;
mod protocol;
mod questions;
mod rows;
mod samples;
mod scene;
mod splits;
mod tables;
#[cfg(test)]
mod tests;
mod tokenizer;
mod traces;
mod training;

use rand_chacha::ChaCha12Rng as WorldRng;
use rand_chacha::rand_core::SeedableRng as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use base::{base_sha256, write_base};
pub use curriculum::{Curriculum, Row, Skill};
pub use encode::EncodeError;
pub use model::write_model;
pub use prompts::{Prompt, read_prompts};
pub use protocol::protocol;
pub use rows::read_messages;
pub use scene::{Event, Scene, Side};
pub use training::{Mixture, RL_FILE, SFT_FILE, TrainingPaths, TrainingSizes, make_training};

/// Changes when the splits that [`make_world`] writes do.
pub const WORLD_VERSION: u32 = 3;

/// Size of the generated splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldOptions {
    /// Videos per benchmark.
    pub videos: usize,
    /// Questions per video.
    pub questions: usize,
    /// Seed of scenes, questions and golds.
    pub seed: u64,
    /// Whether every second question of Video-MME, LongVideoBench, LVBench and MLVU asks what comes first: an overview
    /// of 64 frames shows it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self { videos: 3, questions: 2, seed: 0, first: false }
    }
}

/// Why a world could not be made.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A file could not be written.
    #[error("{path}: {message}", path = .path.display())]
    Write { path: PathBuf, message: String },
    /// A video could not be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A window or an overview without frames.
    #[error("a generated video does not have the frames that a trace needs: {0}")]
    Frames(String),
    /// A text of the protocol could not be rendered.
    #[error(transparent)]
    Render(#[from] paravt_suite::protocol::render::RenderError),
    /// A file that was made here before cannot be read back.
    #[error("{path}: {message}", path = .path.display())]
    Read { path: PathBuf, message: String },
    /// The tokenizer could not be made.
    #[error("the tokenizer: {0}")]
    Tokenizer(String),
}

/// The stream of a seed by a named algorithm, which every version and machine draws alike: the base checkpoint, the
/// splits and what was recorded on them hang on it.
fn world_rng(seed: u64) -> WorldRng {
    WorldRng::seed_from_u64(seed)
}

/// Writes all seven splits below `out`.
///
/// # Errors
/// A file cannot be written, or FFmpeg has no H.264 encoder.
pub fn make_world(out: &Path, options: &WorldOptions) -> Result<(), WorldError> {
    let mut videos = Vec::new();
    for (number, benchmark) in splits::ALL.iter().enumerate() {
        // A generator of its own for each benchmark: one more question here moves nothing there.
        let mut rng = world_rng(options.seed.wrapping_mul(1009).wrapping_add(number as u64));
        videos.extend(benchmark(out, options, &mut rng)?);
    }
    encode::all(&videos)
}
