//! Failures by what can be done about them.

use std::time::Duration;

use paravt_suite::backend::{Completion, ErrorClass};
use paravt_suite::message::VideoPart;
use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Response, Url};
use serde_json::Value;

use crate::secret::Secrets;
use crate::wordings::{NEVER_FITS, RATE, TOO_LONG, TRANSIENT, says};

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
    /// The server's own words, whole.
    pub said: String,
    /// The same request would fail again.
    pub is_final: bool,
    /// Nothing listens at the server's address.
    pub is_unreachable: bool,
}

impl Failure {
    pub(crate) fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            class,
            message,
            retry_after: None,
            reply: None,
            said: String::new(),
            is_final: false,
            is_unreachable: false,
        }
    }

    /// A refusal that no retry can mend.
    pub(crate) fn final_refusal(message: impl Into<String>) -> Self {
        Self { is_final: true, ..Self::new(ErrorClass::BadRequest, message) }
    }

    /// A server's error in its own words, of which `message` shows a part; `kind` is what it calls it.
    fn reported(status: u16, said: &str, kind: &str, message: String) -> Self {
        let class = class_of(status, &format!("{said} {kind}"));
        let is_final = class == ErrorClass::BadRequest && (status == 404 || remedy(said).is_some());
        Self { said: said.to_owned(), is_final, ..Self::new(class, message) }
    }

    /// A reply of status 200 that holds an error; its `code` is the status that it would have had.
    pub(crate) fn in_reply(error: &Value, secrets: &Secrets) -> Self {
        let said = words(error).unwrap_or_else(|| error.to_string());
        let code = error["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
        let message = format!("the server reports an error: {}", secrets.excerpt(said.as_bytes()));
        Self::reported(code, &said, &kind(error), message)
    }

    /// The failure of a request that sent these videos. One that the server cannot find fails its row alone: vLLM
    /// calls that an error of the server (500) and names the path.
    pub(crate) fn with_videos<'a>(self, mut sent: impl Iterator<Item = &'a VideoPart>) -> Self {
        let names = |video: &VideoPart| {
            let name = video.path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| self.said.contains(&*name))
        };
        if self.class == ErrorClass::Server && is_missing_file(&self.said) && sent.any(names) {
            return Self { class: ErrorClass::BadRequest, is_final: true, ..self };
        }
        self
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
        Self { is_unreachable: error.is_connect(), ..Self::new(class, message) }
    }

    /// Maximum tries of the same request after this failure, the first included.
    pub(crate) fn max_tries(&self) -> u32 {
        match self.class {
            _ if self.is_final => 1,
            ErrorClass::Unauthorized
            | ErrorClass::ContextLength
            | ErrorClass::EmptyReply
            | ErrorClass::TooLarge => 1,
            ErrorClass::BadRequest => REFUSAL_TRIES,
            _ => u32::MAX,
        }
    }

    /// Whether a retry of the same request may succeed.
    pub(crate) fn retryable(&self) -> bool {
        self.max_tries() > 1
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
    response: Response,
    limit: usize,
    secrets: &Secrets,
) -> Result<Vec<u8>, Failure> {
    watched_body(response, limit, secrets, |_| Ok(false)).await
}

/// The same; `watch` sees what has come so far whenever more has, and says whether that is all.
pub(crate) async fn watched_body(
    mut response: Response,
    limit: usize,
    secrets: &Secrets,
    watch: impl FnMut(&[u8]) -> Result<bool, Failure>,
) -> Result<Vec<u8>, Failure> {
    let status = response.status();
    if status.is_success() {
        let (body, whole) = read(&mut response, limit, watch).await?;
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
        return Err(Failure::final_refusal(message));
    }
    let retry_after = paravt_hub::http::retry_after(response.headers());
    let body = read(&mut response, REFUSAL_BYTES, |_| Ok(false)).await;
    let body = body.map(|(body, _)| body).unwrap_or_default();
    let message = format!("{status}: {}", secrets.excerpt(&body));
    // Gemini's is in a list.
    let json = match serde_json::from_slice(&body).unwrap_or_default() {
        Value::Array(mut all) if all.len() == 1 => all.remove(0),
        other => other,
    };
    let error = if json["error"].is_object() { &json["error"] } else { &json };
    let said = words(error).or_else(|| words(&json));
    let said = said.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
    let failure = Failure::reported(status.as_u16(), &said, &kind(error), message);
    Err(Failure { retry_after, ..failure })
}

/// The start of a body, and whether that is all of it.
async fn read(
    response: &mut Response,
    limit: usize,
    mut watch: impl FnMut(&[u8]) -> Result<bool, Failure>,
) -> Result<(Vec<u8>, bool), Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Failure::transport(&error))? {
        let room = limit - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok((body, false));
        }
        if watch(&body)? {
            break;
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

/// An error in words: its message, with what the server behind a router said (OpenRouter's `metadata.raw`), or the
/// messages of FastAPI, which repeats the request beside them.
fn words(error: &Value) -> Option<String> {
    if let Some(message) = error["message"].as_str() {
        return Some(
            [message, error["metadata"]["raw"].as_str().unwrap_or_default()].join(" ").trim().to_owned(),
        );
    }
    match &error["detail"] {
        Value::String(detail) => Some(detail.clone()),
        Value::Array(all) => {
            Some(all.iter().filter_map(|one| one["msg"].as_str()).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    }
}

/// What a server calls an error, beside its message: `exceed_context_size_error`, `context_length_exceeded`.
fn kind(error: &Value) -> String {
    ["type", "code", "error_type"]
        .iter()
        .filter_map(|name| error[*name].as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

fn class_of(status: u16, said: &str) -> ErrorClass {
    match status {
        400 | 413 | 429 if says(said, &NEVER_FITS) => ErrorClass::ContextLength,
        429 => ErrorClass::RateLimited,
        401 => ErrorClass::Unauthorized,
        // Together AI answers 403 to a conversation that is too long.
        403 if !says(said, &TOO_LONG) => ErrorClass::Unauthorized,
        408 => ErrorClass::Timeout,
        // The reference's client tries these again.
        409 => ErrorClass::Server,
        400..=499 if says(said, &RATE) => ErrorClass::RateLimited,
        // A proxy whose limit of bytes the images exceed (nginx: client_max_body_size), or Anthropic's.
        413 => ErrorClass::ContextLength,
        _ if says(said, &TOO_LONG) && !says(said, &RATE) => ErrorClass::ContextLength,
        400..=499 if says(said, &TRANSIENT) => ErrorClass::Server,
        400..=499 => ErrorClass::BadRequest,
        _ => ErrorClass::Server,
    }
}

/// Tries of a refused request. The released driver tries a call three times whatever failed (ParaVT cf55249
/// paravt/eval/driver.py `_completion_with_retry`), and vLLM's status 400 does not say that the request is at fault.
const REFUSAL_TRIES: u32 = 3;

/// Words of refusals that a setting causes, of vLLM's server or of the request, each with the remedy.
const REMEDIES: [(&str, &str); 7] = [
    (
        "may be provided in one prompt",
        "start the server with as many as the run sends, for vLLM --limit-mm-per-prompt '{\"video\": 1, \"image\": 1024}'",
    ),
    (
        "--allowed-local-media-path",
        "start the server with --allowed-local-media-path and a folder that holds the videos",
    ),
    (
        "--trust-request-mm-kwargs",
        "frames and their number are settings of a request: start the server with --trust-request-mm-kwargs",
    ),
    // OpenAI and Azure: the value, the parameter; Anthropic.
    ("'temperature' does not support", OWN_TEMPERATURE),
    ("`temperature` is deprecated", OWN_TEMPERATURE),
    (
        "Unsupported parameter: '",
        "give the field the server's name by --body-field FIELD=NAME, or leave it out by --body-field FIELD=",
    ),
    ("--enable-auto-tool-choice", "start the server with --enable-auto-tool-choice and --tool-call-parser"),
];
const OWN_TEMPERATURE: &str = "the model has a temperature of its own: leave the field out by --body-field temperature=, and greedy it is not";
const MISSING_FILE: &str = "the server reads videos from its own disk: give it the data at the same path";

/// What to change at the server that refused a request with this message; `None` where the message does not say.
pub fn remedy(message: &str) -> Option<&'static str> {
    let known = REMEDIES.iter().find(|(words, _)| message.contains(words)).map(|(_, remedy)| *remedy);
    known.or_else(|| is_missing_file(message).then_some(MISSING_FILE))
}

/// `FileNotFoundError` and its kin as Python prints them.
fn is_missing_file(message: &str) -> bool {
    ["[Errno 2]", "[Errno 13]", "[Errno 20]", "[Errno 21]"].iter().any(|errno| message.contains(errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_status_and_words() {
        assert_eq!(class_of(400, "bad image"), ErrorClass::BadRequest);
        assert_eq!(class_of(403, ""), ErrorClass::Unauthorized);
        assert_eq!(class_of(503, ""), ErrorClass::Server);
        assert!(!Failure::new(ErrorClass::ContextLength, "").retryable());
        assert!(Failure::new(ErrorClass::Malformed, "").retryable());
        for status in [408, 409, 429, 500, 502, 599] {
            assert!(Failure::new(class_of(status, ""), "").retryable(), "{status}");
        }
        let tries = |status| Failure::reported(status, "no", "", String::new()).max_tries();
        assert_eq!([400, 401, 403, 404, 405, 422].map(tries), [3, 1, 1, 1, 3, 3]);
    }
}
