//! The one HTTP client of the workspace. Requests to other machines go through the proxies of the environment, those to
//! this machine never do: a proxy would look for the address on its own machine, and gets to see keys and frames.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

pub use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{ClientBuilder, IntoUrl, RequestBuilder, Url};
use tokio::time::{Instant, timeout_at};

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

/// Time that a server on this machine has for an answer to [`request`].
const ANSWER: Duration = Duration::from_secs(10);
/// Bytes of it that are read.
const MAX_ANSWER: usize = 4 << 20;

/// Asks a server on this machine for `/health`. A 404 counts as healthy: not every server has that path. A 503 does not:
/// vLLM answers it once its engine is dead, SGLang while it starts or ends and when it generates no token in time.
///
/// # Errors
/// No answer in time, or one of 500 and above.
pub fn health(server: SocketAddr) -> Result<(), String> {
    match request(server, Method::GET, "/health", "")? {
        (code, _) if code < 500 => Ok(()),
        (code, _) => Err(format!("status {code}")),
    }
}

/// Status and body of the answer of a server on this machine, for callers that do nothing else meanwhile. Of a body
/// without end no more is waited for or kept than a limit.
///
/// # Errors
/// No connection, no answer in time, or one that is not HTTP.
pub fn request(server: SocketAddr, method: Method, path: &str, body: &str) -> Result<(u16, String), String> {
    let asked = request_within(ANSWER, server, method, path, body.to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    // A thread of its own: the caller's may already be one of a runtime.
    let answer = std::thread::scope(|scope| scope.spawn(|| runtime.block_on(asked)).join());
    answer.unwrap_or_else(|_| Err("the request panicked".to_owned()))
}

async fn request_within(
    limit: Duration,
    server: SocketAddr,
    method: Method,
    path: &str,
    body: String,
) -> Result<(u16, String), String> {
    let until = Instant::now() + limit;
    let client = Client::new(|builder| builder)?;
    let request = client.own.request(method, format!("http://{server}{path}"));
    let sent = request.header(CONTENT_TYPE, "application/json").body(body).send();
    let response = timeout_at(until, sent).await.map_err(|_| "no answer in time".to_owned())?;
    let mut response = response.map_err(|error| causes(&error))?;
    let mut answer = Vec::new();
    while answer.len() < MAX_ANSWER
        && let Ok(Ok(Some(chunk))) = timeout_at(until, response.chunk()).await
    {
        answer.extend_from_slice(&chunk);
    }
    Ok((response.status().as_u16(), String::from_utf8_lossy(&answer).into_owned()))
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
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn this_machine_is_known_by_every_name() {
        let is_own = |url: &str| is_own(&Url::parse(url).unwrap());
        for own in [
            "http://localhost:8000/v1", "http://LOCALHOST./v1", "http://a.localhost/",
            "http://127.0.0.1:8000", "http://127.8.9.1", "http://127.1", "http://2130706433/",
            "http://[::1]:8000/v1", "http://[::ffff:127.0.0.1]/", "http://0.0.0.0:8000", "http://[::]:8000",
            "https://me:key@127.0.0.1",
        ] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "http://10.0.0.1", "https://huggingface.co", "http://notlocalhost",
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

    /// A server that gives each connection to a function.
    fn serving(serve: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || listener.incoming().for_each(|stream| serve(stream.unwrap())));
        address
    }

    fn answering(reply: &'static str) -> SocketAddr {
        serving(|mut stream| {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(reply.as_bytes());
        })
    }

    #[test]
    fn health_is_any_answer_but_a_failure_of_the_server() {
        assert_eq!(health(answering("HTTP/1.1 200 OK\r\n\r\n")), Ok(()));
        assert_eq!(health(answering("HTTP/1.1 404 Not Found\r\n\r\n")), Ok(()));
        assert_eq!(health(answering("HTTP/1.1 503 Busy\r\n\r\n")), Err("status 503".to_owned()));
        assert!(health(answering("SSH-2.0\r\n")).is_err());
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        assert!(health(closed).is_err());
    }

    #[test]
    fn an_answer_without_end_is_cut_off() {
        let endless = |head: &'static str, chunk: usize, pause: Duration| {
            serving(move |mut stream| {
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(head.as_bytes());
                while stream.write_all(&vec![b'x'; chunk]).is_ok() {
                    std::thread::sleep(pause);
                }
            })
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let within = |server| {
            let limit = Duration::from_millis(500);
            runtime.block_on(request_within(limit, server, Method::GET, "/health", String::new()))
        };
        let (slowly, body) = (Duration::from_millis(20), "HTTP/1.1 200 OK\r\n\r\n");
        assert!(
            within(endless(body, 1, slowly)).is_ok_and(|(code, text)| code == 200 && text.starts_with('x'))
        );
        let fast = within(endless(body, 1 << 20, Duration::ZERO)).unwrap();
        assert!(fast.0 == 200 && fast.1.len() < 2 * MAX_ANSWER);
        assert!(within(endless("HTTP/1.1 200 OK\r\nX: ", 1, slowly)).is_err(), "its head has no end");
    }
}
