//! The embedded reproduction: the generated world, trained on and evaluated with the code of the large
//! recipe.

pub mod base;
