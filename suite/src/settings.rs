//! What a request carries beside the conversation: how tool calls travel, how tokens are drawn,
//! what else a server is asked for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Dialect of tool calls between model and loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum ToolDialect {
    /// Read calls from the reply's text; send results as user messages (as the reference does).
    #[default]
    Text,
    /// Use the chat API: `tools`, `tool_calls` and messages of role `tool`.
    Native,
    /// As `text`, and put calls that the server parsed out back into the text.
    Auto,
}

impl ToolDialect {
    /// Name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            ToolDialect::Text => "text",
            ToolDialect::Native => "native",
            ToolDialect::Auto => "auto",
        }
    }
}

/// Sampling parameters beside the temperature. One that is not set is left to the backend.
///
/// The repetition penalty divides positive logits of tokens that the conversation already holds, and multiplies negative
/// ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct SamplingParams {
    /// Nucleus sampling: probability mass to sample from [default: the backend's].
    #[cfg_attr(feature = "clap", arg(long, value_name = "P"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Sample from the K most probable tokens; 0 for all [default: the backend's].
    #[cfg_attr(feature = "clap", arg(long, value_name = "K"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Repetition penalty; 1 for none [default: the backend's].
    #[cfg_attr(feature = "clap", arg(long, value_name = "FACTOR"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition_penalty: Option<f64>,
    /// What is taken from the logits of tokens that the reply already holds, -2 to 2 [default: the backend's].
    #[cfg_attr(feature = "clap", arg(long, value_name = "NUMBER", allow_negative_numbers = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// Text that ends a generation; repeatable [default: none].
    #[cfg_attr(feature = "clap", arg(long, value_name = "TEXT"))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

impl SamplingParams {
    /// The whole distribution at the temperature, whatever the model's folder has as defaults.
    pub fn neutral() -> Self {
        let (top_p, top_k, repetition_penalty) = (Some(1.0), Some(0), Some(1.0));
        Self { top_p, top_k, repetition_penalty, ..Self::default() }
    }

    /// These parameters, with those of `default` where they are not set.
    #[must_use]
    pub fn or(&self, default: &Self) -> Self {
        let stop = if self.stop.is_empty() { &default.stop } else { &self.stop };
        Self {
            top_p: self.top_p.or(default.top_p),
            top_k: self.top_k.or(default.top_k),
            repetition_penalty: self.repetition_penalty.or(default.repetition_penalty),
            presence_penalty: self.presence_penalty.or(default.presence_penalty),
            stop: stop.clone(),
        }
    }

    /// The numbers by their names in a chat completion request; `null` for one that is not set.
    pub fn numbers(&self) -> [(&'static str, Value); 4] {
        [
            ("top_p", self.top_p.into()),
            ("top_k", self.top_k.into()),
            ("repetition_penalty", self.repetition_penalty.into()),
            ("presence_penalty", self.presence_penalty.into()),
        ]
    }

    /// Checks the ranges.
    fn check(&self) -> Result<(), String> {
        if let Some(top_p) = self.top_p
            && !(top_p > 0.0 && top_p <= 1.0)
        {
            return Err(format!("top_p: expected a number above 0 and at most 1, found {top_p}"));
        }
        if let Some(penalty) = self.repetition_penalty
            && !(penalty > 0.0 && penalty.is_finite())
        {
            return Err(format!("repetition_penalty: expected a positive number, found {penalty}"));
        }
        if let Some(penalty) = self.presence_penalty
            && !(-2.0..=2.0).contains(&penalty)
        {
            return Err(format!("presence_penalty: expected a number from -2 to 2, found {penalty}"));
        }
        if self.stop.iter().any(String::is_empty) {
            return Err(
                "stop: expected a text, found an empty one, which would end every generation at once"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// Sampling and server settings of every request of a run. Empty settings send nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestSettings {
    /// Sampling beside the temperature.
    #[serde(flatten)]
    pub sampling: SamplingParams,
    /// Arguments of the server's chat template, e.g. `{"enable_thinking": false}`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub chat_template_kwargs: Map<String, Value>,
    /// Further fields of the request body.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra_body: Map<String, Value>,
    /// Names that fields of the request body have at this server: `{"max_tokens": "max_completion_tokens"}`. A field whose
    /// name is empty is left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub body_fields: BTreeMap<String, String>,
    /// Headers by name, each with the environment variable that holds its value. The value itself is
    /// never part of a plan.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub header_env: BTreeMap<String, String>,
}

/// Body fields that the suite writes itself, with what sets them.
const RESERVED: [(&str, &str); 25] = [
    ("model", "--model"),
    ("messages", "the protocol and the data"),
    ("max_tokens", "--max-tokens"),
    ("max_completion_tokens", "--max-tokens"),
    ("temperature", "--temperature"),
    ("seed", "--seed"),
    ("top_p", "--top-p"),
    ("top_k", "--top-k"),
    ("repetition_penalty", "--repetition-penalty"),
    ("presence_penalty", "--presence-penalty"),
    ("stop", "--stop"),
    ("chat_template_kwargs", "--chat-template-kwargs"),
    ("media_io_kwargs", "--send-video-frames"),
    ("continue_final_message", "the protocol"),
    ("add_generation_prompt", "the protocol"),
    ("tools", "--tool-dialect native"),
    ("tool_choice", "--tool-dialect native"),
    ("functions", "--tool-dialect native"),
    ("function_call", "--tool-dialect native"),
    ("stream", "--stream"),
    ("stream_options", "--stream"),
    ("n", "nothing: one reply is read"),
    ("logprobs", "`generate --logprobs`"),
    ("return_token_ids", "`generate --logprobs`"),
    ("api_key", "$OPENAI_API_KEY or --header-env"),
];

/// Body fields that servers name otherwise or refuse.
const NAMED: [&str; 8] =
    ["max_tokens", "temperature", "seed", "top_p", "top_k", "repetition_penalty", "presence_penalty", "stop"];

/// Headers that the client writes itself.
const RESERVED_HEADERS: [&str; 5] =
    ["content-type", "content-length", "host", "transfer-encoding", "connection"];

impl RequestSettings {
    /// Names of its fields, which serde does not list in its errors where one is flattened.
    pub(crate) const FIELDS: [&str; 9] = [
        "top_p", "top_k", "repetition_penalty", "presence_penalty", "stop", "chat_template_kwargs",
        "extra_body", "body_fields", "header_env",
    ];

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What a field of the request body is called at this server; `None` for one that is left out.
    pub fn name_of<'a>(&'a self, field: &'a str) -> Option<&'a str> {
        let name = self.body_fields.get(field).map_or(field, String::as_str);
        (!name.is_empty()).then_some(name)
    }

    /// Checks values and names.
    ///
    /// # Errors
    /// The first setting that no server could be sent, with what to do instead.
    pub fn check(&self) -> Result<(), String> {
        self.sampling.check()?;
        for key in self.extra_body.keys() {
            if let Some((_, instead)) = RESERVED.iter().find(|(name, _)| name == key) {
                return Err(format!("extra body: `{key}` is set by {instead}"));
            }
        }
        for (field, name) in &self.body_fields {
            if !NAMED.contains(&field.as_str()) {
                let known = NAMED.join(", ");
                return Err(format!("body field `{field}`: expected one of {known}"));
            }
            let own =
                RESERVED.iter().any(|(reserved, _)| reserved == name && *name != "max_completion_tokens");
            if (own && name != field) || self.extra_body.contains_key(name) {
                return Err(format!("body field `{field}`: the name `{name}` is taken"));
            }
        }
        for (name, variable) in &self.header_env {
            if RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
                return Err(format!("header `{name}` is set by the client"));
            }
            let named = |text: &str, also: &str| {
                !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
            };
            if !named(name, "-_.") {
                return Err(format!("header `{name}`: expected a name of letters, digits, `-`, `_` and `.`"));
            }
            if !named(variable, "_") {
                return Err(format!(
                    "header `{name}`: give the name of an environment variable that holds its value, not the value"
                ));
            }
        }
        Ok(())
    }

    /// The settings that only a server understands, by name; empty where an in-process engine can do all.
    pub(crate) fn server_only(&self) -> Vec<&'static str> {
        let set = [
            ("chat_template_kwargs", !self.chat_template_kwargs.is_empty()),
            ("extra_body", !self.extra_body.is_empty()),
            ("body_fields", !self.body_fields.is_empty()),
            ("header_env", !self.header_env.is_empty()),
        ];
        set.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problem(settings: Value) -> Option<String> {
        serde_json::from_value::<RequestSettings>(settings).unwrap().check().err()
    }

    #[test]
    fn settings_that_cannot_be_sent_are_refused_by_name() {
        assert_eq!(problem(json!({})), None);
        assert_eq!(problem(json!({"top_p": 0.8, "top_k": 20, "extra_body": {"min_p": 0.1}})), None);
        for (settings, word) in [
            (json!({"top_p": 0.0}), "top_p"),
            (json!({"top_p": 1.5}), "top_p"),
            (json!({"repetition_penalty": 0.0}), "repetition_penalty"),
            (json!({"presence_penalty": 2.5}), "presence_penalty"),
            (json!({"stop": [""]}), "stop"),
            (json!({"extra_body": {"messages": []}}), "`messages` is set by"),
            (json!({"extra_body": {"max_tokens": 5}}), "--max-tokens"),
            (json!({"extra_body": {"stream": true}}), "--stream"),
            (json!({"body_fields": {"messages": ""}}), "expected one of max_tokens"),
            (json!({"body_fields": {"seed": "temperature"}}), "`temperature` is taken"),
            (json!({"body_fields": {"seed": "s"}, "extra_body": {"s": 1}}), "`s` is taken"),
            (json!({"header_env": {"Content-Type": "X"}}), "set by the client"),
            (json!({"header_env": {"a b": "X"}}), "header `a b`"),
        ] {
            let found = problem(settings).unwrap();
            assert!(found.contains(word), "{found}");
        }
    }

    #[test]
    fn a_header_value_in_the_place_of_a_variable_is_not_repeated() {
        let found = problem(json!({"header_env": {"X-Api-Key": "sk-secret-123"}})).unwrap();
        assert!(found.contains("X-Api-Key") && !found.contains("sk-secret"), "{found}");
    }

    #[test]
    fn fields_are_listed() {
        let full = json!({"top_p": 0.5, "top_k": 1, "repetition_penalty": 1.5, "presence_penalty": -1.5, "stop": ["x"],
            "chat_template_kwargs": {"a": 1}, "extra_body": {"min_p": 0.1},
            "body_fields": {"temperature": ""}, "header_env": {"a": "A"}});
        let settings: RequestSettings = serde_json::from_value(full.clone()).unwrap();
        assert_eq!(serde_json::to_value(&settings).unwrap(), full);
        assert!(full.as_object().unwrap().keys().eq(&RequestSettings::FIELDS));
    }

    #[test]
    fn fields_have_the_names_of_the_server() {
        let named = json!({"body_fields": {"max_tokens": "max_completion_tokens", "temperature": ""}});
        let settings: RequestSettings = serde_json::from_value(named).unwrap();
        assert_eq!(settings.check(), Ok(()));
        let names = ["max_tokens", "temperature", "seed"].map(|field| settings.name_of(field));
        assert_eq!(names, [Some("max_completion_tokens"), None, Some("seed")]);
    }

    #[test]
    fn empty_settings_are_empty_json() {
        assert_eq!(serde_json::to_value(RequestSettings::default()).unwrap(), json!({}));
        assert!(serde_json::from_value::<RequestSettings>(json!({"top_q": 1})).is_err());
    }
}
