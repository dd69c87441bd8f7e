//! The tensor arithmetic that the models are written in; one implementation per engine.

use crate::error::Error;
use crate::processor::Scale;
use crate::sampling::Draw;
use crate::weights::TensorView;

/// Device of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    Cpu,
    /// The GPU of that ordinal.
    Cuda(usize),
}

impl Device {
    /// Whether it is the CPU.
    pub fn is_cpu(self) -> bool {
        self == Self::Cpu
    }

    /// Name in records: which one of several like GPUs answered makes no difference.
    pub fn kind(self) -> &'static str {
        if self == Self::Cpu { "cpu" } else { "cuda" }
    }
}

impl std::str::FromStr for Device {
    type Err = String;

    /// `cpu`, `cuda` or `cuda:N`.
    fn from_str(name: &str) -> Result<Self, String> {
        if name == "cpu" {
            return Ok(Self::Cpu);
        }
        let ordinal = name.strip_prefix("cuda").map(|rest| rest.strip_prefix(':').unwrap_or("0"));
        let ordinal = ordinal.and_then(|ordinal| ordinal.parse().ok());
        ordinal.map(Self::Cuda).ok_or_else(|| format!("{name}: expected cpu, cuda, cuda:N or cuda:all"))
    }
}

/// Number type of activations and cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits.
    F32,
    /// 8 exponent bits, 8 of mantissa.
    Bf16,
    /// 5 exponent bits, 11 of mantissa.
    F16,
}

impl Precision {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        if self == Precision::F32 { 4 } else { 2 }
    }

    /// The name used on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::F16 => "f16",
        }
    }
}

/// Maxima of one pass of an engine: they bound what it holds beside weights and caches, whatever a prompt's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassLimits {
    /// Prompt tokens.
    pub tokens: usize,
    /// Patches of the vision tower, unless one frame has more.
    pub patches: usize,
    /// Scores (heads x queries x keys) that attention holds at a time; 0 where its kernel holds none.
    pub scores: usize,
}

impl PassLimits {
    /// Of kernels that attend tile by tile on a CPU: more rows would not make a product faster.
    pub const CPU: Self = Self { tokens: 640, patches: 1024, scores: 0 };
}

/// Which activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x times its sigmoid.
    Silu,
    /// Gaussian error linear unit, exact.
    Gelu,
    GeluTanh,
}

/// A matrix (out, in) with its bias (out).
#[derive(Debug, Clone)]
pub struct Linear<T> {
    /// (out, in), as published.
    pub weight: T,
    /// (out).
    pub bias: Option<T>,
}

/// Query and key lengths of one sequence of a packed batch: one step of `cu_seqlens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Rows of queries.
    pub queries: usize,
    /// Rows of keys; with a causal mask the last query sees all of them.
    pub keys: usize,
}

/// Keys and values (m, key heads, dim) of the segments of a pass.
#[derive(Debug)]
pub enum KvSource<'a, T> {
    /// Of all segments, one after the other.
    Packed(&'a T, &'a T),
    /// Of each segment in a cache of its own.
    Cached(&'a [(T, T)]),
}

/// Tensor arithmetic. Activations are packed: a row per token or patch, no padding, no batch axis.
///
/// An operation that takes a tensor by value may write its result over it: a view or clone of it then has the new
/// values. Other arguments of the same call may share its storage; the operation copies it first.
///
/// Every method fails only as [`Error::Compute`], with the shapes in the message.
#[allow(clippy::missing_errors_doc)]
pub trait Ops: 'static {
    /// A tensor of this engine.
    type Tensor: Clone + Send;
    /// Lengths of a pass's segments and masks on the device, for attention.
    type Plan;
    /// Rotary tables of a pass.
    type Rotary: Clone;

    /// A weight in its published type or the engine's.
    fn weight(&self, view: &TensorView<'_>, shape: &[usize]) -> Result<Self::Tensor, Error>;
    /// Host values as activations.
    fn upload(&self, values: Vec<f32>, shape: &[usize]) -> Result<Self::Tensor, Error>;
    /// Bytes of patches (n, channels x the rest) as activations, normalised.
    fn upload_patches(&self, bytes: &[u8], scale: Scale, shape: [usize; 2]) -> Result<Self::Tensor, Error> {
        self.upload(scale.of(bytes, shape[1]).collect(), &shape)
    }
    /// A token of each row of logits (n, vocabulary) by its draw, with its log-probability, found on the device. `None`
    /// where the host is to look at the logits: they are there anyway, or the engine cannot, or not all are finite.
    fn sample(&self, logits: &Self::Tensor, draws: &[Draw]) -> Result<Option<Vec<(u32, f32)>>, Error> {
        let _ = (logits, draws);
        Ok(None)
    }
    /// Values on the host.
    fn download(&self, x: &Self::Tensor) -> Result<Vec<f32>, Error>;
    /// Sizes, outermost first.
    fn shape(&self, x: &Self::Tensor) -> Vec<usize>;

    /// Rows of a table (n, ...) as activations.
    fn gather(&self, table: &Self::Tensor, ids: &[u32]) -> Result<Self::Tensor, Error>;
    /// x (n, in) by the matrix, plus bias: (n, out).
    fn linear(&self, x: &Self::Tensor, linear: &Linear<Self::Tensor>) -> Result<Self::Tensor, Error>;
    /// Matrices of the same input one over the other, (sum of outs, in), with their biases; `None` where the engine
    /// multiplies by each.
    fn join(&self, parts: &[Linear<Self::Tensor>]) -> Result<Option<Linear<Self::Tensor>>, Error> {
        let _ = parts;
        Ok(None)
    }
    /// Over the last axis.
    fn rms_norm(&self, x: &Self::Tensor, weight: &Self::Tensor, eps: f64) -> Result<Self::Tensor, Error>;
    /// x + y, element by element, and its [`Ops::rms_norm`].
    fn add_norm(
        &self,
        x: Self::Tensor,
        y: &Self::Tensor,
        weight: &Self::Tensor,
        eps: f64,
    ) -> Result<(Self::Tensor, Self::Tensor), Error> {
        let sum = self.add(x, y)?;
        let normed = self.rms_norm(&sum, weight, eps)?;
        Ok((sum, normed))
    }
    /// Over the last axis.
    fn layer_norm(
        &self,
        x: &Self::Tensor,
        weight: &Self::Tensor,
        bias: &Self::Tensor,
        eps: f64,
    ) -> Result<Self::Tensor, Error>;
    /// Element by element.
    fn activate(&self, x: Self::Tensor, activation: Activation) -> Result<Self::Tensor, Error>;
    /// silu(gate) * up.
    fn gated(&self, gate: Self::Tensor, up: &Self::Tensor) -> Result<Self::Tensor, Error>;
    /// Element by element.
    fn add(&self, x: Self::Tensor, y: &Self::Tensor) -> Result<Self::Tensor, Error>;
    /// Adds `values` to the rows `places` of `x`.
    fn index_add(
        &self,
        x: Self::Tensor,
        places: &[u32],
        values: &Self::Tensor,
    ) -> Result<Self::Tensor, Error>;
    /// Sum over `taps` of table rows by weight: ids and weights are (n, taps), row-major.
    fn embedding_bag(
        &self,
        table: &Self::Tensor,
        ids: &[u32],
        weights: &[f32],
        taps: usize,
    ) -> Result<Self::Tensor, Error>;

    /// Prepares the rotary embedding of a pass, once for all its layers: cosines and sines (n, dim), in f32 whatever the
    /// precision; the second half of a row repeats the first.
    fn rotary(&self, cos: Vec<f32>, sin: Vec<f32>, dim: usize) -> Result<Self::Rotary, Error>;
    /// Rotary embedding of x (n, heads, dim), halves paired.
    fn rotate(&self, x: Self::Tensor, tables: &Self::Rotary) -> Result<Self::Tensor, Error>;
    /// [`Ops::rms_norm`] of each head with a weight and an epsilon, if given, then [`Ops::rotate`].
    fn norm_rotate(
        &self,
        x: Self::Tensor,
        norm: Option<(&Self::Tensor, f64)>,
        tables: &Self::Rotary,
    ) -> Result<Self::Tensor, Error> {
        let normed = norm.map(|(weight, eps)| self.rms_norm(&x, weight, eps)).transpose()?;
        self.rotate(normed.unwrap_or(x), tables)
    }
    /// Prepares the attention of a pass, once for all its layers. With a causal mask the last query of a segment sees
    /// all its keys, the one before all but the last, and so on.
    fn plan(&self, segments: &[Segment], causal: bool) -> Result<Self::Plan, Error>;
    /// Attention of q (n, heads, dim) within the segments of a plan: (n, heads, dim).
    fn attention(
        &self,
        q: &Self::Tensor,
        keys: KvSource<'_, Self::Tensor>,
        plan: &Self::Plan,
    ) -> Result<Self::Tensor, Error>;

    /// The same values in another shape.
    fn reshape(&self, x: &Self::Tensor, shape: &[usize]) -> Result<Self::Tensor, Error>;
    /// `length` entries of an axis from `start`.
    fn narrow(
        &self,
        x: &Self::Tensor,
        axis: usize,
        start: usize,
        length: usize,
    ) -> Result<Self::Tensor, Error>;
    /// One after the other along the first axis.
    fn cat(&self, parts: &[Self::Tensor]) -> Result<Self::Tensor, Error>;

    /// Room for keys or values (rows, heads, dim).
    fn buffer(&self, shape: [usize; 3]) -> Result<Self::Tensor, Error>;
    /// Writes rows into a buffer from row `at`, in place. Rows of that buffer itself are an error.
    fn write(&self, buffer: &Self::Tensor, at: usize, rows: &Self::Tensor) -> Result<(), Error>;

    /// Maximum of the bytes that were allocated on the device so far; on a CPU, of the process's resident memory. `None`
    /// where the engine cannot tell.
    fn peak_memory(&self) -> Option<u64>;
}
