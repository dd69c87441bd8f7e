//! Single requests to the hub: access, redirects to the bytes, what a refusal means.

use percent_encoding::utf8_percent_encode;
use reqwest::header::{AUTHORIZATION, HeaderMap, LOCATION, RANGE};
use reqwest::{Response, StatusCode};
use url::Url;

use super::{ESCAPED, ESCAPED_REVISION, Failure, Hub};
use crate::error::FetchError;
use crate::observer::Observer;
use crate::repository::{HubFile, RepoType};

/// Redirects from the hub to the bytes.
const MAX_REDIRECTS: usize = 5;
/// Bytes of an error's body.
const MAX_REFUSAL: usize = 4 << 10;
/// Characters of it that are shown.
const MAX_REASON: usize = 120;

impl Hub {
    /// Asks whether this account may download from a repository. Nothing is downloaded; a `file` that the
    /// repository does not have is not a refusal.
    ///
    /// # Errors
    /// No access, no such repository or revision, or no connection.
    pub async fn access(
        &self,
        kind: RepoType,
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

    async fn head(&self, url: Url, kind: RepoType, repo: &str, what: &str) -> Result<(), Failure> {
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
        Err(self.refusal(&mut response, kind, repo, what).await)
    }

    /// The address that serves a file's bytes at a commit, on the hub itself.
    pub(crate) fn file_address(&self, kind: RepoType, repo: &str, commit: &str, file: &HubFile) -> Url {
        let name = file.name();
        let path = utf8_percent_encode(&name, ESCAPED);
        self.address(&format!("{}{repo}/resolve/{commit}/{path}", kind.prefix()))
    }

    /// Requests an address and follows redirects; the token goes to the hub only. Returns where the bytes
    /// came from; a refused range comes back as a reply.
    pub(crate) async fn follow(
        &self,
        url: Url,
        range: Option<&str>,
        kind: RepoType,
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
            if status.is_success() || range.is_some() && status == StatusCode::RANGE_NOT_SATISFIABLE {
                return Ok((url, response));
            }
            return Err(match self.is_interface(&url) {
                true => self.refusal(&mut response, kind, repo, what).await,
                false => self.storage_refusal(&mut response).await,
            });
        }
        Err(Failure::Final(FetchError::protocol(what, format!("more than {MAX_REDIRECTS} redirects"))))
    }

    fn target(&self, from: &Url, headers: &HeaderMap, what: &str) -> Result<Url, Failure> {
        let wrong = |message: &str| Failure::Final(FetchError::protocol(what, message));
        let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let location = location.ok_or_else(|| wrong("a redirect without a Location"))?;
        let to = from.join(location).map_err(|_| wrong("a redirect to an invalid URL"))?;
        match (from.scheme(), to.scheme()) {
            ("https", "https") | ("http", "http" | "https") => Ok(to),
            (_, "http") => Err(wrong("a redirect from https to http; not followed")),
            (_, scheme) => Err(wrong(&format!("a redirect to {scheme}:, not followed"))),
        }
    }

    /// Whether an address is the hub's own and not of the storage, which a mirror may have on the same server.
    fn is_interface(&self, url: &Url) -> bool {
        let path = url.path().strip_prefix(self.endpoint.path()).unwrap_or_default();
        url.origin() == self.endpoint.origin() && (path.starts_with("api/") || path.contains("/resolve/"))
    }

    /// A refusal of the storage behind the hub. The hub has granted the file, so that a new address may do where this
    /// one is over or its server is not well.
    async fn storage_refusal(&self, response: &mut Response) -> Failure {
        let (status, after) = (response.status(), paravt_hub::http::retry_after(response.headers()));
        let said = read(response, MAX_REFUSAL).await.unwrap_or_default();
        let said = self.without_token(&storage_reason(&String::from_utf8_lossy(&said)));
        let said = if said.is_empty() { said } else { format!(" ({said})") };
        let clock =
            if said.contains("RequestTimeTooSkewed") { "; set the clock of this machine" } else { "" };
        Failure::Passing { message: format!("the storage server refused with {status}{said}{clock}"), after }
    }

    /// What a refused request means and what to do about it.
    async fn refusal(&self, response: &mut Response, kind: RepoType, repo: &str, what: &str) -> Failure {
        let status = response.status();
        let after = paravt_hub::http::retry_after(response.headers());
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
    pub(super) fn without_token(&self, text: &str) -> String {
        let token = self.token.as_ref().and_then(|token| token.0.to_str().ok()?.strip_prefix("Bearer "));
        token.map_or(text.to_owned(), |token| text.replace(token, "[token]"))
    }
}

/// What a storage server says: code and message of XML, the title of a web page, else its text. Other parts of XML may
/// repeat the signed address.
fn storage_reason(said: &str) -> String {
    let part = |tag: &str| {
        let (_, rest) = said.split_once(&format!("<{tag}>"))?;
        Some(rest.split_once('<')?.0.trim())
    };
    let reason = match (part("Code"), part("Message"), part("title").or(part("TITLE"))) {
        (Some(code), message, _) => format!("{code}: {}", message.unwrap_or("no message")),
        (None, _, Some(title)) => format!("a web page, {title}"),
        (None, ..) if said.trim_start().starts_with('<') => String::new(),
        (None, ..) => said.to_owned(),
    };
    reason.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_REASON).collect()
}

/// A whole body of at most `limit` bytes.
pub(super) async fn read(response: &mut Response, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Failure::transport)? {
        if body.len() + chunk.len() > limit {
            return Err(Failure::Final(FetchError::protocol("reply", format!("larger than {limit} bytes"))));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::Retries;

    #[test]
    fn what_storage_servers_say_is_shown_without_what_was_signed() {
        for (said, shown) in [
            (
                "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>Request has\n expired</Message>\
                 <Expires>1</Expires><StringToSign>secret</StringToSign></Error>",
                "AccessDenied: Request has expired",
            ),
            ("<Error><Code>SlowDown</Code></Error>", "SlowDown: no message"),
            ("<HTML><HEAD><TITLE>ERROR: The request</TITLE>", "a web page, ERROR: The request"),
            ("<html>", ""),
            ("Auth failed: invalid range", "Auth failed: invalid range"),
            ("", ""),
        ] {
            assert_eq!(storage_reason(said), shown);
        }
        assert_eq!(storage_reason(&"x".repeat(999)).len(), MAX_REASON);
    }

    #[test]
    fn the_hubs_own_addresses_are_told_from_those_of_its_storage() {
        let hub = Hub::new("https://hub/mirror", None, Retries::default()).unwrap();
        for (address, is_interface) in [
            ("https://hub/mirror/api/datasets/a/b/tree/c?recursive=true", true),
            ("https://hub/mirror/datasets/a/b/resolve/c/d.zip", true),
            ("https://hub/mirror/a/b/resolve/c/d.zip?download=true", true),
            ("https://hub/mirror/storage/d.zip?Signature=x", false),
            ("https://hub/storage/d.zip", false),
            ("https://cdn.hub/a/b/resolve/c/d.zip", false),
        ] {
            assert_eq!(hub.is_interface(&address.parse().unwrap()), is_interface, "{address}");
        }
    }

    #[test]
    fn a_redirect_that_is_not_followed_says_where_it_leads() {
        let hub = Hub::new("https://hub", None, Retries::default()).unwrap();
        let refused = |location: &'static str| {
            let headers = [(LOCATION, location.parse().unwrap())].into_iter().collect();
            match hub.target(&"https://hub/x".parse().unwrap(), &headers, "x") {
                Err(Failure::Final(error)) => error.to_string(),
                _ => panic!("{location} is followed"),
            }
        };
        assert!(refused("file:///etc/passwd").contains("a redirect to file:, not followed"));
        assert!(refused("ftp://hub/x").contains("a redirect to ftp:, not followed"));
        assert!(refused("http://hub/x").contains("from https to http"));
    }
}
