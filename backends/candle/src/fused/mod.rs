//! Kernels of ours in bf16, launched on candle's tensors: each in the place of several of candle's.
//!
//! The text is CUDA C++, compiled when it is first needed on a machine. It runs on a CPU as well, thread by thread, in the tests.

mod attention;
mod cache;
#[cfg(feature = "cuda")]
mod cuda;
mod rows;
mod sampling;

use std::sync::Arc;

use candle_core::{DType, Device, Result, Shape, Tensor};

pub use attention::AttentionPlan;
pub use cache::{KernelCache, Source};
#[cfg(feature = "cuda")]
pub(crate) use cuda::CudaLauncher;

/// A text that is compiled as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Module {
    /// Norms with what is beside them, the gated activation.
    Rows,
    /// Attention of heads of that size.
    Attention(usize),
    /// From logits to tokens.
    Sampling,
}

impl Module {
    /// What the kernels ask of a GPU, as CUDA C++: stands before [`Self::text`].
    pub const PTX: &'static str = include_str!("ptx.cuh");

    /// Options of its compiler for a compute capability.
    pub fn options((major, minor): (i32, i32)) -> Vec<String> {
        vec![format!("--gpu-architecture=compute_{major}{minor}"), "--std=c++17".to_owned()]
    }

    /// The kernels.
    pub fn text(self) -> String {
        match self {
            Self::Rows => include_str!("rows.cu").to_owned(),
            Self::Attention(dim) => format!("#define HEAD_DIM {dim}\n{}", include_str!("attention.cu")),
            Self::Sampling => include_str!("sampling.cu").to_owned(),
        }
    }
}

/// An argument of a kernel.
#[derive(Debug)]
pub enum Arg<'a> {
    /// The values from a tensor's first on, to be read.
    In(&'a Tensor),
    /// The same, to be written.
    Out(&'a Tensor),
    /// No tensor.
    Null,
    /// At most [`MAX_POINTERS`] tensors to be read, as an array of pointers.
    List(&'a [&'a Tensor]),
    /// C's `int`.
    Int(usize),
    /// C's `float`.
    Float(f64),
}

/// Pointers of an [`Arg::List`].
pub const MAX_POINTERS: usize = 32;

/// A kernel with its arguments.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The text that it is in.
    pub module: Module,
    pub kernel: &'static str,
    /// Blocks.
    pub grid: [usize; 3],
    /// Threads of a block.
    pub threads: usize,
    /// In the order of its parameters.
    pub args: &'a [Arg<'a>],
}

/// What kernels run on.
pub trait Launcher: Send + Sync {
    /// Runs a kernel after those launched before.
    ///
    /// # Errors
    /// It does not compile or start; an argument is on another device.
    fn launch(&self, launch: &Launch<'_>) -> Result<()>;
}

/// The kernels on a device.
#[derive(Clone)]
pub struct Fused(Arc<dyn Launcher>);

impl Fused {
    /// Kernels that run by a launcher.
    pub fn new(launcher: Arc<dyn Launcher>) -> Self {
        Self(launcher)
    }
}

/// Memory for what a kernel writes.
#[expect(unsafe_code, reason = "memory is not cleared before a kernel writes all of it")]
fn room(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<Tensor> {
    // SAFETY: numbers of any bits are valid, and the kernel that is launched next writes every one of them before another
    // one reads it: the device runs kernels in their order.
    unsafe { Tensor::empty(shape, dtype, device) }
}

/// x with the values of each row one after the other, rows at multiples of 16 bytes.
fn aligned_rows(x: &Tensor) -> Result<Tensor> {
    let row = x.narrow(0, 0, x.dim(0)?.min(1))?;
    if !(x.elem_count() / x.dim(0)?.max(1)).is_multiple_of(8) {
        candle_core::bail!(
            "rows of {:?} are no multiple of eight: --gpu-kernels candle takes them",
            x.dims()
        );
    }
    let layout = x.layout();
    let aligned = (layout.start_offset() | layout.stride()[0]).is_multiple_of(8);
    if row.is_contiguous() && aligned { Ok(x.clone()) } else { x.force_contiguous() }
}

/// How far the rows of a tensor are apart.
fn stride(x: &Tensor) -> Arg<'static> {
    Arg::Int(x.stride()[0])
}
