//! What a recipe needs of a machine, and whether the machine has it.
//!
//! [`Needs`] is the recipe's part: data, with a level for each amount. [`probe()`] looks at the machine and writes what
//! it found into a [`Machine`], plain data that a test can write by hand. [`examine`] compares the two: each check is a
//! function from both to [`Finding`]s, and the [`Report`] is the page of all of them.
//!
//! ```
//! use paravt_reproduce::preflight::{Asked, Needs, examine, probe};
//!
//! // A recipe without needs has no findings on any machine.
//! let (repositories, datasets) = (Vec::new(), Vec::new());
//! let asked = Asked { out: "runs".into(), data: "data".into(), has_token: false, repositories, datasets };
//! let machine = probe(&Needs::default(), asked);
//! assert!(examine("mine", &Needs::default(), &machine).findings.is_empty());
//! ```

mod checks;
mod finding;
mod machine;
mod needs;
mod probe;

pub use checks::examine;
pub use finding::{Finding, Level, Report};
pub use machine::{
    Address, Cpus, Dataset, Disk, Gpu, Gpus, Limits, Machine, Memory, Port, RepoState, Repository,
};
pub use needs::{Bound, DriverNeed, GpuNeed, Needs, Tool};
pub use probe::{Asked, probe};
