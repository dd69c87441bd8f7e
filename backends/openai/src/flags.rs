//! Flags of the backend `openai`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use paravt_suite::backend::Backend;
use paravt_suite::plan::{Channel, RunPlan};
use paravt_suite::profile::Profile;
use paravt_suite::redact::urls;
use paravt_suite::settings::{RequestSettings, ToolDialect};

use crate::{Config, OpenAi, Secret, VideoProcessor};

/// Flags of the client.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Backend")]
pub struct OpenAiFlags {
    /// Base URL of a server, e.g. http://localhost:8000/v1; several, separated by commas, share the samples. The API
    /// key is read from $OPENAI_API_KEY [default: $OPENAI_BASE_URL].
    #[arg(long, value_name = "URL", value_delimiter = ',', display_order = 10)]
    base_url: Vec<String>,
    /// Time limit of one try of a request.
    #[arg(long, default_value_t = TIMEOUT, value_name = "SECONDS", value_parser = some_seconds, display_order = 40)]
    request_timeout: f64,
    /// Maximum tries of one request, including the first [default: 9 under the profiles release and paper, as in the
    /// reference; else 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), display_order = 41)]
    tries: Option<u32>,
    /// Pause before the second try; twice that before the third and so on, plus up to a third of it at random.
    #[arg(long, default_value_t = PAUSE, value_name = "SECONDS", value_parser = seconds, display_order = 42)]
    retry_pause: f64,
    /// Maximum requests in flight over all servers; halved when a server is overloaded, then raised again.
    #[arg(long, default_value_t = REQUESTS, value_name = "N", value_parser = at_least_one, display_order = 43)]
    max_requests: usize,
    /// Maximum requests of a minute over all servers, for one that counts them [default: no limit].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), display_order = 43)]
    requests_per_minute: Option<u32>,
    /// Maximum tokens of a minute over all servers, prompts and replies, for one that counts them [default: no limit].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), display_order = 43)]
    tokens_per_minute: Option<u32>,
    /// Maximum size of one reply; a larger one is an error.
    #[arg(long, default_value_t = REPLY_BYTES, value_name = "BYTES", value_parser = at_least_one, display_order = 44)]
    max_reply_bytes: usize,
    /// With --channel video: send `media_io_kwargs.num_frames` (vLLM after 0.17): 32 under the profiles release and
    /// paper, 64 under strict. Without this flag the server has to be started with that number.
    #[arg(long, display_order = 45)]
    send_video_frames: bool,
    /// Stream every reply, which measures the time to its first token and the time per token after it.
    #[arg(long, display_order = 46)]
    stream: bool,
    /// With --channel frames-video: video_preprocessor_config.json of the served model. A server that shows the model other
    /// visual tokens is refused [default: the values of Qwen3-VL].
    #[arg(long, value_name = "FILE", value_parser = video_processor, display_order = 47)]
    video_processor: Option<VideoProcessor>,
    /// The servers were started by this command.
    #[arg(skip)]
    watched: bool,
}

/// Defaults: seconds of a try, seconds of a pause, requests in flight, bytes of a reply.
const TIMEOUT: f64 = 1800.0;
const PAUSE: f64 = 1.5;
const REQUESTS: usize = 64;
const REPLY_BYTES: usize = 8 << 20;

/// Longest time that a flag may name: 30 days.
const MAX_SECONDS: f64 = 2_592_000.0;

/// Reads a time in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=MAX_SECONDS).contains(seconds));
    seconds.ok_or_else(|| format!("expected 0 to {MAX_SECONDS} seconds"))
}

/// Reads a time above 0.
fn some_seconds(text: &str) -> Result<f64, String> {
    let found = seconds(text)?;
    if found > 0.0 { Ok(found) } else { Err("expected a time above 0".to_owned()) }
}

/// Reads a number of requests or bytes.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| "expected a number of at least 1".to_owned())
}

/// Reads the video processor of a model.
fn video_processor(path: &str) -> Result<VideoProcessor, String> {
    VideoProcessor::read(Path::new(path))
}

/// A variable of the environment that is set to something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl OpenAiFlags {
    /// A flag of these that is given; the variable of the environment does not count.
    pub fn given(&self) -> Option<&'static str> {
        let all = [
            ("--base-url", !self.base_url.is_empty()),
            ("--request-timeout", self.request_timeout != TIMEOUT),
            ("--tries", self.tries.is_some()),
            ("--retry-pause", self.retry_pause != PAUSE),
            ("--max-requests", self.max_requests != REQUESTS),
            ("--requests-per-minute", self.requests_per_minute.is_some()),
            ("--tokens-per-minute", self.tokens_per_minute.is_some()),
            ("--max-reply-bytes", self.max_reply_bytes != REPLY_BYTES),
            ("--send-video-frames", self.send_video_frames),
            ("--stream", self.stream),
            ("--video-processor", self.video_processor.is_some()),
        ];
        all.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
    }

    /// Flags that are given and change nothing on this channel, with the one that they are for.
    pub fn without_effect(&self, channel: Channel) -> impl Iterator<Item = (&'static str, &'static str)> {
        let all = [
            ("--send-video-frames", "video", self.send_video_frames && channel != Channel::Video),
            (
                "--video-processor",
                "frames-video",
                self.video_processor.is_some() && channel != Channel::FramesVideo,
            ),
        ];
        all.into_iter().filter(|(.., is_idle)| *is_idle).map(|(flag, other, _)| (flag, other))
    }

    /// Connects to the servers. `once_within` is one try of each request within that time, instead of what the flags
    /// say.
    ///
    /// # Errors
    /// No server is named, a header's variable is not set, or no server can be reached.
    pub async fn connect(
        &self,
        model: Option<&str>,
        plan: Option<&RunPlan>,
        settings: RequestSettings,
        once_within: Option<Duration>,
    ) -> anyhow::Result<OpenAi> {
        let mut base_urls = self.base_url.clone();
        if base_urls.is_empty() {
            base_urls.extend(variable("OPENAI_BASE_URL"));
        }
        if base_urls.is_empty() {
            bail!(
                "no server is named; give --base-url, set OPENAI_BASE_URL, or run the model here with --backend candle"
            );
        }
        let timeout = Duration::from_secs_f64(self.request_timeout);
        let max_tries = self.tries.unwrap_or_else(|| default_tries(plan));
        let (timeout, max_tries) = match once_within {
            Some(once_within) => (once_within, 1),
            None => (timeout, max_tries),
        };
        let config = Config {
            base_urls,
            model: model.map(ToOwned::to_owned),
            api_key: variable("OPENAI_API_KEY").map(Secret::new),
            timeout,
            max_tries,
            retry_pause: Duration::from_secs_f64(self.retry_pause),
            max_requests: self.max_requests,
            requests_per_minute: self.requests_per_minute,
            tokens_per_minute: self.tokens_per_minute,
            max_reply: self.max_reply_bytes,
            send_video_frames: self.send_video_frames,
            stream: self.stream,
            video_processor: self.video_processor.unwrap_or_default(),
            whole_text: plan.is_some_and(|plan| plan.dialect == ToolDialect::Auto),
            headers: header_values(&settings)?,
            settings,
            watched: self.watched,
        };
        Ok(OpenAi::connect(config).await?)
    }

    /// The flag or variable that names a server.
    pub fn server_named_by(&self) -> Option<&'static str> {
        match self.base_url.is_empty() {
            false => Some("--base-url"),
            true => variable("OPENAI_BASE_URL").map(|_| "OPENAI_BASE_URL"),
        }
    }

    /// The same flags for servers at these base URLs, which this command started.
    #[must_use]
    pub fn on_servers(&self, base_urls: &[String]) -> Self {
        Self { base_url: base_urls.to_vec(), watched: true, ..self.clone() }
    }
}

/// The server at `OPENAI_BASE_URL` and its model.
pub fn doctor() -> String {
    let Some(url) = variable("OPENAI_BASE_URL") else {
        return "no OPENAI_BASE_URL set; give --base-url".to_owned();
    };
    // A thread of its own: the caller may run inside a runtime.
    let asked = url.clone();
    match std::thread::spawn(move || ask(asked)).join() {
        Ok(Ok(line)) => line,
        Ok(Err(why)) => format!("{}: {why}", urls(&url)),
        Err(_) => format!("{} (not asked)", urls(&url)),
    }
}

/// The model of a server and what else it says of itself.
fn ask(url: String) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let api_key = variable("OPENAI_API_KEY").map(Secret::new);
    let config = Config { api_key, max_tries: 1, ..Config::new([url]) };
    let server = runtime.block_on(OpenAi::connect(config)).map_err(|error| error.message)?;
    let info = server.describe();
    let said = info.details.get("servers").map(|said| format!(" ({said})")).unwrap_or_default();
    Ok(format!("{}: model {}{said}", info.details["base_urls"], info.model))
}

/// The released driver tries three times, its client three times within each (ParaVT cf55249
/// paravt/eval/driver.py `_completion_with_retry`; `max_retries` of openai-python is 2).
fn default_tries(plan: Option<&RunPlan>) -> u32 {
    match plan.map(|plan| plan.profile()) {
        Some(Profile::Release | Profile::Paper) => 9,
        Some(Profile::Strict) | None => 3,
    }
}

/// The values of the headers that the settings name, from the environment.
fn header_values(settings: &RequestSettings) -> anyhow::Result<Vec<(String, Secret)>> {
    let value = |(name, place): (&String, &String)| {
        let value = variable(place)
            .with_context(|| format!("--header-env {name}: the environment variable {place} is not set"))?;
        Ok((name.clone(), Secret::new(value)))
    };
    settings.header_env.iter().map(value).collect()
}
