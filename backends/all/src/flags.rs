//! The flags of all backends as one set.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use futures::future::BoxFuture;
use paravt_backend_candle::Isa;
use paravt_backend_openai::OpenAiFlags;
use paravt_qwen_vl::flags::{EngineFlags, Start};
use paravt_suite::backend::{Backend, BackendError, BackendInfo, Completion, Memory, Request};
use paravt_suite::plan::{Channel, RunPlan};
use tokio::sync::OnceCell;

use crate::{ReplayFlags, RequestFlags};

/// Value of `--backend`, the default first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackendKind {
    /// Any OpenAI-compatible server.
    Openai,
    /// Answers from a recorded run.
    Replay,
    /// Qwen3-VL or Qwen2.5-VL in this process, on candle.
    Candle,
    /// The same on libtorch, in a build with the feature `libtorch`.
    Libtorch,
}

/// Flags of every backend. Under the heading `Backend` they stand by their `display_order`.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Backend")]
pub struct Flags {
    /// Where the model runs.
    #[arg(long, value_enum, default_value = "openai", display_order = 0)]
    pub backend: BackendKind,
    /// Model: for a server its name there, for an in-process engine a folder or `owner/name` on the hub [default: the
    /// only model that the server lists; an engine needs one].
    #[arg(long, value_name = "NAME|DIR", display_order = 20)]
    model: Option<String>,
    /// Number of GPUs that the model runs on, for the GPU hours in reports [default: those of an in-process engine;
    /// unknown for a server].
    #[arg(long, value_name = "N", display_order = 90)]
    gpus: Option<u32>,
    /// Settings of every request.
    #[command(flatten)]
    pub request: RequestFlags,
    #[command(flatten)]
    openai: OpenAiFlags,
    /// The recorded run.
    #[command(flatten)]
    pub replay: ReplayFlags,
    /// Device and number types of the engines in this process.
    #[command(flatten)]
    pub engine: EngineFlags,
    /// Instruction set of the kernels on the CPU, of answers and of training, to compare results with another machine's:
    /// avx512-bf16, avx512, avx2 or baseline. Products in f16 and training in bf16 are candle's own, which are not covered
    /// [default: the best that the processor has].
    #[arg(long, hide = true, value_name = "SET")]
    isa: Option<Isa>,
    /// What the caller knows of the model, for the manifest.
    #[arg(skip)]
    known: BTreeMap<String, String>,
}

impl Flags {
    /// Whether the chosen backend runs a model folder in this process: started once for all splits of a command,
    /// because weights are loaded.
    fn is_in_process(&self) -> bool {
        matches!(self.backend, BackendKind::Candle | BackendKind::Libtorch)
    }

    /// The model that `--model` names.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The flag or variable by which the user chose the model that answers; `None` where nothing names one.
    pub fn own(&self) -> Option<String> {
        match self.backend {
            BackendKind::Openai => self.openai.server_named_by().map(str::to_owned),
            kind => Some(format!("--backend {}", kind.to_possible_value()?.get_name())),
        }
    }

    /// GPUs that the model runs on, where that is known.
    pub fn gpus(&self) -> Option<u32> {
        self.gpus.or(self.known_gpus())
    }

    /// GPUs of the chosen backend; `None` for a server.
    fn known_gpus(&self) -> Option<u32> {
        match self.backend {
            BackendKind::Openai => None,
            BackendKind::Replay => Some(0),
            BackendKind::Candle | BackendKind::Libtorch => Some(self.engine.gpus()),
        }
    }

    /// The same flags for servers of a model at these base URLs.
    #[must_use]
    pub fn on_servers(&self, base_urls: &[String], model: &str) -> Self {
        let openai = self.openai.on_servers(base_urls);
        Self { openai, ..self.with_model(BackendKind::Openai, model) }
    }

    /// The same flags for a model in this process, on candle.
    #[must_use]
    pub fn in_process(&self, model: &str) -> Self {
        self.with_model(BackendKind::Candle, model)
    }

    /// These flags, with this model where they name none and the chosen engine has to load one.
    #[must_use]
    pub fn or_model(&self, model: &str) -> Self {
        let is_asked = self.is_in_process() && self.model.is_none();
        if is_asked { self.with_model(self.backend, model) } else { self.clone() }
    }

    fn with_model(&self, backend: BackendKind, model: &str) -> Self {
        Self { backend, model: Some(model.to_owned()), ..self.clone() }
    }

    /// The same flags with details of the model that the backend itself does not know, for the manifest.
    #[must_use]
    pub fn knowing(self, details: &BTreeMap<String, String>) -> Self {
        Self { known: details.clone(), ..self }
    }

    /// Applies `--isa` to the whole process, before anything computes; [`Backends::build`] does, too.
    ///
    /// # Errors
    /// This processor lacks the instruction set.
    pub fn configure(&self) -> anyhow::Result<()> {
        Ok(self.isa.map_or(Ok(()), paravt_backend_candle::set_isa)?)
    }

    /// Refuses flags of another backend than the chosen one.
    ///
    /// # Errors
    /// The first such flag.
    pub fn check(&self) -> anyhow::Result<()> {
        let is_replay = self.backend == BackendKind::Replay;
        let elsewhere =
            if is_replay { "answers from a recorded run" } else { "loads a model into this process" };
        let backend = self.backend.to_possible_value();
        let backend = backend.map_or_else(String::new, |value| value.get_name().to_owned());
        if let Some(flag) = self.openai.given().filter(|_| self.backend != BackendKind::Openai) {
            anyhow::bail!(
                "{flag} is for the server of a model, and --backend {backend} {elsewhere}: leave one of them out"
            );
        }
        anyhow::ensure!(
            !(is_replay && self.model.is_some()),
            "--model: --backend replay answers as the model of the recorded run; leave it out"
        );
        if let Some((given, known)) = self.gpus.zip(self.known_gpus()).filter(|(given, known)| given != known)
        {
            anyhow::bail!("--gpus {given}: --backend {backend} {elsewhere}, on {known} GPUs; leave it out");
        }
        if self.is_in_process() {
            return self.engine.check(self.model());
        }
        match self.engine.given() {
            None => Ok(()),
            Some(flag) if is_replay => anyhow::bail!(
                "{flag} is for a model in this process, and --backend replay {elsewhere}: leave it out"
            ),
            Some(flag) => anyhow::bail!(
                "{flag} is for a model in this process (--backend candle or libtorch), which the server of a model does not \
                 know; leave it out"
            ),
        }
    }

    /// The plan of the run whose answers `replay` returns for a split; `None` with another backend.
    ///
    /// # Errors
    /// `--from` is not given or holds no run of the split.
    pub fn recorded(&self, task: &str) -> anyhow::Result<Option<RunPlan>> {
        (self.backend == BackendKind::Replay).then(|| self.replay.plan(task)).transpose()
    }

    /// Flags that are given and change nothing for runs on this channel, each with the channel that it is for.
    pub fn without_effect(&self, channel: Channel) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.openai.without_effect(channel).chain(self.engine.without_effect(channel))
    }

    /// As [`check`](Self::check), for a command whose `--from` can name nothing but a recorded run.
    ///
    /// # Errors
    /// The first such flag.
    pub fn check_run(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.backend == BackendKind::Replay || self.replay.from.is_none(),
            "--from names a recorded run, whose answers --backend replay returns: add that, or leave --from out"
        );
        self.check()
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
    /// A flag that is missing or has no usable value, a server that cannot be reached, a model that cannot be loaded.
    pub async fn build(&self, task: &str, plan: Option<&RunPlan>) -> anyhow::Result<Arc<dyn Backend>> {
        let backend = if self.flags.is_in_process() {
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
        let flags = self.flags;
        let model = flags.model();
        let settings = match plan {
            Some(plan) => plan.request.clone(),
            None => flags.request.settings()?,
        };
        flags.configure()?;
        let engine = |start: Start| flags.engine.load(model, self.fetch, self.note, start);
        let backend: Arc<dyn Backend> = match flags.backend {
            BackendKind::Openai => {
                Arc::new(flags.openai.connect(model, plan, settings, self.once_within).await?)
            }
            BackendKind::Replay => Arc::new(flags.replay.open(task)?),
            BackendKind::Candle => engine(paravt_backend_candle::start).await?,
            BackendKind::Libtorch => engine(paravt_backend_libtorch::start).await?,
        };
        Ok(match flags.known.is_empty() {
            true => backend,
            false => Arc::new(Known { backend, details: flags.known.clone() }),
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

    fn memory(&self) -> Option<Memory> {
        self.backend.memory()
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

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn parse(words: &[&str]) -> Flags {
        <Line as clap::Parser>::parse_from(std::iter::once(&"t").chain(words)).flags
    }

    #[test]
    fn the_same_flags_serve_other_places() {
        let flags = parse(&["--backend", "replay", "--model", "a", "--tries", "5", "--device", "cuda:1"]);
        assert_eq!((flags.own().as_deref(), flags.gpus()), (Some("--backend replay"), Some(0)));
        let servers = flags.on_servers(&["http://h/v1".to_owned()], "b");
        assert_eq!(
            (servers.backend, servers.model(), servers.gpus()),
            (BackendKind::Openai, Some("b"), None)
        );
        assert_eq!(servers.own().as_deref(), Some("--base-url"));
        let engine = flags.in_process("c");
        assert_eq!(
            (engine.backend, engine.model(), engine.gpus()),
            (BackendKind::Candle, Some("c"), Some(1))
        );
        assert_eq!(parse(&["--gpus", "8"]).gpus(), Some(8));
        let refused = |words: &[&str]| parse(words).check_run().map_err(|error| error.to_string());
        for flag in
            [&["--device", "cuda:0"][..], &["--dtype", "bf16"], &["--deterministic"], &["--batch", "2"]]
        {
            assert!(refused(flag).is_err_and(|error| error.starts_with(flag[0])), "{flag:?}");
            assert_eq!(refused(&[flag, &["--backend", "candle"]].concat()), Ok(()));
        }
        assert_eq!(refused(&["--device", "cpu", "--base-url", "http://h/v1"]), Ok(()));
        for (flags, words) in [
            (&["--backend", "candle", "--base-url", "http://h/v1"][..], "--base-url is for the server"),
            (&["--backend", "replay", "--base-url", "http://h/v1"], "--base-url is for the server"),
            (&["--backend", "replay", "--stream"], "--stream is for the server"),
            (&["--base-url", "http://h/v1", "--from", "runs"], "--from names a recorded run"),
            (&["--backend", "replay", "--from", "runs", "--model", "m"], "--model: "),
            (
                &["--backend", "replay", "--dtype", "bf16"],
                "--dtype is for a model in this process, and --backend replay",
            ),
            (&["--backend", "candle", "--gpus", "8"], "--gpus 8: --backend candle loads"),
        ] {
            assert!(refused(flags).is_err_and(|error| error.starts_with(words)), "{flags:?}");
        }
        assert_eq!(refused(&["--backend", "replay", "--from", "runs"]), Ok(()));
        let recipe = |words: &[&str]| parse(words).or_model("o/recipe").model().map(str::to_owned);
        assert_eq!(recipe(&["--backend", "candle"]).as_deref(), Some("o/recipe"));
        assert_eq!(recipe(&["--backend", "candle", "--model", "d"]).as_deref(), Some("d"));
        // A server says itself which model it has.
        assert_eq!(recipe(&["--base-url", "http://h/v1"]), None);
    }
}
