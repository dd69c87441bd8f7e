//! Log-probabilities alone.

use std::path::Path;
use std::sync::Arc;

use candle_core::Tensor;
use paravt_backend_candle::tensor::WeightSource;
use paravt_backend_candle::{ComposedOps, CpuOps};
use paravt_qwen_vl::config::Config;
use paravt_qwen_vl::model::Model;
use paravt_qwen_vl::ops::Ops;
use paravt_qwen_vl::weights::Weights;

use super::{hidden, in_pieces, logits, targets};
use crate::compute::Compute;
use crate::error::Result;
use crate::example::Example;
use crate::objective::token_logprobs;
use crate::parameters::Parameters;

/// A model that is only asked for log-probabilities: no graph is kept.
pub struct Scorer {
    model: Box<dyn Passes>,
    /// See [`Compute`].
    recompute: Option<usize>,
}

/// Forward passes of a model.
trait Passes: Send + Sync {
    /// Hidden states that predict the learned tokens of a batch.
    fn hidden(&self, batch: &[&Example]) -> Result<Tensor>;
    /// See [`Learner::logits`].
    fn logits(&self, hidden: &Tensor) -> Result<Tensor>;
    /// Columns of the logits.
    fn vocabulary(&self) -> usize;
}

impl<O: Ops<Tensor = Tensor> + Send + Sync> Passes for Model<O> {
    fn hidden(&self, batch: &[&Example]) -> Result<Tensor> {
        hidden(self, batch)
    }

    fn logits(&self, hidden: &Tensor) -> Result<Tensor> {
        logits(self, hidden)
    }

    fn vocabulary(&self) -> usize {
        self.config.text.vocab_size
    }
}

impl Scorer {
    /// Loads a model folder.
    ///
    /// # Errors
    /// A file of the folder is missing or wrong.
    pub fn load(folder: &Path, compute: &Compute) -> Result<Self> {
        // On the CPU in f32 by the kernels of the trained model, whatever the checkpoint's type.
        let weights = compute.device.is_cpu().then(|| Arc::new(Parameters::new(compute)).source());
        Self::of(folder, compute, weights)
    }

    pub(super) fn of(folder: &Path, compute: &Compute, weights: Option<WeightSource>) -> Result<Self> {
        let (config, files) = (Config::read(folder)?, Weights::open(folder)?);
        let model: Box<dyn Passes> = if compute.device.is_cpu() {
            let ops = CpuOps::new(compute.precision).with_weights(weights).batch_invariant();
            Box::new(Model::load(ops, config, &files)?)
        } else {
            let ops = ComposedOps::new(compute.device.clone(), compute.precision).with_weights(weights);
            Box::new(Model::load(ops, config, &files)?)
        };
        Ok(Self { model, recompute: compute.recompute })
    }

    /// Log-probabilities (learned tokens of the batch) in nats at a temperature, sequence after sequence.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub fn logprobs(&self, batch: &[&Example], temperature: f64) -> Result<Vec<f32>> {
        let (hidden, targets) = (self.model.hidden(batch)?.detach(), targets(batch));
        let size = (self.recompute.unwrap_or(usize::MAX), self.model.vocabulary());
        let found = in_pieces(&hidden, &targets, size, |rows, targets| {
            let logits = self.model.logits(rows)?.detach();
            Ok(token_logprobs(&logits, targets, temperature)?.0.detach())
        })?;
        Ok(found.to_vec1::<f32>()?)
    }
}
