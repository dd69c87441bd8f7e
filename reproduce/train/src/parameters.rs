//! Weights that a trainer changes, and that a model for rollouts shares.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Result, Tensor, TensorId, Var};
use paravt_backend_candle::tensor::{self, WeightSource};
use paravt_backend_candle::{INVARIANT_BATCH, start_with_weights};
use paravt_qwen_vl::engine::{Engine, Options};
use paravt_qwen_vl::weights::TensorView;

use crate::compute::Compute;

/// Trained tensors by their published names. An update changes their values in place: every model that
/// shares them computes with the new ones.
pub struct Parameters {
    device: Device,
    dtype: DType,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    by_name: BTreeMap<String, Parameter>,
    /// [`Parameter::narrow`] by [`Parameter::var`].
    narrow: HashMap<TensorId, Tensor>,
}

/// One trained tensor.
#[derive(Clone)]
pub struct Parameter {
    /// The values, f32; those of bfloat16 where the optimiser rounds to it.
    pub var: Var,
    /// The same in the precision of the activations, where that is another: rounded once a step.
    pub(crate) narrow: Option<Var>,
    /// Sizes in a checkpoint, where the model holds it in another shape.
    pub published: Vec<usize>,
}

impl Parameter {
    /// With f32 activations.
    pub fn new(var: Var, published: Vec<usize>) -> Self {
        Self { var, narrow: None, published }
    }

    /// Gives it new values, f32.
    ///
    /// # Errors
    /// Another shape.
    pub(crate) fn set(&self, values: &Tensor) -> Result<()> {
        self.var.set(values)?;
        self.narrow.as_ref().map_or(Ok(()), |narrow| narrow.set(&values.to_dtype(narrow.dtype())?))
    }
}

impl Parameters {
    /// None yet, for models on a device in a precision.
    pub fn new(compute: &Compute) -> Self {
        let dtype = tensor::dtype(compute.precision);
        Self { device: compute.device.clone(), dtype, held: Mutex::default() }
    }

    /// All of them, by name.
    pub fn all(&self) -> BTreeMap<String, Parameter> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).by_name.clone()
    }

    /// The tensor of a weight, read from the checkpoint by the first caller.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn get_or_read(&self, view: &TensorView<'_>, shape: &[usize]) -> Result<Parameter> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = held.by_name.get(view.name) {
            return Ok(known.clone());
        }
        let var = Var::from_tensor(&tensor::read(view, shape, &self.device)?.to_dtype(DType::F32)?)?;
        let mut parameter = Parameter::new(var, view.shape.to_vec());
        if self.dtype != DType::F32 {
            let narrow = Var::from_tensor(&parameter.var.as_tensor().detach().to_dtype(self.dtype)?)?;
            held.narrow.insert(parameter.var.id(), narrow.as_tensor().clone());
            parameter.narrow = Some(narrow);
        }
        held.by_name.insert(view.name.to_owned(), parameter.clone());
        Ok(parameter)
    }

    /// A weight in the precision of the activations.
    pub(crate) fn narrow(&self, weight: &Tensor) -> Tensor {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.narrow.get(&weight.id()).unwrap_or(weight).clone()
    }

    /// These as the weights of a model without gradients.
    pub(crate) fn source(self: &Arc<Self>) -> WeightSource {
        let parameters = Arc::clone(self);
        Arc::new(move |view, shape| {
            let Parameter { var, narrow, .. } = parameters.get_or_read(view, shape).map_err(tensor::fail)?;
            Ok(narrow.unwrap_or(var).as_tensor().detach())
        })
    }
}

/// A model whose weights are those of a trainer, as they are at each moment. What it answers depends on
/// the prompt and the seed alone: nothing is kept from one prompt for the next, and at most [`INVARIANT_BATCH`]
/// decode together, on the CPU each as if it were alone.
///
/// # Errors
/// As [`Engine::start`].
pub fn start_rollouts(
    mut options: Options,
    compute: &Compute,
    parameters: &Arc<Parameters>,
) -> crate::error::Result<Engine> {
    options.precision = compute.precision;
    // What is sampled is the distribution that the policy gradient is taken of.
    options.neutral_sampling = true;
    options.reuse = false;
    options.batch = options.batch.min(INVARIANT_BATCH);
    Ok(start_with_weights(options, &compute.device, parameters.source())?)
}
