//! Recipes as Slurm jobs: one batch script each, submitted in order with the dependencies between them; and the merge
//! of the shards that the jobs evaluate.
//!
//! Every command resumes when it is run again. So a job that is requeued, or submitted again, does what is left.
//!
//! ```
//! use paravt_reproduce::cluster::{After, Job, Options};
//!
//! let job = Job {
//!     name: "evaluate".to_owned(),
//!     words: vec!["paravt-bench".to_owned(), "reproduce".to_owned(), "paravt-8b".to_owned()],
//!     path: None,
//!     array: Some(8),
//!     whole_node: true,
//!     after: After::Nothing,
//! };
//! let options = Options {
//!     recipe: "paravt-8b".to_owned(),
//!     folder: "/shared/8b/slurm".into(),
//!     dir: "/shared".into(),
//!     gpus: 8,
//!     ..Options::default()
//! };
//! let script = job.script(&options)?;
//! assert!(script.starts_with("#!/bin/bash\n#SBATCH --job-name=paravt-8b-evaluate\n"));
//! # Ok::<(), paravt_reproduce::cluster::Error>(())
//! ```

mod jobs;
mod merge;
mod script;
mod submit;

use std::path::{Path, PathBuf};

use crate::graph::Graph;

pub use jobs::Call;
pub use merge::{merge, shards};
pub use script::{After, Job, Options};
pub use submit::{Submitted, submit, write};

/// Why jobs cannot be written or submitted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that cannot be a line of a script.
    #[error(
        "--sbatch-option or --cpu-option `{0}`: an option of sbatch in one word is needed, such as --partition=gpu"
    )]
    Option(String),
    /// A path that cannot be a line of a script.
    #[error(
        "{0:?}: a folder whose name has a line break, a quote or a backslash cannot be named in a batch script"
    )]
    Path(PathBuf),
    /// A file that cannot be read or written.
    #[error("cannot {action} {path}", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    /// A recipe without the stages that the jobs are made of.
    #[error("the recipe evaluates nothing")]
    NoEvaluation,
    /// The graph of a shard cannot be made.
    #[error(transparent)]
    Recipe(Box<crate::Error>),
    /// Shards that were answered differently.
    #[error("{one} and {other} were answered by different models or engines: {differences}", one = .one.display(), other = .other.display())]
    OtherModel { one: PathBuf, other: PathBuf, differences: String },
    /// Runs that cannot be merged.
    #[error("cannot merge the shards")]
    Merge(#[from] paravt_suite::evaluate::MergeError),
    /// A merged run without some of its samples.
    #[error("{}: records are missing although every shard is done", .0.display())]
    Incomplete(PathBuf),
    /// No Slurm on this machine.
    #[error(
        "sbatch cannot be started ({0}); run the command on a login node of the cluster, or use --launcher local"
    )]
    NoSlurm(std::io::Error),
    /// Slurm refuses a job.
    #[error("sbatch refuses {script}: {message}{}", cancel(.submitted))]
    Refused { script: PathBuf, message: String, submitted: Vec<Submitted> },
    /// Jobs of the same folder have not ended.
    #[error("jobs of {folder} are queued or running: {jobs}; wait for them, or `scancel {jobs}` first", folder = .folder.display())]
    Queued { folder: PathBuf, jobs: String },
}

impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Self {
        Self::Recipe(Box::new(error))
    }
}

/// Absolute path of the folder of scripts, logs and shards, below that of a recipe.
///
/// # Errors
/// No working directory that the folder is relative to.
pub fn folder(graph: &Graph) -> Result<PathBuf, Error> {
    Ok(absolute(&graph.out)?.join("slurm"))
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(io("find", path))
}

pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { action, path, source }
}

fn cancel(submitted: &[Submitted]) -> String {
    let ids: Vec<&str> = submitted.iter().map(|job| job.id.as_str()).collect();
    if ids.is_empty() { String::new() } else { format!("; cancelled {}", ids.join(", ")) }
}
