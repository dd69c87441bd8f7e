#![forbid(unsafe_code)]
//! Chat completions against any OpenAI-compatible server (vLLM, SGLang, transformers serve, …).
//!
//! Several servers share the work; the turns and questions of a video stay on one of them, which has its frames in its
//! prefix cache. One that fails is set aside and tried again.
//! Failures are retried by class and never become answers.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use paravt_backend_openai::{Config, OpenAi};
//! use paravt_suite::backend::Backend as _;
//!
//! # async fn example() -> Result<(), paravt_suite::backend::BackendError> {
//! let server = OpenAi::connect(Config {
//!     timeout: Duration::from_secs(600),
//!     stream: true,
//!     ..Config::new(["http://localhost:8000/v1"])
//! })
//! .await?;
//! println!("{}", server.describe().model);
//! # Ok(())
//! # }
//! ```

mod about;
mod body;
mod endpoints;
mod errors;
#[cfg(feature = "flags")]
mod flags;
mod limit;
mod models;
mod pace;
mod reply;
mod secret;
mod shown;
mod stream;
mod wire;
mod wordings;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use paravt_hub::http::Client;
use paravt_suite::backend::{Backend, BackendError, BackendInfo, Completion, ErrorClass, Request};
use paravt_suite::plan::RunPlan;
use paravt_suite::settings::RequestSettings;
use paravt_suite::tokens::PromptTokens;
use rand::Rng as _;
use reqwest::Response;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

pub use errors::remedy;
#[cfg(feature = "flags")]
pub use flags::{OpenAiFlags, doctor};
pub use secret::Secret;
pub use shown::VideoProcessor;

use about::About;
use body::Fixed;
use endpoints::{Endpoint, Endpoints};
use errors::Failure;
use limit::Limit;
use models::Listed;
use pace::Pace;
use secret::Secrets;
use shown::Told;
use stream::Stream;

/// Configuration of the client.
#[derive(Debug, Clone)]
pub struct Config {
    /// Base URLs, e.g. `http://localhost:8000/v1`.
    pub base_urls: Vec<String>,
    /// Model name; `None` takes the only one that the server lists.
    pub model: Option<String>,
    /// Sent as a bearer token.
    pub api_key: Option<Secret>,
    /// Time for one request, generation included.
    pub timeout: Duration,
    pub max_tries: u32,
    /// Pause before the second try; the n-th pause is n times this, plus jitter (the reference
    /// driver: 1.5 s, 3 s, …). A server's Retry-After counts where it is longer.
    pub retry_pause: Duration,
    /// Maximum of requests in flight; fewer when the servers push back.
    pub max_requests: usize,
    /// Requests of a minute over all servers.
    pub requests_per_minute: Option<u32>,
    /// Tokens of a minute over all servers, prompts and replies.
    pub tokens_per_minute: Option<u32>,
    /// Maximum size of a reply in bytes.
    pub max_reply: usize,
    /// Ask vLLM for a video's frame count with each request (`media_io_kwargs`).
    pub send_video_frames: bool,
    /// Stream every reply, for the time to its first token.
    pub stream: bool,
    /// How the servers size the frames of a video that is sent as frames.
    pub video_processor: VideoProcessor,
    /// Put calls and reasoning that a server parsed out of a reply back into its text (dialect `auto`). After the first
    /// such reply all replies are streamed: only the parts of a stream keep their white space.
    pub whole_text: bool,
    /// Server settings that every request carries.
    pub settings: RequestSettings,
    /// Values of the headers that the settings name.
    pub headers: Vec<(String, Secret)>,
    /// Somebody restarts the servers: where the only one is gone, no request waits for it.
    pub watched: bool,
}

impl Config {
    /// The defaults of the command for these base URLs: no key, half an hour a request, three tries.
    pub fn new<U: Into<String>>(base_urls: impl IntoIterator<Item = U>) -> Self {
        Self {
            base_urls: base_urls.into_iter().map(Into::into).collect(),
            model: None,
            api_key: None,
            timeout: Duration::from_secs(1800),
            max_tries: 3,
            retry_pause: Duration::from_millis(1500),
            max_requests: 64,
            requests_per_minute: None,
            tokens_per_minute: None,
            max_reply: 8 << 20,
            send_video_frames: false,
            stream: false,
            video_processor: VideoProcessor::default(),
            whole_text: true,
            settings: RequestSettings::default(),
            headers: Vec::new(),
            watched: false,
        }
    }
}

/// The backend.
#[derive(Debug)]
pub struct OpenAi {
    config: Config,
    model: String,
    client: Client,
    endpoints: Endpoints,
    limit: Limit,
    pace: Pace,
    fixed: Fixed,
    secrets: Secrets,
    /// Replies are streamed: the user asks for it, or a server has parsed calls or reasoning out of one.
    streams: AtomicBool,
    /// The token limit goes out as `max_completion_tokens`: a server has asked for that.
    renames_limit: AtomicBool,
    /// What each server says of itself.
    about: Vec<About>,
    /// Whether the user was warned that a prompt may not reach the model whole.
    warned: AtomicBool,
}

/// Time to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Tries of the list of models, which is asked first: who mistyped a URL learns it within seconds, whatever the tries
/// of a request are.
const FIRST_TRIES: u32 = 3;
/// Longest Retry-After that is honoured.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);
/// Characters of a server's reply that a message shows.
const EXCERPT: usize = 300;
/// Bytes that a list of models may have.
const MODELS_BYTES: usize = 4 << 20;

impl OpenAi {
    /// Makes the client and asks the servers for their model where none is named.
    ///
    /// # Errors
    /// A base URL or a header that cannot be used, no server that answers, servers of different models.
    pub async fn connect(config: Config) -> Result<Self, BackendError> {
        let setup = |message: String| BackendError::new(ErrorClass::BadRequest, message, 0);
        let headers = headers(&config).map_err(setup)?;
        let client = Client::new(|builder| {
            let builder = builder.default_headers(headers.clone()).connect_timeout(CONNECT_TIMEOUT);
            builder.timeout(config.timeout)
        })
        .map_err(setup)?;
        let endpoints = Endpoints::new(&config.base_urls).map_err(setup)?;
        let mut secrets = endpoints.credentials();
        secrets.extend(config.api_key.iter().map(|key| key.expose().to_owned()));
        secrets.extend(config.headers.iter().map(|(_, value)| value.expose().to_owned()));
        let mut backend = Self {
            model: config.model.clone().unwrap_or_default(),
            client,
            endpoints,
            limit: Limit::new(config.max_requests),
            pace: Pace::new(config.requests_per_minute, config.tokens_per_minute),
            fixed: Fixed {
                send_video_frames: config.send_video_frames,
                video_backend: None,
                chat_template_kwargs: config.settings.chat_template_kwargs.clone(),
                extra: config.settings.extra_body.clone(),
                names: config.settings.body_fields.clone(),
            },
            secrets: Secrets::new(secrets),
            streams: AtomicBool::new(config.stream),
            renames_limit: AtomicBool::new(false),
            about: Vec::new(),
            warned: AtomicBool::new(false),
            config,
        };
        backend.model = backend.agreed_model().await?;
        let all = backend.endpoints.all().iter();
        let asked =
            all.map(|endpoint| About::ask(&backend.client, endpoint, &backend.model, &backend.secrets));
        backend.about = futures::future::join_all(asked).await;
        // Versions that do not need it take it, too.
        backend.fixed.video_backend = backend.about.iter().find_map(About::video_backend);
        if let Some(about) = backend.about.iter().find(|about| !about.others.is_empty()) {
            let (model, others) = (&backend.model, about.others.join(", "));
            tracing::warn!(
                model,
                "the server does not list this model, but {others}: one that ignores the name answers with another model"
            );
        }
        Ok(backend)
    }

    /// The model that is named, or the one that every server lists.
    async fn agreed_model(&self) -> Result<String, BackendError> {
        match &self.config.model {
            Some(model) if self.endpoints.all().len() == 1 => Ok(model.clone()),
            // Not every server has a list: those that have one must agree.
            Some(model) => {
                let asked = self.ask_all().await;
                let listed = |models: &Listed| models.names.contains(model);
                let with_list =
                    || asked.iter().filter_map(|(endpoint, models)| Some((endpoint, models.as_ref().ok()?)));
                if with_list().any(|(_, models)| listed(models))
                    && let Some((endpoint, models)) = with_list().find(|(_, models)| !listed(models))
                {
                    let others = models.names.join(", ");
                    return Err(differing(format!(
                        "{} does not list the model {model}, which another server does; it lists {others}",
                        endpoint.name
                    )));
                }
                Ok(model.clone())
            }
            None => self.only_model().await,
        }
    }

    /// The model of the servers that answer. One that does not is asked before it gets work.
    async fn only_model(&self) -> Result<String, BackendError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut found: Vec<(Arc<Endpoint>, Listed)> = Vec::new();
            let mut failed: Option<(Arc<Endpoint>, Failure)> = None;
            for (endpoint, models) in self.ask_all().await {
                match models {
                    Ok(models) => found.push((endpoint, models)),
                    Err(failure) => {
                        endpoint.failed();
                        // A failure that may pass is a reason to ask again.
                        if failed.as_ref().is_none_or(|(_, other)| !other.retryable()) {
                            failed = Some((endpoint, failure));
                        }
                    }
                }
            }
            if let Some((endpoint, several)) = found.iter().find(|(_, models)| !models.is_one) {
                return Err(BackendError::new(ErrorClass::BadRequest, several_models(endpoint, several), 0));
            }
            if let Some((first, models)) = found.first() {
                let model = &models.names[0];
                let other = found.iter().map(|(other, theirs)| (other, &theirs.names[0]));
                if let Some((other, theirs)) = other.into_iter().find(|(_, theirs)| *theirs != model) {
                    return Err(differing(format!(
                        "{} serves {model} and {} serves {theirs}",
                        first.name, other.name
                    )));
                }
                found.iter().for_each(|(endpoint, _)| endpoint.checked.store(true, Ordering::Relaxed));
                return Ok(model.clone());
            }
            let Some((endpoint, mut failure)) = failed else {
                return Err(differing("no server was asked".to_owned()));
            };
            if tries >= self.config.max_tries.min(FIRST_TRIES) || !failure.retryable() {
                // A server that answers may still serve a model that it cannot list.
                if matches!(
                    failure.class,
                    ErrorClass::Server | ErrorClass::BadRequest | ErrorClass::Malformed
                ) {
                    failure.message +=
                        "; it gives no list of models (GET /v1/models): name the model with --model";
                }
                return Err(self.error(&endpoint, failure, tries));
            }
            let error = self.secrets.redact(&format!("{}: {}", endpoint.name, failure.message));
            tracing::warn!(error, "the list of models failed, trying again");
            self.pause(tries, &failure).await;
        }
    }

    async fn ask_all(&self) -> Vec<(Arc<Endpoint>, Result<Listed, Failure>)> {
        let asked = self.endpoints.all().iter().map(|endpoint| async move {
            let models = self.ask_models(endpoint).await;
            (Arc::clone(endpoint), models)
        });
        futures::future::join_all(asked).await
    }

    async fn ask_models(&self, endpoint: &Endpoint) -> Result<Listed, Failure> {
        let request = self.client.get(format!("{}/models", endpoint.base)).timeout(CONNECT_TIMEOUT);
        let response = request.send().await.map_err(|error| Failure::transport(&error))?;
        let body = errors::successful_body(response, MODELS_BYTES, &self.secrets).await?;
        let models = models::read(&body, &self.secrets)?;
        let _ = endpoint.listed.set(serde_json::from_slice(&body).unwrap_or_default());
        Ok(models)
    }

    /// Asks a server that did not answer when the run began for its model, before it gets requests.
    async fn check_model(&self, endpoint: &Endpoint) -> Result<(), Failure> {
        if self.config.model.is_some() || endpoint.checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        let models = self.ask_models(endpoint).await?;
        if !models.names.contains(&self.model) {
            let message = format!("it serves {}, not {}", models.names[0], self.model);
            return Err(Failure::final_refusal(message));
        }
        endpoint.checked.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Checks, once for each server, that it shows the model as many frames of a video as planned.
    async fn check_frames(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        body: &Bytes,
    ) -> Result<(), Failure> {
        // Only vLLM samples videos itself and says which tokens a prompt has.
        let mut all = self.endpoints.all().iter().zip(&self.about);
        let about = all.find(|(other, about)| std::ptr::eq(&***other, endpoint) && about.version.is_some());
        let Some((_, about)) = about.filter(|_| !endpoint.frames.initialized()) else {
            return endpoint.frames.get().map_or(Ok(()), |checked| checked.clone().map_err(wrong_frames));
        };
        let Some(planned) = shown::telling(request).await else { return Ok(()) };
        let checked = endpoint.frames.get_or_try_init(|| async {
            let probe = shown::probe(body).ok_or_else(|| Failure::final_refusal("the request is not JSON"))?;
            let reply = self.post(format!("{}/chat/completions", endpoint.base), probe.into()).await?;
            let ids = json!({"model": self.model, "prompt": shown::PLACEHOLDER, "add_special_tokens": false});
            let ids = self.post(format!("{}/tokenize", endpoint.root()), ids.to_string().into()).await;
            let read = |body: Vec<u8>| serde_json::from_slice::<Value>(&body).unwrap_or_default();
            let (reply, ids) = (read(reply), ids.map(read).unwrap_or_default());
            let shown = match ids["tokens"].as_array().map(Vec::as_slice) {
                Some([placeholder]) => shown::read_prompt(&reply["prompt_token_ids"], placeholder),
                _ => None,
            };
            let (processor, loader) = (&self.config.video_processor, about.video_backend());
            let told = shown.map_or(Told::Nothing, |shown| shown::compare(&planned, shown, processor, loader));
            Ok::<_, Failure>(match told {
                Told::AsPlanned => Ok(()),
                Told::Otherwise(why) => Err(why),
                Told::Nothing => {
                    tracing::warn!(
                        server = endpoint.name,
                        "the prompt's tokens do not tell how many frames of a video the model sees: {} are planned",
                        planned.frames
                    );
                    Ok(())
                }
            })
        });
        checked.await?.clone().map_err(wrong_frames)
    }

    async fn post(&self, url: String, body: Bytes) -> Result<Vec<u8>, Failure> {
        let response = self.send(url, body).await?;
        errors::successful_body(response, self.config.max_reply, &self.secrets).await
    }

    async fn send(&self, url: String, body: Bytes) -> Result<Response, Failure> {
        let request = self.client.post(url).header(CONTENT_TYPE, "application/json");
        request.body(body).send().await.map_err(|error| Failure::transport(&error))
    }

    /// One try; `started` is the start of the first one.
    async fn try_once(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        body: &Bytes,
        started: Instant,
    ) -> Result<Completion, Failure> {
        self.check_model(endpoint).await?;
        self.check_frames(endpoint, request, body).await?;
        let response = self.send(format!("{}/chat/completions", endpoint.base), body.clone()).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let mut stream = Stream::new(kind.is_some_and(|kind| kind.starts_with("text/event-stream")));
        let mut first_token = None;
        let watch = |body: &[u8]| {
            let done = stream.read(body, &self.secrets)?;
            if first_token.is_none() && stream.has_token() {
                first_token = Some(started.elapsed());
            }
            Ok(done)
        };
        let body = errors::watched_body(response, self.config.max_reply, &self.secrets, watch).await?;
        let reply = match stream.finish(&body, &self.secrets)? {
            Some(reply) => reply,
            None => reply::read(&body, &self.secrets)?,
        };
        let completion = match reply::completion(reply, request.generation.max_tokens, &self.secrets) {
            Err(Failure { reply: Some(reply), .. }) if self.config.whole_text && reply.is_only_thoughts() => {
                *reply
            }
            other => other?,
        };
        Ok(Completion { first_token, ..completion })
    }

    /// Whether calls or reasoning were parsed out of a reply, so that streaming would preserve its text.
    fn wants_stream(&self, request: &Request, completion: &Completion) -> bool {
        let apart = completion.reasoning.is_some() || !completion.tool_calls.is_empty();
        apart && self.config.whole_text && request.tools.is_none()
    }

    async fn answer(&self, request: &Request) -> Result<Completion, BackendError> {
        let other = self.about.iter().find_map(About::ignores_templates);
        if let Some(program) = other.filter(|_| request.chat_template.is_some()) {
            let message = format!(
                "{program} takes no chat template with a request, which this protocol needs: serve the model with vLLM and \
                 --trust-request-chat-template"
            );
            return Err(BackendError::new(ErrorClass::BadRequest, message, 1));
        }
        let mut first_try = None;
        let build = |streams, renames: bool| {
            let [limit, other] = body::LIMIT.map(str::to_owned);
            let mut fixed = Cow::Borrowed(&self.fixed);
            if renames {
                fixed.to_mut().names.insert(limit, other);
            }
            Bytes::from(body::build(&self.model, request, &fixed, streams))
        };
        let mut streams = self.streams.load(Ordering::Relaxed);
        let mut renames = self.renames_limit.load(Ordering::Relaxed);
        let mut body = build(streams, renames);
        let forecast = if self.pace.counts_tokens() {
            PromptTokens::of(request).total() + u64::from(request.generation.max_tokens)
        } else {
            0
        };
        let mut tries = 0;
        let mut just_failed = None;
        let mut refused: Vec<Arc<Endpoint>> = Vec::new();
        loop {
            let permit = self.limit.acquire().await;
            self.pace.admit(forecast).await;
            // These waits are the client's own.
            let started = *first_try.get_or_insert_with(Instant::now);
            let (endpoint, seat) = self.endpoints.open(request, just_failed.as_ref(), &refused);
            let outcome = self.try_once(&endpoint, request, &body, started).await;
            drop(seat);
            tries += 1;
            permit.finished(outcome.as_ref().err().is_some_and(Failure::is_pushback));
            match outcome {
                Ok(mut completion) => {
                    endpoint.succeeded();
                    if let Some(usage) = completion.usage {
                        self.pace.counted(forecast, usage.prompt_tokens + usage.completion_tokens);
                    }
                    // One server answers what others refused: these are at fault, not the request.
                    refused.iter().for_each(|other| other.failed());
                    if !streams && self.wants_stream(request, &completion) {
                        self.streams.store(true, Ordering::Relaxed);
                        streams = true;
                        body = build(streams, renames);
                        (tries, first_try) = (0, None);
                        continue;
                    }
                    self.check_prompt(&endpoint, request, &mut completion);
                    completion.retries = tries - 1;
                    completion.latency = started.elapsed();
                    tracing::debug!(
                        server = endpoint.name,
                        step = %request.id.step,
                        seconds = completion.latency.as_secs_f64(),
                        finish = ?completion.finish_reason,
                        "model call answered"
                    );
                    return Ok(completion);
                }
                Err(failure) => {
                    let mut failure = failure.with_videos(request.videos());
                    failure.is_final |= self.config.watched && self.is_alone() && failure.is_unreachable;
                    if failure.blames_server() {
                        endpoint.failed();
                    }
                    if !renames && self.wants_other_limit(&failure) {
                        renames = true;
                        body = build(streams, renames);
                        tries -= 1;
                        continue;
                    }
                    if failure.is_refusal() && refused.len() + 1 < self.endpoints.all().len() {
                        refused.push(endpoint);
                        continue;
                    }
                    if tries >= self.config.max_tries.min(failure.max_tries()) {
                        if let Some(reply) = &mut failure.reply {
                            (reply.retries, reply.latency) = (tries - 1, started.elapsed());
                        }
                        return Err(self.error(&endpoint, failure, tries));
                    }
                    tracing::info!(
                        server = endpoint.name,
                        tries,
                        class = ?failure.class,
                        error = self.secrets.redact(&failure.message),
                        "model call failed; trying again"
                    );
                    self.pause(tries, &failure).await;
                    just_failed = Some(endpoint);
                }
            }
        }
    }

    /// Whether a server rejects the parameter `max_tokens` in favour of `max_completion_tokens`. The first time is logged as
    /// a warning.
    fn wants_other_limit(&self, failure: &Failure) -> bool {
        let [limit, other] = body::LIMIT;
        let wants = failure.class == ErrorClass::BadRequest
            && failure.said.contains(other)
            && failure.said.replace(other, "").contains(limit)
            && !self.fixed.names.contains_key(limit);
        if wants && !self.renames_limit.swap(true, Ordering::Relaxed) {
            tracing::warn!("the server takes no {limit}: the limit of tokens is sent as {other}");
        }
        wants
    }

    fn is_alone(&self) -> bool {
        self.endpoints.all().len() == 1
    }

    /// Notes where a server counts less than half of the tokens that a request has by the forecast, and warns once: it
    /// may have cut the prompt without an error (Ollama, LM Studio), or show no images.
    fn check_prompt(&self, endpoint: &Endpoint, request: &Request, completion: &mut Completion) {
        let Some(short) = shown::short_prompt(request, completion) else { return };
        let forecast = short.forecast.total();
        if !short.is_text_alone() {
            completion.forecast = Some(forecast);
        }
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(server = endpoint.name, "{short}");
        }
    }

    /// Waits before the next try.
    async fn pause(&self, tries: u32, failure: &Failure) {
        let jitter = rand::rng().random_range(0.0..1.0 / 3.0);
        let own = self.config.retry_pause.as_secs_f64() * (f64::from(tries) + jitter);
        let own = Duration::try_from_secs_f64(own).unwrap_or(Duration::MAX);
        let asked = failure.retry_after.unwrap_or_default().min(LONGEST_PAUSE);
        tokio::time::sleep(own.max(asked)).await;
    }

    /// The failure with its server, without any key that a server may echo.
    fn error(&self, endpoint: &Endpoint, failure: Failure, tries: u32) -> BackendError {
        let message = self.secrets.redact(&format!("{}: {}", endpoint.name, failure.message));
        BackendError { reply: failure.reply, ..BackendError::new(failure.class, message, tries) }
    }
}

/// Every call would see the same: the run ends.
fn wrong_frames(message: String) -> Failure {
    Failure { is_final: true, ..Failure::new(ErrorClass::Server, message) }
}

/// Models that a message names.
const NAMED: usize = 20;

fn several_models(endpoint: &Endpoint, models: &Listed) -> String {
    let names = models.names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if models.names.len() > NAMED { ", …" } else { "" };
    format!("{} lists several models: name the one to ask with --model: {names}{more}", endpoint.name)
}

/// Servers that may not share a run.
fn differing(message: String) -> BackendError {
    let message = format!("{message}: servers of one run must serve one model; name it with --model");
    BackendError::new(ErrorClass::BadRequest, message, 0)
}

/// The key and the headers that the settings name, none of them printable.
fn headers(config: &Config) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let secret = |value: &str, whose: &str| {
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| format!("{whose} holds characters that no header can carry"))?;
        value.set_sensitive(true);
        Ok::<_, String>(value)
    };
    if let Some(key) = &config.api_key {
        headers.insert(AUTHORIZATION, secret(&format!("Bearer {}", key.expose()), "the API key")?);
    }
    for (name, value) in &config.headers {
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("header `{name}`: letters, digits and `-` make a header's name"))?;
        headers.insert(parsed, secret(value.expose(), &format!("the value of header {name}"))?);
    }
    Ok(headers)
}

impl Backend for OpenAi {
    fn describe(&self) -> BackendInfo {
        let mut details = BTreeMap::from([
            ("base_urls".to_owned(), self.endpoints.names().join(" ")),
            ("max_tries".to_owned(), self.config.max_tries.to_string()),
            ("timeout_seconds".to_owned(), self.config.timeout.as_secs_f64().to_string()),
            ("send_video_frames".to_owned(), self.config.send_video_frames.to_string()),
        ]);
        let mut put = |name: &str, said: BTreeSet<String>| {
            if !said.is_empty() {
                details.insert(name.to_owned(), said.into_iter().collect::<Vec<_>>().join("; "));
            }
        };
        put("servers", self.about.iter().filter_map(About::line).collect());
        put("server_version", self.about.iter().filter_map(|about| about.program.clone()).collect());
        BackendInfo { name: "openai".to_owned(), model: self.model.clone(), details }
    }

    fn accepts(&self, plan: &RunPlan) -> Result<(), String> {
        let refuses = |about: &About| about.refuses(plan, self.config.send_video_frames);
        self.about.iter().find_map(refuses).map_or(Ok(()), Err)
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
        self.answer(request).boxed()
    }
}
