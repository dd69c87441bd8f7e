//! The interval of a video that a reply names.

use std::borrow::Cow;

use regex::Regex;
use serde_json::Value;

use super::leads::{CONDITION, NEGATED, OTHERS, REFUSED, TAKEN_BACK};
use super::reply::{BOX, Reply, close_after, close_before, json, plain, sentence_before};
use super::times::{Figure, FigureKind, figures};
use crate::reference::Tag;
use crate::span::TimeSpan;

/// A pair of times of a text.
#[derive(Debug, Clone, Copy)]
struct Pair {
    at: usize,
    end: usize,
    span: TimeSpan,
    /// A unit, a clock time or words say that these are times.
    is_timed: bool,
    rule: &'static str,
}

/// An interval in seconds with its end after its start, and the rule that found it.
///
/// | rule | takes | does not take |
/// |---|---|---|
/// | `json` | the start and end keys of an object, a list of two times | several objects or lists |
/// | `range` | two times joined by a dash, an arrow or a word (`to`, `bis`, `到`) | scores, pages, frames, counts, dates; the length of the video |
/// | `start_end` | `starts at … ends at …` | a start alone, a length |
///
/// In an answer tag the names begin with `answer_tag_`. Of several intervals the last one counts where it is said to be the
/// answer; otherwise there is none.
pub fn interval(text: &str, tags: &[Tag]) -> Option<(TimeSpan, &'static str)> {
    Reply::candidates(text, tags).iter().find_map(|reply| {
        let (span, rule) = match json(&reply.raw).map(|value| in_json(&value)) {
            Some(found) if !found.is_empty() || reply.raw.trim().starts_with(['{', '[']) => {
                (single(&found)?, "json")
            }
            _ => in_text(&reply.text)?,
        };
        let rule = match (reply.tagged, rule) {
            (false, rule) => rule,
            (true, "range") => "answer_tag_range",
            (true, "json") => "answer_tag_json",
            (true, _) => "answer_tag_start_end",
        };
        (span.start >= 0.0 && span.end > span.start).then_some((span, rule))
    })
}

fn single(all: &[TimeSpan]) -> Option<TimeSpan> {
    let first = *all.first()?;
    all.iter().all(|other| *other == first).then_some(first)
}

/// All intervals of a JSON value.
fn in_json(value: &Value) -> Vec<TimeSpan> {
    let time = |value: &Value| match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match figures(text)[..] {
            [one] => Some(one.value),
            _ => None,
        },
        _ => None,
    };
    match value {
        Value::Array(all) => match &all[..] {
            [start, end] if time(start).is_some() && time(end).is_some() => {
                time(start).zip(time(end)).map(TimeSpan::from).into_iter().collect()
            }
            all => all.iter().flat_map(in_json).collect(),
        },
        Value::Object(fields) if fields.iter().any(|(name, value)| says_none(name, value)) => Vec::new(),
        Value::Object(fields) => {
            /// Keys of the answer beside candidates for it.
            const ANSWERS: [&str; 5] = ["answer", "final", "final_answer", "prediction", "selected"];
            let chosen = fields.iter().find(|(name, _)| ANSWERS.contains(&name.to_lowercase().as_str()));
            if let Some(all) = chosen.map(|(_, value)| in_json(value)).filter(|all| !all.is_empty()) {
                return all;
            }
            /// Parts of keys whose numbers are not times.
            const OTHER: [&str; 9] =
                ["frame", "video", "point", "box", "resolution", "search", "size", "pixel", "index"];
            const OTHER_WORDS: [&str; 12] = [
                "idx", "page", "line", "score", "ratio", "norm", "percent", "pct", "token", "char", "row",
                "x",
            ];
            let is_other = |name: &str| {
                OTHER.iter().any(|other| name.to_lowercase().contains(other))
                    || key_words(name).iter().any(|word| OTHER_WORDS.contains(&word.as_str()))
            };
            let unit = fields.iter().find(|(name, _)| matches!(name.as_str(), "unit" | "units"));
            let unit =
                unit.and_then(|(_, unit)| key_words(unit.as_str()?).iter().find_map(|word| factor(word)));
            let of = |names: &[&str]| {
                let found = fields.iter().find(|(name, _)| {
                    let lower = name.to_lowercase();
                    !is_other(name) && names.iter().any(|known| lower.contains(known))
                });
                let (name, value) = found?;
                let own = key_words(name).iter().find_map(|word| factor(word)).or(unit).unwrap_or(1.0);
                // A time with a unit of its own is in seconds already.
                time(value).map(|time| if value.is_number() { time * own } else { time })
            };
            let start = of(&["start", "begin", "from", "开始", "beginn", "début", "inicio"]);
            let end =
                of(&["end", "finish", "stop", "结束", "fin"]).or_else(|| fields.get("to").and_then(time));
            match start.zip(end) {
                Some(span) => vec![TimeSpan::from(span)],
                None => fields
                    .iter()
                    .filter(|(name, _)| !is_other(name))
                    .flat_map(|(_, value)| in_json(value))
                    .collect(),
            }
        }
        Value::String(text) => in_text(&plain(text)).map(|(span, _)| span).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Whether a JSON field declares that the event was not found.
fn says_none(name: &str, value: &Value) -> bool {
    match name.to_lowercase().as_str() {
        "answer" => value.is_null(),
        "found" | "exists" | "present" | "visible" | "occurs" | "detected" => *value == Value::Bool(false),
        "error" => value.as_str().is_some_and(|text| !text.is_empty()),
        _ => false,
    }
}

/// Words of a key in lower case: `startMs`, `start_ms`.
fn key_words(name: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for c in name.chars() {
        if c.is_uppercase() || !c.is_alphanumeric() {
            all.push(String::new());
        }
        if let Some(word) = all.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    all
}

/// Seconds of a unit in a key.
fn factor(word: &str) -> Option<f64> {
    match word {
        "ms" | "msec" | "millis" | "milliseconds" => Some(0.001),
        "min" | "mins" | "minute" | "minutes" => Some(60.0),
        _ => None,
    }
}

/// The interval of running text.
fn in_text(text: &str) -> Option<(TimeSpan, &'static str)> {
    pattern! { ORDINAL = r"(\d)(?:st|nd|rd|th)\b" }
    let text = &without_numbers(&ORDINAL.replace_all(text, "$1")).replace('_', " ");
    let figures: Vec<Figure> =
        figures(text).into_iter().map(|figure| with_unit_before(text, figure)).collect();
    let from_start = figures.iter().filter_map(|figure| from_beginning(text, figure));
    let mut pairs: Vec<Pair> =
        ranges(text, &figures).chain(starts_and_ends(text, &figures)).chain(from_start).collect();
    pairs.retain(|pair| !is_denied(text, pair));
    pairs.sort_by_key(|pair| pair.at);
    if pairs.iter().any(|pair| pair.is_timed) {
        pairs.retain(|pair| pair.is_timed);
    }
    if pairs.iter().any(|pair| !is_of_video(text, pair)) || pairs.iter().all(|pair| pair.span.start < 0.5) {
        pairs.retain(|pair| !is_of_video(text, pair));
    }
    let last = *pairs.last()?;
    // What is refused after the last interval takes it back.
    if REFUSED.is_match(&text[last.end..]) || TAKEN_BACK.is_match(&text[last.end..]) {
        return None;
    }
    let same = pairs.iter().all(|pair| pair.span == last.span);
    let boxed = pairs.iter().rev().find(|pair| line_of(text, pair.at).starts_with(BOX));
    match (same, boxed) {
        (true, _) => Some((last.span, last.rule)),
        (false, Some(boxed)) => Some((boxed.span, boxed.rule)),
        // Several behind each other are as many answers.
        (false, None) if is_listed(text, &pairs) || are_lines(text, &pairs) => None,
        (false, None) if is_concluded(text, &pairs, &last) || is_last_line(text, &last) => {
            Some((last.span, last.rule))
        }
        // One that is declared, and others told beside it.
        (false, None) => {
            let declared: Vec<&Pair> = pairs.iter().filter(|pair| is_declared(text, &pairs, pair)).collect();
            let first = declared.first()?;
            declared.iter().all(|pair| pair.span == first.span).then_some((first.span, first.rule))
        }
    }
}

fn line_of(text: &str, at: usize) -> &str {
    &text[text[..at].rfind('\n').map_or(0, |at| at + 1)..]
}

/// Two figures with a joint between them.
fn ranges<'a>(text: &'a str, figures: &'a [Figure]) -> impl Iterator<Item = Pair> + 'a {
    pattern! { JOINT = r#"^(?:-(?:й|я|ю|го|му|ей)\b|\s*in\b|[\s-]*(?i:second|minute)?\s*(?i:marks?)|\s*\((?i:start|begin\w*)\))?[\s\])>"',]*(?:-{1,3}>?|…|\.{2,3}|–|—|−|‐|‑|~|〜|∼|→|⇒|=>|(?i:(?:until|till|to) the (?:very )?end(?: of the (?:video|clip))?,? at|up until|up to|to|until|till|through|thru|and|bis zu|bis|und|jusqu'à|jusqu’à|à|au|hasta|al|a|y|et|até|e|fino a|to about|до|по|и)\b|至|到|から|부터|에서|よ?り)[\s\[(<"']*(?:(?i:about|around|approximately|roughly|approx\.?|circa|ca\.|ungefähr|etwa|environ|the|vers|las|los|la|les|le|el|il|sekunden?|seconds?|secondes?|segundos?|secondo|secondi|minutes?|minuten?|minutos?|minuto|min|sec|t\s*=)\s*|第|约|約|~)*[\s\[(<"']*$"# }
    pattern! { COMMA = r#"^[\s"'>]*[,;/|]?[\s"'<]*$"# }
    pattern! { AND = r"(?i)\b(?:and|und|y|et|e|и)\b" }
    pattern! { BETWEEN = r"(?i)\b(?:between|zwischen|entre|tra|fra|между|from|von)\b[^.\n\d]{0,40}$" }
    figures.windows(2).filter_map(move |two| {
        let [first, second] = two else { return None };
        let joint = text.get(first.end..second.start)?;
        let head = sentence_before(text, first.start);
        let is_bracketed = head.trim_end().trim_end_matches(['"', '\'']).ends_with(['[', '(', '{', '<'])
            && text[second.end..]
                .trim_start()
                .trim_start_matches(['"', '\''])
                .starts_with([']', ')', '}', '>']);
        let is_whole = text[..first.start].trim().trim_matches(['[', '(', '"', BOX]).is_empty()
            && text[second.end..].trim().trim_matches([']', ')', '.', '"']).is_empty();
        // Cells of a table whose heading names a start and an end.
        pattern! { HEADING = r"(?im)^.*\b(?:start|begin|from)\b[^|\n]*\|[^|\n]*\b(?:end|finish|to)\b.*$" }
        let is_row = joint.trim() == "|" && HEADING.is_match(&text[..first.start]);
        let is_joined = match COMMA.is_match(joint) {
            true if is_row => true,
            true => is_bracketed && joint.contains([',', ';', '|', '/']) || is_whole,
            false => JOINT.is_match(joint) && (!AND.is_match(joint) || is_whole || BETWEEN.is_match(head)),
        };
        if !is_joined || first.value < 0.0 || second.value < 0.0 {
            return None;
        }
        let mut second = *second;
        // `1:05-10`: the minute belongs to both.
        if first.kind == FigureKind::Clock
            && second.kind == FigureKind::Bare
            && joint == "-"
            && second.value < 60.0
            && second.value > first.value % 60.0
        {
            second.value += first.value - first.value % 60.0;
        }
        let second = &second;
        let mut start = first.value;
        // `1 to 2 minutes`: the unit belongs to both.
        let tail = &text[first.start..second.end];
        if first.kind == FigureKind::Bare && second.kind == FigureKind::Unit && !tail.is_empty() {
            start *= shared_unit(text, second);
        }
        let is_timed = is_row
            || [first, second].iter().any(|figure| figure.kind != FigureKind::Bare)
            || is_whole
            || is_bracketed
            || is_time(text, head, second);
        let is_bare = first.kind == FigureKind::Bare && second.kind == FigureKind::Bare;
        let is_other = !is_bracketed && is_bare && is_no_time(text, head, second);
        // `the 80s`, `her 30s`
        pattern! { DECADE = r"(?i)\b(?:the|her|his|their|my)\s*$" }
        let is_decade = first.value % 10.0 == 0.0
            && first.value >= 20.0
            && DECADE.is_match(head)
            && text[first.start..]
                .chars()
                .skip_while(char::is_ascii_digit)
                .take(1)
                .all(|c| c == 's' || c == ' ');
        let span = TimeSpan::new(start, second.value);
        let pair = Pair { at: first.start, end: second.end, span, is_timed, rule: "range" };
        let is_timed = is_timed || is_line(text, &pair);
        (!is_other && !is_decade && !is_aside(head)).then_some(Pair { is_timed, ..pair })
    })
}

/// `From the beginning until 7.5 seconds`
fn from_beginning(text: &str, figure: &Figure) -> Option<Pair> {
    pattern! { BEGINNING = r"(?i)\bfrom the (?:very )?(?:beginning|start)(?: of the (?:video|clip))?,?\s*(?:until|till|up to|to|through)\s*(?:about |around |the )?$" }
    let span = TimeSpan::new(0.0, figure.value);
    let at = figure.start;
    BEGINNING.is_match(close_before(text, at)).then_some(Pair {
        at,
        end: figure.end,
        span,
        is_timed: true,
        rule: "range",
    })
}

/// Seconds of the unit behind a figure, where it is a single one.
fn shared_unit(text: &str, figure: &Figure) -> f64 {
    let written = &text[figure.start..figure.end];
    let number: String = written.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && (figure.value / number == 60.0 || figure.value / number == 3600.0) => {
            figure.value / number
        }
        _ => 1.0,
    }
}

/// Whether words around two bare numbers say that they are times.
fn is_time(text: &str, head: &str, second: &Figure) -> bool {
    pattern! { BEFORE = r"(?i)\b(?:seconds?|timestamps?|time|interval|segment|span|answer|from|between|during|at|occurs?|happens?|t\s*=|start\w*|window|von|de|desde|entre|zwischen)\b|秒|从|答案|時間|から|区间" }
    BEFORE.is_match(head)
        || close_after(&text[second.end..]).trim_start().to_lowercase().starts_with("(in s")
        || text[second.end..].trim_start().starts_with("(s")
        || close_after(&text[second.end..])
            .trim_start_matches(['-', 'й', 'ю', 'я', ' '])
            .starts_with("секунд")
}

/// Whether two bare numbers are something else: a score, pages, frames, a count of things, years.
fn is_no_time(text: &str, head: &str, second: &Figure) -> bool {
    pattern! { BEFORE = r"(?i)\b(?:frames?|pages?|steps?|scores?|scored|chapters?|scenes?|episodes?|questions?|items?|lines?|rows?|levels?|rounds?|won|lost|win|lead(?:s|ing)?|beat|beats|versions?|ages?|aged|years?|figures?|no\.?|numbers?|shots?|seiten?|帧|页|第\d+帧|比分)\s*(?:is|are|of|was|by|:|#|with)?\s*(?:from\s+|between\s+)?$" }
    pattern! { AFTER = r"(?i)^\s*(?:%|°|people|persons?|men|women|children|frames?|pages?|times|fps|points?|years?|meters?|metres?|cm|km|kg|cats?|dogs?|cars?|goals?|players?|[ap]\.?m\b|hz|px|pixels?|percent|steps?|items?|objects?|thousand|million|人|个|帧|米|元|岁|victory|win\b|lead\b|defeat)" }
    pattern! { THINGS = r"(?i)\b(?:counts?|counting|increases?|rises?|drops?|grows?|falls?|prices?|costs?|floors?|display|filmed|recorded|built|founded|tall|wide|aged|there (?:are|were|is))\b" }
    pattern! { NOUN = r"^\s+([a-z]+)" }
    const FOLLOWS: [&str; 24] = [
        "and", "in", "of", "when", "as", "during", "while", "where", "which", "is", "are", "on", "at", "the",
        "to", "for", "with", "with", "if", "that", "it", "he", "she", "they",
    ];
    let after = close_after(&text[second.end..]);
    let is_noun = || NOUN.captures(after).is_some_and(|found| !FOLLOWS.contains(&&found[1]));
    let is_year = (1900.0..2100.0).contains(&second.value) && second.value.fract() == 0.0;
    BEFORE.is_match(head) || AFTER.is_match(after) || THINGS.is_match(head) || is_year || is_noun()
}

/// Whether two figures are no part of the video whatever their form: a clock in the picture, a length, a trust.
fn is_aside(head: &str) -> bool {
    pattern! { ASIDE = r"(?i)(?:\b(?:(?:shop|store|office|museum|library)\b[^.\n]*\bopens?|scheduled?|schedule|office hours|timetable|(?:bus|train) (?:leaves|departs|arrives|runs|times?)|clock|watch|confidence|probability|temperature|in real life|o'clock)\b[^.\n]*|\bscore\b[^.,\n]{0,30}|\b(?:whole|entire|full|total)\s+(?:length|duration|video|clip)\b[^.\n]*|\((?:confidence|about|in real life)[^)]*)$" }
    pattern! { SCENE = r"(?i)(?:^\W*(?:the )?(?:open(?:ing hours)?|flight(?: is)?|(?:bible )?verses?|psalm|john|rooms?|gates?|seats?|bus|sections?|exercises?|sizes|mon-fri)|\bscale (?:of|from)|\bsays open)\W*$" }
    ASIDE.is_match(head) || SCENE.is_match(head)
}

/// A time called the start and a time behind or before it called the end.
fn starts_and_ends<'a>(text: &'a str, figures: &'a [Figure]) -> impl Iterator<Item = Pair> + 'a {
    figures.windows(2).enumerate().filter_map(move |(place, two)| {
        let [first, second] = two else { return None };
        // From the figure before on.
        let since = place.checked_sub(1).map_or(0, |before| figures[before].end);
        let head = sentence_before(text, first.start);
        let head = &head[head.len() - head.len().min(first.start - since)..];
        let middle = &text[first.end..second.start];
        if middle.len() > 160 || middle.matches('\n').count() > 2 || first.value < 0.0 || second.value < 0.0 {
            return None;
        }
        let own = middle.rsplit('\n').next().unwrap_or(middle);
        let behind = text[second.end..].split(['.', '\n']).next().unwrap_or_default();
        let roles = (Role::of(head, middle), Role::of(own, behind));
        pattern! { VIDEO = r"(?i)\b(?:video|clip|footage|recording)\s+(?:\w+\s+)?(?:ends|stops|is over|finishes)|of the (?:video|clip)|at the earliest" }
        if VIDEO.is_match(own) || VIDEO.is_match(behind) {
            return None;
        }
        let (start, end) = match roles {
            (Some(Role::Start), Some(Role::End)) => (first, second),
            (Some(Role::End), Some(Role::Start)) => (second, first),
            _ => return None,
        };
        let span = TimeSpan::new(start.value, end.value);
        Some(Pair { at: first.start, end: second.end, span, is_timed: true, rule: "start_end" })
    })
}

/// What the words around a time call it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Role {
    Start,
    End,
}

impl Role {
    /// By the last such word before the time, else by the words right behind it.
    fn of(head: &str, behind: &str) -> Option<Self> {
        pattern! { START = r"(?i)\b(?:start\w*|begin\w*|began|begun|onset|appear\w*|opens|opened|commenc\w*|beginnt|anfang|fängt|ab|débute\w*|début|commence\w*|empieza|comienza|inicio|inicia|começa|início|inizia|inizio|начало|начинается|beginn)\b|开始|開始|起始|始ま|始め|시작" }
        pattern! { END = r"(?i)\b(?:end\w*|finish\w*|stop\w*|conclud\w*|until|till|over by|disappear\w*|ceases?|closes|(?:is|are) (?:done|over|through)|endet|ende|aufhört|bis|fin|finit|se termine|termine\w*|s'arrête|termina|acaba|finale|fine|finisce|конец|заканчивается)\b|结束|結束|终止|終わ|終了|まで|持续到|끝|종료" }
        pattern! {
            START_BEHIND = r"(?i)^\s*(?:\((?:start|begin\w*)\)|(?:处|處|的时候|时|時|に|で|から)?\s*(?:开始|開始|始ま|에 시작))"
        }
        pattern! {
            END_BEHIND = r"(?i)^\s*(?:\((?:end|finish)\)|(?:处|處|的时候|时|時|に|で|まで)?\s*(?:结束|結束|終わ|終了|에 끝))"
        }
        let near: String = head.chars().rev().take(70).collect::<Vec<_>>().into_iter().rev().collect();
        let last = |regex: &Regex| regex.find_iter(&near).last().map(|found| found.start());
        match (START_BEHIND.is_match(behind), END_BEHIND.is_match(behind), last(&START), last(&END)) {
            (true, ..) => Some(Self::Start),
            (_, true, ..) => Some(Self::End),
            (_, _, Some(start), end) if end.is_none_or(|end| end < start) => Some(Self::Start),
            (_, _, _, Some(_)) => Some(Self::End),
            _ => None,
        }
    }
}

/// A numbered list of at least two lines without its numbers.
fn without_numbers(text: &str) -> Cow<'_, str> {
    pattern! { MARKER = r"(?m)^\s*(?:\d{1,2}|[a-z])[.)][ \t]+" }
    match MARKER.find_iter(text).count() {
        0 | 1 => Cow::Borrowed(text),
        _ => MARKER.replace_all(text, ""),
    }
}

/// Whether the interval is denied, or somebody else's.
fn is_denied(text: &str, pair: &Pair) -> bool {
    pattern! { FROM = r"(?i)\s*\b(?:from|between|at|in|during|von|zwischen|de|entre|从|在)?\W*$" }
    pattern! { BEHIND = r"(?i)^[^.\n]{0,60}\b(?:is|was|are|seems?)\s+(?:not|wrong|incorrect|too)\b|^\s*(?:long|ago|later|earlier|in (?:length|duration)|does not|doesn't|[ap]\.?m\b)|^[)\s]*(?:does not|doesn't)|^[^.\n]{0,60}(?:\b(?:nothing|absent|missing|not found|found (?:nothing|no)|without finding|nicht (?:vor|zu sehen)|nichts|rien|nada|nulla|ничего)\b|没有|沒有|未出现|ではありま|ではな|起こりま|ありません|아닙|아니|나타나지 않|없습)" }
    pattern! { NOT = r"(?i)\b(?:isn't|aren't|wasn't|could not be|couldn't be|nothing|does not|doesn't|do not|did not|didn't|not (?:occur|happen|appear|shown|visible)|never (?:occurs|happens|appears)|no one|nobody|no (?:moment|such|evidence|sign)|absent|not (?:sure|clear|certain)|doubt|hardly|error|failed|timeout|dauert|lasts? for|nicht|n'\w+ pas|no (?:ocurre|sucede|aparece)|non (?:succede|accade|appare)|não (?:ocorre|acontece|aparece)|не (?:происходит|появляется))\b|没有|不在|未出现|不是|并不|并非" }
    pattern! { LENGTH = r"(?i)\b(?:takes?|(?:pause|gap|break|delay|silence) of|for|every|lasts?|waits?|another|after|within)\s+(?:about |around |some |only )?$" }
    // What the question was about, not what it asks for.
    pattern! { WINDOW = r"(?i)\b(?:asked me to|told me to|look(?:ed|ing)? only at|only looked at|window (?:of|from)|the part (?:from|between))\b[^.\n]*$" }
    // `It starts between 5 and 10 s`: where a start lies.
    pattern! { SOMEWHERE = r"(?i)\b(?:starts?|begins?|ends?)\s+(?:somewhere\s+|sometime\s+)?between\s*$|\b(?:somewhere|sometime)\s+(?:from|between)\s*$" }
    if SOMEWHERE.is_match(sentence_before(text, pair.at)) || LENGTH.is_match(sentence_before(text, pair.at)) {
        return true;
    }
    let head = sentence_before(text, pair.at);
    let bare = FROM.replace(head, " ");
    let tail = close_after(&text[pair.end..]);
    let is_question = tail.find(['.', '!', '?', '\n']).is_some_and(|at| tail[at..].starts_with('?'));
    NEGATED.is_match(&bare)
        || OTHERS.is_match(head)
        || NOT.is_match(head)
        || REFUSED.is_match(head)
        || WINDOW.is_match(head)
        || CONDITION.is_match(head)
        || BEHIND.is_match(tail)
        || is_question
}

/// Whether the interval is the whole video's.
fn is_of_video(text: &str, pair: &Pair) -> bool {
    pattern! { VIDEO = r"(?i)\b(?:video|clip|footage|recording|film|excerpt|sampled?|given|provided)\b[^.\n]*\b(?:is|are|lasts?|runs?|spans?|covers?|length|duration|long|goes|from|sampled|shown)\b[^.\n]*$|(?:视频|影片|動画)[^.\n]*(?:长|時長|时长|全长|長さ)" }
    pattern! { EVENT = r"(?i)\b(?:event|action|moment|person|man|woman|happens?|occurs?|when|answer|he|she|they|takes place|starts?)\b" }
    let head = sentence_before(text, pair.at);
    VIDEO.is_match(head) && !EVENT.is_match(head)
}

/// Whether the last two intervals follow each other without a word but a joint.
fn is_listed(text: &str, pairs: &[Pair]) -> bool {
    pattern! { JOINT = r"(?i)^[\s)\]s.]*(?:[,;|/&]\s*)?(?:and|or|und|oder|et|ou|y|o|和|或)?\s*(?:alternatively|also|again|maybe|possibly)?\s*(?:from|between|at)?[\s(\[]*$" }
    let [.., one, other] = pairs else { return false };
    one.span != other.span
        && text
            .get(one.end..other.at)
            .is_some_and(|between| !between.contains('\n') && JOINT.is_match(between))
}

/// Whether the last two intervals are lines of a list.
fn are_lines(text: &str, pairs: &[Pair]) -> bool {
    let [.., one, other] = pairs else { return false };
    one.span != other.span
        && is_line(text, one)
        && is_line(text, other)
        && text.get(one.end..other.at).is_some_and(|between| between.matches('\n').count() == 1)
}

fn is_line(text: &str, pair: &Pair) -> bool {
    let line = line_of(text, pair.at).lines().next().unwrap_or_default();
    line.trim_matches([BOX, ' ', '.', '[', ']', '(', ')']).len() <= pair.end - pair.at
}

/// Whether an interval is all that the last line holds.
fn is_last_line(text: &str, pair: &Pair) -> bool {
    !line_of(text, pair.at).trim().contains('\n') && is_line(text, pair)
}

/// A number behind the word for minutes is one of them: `minute 2`.
fn with_unit_before(text: &str, figure: Figure) -> Figure {
    pattern! { MINUTE = r"(?i)\b(?:minutes?|minuten?|minutos?|minuto)\s*$" }
    pattern! { SECOND = r"(?i)\b(?:seconds?|sekunden?|secondes?|segundos?|secondo)\s*$" }
    let head = close_before(text, figure.start);
    match figure.kind {
        FigureKind::Bare if MINUTE.is_match(head) => {
            Figure { value: figure.value * 60.0, kind: FigureKind::Unit, ..figure }
        }
        FigureKind::Bare if SECOND.is_match(head) => Figure { kind: FigureKind::Unit, ..figure },
        _ => figure,
    }
}

/// The sentence up to an interval, from the interval before on: what stands in front of that one is about it.
fn between<'a>(text: &'a str, pairs: &[Pair], pair: &Pair) -> &'a str {
    let since = pairs.iter().map(|pair| pair.end).filter(|end| *end <= pair.at).max().unwrap_or(0);
    let head = sentence_before(text, pair.at);
    &head[head.len() - head.len().min(pair.at - since)..]
}

/// Whether an interval is said to be the answer, or is the first line alone.
fn is_declared(text: &str, pairs: &[Pair], pair: &Pair) -> bool {
    pattern! { DECLARED = r"(?i)\b(?:answer|ge(?:frag|such)t\w*|(?:event|action|moment|scene|described \w+)\s+(?:occurs?|happens?|takes place|is|can be seen|appears?))\b[^.\n]*$|答案" }
    let line = line_of(text, pair.at).lines().next().unwrap_or_default();
    let is_line = pair.at < line.len()
        && line.len() <= pair.end - pair.at + 6
        && line_of(text, pair.at).len() == text.len();
    is_line || DECLARED.is_match(between(text, pairs, pair))
}

/// Whether the last interval of several replaces the others.
fn is_concluded(text: &str, pairs: &[Pair], pair: &Pair) -> bool {
    pattern! { CONCLUSION = r"(?i)\b(?:answer|final(?:ly)?|therefore|thus|hence|so|in conclusion|conclude|correct(?:ion|ed)?|actually|rather|instead|wait|relevant|asked|in (?:the )?question|you asked|best match|most likely|overall|taken together|altogether|all in all|in total|in summary|in short|to sum up|matches|must be|antwort|also|daher|ge(?:such|frag)t\w*|réponse|donc|respuesta|por tanto|por lo tanto|resposta|risposta|ответ)\b|因此|所以|答案|故|综上|したがって|よって|答え|最终|正确" }
    let head = between(text, pairs, pair);
    pattern! { TAKEN = r"(?i)(?:^|[.!?…\n–—-]\s*)(?:(?:no,? )?wait[,.!…]|correction|scratch that|on second (?:thoughts?|look)|no,|actually|sorry[,.]|hmm|non,|nein,|doch nicht|en realidad)[^\n]{0,300}$" }
    if TAKEN.is_match(close_before(text, pair.at)) {
        return true;
    }
    let is_open = close_after(&text[pair.end..]).trim_start().to_lowercase().starts_with("or ");
    pattern! { OR = r"(?i)\b(?:or|and|also|oder|ou|o|again|as well)\W*(?:from|between|at|again|von)?\W*$|或" }
    CONCLUSION.is_match(head) && !OR.is_match(head) && !is_open
}
