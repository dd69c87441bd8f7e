//! The hub's interface: a revision's commit, its files, and the bytes of a file.

mod listing;
mod requests;

use std::time::Duration;

use paravt_hub::http::{Client, causes};
use percent_encoding::{AsciiSet, CONTROLS};
use reqwest::header::HeaderValue;
use url::Url;

use crate::error::FetchError;
use crate::observer::{Event, Observer};
use crate::retry::Retries;

/// Characters that are escaped in a path of the hub; slashes separate.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}');
const ESCAPED_REVISION: &AsciiSet = &ESCAPED.add(b'/');

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest silence within a reply.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// An access token that no `Debug` output, error or log shows.
#[derive(Clone)]
pub struct Token(HeaderValue);

impl Token {
    /// Wraps a token; `None` where it is empty.
    ///
    /// # Errors
    /// No header can carry it. `place` is where it stands.
    pub fn new(place: &str, token: &str) -> Result<Option<Self>, FetchError> {
        let token = token.trim();
        if token.is_empty() {
            return Ok(None);
        }
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value =
            value.ok().filter(|_| token.chars().all(|c| c.is_ascii_graphic())).ok_or_else(|| {
                let message =
                    "cannot be used as a token: expected one word without spaces, line breaks or other signs";
                FetchError::invalid(place, message)
            })?;
        value.set_sensitive(true);
        Ok(Some(Self(value)))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[token]")
    }
}

/// A hub and who asks it.
#[derive(Debug, Clone)]
pub struct Hub {
    client: Client,
    endpoint: Url,
    token: Option<Token>,
    retries: Retries,
}

/// One failed request: whether and when another try makes sense.
pub(crate) enum Failure {
    /// Another try may succeed; the server may have said when.
    Passing {
        message: String,
        after: Option<Duration>,
    },
    Final(FetchError),
}

impl Failure {
    pub(crate) fn passing(message: impl Into<String>) -> Self {
        Failure::Passing { message: message.into(), after: None }
    }

    pub(crate) fn transport(error: reqwest::Error) -> Self {
        // The address may be signed: it stays out of the message.
        let error = error.without_url();
        Failure::passing(causes(&error))
    }
}

impl Hub {
    /// A hub at an endpoint such as `https://huggingface.co`.
    ///
    /// # Errors
    /// The endpoint is not an HTTP address.
    pub fn new(endpoint: &str, token: Option<Token>, retries: Retries) -> Result<Self, FetchError> {
        let wrong = || FetchError::invalid("HF_ENDPOINT", "expected an http or https address without query");
        let mut url = Url::parse(endpoint.trim_end_matches('/')).map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.host().is_none() {
            return Err(wrong());
        }
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        let client = Client::new(|builder| {
            let builder = builder.user_agent(concat!("paravt-bench/", env!("CARGO_PKG_VERSION")));
            builder.connect_timeout(CONNECT_TIMEOUT).read_timeout(READ_TIMEOUT)
        })
        .map_err(|message| FetchError::invalid("hub", message))?;
        Ok(Self { client, endpoint: url, token, retries })
    }

    /// Whether requests carry a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// How often requests are tried.
    pub fn retries(&self) -> Retries {
        self.retries
    }

    fn address(&self, path: &str) -> Url {
        self.endpoint.join(path).expect("a relative path of escaped characters joins an endpoint")
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// No further try makes sense, or the last one was used.
    pub(crate) async fn wait(
        &self,
        failure: Failure,
        failures: &mut u32,
        what: &str,
        observer: &dyn Observer,
    ) -> Result<(), FetchError> {
        let (message, after) = match failure {
            Failure::Final(error) => return Err(error),
            Failure::Passing { message, after } => (message, after),
        };
        *failures += 1;
        if *failures >= self.retries.tries {
            return Err(FetchError::Network { what: what.to_owned(), message, tries: *failures });
        }
        let pause = self.retries.pause(*failures, after);
        tracing::info!(
            what,
            failures = *failures,
            seconds = pause.as_secs(),
            error = message,
            "trying again"
        );
        observer.event(Event::Retry { what: what.to_owned(), message, seconds: pause.as_secs() });
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_not_printed_and_endpoints_are_checked() {
        let token = Token::new("HF_TOKEN", " hf_secret\n").unwrap().unwrap();
        assert_eq!(format!("{token:?}"), "[token]");
        assert!(Token::new("HF_TOKEN", "  ").unwrap().is_none());
        for wrong in ["hf_abc\ndef", "hf_a b", "hf_\u{e4}"] {
            let error = Token::new("HF_TOKEN", wrong).unwrap_err().to_string();
            assert!(error.starts_with("HF_TOKEN: cannot be used") && !error.contains("hf_"), "{error}");
        }
        let hub = Hub::new("http://h:1/mirror", Some(token), Retries::default()).unwrap();
        assert!(!format!("{hub:?}").contains("secret"));
        assert_eq!(hub.address("api/x").as_str(), "http://h:1/mirror/api/x");
        assert_eq!(hub.without_token("bad hf_secret"), "bad [token]");
        for wrong in ["", "huggingface.co", "file:///x", "http://h?x=1"] {
            assert!(Hub::new(wrong, None, Retries::default()).is_err(), "{wrong}");
        }
    }
}
