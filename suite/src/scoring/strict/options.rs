//! The options of a choice question, and texts that repeat one.

use super::reply::plain;

/// Letters of a row and the texts beside them.
pub struct Options {
    letters: Vec<char>,
    /// Words of each text; empty where another option has the same words, or the text has none.
    words: Vec<Vec<String>>,
}

impl Options {
    /// `letters` are valid answers; `texts` stand in their order, and may be missing.
    pub fn new(letters: &str, texts: &[&str]) -> Self {
        let letters: Vec<char> = letters.chars().collect();
        let all: Vec<Vec<String>> = texts.iter().map(|text| words(&plain(text))).collect();
        let is_single = |words: &Vec<String>| all.iter().filter(|other| *other == words).count() == 1;
        let words =
            all.iter().map(|words| if is_single(words) { words.clone() } else { Vec::new() }).collect();
        Self { letters, words }
    }

    /// The letter in upper case, where the row has it.
    pub(super) fn letter(&self, letter: char) -> Option<char> {
        let upper = letter.to_ascii_uppercase();
        self.letters.contains(&upper).then_some(upper)
    }

    /// Words of the text beside a letter.
    pub(super) fn text_of(&self, letter: char) -> Option<&[String]> {
        let place = self.letters.iter().position(|other| *other == letter)?;
        self.words.get(place).map(Vec::as_slice).filter(|words| !words.is_empty())
    }

    /// Letters and words of the options with a text of their own.
    pub(super) fn texts(&self) -> impl Iterator<Item = (char, &[String])> {
        let all = self.letters.iter().copied().zip(self.words.iter().map(Vec::as_slice));
        all.filter(|(_, words)| !words.is_empty())
    }

    /// The option whose text these words are.
    pub(super) fn named(&self, said: &[String]) -> Option<char> {
        let said = without_article(said);
        self.texts().find(|(_, words)| without_article(words) == said).map(|(letter, _)| letter)
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

/// Words after a leading article; all of them where nothing else is there.
fn without_article(words: &[String]) -> &[String] {
    match words {
        [first, rest @ ..] if !rest.is_empty() && matches!(first.as_str(), "a" | "an" | "the") => rest,
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
    all.into_iter().map(|word| counted(&word).map_or(word, |count| count.to_string())).collect()
}

/// Scripts that write no blanks between words: Han, kana.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// A count up to twelve that is written out in English; `one` is a pronoun as well and stays.
fn counted(word: &str) -> Option<usize> {
    const COUNTS: [&str; 11] =
        ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    COUNTS.iter().position(|count| *count == word).map(|place| place + 2)
}
