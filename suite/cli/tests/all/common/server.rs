//! A chat completions server whose answers are a function of the conversation, with faults on demand.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

/// What a server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection breaks in the middle of the body.
    Drop,
    /// 429 with Retry-After.
    TooMany,
    Server,
    /// 200 with a body that is not JSON.
    Garbage,
    /// 200 with half a JSON document.
    HalfBody,
    /// No answer at all.
    Hang,
    /// A completion without choices.
    EmptyChoices,
    Unauthorized,
    /// 404: no such model.
    NoModel,
}

/// Status and body of a refusal.
pub(crate) type Refusal = (u16, Value);

/// Which requests fail.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    /// Every request whose number modulo the length has an entry fails that way.
    pub faults: Vec<Option<Fault>>,
    /// How every request fails, the list of models too.
    pub refuses: Option<Fault>,
    /// Time before an answer.
    pub delay: Duration,
    /// Fields that replace those of every answer's choice.
    pub choice: BTreeMap<&'static str, Value>,
    /// What the server does to every answer before it sends it.
    pub rewrite: Option<fn(&mut Value)>,
    /// Status and body in the place of an answer, for requests that it does not take.
    pub refusal: Option<fn(&Value) -> Option<Refusal>>,
    /// What it answers to the text of the last message.
    pub reply: Option<fn(&str) -> String>,
    /// What it answers one after the other, whatever it is asked: a status, and the text of an answer or the body of a
    /// refusal. Later requests are refused.
    pub replies: Option<VecDeque<Refusal>>,
}

/// A running server; ends with the value.
pub(crate) struct Server {
    /// `http://127.0.0.1:PORT/v1`
    pub base_url: String,
    pub requests: Arc<AtomicUsize>,
    /// The latest request's body.
    pub latest: Arc<Mutex<Value>>,
    /// The latest request's headers.
    pub headers: Arc<Mutex<HeaderMap>>,
    /// The requests to a server with a list of replies, as they came.
    pub all: Arc<Mutex<Vec<Value>>>,
    asked: Arc<Mutex<String>>,
    _runtime: tokio::runtime::Runtime,
}

struct Shared {
    replies: Option<Mutex<VecDeque<Refusal>>>,
    script: Script,
    requests: Arc<AtomicUsize>,
    latest: Arc<Mutex<Value>>,
    headers: Arc<Mutex<HeaderMap>>,
    all: Arc<Mutex<Vec<Value>>>,
    asked: Arc<Mutex<String>>,
}

impl Server {
    /// Starts on a free port.
    pub(crate) fn start(mut script: Script) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let latest = Arc::new(Mutex::new(Value::Null));
        let headers = Arc::new(Mutex::new(HeaderMap::new()));
        let all = Arc::new(Mutex::new(Vec::new()));
        let asked = Arc::new(Mutex::new(String::new()));
        let shared = Shared {
            replies: script.replies.take().map(Mutex::new),
            script,
            requests: Arc::clone(&requests),
            latest: Arc::clone(&latest),
            headers: Arc::clone(&headers),
            all: Arc::clone(&all),
            asked: Arc::clone(&asked),
        };
        let app = Router::new()
            .route("/v1/models", get(models))
            .route("/v1/chat/completions", post(complete))
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::new(shared));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        runtime.spawn(async move { axum::serve(listener, app).await });
        Self { base_url, requests, latest, headers, all, asked, _runtime: runtime }
    }

    /// Texts of the messages of all requests since the last time.
    pub(crate) fn asked(&self) -> String {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

async fn models(State(shared): State<Arc<Shared>>) -> Response {
    match shared.script.refuses {
        None => Json(json!({"data": [{"id": "scripted"}]})).into_response(),
        Some(_) => (StatusCode::UNAUTHORIZED, "invalid API key").into_response(),
    }
}

/// An answer as a stream: the role, the thoughts, the text in two parts, calls, the end with the number of tokens.
fn streamed(good: &Value) -> Response {
    let choice = &good["choices"][0];
    let message = &choice["message"];
    let text = message["content"].as_str().unwrap_or_default();
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    let mut deltas = vec![json!({"role": "assistant"})];
    for name in ["reasoning_content", "reasoning", "refusal"] {
        deltas.extend(message[name].as_str().map(|text| json!({name: text})));
    }
    deltas.extend([first, rest].map(|text| json!({"content": text})));
    for (index, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
        let mut call = call.clone();
        call["index"] = json!(index);
        deltas.push(json!({"tool_calls": [call]}));
    }
    let mut events: Vec<Value> =
        deltas.into_iter().map(|delta| json!({"choices": [{"index": 0, "delta": delta}]})).collect();
    let end = json!({"delta": {}, "finish_reason": choice["finish_reason"]});
    events.push(json!({"choices": [end], "usage": good["usage"], "model": good["model"]}));
    let events = events.into_iter().map(|event| Ok::<_, std::io::Error>(format!("data: {event}\n\n")));
    let body = Body::from_stream(futures::stream::iter(events));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

async fn complete(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    *shared.headers.lock().unwrap() = headers;
    let number = shared.requests.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(shared.script.delay).await;
    let faults = &shared.script.faults;
    let fault = if faults.is_empty() { None } else { faults[number % faults.len()] };
    let fault = shared.script.refuses.or(fault);
    let request = serde_json::from_slice(&body).unwrap();
    if let Some((status, body)) = shared.script.refusal.and_then(|refusal| refusal(&request)) {
        return (StatusCode::from_u16(status).unwrap(), Json(body)).into_response();
    }
    let mut good = answer(&request);
    if let Some(replies) = &shared.replies {
        let reply = replies.lock().unwrap().pop_front();
        shared.all.lock().unwrap().push(request);
        let (status, reply) = reply.unwrap_or((400, json!({"error": "more requests than replies"})));
        let body = if status == 200 {
            good["choices"][0]["message"]["content"] = reply;
            good
        } else {
            reply
        };
        return (StatusCode::from_u16(status).unwrap(), Json(body)).into_response();
    }
    let streams = request["stream"] == true;
    for message in request["messages"].as_array().into_iter().flatten() {
        *shared.asked.lock().unwrap() += &format!("{}\n", texts(&message["content"]));
    }
    if let Some(reply) = shared.script.reply {
        let last = request["messages"].as_array().and_then(|all| all.last());
        let text = reply(&texts(&last.unwrap()["content"]));
        good["choices"][0]["message"]["content"] = json!(text);
    }
    *shared.latest.lock().unwrap() = request;
    for (field, value) in &shared.script.choice {
        good["choices"][0][field] = value.clone();
    }
    if let Some(rewrite) = shared.script.rewrite {
        rewrite(&mut good);
    }
    match fault {
        None if streams => streamed(&good),
        None => Json(good).into_response(),
        Some(Fault::TooMany) => {
            (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "0")], "slow down").into_response()
        }
        Some(Fault::Unauthorized) => (StatusCode::UNAUTHORIZED, "invalid API key").into_response(),
        Some(Fault::NoModel) => {
            let error = json!({"error": {"message": "The model `wrong` does not exist.", "code": 404}});
            (StatusCode::NOT_FOUND, Json(error)).into_response()
        }
        Some(Fault::Server) => (StatusCode::INTERNAL_SERVER_ERROR, "broken").into_response(),
        Some(Fault::Garbage) => "<html>B</html>".into_response(),
        Some(Fault::HalfBody) => {
            let text = good.to_string();
            ([(header::CONTENT_TYPE, "application/json")], text[..text.len() / 2].to_owned()).into_response()
        }
        Some(Fault::EmptyChoices) => {
            Json(json!({"object": "chat.completion", "choices": []})).into_response()
        }
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Drop) => {
            let text = good.to_string();
            let half = Bytes::from(text[..text.len() / 2].to_owned());
            let pieces = futures::stream::iter([Ok(half), Err(std::io::Error::other("dropped"))]);
            Response::builder()
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::CONTENT_LENGTH, text.len())
                .body(Body::from_stream(pieces))
                .unwrap()
        }
    }
}

/// Two parallel crops in the first turn of a tool conversation, then an answer; all of it depends
/// on the texts alone.
fn answer(request: &Value) -> Value {
    let messages = request["messages"].as_array().unwrap();
    let mut hasher = DefaultHasher::new();
    for message in messages {
        // White space is the server's: what it takes apart comes back with other line breaks.
        texts(&message["content"]).split_whitespace().collect::<String>().hash(&mut hasher);
    }
    let hash = hasher.finish();
    let agentic = texts(&messages[0]["content"]).contains("crop_video");
    let first = !messages.iter().any(|message| message["role"] == "assistant");
    let text = if agentic && first && !hash.is_multiple_of(4) {
        let start = hash % 7;
        let call = |start: u64| {
            let arguments = json!({"video_path": "/etc/passwd", "start_time": start, "end_time": start + 3});
            format!("<tool_call>{}</tool_call>", json!({"name": "crop_video", "arguments": arguments}))
        };
        format!("<think>two looks</think>{}{}", call(start), call(start + 1))
    } else if texts(&messages[messages.len() - 1]["content"]).contains("seconds") && hash.is_multiple_of(2) {
        format!("<answer>{}.0 - {}.5</answer>", hash % 5, hash % 5 + 4)
    } else {
        format!("<answer>{}</answer>", char::from(b'A' + (hash % 4) as u8))
    };
    json!({
        "id": "x", "object": "chat.completion", "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": messages.len(), "completion_tokens": text.len(), "total_tokens": 0},
    })
}

fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}
