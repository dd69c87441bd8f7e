//! The embedded reproduction: the generated world, trained on and evaluated with the code of the large
//! recipe.

pub mod base;
mod recipe;
mod stages;
mod validate;

pub use recipe::{NanoRecipe, NanoRun, Prior, Variant};
pub use stages::{CONCURRENCY, graph};
