//! The chat API's reply and the events of its stream, as far as they are read.

use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::Value;

/// A reply, or one event of its stream.
#[derive(Default, Deserialize)]
pub(crate) struct Reply {
    pub choices: Option<Few<Choice, 128>>,
    /// Some servers answer 200 and put what went wrong here, beside or instead of choices.
    pub error: Option<Value>,
    /// Token counts are optional: unreadable ones count as absent.
    pub usage: Option<Value>,
    /// The model that answers, by its name there.
    pub model: Option<Value>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Choice {
    pub index: Option<i64>,
    pub message: Option<Message>,
    /// The next part of the message, in a stream.
    pub delta: Option<Message>,
    pub finish_reason: Option<String>,
    /// vLLM: the stop text, or the id of a token; null where the model ended the reply itself.
    #[serde(default, deserialize_with = "even_null")]
    pub stop_reason: Option<Value>,
    /// The same in SGLang.
    #[serde(default, deserialize_with = "even_null")]
    pub matched_stop: Option<Value>,
    pub logprobs: Option<Value>,
    /// vLLM's `return_token_ids`.
    pub token_ids: Option<Value>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Message {
    pub content: Option<Content>,
    pub tool_calls: Option<Few<Call, MOST_CALLS>>,
    /// The form before `tool_calls`.
    pub function_call: Option<Function>,
    /// SGLang, transformers serve, vLLM before 0.11.
    pub reasoning_content: Option<String>,
    /// vLLM since 0.11.
    pub reasoning: Option<String>,
    pub refusal: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Deserialize)]
pub(crate) struct ContentPart {
    text: Option<String>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Call {
    /// Which call of the reply a part of a stream belongs to.
    pub index: Option<i64>,
    pub id: Option<String>,
    pub function: Option<Function>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Function {
    pub name: Option<String>,
    /// A JSON string; some servers write the object itself.
    pub arguments: Option<Value>,
}

/// Tool calls that one list may have, whatever a request allows: each takes memory before it can be counted.
pub(crate) const MOST_CALLS: usize = 1 << 16;

/// A list that a server may not make longer than `N`.
#[derive(Default)]
pub(crate) struct Few<T, const N: usize>(pub Vec<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for Few<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Items<T, N> {
            type Value = Few<T, N>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "a list of at most {N}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut few = Vec::new();
                while let Some(item) = items.next_element()? {
                    if few.len() == N {
                        return Err(A::Error::invalid_length(N + 1, &self));
                    }
                    few.push(item);
                }
                Ok(Few(few))
            }
        }
        deserializer.deserialize_seq(Items(PhantomData))
    }
}

/// A field that is there, if only as null.
fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Content {
    pub(crate) fn into_text(self) -> String {
        match self {
            Content::Text(text) => text,
            Content::Parts(parts) => parts.into_iter().filter_map(|part| part.text).collect(),
        }
    }
}
