//! A chat completions server that answers at once, for measuring the harness without a model.
//!
//! `instant_server PORT` prints its address and serves until killed. It reads each body whole and
//! does not look inside, so that what is measured is the client.

use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned());
    let app = Router::new()
        .route("/health", get(|| async { "ok" }))
        .route("/v1/models", get(|| async { Json(json!({"object": "list", "data": [{"id": "instant"}]})) }))
        .route("/v1/chat/completions", post(answer))
        .layer(DefaultBodyLimit::disable());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("http://{}/v1", listener.local_addr()?);
    axum::serve(listener, app).await
}

async fn answer(body: Bytes) -> Json<serde_json::Value> {
    Json(json!({
        "id": "x", "object": "chat.completion", "created": 0, "model": "instant",
        "choices": [{"index": 0, "finish_reason": "stop",
                     "message": {"role": "assistant", "content": "<answer>B</answer>"}}],
        "usage": {"prompt_tokens": body.len(), "completion_tokens": 1, "total_tokens": body.len() + 1},
    }))
}
