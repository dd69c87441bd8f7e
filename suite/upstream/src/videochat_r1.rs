//! VideoChat-R1 (OpenGVLab/VideoChat-R1 73b2ea9, `src_eval`): the interval and the letter of a reply.

use std::sync::LazyLock;

use paravt_python::{float, literal_regex, strip};
use paravt_suite::text::between;
use regex::Regex;

/// Letters of options.
const LETTERS: std::ops::RangeInclusive<char> = 'A'..='G';
/// Openings that are taken out of an answer; the last is two that the release joins for want of a comma.
const OPENINGS: [&str; 7] = [
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    "The best option is",
    "The correct option is",
    "Best answer:Best option:",
];

/// Start and end in seconds: the last `N to N` or `N and N` anywhere in a reply (`parse_timestamp_output`).
pub fn interval(reply: &str) -> Option<(f64, f64)> {
    static RANGE: LazyLock<Regex> = LazyLock::new(|| literal_regex(r"(\d+\.?\d*) (to|and) (\d+\.?\d*)"));
    let [start, _, end] = RANGE.captures_iter(reply).last()?.extract().1;
    Some((float(start)?, float(end)?))
}

/// The letter of an answer (`extract_characters_regex`), empty for none.
pub fn letter(answer: &str) -> String {
    let mut answer = strip(answer).to_owned();
    for opening in OPENINGS {
        answer = answer.replace(opening, "");
    }
    answer.chars().find(|c| LETTERS.contains(c)).map(String::from).unwrap_or_default()
}

/// Whether a choice question is answered right: the letters of the first `<answer>` and of the gold answer are the
/// same, which they are too where neither has one.
pub fn is_right(reply: &str, gold: &str) -> bool {
    between(reply, "<answer>", "</answer>").next().is_some_and(|answer| letter(answer) == letter(gold))
}

/// Share of the hull of two intervals that both have (`calc_iou`); negative for a reversed interval whose hull is.
pub fn iou(found: (f64, f64), gold: (f64, f64)) -> f64 {
    let inter = found.1.min(gold.1) - found.0.max(gold.0);
    let union = found.1.max(gold.1) - found.0.min(gold.0);
    inter.max(0.0) / union
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_letters() {
        assert_eq!(interval("between 1 and 2. So 3.5 to 4."), Some((3.5, 4.0)));
        assert_eq!(interval("1 to 2 and 3"), Some((1.0, 2.0)), "matches do not overlap");
        assert_eq!(interval("<answer>3.5-4</answer>"), None);
        assert_eq!((letter("The best answer is C").as_str(), letter("h").as_str()), ("C", ""));
        assert!(is_right("<answer>(B) x</answer>", "B") && !is_right("B", "B"));
        assert_eq!(iou((0.0, 10.0), (5.0, 20.0)), 0.25);
        assert_eq!(iou((0.0, 1.0), (5.0, 10.0)), 0.0);
    }
}
