#![forbid(unsafe_code)]
//! Chat completions against any OpenAI-compatible server (vLLM, SGLang, transformers serve, …).
//!
//! Several servers share the work, least busy first; one that fails is set aside and tried again.
//! Failures are retried by class and never become answers.

mod body;
mod endpoints;
mod errors;
mod limit;
mod reply;
mod secret;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use paravt_suite::backend::{Backend, BackendError, BackendInfo, Completion, ErrorClass, Request};
use rand::Rng as _;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};

pub use secret::Secret;

use endpoints::{Endpoint, Endpoints};
use errors::Failure;
use limit::Limit;

/// How to reach a model.
#[derive(Debug, Clone)]
pub struct Config {
    /// Base URLs, e.g. `http://localhost:8000/v1`.
    pub base_urls: Vec<String>,
    /// Model name; `None` takes the first that the server lists.
    pub model: Option<String>,
    /// Sent as a bearer token.
    pub api_key: Option<Secret>,
    /// Time for one request, generation included.
    pub timeout: Duration,
    /// Tries of one request.
    pub max_tries: u32,
    /// Pause before the second try; the n-th pause is n times this, plus jitter (the reference
    /// driver: 1.5 s, 3 s, …). A server's Retry-After counts where it is longer.
    pub retry_pause: Duration,
    /// Most requests in flight; fewer when the servers push back.
    pub max_requests: usize,
    /// Ask vLLM for a video's frame count with each request (`media_io_kwargs`).
    pub send_video_frames: bool,
}

/// The backend.
#[derive(Debug)]
pub struct OpenAi {
    config: Config,
    model: String,
    client: reqwest::Client,
    endpoints: Endpoints,
    limit: Limit,
}

/// Time to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest Retry-After that is honoured.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);
/// Characters of a server's reply that a message shows.
const EXCERPT: usize = 300;

impl OpenAi {
    /// Makes the client and asks a server for its model where none is named.
    ///
    /// # Errors
    /// A base URL that is none, a key that is no header, no server that answers.
    pub async fn connect(config: Config) -> Result<Self, BackendError> {
        let setup = |message: String| BackendError { class: ErrorClass::BadRequest, message, tries: 0 };
        // Only one provider is compiled in; a second call finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        if let Some(key) = &config.api_key {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
                .map_err(|_| setup("the API key holds characters that no header can carry".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let client = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(config.timeout)
            .build()
            .map_err(|error| setup(format!("no HTTP client: {error}")))?;
        let endpoints = Endpoints::new(&config.base_urls).map_err(setup)?;
        let limit = Limit::new(config.max_requests);
        let mut backend = Self { model: String::new(), client, endpoints, limit, config };
        backend.model = match backend.config.model.clone() {
            Some(model) => model,
            None => backend.first_model().await?,
        };
        Ok(backend)
    }

    /// The first model that a server lists; every server is asked until one answers.
    async fn first_model(&self) -> Result<String, BackendError> {
        let mut tries = 0;
        let mut just_failed = None;
        loop {
            let endpoint = self.endpoints.pick(just_failed.as_ref());
            tries += 1;
            match self.ask_models(&endpoint).await {
                Ok(model) => return Ok(model),
                Err(failure) if tries >= self.config.max_tries || !failure.retryable() => {
                    return Err(self.error(&endpoint, failure, tries));
                }
                Err(failure) => {
                    endpoint.failed();
                    self.pause(tries, &failure).await;
                    just_failed = Some(endpoint);
                }
            }
        }
    }

    async fn ask_models(&self, endpoint: &Endpoint) -> Result<String, Failure> {
        let request = self.client.get(format!("{}/models", endpoint.base)).timeout(CONNECT_TIMEOUT);
        let response = request.send().await.map_err(|error| Failure::transport(&error))?;
        let body = errors::successful_body(response).await?;
        reply::first_model(&body)
    }

    async fn try_once(&self, endpoint: &Endpoint, body: &Bytes) -> Result<Completion, Failure> {
        let response = self
            .client
            .post(format!("{}/chat/completions", endpoint.base))
            .header(CONTENT_TYPE, "application/json")
            .body(body.clone())
            .send()
            .await
            .map_err(|error| Failure::transport(&error))?;
        let body = errors::successful_body(response).await?;
        reply::completion(&body)
    }

    async fn answer(&self, request: &Request) -> Result<Completion, BackendError> {
        let started = Instant::now();
        let body = Bytes::from(body::build(&self.model, request, self.config.send_video_frames));
        let mut tries = 0;
        let mut just_failed = None;
        loop {
            let permit = self.limit.acquire().await;
            let endpoint = self.endpoints.pick(just_failed.as_ref());
            let outcome = {
                let _busy = endpoint.busy();
                self.try_once(&endpoint, &body).await
            };
            tries += 1;
            permit.finished(outcome.as_ref().err().is_some_and(Failure::is_pushback));
            match outcome {
                Ok(mut completion) => {
                    endpoint.succeeded();
                    completion.retries = tries - 1;
                    completion.latency = started.elapsed();
                    return Ok(completion);
                }
                Err(failure) => {
                    if failure.blames_server() {
                        endpoint.failed();
                    }
                    if tries >= self.config.max_tries || !failure.retryable() {
                        return Err(self.error(&endpoint, failure, tries));
                    }
                    self.pause(tries, &failure).await;
                    just_failed = Some(endpoint);
                }
            }
        }
    }

    /// Waits before the next try.
    async fn pause(&self, tries: u32, failure: &Failure) {
        let jitter = rand::rng().random_range(0.0..1.0 / 3.0);
        let own = self.config.retry_pause.mul_f64(f64::from(tries) + jitter);
        let asked = failure.retry_after.unwrap_or_default().min(LONGEST_PAUSE);
        tokio::time::sleep(own.max(asked)).await;
    }

    /// The failure for people, without the key should a server echo it.
    fn error(&self, endpoint: &Endpoint, failure: Failure, tries: u32) -> BackendError {
        let mut message = format!("{}: {}", endpoint.base, failure.message);
        if let Some(key) = &self.config.api_key {
            message = key.redact(&message);
        }
        BackendError { class: failure.class, message, tries }
    }
}

impl Backend for OpenAi {
    fn describe(&self) -> BackendInfo {
        BackendInfo {
            name: "openai".to_owned(),
            model: self.model.clone(),
            details: BTreeMap::from([
                ("base_urls".to_owned(), self.endpoints.names().join(" ")),
                ("max_tries".to_owned(), self.config.max_tries.to_string()),
                ("timeout_seconds".to_owned(), self.config.timeout.as_secs_f64().to_string()),
                ("send_video_frames".to_owned(), self.config.send_video_frames.to_string()),
            ]),
        }
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>> {
        self.answer(request).boxed()
    }
}
