//! What the embedded recipe generates: a base checkpoint, splits, training data, a model of random weights.

use paravt_nano::{TrainingSizes, WorldOptions};

use crate::error::Error;
use crate::host::Outcome;
use crate::slot::Key;
use crate::work::{StageContext, Work};

/// The next number where the same settings give another result.
const VERSION: &str = "world-1";

/// Unpacks the base checkpoint of the embedded recipe.
#[derive(Debug, Clone, Copy)]
pub struct Base;

impl Work for Base {
    fn title(&self) -> String {
        "the base checkpoint".to_owned()
    }

    fn key(&self) -> Option<Key> {
        Some(Key::new(VERSION, paravt_nano::base_sha256()))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        paravt_nano::write_base(context.folder)?;
        Ok(Outcome::Complete)
    }
}

/// Generates the splits.
#[derive(Debug, Clone, Copy)]
pub struct World(pub WorldOptions);

impl Work for World {
    fn title(&self) -> String {
        "generated videos and the seven splits".to_owned()
    }

    fn key(&self) -> Option<Key> {
        Some(Key::new(VERSION, (self.0, paravt_nano::WORLD_VERSION)))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        paravt_nano::make_world(context.folder, &self.0)?;
        Ok(Outcome::Complete)
    }
}

/// Generates what is trained on.
#[derive(Debug, Clone, Copy)]
pub struct TrainingData {
    /// Numbers of rows.
    pub sizes: TrainingSizes,
    /// Seed of the generator.
    pub seed: u64,
}

impl Work for TrainingData {
    fn title(&self) -> String {
        "videos, traces and prompts to train on".to_owned()
    }

    fn key(&self) -> Option<Key> {
        Some(Key::new(VERSION, (self.sizes, self.seed)))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        paravt_nano::make_training(context.folder, self.seed, &self.sizes)?;
        Ok(Outcome::Complete)
    }
}

/// Writes a model of random weights of this seed.
#[derive(Debug, Clone, Copy)]
pub struct Fresh(pub u64);

impl Work for Fresh {
    fn title(&self) -> String {
        "a model of random weights with its tokenizer".to_owned()
    }

    fn key(&self) -> Option<Key> {
        Some(Key::new(VERSION, self.0))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        paravt_nano::write_model(context.folder, self.0)?;
        Ok(Outcome::Complete)
    }
}
