//! Repeated samples as one row each.

use std::collections::HashMap;

use crate::frame::{Frame, Values};
use crate::statistics::mean;

/// Draws of one sample, in the order of their epochs, by the sample's name; samples in the order in which they come
/// first.
pub(crate) fn draws(frame: &Frame) -> Vec<(&str, Vec<usize>)> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut found: Vec<(&str, Vec<usize>)> = Vec::new();
    for (row, name) in frame.texts("sample").enumerate() {
        let name = name.unwrap_or_default();
        let place = *places.entry(name).or_insert_with(|| {
            found.push((name, Vec::new()));
            found.len() - 1
        });
        found[place].1.push(row);
    }
    found
}

/// The most frequent answer of several draws, of equally frequent ones the earliest; `None` without an answer.
pub(crate) fn majority<'a>(answers: &[Option<&'a str>]) -> Option<&'a str> {
    let votes = |answer: &str| answers.iter().flatten().filter(|other| **other == answer).count();
    let mut best: Option<(&str, usize)> = None;
    for answer in answers.iter().flatten() {
        let votes = votes(answer);
        if best.is_none_or(|(_, most)| votes > most) {
            best = Some((answer, votes));
        }
    }
    best.map(|(answer, _)| answer)
}

/// Columns of [`per_sample`].
const COLUMNS: [&str; 9] = [
    "sample", "video", "gold", "gold_text", "chosen", "score", "prompt_tokens", "completion_tokens",
    "seconds",
];

/// The samples of a run with one row each: means of scores, tokens and seconds over its draws, the option that most of
/// them chose, everything else of the first. A run without repetitions is returned as it is.
pub(crate) fn per_sample(frame: Frame) -> Frame {
    let frame = frame.select(&COLUMNS);
    let draws = draws(&frame);
    if draws.len() == frame.height() {
        return frame;
    }
    let first = |name: &str| {
        let all: Vec<Option<&str>> = frame.texts(name).collect();
        Values::Text(draws.iter().map(|(_, rows)| all[rows[0]].map(str::to_owned)).collect())
    };
    let mean = |all: &[Option<f64>], rows: &[usize]| mean(rows.iter().filter_map(|row| all[*row]));
    let reals = |name: &str| {
        let all: Vec<Option<f64>> = frame.reals(name).collect();
        Values::Real(draws.iter().map(|(_, rows)| mean(&all, rows)).collect())
    };
    let counts = |name: &str| {
        let all: Vec<Option<f64>> = frame.counts(name).map(|count| count.map(|count| count as f64)).collect();
        let rounded = |rows: &Vec<usize>| mean(&all, rows).map(|mean| mean.round() as u64);
        Values::Count(draws.iter().map(|(_, rows)| rounded(rows)).collect())
    };
    let chosen: Vec<Option<&str>> = frame.texts("chosen").collect();
    let most = |rows: &Vec<usize>| {
        majority(&rows.iter().map(|row| chosen[*row]).collect::<Vec<_>>()).map(str::to_owned)
    };
    let values = [
        first("sample"),
        first("video"),
        first("gold"),
        first("gold_text"),
        Values::Text(draws.iter().map(|(_, rows)| most(rows)).collect()),
        reals("score"),
        counts("prompt_tokens"),
        counts("completion_tokens"),
        reals("seconds"),
    ];
    Frame::new(COLUMNS.into_iter().zip(values).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_majority_is_the_earliest_of_the_most_frequent_answers() {
        assert_eq!(majority(&[Some("a"), Some("b"), Some("b")]), Some("b"));
        assert_eq!(majority(&[Some("b"), Some("a"), Some("a"), Some("b")]), Some("b"));
        assert_eq!(majority(&[None, None, Some("a")]), Some("a"));
        assert_eq!(majority(&[None]), None);
    }
}
