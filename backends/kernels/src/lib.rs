//! Products and attention on the CPU, where candle's own are slower than the memory or the matrix
//! units allow.

mod amx;
mod attention;
pub mod backward;
mod dot;
pub mod elementwise;
mod fresh;
mod matmul;
mod matrix;
#[cfg(target_arch = "x86_64")]
mod panels;
mod vector;

pub use amx::is_available as has_amx;
pub use attention::{Heads, Rows, attention, exp};
pub use matmul::{FEW, Weight, matmul};
