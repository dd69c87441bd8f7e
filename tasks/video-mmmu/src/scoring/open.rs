//! `parse_open_response` and `eval_open`: phrases of the reply that may hold the answer, compared as texts and numbers.

use std::sync::LazyLock;

use paravt_python::{float, is_word, literal_regex, strip};
use regex::Regex;

/// What the replies of failed calls read there.
const API_ERROR: &str = "API Error";

/// What a phrase with the answer comes after.
const INDICATORS: [&str; 26] = [
    "could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ", "are ", "in total ",
    "total ", "identify ", "recognize ", "calculated as ", "counted as ", "measured as ", "observed as ",
    "concluded as ", "found to be ", "equals ", "determined to be ", "number of ", "value is ",
    "adds up to ", "have ", "has ",
];

/// The shortest phrase after an indicator of each line, in lower case; without one, the reply. `None` for no reply.
pub(super) fn key_phrases(reply: &str) -> Option<Vec<String>> {
    if reply.is_empty() || reply == API_ERROR {
        return None;
    }
    // The original also splits after a full stop before a capital, of which a text in lower case has none.
    let lower = strip(reply).trim_matches('.').to_lowercase();
    let lines: Vec<&str> = lower.split('\n').collect();
    let phrase = |(index, line): (usize, &&str)| {
        let equation = (index + 1 == lines.len()).then_some("=");
        let mut shortest = String::new();
        for indicator in INDICATORS.into_iter().chain(equation).filter(|indicator| line.contains(indicator)) {
            let tail = strip(line.rsplit(indicator).next().unwrap_or_default());
            if shortest.is_empty() || tail.chars().count() < shortest.chars().count() {
                tail.clone_into(&mut shortest);
            }
        }
        let trivial = [":", ",", ".", "!", "?", ";", "'"].contains(&shortest.as_str());
        (!shortest.is_empty() && !trivial).then_some(shortest)
    };
    let phrases: Vec<String> = lines.iter().enumerate().filter_map(phrase).collect();
    Some(if phrases.is_empty() { vec![lower] } else { phrases })
}

/// Whether a phrase, or a number in one, holds the gold answer.
pub(super) fn holds(phrases: &[String], gold: &str) -> bool {
    let gold = normalised(gold);
    let numbers = phrases.iter().flat_map(|phrase| numbers(phrase)).collect::<Vec<_>>();
    let found = phrases.iter().chain(&numbers).flat_map(|text| normalised(text));
    let is_gold = |found: Normalised| {
        gold.iter().any(|gold| match (gold, &found) {
            (Normalised::Text(gold), Normalised::Text(found)) => found.contains(gold.as_str()),
            (Normalised::Number(gold), Normalised::Number(found)) => gold == found,
            _ => false,
        })
    };
    found.into_iter().any(is_gold)
}

/// A text in lower case, or a number to two decimals.
#[derive(Debug, PartialEq)]
enum Normalised {
    Text(String),
    Number(f64),
}

/// `normalize_str`; a single character gets a space on either side, so that it does not match inside a word.
fn normalised(text: &str) -> Vec<Normalised> {
    let text = strip(text);
    if let Some(number) = float(&text.replace(',', "")) {
        let rounded = format!("{number:.2}").parse().unwrap_or(number);
        return vec![Normalised::Number(rounded)];
    }
    let lower = text.to_lowercase();
    let texts =
        if lower.chars().count() == 1 { vec![format!(" {lower}"), format!("{lower} ")] } else { vec![lower] };
    texts.into_iter().map(Normalised::Text).collect()
}

/// `extract_numbers`: with commas between thousands, in scientific notation, and plain ones.
fn numbers(text: &str) -> Vec<String> {
    static SCIENTIFIC: LazyLock<Regex> = LazyLock::new(|| literal_regex(r"-?\d+(?:\.\d+)?[eE][+-]?\d+"));
    let characters: Vec<char> = text.chars().collect();
    let mut found = all(&characters, with_commas);
    found.extend(SCIENTIFIC.find_iter(text).map(|number| number.as_str().to_owned()));
    found.extend(all(&characters, plain));
    found
}

/// Texts of matches from left to right; `end` is that of a match at a place.
fn all(text: &[char], end: fn(&[char], usize) -> Option<usize>) -> Vec<String> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        match end(text, at) {
            Some(end) => {
                found.push(text[at..end].iter().collect());
                at = end;
            }
            None => at += 1,
        }
    }
    found
}

/// End of the decimal digits from a place on.
fn digits(text: &[char], from: usize) -> usize {
    let is_digit = |c: &char| paravt_python::decimal_digit(*c).is_some();
    from + text.get(from..).unwrap_or_default().iter().take_while(|c| is_digit(c)).count()
}

fn is(text: &[char], at: usize, wanted: &[char]) -> bool {
    text.get(at).is_some_and(|c| wanted.contains(c))
}

/// `-?\b\d{1,3}(?:,\d{3})+\b`
fn with_commas(text: &[char], from: usize) -> Option<usize> {
    let start = from + usize::from(is(text, from, &['-']));
    if start.checked_sub(1).is_some_and(|before| is_word(text[before])) {
        return None;
    }
    let mut end = digits(text, start);
    if !(1..=3).contains(&(end - start)) {
        return None;
    }
    let mut last = None;
    while is(text, end, &[',']) && digits(text, end + 1) >= end + 4 {
        end += 4;
        if !text.get(end).is_some_and(|c| is_word(*c)) {
            last = Some(end);
        }
    }
    last
}

/// `-?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])`
fn plain(text: &[char], from: usize) -> Option<usize> {
    let start = from + usize::from(is(text, from, &['-']));
    let whole = digits(text, start);
    let free = |end: &usize| {
        let exponent = usize::from(is(text, *end, &['e', 'E']));
        let signed = *end + exponent + usize::from(is(text, *end + exponent, &['+', '-']));
        let has_exponent = exponent == 1 && digits(text, signed) > signed;
        !has_exponent && !is(text, *end, &[','])
    };
    let fraction = is(text, whole, &['.']).then(|| digits(text, whole + 1)).filter(|end| *end > whole + 1);
    let word = whole == start || text.get(whole).is_some_and(|c| is_word(*c));
    fraction.filter(free).or_else(|| Some(whole).filter(|end| !word && free(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_three_patterns() {
        for (text, found) in [
            ("1,234,567 and 12", &["1,234,567", "567", "12"][..]),
            ("1,234,5678", &["1,234", "5678"]),
            ("-3.5e4 x 2.50", &["-3.5e4", "-3", "4", "2.50"]),
            ("a.5b -.75", &[".5", "-.75"]),
            ("12kg 12 kg", &["12"]),
        ] {
            assert_eq!(numbers(text), found, "{text}");
        }
    }

    #[test]
    fn texts_are_held_and_numbers_equal() {
        let right = |reply: &str, gold: &str| holds(&key_phrases(reply).unwrap(), gold);
        assert!(right("So the value is 3.140", "3.14") && right("x = 3.1415", "3.14"));
        assert!(!right("So the value is 3.15", "3.14"));
        assert!(right("The process is called Photosynthesis.", "photosynthesis"));
        assert!(right("it is b or so", "B") && !right("about", "B"));
    }
}
