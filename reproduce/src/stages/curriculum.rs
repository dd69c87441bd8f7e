//! SFT on the endless curriculum, which makes the base checkpoint of the embedded recipe.

use std::path::PathBuf;
use std::sync::Arc;

use paravt_suite::message::Message;
use paravt_train::data::Conversations;
use paravt_train::sft::{self, SftConfig, SftStep};

use super::sft::TRAINER;
use crate::error::Error;
use crate::host::{Event, Outcome};
use crate::progress::Progress;
use crate::slot::Key;
use crate::work::{StageContext, Work};

/// Trains on the endless curriculum.
#[derive(Debug, Clone)]
pub struct Curriculum {
    pub config: SftConfig,
    /// Folder of the model of random weights.
    pub fresh: PathBuf,
}

impl Work for Curriculum {
    fn title(&self) -> String {
        format!("{} steps on the endless curriculum", self.config.steps)
    }

    fn key(&self) -> Option<Key> {
        Some(Key::new(TRAINER, &self.config))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        let lessons = Arc::new(Lessons { seed: self.config.seed });
        let (folder, compute) = (context.folder, &context.options.compute);
        let progress = |step: &SftStep| {
            (context.event)(Event::Progress(&Progress::Sft(step, self.config.steps)));
        };
        sft::train(&self.fresh, folder, lessons, &self.config, compute, progress)?;
        Ok(Outcome::Complete)
    }
}

/// The endless curriculum of a seed.
struct Lessons {
    seed: u64,
}

impl Conversations for Lessons {
    fn count(&self) -> Option<usize> {
        None
    }

    fn conversation(&self, number: usize) -> paravt_train::Result<Vec<Message>> {
        let row = paravt_nano::Curriculum::at(self.seed, number);
        row.map(|row| row.messages)
            .map_err(|error| paravt_train::Error::Data(format!("lesson {number}: {error}")))
    }
}
