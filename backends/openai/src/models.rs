//! The list of models that a server gives.

use std::collections::HashSet;

use paravt_suite::backend::ErrorClass;
use serde::Deserialize;

use crate::errors::Failure;
use crate::reply::{malformed, not_json};
use crate::secret::Secrets;

#[derive(Deserialize)]
struct Models {
    data: Option<Vec<Model>>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    /// vLLM: the weights behind a name.
    root: Option<String>,
}

/// The models of a list.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    /// Their names in the server's order, at least one.
    pub names: Vec<String>,
    /// All are names of one model (vLLM's --served-model-name).
    pub is_one: bool,
}

/// Reads a list of models.
pub(crate) fn read(body: &[u8], secrets: &Secrets) -> Result<Listed, Failure> {
    // Together gives the list bare.
    let models = match body.trim_ascii_start().starts_with(b"[") {
        true => serde_json::from_slice(body),
        false => serde_json::from_slice(body).map(|Models { data }| data.unwrap_or_default()),
    };
    let mut models: Vec<Model> = models.map_err(|error| not_json("list of models", &error, body, secrets))?;
    let mut seen = HashSet::new();
    models.retain(|model| !model.id.trim().is_empty() && seen.insert(model.id.clone()));
    let is_one = models.len() == 1
        || models.windows(2).all(|pair| pair[0].root.is_some() && pair[0].root == pair[1].root);
    let names: Vec<String> = models.into_iter().map(|model| model.id).collect();
    if names.is_empty() {
        // No broken reply: another try gets the same list.
        let message = "the server lists no model (GET /v1/models); name the one to ask with --model";
        return Err(Failure::new(ErrorClass::EmptyReply, message));
    }
    if names.iter().any(|name| secrets.redact(name) != *name) {
        return Err(malformed("the server's list of models repeats a key; name a model with --model"));
    }
    Ok(Listed { names, is_one })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_list_is_one() {
        let listed = read(br#"[{"id": "a", "object": "model"}]"#, &Secrets::default()).unwrap();
        assert_eq!((listed.names, listed.is_one), (vec!["a".to_owned()], true));
        let listed = read(br#"[{"id": "a"}, {"id": ""}, {"id": "a"}]"#, &Secrets::default()).unwrap();
        assert_eq!((listed.names, listed.is_one), (vec!["a".to_owned()], true), "twice, and without a name");
    }

    #[test]
    fn an_empty_list_of_models_is_not_asked_for_again() {
        for list in [r#"{"data": []}"#, r#"{"data": null}"#, r#"{"object": "list"}"#, r#"[{"id": ""}]"#] {
            let empty = read(list.as_bytes(), &Secrets::default()).unwrap_err();
            assert!(!empty.retryable() && empty.class.concerns_every_call(), "{empty:?}");
            assert!(
                empty.message.contains("GET /v1/models") && empty.message.contains("--model"),
                "{empty:?}"
            );
        }
        assert!(read(b"{", &Secrets::default()).unwrap_err().retryable());
    }
}
