//! Chat templates: Jinja2 as `apply_chat_template` of transformers runs it.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value as Any};
use minijinja::{Environment, ErrorKind, Output, State, context, escape_formatter};
use minijinja_contrib::pycompat::unknown_method_callback;
use paravt_upstream::python::{dumps, loads};
use serde_json::Value;

use crate::error::Error;
use crate::files::{read_json, read_text};

/// A model's chat template: a program that comes with the model's files. Its source, the instructions that it runs and the
/// values that it writes are bounded.
pub struct ChatTemplate {
    environment: Environment<'static>,
    special: serde_json::Map<String, Value>,
}

const NAME: &str = "chat_template";
/// Maximum bytes of a template; published ones have up to 30 KiB. Bounds the depth to which expressions nest.
const MAX_SOURCE: usize = 128 << 10;
/// Instructions that a template may run, and more of them for each part of a conversation.
const FUEL: u64 = 1_000_000;
const FUEL_PER_PART: u64 = 2_000;
/// Maximum bytes of the values that a template writes.
const MAX_WRITTEN: usize = 64 << 20;
/// Parsing, and dropping nested values, recurse; pages of a stack are taken as they are touched.
const STACK: usize = 512 << 20;

/// Runs work of a template on a stack that is large enough for all that [`MAX_SOURCE`] and [`FUEL`] can nest.
fn on_large_stack<R: Send>(work: impl FnOnce() -> Result<R, minijinja::Error> + Send) -> Result<R, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| format!("no thread: {error}"))?;
        let done = thread.join().map_err(|_| "the template's thread panicked; see stderr".to_owned())?;
        done.map_err(|error| format!("{error:#}"))
    })
}

fn refused(message: impl Into<std::borrow::Cow<'static, str>>) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, message)
}

impl ChatTemplate {
    /// Reads `chat_template.jinja`, `chat_template.json` or the one in `tokenizer_config.json`.
    ///
    /// # Errors
    /// No template, one that does not parse, or one of more than 128 KiB.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let config_path = folder.join("tokenizer_config.json");
        let config = if config_path.exists() { read_json(&config_path)? } else { Value::Null };
        let (jinja, old) = (folder.join("chat_template.jinja"), folder.join("chat_template.json"));
        let (path, source) = if jinja.exists() {
            let text = read_text(&jinja)?;
            (jinja, Some(text))
        } else if old.exists() {
            let text = read_json(&old)?["chat_template"].as_str().map(str::to_owned);
            (old, text)
        } else {
            let text = config["chat_template"].as_str().map(str::to_owned).or_else(|| named_default(&config));
            (config_path, text)
        };
        let source = source.ok_or_else(|| Error::file(&path, "no chat template in it, nor beside it"))?;
        if source.len() > MAX_SOURCE {
            let limit = MAX_SOURCE >> 10;
            return Err(Error::file(
                &path,
                format!("a chat template of more than {limit} KiB is not supported"),
            ));
        }
        let environment =
            on_large_stack(|| Self::parse(source)).map_err(|message| Error::file(&path, message))?;
        Ok(Self { environment, special: special_tokens(&config) })
    }

    fn parse(source: String) -> Result<Environment<'static>, minijinja::Error> {
        let mut environment = Environment::new();
        // A file's last line break belongs to the file, not to the prompt: none is kept, as by default.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
        environment.set_syntax(syntax);
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", |message: String| -> Result<Any, minijinja::Error> {
            Err(refused(message))
        });
        environment.add_template_owned(NAME, source)?;
        Ok(environment)
    }

    /// The prompt of a conversation: `messages` as chat-completion JSON, media parts as `{"type": "image"}`.
    ///
    /// A conversation that ends with an assistant message is left open there, so that the model continues it.
    ///
    /// # Errors
    /// The template raises, or needs what minijinja lacks.
    pub fn render(&self, messages: &Value, tools: Option<&Value>) -> Result<String, Error> {
        let last = messages.as_array().and_then(|messages| messages.last());
        let open = last.filter(|message| message["role"] == "assistant");
        let text = self.fill(messages, tools, open.is_none())?;
        match open {
            None => Ok(text),
            Some(message) => {
                let said = last_text(message);
                // The template's end of turn comes after the words; a stripped form is looked for too.
                let found = text.rfind(&said).map(|at| at + said.len());
                let found = found.or_else(|| text.rfind(said.trim()).map(|at| at + said.trim().len()));
                let end = found.ok_or_else(|| {
                    Error::Prompt(
                        "the chat template changes the text of the last assistant message, so that it cannot be continued".to_owned(),
                    )
                })?;
                Ok(text[..end].to_owned())
            }
        }
    }

    /// A conversation to its end, every turn closed.
    ///
    /// # Errors
    /// As [`Self::render`].
    pub fn whole(&self, messages: &Value) -> Result<String, Error> {
        self.fill(messages, None, false)
    }

    fn fill(&self, messages: &Value, tools: Option<&Value>, asks: bool) -> Result<String, Error> {
        let parts = |message: &Value| 1 + message["content"].as_array().map_or(0, Vec::len) as u64;
        let parts = messages.as_array().into_iter().flatten().map(parts).sum::<u64>();
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(FUEL + FUEL_PER_PART * parts));
        let written = AtomicUsize::new(0);
        environment.set_formatter(move |out: &mut Output, state: &mut State, value: &Any| {
            let bytes = value.as_str().map_or(0, str::len);
            if written.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_WRITTEN {
                return Err(refused(format!("writes more than {} MiB of text", MAX_WRITTEN >> 20)));
            }
            escape_formatter(out, state, value)
        });
        let rendered = on_large_stack(|| {
            let values = context! {
                messages => Serde(messages), tools => tools.map(Serde), add_generation_prompt => asks,
                ..Any::from(Serde(&self.special))
            };
            environment.get_template(NAME)?.render(values)
        });
        rendered.map_err(|message| Error::Prompt(format!("chat template: {message}")))
    }
}

fn last_text(message: &Value) -> String {
    match &message["content"] {
        Value::Array(parts) => {
            parts.iter().rev().find_map(|part| part["text"].as_str()).unwrap_or_default().to_owned()
        }
        content => content.as_str().unwrap_or_default().to_owned(),
    }
}

fn named_default(config: &Value) -> Option<String> {
    let named = config["chat_template"].as_array()?;
    let default = named.iter().find(|template| template["name"] == "default")?;
    default["template"].as_str().map(str::to_owned)
}

/// `eos_token` and its like, which templates may use.
fn special_tokens(config: &Value) -> serde_json::Map<String, Value> {
    let text = |value: &Value| value.as_str().or_else(|| value["content"].as_str()).map(Value::from);
    let entries = config.as_object().into_iter().flatten();
    entries
        .filter(|(key, _)| key.ends_with("_token"))
        .filter_map(|(key, value)| Some((key.clone(), text(value)?)))
        .collect()
}

/// `json.dumps(value, ensure_ascii=False, indent=…)`: Python's separators, no HTML escapes.
fn to_json(value: &Any, options: Kwargs) -> Result<String, minijinja::Error> {
    // A type that is too narrow for an indent that would fill the memory.
    let indent: Option<u8> = options.get("indent")?;
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    if let Some(indent) = indent {
        let value = serde_json::to_value(value).map_err(|error| refused(error.to_string()))?;
        let pad = vec![b' '; indent.into()];
        let mut out = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(&pad);
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
        serde::Serialize::serialize(&value, &mut serializer).map_err(|error| refused(error.to_string()))?;
        return String::from_utf8(out).map_err(|error| refused(error.to_string()));
    }
    let text = serde_json::to_string(value).map_err(|error| refused(error.to_string()))?;
    let value = loads(&text).map_err(|error| refused(error.to_string()))?;
    Ok(dumps(&value, false))
}
