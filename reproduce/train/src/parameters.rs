//! Weights that a trainer changes, and that a model for rollouts shares.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Tensor, Var};
use paravt_backend_candle::tensor::{self, WeightSource};
use paravt_qwen_vl::weights::View;

/// Trained tensors by their published names. An update changes their values in place: every model that
/// shares them computes with the new ones.
#[derive(Default)]
pub struct Parameters(Mutex<BTreeMap<String, Parameter>>);

/// One trained tensor.
#[derive(Clone)]
pub struct Parameter {
    /// The values, f32; those of bfloat16 where the optimiser rounds to it.
    pub var: Var,
    /// Sizes in a checkpoint, where the model holds it in another shape.
    pub published: Vec<usize>,
}

impl Parameters {
    /// All of them, by name.
    pub fn all(&self) -> BTreeMap<String, Parameter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tensor of a weight, read from the checkpoint by the first caller.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn get_or_read(
        &self,
        view: &View<'_>,
        shape: &[usize],
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(view.name) {
            return Ok(known.var.as_tensor().clone());
        }
        let var = Var::from_tensor(&tensor::read(view, shape, device)?.to_dtype(DType::F32)?)?;
        let tensor = var.as_tensor().clone();
        all.insert(view.name.to_owned(), Parameter { var, published: view.shape.to_vec() });
        Ok(tensor)
    }

    /// These as the weights of a model without gradients.
    pub(crate) fn source(self: &Arc<Self>, device: &Device) -> WeightSource {
        let (parameters, device) = (Arc::clone(self), device.clone());
        Arc::new(move |view, shape| {
            let tensor = parameters.get_or_read(view, shape, &device).map_err(tensor::fail)?;
            Ok(tensor.detach())
        })
    }
}
