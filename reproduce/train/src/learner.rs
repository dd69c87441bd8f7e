//! A trainable model: its weights, and the logits of a batch.

mod scorer;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Tensor};
use paravt_qwen_vl::config::Config;
use paravt_qwen_vl::model::{Features, Model, Rows};
use paravt_qwen_vl::ops::Ops;
use paravt_qwen_vl::positions::Grid;
use paravt_qwen_vl::prompt::{Medium, Prompter};
use paravt_qwen_vl::weights::Weights;

use crate::compute::Compute;
use crate::error::{Error, Result};
use crate::example::Example;
use crate::grad::{self, GradOps, GradientSink};
use crate::memory::StepMemory;
use crate::objective::token_logprobs;
use crate::optimizer::Gradients;
use crate::parameters::{Parameter, Parameters};
use crate::workers::Workers;

pub use scorer::Scorer;

/// Files beside the weights that a model folder may have. A checkpoint takes over those of the model that the
/// training began with.
const COMPANIONS: [&str; 14] = [
    "config.json", "config.5.0.0.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "vocab.json", "merges.txt", "added_tokens.json", "special_tokens_map.json", "chat_template.jinja",
    "chat_template.json", "preprocessor_config.json", "video_preprocessor_config.json",
    "processor_config.json",
];
/// The weights of a checkpoint.
const WEIGHTS: &str = "model.safetensors";

/// A model and its trainable weights, f32.
pub struct Learner {
    model: Arc<Model<GradOps>>,
    parameters: Arc<Parameters>,
    prompter: Arc<Prompter>,
    folder: PathBuf,
    /// Read once, so that nothing that happens to the folder later changes what is saved.
    companions: BTreeMap<&'static str, Vec<u8>>,
    compute: Compute,
    workers: Workers,
}

impl Learner {
    /// Loads a model folder; every weight becomes trainable.
    ///
    /// # Errors
    /// A file of the folder is missing or wrong.
    pub fn load(folder: &Path, compute: &Compute) -> Result<Self> {
        Self::resume(folder, folder, compute)
    }

    /// The model of a folder with the weights of another, which holds a checkpoint of it.
    ///
    /// # Errors
    /// A file of one of the folders is missing or wrong.
    pub fn resume(folder: &Path, weights: &Path, compute: &Compute) -> Result<Self> {
        let companions = companions(folder)?;
        let config = Config::read(folder)?;
        let prompter = Arc::new(Prompter::read(folder, &config)?);
        let weights = Weights::open(weights)?;
        let parameters = Arc::new(Parameters::new(compute));
        let ops = GradOps::new(compute, Arc::clone(&parameters));
        let model = Arc::new(Model::load(ops, config, &weights)?);
        let (folder, compute, workers) = (folder.to_owned(), compute.clone(), Workers::new(compute));
        Ok(Self { model, parameters, prompter, folder, companions, compute, workers })
    }

    /// Chat template, tokenizer and processor.
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

    /// Memory of a step.
    pub fn memory(&self) -> StepMemory {
        let weights = self.parameters.all().values().map(|weight| weight.var.elem_count()).sum();
        StepMemory::new(&self.model.config, weights, &self.compute)
    }

    /// # Errors
    /// Passes of so many tokens, the setting `field`, do not fit on the GPU.
    pub(crate) fn check_memory(&self, field: &str, tokens: usize) -> Result<()> {
        self.compute.free.map_or(Ok(()), |free| self.memory().check(field, tokens, free))
    }

    /// The folder of the model that the training began with.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Device and precision.
    pub fn compute(&self) -> &Compute {
        &self.compute
    }

    /// Where its micro-batches are computed.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Logits (learned tokens of the batch, vocabulary) in f32, sequence after sequence: the row of a token is
    /// what the tokens before it predict. Differentiable by the weights.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn logits(&self, batch: &[&Example]) -> Result<Tensor> {
        logits(&*self.model, &hidden(&*self.model, batch)?)
    }

    /// Gradients of a loss of the log-probabilities (learned tokens of the batch) in nats at a temperature, and of the
    /// entropies, sequence after sequence; with the loss, and what else its function gives.
    ///
    /// # Errors
    /// Tensor arithmetic; those of the loss.
    pub fn gradients<R>(
        &self,
        batch: &[&Example],
        temperature: f64,
        loss: impl FnOnce(&Tensor, &Tensor) -> Result<(Tensor, R)>,
    ) -> Result<(Gradients, f64, R)> {
        let sink = GradientSink::new(self.parameters.all());
        let (logprobs, entropies) = match self.compute.recompute {
            None => token_logprobs(&self.logits(batch)?, &targets(batch), temperature)?,
            Some(at_once) => self.recomputed(batch, temperature, at_once, &sink)?,
        };
        let (loss, rest) = loss(&logprobs, &entropies)?;
        let value = f64::from(loss.to_scalar::<f32>()?);
        sink.add(loss.backward()?)?;
        Ok((sink.take(), value, rest))
    }

    /// Log-probabilities and entropies whose activations are computed again for their gradients.
    fn recomputed(
        &self,
        batch: &[&Example],
        temperature: f64,
        at_once: usize,
        sink: &Arc<GradientSink>,
    ) -> Result<(Tensor, Tensor)> {
        let model = &self.model;
        let encode = |patches, grids: &[Grid]| grad::encode(model, sink, patches, grids);
        let hidden = learned(&**model, batch, encode, |rows| grad::hidden(model, sink, rows))?;
        let both =
            in_pieces(&hidden, &targets(batch), (at_once, model.config.text.vocab_size), |rows, targets| {
                let (model, targets) = (Arc::clone(model), targets.to_vec());
                let scored = move |hidden: &Tensor, _: Option<&Tensor>| -> Result<Tensor> {
                    let (logprobs, entropies) =
                        token_logprobs(&logits(&*model, hidden)?, &targets, temperature)?;
                    Ok(Tensor::stack(&[logprobs, entropies], 1)?)
                };
                Ok(grad::recomputed(sink, rows, None, scored)?)
            })?;
        Ok((both.narrow(1, 0, 1)?.squeeze(1)?, both.narrow(1, 1, 1)?.squeeze(1)?))
    }

    /// The model with the same weights, as they are at each moment, without gradients.
    ///
    /// # Errors
    /// The folder of the model cannot be read any more.
    pub fn scorer(&self) -> Result<Scorer> {
        Scorer::of(&self.folder, &self.compute, Some(self.parameters.source()))
    }

    /// Writes a model folder that every backend loads: `model.safetensors` in f32, the rest as in the model that
    /// the training began with. The folder has its name once everything is in it and on disk.
    ///
    /// # Errors
    /// A file cannot be written; a weight is NaN or infinite.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let part = folder.with_added_extension("part");
        paravt_files::remove(&part).map_err(|error| Error::file(&part, error))?;
        self.write_into(&part)?;
        paravt_files::replace_dir(&part, folder).map_err(|error| Error::file(folder, error))
    }

    /// Writes the files of [`save`](Self::save) into a folder.
    pub(crate) fn write_into(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
        for (name, bytes) in &self.companions {
            let path = folder.join(name);
            std::fs::write(&path, bytes).map_err(|error| Error::file(&path, error))?;
        }
        let mut tensors = HashMap::new();
        for (name, parameter) in self.named() {
            let tensor = parameter.var.reshape(parameter.published)?;
            // NaN and infinity times 0 are NaN, and so is every sum with it.
            let check = (&tensor * 0.0)?.sum_all()?.to_scalar::<f32>()?;
            if check != 0.0 {
                return Err(Error::DivergedWeight(name));
            }
            tensors.insert(name, tensor);
        }
        let path = folder.join(WEIGHTS);
        candle_core::safetensors::save(&tensors, &path).map_err(|error| Error::file(&path, error))
    }

    /// Whether a folder that [`save`](Self::save) wrote can be loaded: configuration, tokenizer and templates are
    /// read, and each weight is there in its shape.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn verify(&self, folder: &Path) -> Result<()> {
        Prompter::read(folder, &Config::read(folder)?)?;
        let weights = Weights::open(folder)?;
        for (name, parameter) in self.named() {
            weights.get(&name, &parameter.published)?;
        }
        Ok(())
    }
}

/// Learned tokens of a batch.
fn targets(batch: &[&Example]) -> Vec<u32> {
    batch.iter().flat_map(|example| example.targets()).collect()
}

/// What `score` makes of rows of hidden states and their targets, at most so many logits (`at_once`, columns) at a time.
fn in_pieces(
    hidden: &Tensor,
    targets: &[u32],
    (at_once, columns): (usize, usize),
    score: impl Fn(&Tensor, &[u32]) -> Result<Tensor>,
) -> Result<Tensor> {
    let most = (at_once / columns.max(1)).max(1);
    if targets.len() <= most {
        return score(hidden, targets);
    }
    let parts = targets
        .chunks(most)
        .enumerate()
        .map(|(number, targets)| score(&hidden.narrow(0, number * most, targets.len())?, targets));
    Ok(Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0)?)
}

/// The companions of a model folder.
fn companions(folder: &Path) -> Result<BTreeMap<&'static str, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for name in COMPANIONS {
        let path = folder.join(name);
        match std::fs::read(&path) {
            Ok(bytes) => _ = found.insert(name, bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::file(&path, error)),
        }
    }
    Ok(found)
}

/// Logits in f32 of hidden states.
fn logits<O: Ops<Tensor = Tensor>>(model: &Model<O>, hidden: &Tensor) -> Result<Tensor> {
    Ok(model.logits(hidden)?.to_dtype(DType::F32)?)
}

/// Hidden states (learned tokens of the batch, hidden) of the tokens before the learned ones, sequence after sequence.
fn hidden<O: Ops<Tensor = Tensor>>(model: &Model<O>, batch: &[&Example]) -> Result<Tensor> {
    learned(model, batch, |patches, grids| model.encode(patches, grids), |rows| model.hidden(rows))
}

type Outcome<T> = std::result::Result<T, paravt_qwen_vl::Error>;

/// [`hidden`] by other passes than the model's own.
fn learned<O: Ops<Tensor = Tensor>>(
    model: &Model<O>,
    batch: &[&Example],
    encode: impl FnOnce(Tensor, &[Grid]) -> Outcome<Features<Tensor>>,
    run: impl FnOnce(&mut [Rows<'_, Tensor>]) -> Outcome<Tensor>,
) -> Result<Tensor> {
    let layout = layout(batch);
    let own: Vec<&[Medium]> =
        batch.iter().zip(&layout).map(|(example, place)| place.own_media(example)).collect();
    let media: Vec<&Medium> = own.iter().copied().flatten().collect();
    let features = if media.is_empty() {
        None
    } else {
        let values: Vec<f32> = media.iter().flat_map(|medium| medium.patches.values()).collect();
        let grids: Vec<Grid> = media.iter().map(|medium| medium.patches.grid).collect();
        let patches = grids.iter().map(|grid| grid.patches()).sum::<usize>();
        let shape = [patches, model.config.vision.patch_values()];
        Some(encode(model.ops.upload(values, &shape)?, &grids)?)
    };
    let places: Vec<Vec<u32>> =
        own.iter().zip(&layout).map(|(media, place)| visual_places(media, place.shared.len())).collect();
    let mut rows: Vec<Rows<'_, Tensor>> = batch
        .iter()
        .zip(&layout)
        .zip(&places)
        .map(|((example, place), visual)| Rows {
            ids: &example.ids[place.shared.len()..],
            positions: &example.positions[place.shared.len()..],
            visual,
            features: None,
            cache: None,
            shared: place.shared.clone(),
            last_only: false,
        })
        .collect();
    // Features of all sequences lie one after the other, as their places do.
    if let Some(first) = rows.first_mut() {
        first.features = features.as_ref();
    }
    let hidden = run(&mut rows)?;
    let rows =
        batch.iter().zip(&layout).flat_map(|(example, place)| example.rows().map(|row| place.row(row)));
    let wanted: Vec<u32> = rows.collect();
    let wanted = Tensor::from_slice(&wanted, wanted.len(), hidden.device())?;
    Ok(hidden.index_select(&wanted, 0)?)
}

/// Where a sequence lies in a pass.
struct Place {
    /// Rows of an earlier sequence that it begins with.
    shared: Range<usize>,
    /// The first of its other rows.
    start: usize,
}

impl Place {
    /// The place of a row that is counted from the sequence's first.
    fn row(&self, row: usize) -> u32 {
        let shared = self.shared.len();
        (if row < shared { self.shared.start + row } else { self.start + row - shared }) as u32
    }

    /// Media among its other rows.
    fn own_media<'a>(&self, example: &'a Example) -> &'a [Medium] {
        let shared = example.media.partition_point(|medium| medium.start() < self.shared.len());
        &example.media[shared..]
    }
}

/// Rows at the beginning of sequences are there once where a sequence has half of its rows or more in common with the last
/// one before it that is whole, as the rollouts of a prompt have its frames: the same sums, most of them once.
fn layout(batch: &[&Example]) -> Vec<Place> {
    let (mut places, mut end) = (Vec::with_capacity(batch.len()), 0);
    let mut whole: Option<(&Example, usize)> = None;
    for &example in batch {
        let in_common = whole.map(|(other, first)| first..first + example.in_common(other));
        let shared = in_common.filter(|shared| 2 * shared.len() >= example.ids.len()).unwrap_or_default();
        if shared.is_empty() {
            whole = Some((example, end));
        }
        let rows = example.ids.len() - shared.len();
        places.push(Place { shared, start: end });
        end += rows;
    }
    places
}

/// The visual tokens of media, counted from row `first` of their sequence.
fn visual_places(media: &[Medium], first: usize) -> Vec<u32> {
    let runs = media.iter().flat_map(|medium| &medium.runs);
    runs.flat_map(|&(start, length)| (start - first) as u32..(start - first + length) as u32).collect()
}
