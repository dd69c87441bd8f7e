//! The number that a reply gives.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;
use text2num::{Language, replace_numbers_in_text};

use super::leads::{self, CONDITION, LEADS, NEGATED, OTHERS, REFUSED, Strength, TAKEN_BACK};
use super::reply::{BOX, Reply, close_after, close_before, json, plain, regex, sentence_before};
use super::times::{Figure, FigureKind, figures};
use crate::reference::Tag;

/// A number and the rule that found it. A unit may follow.
///
/// | rule | takes | does not take |
/// |---|---|---|
/// | `json` | the one answer key of an object | two keys with different numbers |
/// | `number_only`, in a tag `answer_tag` | a number or its word with a unit and nothing else | `2 or 3`, `at least 2`, a range |
/// | `answer_tag_number` | the only number of a tag | a clock time, an ordinal |
/// | `boxed` | the last box | |
/// | `answer_is` | the number behind the last phrase: `the answer is`, `there are`, `in total`, `=` | conditions, others' opinions, bounds, alternatives |
/// | `number_line` | the last line, where it is a number and nothing else | |
/// | `number_sentence` | the only number of a reply of one sentence | as above |
pub fn number(text: &str, tags: &[Tag]) -> Option<(f64, &'static str)> {
    Reply::candidates(text, tags).iter().find_map(|reply| {
        let (value, rule) = read(reply)?;
        let rule = match (reply.tagged, rule) {
            (false, rule) => rule,
            (true, "number_only") => "answer_tag",
            (true, "number_sentence") => "answer_tag_number",
            (true, "json") => "answer_tag_json",
            (true, _) => "answer_tag_statement",
        };
        value.is_finite().then_some((value, rule))
    })
}

fn read(reply: &Reply) -> Option<(f64, &'static str)> {
    if let Some(found) = json(&reply.raw).filter(|value| !value.is_number() && !value.is_string()) {
        return in_json(&found).map(|value| (value, "json"));
    }
    let text = with_digits(&reply.text);
    if let Some(found) = alone(&text) {
        return Some((found, "number_only"));
    }
    let kept = |(at, found): (usize, Option<(f64, &'static str)>)| {
        found.filter(|_| !REFUSED.is_match(&text[at..]) && !TAKEN_BACK.is_match(&text[at..]))
    };
    if let Some(found) = last_statement(&text, Tier::Declared) {
        return kept(found);
    }
    if let Some(found) = line_alone(&text) {
        return found.map(|value| (value, "number_line"));
    }
    if let Some(found) = last_statement(&text, Tier::Counted) {
        return kept(found);
    }
    // What follows a number in brackets or behind a colon explains it.
    pattern! { PART = r"\(\D|:(?:\D|$)|,\s*\d+ of (?:them|which|those)\b" }
    pattern! { ALTERNATIVE = r"(?i)^[(:]?\s*(?:or|maybe|possibly|perhaps)\b" }
    let head = PART
        .find(&text)
        .filter(|part| !ALTERNATIVE.is_match(&text[part.start()..]))
        .and_then(|part| alone(&text[..part.start()]));
    let last = || {
        let line = text.trim_end().rsplit(['\n', '!']).next().filter(|line| !OTHERS.is_match(line))?;
        // `Min. 3`
        let (before, end) = line.rsplit_once(". ").unwrap_or(("", line));
        let is_short = before.rsplit(' ').next().is_some_and(|word| (1..5).contains(&word.len()));
        if is_short { None } else { only(end) }
    };
    head.or_else(|| only(&text)).or_else(last).map(|value| (value, "number_sentence"))
}

/// The number of the answer key, or of the only value that is one.
fn in_json(value: &Value) -> Option<f64> {
    const KEYS: [&str; 10] = [
        "answer", "finalanswer", "count", "total", "number", "value", "result", "prediction", "distance",
        "size",
    ];
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) if text == "null" => None,
        Value::String(text) => alone(&with_digits(&plain(text))),
        Value::Array(all) => match &all[..] {
            [one] => in_json(one),
            _ => None,
        },
        Value::Object(fields) => {
            let key = |name: &str| name.to_lowercase().replace(['_', '-', ' '], "");
            if let [only] = &fields.values().collect::<Vec<_>>()[..] {
                return in_json(only);
            }
            /// Keys of numbers about the reply or the video.
            const OTHER: [&str; 10] = [
                "confidence", "score", "prob", "frame", "code", "error", "status", "time", "second", "index",
            ];
            let answer =
                fields.iter().find(|(name, _)| matches!(key(name).as_str(), "answer" | "finalanswer"));
            if let Some((_, answer)) = answer {
                return in_json(answer);
            }
            let of = |is: &dyn Fn(&str) -> bool| {
                fields
                    .iter()
                    .filter(|(name, _)| is(&key(name)))
                    .filter_map(|(_, value)| in_json(value))
                    .collect::<Vec<f64>>()
            };
            let named = of(&|name| KEYS.contains(&name));
            let all = if named.is_empty() {
                of(&|name| !OTHER.iter().any(|other| name.contains(other)))
            } else {
                named
            };
            all.first().copied().filter(|first| all.iter().all(|other| other == first))
        }
        _ => None,
    }
}

/// Words of a bound or of a guess between two numbers.
fn is_bound(before: &str) -> bool {
    pattern! { BOUND = r"(?i)(?:\bmore than|\bless than|\bfewer than|\bat least|\bat most|\bup to|\bover|\bunder|\babove|\bbelow|\bbetween|\bno more than|\bas many as|\ba minimum of|\ba maximum of|\bmehr als|\bmindestens|\bhöchstens|\bweniger als|\bzwischen|\bplus de|\bmoins de|\bau moins|\bau plus|\bentre|\bmás de|\bal menos|\bmenos de|\bpelo menos|\bmais de|\bpiù di|\balmeno|\bgreater than|\bwithin|\bupwards of|\bexceeds?|\bmin\.?|\bmax\.?|\bminimum|\bmaximum|>|<|≥|≤|не менее|не более|больше|меньше|более|менее|минимум|максимум|\bmeno di|\bal massimo|\bkurang dari|\blebih dari|\bsetidaknya|\bpaling (?:sedikit|banyak)|\bhơn|\bít nhất|\bnhiều nhất|\bmeer dan|\bminder dan|\bminstens|\bhoogstens|\bwięcej niż|\bmniej niż|\bco najmniej|\ben az|\ben fazla|على الأقل|على الأكثر|أكثر من|أقل من|कम से कम|ज्यादा से ज्यादा|少なくとも|最大|최소|최대|적어도|>=|<=|超过|超過|至少有?|不少于|多于|少于|最多|不到)\s*$" }
    BOUND.is_match(before)
}

/// Whether another number follows as an alternative or as the end of a range, or the number is a bound.
fn is_open(text: &str, figure: &Figure) -> bool {
    pattern! { OTHER = r"(?i)^\s*(?:[A-Za-z]{0,12}\s+)?(?:or|to|oder|bis|ou|à|o|a|или|до|-|–|—|~|/|或|到|至|か|から)\s*(?:maybe |perhaps |even |possibly )?\d|^(?:\s*[a-z]+)?,?\s*(?:possibly|maybe|perhaps)\s+\d|^\s*(?:[a-z]+\s+)?(?:and|or)\s+(?:maybe|possibly|perhaps)\s+\d|^[^.\n]{0,40}\b(?:if|otherwise)\b|^\s+or,|^\s*(?:[a-z]+\s+)?(?:at least|at most|minimum|maximum|or fewer|or less)\b|^\s*(?:\+|or more|or so many|oder mehr|ou plus|o más|\S{0,3}?\s*(?:以上|以下|未満|未满|이상|이하|미만)|plus\b)|^\s*\S*(?:ten|tan|den|dan)\s+(?:fazla|az|çok)|^\s*से\s+(?:अधिक|ज्यादा|कम)|^\s*\w+\s+and\s+\d|^\s*(?:[a-z]{1,2}\s+)?(?:x|×|by)\s*(?:[2-9]|1[1-9]|10\s*[^\s\d^])" }
    // `1h 30m`
    let written = &text[figure.start..figure.end];
    let parts = written
        .split(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ','))
        .filter(|part| !part.is_empty());
    OTHER.is_match(close_after(&text[figure.end..]))
        || is_bound(close_before(text, figure.start))
        || is_turned_down(text, figure)
        || figure.kind == FigureKind::Unit && parts.count() > 1
}

/// Whether words around a number deny it, in languages that have them apart from the verb or behind the number.
fn is_turned_down(text: &str, figure: &Figure) -> bool {
    pattern! { BEFORE = r"(?i)(?:\b(?:não|no|non)\s+(?:é|são|há|es|son|hay|è|sono|ci sono)|\bbukan|\bkhông phải(?: là)?|\bniet|\bnie(?: jest| to)?|\bnot|ليس|ليست)\s*$" }
    pattern! {
        BEHIND = r"(?i)^\s*\S{0,8}\s*(?:では?ありません|ではな|じゃな|(?:가|이|은|는)\s*아니|(?:가|이|은|는)\s*아닙|değil|नहीं)"
    }
    BEFORE.is_match(close_before(text, figure.start)) || BEHIND.is_match(close_after(&text[figure.end..]))
}

/// Whether a figure counts nothing: a clock time, an ordinal, part of a date or a name.
fn is_other(text: &str, figure: &Figure) -> bool {
    pattern! { ORDINAL = r"(?i)^(?:st|nd|rd|th|er|ère|ème|º|ª|°\s*[CF]?)\b|^\.\s*(?:Platz|Runde|Stock)" }
    pattern! { NAMED = r"(?i)(?:\b(?:frames?|seconds?|minutes?|video|image|figure|option|step|number|no\.|page|scene|part|question|chapter|level|code|status|error|line|room|class|jersey|shirt|bus|track|platform|table|gate|lane|channel|age|aged|version|t\s*=|frame:|of (?:the|these|those))|#|第)\s*$" }
    pattern! { COUNTED = r"(?i)^(?:[kxsp]\b|-year|\s*(?:seconds?|minutes?|hours?) long|\s*years of|\s*pixels|-minute|-second|\s*-?\s*frames?\b|\s*fps\b|\s*years? old|\s*degrees|\s+(?:January|February|March|April|May|June|July|August|September|October|November|December)\b|-year-old|\s*o'?clock|\s+\p{Lu}\w+ (?:Street|Road|Avenue)|\s+on (?:the|his|her) \w+(?:'s)? (?:shirt|jersey|back)|帧|岁|\s*[ap]\.?m\b)" }
    figure.kind == FigureKind::Clock
        || COUNTED.is_match(close_after(&text[unit_less(text, figure)..]))
        || is_name(text, figure)
        || ORDINAL.is_match(close_after(&text[figure.end..]))
        || NAMED.is_match(close_before(text, figure.start))
}

/// Whether a figure is part of a name or a year: `iPhone 12`, `Boeing 747`, `in 2019`.
fn is_name(text: &str, figure: &Figure) -> bool {
    pattern! { NAME = r"\s(?:\p{Lu}\p{Ll}+|\p{Ll}+\p{Lu}\p{Ll}*) $" }
    pattern! { DATE = r"(?i)\b(?:in|since|the|of|this|a|from)(?: the)? $" }
    let head = close_before(text, figure.start);
    let is_year = (1900.0..2100.0).contains(&figure.value) && DATE.is_match(head);
    is_year || NAME.find(head).is_some_and(|name| !head[..name.start()].trim_end().ends_with(['.', ':', '!']))
}

/// A number with nothing beside it but dress, words for "about" and up to three words of a unit.
fn alone(text: &str) -> Option<f64> {
    pattern! { AROUND = r"(?i)^[\s()\[\]:.~≈=\x01]*(?:(?:the |my |final |correct )*(?:answer|count|total|number|antwort|réponse|respuesta|resposta|risposta|答案|答え|答)\s*(?:is|ist|est|es|è|是|为|は)?[\s:=]*)?(?:(?:about|approximately|approx\.?|around|roughly|exactly|circa|ca\.?|nearly|almost|only|just|a total of|ungefähr|etwa|rund|genau|environ|à peu près|unos|unas|aproximadamente|cerca de|circa|约|大约|約|およそ|共|一共|总共|有|约为|probably|likely|maybe|i think|i count|i see|there are|there is|есть|около)[\s:,]*)*[~≈]?\s*$" }
    pattern! { UNIT = r"^\s*(?:[A-Za-zÀ-ÿ°%²³/µ·-]+\.?\s*){0,4}[()\[\].!\s]*$|^\s*[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]{0,6}[.!\s]*$" }
    let all = figures(text);
    let [figure] = all[..] else { return None };
    let head = &text[..figure.start];
    let tail = &text[unit_less(text, &figure)..];
    pattern! { VERB = r"(?i)\b(?:is|are|was|were|seems?|not|wrong|incorrect|too|would|could|or|min|minimum|max|maximum|fewer|more|less|at)\b" }
    if VERB.is_match(tail) {
        return None;
    }
    let is_alone =
        AROUND.is_match(head) && UNIT.is_match(tail) && !is_open(text, &figure) && !is_other(text, &figure);
    is_alone.then(|| value_of(text, &figure))
}

/// Where the number of a figure ends, without its unit.
fn unit_less(text: &str, figure: &Figure) -> usize {
    let written = &text[figure.start..figure.end];
    let length = written.rfind(|c: char| c.is_ascii_digit()).map_or(written.len(), |at| at + 1);
    figure.start + length
}

/// The number as it is written: a unit of time changes nothing.
fn value_of(text: &str, figure: &Figure) -> f64 {
    let end = unit_less(text, figure);
    let all = figures(&text[figure.start..end]);
    all.first().map_or(figure.value, |bare| bare.value)
}

/// How much a phrase in front of a number says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tier {
    /// `the answer is`, `in total`, a correction, a box.
    Declared,
    /// `there are`: one of several counts may be a part.
    Counted,
}

/// The first or last line, or the first sentence, that is one number. `Some(None)`: lines of numbers.
fn line_alone(text: &str) -> Option<Option<f64>> {
    pattern! { MARKER = r"^\s*\d+[.)]\s+\S" }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let of = |line: &&str| if MARKER.is_match(line) { None } else { alone(line) };
    let numbers: Vec<f64> = lines.iter().filter_map(of).collect();
    let (first, last) = (lines.first()?, lines.last().and_then(of));
    if let (Some(last), [one, ..]) = (last, &numbers[..]) {
        // Several lines of numbers with their things are parts.
        let is_single = numbers.len() == 1 || numbers.iter().all(|number| number == one);
        return Some(is_single.then_some(last));
    }
    let sentence = first.split_inclusive(". ").next().filter(|_| !MARKER.is_match(first))?;
    of(first).or_else(|| alone(sentence)).map(Some)
}

/// Place and number of the last phrase; no number where it leaves the question open.
fn last_statement(text: &str, tier: Tier) -> Option<(usize, Option<(f64, &'static str)>)> {
    static COUNTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        [
            r"(?i)\b(?:there\s+(?:is|are|were|was|'s|must be|should be|appear to be|seem to be)|there's)\s*",
            r"(?i)\b(?:I|we)\s+(?:can\s+|could\s+|only\s+)*(?:see|count|counted|find|found|get|got|identify|estimate)\s*",
            r"(?i)\b(?:which|that|this|it)\s+(?:makes|gives|is|are|equals|comes to|means|leaves)\s*",
            r"(?i)\b(?:count|number|distance|size|length|width|height|area|amount|estimate)\b(?:\s+(?:of|between|from)\b[^.\n:]{0,80}?)?\s*(?:is|was|would be|should be|:|=)\s*",
            r"(?:画面|视频|房间|图|里|中|上)(?:里|中|上)?(?:一共|总共|共)?有\s*",
            r"(?i)\b(?:es gibt|es sind|sind es|il y (?:en )?a|hay|há|ci sono)\s*",
        ]
        .map(regex)
        .into()
    });
    static TOTALS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        [
            r"(?i)\b(?:it|that|this)\s+(?:must|should|would|has to|can only)\s+be\s*",
            r"(?i)\b(?:no|wait|sorry|correction|rather|actually)\b[,:\s]+(?:it's|it is|make that|that's)?\s*",
            r"(?i)\bnot\s+\d+\W+but\s*(?:rather)?\s*",
            r"(?i)\b(?:correct|right|final|true|actual)\s+(?:number|count|figure|value|distance|size)\s+(?:is|would be)\s*",
            r"(?i)\bmeans\s+(?:that\s+)?",
            r"(?i)\b(?:a\s+)?(?:grand\s+)?total(?:s|ling)?\s*(?:number|count)?\s*(?:of|is|to|:|=|comes to|amounts to|would be)?\s*",
            r"(?i)\b(?:makes|gives|giving|making|equals|comes to|amounts to|adds up to|sums to|in total|altogether)\s*:?\s*",
            r"=\s*",
            r"(?i)(?:^|[.!?\n]\s*|,\s*)(?:so|therefore|thus|hence|in total|overall|altogether|final(?:ly)?)\b[\s,:]*(?:that's|that is|it's|it is|there are)?\s*",
            r"(?:一共|总共|共|合计|合計)(?:有|是|为)?\s*",
            r"(?:应该|應該|应|應)(?:是|为|有)\s*",
            r"(?i)\b(?:insgesamt|zusammen|au total|en total|in totale|всего)\s*",
        ]
        .map(regex)
        .into()
    });
    pattern! { BEHIND = r"(?i)^\s*(?:[a-zà-ÿ]+\s+)?(?:in total|in all|altogether|insgesamt|au total|en total|in totale)\b" }
    pattern! { ABOUT = r"(?i)^[\s:(\[\x01]*(?:(?:about|approximately|approx\.?|around|roughly|exactly|nearly|almost|only|just|a total of|indeed|therefore|thus|clearly|probably|likely|still|then|now|actually|really|in fact|ungefähr|etwa|rund|genau|insgesamt|sind|es|ist|son|sono|sont|environ|unos|unas|aproximadamente|约|大约|約|は|有|the|a|at|in total|altogether)[\s:,]*)*[~≈]?\s*$" }
    pattern! { TOTAL = r"(?i)total|altogether|insgesamt|一共|总共|總共" }
    pattern! { FEW = r"^(?:[\s,]*[^\s.,!?]+){0,4}\s*$" }
    let all = figures(text);
    let mut last: Option<(usize, Option<f64>, &'static str)> = None;
    let mut put = |at: usize, said: Option<f64>, rule| {
        if last.is_none_or(|(place, ..)| place <= at) {
            last = Some((at, said, rule));
        }
    };
    let strong = LEADS.iter().filter(|lead| lead.strength == Strength::Strong).map(|lead| &lead.pattern);
    let patterns: Vec<&Regex> = match tier {
        Tier::Declared => strong.chain(TOTALS.iter()).collect(),
        Tier::Counted => COUNTS.iter().collect(),
    };
    for figure in all
        .iter()
        .filter(|figure| tier == Tier::Declared && BEHIND.is_match(&text[unit_less(text, figure)..]))
    {
        put(figure.start, Some(value_of(text, figure)), "answer_is");
    }
    let mut counts: Vec<f64> = Vec::new();
    let mut is_said = false;
    for pattern in patterns {
        for found in pattern.find_iter(text) {
            let Some(figure) = all.get(all.partition_point(|figure| figure.start < found.end())) else {
                continue;
            };
            if figure.start - found.end() > 200 {
                continue;
            }
            let between = &text[found.end()..figure.start];
            let head = sentence_before(text, found.start());
            let head = head.rsplit(", but ").next().unwrap_or(head);
            let sentence = close_after(&text[figure.start..]);
            let is_asked = sentence
                .find(['!', '?', '\n', '？'])
                .is_some_and(|at| sentence[at..].starts_with(['?', '？']))
                && !sentence.split('?').next().is_some_and(|asked| asked.contains(". "));
            let is_denied = is_asked
                || leads::is_clause_denied(head)
                || leads::is_of_other_answer(head) && !found.as_str().contains("total");
            if is_denied || tier == Tier::Counted && between.contains('\n') {
                continue;
            }
            if CONDITION.is_match(head)
                || OTHERS.is_match(head)
                || NEGATED.is_match(head)
                || is_other(text, figure) && figure.kind == FigureKind::Clock
            {
                continue;
            }
            let is_total = TOTAL.is_match(found.as_str()) && FEW.is_match(between);
            // `The answer is 4: a total of 2 men and 2 women`
            let is_sum = tier == Tier::Declared && found.start() > 0 && goes_on(text, figure) && is_said;
            if (is_total || ABOUT.is_match(between)) && !is_other(text, figure) && !is_sum {
                let value = value_of(text, figure);
                if !counts.contains(&value) {
                    counts.push(value);
                }
                // Of several counts none is the whole, unless the sentence is about the question.
                pattern! { ASKED = r"(?i)\b(?:answer|question|asked)\b" }
                let is_part = tier == Tier::Counted
                    && (counts.len() > 1 && !ASKED.is_match(head) || goes_on(text, figure));
                is_said = true;
                put(figure.start, (!is_open(text, figure) && !is_part).then_some(value), "answer_is");
            } else if is_bound(between) && between.len() < 40 {
                put(figure.start, None, "answer_is");
            }
        }
    }
    let mut at = 0;
    for line in text.split('\n').filter(|_| tier == Tier::Declared) {
        let start = at;
        at += line.len() + 1;
        if let Some(value) = line.strip_prefix(BOX).and_then(alone) {
            put(start, Some(value), "boxed");
        }
    }
    last.map(|(at, said, rule)| (at, said.map(|value| (value, rule))))
}

/// Whether a count goes on with another one in its sentence: `3 with the child and 2 without`.
fn goes_on(text: &str, figure: &Figure) -> bool {
    pattern! { NEXT = r"(?i)^[^.\n(]{0,40}\b(?:and|or|und|et|y)\s+(?:maybe |possibly )?\d" }
    NEXT.is_match(close_after(&text[figure.end..]))
}

/// The only number of a text that denies and asks nothing.
fn only(text: &str) -> Option<f64> {
    pattern! { MARKER = r"^\s*\d+[.)]\s" }
    if MARKER.is_match(text) {
        return None;
    }
    pattern! { DENIED = r"(?i)\b(?:not|cannot|can't|don't|doesn't|hard to|unable|unclear|if|sorry|no longer|neither|failed|error|wrong|incorrect|right|too many|too few|too high|too low|impossible|will|nicht|pas|no puedo)\b|[?？]\s*$|不|没|無法|无法" }
    let mut all: Vec<Figure> = figures(text).into_iter().filter(|figure| !is_other(text, figure)).collect();
    // `After 10 seconds, 4 birds …`
    if all.len() > 1 {
        all.retain(|figure| figure.kind == FigureKind::Bare);
    }
    let [figure] = all[..] else { return None };
    let is_plain = !DENIED.is_match(text)
        && !OTHERS.is_match(&text[..figure.start])
        && !is_open(text, &figure)
        && !NEGATED.is_match(close_before(text, figure.start));
    is_plain.then(|| value_of(text, &figure))
}

/// The text with counts that are written out in digits, thousands joined, fractions divided.
fn with_digits(text: &str) -> String {
    pattern! { FRACTION = r"\\[dt]?frac\s*\{?(\d{1,3})\}?\s*\{?(\d{1,3})\}?|\b(\d{1,2})/(\d{1,2})\b" }
    pattern! { SPACED = r"\b(\d{1,3}) (\d{3})\b" }
    pattern! { ONE = r"(?i)(^[^\w]*|\b(?:is|are|only|just|exactly|has|see|count|counted|than|:|total of)\s+)one\b(\s*[^\w\s]*$|\s*[.,;!]|\s+(?:single\s+)?\w)" }
    pattern! { NO_ONE = r"(?i)\bone\s+(?:second,|third|half|quarter|fifth|tenth|moment|hundred|thousand|million|of|can|could|may|might|must|should|who|that|from|has|sees|would)\b" }
    pattern! { NONE = r"(?i)^[^\w]*(?:none of them|there are (?:no (?:\w+s|people|men|women|children)|zero)\b[^.\n]*|there aren't any\b[^.\n]*|no (?:\w+s|people|men|women|children) (?:are|were) (?:visible|present|shown|seen|there)|nobody|none|nil|zero|null|zéro|cero|keine|aucune?|ninguno|nessuno|没有|零)[^\w]*(?:$|\.)" }
    if NONE.is_match(text) {
        return "0".to_owned();
    }
    // `3.0 × 10^2`, `2.5 million`, `12.000 Zuschauer`: a German noun says that the point stands between thousands.
    pattern! { POWER = r"(\d+(?:\.\d+)?)\s*(?:×|x|\\times|·)\s*10\s*\^\s*\{?(-?\d{1,2})\}?" }
    pattern! { SCALE = r"(?i)\b(\d+(?:\.\d+)?)\s*(?:(thousand|tausend|mille|mil)\b|(millions?|millionen|millones|mio\.?|mln)\b|(billions?|milliarden?|bn)\b|(万|萬|만)|(億|亿|억)|(千|천)|(hundred)\b)" }
    pattern! { POINTED = r"\b(\d{1,3})\.(\d{3})( \p{Lu}\p{Ll}{3,})" }
    let powered = |found: &Captures<'_>| match (found[1].parse::<f64>(), found[2].parse::<i32>()) {
        (Ok(value), Ok(power)) => (value * 10f64.powi(power)).to_string(),
        _ => found[0].to_owned(),
    };
    let scaled = |found: &Captures<'_>| {
        let factors = [1e3, 1e6, 1e9, 1e4, 1e8, 1e3, 1e2];
        let factor = factors.iter().zip(2..).find(|(_, group)| found.get(*group).is_some());
        found[1].parse::<f64>().map_or(found[0].to_owned(), |value| {
            (value * factor.map_or(1.0, |(factor, _)| *factor)).to_string()
        })
    };
    let text = signed(&with_words_of_scale(text));
    let text = POWER.replace_all(&text, powered);
    let text = SCALE.replace_all(&text, scaled);
    let text = POINTED.replace_all(&text, "$1$2$3");
    let divided = |found: &Captures<'_>| {
        let part = |one: usize, other: usize| {
            found.get(one).or(found.get(other)).and_then(|part| part.as_str().parse::<f64>().ok())
        };
        match part(1, 3).zip(part(2, 4)) {
            Some((above, below)) if below > above => (above / below).to_string(),
            _ => found[0].to_owned(),
        }
    };
    let text = FRACTION.replace_all(&text, divided);
    let text = SPACED.replace_all(&text, "$1$2");
    let text = match NO_ONE.is_match(&text) {
        true => text,
        false => ONE.replace_all(&text, "${1}1$2").into_owned().into(),
    };
    let mut text = hangul(&han(&text));
    // Isolated ones are left: in most languages they are articles.
    pattern! { VAGUE = r"(?i)\b(?:hundreds|thousands|millions|dozens|a few|several)\b" }
    if VAGUE.is_match(&text) {
        return text;
    }
    let languages = languages(&text);
    for (place, language) in languages.iter().enumerate() {
        let replaced = replace_numbers_in_text(&text, language, 2.0);
        // A word of a short text is a number of another language only where it begins the text.
        let begins =
            replaced.starts_with(|c: char| c.is_ascii_digit()) && replaced.split_whitespace().count() < 3;
        if languages.len() < 3 || begins || place == 0 {
            text = replaced;
        }
    }
    // Outside of English a point in front of three digits stands between thousands.
    pattern! { THOUSANDS = r"\b([1-9]\d{0,2})\.(\d{3})\b" }
    pattern! { MIXED = r"\b(\d+) (?:0\.5|and a half)\b" }
    let text = if languages.len() == 2 { THOUSANDS.replace_all(&text, "$1$2").into_owned() } else { text };
    MIXED.replace_all(&text, "$1.5").into_owned()
}

/// A minus in words as a sign, without what a measurement may be off by: `minus 5`, `零下5度`, `3.5 ± 0.2`.
fn signed(text: &str) -> String {
    pattern! { WORD = r"(?i)(^|[^\d\s)]\s*)(?:\b(?:minus|negative|минус)\s+|零下|マイナス|영하\s*)(\d)|(^|[^\d\s)]\s*)\b(?:menos|moins|meno)\s+(\d+\s*(?:°|grad|degr|gradi))" }
    pattern! { ERROR = r"[\s,]*(?:±|\+/-|\+-)\s*\d+(?:\.\d+)?" }
    let text = ERROR.replace_all(text, "");
    WORD.replace_all(&text, "$1$3 -$2$4").into_owned()
}

/// `a dozen`, `10k`, `twice`, `3 of the 5` as numbers.
fn with_words_of_scale(text: &str) -> String {
    pattern! { HALF = r"(?i)\bhalf a (million|dozen)\b" }
    pattern! { DOZEN = r"(?i)\b(?:(\d+) dozen|a dozen|twice|once)\b" }
    pattern! {
        DOZENS = r"(?i)\b(?:(two|zwei)|(three|drei)|(four|vier)|(five|fünf)|(six|sechs)) (?:dozen|dutzend)\b"
    }
    pattern! { KILO = r"\b(\d+(?:\.\d+)?)([kKM])\b" }
    pattern! { POWER = r"(^|[^\d.×x·*\s]\s*|^\s*)10\s*\^\s*\{?(-?\d{1,2})\}?" }
    pattern! { OUT_OF = r"\b(\d+) (?:out )?of (?:the |all )?\d+\b" }
    pattern! { APOSTROPHE = r"\b(\d{1,3})'(\d{3})\b" }
    let is_short = text.split_whitespace().count() < 4;
    let text = APOSTROPHE.replace_all(text, "$1$2");
    let text = HALF.replace_all(
        &text,
        |found: &Captures<'_>| if found[1].eq_ignore_ascii_case("dozen") { "6" } else { "500000" },
    );
    let text = DOZENS.replace_all(&text, |found: &Captures<'_>| {
        let count = (1..6).find(|group| found.get(*group).is_some()).map_or(0, |group| group + 1);
        (12 * count).to_string()
    });
    let text = DOZEN.replace_all(&text, |found: &Captures<'_>| {
        match (found.get(1), found[0].to_lowercase().as_str()) {
            (Some(count), _) => {
                count.as_str().parse::<u64>().map_or(found[0].to_owned(), |count| (12 * count).to_string())
            }
            (None, "a dozen") => "12".to_owned(),
            (None, "twice") => "2 times".to_owned(),
            (None, "once") if !is_short => found[0].to_owned(),
            (None, _) => "1".to_owned(),
        }
    });
    let text = KILO.replace_all(&text, |found: &Captures<'_>| {
        let factor = if found[2].eq_ignore_ascii_case("k") { 1e3 } else { 1e6 };
        found[1]
            .parse::<f64>()
            .ok()
            .filter(|_| is_short)
            .map_or(found[0].to_owned(), |value| (value * factor).to_string())
    });
    let text = POWER.replace_all(&text, |found: &Captures<'_>| {
        format!("{}{}", &found[1], found[2].parse::<i32>().map_or(f64::NAN, |power| 10f64.powi(power)))
    });
    OUT_OF.replace_all(&text, "$1").into_owned()
}

/// English, and the language whose short words a text has; all of them for a text of few words.
fn languages(text: &str) -> Vec<Language> {
    static SIGNS: LazyLock<[Regex; 5]> = LazyLock::new(|| {
        [
            r"(?i)\b(?:der|die|das|ist|sind|und|ich|auf|nicht|insgesamt|im|antwort|es gibt)\b",
            r"(?i)\b(?:le|la|les|est|sont|et|dans|il y a|réponse|au total|on)\b",
            r"(?i)\b(?:el|los|las|hay|son|en|y|respuesta|total de)\b",
            r"(?i)\b(?:il|sono|ci|nella|di|risposta)\b",
            r"(?i)\b(?:são|há|ao|na|no|do|da|os|resposta)\b",
        ]
        .map(regex)
    });
    let others = [
        Language::german(),
        Language::french(),
        Language::spanish(),
        Language::italian(),
        Language::portugese(),
    ];
    let is_short = text.split_whitespace().count() < 5 && figures(text).is_empty();
    let count = |signs: &Regex| signs.find_iter(text).count();
    let most = SIGNS.iter().map(count).max().unwrap_or(0);
    let own = others
        .into_iter()
        .zip(SIGNS.iter())
        .filter(|(_, signs)| is_short || most > 0 && count(signs) == most);
    [Language::english()].into_iter().chain(own.map(|(language, _)| language)).collect()
}

/// Korean numerals up to ten in front of a counter, in digits.
fn hangul(text: &str) -> String {
    const NUMERALS: [&str; 10] = ["한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉", "열"];
    pattern! { COUNT = r"(^|\s)(한|두|세|네|다섯|여섯|일곱|여덟|아홉|열)(\s*(?:개|명|마리|대|번|권|장|병|잔|채))" }
    let replaced = COUNT.replace_all(text, |found: &Captures<'_>| {
        let value = NUMERALS.iter().position(|known| *known == &found[2]).map_or(0, |place| place + 1);
        format!("{}{value}{}", &found[1], &found[3])
    });
    replaced.into_owned()
}

/// Han numerals up to 99 in front of a counter, or alone, in digits. A single `一` is an article.
fn han(text: &str) -> String {
    pattern! { HAN = r"([几幾数]?)([一二两兩三四五六七八九十]{1,3})(\s*(?:[个個把张張只隻辆輛人位名本台扇件条條次米块塊つ匹枚頭头棵朵杯瓶座艘架间間部台層层枝支盏公到至或]|$|[.\n,，、]))" }
    let digit =
        |c: char| "一二三四五六七八九".chars().position(|known| known == c).map_or(2, |place| place + 1);
    let value = |written: &str| {
        let (tens, ones) =
            written.split_once('十').map_or((None, written), |(tens, ones)| (Some(tens), ones));
        let tens = tens.map_or(0, |tens| tens.chars().next().map_or(1, digit) * 10);
        tens + ones.chars().next().map_or(0, digit)
    };
    // `七八个`, `二三十个`, `几十个`: about so many.
    let is_about = |written: &str| {
        let digits: Vec<bool> = written.chars().map(|c| c != '十').collect();
        digits.windows(2).any(|two| two[0] && two[1])
    };
    let replaced = HAN.replace_all(text, |found: &Captures<'_>| match &found[2] {
        "一" if text.chars().count() > 4 => found[0].to_owned(),
        written if !found[1].is_empty() || is_about(written) => found[0].to_owned(),
        written => format!("{}{}", value(written), &found[3]),
    });
    replaced.into_owned()
}
