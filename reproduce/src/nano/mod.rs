//! The embedded reproduction: the generated world, trained on and evaluated with the code of the large
//! recipe.

pub mod base;
mod data;
pub mod identity;
mod plan;
mod recipe;
mod validate;

pub use plan::{Step, Told, Work, steps};
pub use recipe::{Comparison, NanoRecipe, NanoRun, Variant};

/// Why a stage of the embedded reproduction failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The world could not be made.
    #[error(transparent)]
    World(#[from] paravt_nano::WorldError),
    /// Training failed.
    #[error(transparent)]
    Train(#[from] paravt_train::Error),
    /// A model could not be run.
    #[error(transparent)]
    Backend(#[from] paravt_suite::backend::BackendError),
    /// The recipe is wrong.
    #[error(transparent)]
    Recipe(#[from] crate::RecipeError),
    /// A run of a model that is not trained.
    #[error("run `{0}` is of model `{1}`, which the recipe does not train")]
    NoModel(String, String),
    /// A stage before those it needs.
    #[error("stage `{0}` has nothing to build on: a mistake of this program")]
    Order(String),
}
