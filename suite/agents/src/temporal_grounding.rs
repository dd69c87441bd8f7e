//! Temporal grounding as lmms-eval 75571cf scores it (`lmms_eval/tasks/charades_sta/eval_tvg.py`).

use paravt_python::{float, pattern};
use regex::Regex;

/// The example of a prompt, not taken for an answer.
const EXAMPLE: &str = "a specific example is : 20.8 - 30.0 seconds";
/// Sentences with none of these are not read; the longer ones of the release hold one of them.
const KEYWORDS: [&str; 3] = ["start", "end", "happen"];

/// Start and end in seconds, the smaller first, of a reply (`extract_time`): the first two numbers with a dash between
/// them; else the first numbers of two sentences. `None` where there are none.
pub fn interval(reply: &str) -> Option<(f64, f64)> {
    pattern! { RANGE = r"(\d+(?:\.\d+)?)\s*[–-]\s*(\d+(?:\.\d+)?)" }
    pattern! { NUMBER = r"\b(\d+(?:\.\d+)?)\b" }
    pattern! { LOOSE = r"(\d+(?:\.\d+)?)\s*s?\s*[–-]\s*(\d+(?:\.\d+)?)\s*s?" }
    let text = reply.to_lowercase().replace(EXAMPLE, "").replace("to", "-");
    let sentences = text.split(['!', '?', '\n']);
    let read: Vec<&str> =
        sentences.filter(|sentence| KEYWORDS.iter().any(|keyword| sentence.contains(keyword))).collect();
    let range = |pattern: &Regex| {
        let found = read.iter().find_map(|sentence| pattern.captures(sentence))?;
        let [start, end] = found.extract().1;
        Some((float(start)?, float(end)?))
    };
    let numbers = || {
        let mut firsts =
            read.iter().filter_map(|sentence| float(NUMBER.captures(sentence)?.extract::<1>().1[0]));
        Some((firsts.next()?, firsts.next()?))
    };
    // The clock times that the release looks for before the last form hold a number, which comes first.
    let (start, end) = range(&RANGE).or_else(numbers).or_else(|| range(&LOOSE))?;
    Some(if end > start { (start, end) } else { (end, start) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::videochat_r1::iou;

    /// Values of the release's own `extract_time`.
    #[test]
    fn the_first_range_of_a_sentence_about_time_counts() {
        for (reply, expected) in [
            ("The event happens in the 3.5 - 10 seconds. It ends 2 - 4", Some((3.5, 10.0))),
            ("it starts at 4 to 2", Some((2.0, 4.0))),
            ("from 4 to 2", None),
            ("start 5.\nend 9.5 or 11", Some((5.0, 9.5))),
            ("starts at 00:00:18 and ends at 00:00:23", None),
            ("start 3s - 7s", Some((3.0, 7.0))),
            ("", None),
        ] {
            assert_eq!(interval(reply), expected, "{reply}");
        }
        assert_eq!(iou((2.0, 6.0), (4.0, 8.0)), 2.0 / 6.0);
        assert_eq!(iou((12.0, 22.0), (2.0, 4.0)), 0.0);
    }
}
