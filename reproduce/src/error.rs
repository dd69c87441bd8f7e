//! Why a recipe cannot be used, and why its graph cannot be made or run.

use std::path::PathBuf;

use paravt_suite::journal::JournalError;
use paravt_suite::nearest;

/// Why a recipe cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// No such recipe.
    #[error(
        "no recipe `{name}`: neither a file nor one of {known}{hint}",
        hint = nearest::hint(nearest::nearest(.name, .known.split(", ")))
    )]
    Unknown { name: String, known: String },
    /// A published row that cannot be run.
    #[error("recipe {name} cannot be run: {missing}")]
    Missing { name: String, missing: String },
    /// The file cannot be read.
    #[error("{file}: {message}")]
    Unreadable { file: String, message: String },
    /// The file is not a recipe; the message names line and field.
    #[error("{file}: {message}{hint}", hint = nearest::hint(.nearest.as_deref()))]
    Invalid { file: String, message: String, nearest: Option<String> },
}

impl RecipeError {
    /// What is wrong in a file, with the nearest known field where the message names an unknown one.
    pub(crate) fn invalid(file: impl Into<String>, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Invalid { file: file.into(), nearest: nearest::expected_field(&message), message }
    }
}

impl Error {
    /// Whether the machine lacks something that the stage needs, rather than that the recipe is wrong.
    pub fn is_precondition(&self) -> bool {
        match self {
            Self::Launch(error) => error.is_precondition(),
            Self::Supervise(_) | Self::Environments(_) | Self::NoGpu(_) => true,
            _ => matches!(self, Self::Port { .. } | Self::GpuMemory { .. } | Self::OtherModel { .. }),
        }
    }
}

/// Why a graph cannot be made or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The generated world could not be made.
    #[error(transparent)]
    World(#[from] paravt_nano::WorldError),
    #[error(transparent)]
    Train(#[from] paravt_train::Error),
    /// A model could not be run.
    #[error(transparent)]
    Backend(#[from] paravt_suite::backend::BackendError),
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The folder of the recipe cannot be locked.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The program that runs the graph failed.
    #[error(transparent)]
    Host(#[from] anyhow::Error),
    /// A flag names a stage that the recipe does not have.
    #[error(
        "{flag}: no stage `{name}`; there are {known}{hint}",
        hint = nearest::hint(nearest::nearest(.name, .known.split(", ")))
    )]
    NoStage { flag: &'static str, name: String, known: String },
    /// Two flags of which the one leaves out what the other names.
    #[error("{flag} {name}: {other} leaves that out; give one of the two")]
    Apart { flag: &'static str, name: String, other: String },
    /// A selected stage builds on one that is not done.
    #[error(
        "stage `{stage}` builds on `{input}`, which is not done; run all that is missing too: --only {only}"
    )]
    NotReady { stage: String, input: String, only: String },
    /// The checkout or an environment cannot be made.
    #[error(transparent)]
    Environments(#[from] crate::environments::Error),
    /// A training in another program.
    #[error(transparent)]
    Launch(#[from] paravt_engines::Error),
    /// The servers of the model cannot be run.
    #[error(transparent)]
    Supervise(#[from] paravt_supervise::Error),
    /// An engine that needs a GPU, on a machine without one.
    #[error(
        "[serve] engine `{0}` needs a GPU, and none was found; use engine `transformers` or `candle` on the CPU, or give \
         --base-url of a server elsewhere"
    )]
    NoGpu(&'static str),
    /// Fewer GPUs than one server takes.
    #[error("[serve] gpus = {each}: expected at least 1 and at most the {found} GPUs that are here")]
    FewGpus { each: usize, found: usize },
    /// A split that does not exist.
    #[error(transparent)]
    Task(#[from] paravt_tasks::UnknownTask),
    /// A model that cannot be named to the hub.
    #[error(transparent)]
    Fetch(#[from] paravt_fetch::FetchError),
    /// A port that a server cannot have.
    #[error(
        "port {port} {why}; end what listens there, choose another with `port` in [serve], or give --base-url to use \
         a server that runs"
    )]
    Port { port: u16, why: String },
    /// A GPU whose memory is not free after its server has ended: `used` MiB are still in use.
    #[error(
        "GPU {gpu}: {used} MiB are still in use after its server has ended; nvidia-smi lists what holds them: end it, \
         then run the command again; it continues with the next evaluation"
    )]
    GpuMemory { gpu: usize, used: u64 },
    /// A command that is empty or has an open quote.
    #[error("[serve] command: empty or with an open quote: `{}`", mask_words(.0))]
    Command(String),
    /// Evaluations that another model or engine has answered.
    #[error(
        "another model or engine has answered before: {difference}; `--redo {stages}` asks this one and keeps the earlier \
         results in `{}`, --keep-stages keeps those that are finished where they are, another --out keeps all",
        crate::slot::DISCARDED
    )]
    OtherModel { difference: String, stages: String },
    /// A file or folder cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A file or folder cannot be written.
    #[error("cannot write {path}", path = .path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// Hours of work that would be done again.
    #[error(
        "these results would be made again:\n{list}add --yes to do so; what is there now is moved to `{}` in the folder of \
         the recipe",
        crate::slot::DISCARDED
    )]
    Confirm { list: String },
    /// A result cannot be moved out of the way.
    #[error("cannot move {path} into {folder}", path = .path.display(), folder = .folder.display())]
    Discard { path: PathBuf, folder: PathBuf, source: std::io::Error },
}

/// A command that cannot be split as a shell would, without secrets.
fn mask_words(command: &str) -> String {
    paravt_supervise::words(&[command]).concat()
}
