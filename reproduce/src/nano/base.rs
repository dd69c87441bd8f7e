//! The base checkpoint: a small model that sees, lists, recalls and calls the tool, made from nothing.

use std::path::Path;
use std::sync::Arc;

use paravt_nano::{Curriculum, write_model};
use paravt_suite::message::Message;
use paravt_train::data::Conversations;
use paravt_train::sft::{self, SftConfig, SftStep};

use super::Error;

/// The endless curriculum of a seed.
struct Lessons {
    seed: u64,
}

impl Conversations for Lessons {
    fn count(&self) -> Option<usize> {
        None
    }

    fn conversation(&self, number: usize) -> paravt_train::Result<Vec<Message>> {
        let row = Curriculum::at(self.seed, number);
        row.map(|row| row.messages)
            .map_err(|error| paravt_train::Error::Settings(format!("lesson {number}: {error}")))
    }
}

/// Trains a fresh model on the curriculum; the checkpoint is in `out/final`. Goes on where it was killed.
///
/// # Errors
/// A file that cannot be written, or a checkpoint of other settings.
pub fn train(out: &Path, config: &SftConfig, tell: impl FnMut(&SftStep)) -> Result<(), Error> {
    let fresh = out.join("fresh");
    if !fresh.join("model.safetensors").is_file() {
        write_model(&fresh, config.seed)?;
    }
    sft::train(&fresh, out, Arc::new(Lessons { seed: config.seed }), config, tell)?;
    Ok(())
}

/// The recipe of the checkpoint in this build.
///
/// # Errors
/// It is damaged: a bug.
pub fn recipe() -> Result<SftConfig, Error> {
    Ok(crate::parse_toml("recipe paravt-nano-base", include_str!("../../recipes/paravt-nano-base.toml"))?)
}
