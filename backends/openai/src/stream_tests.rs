use std::io::Write as _;
use std::process::{Command, Stdio};

use paravt_suite::backend::{Completion, FinishReason, StoppedBy};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::reply;

const STREAM: &str = r#"data: {"choices":[{"delta":{"role":"assistant"},"index":0}]}

data: {"choices":[{"delta":{"reasoning_content":"\nlook"},"index":0}]}

data: {"choices":[{"delta":{"reasoning_content":" closer\n"},"index":0}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"crop_video","arguments":"{\"start_"}}]},"index":0}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"time\": 4}"}}]},"index":0}]}

data: {"choices":[{"delta":{"content":" B"},"index":0}]}

data: {"choices":[{"delta":{},"index":0,"finish_reason":"tool_calls"}],"usage":{"completion_tokens":19,"prompt_tokens":160}}

data: [DONE]
"#;

/// Reads a body that comes in these chunks as the client does; the first token's chunk beside it.
fn read_chunks<'a>(
    declared: bool,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Completion, Failure>, Option<usize>) {
    let (secrets, mut stream, mut body, mut first) =
        (Secrets::default(), Stream::new(declared), Vec::new(), None);
    for (index, chunk) in chunks.into_iter().enumerate() {
        body.extend_from_slice(chunk);
        match stream.read(&body, &secrets) {
            Ok(done) => {
                if first.is_none() && stream.has_token() {
                    first = Some(index);
                }
                if done {
                    break;
                }
            }
            Err(failure) => return (Err(failure), first),
        }
    }
    let reply = match stream.finish(&body, &secrets) {
        Ok(Some(reply)) => Ok(reply),
        Ok(None) => reply::read(&body, &secrets),
        Err(failure) => Err(failure),
    };
    (reply.and_then(|reply| reply::completion(reply, 4096, &secrets)), first)
}

fn read(body: &str) -> Result<Completion, Failure> {
    read_chunks(false, [body.as_bytes()]).0
}

/// One event of a first choice's delta.
fn event(delta: Value) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]}))
}

fn end() -> String {
    format!(
        "data: {}\n\ndata: [DONE]\n\n",
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    )
}

fn calls_of(deltas: &[Value]) -> Vec<(String, String)> {
    let events: String = deltas.iter().map(|delta| event(json!({"tool_calls": [delta]}))).collect();
    let calls = read(&(events + &end())).unwrap().tool_calls;
    calls.into_iter().map(|call| (call.name, call.arguments)).collect()
}

#[test]
fn pieces_become_one_reply_with_its_white_space() {
    let found = read(STREAM).unwrap();
    assert_eq!((found.text.as_str(), found.reasoning.as_deref()), (" B", Some("\nlook closer\n")));
    assert_eq!(found.tool_calls[0].arguments, r#"{"start_time": 4}"#);
    assert_eq!(found.usage.unwrap().prompt_tokens, 160);
}

#[test]
fn every_form_that_the_format_allows_is_read() {
    let (text, end) = (event(json!({"content": "B"})), end());
    let plain = format!("{text}{end}");
    let split = text.replace(r#"{"choices":"#, "{\"choices\":\ndata:");
    for (what, body) in [
        ("as servers send it", plain.clone()),
        ("byte order mark", format!("\u{feff}{plain}")),
        ("comment first", format!(": OPENROUTER PROCESSING\n\n:\n\n{plain}")),
        ("comments within", plain.replace("\n\n", "\n\n: ping\n\n")),
        ("event first", format!("event: message\n{plain}")),
        ("id and retry first", format!("id: 1\nretry: 3000\n{plain}")),
        ("name after data", text.replace("\n\n", "\nevent: message\n\n") + &end),
        ("unknown field", text.replace("\n\n", "\nx: y\n\n") + &end),
        ("field without a colon", text.replace("data", "id\ndata") + &end),
        ("carriage returns", plain.replace('\n', "\r")),
        ("both", plain.replace('\n', "\r\n")),
        ("no space", plain.replace("data: ", "data:")),
        ("several data lines", split + &end),
        ("no empty lines", plain.replace("\n\n", "\n")),
        ("many empty lines", plain.replace("\n\n", "\n\n\n\n")),
        ("empty data", format!("data:\n\ndata: \n\n{plain}")),
        ("a comment as data", format!("data: : keepalive\n\n{plain}")),
        ("no line end at the end", plain.trim_end().to_owned()),
        ("no end mark", plain.replace("data: [DONE]\n\n", "")),
        ("no end mark, no line end", plain.replace("\n\ndata: [DONE]\n\n", "")),
        ("text after the end", format!("{plain}{text}data: no JSON\n\n")),
        ("blanks around the end mark", plain.replace("[DONE]", "[DONE] ")),
        ("a ping of another API", format!("event: ping\ndata: {{\"type\": \"ping\"}}\n\n{plain}")),
        ("blank lines first", format!("\n\r\n\r{plain}")),
        ("no choices", format!("data: {{\"choices\":[],\"model\":\"\"}}\n\n{plain}")),
        ("no index", plain.replace(r#""index":0"#, r#""index":null"#)),
        ("the whole message", plain.replace("delta", "message")),
        ("content as parts", plain.replace(r#""B""#, r#"[{"type":"text","text":"B"}]"#)),
    ] {
        let bytes = body.as_bytes();
        for size in [1, 2, 3, 7, bytes.len()] {
            let found = read_chunks(false, bytes.chunks(size)).0;
            assert_eq!(found.unwrap().text, "B", "{what}, {size}");
        }
    }
    // Only the content type says that this is a stream.
    let unknown = format!("x: y\n{plain}");
    assert_eq!(read_chunks(true, [unknown.as_bytes()]).0.unwrap().text, "B");
    assert!(read(&unknown).is_err());
    let at_once = r#"{"choices":[{"message":{"content":"B"},"finish_reason":"stop"}]}"#;
    for declared in [false, true] {
        assert_eq!(
            read_chunks(declared, [at_once.as_bytes()]).0.unwrap().text,
            "B",
            "JSON in the place of a stream"
        );
    }
}

#[test]
fn choices_are_never_mixed() {
    let other =
        |index: u32, text: &str| json!({"index": index, "delta": {"content": text}, "finish_reason": null});
    let body: String = ["<ans", "wer>", "B"]
        .iter()
        .map(|text| {
            format!("data: {}\n\n", json!({"choices": [other(1, "zz"), other(0, text), other(2, "")]}))
        })
        .collect();
    let other_end = r#"data: {"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}"#;
    let found = read(&format!("{body}{other_end}\n\n{}", end())).unwrap();
    assert_eq!((found.text.as_str(), found.finish_reason), ("<answer>B", Some(FinishReason::Stop)));
    assert!(read(&format!("{body}{other_end}\n\n")).unwrap_err().message.contains("ended before"));
}

/// A case a line: what, the names of the two calls that are read, and the deltas that come. A delta is index,
/// identifier, name and arguments: `-` is null, `''` an empty text, and arguments after `json:` are no text.
const DELTAS: &str = r#"
index | crop crop | 0 x crop {"a":1} | 1 y crop {"a":2}
index 0 twice | crop crop | 0 x crop {"a":1} | 0 y crop {"a":2}
no index | crop crop | - x crop {"a":1} | - y crop {"a":2}
names alone | crop seek | 0 - crop {"a":1} | 0 - seek {"a":2}
nothing but order | crop crop | - - crop {"a":1} | - - crop {"a":2}
an index that jumps | crop seek | 3 x crop {"a":1} | 9 y seek {"a":2}
the second first | crop seek | 1 y seek {"a":2} | 0 x crop {"a":1}
one identifier for two indices | crop crop | 0 x crop {"a":1} | 1 x crop {"a":2}
interleaved | crop seek | 0 x crop {"a" | 0 y seek {"a" | 0 x - :1} | 0 y - :2}
an empty identifier goes on | crop seek | 0 x crop '' | 0 '' - {"a": | - - - 1} | 0 y seek {"a":2}
all repeated with each piece | crop seek | 0 x crop {"a" | 0 x crop :1} | 1 y seek {"a" | 1 y seek :2}
the name repeated, no identifier | crop seek | 0 - crop {"a" | 0 - crop :1} | 0 - crop '' | 1 - seek {"a":2}
the whole once more at the end | crop seek | 0 x crop {"a" | 0 - - :1} | 0 x crop {"a":1} | 1 y seek {"a":2}
objects | crop seek | 0 x crop json:{"a":1} | 0 y seek json:{"a":2}
an empty object before the text | crop seek | 0 x crop json:{} | 0 - - {"a": | 0 - - 1} | 1 y seek {"a":2}
the identifier later | crop seek | 0 - crop '' | 0 x - {"a":1} | 1 y seek {"a":2}
"#;

/// A delta of the table.
fn delta(line: &str) -> Value {
    let columns: Vec<&str> = line.split(' ').collect();
    let [index, id, name, arguments] = columns[..] else { panic!("{line}") };
    let text = |column: &str| match column {
        "-" => Value::Null,
        _ => json!(column.trim_matches('\'')),
    };
    let index = index.parse::<u64>().ok();
    let arguments = match arguments.strip_prefix("json:") {
        Some(object) => serde_json::from_str(object).unwrap(),
        None => text(arguments),
    };
    json!({"index": index, "id": text(id), "function": {"name": text(name), "arguments": arguments}})
}

#[test]
fn calls_are_told_apart_by_index_identifier_and_name() {
    for case in DELTAS.trim().lines() {
        let columns: Vec<&str> = case.split(" | ").collect();
        let [_, names, deltas @ ..] = &columns[..] else { panic!("{case}") };
        let deltas: Vec<Value> = deltas.iter().map(|line| delta(line)).collect();
        let arguments = [r#"{"a":1}"#, r#"{"a":2}"#].map(str::to_owned);
        let wanted: Vec<(String, String)> = names.split(' ').map(str::to_owned).zip(arguments).collect();
        assert_eq!(calls_of(&deltas), wanted, "{case}");
    }
    let old = event(json!({"function_call": {"name": "crop", "arguments": "{\"a\""}}))
        + &event(json!({"function_call": {"arguments": ":1}"}}));
    assert_eq!(read(&(old + &end())).unwrap().tool_calls[0].arguments, "{\"a\":1}");
}

#[test]
fn more_calls_than_tokens_are_an_error_at_once() {
    let list: Vec<Value> =
        (0..100_000).map(|index| json!({"index": index, "id": index.to_string()})).collect();
    let one_by_one: String = list.iter().map(|call| event(json!({"tool_calls": [call]}))).collect();
    let at_once =
        json!({"choices": [{"message": {"tool_calls": list}, "finish_reason": "stop"}]}).to_string();
    let started = std::time::Instant::now();
    for body in [event(json!({"tool_calls": list})) + &end(), one_by_one + &end(), at_once] {
        assert_eq!(read(&body).unwrap_err().class, ErrorClass::Malformed);
    }
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn what_stopped_a_reply_is_read_under_both_names() {
    for (said, known) in [
        (r#""stop_reason":"</answer>""#, StoppedBy::Text("</answer>".into())),
        (r#""matched_stop":"</answer>""#, StoppedBy::Text("</answer>".into())),
        (r#""stop_reason":null,"matched_stop":"</answer>""#, StoppedBy::Text("</answer>".into())),
        (r#""stop_reason":151645"#, StoppedBy::Model),
        (r#""stop_reason":null"#, StoppedBy::Model),
        (r#""usage":null"#, StoppedBy::Unsaid),
    ] {
        let choice = format!(r#"{{"delta":{{"content":"B"}},"finish_reason":"stop",{said}}}"#);
        let events = format!("data: {{\"choices\":[{choice}]}}\n\ndata: [DONE]\n");
        let at_once = format!(r#"{{"choices":[{}]}}"#, choice.replace("delta", "message"));
        for body in [events, at_once] {
            let found = read(&body).unwrap();
            assert_eq!((found.text.as_str(), &found.stopped_by), ("B", &known), "{said}");
        }
    }
}

#[test]
fn the_first_token_is_the_first_delta_with_text_or_a_call() {
    let first = |chunks: &[&str]| read_chunks(false, chunks.iter().map(|chunk| chunk.as_bytes())).1;
    let events: Vec<&str> = STREAM.split_inclusive("\n\n").collect();
    assert_eq!(first(&events), Some(1), "the role alone was not generated");
    assert_eq!(first(&[events[0], events[3]]), Some(1), "a call is text that a server took apart");
    let (before, after) = events[1].split_at(events[1].len() / 2);
    assert_eq!(first(&[before, after]), Some(1), "half an event");
    assert_eq!(first(&[&event(json!({"content": ""}))]), None);
}

#[test]
fn broken_streams_are_errors() {
    let text = event(json!({"content": "B"}));
    for bad in [
        text.clone(),
        "data: {\"cho\n\n".to_owned(),
        "data: [DONE]\n\n".to_owned(),
        format!("{text}data: [DONE]\n\n"),
        format!("{text}data: {{\"choices\":[{{\"del"),
        format!("data: ping\n\n{text}{}", end()),
    ] {
        assert_eq!(read(&bad).unwrap_err().class, ErrorClass::Malformed, "{bad}");
    }
    let not_utf8 = read_chunks(false, [&b"data: \xff\n\n"[..]]).0.unwrap_err().message;
    assert!(not_utf8.contains("not UTF-8"), "{not_utf8}");
    let said = read("data: Expecting value: line 1\n\n").unwrap_err().message;
    assert!(said.ends_with("Expecting value: line 1"), "{said}");
    for failed in [
        "data: {\"error\": \"engine died\"}\n\n",
        "event: error\ndata: engine died\n\n",
        "event: error\ndata: {\"message\": \"engine died\"}\n\n",
        "data: {\"error\": {\"message\": \"engine died\"}}\nevent: error\n\n",
    ] {
        let error = read(&format!("{text}{failed}{}", end())).unwrap_err();
        assert!(error.class == ErrorClass::Server && error.message.contains("engine died"), "{error:?}");
    }
}

#[test]
fn an_empty_reason_is_an_end_where_the_server_marks_the_end() {
    let blank =
        format!("data: {}\n\n", json!({"choices": [{"delta": {"content": "B"}, "finish_reason": ""}]}));
    assert_eq!(read(&format!("{blank}data: [DONE]\n")).unwrap().finish_reason, None);
    assert!(read(&blank).is_err());
}

/// How a stream may be dressed without another meaning.
#[derive(Debug, Clone)]
struct Dress {
    line_end: &'static str,
    before: &'static str,
    space: bool,
    split: bool,
    mark: bool,
    cuts: Vec<usize>,
}

fn dress() -> impl Strategy<Value = Dress> {
    let befores = [
        "", ": ping\n", "event: message\n", "id: 7\nretry: 10\n", "x: y\n", ":\n\n", "\n\n",
        "data: : wait\n\n",
    ];
    let parts = (
        prop::sample::select(vec!["\n", "\r", "\r\n"]),
        prop::sample::select(befores.to_vec()),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::collection::vec(1usize..40, 1..20),
    );
    parts.prop_map(|(line_end, before, space, split, mark, cuts)| Dress {
        line_end,
        before,
        space,
        split,
        mark,
        cuts,
    })
}

/// Cuts bytes into chunks of these sizes, over and over.
fn cut<'a>(bytes: &'a [u8], sizes: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    sizes.iter().cycle().map_while(move |size| {
        let (chunk, after) = rest.split_at((*size).min(rest.len()));
        rest = after;
        (!chunk.is_empty()).then_some(chunk)
    })
}

fn stream_of(text: &str, calls: &[(String, String)], pieces: usize, dress: &Dress) -> Vec<u8> {
    let cut = |text: &str| -> Vec<String> {
        let characters: Vec<char> = text.chars().collect();
        characters.chunks(pieces).map(|piece| piece.iter().collect()).collect()
    };
    let mut deltas: Vec<Value> = cut(text).into_iter().map(|piece| json!({"content": piece})).collect();
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let id = format!("call_{index}");
        deltas.push(
            json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": ""}}]}),
        );
        for piece in cut(arguments) {
            deltas.push(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
        }
    }
    let mut body = String::from(if dress.mark { "\u{feff}" } else { "" });
    let mut put = |value: &Value| {
        let line = value.to_string();
        let line = if dress.split { line.replacen(':', ":\ndata: ", 1) } else { line };
        body += dress.before;
        body += if dress.space { "data: " } else { "data:" };
        body += &line;
        body += "\n\n";
    };
    deltas.iter().for_each(|delta| put(&json!({"choices": [{"index": 0, "delta": delta}]})));
    put(
        &json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}),
    );
    body += "data: [DONE]\n\n";
    body.replace('\n', dress.line_end).into_bytes()
}

fn outcome(found: Result<Completion, Failure>) -> Result<Completion, (ErrorClass, String)> {
    found.map_err(|failure| (failure.class, failure.message))
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(256)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_in_any_chunks_read_alike(
        pieces in prop::collection::vec(
            prop_oneof![
                4 => prop::sample::select(vec![
                    "data: ", "data:", "\n", "\r", "\r\n", "\n\n", ":", "event: error", "event: x", "[DONE]", "{", "}", "[", "]",
                    "\"choices\"", "\"delta\"", "\"content\"", "\"index\":0", "\"tool_calls\"", "\"a\"", ",", "null", "\u{feff}",
                    "{\"choices\":[{\"delta\":{\"content\":\"B\"}}]}",
                    "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"n\",\"arguments\":\"{}\"}}]}}]}",
                    "{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}", "{\"error\":\"x\"}",
                ]).prop_map(|text| text.as_bytes().to_vec()),
                1 => prop::collection::vec(any::<u8>(), 0..8),
            ],
            0..40,
        ),
        sizes in prop::collection::vec(1usize..12, 1..8),
        declared: bool,
    ) {
        let body = pieces.concat();
        let whole = outcome(read_chunks(declared, [&body[..]]).0);
        prop_assert_eq!(&outcome(read_chunks(declared, cut(&body, &sizes)).0), &whole);
        prop_assert_eq!(&outcome(read_chunks(declared, body.chunks(1)).0), &whole);
    }

    #[test]
    fn a_reply_in_any_dress_is_that_reply(
        text in "[ -~\\n\\t\u{e9}\u{4e2d}\u{2028}\u{85}]{1,40}",
        calls in prop::collection::vec(("[a-z_]{1,12}", "[ -~\\n\u{4e2d}]{0,30}"), 0..4),
        pieces in 1usize..9,
        dress in dress(),
    ) {
        let body = stream_of(&text, &calls, pieces, &dress);
        // Unknown SSE fields do not identify a stream; the content type does.
        let found = read_chunks(true, cut(&body, &dress.cuts)).0.unwrap();
        prop_assert_eq!(&found.text, &text);
        let read: Vec<(String, String)> = found.tool_calls.into_iter().map(|call| (call.name, call.arguments)).collect();
        prop_assert_eq!(&read, &calls);
        prop_assert_eq!(found.usage.unwrap().prompt_tokens, 3);
    }
}

/// Reads a stream with the released client of the reference: the text of the first choice, and the error where it raises.
const WITH_OPENAI: &str = r#"
import http.server, json, sys, threading
import openai
bodies = json.load(sys.stdin)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = bodies[int(self.path.split("/")[1])].encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
out = []
for place in range(len(bodies)):
    url = f"http://127.0.0.1:{server.server_address[1]}/{place}"
    client = openai.OpenAI(api_key="x", base_url=url, max_retries=0)
    text = ""
    try:
        for chunk in client.chat.completions.create(model="m", messages=[], stream=True):
            for choice in chunk.choices or []:
                if (choice.index or 0) == 0 and choice.delta:
                    text += choice.delta.content or ""
        out.append(text)
    except Exception:
        out.append(None)
print(json.dumps(out))
"#;

/// Text of the first choice, or an error, of each stream.
#[test]
#[ignore = "needs Python: run by ci/test"]
fn odd_streams_are_read_as_by_the_openai_package() {
    let (b, end) = (event(json!({"content": "B"})), end());
    let plain = format!(
        "{}{b}{}{end}",
        event(json!({"role": "assistant", "content": ""})),
        event(json!({"content": " é\n"}))
    );
    let choice = |index: u32, text: &str| json!({"index": index, "delta": {"content": text}});
    let two = format!("data: {}\n\n", json!({"choices": [choice(1, "x"), choice(0, "y")]}));
    let error = "data: {\"error\": {\"message\": \"died\"}}\n\n";
    let bodies = [
        plain.clone(),
        format!("\u{feff}{plain}"),
        format!(": ping\n\n{plain}"),
        format!(": ping\n: pong\n{plain}"),
        plain.replace("\n\n", "\n\n: ping\n\n"),
        plain.replace("data", "event: message\ndata"),
        plain.replace("data", "id: 1\ndata"),
        plain.replace("data", "retry: 1\ndata"),
        plain.replace("data", "unknown: 1\ndata"),
        plain.replace("data", "id\ndata"),
        plain.replace('\n', "\r"),
        plain.replace('\n', "\r\n"),
        plain.replace("data: ", "data:"),
        plain.replace("\n\n", "\n\n\n\n\n"),
        b.replace(r#"{"choices":"#, "{\ndata: \"choices\":") + &end,
        b.replace("\n\n", "\nevent: x\n\n") + &end,
        b.replace("\n\n", "\n: c\nid: 2\n\n") + &end,
        format!("{plain}{b}"),
        format!("{plain}data: no JSON\n\n"),
        plain.replace("data: [DONE]\n\n", ""),
        plain.replace("[DONE]", "[DONE] "),
        format!("{two}{two}{end}"),
        format!("{b}{error}{end}"),
        format!("event: error\n{error}{end}"),
        format!("{b}data: no JSON\n\n{end}"),
        format!("{b}data: {{\"cho\n\n{end}"),
        format!("data: {{\"choices\": []}}\n\n{plain}"),
        format!("data: {{\"type\": \"ping\"}}\n\n{plain}"),
        plain.replace("é", "\u{2028}\u{85}"),
        plain.replace(r#""index":0"#, r#""index":0,"logprobs":null,"stop_reason":null"#),
    ];
    let python =
        std::env::var_os("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
    let mut child = Command::new(python)
        .args(["-c", WITH_OPENAI])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(serde_json::to_string(&bodies).unwrap().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let theirs: Vec<Option<String>> = serde_json::from_slice(&output.stdout).unwrap();
    for (body, theirs) in bodies.iter().zip(theirs) {
        let ours = read_chunks(true, [body.as_bytes()]).0.ok().map(|found| found.text);
        assert_eq!(ours, theirs, "{body}");
    }
}
