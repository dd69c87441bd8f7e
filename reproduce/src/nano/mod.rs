//! The embedded reproduction: the generated world, trained on and evaluated with the code of the large
//! recipe.

pub mod base;
pub(crate) mod data;
pub mod identity;
mod recipe;
mod stages;
mod validate;

pub use recipe::{Comparison, NanoRecipe, NanoRun, Variant};
pub use stages::{CONCURRENCY, graph};
