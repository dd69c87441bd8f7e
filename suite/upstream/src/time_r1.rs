//! Time-R1 (xiaomi-research/time-r1 7f2b594, `src/vllm_inference`): the interval, the letter, and the second
//! generation that a letter is taken from.

use std::sync::LazyLock;

use regex::Regex;

use crate::python::{float, literal_regex};

/// Start and end in seconds: the last two numbers of a reply (`extract_timestamps`). Signs are not read.
pub fn interval(reply: &str) -> Option<(f64, f64)> {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| literal_regex(r"\d+(?:\.\d+)?"));
    let numbers: Vec<f64> = NUMBER.find_iter(reply).filter_map(|found| float(found.as_str())).collect();
    let [.., start, end] = numbers[..] else { return None };
    Some((start, end))
}

/// The letter that a reply is scored by: the last capital in parentheses, else its first character
/// (`mcq_is_correct`). `None` for an empty reply, at which the release raises.
pub fn letter(reply: &str) -> Option<char> {
    static CHOICE: LazyLock<Regex> = LazyLock::new(|| literal_regex(r"\(([A-Z])\)"));
    let last = CHOICE.find_iter(reply).last();
    last.map_or(reply, |found| &found.as_str()[1..]).chars().next()
}

/// The beginning of the turn that is generated a second time for the letter alone (16 tokens): the first
/// generation up to its last `<answer>`, then `opening`. `None` where it has none and stands as it is.
pub fn continuation(reply: &str, opening: &str) -> Option<String> {
    let at = reply.rfind("<answer>")?;
    Some(format!("{}<answer>\n{opening}", &reply[..at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_letters() {
        assert_eq!(interval("from 1.5 to 20.25."), Some((1.5, 20.25)));
        assert_eq!(interval("1 2 -3"), Some((2.0, 3.0)));
        assert_eq!((interval("12"), interval("")), (None, None));
        assert_eq!((letter("(A) or (B)"), letter("Cat"), letter("")), (Some('B'), Some('C'), None));
        assert_eq!(
            continuation("a<answer>b<answer>c", "Best ("),
            Some("a<answer>b<answer>\nBest (".to_owned())
        );
        assert_eq!(continuation("a", "b"), None);
    }
}
