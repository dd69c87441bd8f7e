//! `paravt-bench report --serve`: runs while they run, for a browser on this machine.
//!
//! Reads only, listens on the loopback address alone, and answers only requests that name it as their host: a foreign
//! page whose name resolves to this machine (DNS rebinding) reads nothing.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Html;
use axum::routing::get;
use paravt_reports::{Damaged, ReportError, Run, page, readable_runs};
use tokio::net::TcpListener;

use crate::exit::Exit;
use crate::launch;

/// A page is read again after this time at the earliest, or after so many times what reading took: long journals do not
/// take the machine from the run.
const FRESH: Duration = Duration::from_secs(2);
const SHARE: u32 = 10;

/// The runs, and their latest page.
struct Live {
    paths: Vec<PathBuf>,
    port: u16,
    latest: Mutex<Option<(Instant, String)>>,
}

/// Shows the runs until Ctrl-C.
pub(super) fn serve(paths: &[PathBuf], port: u16) -> anyhow::Result<Exit> {
    // A folder may have no run yet, but a name that is wrong is said before anybody opens a browser.
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        return Err(ReportError::NoRun(missing.clone()).into());
    }
    launch::runtime()?.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.with_context(|| {
            format!("cannot listen on 127.0.0.1:{port}; name a free port with --serve=PORT")
        })?;
        let port = listener.local_addr().context("cannot read the port")?.port();
        eprintln!("http://127.0.0.1:{port}/ shows the runs; Ctrl-C ends it");
        let live = Live { paths: paths.to_vec(), port, latest: Mutex::default() };
        let router = Router::new().route("/", get(show)).with_state(Arc::new(live));
        axum::serve(listener, router).await.context("the server stopped")
    })?;
    Ok(Exit::Ok)
}

/// What the server answers with instead of a page.
type Refusal = (StatusCode, String);

async fn show(State(live): State<Arc<Live>>, headers: HeaderMap) -> Result<Html<String>, Refusal> {
    if !is_local(&headers, live.port) {
        return Err((StatusCode::FORBIDDEN, "open http://127.0.0.1 by that name".to_owned()));
    }
    let failed = |error: String| (StatusCode::INTERNAL_SERVER_ERROR, error);
    let read = tokio::task::spawn_blocking(move || live.page());
    read.await.map_err(|error| failed(error.to_string()))?.map(Html).map_err(failed)
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
