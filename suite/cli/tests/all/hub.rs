//! Models by name: from a hub at a pinned revision, then from its cache without one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use crate::common::{bench, text};
use axum::Router;
use axum::extract::{Path as UrlPath, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::json;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The parts of the hub's HTTP interface that a download uses.
struct Hub {
    folder: PathBuf,
    requests: AtomicUsize,
}

async fn info(
    State(hub): State<Arc<Hub>>,
    UrlPath((owner, name, revision)): UrlPath<(String, String, String)>,
) -> Response {
    hub.requests.fetch_add(1, Ordering::SeqCst);
    if (owner.as_str(), name.as_str(), revision.as_str()) != ("tiny", "model", "v1") {
        return (StatusCode::NOT_FOUND, "Repository not found").into_response();
    }
    let files = std::fs::read_dir(&hub.folder).unwrap();
    let files = files.map(|file| json!({"rfilename": file.unwrap().file_name().into_string().unwrap()}));
    axum::Json(json!({"sha": COMMIT, "siblings": files.collect::<Vec<_>>()})).into_response()
}

async fn file(
    State(hub): State<Arc<Hub>>,
    UrlPath((_, _, _, name)): UrlPath<(String, String, String, String)>,
    headers: HeaderMap,
) -> Response {
    hub.requests.fetch_add(1, Ordering::SeqCst);
    let bytes = std::fs::read(hub.folder.join(&name)).unwrap();
    let total = bytes.len();
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok()?.strip_prefix("bytes="));
    let (start, end) = match range.and_then(|range| range.split_once('-')) {
        Some((start, end)) => {
            (start.parse().unwrap(), end.parse::<usize>().unwrap_or(total - 1).min(total - 1))
        }
        None => (0, total - 1),
    };
    let fields = [
        (header::ETAG, format!("\"{name}\"")),
        (header::CONTENT_RANGE, format!("bytes {start}-{end}/{total}")),
    ];
    let status =
        if headers.contains_key(header::RANGE) { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    (status, fields, [("x-repo-commit", COMMIT)], bytes[start..=end].to_vec()).into_response()
}

fn serve(folder: PathBuf) -> (String, Arc<Hub>, tokio::runtime::Runtime) {
    let hub = Arc::new(Hub { folder, requests: AtomicUsize::new(0) });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (sender, address) = mpsc::channel();
    let state = Arc::clone(&hub);
    runtime.spawn(async move {
        let routes = Router::new()
            .route("/api/models/{owner}/{name}/revision/{revision}", get(info))
            .route("/{owner}/{name}/resolve/{revision}/{file}", get(file))
            .with_state(state);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        sender.send(listener.local_addr().unwrap()).unwrap();
        axum::serve(listener, routes).await.unwrap();
    });
    (format!("http://{}", address.recv().unwrap()), hub, runtime)
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_model_is_fetched_once_at_its_revision_and_then_read_offline() {
    let dir = tempfile::tempdir().unwrap();
    let python =
        std::env::var("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/tiny_qwen3vl.py");
    let made = Command::new(python).arg(script).arg(dir.path().join("model")).output().unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let messages = dir.path().join("messages.json");
    std::fs::write(&messages, json!([{"role": "user", "content": "A or B?"}]).to_string()).unwrap();
    let (endpoint, hub, _runtime) = serve(dir.path().join("model"));
    let ask = |model: &str, revision: &str, offline: &str| -> Output {
        let mut command = bench();
        command.args(["generate", "--backend", "candle", "--max-tokens", "3", "--model", model]);
        command.args(["--revision", revision, "--messages"]).arg(&messages);
        command
            .env("HF_ENDPOINT", &endpoint)
            .env("HF_HOME", dir.path().join("hub"))
            .env("HF_HUB_OFFLINE", offline);
        command.output().unwrap()
    };
    let before = ask("tiny/model", "v1", "1");
    assert_eq!(before.status.code(), Some(3), "{}", text(&before));
    assert!(text(&before).contains("HF_HUB_OFFLINE"), "{}", text(&before));
    let fetched = ask("tiny/model", "v1", "0");
    assert!(fetched.status.success(), "{}", text(&fetched));
    let asked = hub.requests.load(Ordering::SeqCst);
    assert!(asked > 5, "{asked} requests");
    let cached = ask("tiny/model", "v1", "1");
    assert!(cached.status.success(), "{}", text(&cached));
    assert_eq!(cached.stdout, fetched.stdout);
    assert_eq!(
        hub.requests.load(Ordering::SeqCst),
        asked,
        "what the cache holds whole is not asked for again"
    );
    let unknown = ask("tiny/model", "v2", "0");
    assert_eq!(unknown.status.code(), Some(3), "{}", text(&unknown));
    assert!(text(&unknown).contains("the hub says"), "{}", text(&unknown));
}
