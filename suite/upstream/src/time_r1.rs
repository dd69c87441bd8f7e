//! Time-R1 (xiaomi-research/time-r1 7f2b594): the interval, the letter, and the frames that are read.

use std::sync::LazyLock;

use paravt_python::literal_regex;
use regex::Regex;

/// Start and end in seconds (`extract_answer` of `evaluate.py`): the rule of VideoChat-R1.
pub use crate::videochat_r1::interval;

/// Frames of a video that are sampled from (`_read_video_decord_w_timestamp`): the length, computed to seconds and back,
/// is cut off, by which some frame rates lose the last frame.
pub fn frames_read(frames: usize, rate: f64) -> usize {
    let length = frames as f64 / rate;
    frames.min((length * rate) as usize).max(1)
}

/// The letter that a reply is scored by: the last capital in parentheses, else its first character
/// (`mcq_is_correct`). `None` for an empty reply, at which the release raises.
pub fn letter(reply: &str) -> Option<char> {
    static CHOICE: LazyLock<Regex> = LazyLock::new(|| literal_regex(r"\(([A-Z])\)"));
    let last = CHOICE.find_iter(reply).last();
    last.map_or(reply, |found| &found.as_str()[1..]).chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_frames() {
        assert_eq!((letter("(A) or (B)"), letter("Cat"), letter("")), (Some('B'), Some('C'), None));
        assert_eq!((frames_read(100, 24.5), frames_read(101, 24.5)), (100, 100));
    }
}
