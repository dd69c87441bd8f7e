//! What a pass of the text model is given: new tokens, visual features for them, and the keys and values before them.

use std::ops::Range;

use crate::config::TextConfig;
use crate::error::Error;
use crate::ops::Ops;

/// Visual features of some images or frames.
#[derive(Debug, Clone)]
pub struct Features<T> {
    /// (merged patches, hidden of the language model).
    pub merged: T,
    /// The same shape, one per DeepStack layer; added after the first decoder layers.
    pub deepstack: Vec<T>,
}

impl<T> Features<T> {
    /// The same of every tensor.
    ///
    /// # Errors
    /// The first of them.
    pub fn map(&self, change: impl Fn(&T) -> Result<T, Error>) -> Result<Self, Error> {
        let deepstack = self.deepstack.iter().map(&change).collect::<Result<_, _>>()?;
        Ok(Self { merged: change(&self.merged)?, deepstack })
    }

    /// Rows of all parts, one after the other.
    ///
    /// # Errors
    /// Tensor arithmetic.
    pub(crate) fn cat<O: Ops<Tensor = T>>(ops: &O, mut parts: Vec<Self>) -> Result<Self, Error>
    where
        T: Clone,
    {
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        let cat = |tensor: &dyn Fn(&Self) -> T| ops.cat(&parts.iter().map(tensor).collect::<Vec<_>>());
        let levels = parts.first().map_or(0, |part| part.deepstack.len());
        let deepstack = (0..levels).map(|level| cat(&|part| part.deepstack[level].clone()));
        Ok(Self {
            deepstack: deepstack.collect::<Result<_, _>>()?,
            merged: cat(&|part| part.merged.clone())?,
        })
    }
}

/// Keys and values of one sequence, per layer (tokens, key heads, head_dim), with room to grow. The default has no
/// layers: it stands where no cache is yet, or where one was.
pub struct KvCache<T> {
    layers: Vec<(T, T)>,
    pub(super) length: usize,
    capacity: usize,
}

/// Tokens by which a cache grows that has no room for a pass.
const BLOCK: usize = 256;

/// New tokens of one sequence.
pub struct Rows<'a, T> {
    /// Token ids; those of visual tokens are replaced by features.
    pub ids: &'a [u32],
    /// Time, height and width of each.
    pub positions: &'a [[u32; 3]],
    /// Rows of the visual tokens, in the order of `features`.
    pub visual: &'a [u32],
    /// Rows of [`Features`] for them; `None` where there are none.
    pub features: Option<&'a Features<T>>,
    /// Keys and values of earlier rows; these rows are appended. `None` for a complete sequence, as in training.
    pub cache: Option<&'a mut KvCache<T>>,
    /// Rows of the pass that an earlier sequence has in common with this one and that come before these: they are computed
    /// once, and these attend to them. Without a cache.
    pub shared: Range<usize>,
    /// Whether only the hidden state of the last row is wanted, as from a prompt.
    pub last_only: bool,
}

impl<T> Rows<'_, T> {
    /// Rows whose hidden states are wanted.
    pub(super) fn wanted(&self) -> usize {
        if self.last_only { 1 } else { self.ids.len() }
    }
}

impl<T> Default for KvCache<T> {
    fn default() -> Self {
        Self { layers: Vec::new(), length: 0, capacity: 0 }
    }
}

impl<T: Clone> KvCache<T> {
    /// Room for `capacity` tokens. Made at once: layer by layer between the tensors of a first pass, it would
    /// leave the memory in pieces.
    ///
    /// # Errors
    /// No memory.
    pub fn new<O: Ops<Tensor = T>>(ops: &O, text: &TextConfig, capacity: usize) -> Result<Self, Error> {
        let shape = [capacity, text.num_key_value_heads, text.head_dim];
        let layers = (0..text.num_hidden_layers).map(|_| Ok((ops.buffer(shape)?, ops.buffer(shape)?)));
        Ok(Self { layers: layers.collect::<Result<_, Error>>()?, length: 0, capacity })
    }

    /// Tokens held.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Tokens there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets all tokens from `length` on.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// A cache of its own with the first `length` tokens of this one.
    ///
    /// # Errors
    /// No memory.
    pub fn copy<O: Ops<Tensor = T>>(&self, ops: &O, length: usize, capacity: usize) -> Result<Self, Error> {
        let copy = |tensor: &T| {
            let shape = ops.shape(tensor);
            let buffer = ops.buffer([capacity, shape[1], shape[2]])?;
            ops.write(&buffer, 0, &ops.narrow(tensor, 0, 0, length)?)?;
            Ok::<_, Error>(buffer)
        };
        let layers = self.layers.iter().map(|(keys, values)| Ok((copy(keys)?, copy(values)?)));
        Ok(Self { layers: layers.collect::<Result<_, Error>>()?, length: length.min(self.length), capacity })
    }

    /// Reallocates the buffers layer by layer, so that only one layer is held twice at a time.
    ///
    /// # Errors
    /// No memory; layers up to that one have the new room, and nothing is lost.
    ///
    /// # Panics
    /// Less room than tokens held.
    pub fn resize<O: Ops<Tensor = T>>(&mut self, ops: &O, capacity: usize) -> Result<(), Error> {
        assert!(self.length <= capacity, "{} tokens, room for {capacity}", self.length);
        if capacity == self.capacity {
            return Ok(());
        }
        // Until all layers are changed, only what every layer has room for counts.
        self.capacity = self.capacity.min(capacity);
        for (keys, values) in &mut self.layers {
            for tensor in [keys, values] {
                let shape = ops.shape(tensor);
                let buffer = ops.buffer([capacity, shape[1], shape[2]])?;
                if self.length > 0 {
                    ops.write(&buffer, 0, &ops.narrow(tensor, 0, 0, self.length)?)?;
                }
                *tensor = buffer;
            }
        }
        self.capacity = capacity;
        Ok(())
    }

    /// Makes room for `rows` more in every layer, a block at a time.
    pub(super) fn reserve<O: Ops<Tensor = T>>(&mut self, ops: &O, rows: usize) -> Result<(), Error> {
        let needed = self.length + rows;
        if needed > self.capacity { self.resize(ops, needed.next_multiple_of(BLOCK)) } else { Ok(()) }
    }

    /// Adds rows to one layer and gives all keys and values of it.
    pub(super) fn extend<O: Ops<Tensor = T>>(
        &self,
        ops: &O,
        layer: usize,
        k: &T,
        v: &T,
    ) -> Result<(T, T), Error> {
        let rows = ops.shape(k)[0];
        let (keys, values) = &self.layers[layer];
        ops.write(keys, self.length, k)?;
        ops.write(values, self.length, v)?;
        let all = self.length + rows;
        Ok((ops.narrow(keys, 0, 0, all)?, ops.narrow(values, 0, 0, all)?))
    }
}
