//! Failures by what can be done about them.

use std::time::Duration;

use bytes::Bytes;
use paravt_suite::backend::ErrorClass;
use reqwest::{Response, StatusCode};

use crate::EXCERPT;

/// One failed try.
#[derive(Debug)]
pub struct Failure {
    pub class: ErrorClass,
    pub message: String,
    pub retry_after: Option<Duration>,
}

impl Failure {
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after: None }
    }

    /// No answer, or a broken one.
    pub fn transport(error: &reqwest::Error) -> Self {
        let class = if error.is_timeout() && !error.is_connect() {
            ErrorClass::Timeout
        } else {
            ErrorClass::Connection
        };
        // The chain says what the top leaves out ("connection refused"); the URL is said elsewhere.
        let mut message =
            String::from(if class == ErrorClass::Timeout { "no answer in time" } else { "no connection" });
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Self::new(class, message)
    }

    /// Whether the same request may work later.
    pub fn retryable(&self) -> bool {
        !matches!(self.class, ErrorClass::BadRequest | ErrorClass::Unauthorized | ErrorClass::ContextLength)
    }

    /// Whether the server asks for fewer requests, in words or by collapsing.
    pub fn is_pushback(&self) -> bool {
        matches!(self.class, ErrorClass::RateLimited | ErrorClass::Timeout | ErrorClass::Connection)
    }

    /// Whether the server looks ill.
    pub fn blames_server(&self) -> bool {
        matches!(
            self.class,
            ErrorClass::Connection | ErrorClass::Timeout | ErrorClass::Server | ErrorClass::Malformed
        )
    }
}

/// The body of a successful response.
pub async fn successful_body(response: Response) -> Result<Bytes, Failure> {
    let status = response.status();
    let retry_after = response
        .headers()
        .get(reqwest::header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse::<f64>().ok())
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let body = response.bytes().await;
    if status.is_success() {
        return body.map_err(|error| Failure::transport(&error));
    }
    let text = body.map(|body| String::from_utf8_lossy(&body).into_owned()).unwrap_or_default();
    let class = class_of(status, &text);
    let message = format!("{status}: {}", excerpt(&text));
    Err(Failure { class, message, retry_after })
}

fn class_of(status: StatusCode, body: &str) -> ErrorClass {
    match status.as_u16() {
        429 => ErrorClass::RateLimited,
        401 | 403 => ErrorClass::Unauthorized,
        408 => ErrorClass::Timeout,
        400..=499 if is_context_length(body) => ErrorClass::ContextLength,
        400..=499 => ErrorClass::BadRequest,
        _ => ErrorClass::Server,
    }
}

/// How vLLM, SGLang and OpenAI say that a conversation is too long.
fn is_context_length(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    [
        "context length",
        "context_length_exceeded",
        "maximum model length",
        "max_model_len",
        "longer than the model",
    ]
    .iter()
    .any(|phrase| body.contains(phrase))
}

/// The start of a server's text on one line.
pub fn excerpt(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(EXCERPT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_status_and_words() {
        let class = |status: u16, body: &str| class_of(StatusCode::from_u16(status).unwrap(), body);
        assert_eq!(
            class(400, "This model's maximum context length is 65536 tokens"),
            ErrorClass::ContextLength
        );
        assert_eq!(class(400, "bad image"), ErrorClass::BadRequest);
        assert_eq!(class(403, ""), ErrorClass::Unauthorized);
        assert_eq!(class(503, ""), ErrorClass::Server);
        assert!(!Failure::new(ErrorClass::ContextLength, "").retryable());
        assert!(Failure::new(ErrorClass::Malformed, "").retryable());
    }
}
