//! What may stand behind an option: the end of a sentence, a reason, another option.

use super::Said::{self, One, Open};
use crate::scoring::strict::leads::JOINT;
use crate::scoring::strict::options::{Options, words};

/// Whether another option follows as an alternative.
pub(super) fn alternatives(rest: &str, options: &Options, letter: char, rule: &'static str) -> Said {
    pattern! { OTHER = &format!(r"^[)\]}}.:\s(]*?(?:,?{JOINT}|\s+then\s|\s*[,，、])\s*(?i:possibly |maybe |perhaps |even |also )?(?i:option |choice |answer |opción |opção |option )?[(\[]?([A-Z])(?:[^\w'’]|$|[가-힣ぁ-ん])") }
    pattern! { CUT = r"(?i)^\s+(?:or|and)\s*$" }
    let other = OTHER.captures(rest).and_then(|found| {
        let (other, end) = (options.letter(found[1].chars().next()?)?, found.get(1)?.end());
        // `, C is wrong`, `, I think`, `and a cat`
        pattern! { GOES_ON = r"^\s+(?:is|are|was|being|and [A-Z] (?:are|is))\b" }
        let is_word = matches!(other, 'A' | 'I')
            && rest[end..].starts_with(' ')
            && rest[end..].trim_start().starts_with(|c: char| c.is_lowercase());
        (!is_word && !GOES_ON.is_match(&rest[end..])).then_some(other)
    });
    pattern! { OR = r"^[\s,]+(?:or|oder|ou|或者?)\s" }
    let is_open = OR.find(rest).is_some_and(|found| {
        options.begun(&words(&rest[found.end()..])).is_some_and(|(other, _)| other != letter)
    });
    if CUT.is_match(rest) || is_open {
        return Open;
    }
    if other.is_some_and(|other| other != letter) { Open } else { One(letter, rule) }
}

/// Whether another option's letter or text follows as an alternative.
pub(super) fn option_after(said: &[String], options: &Options) -> bool {
    let [word, rest @ ..] = said else { return false };
    if options.begun(said).is_some() && options.texts().all(|(_, words)| words.len() < 3) {
        return true;
    }
    if matches!(word.as_str(), "or" | "as")
        && rest.iter().enumerate().take(3).any(|(at, _)| options.begun(&rest[at..]).is_some())
    {
        return true;
    }
    matches!(word.as_str(), "or" | "and" | "oder" | "und" | "ou" | "et" | "o" | "y" | "或")
        && (options.begun(rest).is_some()
            || rest
                .first()
                .is_some_and(|word| word.len() == 1 && word.chars().all(|c| options.letter(c).is_some())))
}

/// Whether a sentence may end after these many words of a line: a stop, a comma or a reason follows.
pub(super) fn ends_text(line: &str, said: &[String], taken: usize) -> bool {
    const REASONS: [&str; 14] = [
        "because", "since", "as", "which", "based", "given", "due", "for", "weil", "car", "porque", "not",
        "übrig", "left",
    ];
    if REASONS.contains(&said[taken].as_str()) {
        return true;
    }
    // The shortest beginning of the line with as many words, and the mark behind it.
    let end = line.char_indices().map(|(at, c)| at + c.len_utf8()).find(|&at| {
        words(&line[..at]).len() >= taken
            && words(&line[..at])[..taken] == said[..taken]
            && !line[at..].starts_with(|c: char| c.is_alphanumeric())
    });
    end.is_some_and(|at| {
        line[at..]
            .trim_start_matches([')', ']', '\'', ' '])
            .starts_with(['.', ',', ';', '!', ':', '(', '-', '–', '—', '，'])
    })
}

/// A Cyrillic letter that looks like a Latin one as that one.
pub(super) fn latin(letter: char) -> char {
    match letter {
        'А' => 'A',
        'В' => 'B',
        'С' => 'C',
        'Е' => 'E',
        other => other,
    }
}
