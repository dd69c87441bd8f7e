//! Texts of a completion that the rewards read (`paravt/rl/rewards/utils.py`).

use paravt_python::{is_space, is_word, split_lines, strip};
use paravt_suite::text::between;

/// `extract_answer`: the first answer tag, else what follows the first `</think>` without tool
/// blocks, else the last line that is not a marker.
pub fn extract_answer(completion: &str) -> String {
    if let Some(inside) = between(completion, "<answer>", "</answer>").next() {
        return strip(inside).to_owned();
    }
    if let Some((_, tail)) = completion.split_once("</think>") {
        let mut tail = tail.to_owned();
        for (open, close) in [
            ("<tool_call>", "</tool_call>"),
            ("<tool_code>", "</tool_code>"),
            ("<tool_response>", "</tool_response>"),
        ] {
            tail = without_blocks(&tail, open, close);
        }
        let tail = tail.replace("<|im_end|>", "").replace("<|im_start|>", "");
        if !strip(&tail).is_empty() {
            return strip(&tail).to_owned();
        }
    }
    let lines = split_lines(completion).into_iter().map(strip);
    let mut kept =
        lines.filter(|line| !line.is_empty() && !line.starts_with("<|im_") && !line.starts_with("<tool_"));
    kept.next_back().unwrap_or_default().to_owned()
}

/// The text without its closed `open … close` blocks.
fn without_blocks(text: &str, open: &str, close: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        let Some(length) = rest[start + open.len()..].find(close) else { break };
        out.push_str(&rest[..start]);
        rest = &rest[start + open.len() + length + close.len()..];
    }
    out + rest
}

/// `normalize_text`: lower case, no articles, no punctuation, single spaces.
pub fn normalize(text: &str) -> String {
    let lower = strip(text).to_lowercase();
    let without = without_articles(&lower);
    let plain: String = without.chars().filter(|c| is_word(*c) || is_space(*c)).collect();
    plain.split(is_space).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// `re.sub(r"\b(a|an|the)\b", " ", text)`: words by Python's idea of one.
fn without_articles(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut word = String::new();
    let flush = |word: &mut String, out: &mut String| {
        out.push_str(if matches!(word.as_str(), "a" | "an" | "the") { " " } else { word });
        word.clear();
    };
    for c in text.chars() {
        if is_word(c) {
            word.push(c);
        } else {
            flush(&mut word, &mut out);
            out.push(c);
        }
    }
    flush(&mut word, &mut out);
    out
}

/// `has_substantive_think`: a think block, closed or up to the next marker, of ten characters or more.
pub fn has_substantive_think(completion: &str) -> bool {
    const MIN_CHARS: usize = 10;
    let closed = between(completion, "<think>", "</think>").next();
    let open = || {
        let body = completion.split_once("<think>")?.1;
        let ends = ["<tool_", "<answer>", "<|im_end|>"].into_iter().filter_map(|marker| body.find(marker));
        Some(&body[..ends.min().unwrap_or(body.len())])
    };
    closed.or_else(open).is_some_and(|body| strip(body).chars().count() >= MIN_CHARS)
}

/// `think_before_tool`: the first think tag stands before the first tool tag.
pub fn think_before_tool(completion: &str) -> bool {
    let tool = ["<tool_call>", "<tool_code>"].into_iter().filter_map(|tag| completion.find(tag)).min();
    matches!((completion.find("<think>"), tool), (Some(think), Some(tool)) if think < tool)
}
