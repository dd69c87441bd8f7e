//! Labels of options, and lists of them.

use crate::scoring::strict::options::{Options, words};

/// Places and letters of labels in a text, `A.` or `(B)`: where a line or a part of a sentence begins, or in front of the
/// option's own text.
pub(super) fn labels<'a>(text: &'a str, options: &'a Options) -> impl Iterator<Item = (usize, char)> + 'a {
    pattern! { LABEL = r"(?:^|[\s,;(（\[])([A-Z])(?:\s?[.):、\]]|\s[-–—→|=]\s)" }
    pattern! { NOUN = r"(?i)(?:option|choice|answer|antwort|réponse|opción|respuesta|选项|選項|選択肢)\s*[(\[]?$" }
    LABEL.captures_iter(text).filter_map(|found| {
        let (label, whole) = (found.get(1)?, found.get(0)?);
        let letter = options.written(label.as_str())?;
        let (head, rest) = (&text[..label.start()], &text[whole.end()..]);
        let is_set_off = rest.chars().next().is_none_or(|c| !c.is_ascii_alphanumeric());
        let head = NOUN.find(head).map_or(head, |noun| &head[..noun.start()]);
        let begins = head
            .trim_end_matches([' ', '(', '['])
            .chars()
            .next_back()
            .is_none_or(|c| "\n.,;:!?。，；：|".contains(c));
        // Where the texts are not known, `A. red B. green` is a list as well.
        let is_own = || {
            options.texts().next().is_none()
                || options
                    .begun(&words(rest.lines().next().unwrap_or_default()))
                    .is_some_and(|(other, _)| other == letter)
        };
        (is_set_off && begins || is_own()).then_some((label.start(), letter))
    })
}

/// Lines or parts of a line that begin with different letters: a list of options.
pub(super) fn is_list(text: &str, options: &Options) -> bool {
    // `A The red lamp`
    let unmarked = text.lines().filter_map(|line| {
        let said = words(line);
        let letter = options.letter(said.first()?.chars().next().filter(|_| said[0].len() == 1)?)?;
        options.begun(&said[1..]).is_some_and(|(other, _)| other == letter).then_some(letter)
    });
    let mut letters: Vec<char> = labels(text, options).map(|(_, letter)| letter).chain(unmarked).collect();
    letters.sort_unstable();
    letters.dedup();
    letters.len() > 1
}

/// Whether a line lists options: labels with their own texts, or labels where no texts are known.
pub(super) fn lists_texts(line: &str, options: &Options) -> bool {
    let is_listed = |(at, letter): &(usize, char)| {
        options.text_of(*letter).is_none()
            || options.begun(&words(&line[at + 1..])).is_some_and(|(other, _)| other == *letter)
    };
    let mut letters: Vec<char> = labels(line, options).filter(is_listed).map(|(_, letter)| letter).collect();
    letters.sort_unstable();
    letters.dedup();
    letters.len() > 1
}
