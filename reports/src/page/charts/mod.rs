//! The charts, one file each: plain numbers in, SVG out.

mod breakdown;
mod curves;
mod forest;
mod tools;

pub use breakdown::breakdown;
pub use curves::{history, training};
pub use forest::forest;
pub use tools::{widths, windows};
