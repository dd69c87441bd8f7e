//! Streamed replies (server-sent events, WHATWG HTML section 9.2), put together into the reply they would have been.
//!
//! A server that parses calls and reasoning out of a reply strips their white space; the deltas of its stream still have
//! it. And only a stream says when the first token came.

use std::collections::HashMap;

use paravt_suite::backend::ErrorClass;
use serde_json::Value;

use crate::errors::Failure;
use crate::reply::is_error;
use crate::secret::Secrets;
use crate::wire::{Call, Choice, Content, Few, Function, Message, Reply};

/// Bytes that may stand before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Fields of the format; a line that begins with another name, or with `{`, is none of a stream.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

/// Reads the events of one body as it comes. It keeps no bytes but those of an event that has begun.
#[derive(Default)]
pub(crate) struct Stream {
    /// Whether the body is a stream; `None` until the first line other than a comment.
    known: Option<bool>,
    /// Whether the content type says so.
    declared: bool,
    /// First byte of the line that is read now, and of what was not searched for its end.
    line: usize,
    searched: usize,
    event: Event,
    reply: Assembly,
    /// `[DONE]` has come: nothing after it is part of the reply.
    done: bool,
}

/// The event that is read now.
#[derive(Default)]
struct Event {
    /// Value of `event:`.
    name: String,
    /// Its data lines. Of servers that put no empty line between events, the last one alone.
    data: String,
    /// The same, where its first line is all of it.
    value: Option<Reply>,
}

impl Stream {
    /// A stream whose content type says that it is one, or not.
    pub(crate) fn new(declared: bool) -> Self {
        Self { declared, ..Self::default() }
    }

    /// Reads on in `body`, which begins with what earlier calls were given. True once nothing more can come.
    ///
    /// # Errors
    /// An event that is not JSON (shown without `secrets`: a server that fails within a stream says why there), not
    /// UTF-8, or that holds an error.
    pub(crate) fn read(&mut self, body: &[u8], secrets: &Secrets) -> Result<bool, Failure> {
        if self.line == 0 && body.starts_with(BYTE_ORDER_MARK) {
            self.line = BYTE_ORDER_MARK.len();
            self.searched = self.line;
        }
        while !self.done && self.known != Some(false) {
            let rest = body.get(self.searched..).unwrap_or_default();
            let Some(length) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
                self.searched = body.len().max(self.searched);
                break;
            };
            let end = self.searched + length;
            // The line feed of a pair: its line ended before it.
            let is_second = body[end] == b'\n' && end == self.line && end > 0 && body[end - 1] == b'\r';
            if !is_second {
                self.read_line(&body[self.line..end], secrets)?;
            }
            (self.line, self.searched) = (end + 1, end + 1);
        }
        Ok(self.done)
    }

    /// Whether a generated token has come: the first delta of a stream may hold the role alone.
    pub(crate) fn has_token(&self) -> bool {
        self.reply.has_token
    }

    /// Assembles the reply from a fully read `body`; `None` unless it is a stream.
    ///
    /// # Errors
    /// As [`read`](Self::read), for a last event without a line end, or a stream that ends before the reply does.
    pub(crate) fn finish(mut self, body: &[u8], secrets: &Secrets) -> Result<Option<Reply>, Failure> {
        if !self.done && self.known != Some(false) {
            self.read_line(body.get(self.line..).unwrap_or_default(), secrets)?;
            self.dispatch(secrets)?;
        }
        if !self.known.unwrap_or(self.declared) {
            return Ok(None);
        }
        self.reply.whole(self.done).map(Some)
    }

    fn read_line(&mut self, line: &[u8], secrets: &Secrets) -> Result<(), Failure> {
        let colon = line.iter().position(|&byte| byte == b':');
        let name = &line[..colon.unwrap_or(line.len())];
        if self.known.is_none() && colon != Some(0) && !line.trim_ascii().is_empty() {
            let declared = self.declared && !matches!(line.trim_ascii_start()[0], b'{' | b'[' | b'<');
            self.known = Some(declared || FIELDS.contains(&name.trim_ascii_start()));
        }
        if line.is_empty() {
            return self.dispatch(secrets);
        }
        let value = colon.map_or(&b""[..], |colon| &line[colon + 1..]);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name.trim_ascii_start() {
            b"data" => {
                let text = std::str::from_utf8(value).map_err(|_| broken("is not UTF-8"))?;
                self.read_data(text, secrets)
            }
            b"event" => {
                self.event.name = String::from_utf8_lossy(value).trim().to_owned();
                Ok(())
            }
            // Identifiers and times are for clients that connect again; names that are not known are for others.
            _ => Ok(()),
        }
    }

    fn read_data(&mut self, line: &str, secrets: &Secrets) -> Result<(), Failure> {
        if line.trim().starts_with("[DONE]") {
            self.dispatch(secrets)?;
            self.done = true;
            return Ok(());
        }
        // A line after a whole value is an event of its own: some servers leave the empty line out.
        if self.event.value.is_some() {
            let name = self.event.name.clone();
            self.dispatch(secrets)?;
            self.event.name = name;
        }
        if !self.event.data.is_empty() {
            self.event.data.push('\n');
        // A comment of a gateway that was wrapped into an event.
        } else if line.trim().is_empty() || line.trim_start().starts_with(':') {
            return Ok(());
        }
        let is_first = self.event.data.is_empty();
        self.event.data.push_str(line);
        self.event.value = is_first.then(|| serde_json::from_str(line).ok()).flatten();
        Ok(())
    }

    /// Ends an event.
    fn dispatch(&mut self, secrets: &Secrets) -> Result<(), Failure> {
        let Event { name, data, value } = std::mem::take(&mut self.event);
        if data.trim().is_empty() {
            return Ok(());
        }
        if name == "error" {
            let value: Value = serde_json::from_str(&data).unwrap_or(Value::String(data));
            let error = if value["error"].is_null() { &value } else { &value["error"] };
            return Err(Failure::in_reply(error, secrets));
        }
        let events = match value {
            Some(event) => vec![event],
            None => {
                let events: Result<Vec<Reply>, _> =
                    serde_json::Deserializer::from_str(&data).into_iter().collect();
                events.map_err(|error| {
                    let excerpt = secrets.excerpt(data.as_bytes());
                    broken(&format!(
                        "holds an event that is not JSON of a chat completion ({error}): {excerpt}"
                    ))
                })?
            }
        };
        for event in events {
            if let Some(error) = event.error.as_ref().filter(|error| is_error(error)) {
                return Err(Failure::in_reply(error, secrets));
            }
            self.reply.add(event);
        }
        Ok(())
    }
}

fn broken(what: &str) -> Failure {
    Failure::new(ErrorClass::Malformed, format!("the reply's stream {what}"))
}

/// The reply as far as it has come.
#[derive(Default)]
struct Assembly {
    text: Option<String>,
    message: Message,
    calls: Calls,
    /// The choice as its last event describes it.
    end: Option<Choice>,
    /// The server writes an empty reason in every event, that of the end too.
    ends_blank: bool,
    usage: Option<Value>,
    model: Option<Value>,
    has_token: bool,
}

impl Assembly {
    fn add(&mut self, chunk: Reply) {
        self.usage = chunk.usage.or(self.usage.take());
        // Azure names none in its first event.
        self.model = chunk.model.filter(|name| *name != "").or(self.model.take());
        // Only one choice was asked for; what a server sends beside it is another reply.
        let ours = |choice: &Choice| choice.index.unwrap_or(0) == 0;
        for mut choice in chunk.choices.unwrap_or_default().0.into_iter().filter(ours) {
            if let Some(delta) = choice.delta.take().or(choice.message.take()) {
                self.add_delta(delta);
            }
            self.ends_blank = choice.finish_reason.as_deref() == Some("");
            if choice.finish_reason.as_ref().is_some_and(|reason| !reason.is_empty()) {
                self.end = Some(choice);
            }
        }
    }

    fn add_delta(&mut self, delta: Message) {
        let content = delta.content.map(Content::into_text);
        // A server may send its thoughts under both names: each is kept apart.
        for (text, more) in [
            (&mut self.text, content),
            (&mut self.message.reasoning_content, delta.reasoning_content),
            (&mut self.message.reasoning, delta.reasoning),
            (&mut self.message.refusal, delta.refusal),
        ] {
            if let Some(more) = more {
                self.has_token |= !more.is_empty();
                text.get_or_insert_default().push_str(&more);
            }
        }
        let calls = delta.tool_calls.unwrap_or_default().0;
        let old = delta.function_call.map(|function| Call { function: Some(function), ..Call::default() });
        for call in calls.into_iter().chain(old) {
            self.has_token = true;
            self.calls.add(call);
        }
    }

    fn whole(mut self, done: bool) -> Result<Reply, Failure> {
        if self.end.is_none() && !(self.ends_blank && done) {
            return Err(broken("ended before the reply did"));
        }
        let mut calls = self.calls.list;
        calls.sort_by_key(|call| call.index);
        self.message.tool_calls = Some(Few(calls));
        self.message.content = self.text.map(Content::Text);
        let end = self.end.unwrap_or_default();
        let choice = Choice { message: Some(self.message), delta: None, ..end };
        Ok(Reply { choices: Some(Few(vec![choice])), usage: self.usage, model: self.model, error: None })
    }
}

/// Tool calls by index and identifier. Servers of several kinds give each call an index (the chat API), the same index
/// and another identifier (Ollama, Dynamo), or neither.
#[derive(Default)]
struct Calls {
    list: Vec<Call>,
    /// How far the arguments of each have come.
    progress: Vec<Brackets>,
    /// Place of the latest call with this index, and of that with this index and identifier.
    latest: HashMap<Option<i64>, usize>,
    named: HashMap<(Option<i64>, String), usize>,
}

impl Calls {
    fn add(&mut self, mut delta: Call) {
        delta.id = delta.id.filter(|id| !id.is_empty());
        let mut function = delta.function.take().unwrap_or_default();
        function.name = function.name.filter(|name| !name.is_empty());
        let place = self.place_of(&delta, &function).unwrap_or_else(|| {
            self.list.push(Call { index: delta.index, ..Call::default() });
            self.progress.push(Brackets::default());
            self.list.len() - 1
        });
        self.latest.insert(delta.index, place);
        // A later delta without an index belongs to the call before it.
        self.latest.insert(None, place);
        if let Some(id) = delta.id {
            self.named.insert((delta.index, id.clone()), place);
            self.named.insert((None, id.clone()), place);
            self.list[place].id = Some(id);
        }
        let known = self.list[place].function.get_or_insert_default();
        // Some servers end a call with all of it once more.
        let is_closed = self.progress[place].closed && function.name.is_some();
        let is_repeated = is_closed && known.arguments == function.arguments;
        known.name = function.name.or(known.name.take());
        if let Some(more) = function.arguments.filter(|_| !is_repeated) {
            known.add_arguments(&more, &mut self.progress[place]);
        }
    }

    /// The call that a delta continues; `None` where it opens one.
    fn place_of(&self, delta: &Call, function: &Function) -> Option<usize> {
        let place = match &delta.id {
            Some(id) => self.named.get(&(delta.index, id.clone())).copied().or_else(|| {
                // One that was opened without an identifier.
                let place = *self.latest.get(&delta.index)?;
                self.list[place].id.is_none().then_some(place)
            })?,
            None => *self.latest.get(&delta.index)?,
        };
        if self.list[place].id.is_some() && delta.id.is_some() {
            return Some(place);
        }
        let known = self.list[place].function.as_ref().and_then(|function| function.name.as_ref());
        let is_other = function.name.is_some() && known.is_some() && function.name.as_ref() != known;
        // Some servers repeat the name in every delta. A second call of the same tool follows complete arguments.
        let more = function.arguments.as_ref().is_some_and(|more| *more != "");
        let is_next = function.name.is_some() && more && self.progress[place].closed;
        (!is_other && !is_next).then_some(place)
    }
}

impl Function {
    /// Appends a piece of the arguments: text, or a value that a server did not write as text.
    fn add_arguments(&mut self, more: &Value, progress: &mut Brackets) {
        let is_placeholder = self.arguments.as_ref().is_some_and(|known| *known == serde_json::json!({}));
        let before = self.arguments.take().filter(|_| !is_placeholder);
        self.arguments = match (before, more) {
            (None, Value::Null) => None,
            (before, Value::Null) => before,
            (None, more) => Some(more.clone()),
            (Some(Value::String(mut text)), Value::String(more)) => {
                text.push_str(more);
                Some(Value::String(text))
            }
            (Some(before), more) => Some(Value::String(text_of(&before) + &text_of(more))),
        };
        if is_placeholder {
            *progress = Brackets::default();
        }
        match more {
            Value::String(more) => progress.read(more),
            Value::Null => {}
            more => progress.read(&more.to_string()),
        }
    }
}

fn text_of(arguments: &Value) -> String {
    arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned)
}

/// Whether JSON that comes in pieces is a whole object by now.
#[derive(Default)]
struct Brackets {
    depth: usize,
    in_string: bool,
    escaped: bool,
    closed: bool,
}

impl Brackets {
    fn read(&mut self, text: &str) {
        for byte in text.bytes() {
            match (self.in_string, byte) {
                (true, _) if self.escaped => self.escaped = false,
                (true, b'\\') => self.escaped = true,
                (_, b'"') => self.in_string = !self.in_string,
                (false, b'{' | b'[') => self.depth += 1,
                (false, b'}' | b']') if self.depth > 0 => {
                    self.depth -= 1;
                    self.closed |= self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
