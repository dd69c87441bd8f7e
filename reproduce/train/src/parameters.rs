//! Weights that a trainer changes, and that a model for rollouts shares.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use candle_core::{Tensor, Var};

/// Trained tensors by their published names. An update changes their values in place: every model that
/// shares them computes with the new ones.
#[derive(Default)]
pub struct Parameters(Mutex<BTreeMap<String, Parameter>>);

/// One trained tensor.
#[derive(Clone)]
pub struct Parameter {
    /// The values, f32.
    pub var: Var,
    /// Sizes in a checkpoint, where the model holds it in another shape.
    pub published: Vec<usize>,
}

impl Parameters {
    /// All of them, by name.
    pub fn all(&self) -> BTreeMap<String, Parameter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tensor of a name, made where there is none yet.
    pub(crate) fn get_or_add(
        &self,
        name: &str,
        published: &[usize],
        make: impl FnOnce() -> candle_core::Result<Tensor>,
    ) -> candle_core::Result<Tensor> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(name) {
            return Ok(known.var.as_tensor().clone());
        }
        let var = Var::from_tensor(&make()?)?;
        let tensor = var.as_tensor().clone();
        all.insert(name.to_owned(), Parameter { var, published: published.to_vec() });
        Ok(tensor)
    }
}
