//! Activations that are computed again for their gradients: of a part of a model, only what goes in and what comes out is
//! kept. See Chen et al., "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::backprop::GradStore;
use candle_core::{Error, Result, Tensor, Var};
use paravt_qwen_vl::model::{Features, Model, Rows, TextPass};
use paravt_qwen_vl::positions::Grid;

use super::GradOps;
use super::fused::Fused;
use crate::optimizer::Gradients;
use crate::parameters::Parameter;

/// Collects the gradients of weights from the backward passes of recomputed parts, which the tape does not see.
pub(crate) struct GradientSink {
    weights: BTreeMap<String, Parameter>,
    sums: Mutex<Gradients>,
}

impl GradientSink {
    pub(crate) fn new(weights: BTreeMap<String, Parameter>) -> Arc<Self> {
        Arc::new(Self { weights, sums: Mutex::default() })
    }

    /// Adds those of a backward pass.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub(crate) fn add(&self, store: GradStore) -> crate::error::Result<()> {
        let found = Gradients::of(&self.weights, store)?;
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).add(found)
    }

    /// The sums so far.
    pub(crate) fn take(&self) -> Gradients {
        std::mem::take(&mut *self.sums.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// `part` of x and of what is beside it.
///
/// # Errors
/// Those of the part.
pub(crate) fn recomputed<E: std::error::Error + Send + Sync + 'static>(
    sink: &Arc<GradientSink>,
    x: &Tensor,
    beside: Option<&Tensor>,
    part: impl Fn(&Tensor, Option<&Tensor>) -> std::result::Result<Tensor, E> + Send + Sync + 'static,
) -> Result<Tensor> {
    let value = part(&x.detach(), beside.map(Tensor::detach).as_ref()).map_err(Error::wrap)?;
    let sink = Arc::clone(sink);
    let gradients =
        move |x: &Tensor, beside: Option<&Tensor>, grad: &Tensor| -> Result<[Option<Tensor>; 2]> {
            let x = Var::from_tensor(&x.detach())?;
            let beside = beside.map(|beside| Var::from_tensor(&beside.detach())).transpose()?;
            let value = part(&x, beside.as_deref()).map_err(Error::wrap)?;
            let mut store = (value * grad)?.sum_all()?.backward()?;
            let gradients = [store.remove(&x), beside.as_deref().and_then(|beside| store.remove(beside))];
            sink.add(store).map_err(Error::wrap)?;
            Ok(gradients)
        };
    match beside {
        None => {
            let back =
                move |[x]: [&Tensor; 1], grad: &Tensor| gradients(x, None, grad).map(|[to_x, _]| [to_x]);
            Fused::given("recomputed", &value, back)?.of(x)
        }
        Some(beside) => {
            let back = move |[x, beside]: [&Tensor; 2], grad: &Tensor| gradients(x, Some(beside), grad);
            Fused::given("recomputed", &value, back)?.of(x, beside)
        }
    }
}

type Outcome<T> = std::result::Result<T, paravt_qwen_vl::Error>;

/// [`Model::encode`], each block recomputed.
///
/// # Errors
/// Tensor arithmetic.
pub(crate) fn encode(
    model: &Arc<Model<GradOps>>,
    sink: &Arc<GradientSink>,
    patches: Tensor,
    grids: &[Grid],
) -> Outcome<Features<Tensor>> {
    let (mut x, pass) = model.enter_vision(patches, grids)?;
    let (pass, mut deepstack) = (Arc::new(pass), Vec::new());
    for number in 0..model.blocks() {
        let (its, pass) = (Arc::clone(model), Arc::clone(&pass));
        let block = move |x: &Tensor, _: Option<&Tensor>| its.block(number, x, &pass);
        x = recomputed(sink, &x, None, block).map_err(paravt_backend_candle::tensor::fail)?;
        deepstack.extend(model.deepstack(number, &x)?);
    }
    model.leave_vision(&x, deepstack, &pass)
}

/// [`Model::hidden`] of whole sequences, each layer recomputed.
///
/// # Errors
/// Tensor arithmetic.
pub(crate) fn hidden(
    model: &Arc<Model<GradOps>>,
    sink: &Arc<GradientSink>,
    batch: &[Rows<'_, Tensor>],
) -> Outcome<Tensor> {
    let mut x = model.embed(batch)?;
    let pass = Arc::new(TextPass::new(model, batch)?);
    let features = batch.iter().find_map(|rows| rows.features);
    for number in 0..model.layers() {
        let (its, pass) = (Arc::clone(model), Arc::clone(&pass));
        let layer = move |x: &Tensor, features: Option<&Tensor>| {
            let state = (x.clone(), its.input_norm(number, x)?);
            its.layer(number, state, &pass, features, &[]).map(|(x, _)| x)
        };
        let beside = features.and_then(|features| features.deepstack.get(number));
        x = recomputed(sink, &x, beside, layer).map_err(paravt_backend_candle::tensor::fail)?;
    }
    model.input_norm(model.layers(), &x)
}
