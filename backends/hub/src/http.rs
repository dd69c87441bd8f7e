//! The one HTTP client of the workspace. Requests to other machines go through the proxies of the environment, those to
//! this machine never do: a proxy would look for the address on its own machine, and gets to see keys and frames.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{ClientBuilder, IntoUrl, RequestBuilder, Url};

/// Variables that name the certificates to trust.
const CERTIFICATES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// A client for other machines and one for this machine.
#[derive(Debug, Clone)]
pub struct Client {
    others: reqwest::Client,
    own: reqwest::Client,
}

impl Client {
    /// Makes both. Redirects are not followed: they lead to hosts that nobody named, and may need the other client.
    ///
    /// # Errors
    /// Certificates or a header that cannot be used, with the cause.
    pub fn new(configure: impl Fn(ClientBuilder) -> ClientBuilder) -> Result<Self, String> {
        // Only one provider is compiled in; a second call finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || configure(reqwest::Client::builder()).redirect(reqwest::redirect::Policy::none());
        let build = |builder: ClientBuilder| builder.build().map_err(|error| unusable(&error));
        Ok(Self { others: build(builder())?, own: build(builder().no_proxy())? })
    }

    /// A GET request.
    pub fn get(&self, url: impl IntoUrl + Clone) -> RequestBuilder {
        self.of(url.clone()).get(url)
    }

    /// A HEAD request.
    pub fn head(&self, url: impl IntoUrl + Clone) -> RequestBuilder {
        self.of(url.clone()).head(url)
    }

    /// A POST request.
    pub fn post(&self, url: impl IntoUrl + Clone) -> RequestBuilder {
        self.of(url.clone()).post(url)
    }

    fn of(&self, url: impl IntoUrl) -> &reqwest::Client {
        // One that is no URL fails when it is sent.
        if url.into_url().is_ok_and(|url| is_own(&url)) { &self.own } else { &self.others }
    }
}

/// Whether a URL names this machine: `localhost`, or an address that does not leave it.
fn is_own(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_end_matches('.');
    if host == "localhost" || host.ends_with(".localhost") {
        return true;
    }
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    address.map(|address| address.to_canonical()).is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

/// Error message of a client that cannot be built: its causes, and the certificate variables that are set.
fn unusable(error: &reqwest::Error) -> String {
    let mut message = format!("cannot make an HTTP client: {}", causes(error));
    for name in CERTIFICATES {
        if let Some(place) = std::env::var_os(name) {
            message += &format!("; certificates are read from {name}={}", place.display());
        }
    }
    message
}

/// The pause that a server asks for in `Retry-After`: seconds, or until an HTTP date.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match value.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => {
            let date = httpdate::parse_http_date(value).ok()?;
            Some(date.duration_since(SystemTime::now()).unwrap_or_default())
        }
    }
}

/// An error and what caused it.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_by_every_name() {
        let is_own = |url: &str| is_own(&Url::parse(url).unwrap());
        for own in [
            "http://localhost:8000/v1",
            "http://LOCALHOST./v1",
            "http://a.localhost/",
            "http://127.0.0.1:8000",
            "http://127.8.9.1",
            "http://127.1",
            "http://2130706433/",
            "http://[::1]:8000/v1",
            "http://[::ffff:127.0.0.1]/",
            "http://0.0.0.0:8000",
            "http://[::]:8000",
            "https://me:key@127.0.0.1",
        ] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "http://10.0.0.1",
            "https://huggingface.co",
            "http://notlocalhost",
            "http://127.0.0.1.example.org",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_as_a_date() {
        let retry_after =
            |value: &str| retry_after(&[(RETRY_AFTER, value.parse().unwrap())].into_iter().collect());
        assert_eq!(retry_after(" 3 "), Some(Duration::from_secs(3)));
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(60));
        let wait = retry_after(&soon).unwrap();
        assert!(wait > Duration::from_secs(50) && wait <= Duration::from_secs(60), "{wait:?}");
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(["-5", "nan", "soon"].map(retry_after), [None; 3]);
    }
}
