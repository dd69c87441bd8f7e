//! Scores of groups of four questions (Video-MME-v2, arXiv:2604.05015; MME-Benchmarks/Video-MME-v2 b24176a
//! `evaluation/test_video_mme_v2.py`): a right answer counts for more where those that belong to it are right, too.

use std::str::FromStr;

/// Questions of a group.
pub const SIZE: usize = 4;

/// How the questions of a group belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Structure {
    /// Any of them: a quarter of them right is a sixteenth of the score.
    Relevance,
    /// Each rests on all before it.
    Chain,
    /// The second and third rest on the first, the last on both: `[1, [2, 3], 4]`.
    Middle,
    /// The third rests on the first two, the last on the third: `[[1, 2], 3, 4]`.
    Start,
}

impl Structure {
    /// The structure of a row's type and structure as published.
    ///
    /// # Errors
    /// Neither `relevance` nor `logic` with one of the three published structures; what is expected.
    pub fn read(rule: &str, structure: &str) -> Result<Self, String> {
        match rule {
            "relevance" => Ok(Self::Relevance),
            "logic" => structure.parse(),
            _ => Err(format!("expected `relevance` or `logic`, found `{rule}`")),
        }
    }
}

impl FromStr for Structure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_whitespace().collect::<String>().as_str() {
            "[1,2,3,4]" => Ok(Self::Chain),
            "[1,[2,3],4]" => Ok(Self::Middle),
            "[[1,2],3,4]" => Ok(Self::Start),
            _ => {
                Err(format!("expected `[1, 2, 3, 4]`, `[1, [2, 3], 4]` or `[[1, 2], 3, 4]`, found `{text}`"))
            }
        }
    }
}

/// Score of a group in percent, of which answers are right, by their place.
///
/// ```
/// use paravt_suite::scoring::group::{Structure, score};
///
/// assert_eq!(score(Structure::Relevance, [false, true, true, true]), 56.25);
/// assert_eq!(score(Structure::Chain, [false, true, true, true]), 0.0);
/// assert_eq!(score("[1, [2, 3], 4]".parse().unwrap(), [true, false, true, true]), 100.0 * 4.0 / 12.0);
/// ```
pub fn score(structure: Structure, right: [bool; SIZE]) -> f64 {
    let prefix = right.iter().take_while(|right| **right).count();
    let (steps, reached) = match structure {
        Structure::Relevance => ([1.0, 4.0, 9.0, 16.0], right.iter().filter(|right| **right).count()),
        Structure::Chain => ([1.0, 4.0, 9.0, 16.0], prefix),
        // One of two that stand side by side is as good as the other, and neither leads on alone.
        Structure::Middle => ([1.0, 4.0, 7.0, 12.0], prefix + usize::from(prefix == 1 && right[2])),
        Structure::Start => ([1.0, 2.0, 5.0, 10.0], prefix + usize::from(prefix == 0 && right[1])),
    };
    let whole = steps[SIZE - 1];
    reached.checked_sub(1).map_or(0.0, |last| 100.0 * steps[last] / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_side_by_side_counts_and_leads_no_further() {
        let scored = |structure: &str, right: [u8; SIZE]| {
            score(structure.parse().unwrap(), right.map(|right| right == 1))
        };
        for (structure, right, expected) in [
            ("[1, [2, 3], 4]", [1, 0, 1, 1], 100.0 * 4.0 / 12.0),
            ("[1, [2, 3], 4]", [1, 1, 0, 1], 100.0 * 4.0 / 12.0),
            ("[1, [2, 3], 4]", [0, 1, 1, 1], 0.0),
            ("[1,[2,3],4]", [1, 1, 1, 0], 100.0 * 7.0 / 12.0),
            ("[[1, 2], 3, 4]", [0, 1, 1, 1], 10.0),
            ("[[1, 2], 3, 4]", [1, 0, 1, 1], 10.0),
            ("[[1, 2], 3, 4]", [1, 1, 1, 0], 50.0),
            ("[1, 2, 3, 4]", [1, 1, 1, 1], 100.0),
        ] {
            assert_eq!(scored(structure, right), expected, "{structure} {right:?}");
        }
        assert!(Structure::read("logic", "[1, 2]").unwrap_err().contains("found `[1, 2]`"));
        assert_eq!(Structure::read("relevance", "None"), Ok(Structure::Relevance));
        assert!(Structure::read("", "").is_err());
    }
}
