//! Both architectures, written once over [`Ops`].
//!
//! Source: `modeling_qwen3_vl.py` and `modeling_qwen2_5_vl.py` of transformers 5.23. Tensor names are
//! the published ones.

mod joined;
mod pass;
mod rows;
mod tables;
mod text;
mod vision;

pub use pass::TextPass;
pub use rows::{Features, KvCache, Rows};
pub use text::Text;
pub use vision::{Vision, VisionPass};

use crate::config::Config;
use crate::error::Error;
use crate::ops::{Linear, Ops};
use crate::weights::Weights;
use joined::Joined;

/// A loaded model.
pub struct Model<O: Ops> {
    /// The engine's arithmetic.
    pub ops: O,
    pub config: Config,
    pub text: Text<O::Tensor>,
    pub vision: Vision<O::Tensor>,
}

impl<O: Ops> Model<O> {
    /// Takes every weight from the checkpoint.
    ///
    /// # Errors
    /// A tensor that is missing, of another shape, not finite, or left over.
    pub fn load(ops: O, config: Config, weights: &Weights) -> Result<Self, Error> {
        let text = Text::load(&ops, &config, weights)?;
        let vision = Vision::load(&ops, &config, weights)?;
        weights.check_all_taken(config.tied)?;
        Ok(Self { ops, config, text, vision })
    }
}

/// Loads tensors whose names share a start.
struct Loader<'a, O: Ops> {
    ops: &'a O,
    weights: &'a Weights,
    prefix: String,
}

impl<'a, O: Ops> Loader<'a, O> {
    /// The first of the prefixes that the checkpoint uses: the published one or a newer one.
    fn new(ops: &'a O, weights: &'a Weights, prefixes: &[&str]) -> Self {
        let known = prefixes.iter().find(|prefix| weights.has_prefix(prefix));
        let prefix = (*known.unwrap_or(&prefixes[0])).to_owned();
        Self { ops, weights, prefix }
    }

    fn inside(&self, part: &str) -> Self {
        Self { ops: self.ops, weights: self.weights, prefix: format!("{}{part}.", self.prefix) }
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<O::Tensor, Error> {
        let name = format!("{}{name}", self.prefix);
        self.take(&name, shape, shape)
    }

    /// A tensor in another shape than it is published in.
    fn take(&self, name: &str, published: &[usize], shape: &[usize]) -> Result<O::Tensor, Error> {
        let view = self.weights.take(name, published)?;
        let tensor = self.ops.weight(&view, shape)?;
        self.weights.release(&view);
        Ok(tensor)
    }

    fn linear(&self, name: &str, out: usize, input: usize, bias: bool) -> Result<Linear<O::Tensor>, Error> {
        let weight = self.tensor(&format!("{name}.weight"), &[out, input])?;
        let bias = bias.then(|| self.tensor(&format!("{name}.bias"), &[out])).transpose()?;
        Ok(Linear { weight, bias })
    }

    /// Matrices of one input by their names and outs.
    fn joined<const N: usize>(
        &self,
        parts: [(&str, usize); N],
        input: usize,
        bias: bool,
    ) -> Result<Joined<O::Tensor, N>, Error> {
        let parts = parts.iter().map(|(name, out)| self.linear(name, *out, input, bias));
        let parts: Vec<Linear<O::Tensor>> = parts.collect::<Result<_, _>>()?;
        let parts = parts.try_into().map_err(|_| Error::Compute("matrices went missing".to_owned()))?;
        Joined::new(self.ops, parts)
    }
}
