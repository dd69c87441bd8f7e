#![forbid(unsafe_code)]
//! Commands as Slurm jobs: one batch script each, submitted in order with the dependencies between them.
//!
//! Every command resumes when it is run again. So a job that is requeued, or submitted again, does what is left.
//!
//! ```
//! use std::path::Path;
//!
//! use paravt_cluster::{After, Job, Options};
//!
//! let job = Job {
//!     name: "evaluate".to_owned(),
//!     words: vec!["paravt-bench".to_owned(), "reproduce".to_owned(), "paravt-8b".to_owned()],
//!     path: None,
//!     array: Some(8),
//!     whole_node: true,
//!     after: After::Nothing,
//! };
//! let options = Options { sbatch: Vec::new(), cpu: Vec::new(), gpus: 8 };
//! let script = job.script("paravt-8b", &options, Path::new("/shared/8b/slurm"), Path::new("/shared"))?;
//! assert!(script.starts_with("#!/bin/bash\n#SBATCH --job-name=paravt-8b-evaluate\n"));
//! # Ok::<(), paravt_cluster::Error>(())
//! ```

mod script;
mod submit;

use std::path::PathBuf;

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
    /// A command that a shell cannot be given.
    #[error("the command of job {0} has a zero byte")]
    Command(String),
    /// A file that cannot be read or written.
    #[error("cannot {action} {path}", path = .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// No Slurm on this machine.
    #[error(
        "sbatch cannot be started ({0}); run the command on a login node of the cluster, or use --launcher local"
    )]
    NoSlurm(std::io::Error),
    /// Slurm refuses a job.
    #[error("sbatch refuses {script}: {message}{}", cancel(.submitted))]
    Refused {
        /// The script.
        script: PathBuf,
        /// What sbatch says.
        message: String,
        /// Jobs that were submitted before it and are cancelled.
        submitted: Vec<Submitted>,
    },
    /// Jobs of the same folder have not ended.
    #[error("jobs of {folder} are queued or running: {jobs}; wait for them, or `scancel {jobs}` first", folder = .folder.display())]
    Queued {
        /// Folder of the scripts.
        folder: PathBuf,
        /// Their numbers.
        jobs: String,
    },
}

fn cancel(submitted: &[Submitted]) -> String {
    let ids: Vec<&str> = submitted.iter().map(|job| job.id.as_str()).collect();
    if ids.is_empty() { String::new() } else { format!("; cancelled {}", ids.join(", ")) }
}
