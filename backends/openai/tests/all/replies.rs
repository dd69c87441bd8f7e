//! Replies of real servers, byte for byte as they answer one request with a tool call, a thought or
//! nothing; and what hostile or careless servers do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::StreamExt as _;
use paravt_backend_openai::{Config, OpenAi, Secret};
use paravt_suite::backend::{Backend as _, BackendError, Completion, ErrorClass, FinishReason};
use paravt_suite::message::{Frames, Image, Message, Part, Role};
use serde_json::{Value, json};

use crate::common::{self, ask, config, request};

type Answer = Arc<dyn Fn(&HeaderMap) -> Response + Send + Sync>;

/// A server that answers every completion alike.
struct Server {
    url: String,
    hits: Arc<AtomicUsize>,
}

async fn server(
    model: &'static str,
    answer: impl Fn(&HeaderMap) -> Response + Send + Sync + 'static,
) -> Server {
    listing(json!([{"id": model}]), answer).await
}

/// The same with a list of models.
async fn listing(models: Value, answer: impl Fn(&HeaderMap) -> Response + Send + Sync + 'static) -> Server {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hits = Arc::new(AtomicUsize::new(0));
    let state = (Arc::clone(&hits), Arc::new(answer) as Answer);
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let list = Json(json!({"data": models}));
    let app = Router::new()
        .route("/v1/models", get(move || futures::future::ready(list.clone())))
        .route("/v1/chat/completions", post(complete))
        .with_state(state);
    tokio::spawn(async move { axum::serve(listener, app).await });
    Server { url, hits }
}

async fn complete(
    State((hits, answer)): State<(Arc<AtomicUsize>, Answer)>,
    headers: HeaderMap,
    _: Bytes,
) -> Response {
    hits.fetch_add(1, Ordering::SeqCst);
    answer(&headers)
}

/// A server with this body.
async fn replaying(body: &'static str) -> Server {
    server("m", move |_| ([(header::CONTENT_TYPE, "application/json")], body).into_response()).await
}

fn good() -> Response {
    Json(json!({"choices": [{"message": {"content": "B"}, "finish_reason": "stop"}]})).into_response()
}

/// A server that refuses everything in these words.
async fn refusing(status: u16, body: impl Into<String>) -> Server {
    let (status, body) = (StatusCode::from_u16(status).unwrap(), body.into());
    server("m", move |_| (status, body.clone()).into_response()).await
}

async fn reply(config: Config) -> Result<Completion, BackendError> {
    ask(&OpenAi::connect(config).await.unwrap()).await
}

/// transformers serve 5.23, model type qwen3_vl: no `tools` in the request, and the call is gone from the text.
const TRANSFORMERS: &str = r#"{"id":"7c7fdbd6-0ad1-4c34-8d9b-c1d2f3a4b5c6","choices":[{"finish_reason":"tool_calls","index":0,"message":{"content":"","role":"assistant","tool_calls":[{"id":"7c7fdbd6-0ad1-4c34-8d9b-c1d2f3a4b5c6_tool_call_0","function":{"arguments":"{\"start_time\": 4, \"end_time\": 8}","name":"crop_video"},"type":"function"}],"reasoning_content":"look closer at 6 s"}}],"created":1795351200,"model":"nano","object":"chat.completion","usage":{"completion_tokens":51,"prompt_tokens":612,"total_tokens":663}}"#;

/// vLLM with --enable-auto-tool-choice --tool-call-parser hermes and `tools` in the request.
const VLLM_TOOLS: &str = r#"{"id":"chatcmpl-2f","object":"chat.completion","created":1795351200,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"I look closer.\n","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[{"id":"chatcmpl-tool-9f0","type":"function","function":{"name":"crop_video","arguments":"{\"start_time\": 4, \"end_time\": 8}"}}],"reasoning":null,"reasoning_content":null},"logprobs":null,"finish_reason":"tool_calls","stop_reason":null,"token_ids":null}],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":612,"total_tokens":660,"completion_tokens":48,"prompt_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}"#;

/// vLLM with --reasoning-parser qwen3.
const VLLM_REASONING: &str = r#"{"id":"chatcmpl-30","object":"chat.completion","created":1795351200,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"\n\n<answer>B</answer>","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":"\nThe door is red.\n","reasoning_content":"\nThe door is red.\n"},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}],"usage":{"prompt_tokens":612,"total_tokens":632,"completion_tokens":20}}"#;

/// The same, where the limit was reached within the thoughts.
const VLLM_CUT: &str = r#"{"id":"chatcmpl-31","object":"chat.completion","created":1795351200,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[],"reasoning":"The door","reasoning_content":"The door"},"logprobs":null,"finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":612,"total_tokens":620,"completion_tokens":8}}"#;

/// SGLang with --tool-call-parser qwen25 --reasoning-parser qwen3 and `tools` in the request.
const SGLANG: &str = r#"{"id":"93b6717481cf45c284841fac5c3af2a3","object":"chat.completion","created":1795351200,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"reasoning_content":"look closer","tool_calls":[{"id":"call_5b1","index":0,"type":"function","function":{"name":"crop_video","arguments":"{\"start_time\": 4, \"end_time\": 8}"}}]},"logprobs":null,"finish_reason":"tool_calls","matched_stop":null}],"usage":{"prompt_tokens":612,"total_tokens":660,"completion_tokens":48,"prompt_tokens_details":null,"reasoning_tokens":0},"metadata":{"weight_version":"default"}}"#;

#[tokio::test]
async fn replies_of_real_servers_are_read_whole() {
    for (body, text, reasoning, calls) in [
        (TRANSFORMERS, "", Some("look closer at 6 s"), 1),
        (VLLM_TOOLS, "I look closer.\n", None, 1),
        (VLLM_REASONING, "\n\n<answer>B</answer>", Some("\nThe door is red.\n"), 0),
        (SGLANG, "", Some("look closer"), 1),
    ] {
        let found = reply(config([replaying(body).await.url])).await.unwrap();
        assert_eq!((found.text.as_str(), found.reasoning.as_deref()), (text, reasoning));
        assert_eq!(found.tool_calls.len(), calls);
        for call in &found.tool_calls {
            assert_eq!(call.name, "crop_video");
            assert_eq!(call.arguments, r#"{"start_time": 4, "end_time": 8}"#);
        }
        assert_eq!(found.usage.unwrap().prompt_tokens, 612);
        assert!(!found.reassembled);
    }
}

#[tokio::test]
async fn thoughts_that_reach_the_limit_are_an_error_that_names_the_flags() {
    let server = replaying(VLLM_CUT).await;
    let error = reply(config([&server.url])).await.unwrap_err();
    assert_eq!((error.class, error.tries), (ErrorClass::EmptyReply, 1));
    let reply = error.reply.as_ref().unwrap();
    assert_eq!(reply.reasoning.as_deref(), Some("The door"), "the thoughts are kept for the record");
    assert!(
        error.message.contains("--max-tokens") && error.message.contains("--reasoning-parser"),
        "{error}"
    );
    assert_eq!(server.hits.load(Ordering::SeqCst), 1, "no retry can mend it");
}

/// The same, where the reply closes no thought.
const VLLM_ONLY_THOUGHTS: &str = r#"{"id":"chatcmpl-32","object":"chat.completion","created":1795351200,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":"<answer>B</answer>"},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":612,"total_tokens":617,"completion_tokens":5,"prompt_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}"#;

#[tokio::test]
async fn a_reply_that_is_only_thoughts_is_kept_for_the_dialect_that_puts_texts_together() {
    let server = replaying(VLLM_ONLY_THOUGHTS).await;
    let mut auto = config([&server.url]);
    auto.whole_text = true;
    let found = reply(auto).await.unwrap();
    assert_eq!((found.text.as_str(), found.reasoning.as_deref()), ("", Some("<answer>B</answer>")));
    let error = reply(config([&server.url])).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::EmptyReply);
    assert!(error.message.contains("--reasoning-parser"), "{error}");
}

/// The refusals of a table, one a line: status, what else stands before the colon, and the server's words.
fn refusals(table: &'static str) -> impl Iterator<Item = (u16, &'static str, &'static str)> {
    table.trim().lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (head, said) = line.split_once(": ").unwrap();
        let (status, rest) = head.split_once(' ').unwrap_or((head, ""));
        (status.parse().unwrap(), rest, said)
    })
}

/// A class by its name in records.
fn class(name: &str) -> ErrorClass {
    serde_json::from_value(json!(name)).unwrap()
}

/// Refusals of vLLM 0.17.1 as it sends them: status, class, tries with up to five.
const VLLM_REFUSALS: &str = r#"
400 server 5: Already borrowed
400 context_length 1: max_tokens must be at least 1, got -5561. (parameter=max_tokens, value=-5561)
400 context_length 1: You passed 3905 input tokens and requested 192 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 3904 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=3905)
400 context_length 1: max_tokens=5000cannot be greater than max_model_len=max_total_tokens=4096. Please request fewer output tokens. (parameter=max_tokens, value=5000)
400 bad_request 1: At most 10 image(s) may be provided in one prompt.
400 bad_request 1: Cannot load local files without `--allowed-local-media-path`.
400 bad_request 1: The file path /data/one/lost video.mp4 must be a subpath of `--allowed-local-media-path /mnt`.
400 bad_request 1: "auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set
400 bad_request 3: Could not open video stream
500 bad_request 1: [Errno 2] No such file or directory: '/data/one/lost video.mp4'
# No file that was sent: the server lost something of its own.
500 server 5: [Errno 2] No such file or directory: '/tmp/kernel.so'
500 server 5: EngineCore encountered an issue. See stack trace (above) for the root cause.
"#;

#[tokio::test]
async fn refusals_of_vllm_have_their_class_tries_and_remedy() {
    for (status, expected, message) in refusals(VLLM_REFUSALS) {
        let (name, tries) = expected.split_once(' ').unwrap();
        let (class, tries) = (class(name), tries.parse().unwrap());
        let kind = if status == 400 { "BadRequestError" } else { "InternalServerError" };
        let error = json!({"message": message, "type": kind, "param": null, "code": status});
        let refusing = refusing(status, json!({"error": error}).to_string()).await;
        let client = OpenAi::connect(Config { max_tries: 5, ..config([&refusing.url]) }).await.unwrap();
        let request = request("s", 0, vec![common::video("/data/one/lost video.mp4")]);
        let error = client.complete(&request).await.unwrap_err();
        assert_eq!((error.class, error.tries), (class, tries), "{message}");
        assert_eq!(refusing.hits.load(Ordering::SeqCst), tries as usize);
        let remedied = class == ErrorClass::BadRequest && tries == 1;
        assert_eq!(
            paravt_backend_openai::remedy(&error.message).is_some() && class == ErrorClass::BadRequest,
            remedied
        );
    }
}

/// How servers refuse a conversation that is too long: status, and what they call the error.
const OVERFLOWS: &str = r#"
# vLLM before 0.10, and its checks of the prompt.
400: This model's maximum context length is 4096 tokens. However, you requested 4472 tokens (376 in the messages, 4096 in the completion).
400: 'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context length is 4096 tokens and your request has 2778 input tokens
400: The decoder prompt (length 5000) is longer than the maximum model length of 4096.
# Its Rust front end.
400: this model's maximum context length is 4096 tokens, but the prompt contains 5000 input tokens
# SGLang.
400: The input (61709 tokens) is longer than the model's context length (40960 tokens).
400: Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).
400: Requested token count exceeds the model's maximum context length of 202752 tokens.
# llama.cpp, three versions, and llama-cpp-python.
400 exceed_context_size_error: the request exceeds the available context size, try increasing it
500 exceed_context_size_error: the request exceeds the available context size. try increasing the context size or enable context shift
500 server_error: Context size has been exceeded.
400 exceed_context_size_error: request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it
500: Requested tokens (2285) exceed context window of 2048
# TGI.
422 validation: Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 512 `max_new_tokens`
422 validation: Input validation error: `inputs` must have less than 4096 tokens. Given: 5000
# Ollama, LM Studio.
400 api_error: the input length exceeds the context length
400: prompt too long; exceeded max context length by 5000 tokens
400: The number of tokens to keep from the initial prompt is greater than the context length
# OpenRouter, LiteLLM, Poolside.
400: This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens
400: litellm.ContextWindowExceededError: too long
400: Input length 131393 exceeds the maximum allowed input length of 131040 tokens.
# OpenAI, Azure.
400 invalid_request_error: Your input exceeds the context window of this model.
400 context_length_exceeded: Too long.
400: Input tokens exceed the configured limit of 272000 tokens.
# Gemini, Anthropic, Bedrock, xAI, Groq, Mistral, DashScope.
400: The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).
400 invalid_request_error: prompt is too long: 213462 tokens > 200000 maximum
400: input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000
400: Input is too long for requested model.
400: This model's maximum prompt length is 131072 but the request contains 537812 tokens.
400: Please reduce the length of the messages or completion.
400: Range of input length should be [1, 6000]
# Cohere, DeepInfra, LMDeploy, TensorRT-LLM, Together, Volcengine, SiliconFlow, Z.ai, Bedrock, llama-cpp-python.
400: too many tokens: size limit exceeded by 168512 tokens. The limit for this model is 132000 tokens.
400: too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using a shorter prompt
400: Requested input length 600010 exceeds maximum input length 131071
400: Input length (5000) must be smaller than the model context length (4096).
400: The sum of prompt length (72417.0), query length (0) should not exceed max_num_tokens (69632)
500: Prompt length (5056) exceeds maximum sequence length (2048)
403: Input token count + `max_tokens` parameter must be less than the context length of the model being queried.
400 InvalidParameter: Total tokens of image and text exceed max message tokens.
400: length of prompt_tokens (65878) must be less than max_seq_len (65536).
400 1261: Prompt exceeds max length
400 validation_error: prompt tokens (1416135) exceed model maximum (1050000) for openai.gpt
500 internal_server_error: Prompt exceeds n_ctx: 5000 > 4096
# Groq, OpenAI: more tokens than a minute may have.
413: Request too large for model on tokens per minute (TPM): Limit 6000, Requested 8000
429 tokens: Request too large for m in organization o on tokens per min (TPM): Limit 30000, Requested 45000.
# nginx.
413: <html><head><title>413 Request Entity Too Large</title></head></html>
"#;

/// What is none, though it speaks of tokens: status and class.
const OTHERS: &str = r#"
429 rate_limited: Rate limit reached: Limit 30000 tokens per minute. Your input exceeds the context window.
400 bad_request: max_tokens is too large: 100000. This model supports at most 16384 completion tokens
400 bad_request: max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens
422 bad_request: Input validation error: `max_new_tokens` must be strictly positive
400 bad_request: too many tokens: max tokens must be less than or equal to 4096, the maximum output length for this model - received 1000000.
400 bad_request: max_tokens (10000) cannot exceed 8192. Please reduce the length of max output tokens generated.
429 rate_limited: Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 20000, Requested 15000.
403 unauthorized: This key has no access
503 server: rate limit: your context window is too large for this tier
400 bad_request: Invalid image: too many pixels
401 unauthorized: Your token is too long
500 server: CUDA out of memory while allocating 2048 tokens
"#;

#[tokio::test]
async fn conversations_that_are_too_long_are_known_whoever_refuses_them() {
    let overflows =
        refusals(OVERFLOWS).map(|(status, kind, said)| (status, kind, said, ErrorClass::ContextLength));
    let others = refusals(OTHERS).map(|(status, name, said)| (status, "", said, class(name)));
    for (status, kind, said, class) in overflows.chain(others) {
        let body = match said.starts_with('<') {
            true => said.to_owned(),
            false => json!({"error": {"message": said, "type": kind, "code": null}}).to_string(),
        };
        let error = reply(config([refusing(status, body).await.url])).await.unwrap_err();
        assert_eq!(error.class, class, "{said}");
        assert!(class != ErrorClass::ContextLength || error.tries == 1, "{said}");
    }
    // What a router passes on; FastAPI, which repeats the request.
    for (body, class) in [
        (
            json!({"error": {"message": "Provider returned error", "code": 400,
                "metadata": {"raw": "{\"message\":\"Requested input length 9 exceeds maximum input length 8\"}"}}}),
            ErrorClass::ContextLength,
        ),
        (
            json!({"detail": [{"msg": "Input should be a valid string", "input": "what is a context length?"}]}),
            ErrorClass::BadRequest,
        ),
    ] {
        let refusing = refusing(400, body.to_string()).await;
        assert_eq!(reply(config([refusing.url])).await.unwrap_err().class, class);
    }
    // Within a stream.
    let body =
        "data: {\"error\":{\"message\":\"the request exceeds the available context size\",\"code\":400}}\n\n";
    assert_eq!(
        reply(config([replaying(body).await.url])).await.unwrap_err().class,
        ErrorClass::ContextLength
    );
}

#[tokio::test]
async fn of_several_models_the_user_names_one() {
    let connect = async |models: Value, model: Option<&str>| {
        let server = listing(models, |_| good()).await;
        OpenAi::connect(Config { model: model.map(str::to_owned), ..config([&server.url]) }).await
    };
    let two = json!([{"id": "embedder"}, {"id": "qwen3-vl"}]);
    let error = connect(two.clone(), None).await.unwrap_err();
    assert_eq!((error.class, error.tries), (ErrorClass::BadRequest, 0));
    assert!(error.message.ends_with("name the one to ask with --model: embedder, qwen3-vl"), "{error}");
    assert_eq!(connect(two, Some("qwen3-vl")).await.unwrap().describe().model, "qwen3-vl");
    // vLLM: two names of one model, and an adapter beside its base.
    let names = json!([{"id": "a", "root": "/models/x"}, {"id": "b", "root": "/models/x"}]);
    assert_eq!(connect(names, None).await.unwrap().describe().model, "a");
    let adapter =
        json!([{"id": "a", "root": "/models/x"}, {"id": "b", "root": "/adapters/y", "parent": "a"}]);
    assert!(connect(adapter, None).await.unwrap_err().message.contains("several models"));
}

#[tokio::test]
async fn prompts_that_a_server_counts_short_are_noted() {
    let image = || Part::Image(Arc::new(Image::new("image/jpeg", vec![0; 3], 320, 320, None)));
    let images = |count: usize| (0..count).map(|_| image()).collect::<Vec<_>>();
    let text = |bytes: usize| vec![Part::Text("four".repeat(bytes / 4))];
    let frames = Part::Frames(Frames {
        images: (0..8).map(|_| Arc::new(Image::new("image/jpeg", vec![0; 3], 320, 320, None))).collect(),
        even: Some(1.0),
        keep_size: false,
    });
    // 100 tokens an image or a pair of frames, 100 of text.
    let mixed = || [images(10), text(400)].concat();
    for (what, parts, counted, noted) in [
        ("all", mixed(), 1100, None),
        ("a template beside them", mixed(), 1300, None),
        ("frames sampled twice", mixed(), 600, None),
        ("a third", mixed(), 366, Some(1100)),
        ("a hundredth", mixed(), 11, Some(1100)),
        ("no image", mixed(), 5, Some(1100)),
        ("text alone: no image is counted", mixed(), 110, None),
        ("frames as a video", vec![frames.clone()], 400, None),
        ("of which most are gone", vec![frames], 90, Some(400)),
        ("text", text(4000), 900, None),
        ("of which most is gone", text(4000), 256, Some(1000)),
        ("not counted", text(4000), 0, None),
    ] {
        let body = json!({
            "choices": [{"message": {"content": "B"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": counted, "completion_tokens": 1},
        });
        let client = OpenAi::connect(config([replaying(body.to_string().leak()).await.url])).await.unwrap();
        let request = request("s", 0, vec![Message::parts(Role::User, parts)]);
        assert_eq!(client.complete(&request).await.unwrap().forecast, noted, "{what}");
    }
}

#[tokio::test]
async fn a_race_in_the_server_costs_a_try_and_no_sample() {
    let count = AtomicUsize::new(0);
    let racing = server("m", move |_: &HeaderMap| match count.fetch_add(1, Ordering::SeqCst) % 3 {
        2 => good(),
        _ => {
            let error =
                json!({"message": "Already borrowed", "type": "BadRequestError", "param": null, "code": 400});
            (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response()
        }
    });
    let client = OpenAi::connect(Config { max_tries: 3, ..config([racing.await.url]) }).await.unwrap();
    for _ in 0..4 {
        let found = ask(&client).await.unwrap();
        assert_eq!((found.text.as_str(), found.retries), ("B", 2));
    }
}

#[tokio::test]
async fn a_body_without_end_stops_at_the_limit() {
    let endless = |_: &HeaderMap| {
        let chunk = Bytes::from(vec![b'x'; 1 << 14]);
        let forever = futures::stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone()));
        Response::new(Body::from_stream(forever))
    };
    let started = Instant::now();
    let error = reply(config([server("m", endless).await.url])).await.unwrap_err();
    assert_eq!((error.class, error.tries), (ErrorClass::TooLarge, 1));
    assert!(error.message.contains("--max-reply-bytes"), "{error}");
    // A refusal's body is cut, not read to its end either.
    let refusing = move |headers: &HeaderMap| {
        let mut response = endless(headers);
        *response.status_mut() = StatusCode::BAD_REQUEST;
        response
    };
    let error = reply(config([server("m", refusing).await.url])).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::BadRequest);
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = server("m", |_| good()).await;
    for status in [301, 302, 303, 307, 308] {
        let location = target.url.replace("http://", "http://me:secret@") + "/chat/completions?key=secret";
        let source = server("m", move |_| {
            (StatusCode::from_u16(status).unwrap(), [(header::LOCATION, location.clone())]).into_response()
        });
        let error = reply(config([source.await.url])).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::BadRequest, "{status}");
        assert!(error.message.contains(&target.url) && !error.message.contains("secret"), "{error}");
    }
    assert_eq!(target.hits.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn keys_reach_neither_errors_nor_answers() {
    const KEY: &str = "sk-0123456789abcdefghijklmnop";
    const TOKEN: &str = "token-zyxwvutsrq";
    for before in [0, 270, 290, 299] {
        let echo = move |headers: &HeaderMap| {
            let said = |name: &str| headers.get(name).unwrap().to_str().unwrap().to_owned();
            let text = format!("{}{} {}", "x".repeat(before), said("authorization"), said("x-token"));
            (StatusCode::UNAUTHORIZED, text).into_response()
        };
        let mut config = config([server("m", echo).await.url]);
        config.api_key = Some(Secret::new(KEY.into()));
        config.headers = vec![("X-Token".into(), Secret::new(TOKEN.into()))];
        let error = reply(config).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Unauthorized);
        for secret in [KEY, TOKEN] {
            assert!(!error.message.contains(&secret[..8]), "{before}: {error}");
        }
    }
    let echo = |_: &HeaderMap| {
        let message = json!({
            "content": format!("B {KEY}"), "reasoning": KEY,
            "tool_calls": [{"id": KEY, "function": {"name": "crop_video", "arguments": KEY}}],
        });
        Json(json!({"choices": [{"message": message, "finish_reason": KEY}]})).into_response()
    };
    let mut config = config([server("m", echo).await.url]);
    config.api_key = Some(Secret::new(KEY.into()));
    let found = reply(config).await.unwrap();
    assert!(!format!("{found:?}").contains(&KEY[..8]), "{found:?}");
    assert_eq!(
        (found.text.as_str(), found.finish_reason),
        ("B [key]", Some(FinishReason::Other("[key]".into())))
    );
}

#[tokio::test]
async fn passwords_of_base_urls_are_not_in_messages() {
    let url = refusing(400, "no").await.url.replace("http://", "http://me:hunter22@");
    let client = OpenAi::connect(config([url])).await.unwrap();
    assert!(!format!("{:?}", client.describe()).contains("hunter22"));
    assert!(!ask(&client).await.unwrap_err().message.contains("hunter22"));
}

#[tokio::test]
async fn servers_of_different_models_do_not_share_a_run() {
    let (first, second) = (server("a", |_| good()).await, server("b", |_| good()).await);
    let mut unnamed = config([&first.url, &second.url]);
    unnamed.model = None;
    let error = OpenAi::connect(unnamed.clone()).await.unwrap_err();
    assert!(error.message.contains("serves a") && error.message.contains("serves b"), "{error}");
    let mut named = config([&first.url, &second.url]);
    named.model = Some("a".into());
    let error = OpenAi::connect(named).await.unwrap_err();
    assert!(error.message.contains("does not list the model a"), "{error}");

    let same = server("a", |_| good()).await;
    unnamed.base_urls = vec![first.url.clone(), same.url.clone()];
    assert_eq!(OpenAi::connect(unnamed).await.unwrap().describe().model, "a");
    // Neither lists the name: both may take names that they do not list.
    assert!(OpenAi::connect(config([&first.url, &second.url])).await.is_ok());
}

#[tokio::test]
async fn a_server_that_refuses_what_others_answer_is_set_aside() {
    for status in [400, 401, 403, 404] {
        let (bad, well) = (refusing(status, "no").await, server("m", |_| good()).await);
        let client = OpenAi::connect(config([&bad.url, &well.url])).await.unwrap();
        for _ in 0..20 {
            assert_eq!(ask(&client).await.unwrap().text, "B", "{status}");
        }
        assert_eq!(well.hits.load(Ordering::SeqCst), 20);
        assert_eq!(bad.hits.load(Ordering::SeqCst), 3, "three strikes, then it rests");
    }
}

#[tokio::test]
async fn a_request_that_every_server_refuses_ejects_none() {
    let (first, second) = (refusing(400, "bad image").await, refusing(400, "bad image").await);
    let config = Config { max_tries: 2, ..config([&first.url, &second.url]) };
    let client = OpenAi::connect(config).await.unwrap();
    for asked in 1..=5 {
        assert_eq!(ask(&client).await.unwrap_err().class, ErrorClass::BadRequest);
        let hits = (first.hits.load(Ordering::SeqCst), second.hits.load(Ordering::SeqCst));
        assert_eq!(hits, (asked, asked), "each is asked once, none is set aside");
    }
}

#[tokio::test]
async fn an_overlong_retry_after_does_not_panic() {
    let failing = refusing(500, "no").await;
    let mut config = config([&failing.url]);
    config.retry_pause = Duration::from_secs_f64(1.8e19);
    let client = OpenAi::connect(config).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(300), ask(&client)).await;
    assert!(waits.is_err(), "it waits");
}

/// The reply above as transformers serve streams it: the parts keep their white space.
const STREAMED: &str = concat!(
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"},\"index\":0}],\"object\":\"chat.completion.chunk\"}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\" red door\"},\"index\":0}],\"object\":\"chat.completion.chunk\"}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\",\"index\":0}],\"usage\":{\"completion_tokens\":4,\"prompt_tokens\":9}}\n\n",
);

#[tokio::test]
async fn after_the_first_parsed_reply_replies_are_streamed() {
    let json = |body: &'static str| ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let answer = move |_: &HeaderMap| match count.fetch_add(1, Ordering::SeqCst) {
        0 => json(TRANSFORMERS),
        _ => ([(header::CONTENT_TYPE, "text/event-stream")], STREAMED).into_response(),
    };
    let server = server("m", answer).await;
    let mut config = config([&server.url]);
    config.whole_text = true;
    let client = OpenAi::connect(config).await.unwrap();
    for hits in [2, 3] {
        let found = ask(&client).await.unwrap();
        assert_eq!((found.text.as_str(), found.usage.unwrap().prompt_tokens), (" red door", 9));
        assert_eq!(server.hits.load(Ordering::SeqCst), hits, "asked twice once");
    }
}

#[tokio::test]
async fn a_streamed_reply_says_when_its_first_token_came() {
    const PAUSE: Duration = Duration::from_millis(40);
    let answer = |_: &HeaderMap| {
        let parts = futures::stream::iter(STREAMED.split_inclusive("\n\n")).then(|part| async move {
            tokio::time::sleep(PAUSE).await;
            Ok::<_, std::io::Error>(part)
        });
        ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(parts)).into_response()
    };
    let server = server("m", answer).await;
    let client = OpenAi::connect(Config { stream: true, ..config([&server.url]) }).await.unwrap();
    let found = ask(&client).await.unwrap();
    assert_eq!((found.text.as_str(), found.usage.unwrap().completion_tokens), (" red door", 4));
    let first = found.first_token.unwrap();
    assert!(first >= 2 * PAUSE, "the role alone is not a token: {first:?}");
    assert!(found.latency >= first + PAUSE, "{first:?} of {:?}", found.latency);
}
