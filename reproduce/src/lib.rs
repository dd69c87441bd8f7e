#![forbid(unsafe_code)]
//! Recipes as graphs of stages, and the code that plans, runs, resumes and reports them.
//!
//! ```
//! use paravt_reproduce::{GraphOptions, Recipe};
//!
//! let graph = Recipe::load("paravt-nano")?.graph(&GraphOptions::new("runs/paravt-nano"))?;
//! let names: Vec<&str> = graph.stages().iter().map(|stage| stage.name()).collect();
//! assert_eq!(names.first(), Some(&"base"));
//! assert_eq!(names.last(), Some(&"report"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod attempts;
pub mod cluster;
pub mod driver;
pub mod environments;
mod error;
mod fit;
pub mod graph;
mod host;
pub mod mixture;
mod needs;
mod options;
mod plan;
pub mod preflight;
mod progress;
pub mod provenance;
mod recipe;
mod replacement;
mod server_watch;
pub mod servers;
pub mod slot;
pub mod stages;
pub mod status;
pub mod target;
mod verdict;
pub mod work;

pub use error::{Error, RecipeError};
pub use fit::Cards;
pub use needs::{Estimate, Preflight};
pub use options::GraphOptions;
pub use progress::Progress;
pub use recipe::{CONCURRENCY, Recipe};
pub use target::{Fetch, Item, Target};
