//! Names of models: whether two names can be one model. A run knows its model by the name under which it was loaded or
//! served: an id of the hub, the last part of a folder, or an alias that says nothing.

use std::cmp::Ordering;

/// What the name of a model says of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// Both name one model: the same words in the last part of the name.
    Same,
    /// They name two.
    Other,
    /// The name does not say: an alias, a shortened or an extended name.
    Unknown,
}

/// Words of a name that say that its weights were quantised.
const QUANTISED: [&str; 11] =
    ["awq", "fp8", "gptq", "gguf", "int4", "int8", "4bit", "8bit", "nf4", "bnb", "mlx"];

impl Naming {
    /// Compares the name of a model with the id of another on the hub.
    ///
    /// ```
    /// use paravt_reports::Naming;
    ///
    /// let named = |name| Naming::of(name, "Qwen/Qwen3-VL-8B-Instruct");
    /// assert_eq!(named("/models/Qwen3-VL-8B-Instruct"), Naming::Same);
    /// assert_eq!(named("Qwen/Qwen3-VL-4B-Instruct"), Naming::Other);
    /// assert_eq!(named("my-model"), Naming::Unknown);
    /// ```
    pub fn of(name: &str, id: &str) -> Self {
        let [ours, theirs] = [name, id].map(words);
        if ours == theirs {
            return Self::Same;
        }
        let sizes = [&ours, &theirs].map(|words| words.iter().find(|word| is_size(word)));
        let [ours, theirs] = [&ours[..], &theirs[..]];
        let added = ours.strip_prefix(theirs).unwrap_or_default();
        let quantised = added.iter().any(|word| {
            // GGUF files have names such as Q4_K_M.
            let bits = word.strip_prefix('q').is_some_and(|rest| rest.parse::<u8>().is_ok());
            bits || QUANTISED.contains(&word.as_str())
        });
        // Qwen3-VL-8B-Thinking beside Qwen3-VL-8B-Instruct: of one family, and neither name is a part of the other.
        let parts = match ours.len().cmp(&theirs.len()) {
            Ordering::Less => theirs.starts_with(ours),
            _ => ours.starts_with(theirs),
        };
        let is_sibling = ours.first() == theirs.first() && !parts;
        let other_size = matches!(sizes, [Some(ours), Some(theirs)] if ours != theirs);
        match quantised || is_sibling || other_size || is_id(name) {
            true => Self::Other,
            false => Self::Unknown,
        }
    }
}

/// Whether two runs may have asked one model, by its names alone: an id of the hub and a folder of that name.
pub(crate) fn are_same(one: &str, other: &str) -> bool {
    words(one) == words(other)
}

/// The last part of a name.
pub(crate) fn short(name: &str) -> &str {
    name.trim_end_matches('/').rsplit('/').next().unwrap_or(name)
}

/// Words of the last part of a name in small letters.
fn words(name: &str) -> Vec<String> {
    let name = short(name).to_lowercase();
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// A number of parameters: `8b`.
fn is_size(word: &str) -> bool {
    word.strip_suffix('b')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// An id of the hub is `OWNER/NAME`; a path has more parts, or begins as a path.
fn is_id(name: &str) -> bool {
    let mut parts = name.split('/');
    let is_part =
        |part: Option<&str>| part.is_some_and(|part| !part.is_empty() && !part.starts_with(['.', '~']));
    is_part(parts.next()) && is_part(parts.next()) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_by_what_they_say() {
        let of = |name| Naming::of(name, "Qwen/Qwen3-VL-8B-Instruct");
        for name in [
            "Qwen/Qwen3-VL-8B-Instruct", "Qwen3-VL-8B-Instruct", "/data/models/Qwen3-VL-8B-Instruct/",
            "./Qwen3-VL-8B-Instruct", "qwen3_vl_8b_instruct",
        ] {
            assert_eq!(of(name), Naming::Same, "{name}");
        }
        for name in [
            "Qwen/Qwen3-VL-4B-Instruct", "Qwen3-VL-4B-Instruct", "/data/models/Qwen3-VL-8B-Thinking",
            "Qwen3-VL-8B-Instruct-FP8", "Qwen3-VL-8B-Instruct-Q4_K_M.gguf", "ParaVT/ParaVT-8B", "me/tuned",
            "stub-2b",
        ] {
            assert_eq!(of(name), Naming::Other, "{name}");
        }
        for name in
            ["default", "stub-8b", "Qwen3-VL-8B", "qwen3", "Qwen3-VL-8B-Instruct-mine", "./tuned", "/a/b"]
        {
            assert_eq!(of(name), Naming::Unknown, "{name}");
        }
    }
}
