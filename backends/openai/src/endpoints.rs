//! Several servers: a conversation keeps its own as long as that is healthy; failing ones are ejected with exponential
//! back-off.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use paravt_suite::backend::{Placement, Request, Seat};
use serde_json::Value;
use tokio::sync::OnceCell;

/// Failures in a row after which a server is ejected.
const STRIKES: u32 = 3;
/// Duration of the first ejection; each further failure doubles it.
const FIRST_REST: Duration = Duration::from_secs(1);
/// Maximum duration of an ejection.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Routes that a user may have pasted with the address of the API.
const ROUTES: [&str; 4] = ["/chat/completions", "/completions", "/models", "/responses"];

/// One server.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Base URL without a slash at its end.
    pub base: String,
    /// The same without credentials, for messages and manifests.
    pub name: String,
    /// The server was seen to list the run's model.
    pub checked: AtomicBool,
    /// Its list of models, once it was read.
    pub listed: OnceLock<Value>,
    /// Whether it shows the model the planned frames of a video, or why not; empty until one could tell.
    pub frames: OnceCell<Result<(), String>>,
    failures: AtomicU32,
    resting_until: Mutex<Option<Instant>>,
}

impl Endpoint {
    /// Address of what is not part of the OpenAI API.
    pub(crate) fn root(&self) -> &str {
        self.base.strip_suffix("/v1").unwrap_or(&self.base)
    }

    /// A request worked.
    pub(crate) fn succeeded(&self) {
        self.failures.store(0, Ordering::Relaxed);
        *self.resting_until.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A request failed by the server's fault. Requests that fail while the server is ejected were sent before: they
    /// belong to the same outage and do not prolong the ejection.
    pub(crate) fn failed(&self) {
        if !self.rests_for(Instant::now()).is_zero() {
            return;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures >= STRIKES {
            let doublings = (failures - STRIKES).min(16);
            let rest = FIRST_REST.saturating_mul(1 << doublings).min(LONGEST_REST);
            *self.resting_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + rest);
        }
    }

    fn rests_for(&self, now: Instant) -> Duration {
        let until = *self.resting_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

/// Takes user name, password, query and fragment out of a URL.
pub(crate) fn strip(url: &mut reqwest::Url) {
    // They only fail for URLs that cannot have any.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
}

/// All servers.
#[derive(Debug)]
pub(crate) struct Endpoints {
    all: Vec<Arc<Endpoint>>,
    placement: Placement,
}

impl Endpoints {
    /// Checks the URLs.
    pub(crate) fn new(urls: &[String]) -> Result<Self, String> {
        let mut endpoints = Vec::new();
        for url in urls {
            // A URL that does not parse may still hold a password: it is named by its place.
            let number = endpoints.len() + 1;
            let mut parsed = reqwest::Url::parse(url)
                .map_err(|error| format!("base URL {number}: {error}; expected http://HOST:PORT/v1"))?;
            if !matches!(parsed.scheme(), "http" | "https") {
                return Err(format!("base URL {number}: expected http://HOST:PORT/v1 or https"));
            }
            if parsed.query().is_some() || parsed.fragment().is_some() {
                return Err(format!(
                    "base URL {number} has a query or a fragment: send keys by $OPENAI_API_KEY or --header-env"
                ));
            }
            let base = parsed.as_str().trim_end_matches('/').to_owned();
            strip(&mut parsed);
            let shown = parsed.as_str().trim_end_matches('/');
            if let Some(api) = ROUTES.iter().find_map(|route| shown.strip_suffix(route)) {
                return Err(format!(
                    "base URL {number} is the address of one route: cut it to that of the API, {api}"
                ));
            }
            endpoints.push(Arc::new(Endpoint {
                base,
                name: parsed.as_str().trim_end_matches('/').to_owned(),
                checked: AtomicBool::new(false),
                listed: OnceLock::new(),
                frames: OnceCell::new(),
                failures: AtomicU32::new(0),
                resting_until: Mutex::new(None),
            }));
        }
        if endpoints.is_empty() {
            return Err("no base URL is given".to_owned());
        }
        Ok(Self { placement: Placement::new(endpoints.len()), all: endpoints })
    }

    /// Opens a request at one of the healthy servers; where all are ejected, at the one that returns first. The server on
    /// which this request has `just_failed` is taken only if no other is healthy, and those that `refused` it only if all
    /// did.
    pub(crate) fn open(
        &self,
        request: &Request,
        just_failed: Option<&Arc<Endpoint>>,
        refused: &[Arc<Endpoint>],
    ) -> (Arc<Endpoint>, Seat<'_>) {
        let now = Instant::now();
        let seat = self.placement.seat(request, |place| {
            let endpoint = &self.all[place];
            let again = just_failed.is_some_and(|failed| Arc::ptr_eq(failed, endpoint));
            let refused = refused.iter().any(|other| Arc::ptr_eq(other, endpoint));
            (refused, endpoint.rests_for(now), again)
        });
        (Arc::clone(&self.all[seat.place()]), seat)
    }

    /// All servers.
    pub(crate) fn all(&self) -> &[Arc<Endpoint>] {
        &self.all
    }

    /// The URLs, for the manifest, without credentials.
    pub(crate) fn names(&self) -> Vec<String> {
        self.all.iter().map(|endpoint| endpoint.name.clone()).collect()
    }

    /// User names and passwords of the URLs, as written and as decoded.
    pub(crate) fn credentials(&self) -> Vec<String> {
        let urls = self.all.iter().filter_map(|endpoint| reqwest::Url::parse(&endpoint.base).ok());
        urls.flat_map(|url| {
            let decode =
                |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
            let password = url.password().unwrap_or_default();
            // A user name without a password is a key; beside a password it is a name, which answers may contain.
            let user = if password.is_empty() { url.username() } else { "" };
            [user.to_owned(), decode(user), password.to_owned(), decode(password)]
        })
        .filter(|text| !text.is_empty())
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use paravt_suite::backend::{CallId, Generation};

    use super::*;

    fn request(sample: &str) -> Request {
        Request::new(CallId::new(sample, "turn0"), vec![], Generation::greedy(1))
    }

    #[test]
    fn a_server_that_refused_a_request_is_asked_last() {
        let all = Endpoints::new(&["http://a/v1".into(), "http://b/v1".into()]).unwrap();
        let (first, _) = all.open(&request("a"), None, &[]);
        let (second, _open) = all.open(&request("a"), None, &[Arc::clone(&first)]);
        assert_ne!(first.base, second.base);
        let (again, _) = all.open(&request("b"), None, &[Arc::clone(&first)]);
        assert_eq!(again.base, second.base, "busy, but it may answer");
    }

    #[test]
    fn the_least_busy_healthy_server_is_next_and_failing_ones_back_off() {
        let all = Endpoints::new(&["http://a/v1/".into(), "http://b/v1".into()]).unwrap();
        let next = |sample| all.open(&request(sample), None, &[]).0;
        let (first, _open) = all.open(&request("a"), None, &[]);
        let second = next("b");
        assert_ne!(first.base, second.base);
        for _ in 0..STRIKES {
            second.failed();
        }
        assert_eq!(next("b").base, first.base, "busy but well");
        second.succeeded();
        assert_eq!(next("c").base, second.base);
        assert_eq!(next("b").base, first.base, "the conversation has moved");
        assert_eq!(
            all.open(&request("c"), Some(&second), &[]).0.base,
            first.base,
            "a second try goes elsewhere"
        );
    }

    #[test]
    fn simultaneous_failures_cause_one_back_off() {
        let all = Endpoints::new(&["http://a/v1".into()]).unwrap();
        for _ in 0..100 {
            all.all()[0].failed();
        }
        let rest = all.all()[0].rests_for(Instant::now());
        assert!(rest > Duration::ZERO && rest <= FIRST_REST, "{rest:?}");
    }

    #[test]
    fn urls_are_checked_and_shown_without_credentials() {
        assert!(Endpoints::new(&["localhost:8000".into()]).is_err());
        assert!(Endpoints::new(&[]).is_err());
        let route = Endpoints::new(&["http://me:pass@a:1/v1/chat/completions/".into()]).unwrap_err();
        assert!(route.ends_with("cut it to that of the API, http://a:1/v1"), "{route}");
        let all = Endpoints::new(&["http://me:k%40y@a/v1/".into(), "http://token@b".into()]).unwrap();
        assert_eq!(all.names(), ["http://a/v1", "http://b"]);
        assert_eq!(all.credentials(), ["k%40y", "k@y", "token", "token"]);
        for bad in ["http://me:secret@[", "me:secret@host/v1", "http://a/v1?key=secret"] {
            let error = Endpoints::new(&[bad.into()]).unwrap_err();
            assert!(!error.contains("secret") && error.contains("base URL 1"), "{error}");
        }
    }
}
