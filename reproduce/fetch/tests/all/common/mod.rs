//! A hub on this machine: listings, gates, redirects to a storage server under another name, ranges, faults.
#![allow(dead_code, reason = "the command's tests share it")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path as UrlPath, RawQuery, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use paravt_fetch::{Hub, RepoType, Retries, Source, Token, Unpack};
use serde_json::json;
use sha1::Digest as _;

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub(crate) const TOKEN: &str = "hf_a_token_of_a_test";

/// A source in one repository: rows, loose files, and videos in the archives `part_*.zip`.
pub(crate) fn source(annotations: &str, loose: &str) -> Source {
    Source {
        name: "bench".into(),
        kind: RepoType::Dataset,
        repos: vec!["tiny/bench".into()],
        revision: "main".into(),
        annotations: vec![annotations.into()],
        loose: vec![loose.into()],
        archives: vec![Unpack {
            files: "part_*.zip".into(),
            into: "bench/videos".into(),
            flatten: true,
            pictures: None,
        }],
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// Replies of bytes that end after so many bytes.
    pub drop_after: Option<usize>,
    /// Replies of bytes that are dropped so; then they are whole.
    pub drops: usize,
    /// Replies with 429 and `Retry-After: 0` before the first real one.
    pub busy: usize,
    /// Bytes of this file come with one of them changed, so many times.
    pub corrupt: Option<(String, usize)>,
    /// This file is shorter than listed by so many bytes.
    pub short: Option<(String, usize)>,
    pub no_ranges: bool,
    /// Files need a token; with one, `accepted` says whether the terms were.
    pub gated: bool,
    /// Whether the account has access.
    pub accepted: bool,
    /// Signed addresses work so many times.
    pub address_uses: Option<usize>,
    /// The storage answers so, so many times before each real reply of a range.
    pub refused: Option<(u16, &'static str, usize)>,
    /// The storage is on the hub's own address.
    pub storage_here: bool,
    /// Pause after each piece of 64 KiB.
    pub slow: Option<Duration>,
    /// Every file is listed with so many bytes.
    pub listed: Option<u64>,
    /// A web page comes in the place of a revision, with code 200.
    pub web_page: bool,
    /// Lists of files have so many pages before the first comes again, each with one entry of this kind or none.
    pub endless: Option<(usize, &'static str)>,
}

pub(crate) struct Served {
    /// `OWNER/NAME` of the one repository.
    pub repo: String,
    pub files: BTreeMap<String, Vec<u8>>,
    pub faults: Mutex<Faults>,
    /// Port, once known.
    port: Mutex<u16>,
    /// Requests of bytes at the storage server.
    pub reads: AtomicUsize,
    /// Bytes asked for at the storage server.
    pub ranges: Mutex<Vec<(String, Option<String>)>>,
    /// Requests that carried a token to the storage server.
    pub leaked: AtomicUsize,
    /// Requests to the hub itself.
    pub asked: AtomicUsize,
    uses: Mutex<BTreeMap<String, usize>>,
}

pub(crate) struct TestHub {
    pub endpoint: String,
    pub served: Arc<Served>,
    _runtime: tokio::runtime::Runtime,
}

/// Files above this size are in large-file storage.
const LARGE: usize = 1000;
const PAGE: usize = 3;

pub(crate) fn sha256(bytes: &[u8]) -> String {
    paravt_files::sha256(bytes)
}

pub(crate) fn git_oid(bytes: &[u8]) -> String {
    let mut hasher = sha1::Sha1::new();
    hasher.update(format!("blob {}\0", bytes.len()).as_bytes());
    hasher.update(bytes);
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn revision(
    State(hub): State<Arc<Served>>,
    UrlPath((_, owner, name, revision)): UrlPath<(String, String, String, String)>,
) -> Response {
    hub.asked.fetch_add(1, Ordering::SeqCst);
    if hub.faults.lock().unwrap().web_page {
        return axum::response::Html("<!DOCTYPE html><title>Log in</title>").into_response();
    }
    let missing = |code: &str| {
        (StatusCode::NOT_FOUND, [("x-error-code", code.to_owned())], "not found").into_response()
    };
    match (format!("{owner}/{name}"), revision.as_str()) {
        (repo, "main" | "v1" | COMMIT) if repo == hub.repo => {
            axum::Json(json!({"sha": COMMIT})).into_response()
        }
        (repo, _) if repo == hub.repo => missing("RevisionNotFound"),
        (repo, _) if repo == "tiny/private" => {
            (StatusCode::UNAUTHORIZED, [("x-error-code", "RepoNotFound")], "no").into_response()
        }
        _ => missing("RepoNotFound"),
    }
}

async fn tree(
    State(hub): State<Arc<Served>>,
    RawQuery(query): RawQuery,
    UrlPath((kind, owner, name, revision)): UrlPath<(String, String, String, String)>,
) -> Response {
    hub.asked.fetch_add(1, Ordering::SeqCst);
    assert_eq!(revision, COMMIT, "a listing is of a commit, not of a branch that may move");
    let query = query.unwrap();
    assert!(query.contains("recursive=true"), "{query}");
    let start = query.split_once("cursor=").map_or(0, |(_, at)| at.parse::<usize>().unwrap());
    let endless = hub.faults.lock().unwrap().endless;
    if let Some((pages, entries)) = endless {
        let link = format!("<?recursive=true&cursor={}>; rel=\"next\"", (start + 1) % pages);
        let entry = json!({"type": entries, "oid": git_oid(b"x"), "size": 1, "path": "x"});
        let page: Vec<_> = (!entries.is_empty()).then_some(entry).into_iter().collect();
        return ([(header::LINK, link)], axum::Json(page)).into_response();
    }
    let listed = hub.faults.lock().unwrap().listed;
    let entries = hub.files.iter().skip(start).take(PAGE).map(|(path, bytes)| {
        let size = listed.unwrap_or(bytes.len() as u64);
        let mut entry = json!({"type": "file", "oid": git_oid(bytes), "size": size, "path": path});
        if bytes.len() > LARGE {
            entry["lfs"] = json!({"oid": sha256(bytes), "size": size, "pointerSize": 134});
        }
        entry
    });
    let mut page: Vec<_> = entries.collect();
    page.push(json!({"type": "directory", "oid": "00", "size": 0, "path": "folder"}));
    let port = *hub.port.lock().unwrap();
    let mut headers = HeaderMap::new();
    if start + PAGE < hub.files.len() {
        let next = format!(
            "<http://127.0.0.1:{port}/api/{kind}/{owner}/{name}/tree/{COMMIT}?recursive=true&cursor={}>; rel=\"next\"",
            start + PAGE
        );
        headers.insert(header::LINK, next.parse().unwrap());
    }
    (headers, axum::Json(page)).into_response()
}

fn gate(hub: &Served, headers: &HeaderMap) -> Option<Response> {
    let faults = hub.faults.lock().unwrap();
    if !faults.gated {
        return None;
    }
    let token =
        headers.get(header::AUTHORIZATION).is_some_and(|value| value == format!("Bearer {TOKEN}").as_str());
    let status = match (token, faults.accepted) {
        (true, true) => return None,
        (true, false) => StatusCode::FORBIDDEN,
        (false, _) => StatusCode::UNAUTHORIZED,
    };
    Some((status, [("x-error-code", "GatedRepo")], format!("Bearer {TOKEN} has no access")).into_response())
}

async fn resolve(
    State(hub): State<Arc<Served>>,
    UrlPath((owner, name, revision, path)): UrlPath<(String, String, String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    hub.asked.fetch_add(1, Ordering::SeqCst);
    // Bytes are of a commit; whether they may be had is asked of a branch.
    assert!(revision == COMMIT || method == Method::HEAD);
    if format!("{owner}/{name}") != hub.repo {
        return (StatusCode::NOT_FOUND, [("x-error-code", "RepoNotFound")], "no").into_response();
    }
    if let Some(refused) = gate(&hub, &headers) {
        return refused;
    }
    let Some(bytes) = hub.files.get(&path) else {
        return (StatusCode::NOT_FOUND, [("x-error-code", "EntryNotFound")], "no").into_response();
    };
    if bytes.len() <= LARGE {
        return send(&hub, &path, &headers).await;
    }
    let port = *hub.port.lock().unwrap();
    // Another host name, as the hub's storage has.
    let host = if hub.faults.lock().unwrap().storage_here { "127.0.0.1" } else { "localhost" };
    let place = format!("http://{host}:{port}/storage/{path}?Signature=a-signed-secret");
    (StatusCode::FOUND, [(header::LOCATION, place)]).into_response()
}

async fn storage(
    State(hub): State<Arc<Served>>,
    UrlPath(path): UrlPath<String>,
    headers: HeaderMap,
) -> Response {
    let refused = hub.faults.lock().unwrap().refused;
    if let Some((status, said, times)) = refused {
        let mut uses = hub.uses.lock().unwrap();
        let used = uses.entry(format!("{path} {:?}", headers.get(header::RANGE))).or_default();
        *used += 1;
        if *used % (times + 1) != 0 {
            let range = headers.get(header::RANGE).map(|_| format!("bytes */{}", hub.files[&path].len()));
            let fields = range.map(|range| (header::CONTENT_RANGE, range.parse().unwrap()));
            let fields: HeaderMap = fields.into_iter().collect();
            return (StatusCode::from_u16(status).unwrap(), fields, said).into_response();
        }
    }
    if headers.contains_key(header::AUTHORIZATION) {
        hub.leaked.fetch_add(1, Ordering::SeqCst);
    }
    let limit = hub.faults.lock().unwrap().address_uses;
    if let Some(limit) = limit {
        let mut uses = hub.uses.lock().unwrap();
        let used = uses.entry(path.clone()).or_default();
        *used += 1;
        if *used % (limit + 1) == 0 {
            return (StatusCode::FORBIDDEN, "Request has expired").into_response();
        }
    }
    send(&hub, &path, &headers).await
}

async fn send(hub: &Served, path: &str, headers: &HeaderMap) -> Response {
    hub.reads.fetch_add(1, Ordering::SeqCst);
    let range = headers.get(header::RANGE).map(|range| range.to_str().unwrap().to_owned());
    hub.ranges.lock().unwrap().push((path.to_owned(), range.clone()));
    let mut faults = hub.faults.lock().unwrap();
    if faults.busy > 0 {
        faults.busy -= 1;
        return (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "0")], "slow down").into_response();
    }
    let mut bytes = hub.files[path].clone();
    if let Some((file, by)) = &faults.short
        && file == path
    {
        bytes.truncate(bytes.len() - by);
    }
    if let Some((file, times)) = &mut faults.corrupt
        && file == path
        && *times > 0
    {
        *times -= 1;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    }
    let total = bytes.len();
    let asked = range.filter(|_| !faults.no_ranges);
    let (status, start, end) =
        match asked.as_deref().and_then(|range| range.strip_prefix("bytes=")?.split_once('-')) {
            Some((start, end)) => {
                let end = end.parse::<usize>().unwrap_or(total - 1).min(total - 1);
                (StatusCode::PARTIAL_CONTENT, start.parse::<usize>().unwrap(), end + 1)
            }
            None => (StatusCode::OK, 0, total),
        };
    let mut fields = HeaderMap::new();
    if status == StatusCode::PARTIAL_CONTENT {
        fields.insert(header::CONTENT_RANGE, format!("bytes {start}-{}/{total}", end - 1).parse().unwrap());
    }
    fields.insert(header::CONTENT_LENGTH, (end - start).to_string().parse().unwrap());
    let body = bytes[start..end].to_vec();
    let cut = faults.drop_after.filter(|_| faults.drops > 0).map(|after| after.min(body.len()));
    if cut.is_some_and(|cut| cut < body.len()) {
        faults.drops -= 1;
    }
    let slow = faults.slow;
    drop(faults);
    (status, fields, stream(body, cut, slow)).into_response()
}

/// The body in pieces; an error after `cut` bytes, which closes the connection.
fn stream(body: Vec<u8>, cut: Option<usize>, slow: Option<Duration>) -> Body {
    let end = cut.unwrap_or(body.len());
    let broken = end < body.len();
    let pieces = futures::stream::unfold((body, 0), move |(body, at)| async move {
        if at >= end {
            return (broken && at == end)
                .then(|| (Err(std::io::Error::other("dropped")), (body, usize::MAX)));
        }
        if let Some(pause) = slow {
            tokio::time::sleep(pause).await;
        }
        let next = (at + (64 << 10)).min(end);
        let piece = Bytes::copy_from_slice(&body[at..next]);
        Some((Ok(piece), (body, next)))
    });
    Body::from_stream(pieces)
}

impl TestHub {
    pub(crate) fn start(files: &[(&str, Vec<u8>)], faults: Faults) -> Self {
        Self::start_as("tiny/bench", files, faults)
    }

    pub(crate) fn start_as(repo: &str, files: &[(&str, Vec<u8>)], faults: Faults) -> Self {
        let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect();
        let served = Arc::new(Served {
            repo: repo.to_owned(),
            files,
            faults: Mutex::new(faults),
            port: Mutex::new(0),
            reads: AtomicUsize::new(0),
            ranges: Mutex::default(),
            leaked: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            uses: Mutex::default(),
        });
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (sender, port) = mpsc::channel();
        let state = Arc::clone(&served);
        runtime.spawn(async move {
            let routes = Router::new()
                .route("/api/{kind}/{owner}/{name}/revision/{revision}", get(revision))
                .route("/api/{kind}/{owner}/{name}/tree/{revision}", get(tree))
                .route("/datasets/{owner}/{name}/resolve/{revision}/{*path}", get(resolve))
                .route("/{owner}/{name}/resolve/{revision}/{*path}", get(resolve))
                .route("/storage/{*path}", get(storage))
                .with_state(state);
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap().port()).unwrap();
            axum::serve(listener, routes).await.unwrap();
        });
        let port = port.recv().unwrap();
        *served.port.lock().unwrap() = port;
        Self { endpoint: format!("http://127.0.0.1:{port}"), served, _runtime: runtime }
    }

    pub(crate) fn client(&self, token: Option<&str>) -> Hub {
        let retries =
            Retries { tries: 6, pause: Duration::from_millis(5), longest: Duration::from_millis(50) };
        Hub::new(&self.endpoint, token.and_then(|token| Token::new("HF_TOKEN", token).unwrap()), retries)
            .unwrap()
    }

    pub(crate) fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.served.faults.lock().unwrap());
    }
}

/// Bytes that do not repeat, the same for a seed.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}

/// Zip archives with whatever members a test wants, broken ones too.
pub(crate) struct ZipMember<'a> {
    pub name: &'a [u8],
    pub bytes: &'a [u8],
    /// Unix mode with the file's type.
    pub mode: u32,
    pub deflate: bool,
    /// Instead of the real size and CRC-32.
    pub declared: Option<u64>,
    pub crc: Option<u32>,
    pub flags: u16,
}

impl<'a> ZipMember<'a> {
    pub(crate) fn new(name: &'a str, bytes: &'a [u8]) -> Self {
        Self {
            name: name.as_bytes(),
            bytes,
            mode: 0o100_644,
            deflate: false,
            declared: None,
            crc: None,
            flags: 0,
        }
    }
}

pub(crate) fn zip(members: &[ZipMember<'_>]) -> Vec<u8> {
    use std::io::Write as _;
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for member in members {
        let data = if member.deflate {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(member.bytes).unwrap();
            encoder.finish().unwrap()
        } else {
            member.bytes.to_vec()
        };
        let crc = member.crc.unwrap_or_else(|| crc32fast::hash(member.bytes));
        let size = member.declared.unwrap_or(member.bytes.len() as u64);
        let offset = out.len() as u32;
        // What local header and directory share: flags to the length of the name, then that of the extra field.
        let mut shared = Vec::new();
        shared.extend(member.flags.to_le_bytes());
        shared.extend((if member.deflate { 8_u16 } else { 0 }).to_le_bytes());
        shared.extend([0; 4]);
        shared.extend(crc.to_le_bytes());
        shared.extend((data.len() as u32).to_le_bytes());
        shared.extend((size as u32).to_le_bytes());
        shared.extend((member.name.len() as u16).to_le_bytes());
        shared.extend([0; 2]);
        out.extend(b"PK\x03\x04\x14\x00");
        out.extend(&shared);
        out.extend(member.name);
        out.extend(&data);
        directory.extend(b"PK\x01\x02\x14\x03\x14\x00");
        directory.extend(&shared);
        directory.extend([0; 6]);
        directory.extend((member.mode << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(member.name);
    }
    let start = out.len() as u32;
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend((members.len() as u16).to_le_bytes());
    out.extend((members.len() as u16).to_le_bytes());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    out
}

/// Every file below a folder with its bytes; the journals of unpacking left out.
pub(crate) fn files_below(folder: &std::path::Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                if path.file_name().unwrap() != ".paravt-fetch" {
                    open.push(path);
                }
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                found.insert(name, std::fs::read(&path).unwrap_or_default());
            }
        }
    }
    found
}
