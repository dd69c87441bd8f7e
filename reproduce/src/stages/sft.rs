//! SFT in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paravt_nano::{Curriculum, read_messages};
use paravt_suite::data::read_rows;
use paravt_suite::frames::FrameSource;
use paravt_suite::message::Message;
use paravt_suite::protocol::Protocol;
use paravt_train::data::Conversations;
use paravt_train::sft::{self, SftConfig, SftStep};
use serde_json::Value;

use super::training_record::record;
use crate::error::Error;
use crate::host::{Event, Outcome};
use crate::progress::Progress;
use crate::slot::Key;
use crate::work::{StageContext, Work};

/// Version of the trainer; the next number where the same settings give other weights.
pub(super) const TRAINER: &str = "training-1";

/// Cold-start SFT, or the making of the model that it starts from.
#[derive(Debug, Clone)]
pub struct Sft {
    pub config: SftConfig,
    /// Folder of the base checkpoint, or of the model of random weights.
    pub base: PathBuf,
    /// Folder of the training data; the endless curriculum where there is none.
    pub data: Option<PathBuf>,
}

impl Work for Sft {
    fn title(&self) -> String {
        match &self.data {
            Some(_) => format!("cold-start SFT, {} steps", self.config.steps),
            None => format!("{} steps on the endless curriculum", self.config.steps),
        }
    }

    fn key(&self) -> Option<Key> {
        Some(Key::new(TRAINER, &self.config))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        let rows: Arc<dyn Conversations> = match &self.data {
            Some(data) => Arc::new(Traces::read(data, &context.options.frames)?),
            None => Arc::new(Lessons { seed: self.config.seed }),
        };
        let (recipe, folder, compute) = (context.recipe, context.folder, &context.options.compute);
        let progress = |step: &SftStep| {
            (context.event)(Event::Progress(&Progress::Sft(step, self.config.steps)));
        };
        sft::train(&self.base, folder, rows, &self.config, compute, progress)?;
        // A report judges no claim about the model that the curriculum makes.
        if self.data.is_some() {
            record(recipe, folder)?;
        }
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
        let row = Curriculum::at(self.seed, number);
        row.map(|row| row.messages)
            .map_err(|error| paravt_train::Error::Data(format!("lesson {number}: {error}")))
    }
}

/// SFT rows, with the frames that their videos stand for.
struct Traces {
    path: PathBuf,
    rows: Vec<Value>,
    root: PathBuf,
    frames: Arc<dyn FrameSource>,
    protocol: Protocol,
}

impl Traces {
    /// Reads the rows of a training world.
    fn read(root: &Path, frames: &Arc<dyn FrameSource>) -> Result<Self, Error> {
        let path = root.join(paravt_nano::SFT_FILE);
        let wrong = |message: String| paravt_train::Error::File { path: path.clone(), message };
        let mut rows = Vec::new();
        for row in read_rows(&path).map_err(|error| wrong(error.to_string()))? {
            let text = row.get("messages").and_then(Value::as_str).unwrap_or_default();
            rows.push(serde_json::from_str(text).map_err(|error| wrong(format!("`messages`: {error}")))?);
        }
        let (frames, protocol) = (Arc::clone(frames), paravt_nano::protocol());
        Ok(Self { path, rows, root: root.to_owned(), frames, protocol })
    }
}

impl Conversations for Traces {
    fn count(&self) -> Option<usize> {
        Some(self.rows.len())
    }

    fn conversation(&self, row: usize) -> paravt_train::Result<Vec<Message>> {
        let wrong = |message| paravt_train::Error::Row { path: self.path.clone(), row, message };
        read_messages(&self.rows[row], &self.root, &*self.frames, &self.protocol).map_err(wrong)
    }
}
