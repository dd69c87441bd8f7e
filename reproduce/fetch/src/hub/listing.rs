//! What the hub lists: the commit of a revision, and the files of a commit.

use std::collections::HashSet;

use percent_encoding::utf8_percent_encode;
use reqwest::header::{HeaderMap, LINK};
use serde::Deserialize;
use url::Url;

use super::requests::read;
use super::{ESCAPED_REVISION, Hub};
use crate::error::FetchError;
use crate::names;
use crate::observer::Observer;
use crate::repository::{HubFile, Oid, RepoType};

/// Bytes of one page of a listing.
const MAX_PAGE: usize = 32 << 20;
/// Files that a repository may have.
const MAX_FILES: usize = 2_000_000;
/// Pages of their list; the hub's have 1,000 entries.
const MAX_PAGES: usize = MAX_FILES / 1000;
/// Pages in a row with folders alone.
const MAX_BARREN: usize = 50;
/// Bytes that they may have together: so many that no sum of them overflows.
const MAX_BYTES: u64 = 1 << 56;

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

impl Hub {
    /// The commit that a branch, tag or commit is.
    ///
    /// # Errors
    /// No access, no such repository or revision, or no connection.
    pub async fn commit(
        &self,
        kind: RepoType,
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
        kind: RepoType,
        repo: &str,
        commit: &str,
        observer: &dyn Observer,
    ) -> Result<Vec<HubFile>, FetchError> {
        let mut next =
            Some(self.address(&format!("api/{}/{repo}/tree/{commit}?recursive=true", kind.plural())));
        let (mut files, mut paths) = (Vec::new(), HashSet::new());
        let (mut asked, mut barren) = (HashSet::new(), 0);
        let what = format!("file list of {repo}");
        while let Some(url) = next {
            if !asked.insert(url.clone()) {
                return Err(FetchError::protocol(&what, "a page of the list follows itself"));
            }
            if asked.len() > MAX_PAGES {
                return Err(FetchError::protocol(&what, format!("more than {MAX_PAGES} pages")));
            }
            let (body, link) = self.page(url.clone(), kind, repo, &what, observer).await?;
            let page: Vec<Entry> = serde_json::from_slice(&body)
                .map_err(|error| unlike(&what, "a list of files", &body, &error))?;
            let before = files.len();
            for entry in page.into_iter().filter(|entry| entry.kind == "file") {
                let file = hub_file(entry, &what)?;
                if !paths.insert(file.path.clone()) {
                    let path = file.path.display();
                    return Err(FetchError::protocol(&what, format!("`{path}` is listed twice")));
                }
                files.push(file);
            }
            // A list that does not get longer need not end.
            barren = if files.len() > before { 0 } else { barren + 1 };
            if barren > MAX_BARREN {
                return Err(FetchError::protocol(&what, format!("{barren} pages in a row without a file")));
            }
            if files.len() > MAX_FILES {
                return Err(FetchError::protocol(&what, format!("more than {MAX_FILES} files")));
            }
            if files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size)) > MAX_BYTES {
                return Err(FetchError::protocol(&what, "the listed sizes add up to over 64 PiB"));
            }
            next = link.and_then(|link| self.here(&url, &link));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
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
        kind: RepoType,
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
}

/// A reply that is not what was asked for: often the page of a proxy or a login.
fn unlike(what: &str, wanted: &str, body: &[u8], error: &serde_json::Error) -> FetchError {
    if body.trim_ascii_start().starts_with(b"<") {
        let message = format!("expected {wanted}, got a web page: check HF_ENDPOINT and the proxy");
        return FetchError::protocol(what, message);
    }
    FetchError::protocol(what, format!("not {wanted}: {error}"))
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
    use reqwest::header::HeaderValue;

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
}
