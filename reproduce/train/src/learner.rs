//! A model that is trained: its weights, and what they make of a batch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Tensor};
use paravt_backend_candle::{CandleOps, Compute, Parameter, Parameters};
use paravt_qwen_vl::config::Config;
use paravt_qwen_vl::model::{Model, Rows};
use paravt_qwen_vl::positions::Grid;
use paravt_qwen_vl::prompt::{Medium, Prompter};
use paravt_qwen_vl::weights::Weights;

use crate::error::{Error, Result};
use crate::example::Example;

/// Files of a model folder that a checkpoint takes over as they are.
const COMPANIONS: [&str; 10] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
];

/// A model and its trainable weights, f32.
pub struct Learner {
    model: Model<CandleOps>,
    parameters: Arc<Parameters>,
    prompter: Arc<Prompter>,
    folder: PathBuf,
}

impl Learner {
    /// Loads a model folder; every weight becomes trainable.
    ///
    /// # Errors
    /// A file of the folder is missing or wrong.
    pub fn load(folder: &Path, compute: &Compute) -> Result<Self> {
        let config = Config::read(folder)?;
        let prompter = Arc::new(Prompter::read(folder, &config)?);
        let weights = Weights::open(folder)?;
        let parameters = Arc::new(Parameters::default());
        let ops = CandleOps::training(compute, Arc::clone(&parameters));
        let model = Model::load(ops, config, &weights)?;
        Ok(Self { model, parameters, prompter, folder: folder.to_owned() })
    }

    /// What makes its prompts.
    pub fn prompter(&self) -> &Arc<Prompter> {
        &self.prompter
    }

    /// The weights, shared.
    pub fn parameters(&self) -> &Arc<Parameters> {
        &self.parameters
    }

    /// The weights by name, in the order of names.
    pub fn named(&self) -> Vec<(String, Parameter)> {
        self.parameters.all().into_iter().collect()
    }

    /// The folder it was loaded from.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Logits (learned tokens of the batch, vocabulary) in f32, sequence after sequence: the row of a token is
    /// what the tokens before it predict.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn logits(&self, batch: &[&Example]) -> Result<Tensor> {
        let media: Vec<&Medium> = batch.iter().flat_map(|example| &example.media).collect();
        let features = if media.is_empty() {
            None
        } else {
            let values: Vec<f32> = media.iter().flat_map(|medium| medium.patches.values()).collect();
            let grids: Vec<Grid> = media.iter().map(|medium| medium.patches.grid).collect();
            Some(self.model.encode(values, &grids)?)
        };
        let places: Vec<Vec<u32>> = batch.iter().map(|example| visual_places(&example.media)).collect();
        let mut rows: Vec<Rows<'_, Tensor>> = batch
            .iter()
            .zip(&places)
            .map(|(example, visual)| Rows {
                ids: &example.ids,
                positions: &example.positions,
                visual,
                features: None,
                cache: None,
                last_only: false,
            })
            .collect();
        // Features of all sequences lie one after the other, as their places do.
        if let Some(first) = rows.first_mut() {
            first.features = features.as_ref();
        }
        let hidden = self.model.hidden(&mut rows)?;
        let (mut wanted, mut start) = (Vec::new(), 0);
        for example in batch {
            wanted.extend(example.rows().map(|row| (start + row) as u32));
            start += example.ids.len();
        }
        let wanted = Tensor::from_slice(&wanted, wanted.len(), hidden.device())?;
        Ok(self.model.logits(&hidden.index_select(&wanted, 0)?)?.to_dtype(DType::F32)?)
    }

    /// Writes a model folder that every backend loads: `model.safetensors` in f32, the rest as it was.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
        for name in COMPANIONS {
            let (from, to) = (self.folder.join(name), folder.join(name));
            if from.is_file() && from != to {
                std::fs::copy(&from, &to).map_err(|error| Error::file(&to, error))?;
            }
        }
        let tensors = self
            .named()
            .into_iter()
            .map(|(name, parameter)| Ok((name, parameter.var.reshape(parameter.published)?)))
            .collect::<Result<std::collections::HashMap<_, _>>>()?;
        let path = folder.join("model.safetensors");
        candle_core::safetensors::save(&tensors, &path).map_err(|error| Error::file(&path, error))
    }
}

/// The visual tokens among a sequence's.
fn visual_places(media: &[Medium]) -> Vec<u32> {
    let runs = media.iter().flat_map(|medium| &medium.runs);
    runs.flat_map(|&(start, length)| start as u32..(start + length) as u32).collect()
}
