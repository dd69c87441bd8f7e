//! What the embedded recipes generate from settings alone.

use std::path::Path;

use paravt_nano::{TrainingSizes, WorldOptions};

use crate::error::Error;
use crate::host::Outcome;
use crate::slot::Key;
use crate::work::{StageContext, Work};

/// The next number where the same settings give another result.
const VERSION: &str = "world-1";

/// Something that is generated.
#[derive(Debug, Clone, Copy)]
pub enum Generated {
    /// The base checkpoint, unpacked.
    Base,
    World(WorldOptions),
    /// Rows to train on, as many as the sizes say, by a generator of this seed.
    TrainingData(TrainingSizes, u64),
    /// A model of random weights of this seed.
    Fresh(u64),
}

impl Work for Generated {
    fn title(&self) -> String {
        match self {
            Self::Base => "the base checkpoint",
            Self::World(_) => "generated videos and the seven splits",
            Self::TrainingData(..) => "training videos, traces and prompts",
            Self::Fresh(_) => "a model of random weights with its tokenizer",
        }
        .to_owned()
    }

    fn key(&self) -> Option<Key> {
        Some(match self {
            Self::Base => Key::new(VERSION, paravt_nano::base_sha256()),
            Self::World(options) => Key::new(VERSION, (options, paravt_nano::WORLD_VERSION)),
            Self::TrainingData(sizes, seed) => Key::new(VERSION, (sizes, seed)),
            Self::Fresh(seed) => Key::new(VERSION, seed),
        })
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        self.make(context.folder)?;
        Ok(Outcome::Complete)
    }
}

impl Generated {
    fn make(&self, folder: &Path) -> Result<(), Error> {
        match self {
            Self::Base => paravt_nano::write_base(folder)?,
            Self::World(options) => paravt_nano::make_world(folder, options)?,
            Self::TrainingData(sizes, seed) => drop(paravt_nano::make_training(folder, *seed, sizes)?),
            Self::Fresh(seed) => paravt_nano::write_model(folder, *seed)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use paravt_files::Listing;

    use super::*;

    /// A changed hash without a changed version means that finished stages of users stay, though they would be made otherwise
    /// now. Videos and weights depend on the encoder and the mathematics library of the machine; they are not hashed.
    #[test]
    fn what_is_generated_and_its_version() {
        let kinds = [
            Generated::Base,
            Generated::World(WorldOptions { videos: 1, questions: 1, ..WorldOptions::default() }),
            Generated::TrainingData(
                TrainingSizes { videos: 2, rows: 10, prompts: 10, ..TrainingSizes::default() },
                0,
            ),
            Generated::Fresh(0),
        ];
        let is_left_out = |name: &str| name.ends_with(".mp4") || name.ends_with(".safetensors");
        let lines = kinds.map(|kind| {
            let folder = tempfile::tempdir().unwrap();
            kind.make(folder.path()).unwrap();
            let files = serde_json::json!(Listing::of(folder.path(), is_left_out).unwrap()).to_string();
            format!("{} {:?}: {}\n", kind.key().unwrap().version, kind.title(), paravt_files::sha256(files))
        });
        insta::assert_snapshot!(lines.concat());
    }
}
