//! Failures by what can be done about them.

use std::time::{Duration, SystemTime};

use paravt_suite::backend::{Completion, ErrorClass};
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode, Url};

use crate::secret::Secrets;

/// Bytes of a refusal's body that are read; its message shows fewer.
const REFUSAL_BYTES: usize = 64 << 10;

/// One failed try.
#[derive(Debug)]
pub(crate) struct Failure {
    pub class: ErrorClass,
    pub message: String,
    pub retry_after: Option<Duration>,
    /// The reply, where a whole one came that is not an answer.
    pub reply: Option<Box<Completion>>,
}

impl Failure {
    pub(crate) fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after: None, reply: None }
    }

    /// No answer, or a broken one.
    pub(crate) fn transport(error: &reqwest::Error) -> Self {
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

    /// Whether a retry of the same request may succeed.
    pub(crate) fn retryable(&self) -> bool {
        !matches!(
            self.class,
            ErrorClass::BadRequest
                | ErrorClass::Unauthorized
                | ErrorClass::ContextLength
                | ErrorClass::EmptyReply
                | ErrorClass::TooLarge
        )
    }

    /// Whether the server refused the request as it is: another server may not.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.class, ErrorClass::BadRequest | ErrorClass::Unauthorized)
    }

    /// Whether the server is overloaded: 429, a timeout or a broken connection.
    pub(crate) fn is_pushback(&self) -> bool {
        matches!(self.class, ErrorClass::RateLimited | ErrorClass::Timeout | ErrorClass::Connection)
    }

    /// Whether the failure counts against the server's health.
    pub(crate) fn blames_server(&self) -> bool {
        matches!(
            self.class,
            ErrorClass::Connection | ErrorClass::Timeout | ErrorClass::Server | ErrorClass::Malformed
        )
    }
}

/// The body of a successful response, `limit` bytes at most.
pub(crate) async fn successful_body(
    mut response: Response,
    limit: usize,
    secrets: &Secrets,
) -> Result<Vec<u8>, Failure> {
    let status = response.status();
    if status.is_success() {
        let (body, whole) = read(&mut response, limit).await?;
        if !whole {
            let message = format!("the reply is larger than {limit} bytes; raise --max-reply-bytes");
            return Err(Failure::new(ErrorClass::TooLarge, message));
        }
        return Ok(body);
    }
    if status.is_redirection() {
        let message = format!(
            "{status}: the server sends the request on{}; nothing is sent there: give that address as --base-url",
            target(response.headers()).map_or(String::new(), |target| format!(" to {target}"))
        );
        return Err(Failure::new(ErrorClass::BadRequest, message));
    }
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?));
    let body = read(&mut response, REFUSAL_BYTES).await.map(|(body, _)| body).unwrap_or_default();
    let class = class_of(status, &String::from_utf8_lossy(&body));
    let message = format!("{status}: {}", secrets.excerpt(&body));
    Err(Failure { class, message, retry_after, reply: None })
}

/// The start of a body, and whether that is all of it.
async fn read(response: &mut Response, limit: usize) -> Result<(Vec<u8>, bool), Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Failure::transport(&error))? {
        let room = limit - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok((body, false));
        }
    }
    Ok((body, true))
}

/// Target of a redirect, without credentials and query.
fn target(headers: &HeaderMap) -> Option<String> {
    let mut url = Url::parse(headers.get(LOCATION)?.to_str().ok()?).ok()?;
    crate::endpoints::strip(&mut url);
    Some(url.to_string())
}

/// `Retry-After`: seconds, or an HTTP date.
fn retry_after(value: &str) -> Option<Duration> {
    let value = value.trim();
    match value.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => {
            let date = httpdate::parse_http_date(value).ok()?;
            Some(date.duration_since(SystemTime::now()).unwrap_or_default())
        }
    }
}

fn class_of(status: StatusCode, body: &str) -> ErrorClass {
    match status.as_u16() {
        429 => ErrorClass::RateLimited,
        401 | 403 => ErrorClass::Unauthorized,
        408 => ErrorClass::Timeout,
        // The reference's client tries these again.
        409 => ErrorClass::Server,
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
        for status in [408, 409, 429, 500, 502, 599] {
            assert!(Failure::new(class(status, ""), "").retryable(), "{status}");
        }
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_as_a_date() {
        assert_eq!(retry_after(" 3 "), Some(Duration::from_secs(3)));
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(60));
        let wait = retry_after(&soon).unwrap();
        assert!(wait > Duration::from_secs(50) && wait <= Duration::from_secs(60), "{wait:?}");
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(["-5", "nan", "soon"].map(retry_after), [None; 3]);
    }
}
