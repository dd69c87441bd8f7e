//! CPU kernels of the in-process engine, on slices of f32 and bf16: GEMM, GEMV, attention, norms and
//! activations, and their gradients.
//!
//! All kernels run on rayon's current pool. They use one instruction set, see [`Isa`]. Their results do not
//! depend on the number of threads. Between instruction sets only products by GEMM differ, by rounding.
//!
//! Names are those of BLIS: C (m, n) = A (m, k) by B (k, n), packed in micro-panels of MR rows and NR columns,
//! the inner axis in blocks of KC.
//!
//! ```
//! use paravt_kernels::{GEMV_MAX_M, Weight, linear};
//!
//! // x (1, 2) by the transpose of w (3, 2).
//! let y = linear(&[1.0, 2.0], Weight::F32(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]), 2, 3, GEMV_MAX_M);
//! assert_eq!(y, [1.0, 2.0, 3.0]);
//! ```

#![allow(
    unsafe_code,
    reason = "vector instructions, unchecked stores of packed blocks, uninitialised outputs"
)]

#[macro_use]
mod isa;
mod attention;
pub mod backward;
pub mod elementwise;
mod gemm;
mod gemv;
mod init;
mod linear;
pub mod logprobs;
mod math;
mod matrix;

pub use attention::{Heads, KvElement, SeqLens, Strided, attention, attention_cached};
pub use gemm::{Update, gemm, gemm_bf16};
pub use isa::{Isa, UnsupportedIsa, isa, set_isa};
pub use linear::{GEMV_MAX_M, Weight, linear};
pub use matrix::{Element, MatMut, MatRef};
