//! The one place that names tasks and backends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use paravt_backend_openai::{Config, OpenAi, Secret};
use paravt_backend_replay::Replay;
use paravt_suite::backend::{Backend, BackendError, CallId, ErrorClass, Generation, Request};
use paravt_suite::message::{Image, Message, Part, Role};
use paravt_suite::nearest::nearest;
use paravt_suite::profile::Profile;
use paravt_suite::redact::urls;
use paravt_suite::run::RunPlan;
use paravt_suite::settings::{RequestSettings, ToolDialect};
use paravt_suite::task::{Benchmark, DataRoot, Task as _};
use paravt_train::Compute;
use tokio::sync::OnceCell;

use crate::engines::{self, EngineArgs, Start};
use crate::request::RequestArgs;

/// The splits of those names; `all` is every split that is part of it.
pub fn select_tasks(names: &[String]) -> anyhow::Result<Vec<&'static Benchmark>> {
    let all = paravt_tasks::all();
    let mut selected = Vec::new();
    for name in names {
        if name == "all" {
            return Ok(all.iter().copied().filter(|task| task.is_part_of_all()).collect());
        }
        match paravt_tasks::named(name) {
            Some(task) => selected.push(task),
            None => {
                let nearest = nearest(name, all.iter().map(|task| task.spec().name.as_str()));
                let nearest = nearest.unwrap_or_default();
                bail!("no split `{name}`; did you mean `{nearest}`? `paravt-bench tasks` lists all");
            }
        }
    }
    Ok(selected)
}

/// Where data lies.
#[derive(clap::Args)]
#[command(next_help_heading = "Data")]
pub struct DataArgs {
    /// Data root in the layout of lmms-eval and ParaVT [default: $HF_HOME, else ~/.cache/huggingface].
    #[arg(long, value_name = "DIR")]
    hf_home: Option<PathBuf>,
    /// Folder that is looked into before the data root: the same layout, or the files of one
    /// benchmark [default: none].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl DataArgs {
    /// Flags and environment as one plan.
    pub fn root(&self) -> anyhow::Result<DataRoot> {
        if let Some(data) = &self.data
            && !data.is_dir()
        {
            bail!("--data: {} is no folder", data.display());
        }
        let from_env = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || from_env("HOME").map(|home| home.join(".cache/huggingface"));
        let hf_home = self.hf_home.clone().or_else(|| from_env("HF_HOME")).or_else(home);
        let videos: BTreeMap<String, PathBuf> =
            [("mlvu", "PARAVT_MLVU_VIDEO_DIR"), ("mmvu", "PARAVT_MMVU_VIDEO_DIR")]
                .into_iter()
                .filter_map(|(benchmark, name)| Some((benchmark.to_owned(), from_env(name)?)))
                .collect();
        Ok(DataRoot {
            hf_home: hf_home.context("neither --hf-home nor $HF_HOME nor $HOME is set")?,
            data: self.data.clone(),
            videos,
        })
    }
}

/// Names of the backends.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BackendName {
    /// Any OpenAI-compatible server.
    Openai,
    /// Answers from a recorded run.
    Replay,
    /// Qwen3-VL or Qwen2.5-VL in this process, on candle.
    Candle,
    /// The same on libtorch, in a build with the feature `libtorch`.
    Libtorch,
}

/// What each backend can use on this machine, for `doctor`.
pub fn backend_abilities() -> Vec<(&'static str, String)> {
    let server = std::env::var("OPENAI_BASE_URL").ok().filter(|url| !url.is_empty());
    let server = server.map_or("no OPENAI_BASE_URL set; give --base-url".to_owned(), |url| {
        format!("{} (not asked)", urls(&url))
    });
    let mut abilities = vec![("openai", server), ("replay", "needs a recorded run (--from)".to_owned())];
    abilities.extend(engines::abilities());
    abilities
}

/// Who answers.
#[derive(Clone, clap::Args)]
#[command(next_help_heading = "Backend")]
pub struct BackendArgs {
    /// Who answers.
    #[arg(long, value_enum, default_value = "openai")]
    backend: BackendName,
    /// Base URL of a server, e.g. http://localhost:8000/v1; several, separated by commas, share the
    /// work. A key is read from $OPENAI_API_KEY [default: $OPENAI_BASE_URL].
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    base_url: Vec<String>,
    /// Model: a name on the server [default: the first that it lists]; for an in-process engine a
    /// folder, or `owner/name` on the hub.
    #[arg(long, value_name = "NAME|DIR")]
    model: Option<String>,
    /// Recorded run, or folder of runs, that `replay` answers from; for a recipe, the stage that is redone
    /// with all after it [default: none; replay needs one].
    #[arg(long, value_name = "RUN|STAGE")]
    from: Option<PathBuf>,
    /// Seconds that one try of a request may take.
    #[arg(long, default_value_t = 1800.0, value_name = "SECONDS")]
    request_timeout: f64,
    /// Tries of one request, the first one included [default: 9 under release and paper, as the
    /// released driver and its client together; 3 otherwise].
    #[arg(long, value_name = "N")]
    tries: Option<u32>,
    /// Seconds before the second try, twice as many before the third, and so on; up to a third of
    /// this is added at random.
    #[arg(long, default_value_t = 1.5, value_name = "SECONDS")]
    retry_pause: f64,
    /// Maximum of requests in flight, over all servers; halved whenever a server pushes back, and
    /// grown again.
    #[arg(long, default_value_t = 64, value_name = "N")]
    max_requests: usize,
    /// Maximum size of one reply; a larger one is an error.
    #[arg(long, default_value_t = 8 << 20, value_name = "BYTES")]
    max_reply_bytes: usize,
    /// With --channel video: ask the server (vLLM `media_io_kwargs`) for the profile's frames of a
    /// video, 32 under release and paper, 64 under strict; without, the server's own count holds.
    #[arg(long)]
    send_video_frames: bool,
    /// GPUs that the model runs on, for the GPU hours of reports [default: what an in-process engine
    /// uses; a server does not tell].
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

impl BackendArgs {
    /// The stage that `--from` names; with `--backend replay` it names a recorded run.
    pub fn stage(&self) -> Option<&str> {
        self.from.as_deref().and_then(|from| from.to_str()).filter(|_| self.backend != BackendName::Replay)
    }

    /// The model that `--model` names.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// What the flags say of a backend that the user runs; `None` where they name none.
    pub fn own(&self) -> Option<String> {
        match self.backend {
            BackendName::Openai if !self.base_url.is_empty() => Some("--base-url".to_owned()),
            BackendName::Openai => {
                let url = std::env::var_os("OPENAI_BASE_URL").filter(|url| !url.is_empty());
                url.map(|_| "OPENAI_BASE_URL".to_owned())
            }
            BackendName::Replay => Some("--backend replay".to_owned()),
            BackendName::Candle => Some("--backend candle".to_owned()),
            BackendName::Libtorch => Some("--backend libtorch".to_owned()),
        }
    }

    /// The same flags for servers of a model.
    pub fn on_servers(&self, base_urls: &[String], model: &str) -> Self {
        let model = Some(model.to_owned());
        Self { backend: BackendName::Openai, base_url: base_urls.to_vec(), model, ..self.clone() }
    }

    /// The same flags for a model in this process.
    pub fn in_process(&self, model: &str) -> Self {
        Self { backend: BackendName::Candle, model: Some(model.to_owned()), ..self.clone() }
    }

    /// Asks a server one question in text and one about an image. A model that ends at once has answered.
    pub async fn probe(&self, base_url: &str, model: &str) -> Result<(), String> {
        let failed = |error: BackendError| error.to_string();
        let config = self
            .on_servers(&[base_url.to_owned()], model)
            .config(None)
            .map_err(|error| format!("{error:#}"))?;
        let config = Config { max_tries: 1, timeout: PROBE_TIMEOUT, ..config };
        let backend = OpenAi::connect(config).await.map_err(failed)?;
        for (step, part) in [("text", None), ("image", Some(Part::Image(gray_image())))] {
            let text = Part::Text("Answer with one word: what is this?".to_owned());
            let message = Message::parts(Role::User, part.into_iter().chain([text]).collect());
            let id = CallId { sample: "probe".to_owned(), step: step.to_owned() };
            match backend.complete(&Request::new(id, vec![message], Generation::greedy(8))).await {
                Ok(_) => {}
                Err(error) if error.class == ErrorClass::EmptyReply => {}
                Err(error) => return Err(format!("{step} request: {error}")),
            }
        }
        Ok(())
    }

    /// Where and in what an embedded recipe trains and evaluates.
    pub fn compute(&self) -> anyhow::Result<Compute> {
        self.engine.compute()
    }

    /// GPUs that the model runs on, where that is known.
    pub fn gpus(&self) -> Option<u32> {
        self.gpus.or(match self.backend {
            BackendName::Openai => None,
            BackendName::Replay => Some(0),
            BackendName::Candle | BackendName::Libtorch => Some(self.engine.gpus()),
        })
    }

    /// How tool calls travel, and the settings of every request.
    pub fn request(&self) -> &RequestArgs {
        &self.request
    }

    /// What the flags name, for the splits of one command.
    pub fn open(&self) -> Backends<'_> {
        Backends { args: self, engine: OnceCell::new() }
    }

    fn config(&self, plan: Option<&RunPlan>) -> anyhow::Result<Config> {
        let from_env = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mut base_urls = self.base_url.clone();
        if base_urls.is_empty() {
            base_urls.extend(from_env("OPENAI_BASE_URL"));
        }
        if base_urls.is_empty() {
            bail!("no server: give --base-url or set OPENAI_BASE_URL");
        }
        let seconds = |name: &str, value: f64| {
            ensure!(
                (0.0..=LONGEST_SECONDS).contains(&value),
                "{name}: {value} is not between 0 and {LONGEST_SECONDS} seconds"
            );
            Ok(std::time::Duration::from_secs_f64(value))
        };
        let settings = match plan {
            Some(plan) => plan.request.clone(),
            None => self.request.settings()?,
        };
        Ok(Config {
            base_urls,
            model: self.model.clone(),
            api_key: from_env("OPENAI_API_KEY").map(Secret::new),
            timeout: seconds("--request-timeout", self.request_timeout)?,
            max_tries: self.tries.unwrap_or_else(|| default_tries(plan)).max(1),
            retry_pause: seconds("--retry-pause", self.retry_pause)?,
            max_requests: self.max_requests.max(1),
            max_reply: self.max_reply_bytes,
            send_video_frames: self.send_video_frames,
            whole_text: plan.is_some_and(|plan| plan.dialect == ToolDialect::Auto),
            headers: header_values(&settings)?,
            settings,
        })
    }
}

/// The backends of one command.
pub struct Backends<'a> {
    args: &'a BackendArgs,
    /// An in-process engine is loaded once, by the split that asks first.
    engine: OnceCell<Arc<dyn Backend>>,
}

impl Backends<'_> {
    /// Starts the backend for one split; an in-process engine once for all of them. A plan that the backend
    /// cannot honour is an error.
    pub async fn build(&self, task: &str, plan: Option<&RunPlan>) -> anyhow::Result<Arc<dyn Backend>> {
        let backend = self.start(task, plan).await?;
        if let Some(plan) = plan {
            backend.accepts(plan).map_err(anyhow::Error::msg)?;
        }
        Ok(backend)
    }

    async fn start(&self, task: &str, plan: Option<&RunPlan>) -> anyhow::Result<Arc<dyn Backend>> {
        let args = self.args;
        match args.backend {
            BackendName::Openai => Ok(Arc::new(OpenAi::connect(args.config(plan)?).await?)),
            BackendName::Replay => {
                let from = args.from.as_ref().context("--backend replay needs --from RUN")?;
                let run = Some(from.join(task)).filter(|run| run.is_dir()).unwrap_or_else(|| from.clone());
                Ok(Arc::new(Replay::open(&run)?))
            }
            BackendName::Candle => self.load(engines::start_on_candle).await,
            BackendName::Libtorch => self.load(engines::start_on_libtorch).await,
        }
    }

    async fn load(&self, start: Start) -> anyhow::Result<Arc<dyn Backend>> {
        let load = || self.args.engine.load(self.args.model.as_deref(), start);
        Ok(Arc::clone(self.engine.get_or_try_init(load).await?))
    }
}

/// Time that a server gets to answer a probe; the first answer may compile kernels.
const PROBE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(300);

/// A gray picture of 64 by 64 pixels.
fn gray_image() -> Arc<Image> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 64, 64);
    encoder.set_color(png::ColorType::Rgb);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&[128; 64 * 64 * 3]));
    written.expect("writing into memory does not fail");
    Arc::new(Image::new("image/png", bytes, 64, 64, None))
}

/// Longest time that a flag may name: 30 days.
const LONGEST_SECONDS: f64 = 2_592_000.0;

/// The released driver tries three times, its client three times within each (ParaVT cf55249
/// paravt/eval/driver.py `_completion_with_retry`; `max_retries` of openai-python is 2).
fn default_tries(plan: Option<&RunPlan>) -> u32 {
    match plan.map(|plan| plan.profile) {
        Some(Profile::Release | Profile::Paper) => 9,
        Some(Profile::Strict) | None => 3,
    }
}

/// The values of the headers that the settings name, from the environment.
fn header_values(settings: &RequestSettings) -> anyhow::Result<Vec<(String, Secret)>> {
    let value = |(name, variable): (&String, &String)| {
        let value = std::env::var(variable).ok().filter(|value| !value.is_empty());
        let value = value
            .with_context(|| format!("header {name}: the environment variable {variable} is not set"))?;
        Ok((name.clone(), Secret::new(value)))
    };
    settings.header_env.iter().map(value).collect()
}
