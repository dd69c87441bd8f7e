//! What every test asks, and a client that waits for little.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use paravt_backend_openai::{Config, OpenAi};
use paravt_suite::backend::{Backend as _, BackendError, CallId, Completion, Generation, Request};
use paravt_suite::message::{Message, Part, Role, Spread, VideoPart};

/// The configuration for these servers.
pub(crate) fn config<U: Into<String>>(urls: impl IntoIterator<Item = U>) -> Config {
    Config {
        model: Some("m".into()),
        timeout: Duration::from_secs(20),
        retry_pause: Duration::from_millis(1),
        max_reply: 1 << 16,
        whole_text: false,
        ..Config::new(urls)
    }
}

/// The request of a turn.
pub(crate) fn request(sample: impl Into<String>, turn: usize, messages: Vec<Message>) -> Request {
    Request::new(CallId::new(sample, format!("turn{turn}")), messages, Generation::greedy(8))
}

/// Asks for a sample that nobody has asked for.
pub(crate) async fn ask(client: &OpenAi) -> Result<Completion, BackendError> {
    static SAMPLES: AtomicUsize = AtomicUsize::new(0);
    let sample = SAMPLES.fetch_add(1, Ordering::SeqCst).to_string();
    client.complete(&request(sample, 0, vec![Message::text(Role::User, "A or B?")])).await
}

/// A message that is a video.
pub(crate) fn video(path: impl Into<std::path::PathBuf>) -> Message {
    let video = VideoPart { path: path.into(), nframes: None, spread: Spread::default() };
    Message::parts(Role::User, vec![Part::Video(video)])
}
