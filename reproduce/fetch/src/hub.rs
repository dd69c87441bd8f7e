//! The hub's interface: a revision's commit, its files, and the bytes of a file.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, LINK, LOCATION, RANGE, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use sha1::Digest as _;
use url::Url;

use crate::error::FetchError;
use crate::names;
use crate::observer::{Event, Observer};
use crate::retry::{Retries, retry_after};
use crate::source::Kind;

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
/// Redirects from the hub to the bytes.
const MAX_REDIRECTS: usize = 5;
/// Bytes of one page of a listing, and of an error's body.
const MAX_PAGE: usize = 32 << 20;
const MAX_REFUSAL: usize = 4 << 10;
/// Files that a repository may have.
const MAX_FILES: usize = 2_000_000;
/// Bytes that they may have together: so many that no sum of them overflows.
const MAX_BYTES: u64 = 1 << 56;

/// An access token that no `Debug` output, error or log shows.
#[derive(Clone)]
pub struct Token(HeaderValue);

impl Token {
    /// Wraps a token; `None` where it is empty or no header can carry it.
    pub fn new(token: &str) -> Option<Self> {
        let token = token.trim();
        let mut value =
            HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| !token.is_empty())?;
        value.set_sensitive(true);
        Some(Self(value))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[token]")
    }
}

/// The hash that names a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Oid {
    /// SHA-256 of a file in large-file storage.
    Sha256(String),
    /// Git's SHA-1 of a small file.
    Git(String),
}

impl Oid {
    /// The hash in lower-case hexadecimal, also the name of the blob.
    pub fn name(&self) -> &str {
        match self {
            Oid::Sha256(hash) | Oid::Git(hash) => hash,
        }
    }

    /// Name of the algorithm.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Oid::Sha256(_) => "SHA-256",
            Oid::Git(_) => "git SHA-1",
        }
    }

    /// The same hash of the bytes that `read` yields until it is empty, `size` of them.
    pub(crate) fn of(
        &self,
        size: u64,
        mut read: impl FnMut(&mut [u8]) -> std::io::Result<usize>,
    ) -> std::io::Result<String> {
        let mut sha256 = sha2::Sha256::new();
        let mut sha1 = sha1::Sha1::new();
        sha1.update(format!("blob {size}\0").as_bytes());
        let mut buffer = vec![0; 1 << 20];
        loop {
            let length = read(&mut buffer)?;
            match self {
                _ if length == 0 => break,
                Oid::Sha256(_) => sha256.update(&buffer[..length]),
                Oid::Git(_) => sha1.update(&buffer[..length]),
            }
        }
        Ok(match self {
            Oid::Sha256(_) => hex(&sha256.finalize()),
            Oid::Git(_) => hex(&sha1.finalize()),
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file of a repository at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubFile {
    /// Path in the repository: relative, without `..`.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Hash of the bytes.
    pub oid: Oid,
}

impl HubFile {
    /// The path with slashes.
    pub fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    oid: String,
    #[serde(default)]
    size: u64,
    path: String,
    #[serde(default)]
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
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
    Passing { message: String, after: Option<Duration> },
    /// It will not.
    Final(FetchError),
}

impl Failure {
    pub(crate) fn passing(message: impl Into<String>) -> Self {
        Failure::Passing { message: message.into(), after: None }
    }

    pub(crate) fn transport(error: reqwest::Error) -> Self {
        // The address may be signed: it stays out of the message.
        let error = error.without_url();
        let mut message = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Failure::passing(message)
    }
}

impl Hub {
    /// A hub at an endpoint such as `https://huggingface.co`.
    ///
    /// # Errors
    /// The endpoint is not an HTTP address.
    pub fn new(endpoint: &str, token: Option<Token>, retries: Retries) -> Result<Self, FetchError> {
        // Only one provider is compiled in; a second call finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let wrong = || FetchError::invalid("HF_ENDPOINT", "expected an http or https address without query");
        let mut url = Url::parse(endpoint.trim_end_matches('/')).map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.host().is_none() {
            return Err(wrong());
        }
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        let client = Client::builder()
            .user_agent(concat!("paravt-bench/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            // Followed by hand: the token must not travel to another host.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| FetchError::invalid("HTTP client", error.without_url().to_string()))?;
        Ok(Self { client, endpoint: url, token, retries })
    }

    /// How often requests are tried.
    pub fn retries(&self) -> Retries {
        self.retries
    }

    fn address(&self, path: &str) -> Url {
        self.endpoint.join(path).expect("a relative path of escaped characters joins an endpoint")
    }

    /// The commit that a branch, tag or commit is.
    ///
    /// # Errors
    /// No access, no such repository or revision, or no connection.
    pub async fn commit(
        &self,
        kind: Kind,
        repo: &str,
        revision: &str,
        observer: &dyn Observer,
    ) -> Result<String, FetchError> {
        let escaped = utf8_percent_encode(revision, ESCAPED_REVISION);
        let url = self.address(&format!("api/{}/{repo}/revision/{escaped}", kind.plural()));
        let what = format!("{repo}@{revision}");
        let (body, _) = self.page(url, kind, repo, &what, observer).await?;
        let found: Revision =
            serde_json::from_slice(&body).map_err(|error| unlike(&what, "a revision", &body, &error))?;
        if !names::is_hex(&found.sha, 40) {
            return Err(FetchError::protocol(&what, "the hub names a commit that is not a SHA-1"));
        }
        Ok(found.sha)
    }

    /// Every file of a commit.
    ///
    /// # Errors
    /// No access, no connection, or a listing with names or hashes that no repository has.
    pub async fn files(
        &self,
        kind: Kind,
        repo: &str,
        commit: &str,
        observer: &dyn Observer,
    ) -> Result<Vec<HubFile>, FetchError> {
        let mut next =
            Some(self.address(&format!("api/{}/{repo}/tree/{commit}?recursive=true", kind.plural())));
        let mut files = Vec::new();
        let what = format!("file list of {repo}");
        while let Some(url) = next {
            let (body, link) = self.page(url.clone(), kind, repo, &what, observer).await?;
            let page: Vec<Entry> = serde_json::from_slice(&body)
                .map_err(|error| unlike(&what, "a list of files", &body, &error))?;
            for entry in page.into_iter().filter(|entry| entry.kind == "file") {
                files.push(hub_file(entry, &what)?);
            }
            if files.len() > MAX_FILES {
                return Err(FetchError::protocol(&what, format!("more than {MAX_FILES} files")));
            }
            if files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size)) > MAX_BYTES {
                return Err(FetchError::protocol(
                    &what,
                    "its sizes are of no repository: over 64 PiB in all",
                ));
            }
            next = link.and_then(|link| self.here(&url, &link));
            if next.as_ref() == Some(&url) {
                return Err(FetchError::protocol(&what, "a page names itself as the next one"));
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// Asks whether this account may download from a repository. Nothing is downloaded; a `file` that the
    /// repository does not have is not a refusal.
    ///
    /// # Errors
    /// No access, no such repository or revision, or no connection.
    pub async fn access(
        &self,
        kind: Kind,
        repo: &str,
        revision: &str,
        file: &str,
        observer: &dyn Observer,
    ) -> Result<(), FetchError> {
        let escaped = utf8_percent_encode(revision, ESCAPED_REVISION);
        let path = utf8_percent_encode(file, ESCAPED);
        let url = self.address(&format!("{}{repo}/resolve/{escaped}/{path}", kind.prefix()));
        let what = format!("{repo}@{revision}");
        let mut failures = 0;
        loop {
            match self.head(url.clone(), kind, repo, &what).await {
                Ok(()) => return Ok(()),
                Err(failure) => self.wait(failure, &mut failures, &what, observer).await?,
            }
        }
    }

    async fn head(&self, url: Url, kind: Kind, repo: &str, what: &str) -> Result<(), Failure> {
        let mut request = self.client.head(url);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.0.clone());
        }
        let mut response = request.send().await.map_err(Failure::transport)?;
        let status = response.status();
        let has_no_file = status == StatusCode::NOT_FOUND
            && response.headers().get("x-error-code").is_some_and(|code| code == "EntryNotFound");
        // A redirect leads to the bytes: only those who may have them get one.
        if status.is_success() || status.is_redirection() || has_no_file {
            return Ok(());
        }
        Err(self.refusal(&mut response, true, kind, repo, what).await)
    }

    /// A linked address on the endpoint: mirrors pass on links to the hub that they mirror.
    fn here(&self, from: &Url, link: &str) -> Option<Url> {
        let linked = from.join(link).ok()?;
        let path = linked.path().strip_prefix(self.endpoint.path()).unwrap_or(linked.path());
        let mut here = self.endpoint.join(path.trim_start_matches('/')).ok()?;
        here.set_query(linked.query());
        (here.origin() == self.endpoint.origin()).then_some(here)
    }

    /// A page of the interface and the address of the next one, with retries.
    async fn page(
        &self,
        url: Url,
        kind: Kind,
        repo: &str,
        what: &str,
        observer: &dyn Observer,
    ) -> Result<(Vec<u8>, Option<String>), FetchError> {
        let mut failures = 0;
        loop {
            let tried = async {
                let mut response = self.follow(url.clone(), None, kind, repo, what).await?.1;
                let next = next_page(response.headers());
                Ok((read(&mut response, MAX_PAGE).await?, next))
            };
            match tried.await {
                Ok(page) => return Ok(page),
                Err(failure) => self.wait(failure, &mut failures, what, observer).await?,
            }
        }
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

    /// The address that serves a file's bytes at a commit, on the hub itself.
    pub(crate) fn file_address(&self, kind: Kind, repo: &str, commit: &str, file: &HubFile) -> Url {
        let name = file.name();
        let path = utf8_percent_encode(&name, ESCAPED);
        self.address(&format!("{}{repo}/resolve/{commit}/{path}", kind.prefix()))
    }

    /// Requests an address and follows redirects; the token goes to the hub only. Returns where the bytes
    /// came from.
    pub(crate) async fn follow(
        &self,
        url: Url,
        range: Option<&str>,
        kind: Kind,
        repo: &str,
        what: &str,
    ) -> Result<(Url, Response), Failure> {
        let mut url = url;
        for _ in 0..=MAX_REDIRECTS {
            let own = url.origin() == self.endpoint.origin();
            let mut request = self.client.get(url.clone());
            if let Some(token) = self.token.as_ref().filter(|_| own) {
                request = request.header(AUTHORIZATION, token.0.clone());
            }
            if let Some(range) = range {
                request = request.header(RANGE, range);
            }
            let mut response = request.send().await.map_err(Failure::transport)?;
            let status = response.status();
            if status.is_redirection() {
                url = self.target(&url, response.headers(), what)?;
                continue;
            }
            if status.is_success() {
                return Ok((url, response));
            }
            return Err(self.refusal(&mut response, own, kind, repo, what).await);
        }
        Err(Failure::Final(FetchError::protocol(what, format!("more than {MAX_REDIRECTS} redirects"))))
    }

    fn target(&self, from: &Url, headers: &HeaderMap, what: &str) -> Result<Url, Failure> {
        let wrong = |message: &str| Failure::Final(FetchError::protocol(what, message));
        let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let location = location.ok_or_else(|| wrong("a redirect without an address"))?;
        let to = from.join(location).map_err(|_| wrong("a redirect to something that is not an address"))?;
        match (from.scheme(), to.scheme()) {
            ("https", "https") | ("http", "http" | "https") => Ok(to),
            _ => Err(wrong("a redirect from https to an unprotected address; not followed")),
        }
    }

    /// What a refused request means and what to do about it.
    async fn refusal(
        &self,
        response: &mut Response,
        own: bool,
        kind: Kind,
        repo: &str,
        what: &str,
    ) -> Failure {
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?));
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let code = header("x-error-code").unwrap_or_default().to_owned();
        let said = read(response, MAX_REFUSAL).await.unwrap_or_default();
        let page = format!("{}{}{repo}", self.endpoint, kind.prefix());
        let access = |message: String| Failure::Final(FetchError::Access { repo: repo.to_owned(), message });
        let missing =
            |message: String| Failure::Final(FetchError::NotFound { repo: repo.to_owned(), message });
        let retried = status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT
            || status.is_server_error();
        match status {
            // A signed address that has run out is asked for again.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::GONE
                if !own =>
            {
                Failure::Passing { message: format!("the storage server refused with {status}"), after }
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if code == "GatedRepo" => {
                access(match &self.token {
                    None => format!(
                        "gated: accept the terms at {page}, then set HF_TOKEN to a token of that account ({status})"
                    ),
                    Some(_) => format!(
                        "gated, and the account of HF_TOKEN has no access yet: accept the terms at {page} (some owners approve by hand) ({status})"
                    ),
                })
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => access(match &self.token {
                None => format!(
                    "not public, or it does not exist: see {page}, set HF_TOKEN where an account is needed ({status})"
                ),
                Some(_) => format!(
                    "the account of HF_TOKEN has no access, or HF_TOKEN is no longer valid: see {page} ({status})"
                ),
            }),
            StatusCode::NOT_FOUND if code == "RevisionNotFound" => {
                Failure::Final(FetchError::NoRevision { revision: what.to_owned(), page })
            }
            StatusCode::NOT_FOUND => missing(match code.as_str() {
                "EntryNotFound" => format!("no such file: {what}"),
                _ => format!("no such repository: see {page}; a private one needs HF_TOKEN ({what})"),
            }),
            _ if retried => Failure::Passing { message: format!("{status}"), after },
            _ => {
                let said: String =
                    String::from_utf8_lossy(&said).split_whitespace().collect::<Vec<_>>().join(" ");
                let said: String = self.without_token(&said).chars().take(200).collect();
                Failure::Final(FetchError::protocol(what, format!("{status} {said}")))
            }
        }
    }

    /// A server's text may repeat what was sent.
    fn without_token(&self, text: &str) -> String {
        let token = self.token.as_ref().and_then(|token| token.0.to_str().ok()?.strip_prefix("Bearer "));
        token.map_or(text.to_owned(), |token| text.replace(token, "[token]"))
    }
}

/// A whole body of at most `limit` bytes.
async fn read(response: &mut Response, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Failure::transport)? {
        if body.len() + chunk.len() > limit {
            return Err(Failure::Final(FetchError::protocol("reply", format!("larger than {limit} bytes"))));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// A reply that is not what was asked for: often the page of a proxy or a login.
fn unlike(what: &str, wanted: &str, body: &[u8], error: &serde_json::Error) -> FetchError {
    if body.trim_ascii_start().starts_with(b"<") {
        let message = format!("a web page came in the place of {wanted}: check HF_ENDPOINT and the proxy");
        return FetchError::protocol(what, message);
    }
    FetchError::protocol(what, format!("not {wanted} of a repository: {error}"))
}

fn hub_file(entry: Entry, what: &str) -> Result<HubFile, FetchError> {
    let path = names::relative(entry.path.as_bytes(), false)
        .map_err(|reason| FetchError::protocol(what, format!("`{}`: {reason}", entry.path)))?;
    let (oid, size) = match entry.lfs {
        Some(lfs) => (Oid::Sha256(lfs.oid), lfs.size),
        None => (Oid::Git(entry.oid), entry.size),
    };
    let length = if matches!(oid, Oid::Sha256(_)) { 64 } else { 40 };
    if !names::is_hex(oid.name(), length) {
        let message = format!("`{}` is listed without a {}", entry.path, oid.algorithm());
        return Err(FetchError::protocol(what, message));
    }
    Ok(HubFile { path, size, oid })
}

/// The address in `Link: <…>; rel="next"`.
fn next_page(headers: &HeaderMap) -> Option<String> {
    let links = headers.get(LINK)?.to_str().ok()?;
    links.split(',').find_map(|link| {
        let (address, relation) = link.split_once('>')?;
        relation.contains("rel=\"next\"").then(|| address.trim().trim_start_matches('<').to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_read_from_the_link_header() {
        let mut headers = HeaderMap::new();
        headers.insert(
            LINK,
            HeaderValue::from_static("<https://h/a?x=1>; rel=\"prev\", <https://h/b?c=2>; rel=\"next\""),
        );
        assert_eq!(next_page(&headers).as_deref(), Some("https://h/b?c=2"));
        headers.insert(LINK, HeaderValue::from_static("<https://h/a>; rel=\"prev\""));
        assert_eq!(next_page(&headers), None);
    }

    #[test]
    fn listed_files_have_plain_names_and_real_hashes() {
        let entry = |path: &str, oid: &str, lfs: Option<&str>| Entry {
            kind: "file".into(),
            oid: oid.into(),
            size: 3,
            path: path.into(),
            lfs: lfs.map(|oid| Lfs { oid: oid.into(), size: 9 }),
        };
        let sha1 = "a".repeat(40);
        let sha256 = "b".repeat(64);
        let small = hub_file(entry("a/b.json", &sha1, None), "x").unwrap();
        assert_eq!((small.size, small.oid), (3, Oid::Git(sha1.clone())));
        let large = hub_file(entry("v.zip", &sha1, Some(&sha256)), "x").unwrap();
        assert_eq!((large.size, large.oid), (9, Oid::Sha256(sha256)));
        for wrong in [
            entry("../a", &sha1, None),
            entry("/a", &sha1, None),
            entry("a", "../../x", None),
            entry("a", &sha1, Some("../../../../home/x")),
            entry("a", "", None),
        ] {
            assert!(hub_file(wrong, "x").is_err());
        }
    }

    #[test]
    fn tokens_are_not_printed_and_endpoints_are_checked() {
        let token = Token::new(" hf_secret\n").unwrap();
        assert_eq!(format!("{token:?}"), "[token]");
        assert!(Token::new("  ").is_none() && Token::new("a\nb").is_none());
        let hub = Hub::new("http://h:1/mirror", Some(token), Retries::default()).unwrap();
        assert!(!format!("{hub:?}").contains("secret"));
        assert_eq!(hub.address("api/x").as_str(), "http://h:1/mirror/api/x");
        assert_eq!(hub.without_token("bad hf_secret"), "bad [token]");
        for wrong in ["", "huggingface.co", "file:///x", "http://h?x=1"] {
            assert!(Hub::new(wrong, None, Retries::default()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn git_hashes_count_the_length() {
        let oid = Oid::Git(String::new());
        let mut rest: &[u8] = b"hello\n";
        let found = oid.of(6, |buffer| std::io::Read::read(&mut rest, buffer)).unwrap();
        assert_eq!(found, "ce013625030ba8dba906f756967f9e9ca394464a", "git hash-object");
    }
}
