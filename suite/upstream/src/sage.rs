//! SAGE (allenai/SAGE b5d9c93): the JSON that a reply holds and its repairs (`sage/utils/json_parser.py`), and a sample's
//! way from one conversation to the next.
//!
//! The tools of the release need a web search, a speech recogniser and a second model: only a variant with the visual
//! ones can be run here, whose scores are not comparable with published ones.

mod args;
mod files;
mod run;
mod times;
mod tools;

pub use run::Run;

use std::sync::LazyLock;

use paravt_suite::media::linspace;
use paravt_suite::protocol::Overview;
use regex::{Captures, Regex};

use crate::python::{PyValue, literal_regex, loads, strip};

/// Indices of the frames that the model is shown of a video of so many (`fetch_video` of
/// `sage/src/models/qwen_vl/vision_process.py`): their number is not rounded to an even one.
pub fn sampled_frames(overview: &Overview, frames: usize, rate: f64) -> Vec<usize> {
    if frames == 0 {
        return Vec::new();
    }
    let wanted = frames as f64 / rate * overview.fps.unwrap_or(rate);
    let most = overview.frames.min(frames) as f64;
    let count = wanted.max(overview.at_least.unwrap_or(1) as f64).min(most) as usize;
    linspace(0, frames - 1, count.max(1))
}

/// The object of a text that should be one (`clean_json`): as it is, else after all repairs.
///
/// # Errors
/// Why the repaired text is not JSON either, in Python's words.
pub fn clean_json(text: &str) -> Result<PyValue, String> {
    loads(text).or_else(|_| loads(&repaired(text))).map_err(|error| error.to_string())
}

/// Position and character of a text, and whether it lies in a string; an escaped character is in none of its own.
fn scanned(text: &str) -> impl Iterator<Item = (usize, char, bool, bool)> {
    let (mut in_string, mut escaped) = (false, false);
    text.char_indices().map(move |(at, c)| {
        let plain = !escaped;
        escaped = plain && c == '\\';
        in_string ^= plain && c == '"';
        (at, c, in_string, plain && c != '\\')
    })
}

/// Line breaks within strings as `\n`.
fn with_escaped_newlines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (_, c, in_string, plain) in scanned(text) {
        if plain && in_string && c == '\n' { out.push_str("\\n") } else { out.push(c) }
    }
    out
}

/// Without `#` and `//` outside of strings and what follows them on their lines.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // A comment starts outside of strings, so that the scan can start again behind it.
    let mut rest = text;
    while !rest.is_empty() {
        let begin = scanned(rest).find(|(at, c, in_string, plain)| {
            *plain && !in_string && (*c == '#' || rest[*at..].starts_with("//"))
        });
        let at = begin.map_or(rest.len(), |(at, ..)| at);
        out.push_str(&rest[..at]);
        rest = rest[at..].find('\n').map_or("", |end| &rest[at + end..]);
    }
    out
}

/// With the brackets, then the braces, that are left open.
fn closed(text: &str) -> String {
    let (mut braces, mut brackets) = (0_i64, 0_i64);
    for (_, c, in_string, plain) in scanned(text) {
        if plain && !in_string {
            braces += i64::from(c == '{') - i64::from(c == '}');
            brackets += i64::from(c == '[') - i64::from(c == ']');
        }
    }
    let times = |count: i64| usize::try_from(count).unwrap_or_default();
    format!("{text}{}{}", "]".repeat(times(brackets)), "}".repeat(times(braces)))
}

/// `re.sub` of a pattern whose last group is a lookahead: it stays, and the search goes on before it.
fn sub_before(pattern: &Regex, text: &str, replacement: impl Fn(&Captures<'_>) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = pattern.captures_at(text, at) {
        let (Some(whole), Some(ahead)) = (found.get(0), found.iter().last().flatten()) else { break };
        out.push_str(&text[at..whole.start()]);
        out.push_str(&replacement(&found));
        at = ahead.start();
    }
    out + &text[at..]
}

macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Regex> = LazyLock::new(|| literal_regex($text));
        &*PATTERN
    }};
}

/// `_repair_json_string`, rule after rule.
fn repaired(text: &str) -> String {
    let text = closed(&without_comments(&with_escaped_newlines(text)));
    let text = pattern!(r#"((?:"[^"]*"|\d+|true|false|null|\}|\]))\s*(")"#).replace_all(&text, "${1},\n${2}");
    let text = pattern!(r#",\s*\n\s*""#).replace_all(&text, ", \"");
    let nothing = |_: &Captures<'_>| String::new();
    let text = sub_before(pattern!(r#",\s*("[^"]+")\s*([,}])"#), &text, nothing);
    let text = sub_before(pattern!(r#",?\s*"[^"]+"\s*([,}])"#), &text, nothing);
    let missing_colon = pattern!(r#"("[^"]+")\s+("[^"]+"|\d+|true|false|null|\[|\{)"#);
    let text = missing_colon.replace_all(&text, "${1}: ${2}");
    let text = pattern!(r#"(,?\s*"[^"]+")\s*([}\]])"#).replace_all(&text, "${2}");
    let text = pattern!(r#"("[^"]*?),\s*([}\]])"#).replace_all(&text, "${1}${2}");
    let text = pattern!(r#"("[^"]+")\s*:\s*([}\],])"#).replace_all(&text, "${1}: null${2}");
    let text = pattern!(r#"("[^"]+")\s*\}"#).replace_all(&text, "${1}: null}");
    let open_arguments = pattern!(r#"(?s)(:\s*"[^"]*?")(\s*[^,}\]]+?)\s*(,\s*"rationale":)"#);
    let text = open_arguments.replace_all(&text, "${1}}${3}");
    let text = pattern!(r#"("[^"]+")\s*:\s*\]"#).replace_all(&text, "${1}: []");
    let empty = |found: &Captures<'_>| format!("{}: null", &found[1]);
    let text = sub_before(pattern!(r#"("[^"]+")\s*:\s*([,}\]])"#), &text, empty);
    let text = pattern!(r",\s*([\]}])").replace_all(&text, "${1}");
    let trailing = pattern!(r#"(?s)("\w+"\s*:\s*(?:".*?"|\d+|true|false|null))\s*[^"},]+?\s*(\})"#);
    with_answer(&trailing.replace_all(&text, "${1}${2}"))
}

/// With the key `final_answer` at the end of an object that has none.
fn with_answer(text: &str) -> String {
    let brace = text.rfind('}').filter(|_| strip(text).ends_with('}') && !text.contains("\"final_answer\""));
    let Some(brace) = brace else { return text.to_owned() };
    let before = strip(&text[..brace]);
    let comma = if before.is_empty() || before.ends_with([',', '{']) { "" } else { "," };
    format!("{}{comma}\n  \"final_answer\": null\n{}", &text[..brace], &text[brace..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::dumps;

    #[test]
    fn repairs() {
        for (text, expected) in [
            (r#"{"a": 1}"#, r#"{"a": 1}"#),
            (r#"{ "key": "value", }"#, r#"{"key": null, "final_answer": null}"#),
            ("{\"a\": 1, # no\n \"b\": 2}", r#"{"a": 1, "b": 2, "final_answer": null}"#),
        ] {
            assert_eq!(clean_json(text).map(|value| dumps(&value, false)).as_deref(), Ok(expected), "{text}");
        }
        assert!(clean_json("no object").is_err());
    }
}
