//! `paravt-bench report --serve`: runs while they run, for the browser of the user who runs them.
//!
//! Reads only, listens on the loopback address alone, under a path that other users of the machine do not know, and answers
//! only requests that name the address as their host: a foreign page whose name resolves to this machine (DNS rebinding)
//! reads nothing.

use std::convert::Infallible;
use std::fs::File;
use std::io::Read as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use paravt_reports::{Damaged, ReportError, Run, page, readable_runs};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::exit::Exit;
use crate::launch;

/// Connections at once; further ones wait.
const CONNECTIONS: usize = 64;
/// Time for the headers of a request, and for all of a connection with the reading of long journals.
const HEADERS: Duration = Duration::from_secs(3);
const CONNECTION: Duration = Duration::from_secs(600);
/// Time before the next try where no connection can be taken, for want of files for example.
const PAUSE: Duration = Duration::from_secs(1);
/// A page is read again after this time at the earliest, or after so many times what reading took: long journals do not
/// take the machine from the run.
const FRESH: Duration = Duration::from_secs(2);
const SHARE: u32 = 10;

/// The runs, and their latest page.
struct Live {
    paths: Vec<PathBuf>,
    port: u16,
    /// Of the address; nobody guesses it.
    path: String,
    latest: Mutex<Option<(Instant, String)>>,
}

/// Shows the runs until Ctrl-C.
pub(super) fn serve(paths: &[PathBuf], port: u16) -> anyhow::Result<Exit> {
    // A folder may have no run yet, but a name that is wrong is said before anybody opens a browser.
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        return Err(ReportError::NoRun(missing.clone()).into());
    }
    let path = secret_path().context("/dev/urandom: no random address")?;
    launch::runtime()?.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.with_context(|| {
            format!("cannot listen on 127.0.0.1:{port}; name a free port with --serve=PORT")
        })?;
        let port = listener.local_addr().context("cannot read the port")?.port();
        eprintln!("http://127.0.0.1:{port}{path} shows the runs; Ctrl-C ends it");
        let live = Arc::new(Live { paths: paths.to_vec(), port, path, latest: Mutex::default() });
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let place = Arc::clone(&places).acquire_owned().await?;
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(converse(stream, Arc::clone(&live), place))),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    })
}

fn secret_path() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("/{}", paravt_files::hex(&bytes)))
}

/// Answers one request of a connection.
async fn converse(stream: TcpStream, live: Arc<Live>, _place: OwnedSemaphorePermit) {
    let service = service_fn(|request| {
        let live = Arc::clone(&live);
        async { Ok::<_, Infallible>(answer(live, request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADERS).keep_alive(false);
    // Whoever breaks off has no answer to wait for.
    let _ = tokio::time::timeout(CONNECTION, server.serve_connection(TokioIo::new(stream), service)).await;
}

async fn answer(live: Arc<Live>, request: Request<Incoming>) -> Response<String> {
    let (status, text) = if !is_local(request.headers(), live.port) {
        (StatusCode::FORBIDDEN, "open http://127.0.0.1 by that name".to_owned())
    } else if request.uri().path() != live.path {
        (StatusCode::NOT_FOUND, "open the whole address that `report --serve` printed".to_owned())
    } else if ![Method::GET, Method::HEAD].contains(request.method()) {
        (StatusCode::METHOD_NOT_ALLOWED, "GET it".to_owned())
    } else {
        let read = tokio::task::spawn_blocking(move || live.page()).await;
        match read.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(page) => (StatusCode::OK, page),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error),
        }
    };
    let kind =
        if status == StatusCode::OK { "text/html; charset=utf-8" } else { "text/plain; charset=utf-8" };
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Whether a request names this machine's own address as its host.
fn is_local(headers: &HeaderMap, port: u16) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host.is_some_and(|host| ["127.0.0.1", "localhost"].iter().any(|name| host == format!("{name}:{port}")))
}

impl Live {
    fn page(&self) -> Result<String, String> {
        // One reader at a time: others wait for what it reads.
        let mut latest = self.latest.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((until, page)) = &*latest
            && Instant::now() < *until
        {
            return Ok(page.clone());
        }
        let start = Instant::now();
        let (runs, damaged) =
            runs_so_far(&self.paths).map_err(|error| without_paths(&error.to_string(), &self.paths))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let page = page::live(&runs, &damaged, now).map_err(|error| error.to_string())?;
        let until = Instant::now() + FRESH.max(start.elapsed() * SHARE);
        *latest = Some((until, page.clone()));
        Ok(page)
    }
}

/// The runs that are there; folders without one are passed over.
fn runs_so_far(paths: &[PathBuf]) -> Result<(Vec<Run>, Vec<Damaged>), ReportError> {
    let mut paths = paths.to_vec();
    loop {
        match readable_runs(&paths) {
            Err(ReportError::NoRun(empty)) => paths.retain(|path| *path != empty),
            read => return read,
        }
    }
}

/// An error without the folders of this machine.
fn without_paths(error: &str, paths: &[PathBuf]) -> String {
    let name =
        |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    paths.iter().fold(error.to_owned(), |error, path| error.replace(&*path.to_string_lossy(), &name(path)))
}
