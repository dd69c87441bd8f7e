//! The flags of all backends as one set.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use futures::future::BoxFuture;
use paravt_backend::{Factory, FlagSets, Job, RequestFlags};
use paravt_suite::backend::{Backend, BackendError, BackendInfo, Completion, Request};
use paravt_suite::plan::RunPlan;
use tokio::sync::OnceCell;

use crate::ALL;

/// Flags that no backend owns. Under the heading `Backend`, those of a backend stand between them by their
/// `display_order`, or after them.
#[derive(Clone, Args)]
#[command(next_help_heading = "Backend")]
struct Shared {
    /// Where the model runs.
    #[arg(long, value_parser = names(), default_value = ALL[0].name, display_order = 0)]
    backend: String,
    /// Model: for a server its name there, for an in-process engine a folder or `owner/name` on the hub [default: the
    /// first model that the server lists; an engine needs one].
    #[arg(long, value_name = "NAME|DIR", display_order = 20)]
    model: Option<String>,
    /// Number of GPUs that the model runs on, for the GPU hours in reports [default: those of an in-process engine;
    /// unknown for a server].
    #[arg(long, value_name = "N", display_order = 90)]
    gpus: Option<u32>,
    #[command(flatten)]
    request: RequestFlags,
}

fn names() -> PossibleValuesParser {
    ALL.iter().map(|kind| PossibleValue::new(kind.name).help(kind.about)).collect::<Vec<_>>().into()
}

/// Parsed flags of every backend, and the chosen backend.
#[derive(Clone)]
pub struct Flags {
    shared: Shared,
    /// Place of the chosen backend in [`ALL`].
    chosen: usize,
    /// One for each of [`ALL`].
    factories: Vec<Arc<dyn Factory>>,
    /// What the caller knows of the model, for the manifest.
    known: BTreeMap<String, String>,
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let sets = FlagSets::new(command).with::<Shared>();
        ALL.iter().fold(sets, |sets, kind| (kind.flags)(sets)).into_command()
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let shared = Shared::from_arg_matches(matches)?;
        let chosen = ALL.iter().position(|kind| kind.name == shared.backend);
        let factories = ALL.iter().map(|kind| (kind.read)(matches)).collect::<Result<_, _>>()?;
        let chosen = chosen.expect("clap takes names of ALL alone");
        Ok(Self { shared, chosen, factories, known: BTreeMap::new() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Flags {
    fn factory(&self) -> &dyn Factory {
        self.factories[self.chosen].as_ref()
    }

    /// The name of the chosen backend.
    pub fn backend(&self) -> &'static str {
        ALL[self.chosen].name
    }

    /// The model that `--model` names.
    pub fn model(&self) -> Option<&str> {
        self.shared.model.as_deref()
    }

    /// Dialect of tool calls, and settings of every request.
    pub fn request(&self) -> &RequestFlags {
        &self.shared.request
    }

    /// What the flags say of a backend that the user runs; `None` where they name none.
    pub fn own(&self) -> Option<String> {
        self.factory().chosen_by(self.backend())
    }

    /// GPUs that the model runs on, where that is known.
    pub fn gpus(&self) -> Option<u32> {
        self.shared.gpus.or_else(|| self.factory().gpus())
    }

    /// The same flags for servers of a model.
    ///
    /// # Panics
    /// No backend talks to servers.
    #[must_use]
    pub fn on_servers(&self, base_urls: &[String], model: &str) -> Self {
        let mut there = self.factories.iter().enumerate();
        let there = there.find_map(|(place, factory)| Some((place, factory.on_servers(base_urls)?)));
        let (chosen, factory) = there.expect("a backend for servers is among ALL");
        let mut flags = self.with_model(chosen, model);
        flags.factories[chosen] = factory;
        flags
    }

    /// The same flags for a model in this process, on the first engine.
    ///
    /// # Panics
    /// No backend runs models in this process.
    #[must_use]
    pub fn in_process(&self, model: &str) -> Self {
        let chosen = self.factories.iter().position(|factory| factory.is_in_process());
        self.with_model(chosen.expect("an in-process engine is among ALL"), model)
    }

    /// These flags, with this model where they name none and the chosen engine has to load one.
    #[must_use]
    pub fn or_model(&self, model: &str) -> Self {
        let is_asked = self.factory().is_in_process() && self.model().is_none();
        if is_asked { self.with_model(self.chosen, model) } else { self.clone() }
    }

    /// The same flags with details of the model that the backend itself does not know, for the manifest.
    #[must_use]
    pub fn knowing(self, details: &BTreeMap<String, String>) -> Self {
        Self { known: details.clone(), ..self }
    }

    fn with_model(&self, chosen: usize, model: &str) -> Self {
        let mut flags = Self { chosen, ..self.clone() };
        flags.shared.model = Some(model.to_owned());
        flags
    }

    /// Applies what the flags say of the whole process; [`Backends::build`] does, too.
    ///
    /// # Errors
    /// The machine cannot do it.
    pub fn configure(&self) -> anyhow::Result<()> {
        self.factories.iter().try_for_each(|factory| factory.configure())
    }

    /// The backends of one command. `fetch` knows the folder of a model on the hub at a revision, `note` takes lines for
    /// the user.
    pub fn open(&self, fetch: fn(&str, &str) -> anyhow::Result<PathBuf>, note: fn(&str)) -> Backends<'_> {
        Backends { flags: self, fetch, note, once_within: None, engine: OnceCell::new() }
    }
}

/// The backends of one command, one for each split.
pub struct Backends<'a> {
    flags: &'a Flags,
    fetch: fn(&str, &str) -> anyhow::Result<PathBuf>,
    note: fn(&str),
    once_within: Option<Duration>,
    /// An in-process engine is loaded once, by the split that asks first.
    engine: OnceCell<Arc<dyn Backend>>,
}

impl Backends<'_> {
    /// With one try of each request within this time, whatever the flags say.
    #[must_use]
    pub fn trying_once_within(self, time: Duration) -> Self {
        Self { once_within: Some(time), ..self }
    }

    /// Starts the backend for one split; an in-process engine once for all of them. A plan that the backend
    /// cannot honour is an error.
    ///
    /// # Errors
    /// As [`Factory::start`].
    pub async fn build(&self, task: &str, plan: Option<&RunPlan>) -> anyhow::Result<Arc<dyn Backend>> {
        let backend = if self.flags.factory().is_in_process() {
            Arc::clone(self.engine.get_or_try_init(|| self.start(task, plan)).await?)
        } else {
            self.start(task, plan).await?
        };
        if let Some(plan) = plan {
            backend.accepts(plan).map_err(anyhow::Error::msg)?;
        }
        Ok(backend)
    }

    async fn start(&self, task: &str, plan: Option<&RunPlan>) -> anyhow::Result<Arc<dyn Backend>> {
        let settings = match plan {
            Some(plan) => plan.request.clone(),
            None => self.flags.request().settings()?,
        };
        let job = Job {
            task,
            model: self.flags.model(),
            plan,
            settings,
            fetch: self.fetch,
            note: self.note,
            once_within: self.once_within,
        };
        self.flags.configure()?;
        let backend = self.flags.factory().start(job).await?;
        Ok(match self.flags.known.is_empty() {
            true => backend,
            false => Arc::new(Known { backend, details: self.flags.known.clone() }),
        })
    }
}

/// A backend of whose model the caller knows more than it does.
struct Known {
    backend: Arc<dyn Backend>,
    details: BTreeMap<String, String>,
}

impl Backend for Known {
    fn describe(&self) -> BackendInfo {
        let mut info = self.backend.describe();
        info.details.extend(self.details.clone());
        info
    }

    fn accepts(&self, plan: &RunPlan) -> Result<(), String> {
        self.backend.accepts(plan)
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
        self.backend.complete(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Flags {
        let command = Flags::augment_args(Command::new("t"));
        let matches = command.get_matches_from(std::iter::once(&"t").chain(words));
        Flags::from_arg_matches(&matches).expect("the words are valid")
    }

    #[test]
    fn names_differ_and_each_can_be_chosen() {
        for kind in ALL {
            let flags = parse(&["--backend", kind.name]);
            assert_eq!(flags.backend(), kind.name);
            assert_eq!(ALL.iter().filter(|other| other.name == kind.name).count(), 1);
            assert!(!kind.about.is_empty());
        }
        assert_eq!(parse(&[]).backend(), "openai");
    }

    #[test]
    fn the_same_flags_serve_other_places() {
        let flags = parse(&["--backend", "replay", "--model", "a", "--tries", "5", "--device", "cuda:1"]);
        assert_eq!((flags.own().as_deref(), flags.gpus()), (Some("--backend replay"), Some(0)));
        let servers = flags.on_servers(&["http://h/v1".to_owned()], "b");
        assert_eq!((servers.backend(), servers.model(), servers.gpus()), ("openai", Some("b"), None));
        assert_eq!(servers.own().as_deref(), Some("--base-url"));
        let engine = flags.in_process("c");
        assert_eq!((engine.backend(), engine.model(), engine.gpus()), ("candle", Some("c"), Some(1)));
        assert_eq!(parse(&["--gpus", "8"]).gpus(), Some(8));
        let recipe = |words: &[&str]| parse(words).or_model("o/recipe").model().map(str::to_owned);
        assert_eq!(recipe(&["--backend", "candle"]).as_deref(), Some("o/recipe"));
        assert_eq!(recipe(&["--backend", "candle", "--model", "d"]).as_deref(), Some("d"));
        // A server says itself which model it has.
        assert_eq!(recipe(&["--base-url", "http://h/v1"]), None);
    }
}
