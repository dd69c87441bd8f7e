//! Sentences, and who says what in them.

use crate::scoring::strict::leads::{self, CONDITION, CONTRAST, NEGATED, OTHERS, SOFTENED};
use crate::scoring::strict::reply::{close_after, is_unspaced, sentence_before};

/// Whether a phrase is said by the model itself: not in a condition or a question, not of others, not negated.
pub(super) fn is_said(text: &str, start: usize, end: usize) -> bool {
    let (before, sentence) = sentence_of(text, start);
    let rest = close_after(&text[end..]);
    let stop = rest.find(['.', '!', '?', '\n', '？', '！']).map(|at| &rest[at..]);
    let is_question = stop.is_some_and(|stop| {
        stop.starts_with(['?', '？']) && !rest[..rest.len() - stop.len()].contains(['–', '—', ',', ';'])
    });
    pattern! { BUT = &format!("(?i)^{CONTRAST}") }
    if BUT.is_match(&text[start..]) {
        return true;
    }
    // What was said of another option before does not touch this one: `B is tempting, C is right`.
    pattern! { PART = r"^[^\n]*\b[A-Z]\b[^\n]*?(?:,\s+(?:but\s+|so\s+)?|\s(?:but|so)\s+)" }
    let depends = CONDITION.is_match(before) && !SOFTENED.is_match(before);
    let before = PART.find(before).map_or(before, |part| &before[part.end()..]);
    let is_others = text[start..end].contains(char::is_alphabetic) && leads::is_of_other_answer(before);
    let is_denied = NEGATED.is_match(before) || leads::is_clause_denied(before);
    !(is_question
        || depends
        || is_others
        || is_denied
        || OTHERS.is_match(before)
        || leads::is_reported(before)
        || sentence.is_empty())
}

/// The beginning of the sentence that holds a place, and the sentence from there on.
pub(super) fn sentence_of(text: &str, at: usize) -> (&str, &str) {
    let before = sentence_before(text, at);
    (before, &text[at - before.len()..])
}

/// Whether the rest of a sentence takes back what its beginning said.
pub(super) fn has_but(rest: &str) -> bool {
    pattern! { BUT = r"(?i)^[^.\n]{0,160}\b(?:but|however|though|although|except|only if|unless|yet)\b" }
    BUT.is_match(rest)
}

/// Whether a text says that it cannot answer.
pub(super) fn is_refused(text: &str) -> bool {
    pattern! { REFUSED = r"(?i)\b(?:cannot|can't|can not|could not|couldn't|unable|impossible|not possible|not (?:able|clear|enough|sufficient|provided|listed|among|explicitly)|sorry|insufficient|no (?:video|image|information|way)|unclear|as an AI|please (?:share|upload|provide|send|attach)|happy to help|can help)\b|无法|無法|不能|抱歉|稍等|承知|かしこまり|お待ち|できません|分かりません|kann (?:ich )?nicht|impossible de|no (?:puedo|es posible)|não (?:posso|é possível)" }
    REFUSED.is_match(text)
}

pub(super) fn sentences(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut rest = text;
    while !rest.trim().is_empty() {
        let end = rest.char_indices().find(|(at, c)| match c {
            '\n' | '!' | '！' | '？' => true,
            '?' => !rest[at + 1..].trim_start().starts_with(|c: char| c.is_lowercase()),
            '.' => rest[at + 1..].chars().next().is_none_or(|c| c.is_whitespace() || is_unspaced(c)),
            _ => false,
        });
        let end = end.map_or(rest.len(), |(at, c)| at + c.len_utf8());
        all.extend(Some(rest[..end].trim()).filter(|sentence| !sentence.is_empty()));
        rest = &rest[end..];
    }
    all
}

/// Whether a sentence denies, weighs or asks.
pub(super) fn is_doubtful(sentence: &str) -> bool {
    pattern! { DOUBT = r"(?i)\b(?:not|no|never|without|neither|nor|rather|instead|unlike|except|but|or|either|if|unless|whether|question|asked|asks|need to|I will|I.ll|let me|let's|at first|look at|require|despite|[A-Z] describes|error|invalid|comparing|misleading|cannot|can'?t|couldn'?t|isn'?t|aren'?t|ain'?t|doesn'?t|don'?t|didn'?t|wasn'?t|weren'?t|won'?t|wouldn'?t|shouldn'?t|hardly|scarcely|barely|although|though|however|could|might|may|könnte|würde|pourrait|podría|possible|possibly|could argue|unclear|unsure|maybe|sorry|unable|wrong|incorrect|eliminated?|excluded?|ruled?|nicht|kein\w*|pas|ne|aucun\w*|ni|ningun\w*|non|não|nem|oder|ou|не|или|more than|less than|fewer than|at least|at most|up to|mehr als|weniger als|plus de|moins de|más de|menos de|bukan|tidak|không|niet|nie|değil)\b|\?\s*$|不|没|沒|非|或|错|ない|ません|아니|않|नहीं|ليس|نیست" }
    DOUBT.is_match(sentence)
}
