//! Products and attention on the CPU, where candle's own are slower than the memory or the matrix
//! units allow.

mod amx;
mod attention;
pub mod backward;
mod dot;
pub mod elementwise;
mod matmul;
mod vector;

pub use amx::is_available as has_amx;
pub use attention::{Heads, attention, exp};
pub use matmul::{FEW, Weight, matmul};
