#![forbid(unsafe_code)]
//! What a backend brings to the command line: its flags, its line of `doctor`, and a factory that starts it.
//!
//! A backend's folder implements [`Kind`]; the crate `paravt-backends` lists the kinds. `suite/docs/backends.md` is a
//! whole backend; its code is compiled as a test of this crate.
//!
//! ```
//! use paravt_backend::{DeclaredElsewhere, FlagSets};
//!
//! #[derive(clap::Args)]
//! struct Flags {
//!     #[arg(long, default_value = "cpu")]
//!     device: String,
//! }
//!
//! // Two backends share a set of flags: it is added once.
//! let command = FlagSets::new(clap::Command::new("program")).with::<Flags>().with::<Flags>().into_command();
//! assert_eq!(command.get_arguments().count(), 1);
//! # let _: Option<DeclaredElsewhere<Flags>> = None;
//! ```

mod flag_sets;
mod request;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use paravt_suite::backend::Backend;
use paravt_suite::plan::RunPlan;
use paravt_suite::settings::RequestSettings;

pub use flag_sets::{DeclaredElsewhere, FlagSets};
pub use request::RequestFlags;

/// The page on adding a backend, whose code has to compile.
#[cfg(doctest)]
#[doc = include_str!("../../../suite/docs/backends.md")]
struct Page;

/// A kind of backend, as `--backend` names it.
pub trait Kind: Factory + Sized + 'static {
    /// Value of `--backend`, also the name in records.
    const NAME: &'static str;
    /// Help of that value.
    const ABOUT: &'static str;

    /// Adds the flags of this kind; a set that several kinds share is added once.
    fn flags(sets: FlagSets) -> FlagSets;

    /// Reads its flags from a parsed command line.
    ///
    /// # Errors
    /// A value that clap could not convert.
    fn read(matches: &clap::ArgMatches) -> Result<Self, clap::Error>;

    /// Line of `doctor`: what this kind can use on this machine.
    fn doctor() -> String;
}

/// The flags of one kind of backend: starts it.
pub trait Factory: Send + Sync {
    /// Applies what the flags say of the whole process, before anything computes, whichever backend is chosen.
    ///
    /// # Errors
    /// The machine cannot do it.
    fn configure(&self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Starts the backend.
    ///
    /// # Errors
    /// A flag that is missing or has no usable value, a server that cannot be reached, a model that cannot be loaded.
    fn start<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, anyhow::Result<Arc<dyn Backend>>>;

    /// Whether it runs a model folder in this process: started once for all splits of a command, because weights are
    /// loaded.
    fn is_in_process(&self) -> bool {
        false
    }

    /// GPUs that it uses itself; `None` where it cannot know.
    fn gpus(&self) -> Option<u32>;

    /// The flag or variable by which the user chose the model that answers, where `--backend` alone says it or
    /// something names a server; `None` where nothing does.
    fn chosen_by(&self, name: &str) -> Option<String> {
        Some(format!("--backend {name}"))
    }

    /// The same flags for servers at these base URLs; `None` of a backend that talks to no server.
    fn on_servers(&self, base_urls: &[String]) -> Option<Arc<dyn Factory>> {
        let _ = base_urls;
        None
    }
}

/// Job of a backend: split, model, plan and settings.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// Name of the split, or of the command where there is none.
    pub task: &'a str,
    /// Value of `--model`.
    pub model: Option<&'a str>,
    /// Plan of the run, where there is a run.
    pub plan: Option<&'a RunPlan>,
    /// Settings of every request.
    pub settings: RequestSettings,
    /// Folder of a model that the hub has under `owner/name`, at a revision; waits for its download.
    pub fetch: fn(&str, &str) -> anyhow::Result<PathBuf>,
    /// Takes a line about what was started, e.g. the memory that a model needs, for the user.
    pub note: fn(&str),
    /// One try of each request within this time, instead of what the flags say.
    pub once_within: Option<Duration>,
}

/// A [`Kind`] without its type, for a list of kinds.
#[derive(Debug, Clone, Copy)]
pub struct Registration {
    /// [`Kind::NAME`].
    pub name: &'static str,
    /// [`Kind::ABOUT`].
    pub about: &'static str,
    /// [`Kind::flags`].
    pub flags: fn(FlagSets) -> FlagSets,
    /// [`Kind::read`].
    pub read: fn(&clap::ArgMatches) -> Result<Arc<dyn Factory>, clap::Error>,
    /// [`Kind::doctor`].
    pub doctor: fn() -> String,
}

impl Registration {
    /// The registration of a kind.
    pub const fn of<K: Kind>() -> Self {
        Self { name: K::NAME, about: K::ABOUT, flags: K::flags, read: read::<K>, doctor: K::doctor }
    }
}

fn read<K: Kind>(matches: &clap::ArgMatches) -> Result<Arc<dyn Factory>, clap::Error> {
    Ok(Arc::new(K::read(matches)?))
}
