//! Chat templates: Jinja2 as `apply_chat_template` of transformers runs it.

mod limits;

use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value as Any};
use minijinja::{Environment, ErrorKind, context};
use paravt_python::{dumps, loads};
use serde_json::Value;

use crate::error::Error;
use crate::files::{read_json, read_text};

/// A model's chat template: a program that comes with the model's files, and is bounded.
pub struct ChatTemplate {
    environment: Environment<'static>,
    special: serde_json::Map<String, Value>,
}

const NAME: &str = "chat_template";
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
        let environment = Self::bounded(source).map_err(|message| Error::file(&path, message))?;
        Ok(Self { environment, special: special_tokens(&config) })
    }

    /// Another template with the special tokens of this one.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn with(&self, source: &str) -> Result<Self, Error> {
        let environment = Self::bounded(source.to_owned());
        let environment = environment
            .map_err(|message| Error::Prompt(format!("chat template of the request: {message}")))?;
        Ok(Self { environment, special: self.special.clone() })
    }

    fn bounded(source: String) -> Result<Environment<'static>, String> {
        if source.len() > limits::SOURCE {
            return Err(format!(
                "a chat template of more than {} KiB is not supported",
                limits::SOURCE >> 10
            ));
        }
        limits::apart(|| Self::parse(source))
    }

    fn parse(source: String) -> Result<Environment<'static>, minijinja::Error> {
        let mut environment = Environment::new();
        // A file's last line break belongs to the file, not to the prompt: none is kept, as by default.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
        environment.set_syntax(syntax);
        limits::install(&mut environment);
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
        environment.set_fuel(Some(limits::FUEL + limits::FUEL_PER_PART * parts));
        let rendered = limits::apart(|| {
            let values = context! {
                messages => Serde(messages), tools => tools.map(Serde), add_generation_prompt => asks,
                ..Any::from(Serde(&self.special))
            };
            let mut text = limits::Text::default();
            environment.get_template(NAME)?.render_captured_to(values, &mut text)?;
            String::from_utf8(text.0).map_err(|error| refused(error.to_string()))
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
