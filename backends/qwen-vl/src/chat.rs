//! Chat templates: Jinja2 as `apply_chat_template` of transformers runs it.

use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value as Any};
use minijinja::{Environment, ErrorKind, context};
use paravt_suite::python::{dumps, loads};
use serde_json::Value;

use crate::error::Error;
use crate::processor::read_json;

/// A model's chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    special: serde_json::Map<String, Value>,
}

const NAME: &str = "chat_template";

impl ChatTemplate {
    /// Reads `chat_template.jinja`, `chat_template.json` or the one in `tokenizer_config.json`.
    ///
    /// # Errors
    /// No template, or one that does not parse.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let config_path = folder.join("tokenizer_config.json");
        let config = if config_path.is_file() { read_json(&config_path)? } else { Value::Null };
        let (jinja, old) = (folder.join("chat_template.jinja"), folder.join("chat_template.json"));
        let (path, source) = if jinja.is_file() {
            let text = std::fs::read_to_string(&jinja).map_err(|error| Error::file(&jinja, error))?;
            (jinja, Some(text))
        } else if old.is_file() {
            let text = read_json(&old)?["chat_template"].as_str().map(str::to_owned);
            (old, text)
        } else {
            let text = config["chat_template"].as_str().map(str::to_owned).or_else(|| named_default(&config));
            (config_path, text)
        };
        let source = source.ok_or_else(|| Error::file(&path, "no chat template in it, nor beside it"))?;
        Self::parse(source, special_tokens(&config)).map_err(|error| Error::file(&path, format!("{error:#}")))
    }

    fn parse(source: String, special: serde_json::Map<String, Value>) -> Result<Self, minijinja::Error> {
        let mut environment = Environment::new();
        // A file's last line break belongs to the file, not to the prompt: none is kept, as by default.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
        environment.set_syntax(syntax);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", |message: String| -> Result<Any, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_template_owned(NAME, source)?;
        Ok(Self { environment, special })
    }

    /// The prompt of a conversation: `messages` as chat-completion JSON, media parts as `{"type": "image"}`.
    ///
    /// A conversation that ends with the assistant's words is left open there, so that the model goes on.
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
                        "the chat template changes the assistant's words: cannot go on from them".to_owned(),
                    )
                })?;
                Ok(text[..end].to_owned())
            }
        }
    }
}

impl ChatTemplate {
    /// A conversation to its end, every turn closed.
    ///
    /// # Errors
    /// As [`Self::render`].
    pub fn whole(&self, messages: &Value) -> Result<String, Error> {
        self.fill(messages, None, false)
    }

    fn fill(&self, messages: &Value, tools: Option<&Value>, asks: bool) -> Result<String, Error> {
        let fail = |error: minijinja::Error| Error::Prompt(format!("chat template: {error:#}"));
        let template = self.environment.get_template(NAME).map_err(fail)?;
        let special = Any::from(Serde(&self.special));
        let values = context! {
            messages => Serde(messages), tools => tools.map(Serde), add_generation_prompt => asks, ..special
        };
        template.render(values).map_err(fail)
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
    let fail = |error: String| minijinja::Error::new(ErrorKind::InvalidOperation, error);
    let indent: Option<usize> = options.get("indent")?;
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    if let Some(indent) = indent {
        let value = serde_json::to_value(value).map_err(|error| fail(error.to_string()))?;
        let pad = vec![b' '; indent];
        let mut out = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(&pad);
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
        serde::Serialize::serialize(&value, &mut serializer).map_err(|error| fail(error.to_string()))?;
        return String::from_utf8(out).map_err(|error| fail(error.to_string()));
    }
    let text = serde_json::to_string(value).map_err(|error| fail(error.to_string()))?;
    let value = loads(&text).map_err(|error| fail(error.to_string()))?;
    Ok(dumps(&value, false))
}
