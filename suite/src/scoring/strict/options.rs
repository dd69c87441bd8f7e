//! The options of a choice question, and texts that repeat one.

use super::reply::{is_unspaced, plain};

/// Letters of a row and the texts beside them.
pub struct Options {
    letters: Vec<char>,
    words: Vec<Vec<String>>,
    /// What each text says in any inflection, see [`content`]; empty where two options say the same.
    keys: Vec<Vec<String>>,
}

impl Options {
    /// `letters` are valid answers; `texts` stand in their order, and may be missing.
    pub fn new(letters: &str, texts: &[&str]) -> Self {
        let letters: Vec<char> = letters.chars().collect();
        let all: Vec<Vec<String>> = texts.iter().map(|text| words(&plain(text))).collect();
        let keys = all.iter().map(|words| content(words).map(|(_, stem)| stem).collect()).collect();
        Self { letters, words: all, keys: singles(keys) }
    }

    /// The letter in upper case, where the row has it.
    pub(super) fn letter(&self, letter: char) -> Option<char> {
        let upper = letter.to_ascii_uppercase();
        self.letters.contains(&upper).then_some(upper)
    }

    /// The letter that a label is written with, where the row has it.
    pub(super) fn written(&self, label: &str) -> Option<char> {
        self.letter(label.chars().next()?)
    }

    /// Words of the text beside a letter.
    pub(super) fn text_of(&self, letter: char) -> Option<&[String]> {
        let place = self.letters.iter().position(|other| *other == letter)?;
        self.words.get(place).map(Vec::as_slice).filter(|words| !words.is_empty())
    }

    /// Letters and words of the options with a text that no other has.
    pub(super) fn texts(&self) -> impl Iterator<Item = (char, &[String])> {
        let all = self.letters.iter().copied().zip(self.words.iter().map(Vec::as_slice));
        let is_single = |own: &[String]| self.words.iter().filter(|words| *words == own).count() == 1;
        all.filter(move |(_, words)| !words.is_empty() && is_single(words))
    }

    /// The option whose text these words are, as they stand, run together (`preheat`) or in another inflection.
    pub(super) fn named(&self, said: &[String]) -> Option<char> {
        let plain = without_article(said);
        let joined = plain.concat();
        let stems: Vec<String> =
            content(said).map(|(_, stem)| if stem == "one" { "1".to_owned() } else { stem }).collect();
        let mut same = self.texts().filter(|(_, words)| without_article(words).concat() == joined);
        let (exact, is_single) = (same.next(), same.next().is_none());
        let exact = exact.filter(|_| is_single);
        let inflected = || {
            self.keys().find(|(_, key)| {
                !is_letter(key)
                    && (*key == stems
                        || matches!((key, &stems[..]), ([one], [said]) if one == "one" && said == "1"))
            })
        };
        exact.or_else(inflected).map(|(letter, _)| letter)
    }

    /// Letters and keys of the options that have one.
    fn keys(&self) -> impl Iterator<Item = (char, &[String])> {
        let all = self.letters.iter().copied().zip(self.keys.iter().map(Vec::as_slice));
        all.filter(|(_, key)| !key.is_empty())
    }

    /// Options whose keys are among some words, with the places of their first word and behind their last. An option whose
    /// key is part of a longer one is named with it.
    pub(super) fn mentions(&self, said: &[String]) -> Vec<(char, usize, usize)> {
        let (places, stems): (Vec<usize>, Vec<String>) = content(said).unzip();
        let mut all: Vec<(char, usize, usize)> = Vec::new();
        for (letter, key) in self.keys().filter(|(_, key)| !is_letter(key)) {
            let windows = stems.windows(key.len()).enumerate().filter(|(_, window)| *window == key);
            all.extend(windows.map(|(at, _)| (letter, places[at], places[at + key.len() - 1] + 1)));
        }
        let is_part = |(letter, from, to): &(char, usize, usize)| {
            all.iter().any(|(other, start, end)| {
                other != letter && start <= from && to <= end && end - start > to - from
            })
        };
        all.iter().filter(|place| !is_part(place)).copied().collect()
    }

    /// The option with the longest text that these words begin with, and how many of them it takes.
    pub(super) fn begun(&self, said: &[String]) -> Option<(char, usize)> {
        let skipped = said.len() - without_article(said).len();
        let said = without_article(said);
        let found = self.texts().map(|(letter, words)| (letter, without_article(words)));
        let found = found.filter(|(_, words)| !words.is_empty() && said.starts_with(words));
        found.max_by_key(|(_, words)| words.len()).map(|(letter, words)| (letter, words.len() + skipped))
    }
}

/// Each of some texts that no other one equals; nothing in place of the others.
fn singles(all: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let is_single = |text: &&Vec<String>| all.iter().filter(|other| other == text).count() == 1;
    all.iter().map(|text| Some(text).filter(is_single).cloned().unwrap_or_default()).collect()
}

/// One letter as a text: its mention cannot be told from a label.
fn is_letter(key: &[String]) -> bool {
    matches!(key, [word] if word.chars().count() == 1 && word.chars().all(char::is_alphabetic) && word.is_ascii())
}

/// Words that carry a meaning, without their endings, and their places: `Raking the leaves` and `he is raking leaves` have
/// the same ones. Nothing but what such words leave out is left out: negations and numbers stay.
fn content(said: &[String]) -> impl Iterator<Item = (usize, String)> {
    const LEFT_OUT: [&str; 65] = [
        "a", "an", "the", "is", "are", "was", "were", "be", "been", "being", "it", "its", "he", "she",
        "they", "him", "them", "his", "her", "their", "there", "who", "which", "that", "to", "by", "of",
        "because", "and", "der", "die", "das", "den", "dem", "ein", "eine", "einen", "er", "sie", "es",
        "ist", "le", "la", "les", "un", "une", "l", "il", "elle", "est", "el", "los", "las", "una", "o",
        "os", "um", "uma", "她", "他", "它", "的", "是", "了", "在",
    ];
    // `Gate A`, `A 红色`
    let is_name = |at: usize| match said.get(at + 1) {
        None => at > 0 && said[at] == "a",
        Some(next) => said[at] == "a" && !next.is_ascii(),
    };
    let kept = said.iter().enumerate();
    let kept = kept.filter(move |(at, word)| !LEFT_OUT.contains(&word.as_str()) || is_name(*at));
    kept.map(|(at, word)| (at, stem(word)))
}

/// A word of an English text without the ending of a plural or of a verb; the same for every inflection of most words.
fn stem(word: &str) -> String {
    /// Particles and copulas of Korean, longest first.
    const HANGUL: [&str; 14] =
        ["입니다", "이에요", "에서", "예요", "이다", "으로", "은", "는", "이", "가", "을", "를", "에", "로"];
    if let Some(stem) =
        HANGUL.iter().find_map(|ending| word.strip_suffix(ending)).filter(|stem| !stem.is_empty())
    {
        return stem.to_owned();
    }
    if !word.is_ascii() || word.len() < 4 || word.contains(|c: char| !c.is_ascii_alphabetic()) {
        return word.to_owned();
    }
    let ending = ["ing", "ies", "ied", "ed", "es", "s"];
    let ending = ending.iter().find(|ending| word.ends_with(*ending) && word.len() >= ending.len() + 3);
    let mut short = ending.map_or(word, |ending| &word[..word.len() - ending.len()]).to_owned();
    if ending.is_some_and(|ending| ending.starts_with('i') && *ending != "ing") {
        short.push('y');
    }
    let bytes = short.as_bytes();
    if ending.is_some() && bytes[bytes.len() - 1] == bytes[bytes.len() - 2] {
        short.pop();
    }
    if short.ends_with('e') && short.len() > 3 {
        short.pop();
    }
    short
}

/// Words after a leading article; all of them where nothing else is there.
fn without_article(words: &[String]) -> &[String] {
    match words {
        [first, rest @ ..]
            if matches!(first.as_str(), "a" | "an" | "the")
                && rest.first().is_some_and(|next| next.is_ascii()) =>
        {
            rest
        }
        all => all,
    }
}

/// Words in lower case: runs of letters and digits, a number with its sign, point and comma; counts up to twelve that are
/// written out are digits. Each character of a script without blanks is a word.
pub(super) fn words(text: &str) -> Vec<String> {
    let text = text.to_lowercase().replace(" %", "%");
    let chars: Vec<char> = text.chars().collect();
    let (mut all, mut word) = (Vec::new(), String::new());
    let digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    for (at, &c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| chars[at]);
        let joins = match c {
            '.' | ',' | ':' | '/' => before.is_some_and(|c| c.is_ascii_digit()) && digit(at + 1),
            '\'' => before.is_some_and(char::is_alphanumeric),
            // `C++`, `A+`, `C#`, `B-`
            '#' => before.is_some_and(char::is_alphanumeric),
            '+' if before.is_some_and(|c| c.is_alphanumeric() || c == '+') && !digit(at + 1) => true,
            '-' if word.chars().count() == 1
                && chars.get(at + 1).is_none_or(|c| c.is_whitespace() || *c == '.') =>
            {
                word.chars().all(char::is_alphabetic) && before == word.chars().last()
            }
            '-' | '−' | '+' => digit(at + 1) && !before.is_some_and(|c| c.is_alphanumeric() || c == ')'),
            '%' | '°' | '²' | '³' | '=' | '<' | '>' => true,
            c => c.is_alphanumeric(),
        };
        let alone = is_unspaced(c);
        if (!joins || alone) && !word.is_empty() {
            all.push(std::mem::take(&mut word));
        }
        match (joins, alone) {
            (_, true) => all.push(c.to_string()),
            (true, false) => word.push(if c == '−' { '-' } else { c }),
            (false, false) => {}
        }
    }
    all.extend((!word.is_empty()).then_some(word));
    all.into_iter()
        .map(|word| counted(&word).map_or_else(|| spelled(&word), |count| count.to_string()))
        .collect()
}

/// A word as it is spelled everywhere: without apostrophe, `colour` as `color`, `grey` as `gray`.
fn spelled(word: &str) -> String {
    let word = word.replace('\'', "");
    // `02:45`
    if let Some(time) = word.strip_prefix('0').filter(|time| time.contains(':') && !time.starts_with(':')) {
        return time.to_owned();
    }
    if word.len() < 5 {
        return if word == "grey" { "gray".to_owned() } else { word };
    }
    word.replace("our", "or").replace("isation", "ization").replace("yse", "yze").replace("ise", "ize")
}

/// A count up to twelve that is written out in English; `one` is a pronoun as well and stays.
fn counted(word: &str) -> Option<usize> {
    const COUNTS: [&str; 11] =
        ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    COUNTS.iter().position(|count| *count == word).map(|place| place + 2)
}
