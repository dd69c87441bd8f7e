//! The base checkpoint: a small model that sees, lists, recalls and calls the tool, made from nothing.

use std::path::Path;
use std::sync::Arc;

use futures::future::try_join_all;
use paravt_nano::{Curriculum, Kind, write_model};
use paravt_suite::backend::{Backend, CallId, Generation, Request};
use paravt_suite::message::{Content, Message};
use paravt_train::data::Conversations;
use paravt_train::sft::{self, SftConfig, SftStep};
use paravt_train::{Compute, durable};

use super::Error;
use crate::RecipeError;

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
pub fn train(
    out: &Path,
    config: &SftConfig,
    compute: &Compute,
    tell: impl FnMut(&SftStep),
) -> Result<(), Error> {
    let fresh = out.join("fresh");
    if !fresh.is_dir() {
        let part = durable::beside(&fresh, ".part");
        let failed = |error| paravt_train::Error::File { path: fresh.clone(), message: format!("{error}") };
        durable::remove_folder(&part).map_err(|error: std::io::Error| failed(error))?;
        write_model(&part, config.seed)?;
        durable::replace_folder(&part, &fresh).map_err(failed)?;
    }
    sft::train(&fresh, out, Arc::new(Lessons { seed: config.seed }), config, compute, tell)?;
    Ok(())
}

/// Rows that it was not trained on, of each kind, answered greedily: how many answers are right to the
/// letter, of `rows`.
///
/// # Errors
/// A row that cannot be made, or a backend that fails.
pub async fn examine(backend: &dyn Backend, rows: usize) -> Result<Vec<(&'static str, usize)>, Error> {
    let mut lessons = Curriculum::new(u64::MAX);
    let mut found = Vec::new();
    for kind in Kind::ALL {
        let mut asked = Vec::new();
        for number in 0..rows {
            let mut messages = lessons.row(kind)?.messages;
            let Some(Content::Text(wanted)) = messages.pop().map(|message| message.content) else { continue };
            let id = CallId { sample: format!("{}-{number}", kind.as_str()), step: "turn0".to_owned() };
            let generation = Generation::greedy(256);
            asked.push((Request::new(id, messages, generation), wanted));
        }
        let answers = try_join_all(asked.iter().map(|(request, _)| backend.complete(request))).await?;
        let right = answers.iter().zip(&asked).filter(|(answer, (_, wanted))| answer.text == *wanted);
        found.push((kind.as_str(), right.count()));
    }
    Ok(found)
}

/// The recipe of the checkpoint in this build.
///
/// # Errors
/// It is damaged: a bug.
pub fn recipe() -> Result<SftConfig, RecipeError> {
    crate::parse_toml("recipe paravt-nano-base", include_str!("../../recipes/paravt-nano-base.toml"))
}
