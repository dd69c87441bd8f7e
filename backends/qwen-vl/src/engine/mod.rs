//! A model as a backend: one thread owns the tensors, answers travel through channels.

mod features;
mod memory;
mod prefix;
mod prefix_cache;
mod sequence;
mod worker;

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use futures::FutureExt as _;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use paravt_suite::backend::{
    Backend, BackendError, BackendInfo, Completion, ErrorClass, FinishReason, Generation, Memory, Request,
    StoppedBy, Usage,
};
use paravt_suite::message::Message;

pub use memory::MemoryPlan;
use memory::Taken;

use crate::config::{Config, Family};
use crate::error::Error;
use crate::files;
use crate::model::Model;
use crate::ops::{Ops, PassLimits, Precision};
use crate::positions::{Grid, VideoRule};
use crate::prompt::{Prompt, Prompter};
use crate::sampling::Defaults;
use crate::weights::Weights;
use prefix::History;

/// Options of an engine.
#[derive(Debug, Clone)]
pub struct Options {
    pub folder: PathBuf,
    /// Name of the model in records, not a path of the machine.
    pub name: String,
    /// Kind of device that it computes on, for records: `cpu` or `cuda`.
    pub device: String,
    /// Number type of activations and cache.
    pub precision: Precision,
    /// Bytes that weights, caches and passes may take on the device.
    pub memory: u64,
    /// Maxima of a pass, of which the engine takes as much as memory allows.
    pub pass: PassLimits,
    /// Maximum number of sequences that decode together.
    pub batch: usize,
    /// Whether the engine keeps matrices in the file's type where that is narrower than `precision`.
    pub narrow_weights: bool,
    /// Whether a GPU computes by candle's own kernels alone.
    pub candle_kernels: bool,
    /// Whether keys and values of prompts before are reused for prompts that begin alike.
    pub reuse: bool,
    /// Batch-invariant: whether an answer depends, to the bit, on its own prompt and request alone. Engines then set
    /// `reuse` and `batch` so that it holds.
    pub deterministic: bool,
    /// Whether what a request leaves open is the model's whole distribution, and not what `generation_config.json`
    /// says.
    pub neutral_sampling: bool,
    /// How videos stand in prompts.
    pub video_rule: VideoRule,
    /// Whether log-probabilities are of the distribution that is sampled from (divided by the
    /// temperature, as policy gradients need them) and not of the model's own.
    pub tempered_logprobs: bool,
    /// Bytes per second of the device's memory, and operations per second of its matrix units, where they are known.
    pub rates: [Option<u64>; 2],
}

impl Options {
    /// f32, batches of eight, no memory limit, prefix reuse; named after the folder.
    pub fn new(folder: PathBuf) -> Self {
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        Self {
            name: whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            folder,
            device: "cpu".to_owned(),
            precision: Precision::F32,
            memory: u64::MAX,
            pass: PassLimits::CPU,
            batch: 8,
            narrow_weights: false,
            candle_kernels: false,
            reuse: true,
            deterministic: false,
            neutral_sampling: false,
            video_rule: VideoRule::default(),
            tempered_logprobs: false,
            rates: [None; 2],
        }
    }
}

/// A loaded model that answers conversations; sequences that are open at the same time decode together. Dropping it
/// waits for its thread, so that its memory is free afterwards.
pub struct Engine {
    prompter: Arc<Prompter>,
    /// `None` while it is dropped.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    info: BackendInfo,
    plan: MemoryPlan,
    taken: Arc<Taken>,
    context: usize,
}

/// One conversation on its way to the worker.
struct Job {
    prompt: Prompt,
    /// Tokens and media of the prompt.
    history: History,
    generation: Generation,
    reply: oneshot::Sender<Result<Answer, Error>>,
}

impl Job {
    fn new(prompt: Prompt, generation: Generation, reply: oneshot::Sender<Result<Answer, Error>>) -> Self {
        Self { history: History::of(&prompt), prompt, generation, reply }
    }

    /// Maximum length in tokens, prompt and answer.
    fn end(&self) -> usize {
        self.prompt.ids.len() + self.generation.max_tokens as usize
    }
}

/// Answer of the worker.
struct Answer {
    ids: Vec<u32>,
    logprobs: Option<Vec<f32>>,
    stopped: bool,
    /// When the first token was chosen.
    first: Option<Instant>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Without senders the worker ends, after the step that it is in.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Engine {
    /// Loads a model. `ops` is made on the thread that will own all tensors, for passes within the given limits.
    ///
    /// # Errors
    /// A file, shape or type that is wrong, or too little memory; the arithmetic is in the message.
    pub fn start<O: Ops>(
        name: &str,
        options: Options,
        ops: impl FnOnce(PassLimits) -> Result<O, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let mut config = Config::read(&options.folder)?;
        config.video_rule = options.video_rule;
        let prompter = Arc::new(Prompter::read(&options.folder, &config)?);
        let mut defaults = Defaults::read(&options.folder)?;
        if options.neutral_sampling {
            defaults = defaults.neutral();
        }
        let weights = Weights::open(&options.folder)?;
        let plan = MemoryPlan::new(&config, &weights, &options);
        plan.check_weights()?;
        let mut info = describe(name, &config, &options, &defaults, &plan);
        info.details.insert("files_sha256".to_owned(), files::digest(&options.folder)?);
        info.details.extend(
            paravt_hub::checkpoint::commit(&options.folder)
                .map(|commit| ("weights_commit".to_owned(), commit)),
        );
        let (jobs, queue) = mpsc::channel();
        let (ready, loaded) = mpsc::channel();
        let context = config.text.max_position_embeddings;
        let taken = Arc::new(Taken::default());
        let (room, counts) = (Arc::clone(&prompter), Arc::clone(&taken));
        let thread = std::thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || {
                let model = ops(plan.pass).and_then(|ops| Model::load(ops, config, &weights));
                let digest = weights.digest();
                drop(weights);
                match model {
                    Ok(model) => {
                        let _ = ready.send(Ok(digest));
                        worker::Worker::new(model, room, defaults, (&plan, counts), &options).run(&queue);
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                    }
                }
            })
            .map_err(|error| Error::Compute(format!("cannot start the engine's thread: {error}")))?;
        let panicked = || Err(Error::Compute("engine thread panicked while loading; see stderr".to_owned()));
        let digest = loaded.recv().unwrap_or_else(|_| panicked())?;
        info.details.insert("weights_sha256".to_owned(), digest);
        Ok(Self { prompter, jobs: Some(jobs), thread: Some(thread), info, plan, taken, context })
    }

    /// Memory of weights, caches and passes.
    pub fn plan(&self) -> &MemoryPlan {
        &self.plan
    }

    /// Chat template, tokenizer and processor.
    pub fn prompter(&self) -> &Arc<Prompter> {
        &self.prompter
    }

    /// Makes the prompt of a conversation on a thread of the pool.
    ///
    /// # Errors
    /// As [`Prompter::prompt`].
    pub async fn prepare(&self, messages: &[Message]) -> Result<Prompt, Error> {
        self.prepare_by(None, messages).await
    }

    /// As [`Self::prepare`], with the tokens of a turn before kept as they were generated wherever the template keeps
    /// their text.
    ///
    /// # Errors
    /// As [`Prompter::prompt`].
    pub async fn prepare_after(
        &self,
        before: (Prompt, Vec<u32>),
        messages: &[Message],
    ) -> Result<Prompt, Error> {
        let messages = messages.to_vec();
        let make = move |prompter: &Prompter| match prompter.prompt_after(&before.0, &before.1, &messages)? {
            Some(prompt) => Ok(prompt),
            None => prompter.prompt(&messages),
        };
        self.on_pool(make).await
    }

    async fn prepare_by(&self, template: Option<Arc<str>>, messages: &[Message]) -> Result<Prompt, Error> {
        let messages = messages.to_vec();
        self.on_pool(move |prompter| prompter.prompt_by(template.as_deref(), &messages)).await
    }

    async fn on_pool(
        &self,
        make: impl FnOnce(&Prompter) -> Result<Prompt, Error> + Send + 'static,
    ) -> Result<Prompt, Error> {
        let (reply, prompt) = oneshot::channel();
        let prompter = Arc::clone(&self.prompter);
        rayon::spawn(move || {
            let _ = reply.send(make(&prompter));
        });
        prompt.await.unwrap_or_else(|_| Err(Error::Prompt("the prompt could not be made".to_owned())))
    }

    /// Answers a prompt.
    ///
    /// # Errors
    /// It does not fit into context or memory, or the arithmetic fails.
    pub async fn answer(&self, prompt: Prompt, generation: Generation) -> Result<Completion, Error> {
        self.answer_since(Instant::now(), prompt, generation).await
    }

    async fn answer_since(
        &self,
        started: Instant,
        prompt: Prompt,
        mut generation: Generation,
    ) -> Result<Completion, Error> {
        let tokens = prompt.ids.len();
        // An answer ends where the context does; the prompt and one token must fit.
        if tokens >= self.context {
            let new = generation.max_tokens as usize;
            return Err(Error::ContextLength { prompt: tokens, new, context: self.context });
        }
        generation.max_tokens = generation.max_tokens.min((self.context - tokens) as u32);
        let frames = prompt.media.iter().map(|medium| medium.patches.grid);
        let frame = frames.map(|grid| Grid { t: 1, ..grid }.patches()).max().unwrap_or_default();
        self.plan.check_request(tokens, generation.max_tokens as usize, frame)?;
        self.taken.activations(self.plan.activations_with(frame));
        let (reply, answer) = oneshot::channel();
        let gone = || Error::Compute("engine thread panicked; see stderr".to_owned());
        let stop = generation.sampling.stop.clone();
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(Job::new(prompt, generation, reply)).map_err(|_| gone())?;
        let answer = answer.await.unwrap_or_else(|_| Err(gone()))?;
        let mut text = self.prompter.decode(&answer.ids)?;
        // The answer ends before the stop text; the rest of its last token is cut as well.
        let found = stop.iter().filter_map(|stop| Some((text.find(stop.as_str())?, stop))).min();
        if let Some((end, _)) = found {
            text.truncate(end);
        }
        Ok(Completion {
            text,
            finish_reason: Some(if answer.stopped { FinishReason::Stop } else { FinishReason::Length }),
            stopped_by: found.map_or(StoppedBy::Model, |(_, stop)| StoppedBy::Text(stop.clone())),
            usage: Some(Usage {
                prompt_tokens: tokens as u64,
                completion_tokens: answer.ids.len() as u64,
                reasoning_tokens: None,
            }),
            token_ids: Some(answer.ids),
            logprobs: answer.logprobs,
            retries: 0,
            latency: started.elapsed(),
            first_token: answer.first.map(|first| first - started),
            ..Completion::default()
        })
    }

    async fn converse(&self, request: &Request) -> Result<Completion, Error> {
        let started = Instant::now();
        let prompt = self.prepare_by(request.chat_template.clone(), &request.messages).await?;
        self.answer_since(started, prompt, request.generation.clone()).await
    }
}

impl Backend for Engine {
    fn describe(&self) -> BackendInfo {
        self.info.clone()
    }

    fn memory(&self) -> Option<Memory> {
        Some(self.taken.report(&self.plan))
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
        async move { self.converse(request).await.map_err(BackendError::from) }.boxed()
    }
}

impl From<Error> for BackendError {
    fn from(error: Error) -> Self {
        let class = match error {
            Error::Prompt(_) => ErrorClass::BadRequest,
            Error::ContextLength { .. } | Error::TextLength { .. } => ErrorClass::ContextLength,
            _ => ErrorClass::Engine,
        };
        Self::new(class, error.to_string(), 1)
    }
}

/// Settings that can change an answer, machine aside.
fn describe(
    engine: &str,
    config: &Config,
    options: &Options,
    defaults: &Defaults,
    plan: &MemoryPlan,
) -> BackendInfo {
    let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
    let mut details = vec![
        ("batch", options.batch.to_string()),
        ("deterministic", switch(options.deterministic)),
        ("device", options.device.clone()),
        ("dtype", options.precision.as_str().to_owned()),
        ("generation_defaults", defaults.to_string()),
        ("prefix_reuse", switch(options.reuse)),
        ("weights_bytes", plan.weights.to_string()),
    ];
    for (name, rate) in ["gpu_bandwidth", "gpu_matrix_rate"].into_iter().zip(options.rates) {
        details.extend(rate.map(|rate| (name, rate.to_string())));
    }
    if options.candle_kernels {
        details.push(("kernels", "candle".to_owned()));
    }
    match (config.family, options.video_rule) {
        (Family::Qwen25, rule) => details.push(("positions", rule.as_str().to_owned())),
        // Recorded where it is not the default: most runs send frames as images, to which it means nothing.
        (Family::Qwen3, VideoRule::Vllm) => {}
        (Family::Qwen3, rule) => details.push(("video_rule", rule.as_str().to_owned())),
    }
    BackendInfo {
        name: engine.to_owned(),
        model: options.name.clone(),
        details: details.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    }
}
