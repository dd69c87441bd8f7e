//! The part of a reply that may hold the answer, in plain characters.

use std::borrow::Cow;

use regex::{Captures, Regex};

use crate::reference::{RESPONSE, Tag};
use crate::text::half_width;

/// Prefix by which the reference driver writes a failed model call in place of an answer.
const API_ERROR: &str = "[API error:";

/// What remains of a reply once thoughts, calls and special tokens are taken off.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    /// The text, or the body of its answer tag; see [`plain`] for what its characters became.
    pub text: String,
    /// The same before [`plain`], for JSON.
    pub raw: String,
    /// It stood in an answer tag.
    pub tagged: bool,
    /// What follows the tag, see [`plain`].
    pub after: String,
}

impl Reply {
    /// The last closed answer tag after the thoughts, else the text after them, else the last closed tag anywhere.
    /// Tool calls, error texts and thoughts that were never closed hold no answer.
    pub(super) fn candidates(text: &str, tags: &[Tag]) -> Vec<Self> {
        if text.trim_start().starts_with(API_ERROR) {
            return Vec::new();
        }
        pattern! { THINKING = r"(?i)<(/?)(?:thinking|thought|thoughts|reasoning|think)>" }
        let text = &unescaped(first_turn(text));
        let text = &THINKING
            .replace_all(text, "<${1}think>")
            .replace("◁think▷", "<think>")
            .replace("◁/think▷", "</think>");
        let after = text.rsplit("</think>").next().unwrap_or(text);
        let open = after.split("<think>").next().unwrap_or(after);
        let tagged = |text: &str| {
            let (body, rest) = last_tag(text)?;
            Some(Self { after: plain(rest), ..Self::of(&body, true, tags) })
        };
        match tagged(open) {
            Some(found) => vec![found],
            // Among the thoughts only where the reply ends with it.
            None if open.trim().is_empty() => {
                tagged(text).filter(|found| found.after.trim().is_empty()).into_iter().collect()
            }
            None => {
                let last = tagged(after).filter(|found| found.after.trim().is_empty());
                [Some(Self::of(open, false, tags)), last].into_iter().flatten().collect()
            }
        }
    }

    fn of(text: &str, tagged: bool, tags: &[Tag]) -> Self {
        let blocks = tags.iter().chain([&RESPONSE]);
        let raw = blocks.fold(text.to_owned(), |text, (open, close)| without_blocks(&text, open, close));
        Self { text: plain(&raw), raw, tagged, after: String::new() }
    }
}

/// Text that was escaped once too often, as it was meant: `&lt;answer&gt;`, a line feed as two characters.
fn unescaped(text: &str) -> String {
    pattern! { LINE = r"\\n(\\n)*(\s|[A-Z(<*]|$)" }
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    let text = text.replace("[ANSWER]", "<answer>").replace("[/ANSWER]", "</answer>");
    LINE.replace_all(&text, "\n$2").into_owned()
}

/// The text up to the token that ends a turn: what a model writes after it is a turn of its own making.
fn first_turn(text: &str) -> &str {
    const ENDS: [&str; 10] = [
        "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end|>", "</s>", "\nQuestion:", "\nUser:", "\nHuman:",
        "\nQ:", "\n### Question",
    ];
    let end = ENDS.iter().filter_map(|end| text.find(end)).filter(|&at| !text[..at].trim().is_empty()).min();
    pattern! { ROLE = r"(?i)^\s*(?:assistant|model|bot|gpt)\s*:\s*" }
    let text = &text[..end.unwrap_or(text.len())];
    ROLE.find(text).map_or(text, |role| &text[role.end()..])
}

/// Body of the last closed answer tag, in either case, and what follows it.
fn last_tag(text: &str) -> Option<(Cow<'_, str>, &str)> {
    pattern! { TAG = r"(?is)<\s*(?:final[_ -]?)?answer\s*>(.*?)<\s*/\s*(?:final[_ -]?)?answer\s*>" }
    pattern! { OPEN = r"(?i)<\s*(?:final[_ -]?)?answer\s*>" }
    let mut all: Vec<Captures<'_>> = TAG.captures_iter(text).collect();
    let found = all.pop()?;
    let (body, whole) = (found.get(1)?.as_str(), found.get(0)?);
    let body = OPEN.find_iter(body).last().map_or(body, |open| &body[open.end()..]);
    // `<answer>A</answer> or <answer>C</answer>` is one answer of two letters.
    pattern! { JOINT = r"(?i)^\s*(or|and|oder|ou|o|或|または|또는)\s*$" }
    let before = all.last().and_then(|before| {
        let between = &text[before.get(0)?.end()..whole.start()];
        Some((before.get(1)?.as_str(), JOINT.captures(between)?.get(1)?.as_str()))
    });
    let body =
        before.map_or(Cow::Borrowed(body), |(first, joint)| Cow::Owned(format!("{first} {joint} {body}")));
    Some((body, &text[whole.end()..]))
}

/// The text without its `open … close` blocks; one that is not closed reaches to the end.
fn without_blocks(text: &str, open: &str, close: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, block)) = rest.split_once(open) {
        out.push_str(before);
        // A line break keeps what stood on both sides from growing together.
        out.push('\n');
        rest = block.split_once(close).map_or("", |(_, after)| after);
    }
    out + rest
}

pub(super) fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("literal pattern")
}

/// Text without dress: full-width and circled characters as ASCII, one kind of quote and dash where they mean the same,
/// no Markdown emphasis, headings, bullets, LaTeX commands and dollar signs, markup tags, special tokens and emoji.
/// Boxes become lines of their own that begin with [`BOX`].
pub(super) fn plain(text: &str) -> String {
    pattern! { TOKEN = r"<\|[A-Za-z0-9_]+\|>|</?(?:[a-z]|[A-Za-z][A-Za-z0-9_:-]+)\s*/?>|~~[^~\n]*~~|[◁▷]" }
    pattern! { LATEX = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|operatorname|bf|rm)\s*\{([^{}]*)\}" }
    pattern! { LEFT = r"\\(?:left|right|displaystyle|quad|qquad|[()\[\],;!])" }
    pattern! { ANSWER_TAG = r"(?i)<\s*(?:final[_ -]?)?answer\s*>" }
    let text: String = text.chars().filter_map(plain_char).collect();
    pattern! {
        BOXES = r"(?:\\f?box|(^|[^\\\w])boxed|\\boxed|<\|begin_of_box\|>)\s*(\{|$)|<\|begin_of_box\|>"
    }
    let text = ends_of(&text).replace("<|end_of_box|>", "}");
    let text = BOXES.replace_all(&text, r"$1\boxed{");
    // A tag that the token limit left open says that an answer follows.
    let text = ANSWER_TAG.replace_all(&text, "\nAnswer: ");
    let text = LATEX.replace_all(&text, "$1");
    let text = LATEX.replace_all(&text, "$1");
    let text = with_boxes(&text);
    let text = LEFT.replace_all(&text, " ");
    let text = TOKEN.replace_all(&text, " ");
    let lines = text.lines().map(undressed);
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// A text of reasonable length: of a longer one the first line and the end, where answers stand. Rules look around each
/// phrase, and a model that loops repeats one a thousand times.
fn ends_of(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 4_000;
    if text.len() <= LONGEST {
        return Cow::Borrowed(text);
    }
    let first = text.lines().next().filter(|line| line.len() < 400).unwrap_or_default();
    let mut start = text.len() - LONGEST * 3 / 4;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let end = &text[start..];
    let end = end
        .find(['\n', '.', '。'])
        .map_or(end, |at| end[at + 1..].trim_start_matches(|c: char| !c.is_whitespace() && c.is_ascii()));
    Cow::Owned(format!("{first}\n{end}"))
}

/// Scripts that write no blanks between words: Han, kana.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// The sentence that holds a place, up to there.
pub(super) fn sentence_before(text: &str, at: usize) -> &str {
    let head = close_before(text, at);
    let stop = head.char_indices().rfind(|&(at, c)| match c {
        '\n' | '!' | '?' | '！' | '？' | ';' | '；' => true,
        '.' => is_full_stop(&head[..at], &head[at + 1..]),
        _ => false,
    });
    &head[stop.map_or(0, |(at, c)| at + c.len_utf8())..]
}

/// Whether a point between two texts ends a sentence: not that of `e.g.`, nor one behind a number within a sentence.
fn is_full_stop(before: &str, after: &str) -> bool {
    let is_abbreviated = before.trim_end_matches(|c: char| c.is_ascii_lowercase()).ends_with('.')
        && before.ends_with(|c: char| c.is_ascii_lowercase());
    let is_numbered = before.ends_with(|c: char| c.is_ascii_digit());
    let goes_on = !after.trim_start().starts_with(char::is_uppercase);
    !is_abbreviated
        && (after.starts_with(is_unspaced)
            || after.starts_with(char::is_whitespace) && !(is_numbered && goes_on))
}

/// The last 400 bytes in front of a place: as far as a rule looks back.
pub(super) fn close_before(text: &str, at: usize) -> &str {
    let mut start = at.saturating_sub(400);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..at]
}

/// The first 400 bytes of a text: as far as a rule looks ahead.
pub(super) fn close_after(text: &str) -> &str {
    let mut end = text.len().min(400);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Marks the line that the body of a box stands on.
pub(super) const BOX: char = '\u{1}';

/// Each `\boxed{…}` on a line of its own; one that the token limit cut goes.
fn with_boxes(text: &str) -> Cow<'_, str> {
    const OPEN: &str = r"\boxed";
    if !text.contains(OPEN) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(OPEN) {
        out.push_str(before);
        let Some(inner) = after.trim_start().strip_prefix('{') else {
            rest = after;
            continue;
        };
        let mut depth = 1;
        let end = inner.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            depth == 0
        });
        let Some((end, _)) = end else { return Cow::Owned(out) };
        let body = inner[..end].replace('\n', " ");
        out.extend(["\n", BOX.encode_utf8(&mut [0; 4]), &body, "\n"]);
        rest = &inner[end + 1..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// A character in its plainest form; `None` for those that only decorate.
fn plain_char(c: char) -> Option<char> {
    Some(match c {
        '\u{3000}' | '\u{a0}' | '\u{2009}' | '\u{202f}' => ' ',
        '\u{24b6}'..='\u{24cf}' => char::from_u32(c as u32 - 0x24b6 + 0x41)?,
        '\u{1f130}'..='\u{1f149}' => char::from_u32(c as u32 - 0x1f130 + 0x41)?,
        '\u{1f150}'..='\u{1f169}' => char::from_u32(c as u32 - 0x1f150 + 0x41)?,
        '\u{1f170}'..='\u{1f189}' => char::from_u32(c as u32 - 0x1f170 + 0x41)?,
        '\u{1d400}'..='\u{1d419}' => char::from_u32(c as u32 - 0x1d400 + 0x41)?,
        '“' | '”' | '„' | '«' | '»' | '「' | '」' | '『' | '』' | '《' | '》' | '"' => '"',
        '‘' | '’' | '‚' | '‹' | '›' => '\'',
        '【' => '[',
        '】' => ']',
        '。' => '.',
        '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{fe0f}' | '\u{fe0e}' | '\u{1}' => return None,
        '👉' | '➡' | '✨' | '🎯' | '💡' | '🟢' | '🔵' | '⭐' => return None,
        c => half_width(c),
    })
}

/// A line without Markdown: heading, quote and bullet marks in front, emphasis, code marks, double quotes, table bars.
fn undressed(line: &str) -> String {
    let mut rest = line.trim();
    // `>3` is a bound, `> text` a quote.
    let is_bound = rest.starts_with('>') && rest[1..].starts_with(|c: char| c == '=' || c.is_ascii_digit());
    while let Some(less) = rest
        .strip_prefix(['#', '>', '|', '•', '▪', '●', '◦', '·'])
        .or_else(|| rest.strip_prefix("- "))
        .or_else(|| rest.strip_prefix("* "))
        .or_else(|| rest.strip_prefix("– "))
        .filter(|_| !is_bound)
    {
        rest = less.trim_start();
    }
    let chars: Vec<char> = rest.chars().collect();
    let is_word = |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(|c| c.is_alphanumeric());
    let keep = |at: usize| match chars[at] {
        '*' | '`' | '"' | '$' => false,
        // Inside a word both are part of it: `A_B`, `don't`.
        '_' | '\'' => is_word(at.checked_sub(1)) && is_word(Some(at + 1)),
        _ => true,
    };
    let kept: String = (0..chars.len()).filter(|&at| keep(at)).map(|at| chars[at]).collect();
    kept.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Objects of JSON in a text, whole ones only: the text itself, what a code fence holds, or the last balanced braces.
pub(super) fn json(text: &str) -> Option<serde_json::Value> {
    /// Longer ones are data, not answers.
    const LONGEST: usize = 20_000;
    if text.len() > LONGEST {
        return None;
    }
    let at_once = |text: &str| serde_json::from_str(text.trim()).ok();
    let unfenced =
        text.trim().trim_start_matches("```json").trim_start_matches("```").trim_end_matches("```");
    // Objects behind each other, which may say different things; the same twice is one.
    pattern! { NEXT = r"\}\s*,?\s*\{" }
    let several = || {
        let text = unfenced.trim();
        let list = text.starts_with('{').then(|| format!("[{}]", NEXT.replace_all(text, "},{")))?;
        let all: Vec<serde_json::Value> = serde_json::from_str(&list).ok()?;
        let first = all.first()?.clone();
        Some(if all.iter().all(|one| *one == first) { first } else { serde_json::Value::Array(all) })
    };
    at_once(unfenced).or_else(several).or_else(|| {
        let end = text.rfind('}')?;
        let starts = text[..end].match_indices('{').map(|(at, _)| at);
        // From the outermost brace on: an object inside another may be one of several.
        starts.take(64).find_map(|start| at_once(&text[start..=end]))
    })
}
