//! Flags for what a request carries beside the conversation.

use paravt_suite::evaluate::ConfigError;
use paravt_suite::settings::{RequestSettings, SamplingParams, ToolDialect};
use serde_json::{Map, Value};

/// See [`ToolDialect`] and [`RequestSettings`].
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Requests")]
pub struct RequestFlags {
    /// How tool calls and their results are sent [default: auto].
    #[arg(long, value_enum)]
    tool_dialect: Option<ToolDialect>,
    #[command(flatten)]
    sampling: SamplingParams,
    /// Arguments for the server's chat template as a JSON object, e.g. {"enable_thinking": false} [default: none].
    #[arg(long, value_name = "JSON", value_parser = object)]
    chat_template_kwargs: Option<Map<String, Value>>,
    /// Additional fields of every request body as a JSON object, e.g. {"min_p": 0.1} [default: none].
    #[arg(long, value_name = "JSON", value_parser = object)]
    extra_body: Option<Map<String, Value>>,
    /// Name of a field of the request body at this server, e.g. max_tokens=max_completion_tokens; without a name the field is
    /// left out, e.g. temperature=. Fields: max_tokens, temperature, seed, top_p, top_k, repetition_penalty, presence_penalty,
    /// stop; repeatable
    /// [default: none; max_completion_tokens where the server asks for it].
    #[arg(long, value_name = "FIELD=NAME", value_parser = body_field)]
    body_field: Vec<(String, String)>,
    /// Header of every request, and the environment variable that holds its value, e.g. X-Api-Key=MY_KEY; repeatable.
    /// Values are never written to a file [default: none].
    #[arg(long, value_name = "NAME=VARIABLE", value_parser = header)]
    header_env: Vec<(String, String)>,
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("a JSON object is needed: {error}"))
}

fn body_field(text: &str) -> Result<(String, String), String> {
    let (field, name) = text.split_once('=').ok_or("write it as FIELD=NAME")?;
    Ok((field.trim().to_owned(), name.trim().to_owned()))
}

fn header(text: &str) -> Result<(String, String), String> {
    // The text may hold a key by mistake: it is not repeated.
    let (name, variable) = text.split_once('=').ok_or("write it as NAME=VARIABLE")?;
    Ok((name.trim().to_owned(), variable.trim().to_owned()))
}

impl RequestFlags {
    /// Dialect of tool calls.
    pub fn dialect(&self) -> Option<ToolDialect> {
        self.tool_dialect
    }

    /// The flags as settings, checked.
    pub fn settings(&self) -> anyhow::Result<RequestSettings> {
        let settings = RequestSettings {
            sampling: self.sampling.clone(),
            chat_template_kwargs: self.chat_template_kwargs.clone().unwrap_or_default(),
            extra_body: self.extra_body.clone().unwrap_or_default(),
            body_fields: self.body_field.iter().cloned().collect(),
            header_env: self.header_env.iter().cloned().collect(),
        };
        settings.check().map_err(ConfigError::Request)?;
        Ok(settings)
    }
}
