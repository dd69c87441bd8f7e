//! A model as a backend: one thread owns the tensors, answers travel through channels.

mod features;
mod memory;
mod prefix;
mod worker;

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use futures::FutureExt as _;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use paravt_suite::backend::{
    Backend, BackendError, BackendInfo, Completion, ErrorClass, FinishReason, Generation, Request, Usage,
};
use paravt_suite::message::Message;

pub use memory::MemoryPlan;

use crate::config::Config;
use crate::error::Error;
use crate::model::Model;
use crate::ops::{Ops, Precision};
use crate::prompt::{Prompt, Prompter};
use crate::sampling::Defaults;
use crate::weights::Weights;

/// How to run a model.
#[derive(Debug, Clone)]
pub struct Options {
    /// Model folder.
    pub folder: PathBuf,
    /// Number type of activations and cache.
    pub precision: Precision,
    /// Bytes that weights and cache may take on the device.
    pub memory: u64,
    /// Most sequences that decode together.
    pub batch: usize,
    /// Whether the engine keeps matrices in the file's type where that is narrower than `precision`.
    pub narrow_weights: bool,
    /// Whether keys and values of prompts before are reused for prompts that begin alike.
    pub reuse: bool,
    /// Whether log-probabilities are of the distribution that is sampled from (divided by the
    /// temperature, as policy gradients need them) and not of the model's own.
    pub tempered_logprobs: bool,
}

/// A loaded model that answers conversations; sequences that are open at the same time decode together.
pub struct Engine {
    prompter: Arc<Prompter>,
    jobs: mpsc::Sender<Job>,
    info: BackendInfo,
    plan: MemoryPlan,
    context: usize,
}

/// One conversation on its way to the worker.
struct Job {
    prompt: Prompt,
    generation: Generation,
    reply: oneshot::Sender<Result<Answer, Error>>,
}

/// What the worker made of it.
struct Answer {
    ids: Vec<u32>,
    logprobs: Option<Vec<f32>>,
    stopped: bool,
    /// When the first token was chosen.
    first: Option<Instant>,
}

impl Engine {
    /// Loads a model. `ops` is made on the thread that will own all tensors.
    ///
    /// # Errors
    /// A file, shape or type that is wrong, or too little memory; the arithmetic is in the message.
    pub fn start<O: Ops>(
        name: &str,
        options: Options,
        ops: impl FnOnce() -> Result<O, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let config = Config::read(&options.folder)?;
        let prompter = Arc::new(Prompter::read(&options.folder, &config)?);
        let defaults = Defaults::read(&options.folder)?;
        let weights = Weights::open(&options.folder)?;
        let plan = MemoryPlan::new(&config, &weights, &options);
        plan.check_weights()?;
        let info = describe(name, &options, &plan);
        let (jobs, queue) = mpsc::channel();
        let (ready, loaded) = mpsc::channel();
        let context = config.text.max_position_embeddings;
        std::thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || {
                let model = ops().and_then(|ops| Model::load(ops, config, &weights));
                drop(weights);
                match model {
                    Ok(model) => {
                        let _ = ready.send(Ok(()));
                        worker::Worker::new(model, defaults, plan.cache_tokens, &options).run(&queue);
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                    }
                }
            })
            .map_err(|error| Error::Compute(format!("no thread for the engine: {error}")))?;
        loaded
            .recv()
            .unwrap_or_else(|_| Err(Error::Compute("the engine stopped while loading".to_owned())))?;
        Ok(Self { prompter, jobs, info, plan, context })
    }

    /// What weights and cache take.
    pub fn memory(&self) -> &MemoryPlan {
        &self.plan
    }

    /// What makes its prompts.
    pub fn prompter(&self) -> &Arc<Prompter> {
        &self.prompter
    }

    /// Makes the prompt of a conversation on a thread of the pool.
    ///
    /// # Errors
    /// As [`Prompter::prompt`].
    pub async fn prepare(&self, messages: &[Message]) -> Result<Prompt, Error> {
        let (reply, prompt) = oneshot::channel();
        let (prompter, messages) = (Arc::clone(&self.prompter), messages.to_vec());
        rayon::spawn(move || {
            let _ = reply.send(prompter.prompt(&messages));
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
        self.plan.check_request(tokens, generation.max_tokens as usize)?;
        let (reply, answer) = oneshot::channel();
        let gone = || Error::Compute("the engine stopped; its thread's last words are on stderr".to_owned());
        self.jobs.send(Job { prompt, generation, reply }).map_err(|_| gone())?;
        let answer = answer.await.unwrap_or_else(|_| Err(gone()))?;
        Ok(Completion {
            text: self.prompter.decode(&answer.ids)?,
            finish_reason: Some(if answer.stopped { FinishReason::Stop } else { FinishReason::Length }),
            usage: Some(Usage { prompt_tokens: tokens as u64, completion_tokens: answer.ids.len() as u64 }),
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
        let prompt = self.prepare(&request.messages).await?;
        self.answer_since(started, prompt, request.generation.clone()).await
    }
}

impl Backend for Engine {
    fn describe(&self) -> BackendInfo {
        self.info.clone()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
        async move { self.converse(request).await.map_err(BackendError::from) }.boxed()
    }
}

impl From<Error> for BackendError {
    fn from(error: Error) -> Self {
        let class = match error {
            Error::Prompt(_) => ErrorClass::BadRequest,
            Error::ContextLength { .. } => ErrorClass::ContextLength,
            _ => ErrorClass::Engine,
        };
        Self { class, message: error.to_string(), tries: 1 }
    }
}

fn describe(name: &str, options: &Options, plan: &MemoryPlan) -> BackendInfo {
    let details = [
        ("dtype", options.precision.as_str().to_owned()),
        ("weights_bytes", plan.weights.to_string()),
        ("cache_tokens", plan.cache_tokens.to_string()),
        ("batch", options.batch.to_string()),
    ];
    BackendInfo {
        name: name.to_owned(),
        model: options.folder.display().to_string(),
        details: details.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    }
}
