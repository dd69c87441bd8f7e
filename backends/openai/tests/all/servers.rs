//! Several servers, failing and overloaded ones, each a real server on a port of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::StreamExt as _;
use futures::future::join_all;
use paravt_backend_openai::{Config, OpenAi};
use paravt_suite::backend::{Backend as _, ErrorClass};
use paravt_suite::message::{Message, Role};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::common::{self, ask, config, request};

/// One server: answers with `status` as soon as the gate lets a request through.
struct Server {
    url: String,
    status: AtomicU16,
    retry_after: AtomicUsize,
    hits: AtomicUsize,
    in_flight: AtomicUsize,
    videos: Mutex<Vec<String>>,
    gate: Semaphore,
}

impl Server {
    /// A server that answers every request at once.
    async fn open() -> Arc<Self> {
        let server = Self::shut().await;
        server.open_gate();
        server
    }

    /// A server that lets no request through yet.
    async fn shut() -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Arc::new(Self {
            url: format!("http://{}/v1", listener.local_addr().unwrap()),
            status: AtomicU16::new(200),
            retry_after: AtomicUsize::new(0),
            hits: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            videos: Mutex::default(),
            gate: Semaphore::new(0),
        });
        let app = Router::new()
            .route("/v1/models", get(models))
            .route("/v1/chat/completions", post(complete))
            .with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, app).await });
        server
    }

    fn open_gate(&self) {
        self.gate.add_permits(10_000);
    }

    fn answer_with(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }

    fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }
}

async fn models(State(server): State<Arc<Server>>) -> Response {
    let status = StatusCode::from_u16(server.status.load(Ordering::SeqCst)).unwrap();
    (status, Json(json!({"data": [{"id": "listed"}]}))).into_response()
}

async fn complete(State(server): State<Arc<Server>>, Json(body): Json<Value>) -> Response {
    if let Some(url) = body["messages"][0]["content"][0]["video_url"]["url"].as_str() {
        server.videos.lock().unwrap().push(url.to_owned());
    }
    server.hits.fetch_add(1, Ordering::SeqCst);
    server.in_flight.fetch_add(1, Ordering::SeqCst);
    server.gate.acquire().await.unwrap().forget();
    server.in_flight.fetch_sub(1, Ordering::SeqCst);
    let status = StatusCode::from_u16(server.status.load(Ordering::SeqCst)).unwrap();
    if !status.is_success() {
        let after = server.retry_after.load(Ordering::SeqCst).to_string();
        return (status, [(header::RETRY_AFTER, after)], "out of order").into_response();
    }
    let message = json!({"role": "assistant", "content": "B"});
    Json(json!({"choices": [{"message": message, "finish_reason": "stop"}]})).into_response()
}

async fn client(servers: &[&Arc<Server>]) -> OpenAi {
    OpenAi::connect(config(servers.iter().map(|server| &server.url))).await.unwrap()
}

/// Waits until a condition holds.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// `count` requests in flight at once, answered once the test lets them through.
fn ask_many(client: &Arc<OpenAi>, count: usize) -> Vec<tokio::task::JoinHandle<String>> {
    let one = || {
        let client = Arc::clone(client);
        tokio::spawn(async move { ask(&client).await.unwrap().text })
    };
    (0..count).map(|_| one()).collect()
}

async fn all_answered(asked: Vec<tokio::task::JoinHandle<String>>) {
    for answer in join_all(asked).await {
        assert_eq!(answer.unwrap(), "B");
    }
}

/// An address at which nothing listens.
async fn nobody() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/v1", listener.local_addr().unwrap())
}

#[tokio::test]
async fn requests_in_flight_are_shared_evenly() {
    let servers = [Server::shut().await, Server::shut().await, Server::shut().await];
    let client = Arc::new(client(&servers.each_ref()).await);
    let asked = ask_many(&client, 9);
    until("nine in flight", || servers.iter().map(|server| server.in_flight()).sum::<usize>() == 9).await;
    assert_eq!(servers.each_ref().map(|server| server.in_flight()), [3, 3, 3]);
    servers.iter().for_each(|server| server.open_gate());
    all_answered(asked).await;
}

#[tokio::test]
async fn the_least_busy_server_is_next() {
    let (busy, free) = (Server::shut().await, Server::open().await);
    let client = Arc::new(client(&[&busy, &free]).await);
    let held = ask_many(&client, 1);
    until("one in flight", || busy.in_flight() == 1).await;
    for _ in 0..5 {
        ask(&client).await.unwrap();
    }
    assert_eq!((busy.hits(), free.hits()), (1, 5));
    busy.open_gate();
    all_answered(held).await;
}

/// Two turns about a video with the pause of a crop between them.
async fn converse(client: Arc<OpenAi>, sample: usize, video: String) {
    let mut messages = vec![common::video(video)];
    for turn in 0..2_usize {
        let request = request(sample.to_string(), turn, messages.clone());
        messages.push(Message::text(Role::Assistant, client.complete(&request).await.unwrap().text));
        messages.push(Message::text(Role::User, "The frames of the crop."));
        tokio::time::sleep(Duration::from_millis(5 + (sample % 7) as u64)).await;
    }
}

/// Videos of each server's requests and how many requests it had of each.
fn counts(servers: &[Arc<Server>]) -> Vec<BTreeMap<String, usize>> {
    let count = |server: &Arc<Server>| {
        let mut videos = BTreeMap::new();
        for video in server.videos.lock().unwrap().iter() {
            *videos.entry(video.clone()).or_default() += 1;
        }
        videos
    };
    servers.iter().map(count).collect()
}

#[tokio::test]
async fn turns_and_questions_of_a_video_stay_on_their_server() {
    let mut servers = Vec::new();
    for _ in 0..4 {
        servers.push(Server::open().await);
    }
    let client = Arc::new(client(&servers.iter().collect::<Vec<_>>()).await);
    let conversations =
        (0..240).map(|sample| converse(Arc::clone(&client), sample, format!("/v/{}.mp4", sample / 4)));
    futures::stream::iter(conversations).buffer_unordered(16).collect::<Vec<()>>().await;
    let counts = counts(&servers);
    let of_video = |video: usize| {
        let url = format!("file:///v/{video}.mp4");
        counts.iter().map(|videos| videos.get(&url).copied().unwrap_or_default()).max().unwrap()
    };
    let together: usize = (0..60).map(of_video).sum();
    assert!(together * 100 >= 95 * 480, "{together} of 480 requests");
    let fullest = counts.iter().map(|videos| videos.values().sum::<usize>()).max().unwrap();
    assert!(fullest * 100 <= 125 * 120, "{fullest} where the mean is 120");
}

#[tokio::test]
async fn a_second_try_goes_to_another_server() {
    let (ill, well) = (Server::open().await, Server::open().await);
    ill.answer_with(500);
    let mut config = config([&ill.url, &well.url]);
    config.max_tries = 2;
    let client = OpenAi::connect(config).await.unwrap();
    for _ in 0..6 {
        assert!(ask(&client).await.unwrap().retries <= 1);
    }
    assert_eq!((ill.hits(), well.hits()), (3, 6), "three strikes, then it rests");
}

#[tokio::test]
async fn an_unhealthy_endpoint_is_ejected_and_tried_again() {
    let (ill, well) = (Server::open().await, Server::open().await);
    ill.answer_with(503);
    let client = client(&[&ill, &well]).await;
    for _ in 0..20 {
        ask(&client).await.unwrap();
    }
    assert_eq!((ill.hits(), well.hits()), (3, 20));
    // Still ill after its first rest: one failure is enough for the next, longer one.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    for _ in 0..20 {
        ask(&client).await.unwrap();
    }
    assert_eq!((ill.hits(), well.hits()), (4, 40));
    ill.answer_with(200);
    tokio::time::sleep(Duration::from_millis(2100)).await;
    for _ in 0..5 {
        ask(&client).await.unwrap();
    }
    assert_eq!((ill.hits(), well.hits()), (9, 40), "back at work, and first in the list again");
}

#[tokio::test]
async fn many_failures_at_once_are_one_outage() {
    let (ill, well) = (Server::shut().await, Server::open().await);
    ill.answer_with(500);
    let client = Arc::new(client(&[&ill, &well]).await);
    let asked = ask_many(&client, 40);
    until("requests at the ill server", || ill.in_flight() >= 10).await;
    ill.open_gate();
    all_answered(asked).await;
    ill.answer_with(200);
    let before = ill.hits();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    ask(&client).await.unwrap();
    assert_eq!(ill.hits(), before + 1, "after the first rest, not after minutes");
}

#[tokio::test]
async fn nobody_waits_for_the_only_server_of_a_supervisor_when_it_is_gone() {
    for (watched, others, tries) in [(true, 0, 1), (false, 0, 3), (true, 1, 3)] {
        let mut urls = vec![nobody().await];
        for _ in 0..others {
            urls.push(nobody().await);
        }
        let client = OpenAi::connect(Config { watched, ..config(urls) }).await.unwrap();
        let error = ask(&client).await.unwrap_err();
        assert_eq!((error.class, error.tries), (ErrorClass::Connection, tries));
    }
}

#[tokio::test]
async fn an_ejected_endpoint_is_used_when_it_is_the_only_one() {
    let only = Server::open().await;
    only.answer_with(500);
    let client = client(&[&only]).await;
    let error = ask(&client).await.unwrap_err();
    assert_eq!((error.class, error.tries), (ErrorClass::Server, 3));
    only.answer_with(200);
    let start = Instant::now();
    ask(&client).await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(500), "it does not wait for the rest to end");
}

#[tokio::test]
async fn a_dead_server_among_others_fails_no_request_and_no_start() {
    let well = Server::open().await;
    let mut config = config([nobody().await, well.url.clone()]);
    config.model = None;
    config.max_tries = 2;
    let client = OpenAi::connect(config).await.unwrap();
    assert_eq!(client.describe().model, "listed");
    for _ in 0..5 {
        ask(&client).await.unwrap();
    }
    assert_eq!(well.hits(), 5);
}

#[tokio::test]
async fn a_server_that_is_down_at_the_start_is_asked_three_times_whatever_the_tries_of_a_request() {
    let mut config = config([nobody().await]);
    config.model = None;
    config.max_tries = 9;
    let error = OpenAi::connect(config).await.err().unwrap();
    assert_eq!((error.class, error.tries), (ErrorClass::Connection, 3));
}

#[tokio::test]
async fn rate_limits_halve_requests_in_flight_and_success_raises_them() {
    let server = Server::shut().await;
    let mut config = config([&server.url]);
    config.max_requests = 16;
    config.max_tries = 5;
    let client = Arc::new(OpenAi::connect(config).await.unwrap());

    let asked = ask_many(&client, 20);
    let settles_at = async |count: usize| {
        until(&format!("{count} in flight"), || server.in_flight() == count).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(server.in_flight(), count);
    };
    settles_at(16).await;

    // All sixteen are refused at once: one congestion, one halving.
    server.answer_with(429);
    server.gate.add_permits(16);
    until("sixteen refusals", || server.hits() >= 24).await;
    server.answer_with(200);
    settles_at(8).await;

    // Eight successes are one more place.
    server.gate.add_permits(8);
    settles_at(9).await;
    server.open_gate();
    all_answered(asked).await;
}

#[tokio::test]
async fn rate_limits_honour_retry_after_and_do_not_eject() {
    let (busy, other) = (Server::open().await, Server::open().await);
    busy.answer_with(429);
    busy.retry_after.store(1, Ordering::SeqCst);
    let mut config = config([&busy.url, &other.url]);
    config.max_tries = 2;
    let client = OpenAi::connect(config).await.unwrap();
    let start = Instant::now();
    ask(&client).await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    busy.retry_after.store(0, Ordering::SeqCst);
    for _ in 0..5 {
        ask(&client).await.unwrap();
    }
    assert_eq!(busy.hits(), 6, "asked first each time: it never rests for refusing");
}

#[tokio::test]
async fn refusals_are_tried_three_times_and_permanent_errors_once() {
    for (status, class, tries) in [
        (400, ErrorClass::BadRequest, 3),
        (401, ErrorClass::Unauthorized, 1),
        (404, ErrorClass::BadRequest, 1),
        (503, ErrorClass::Server, 5),
    ] {
        let server = Server::open().await;
        server.answer_with(status);
        let mut config = config([&server.url]);
        config.max_tries = 5;
        let error = ask(&OpenAi::connect(config).await.unwrap()).await.unwrap_err();
        assert_eq!((error.class, error.tries, server.hits()), (class, tries, tries as usize));
        assert!(error.message.contains(&server.url) && error.message.contains("out of order"), "{error}");
    }
}

#[tokio::test]
async fn no_answer_in_time_is_a_timeout() {
    let server = Server::shut().await;
    let mut config = config([&server.url]);
    config.timeout = Duration::from_millis(50);
    let error = ask(&OpenAi::connect(config).await.unwrap()).await.unwrap_err();
    assert_eq!((error.class, error.tries, server.hits()), (ErrorClass::Timeout, 3, 3));
}

#[tokio::test]
async fn a_server_without_a_list_of_models_asks_for_a_name() {
    let server = Server::open().await;
    for status in [404, 500] {
        server.answer_with(status);
        let unnamed = Config { model: None, ..config([&server.url]) };
        let error = OpenAi::connect(unnamed).await.err().unwrap().to_string();
        assert!(
            error.contains(&status.to_string()) && error.contains("name the model with --model"),
            "{error}"
        );
    }
    let closed = Config { model: None, ..config(["http://127.0.0.1:9/v1"]) };
    let error = OpenAi::connect(closed).await.err().unwrap().to_string();
    assert!(!error.contains("--model"), "nothing listens there: {error}");
}
