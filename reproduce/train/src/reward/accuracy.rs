//! Accuracy by question type (`paravt/rl/rewards/task_metrics.py`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use paravt_python::{float, literal_regex, standalone, strip};
use paravt_suite::scoring::strict::{self, Options};
use paravt_upstream::paravt::REFERENCE;
use regex::Regex;

use super::text::normalize;
use super::{AnswerMode, NotANumber, QuestionType, RewardConfig};

/// `_compute_acc_reward`.
pub(super) fn accuracy(
    solution: &str,
    answer: &str,
    question: QuestionType,
    config: &RewardConfig,
) -> Result<f64, NotANumber> {
    if solution.is_empty() || answer.is_empty() {
        return Ok(0.0);
    }
    if config.strict {
        return Ok(strict_accuracy(solution, answer, question, config));
    }
    if normalize(solution) == normalize(answer) {
        return Ok(1.0);
    }
    match question {
        QuestionType::Mcq => Ok(mcq_accuracy(solution, answer)),
        QuestionType::Tvg => temporal_iou(solution, answer),
        QuestionType::Oe if config.answer_mode == AnswerMode::Exact => Ok(0.0),
        QuestionType::Oe => Ok(f1(solution, answer)),
    }
}

/// Each question type by its own comparison alone: no fast path that drops articles and points.
fn strict_accuracy(solution: &str, answer: &str, question: QuestionType, config: &RewardConfig) -> f64 {
    match question {
        QuestionType::Mcq => {
            let options = Options::new(&('A'..='Z').collect::<String>(), &[]);
            let tagged = format!("<answer>{solution}</answer>");
            let found = strict::letter(&tagged, &options, REFERENCE.syntax.tags());
            let gold = answer.trim().trim_matches(['(', ')', '.']).to_uppercase();
            f64::from(u8::from(found.is_some_and(|(letter, _)| gold == letter.to_string())))
        }
        QuestionType::Tvg => temporal_iou(solution, answer).unwrap_or(0.0),
        QuestionType::Oe if normalize(solution) == normalize(answer) && !normalize(answer).is_empty() => 1.0,
        QuestionType::Oe if config.answer_mode == AnswerMode::Exact => 0.0,
        QuestionType::Oe => multiset_f1(solution, answer),
    }
}

/// `compute_f1`: overlap as a set over token counts.
pub fn f1(prediction: &str, truth: &str) -> f64 {
    let (prediction, truth) = (normalize(prediction), normalize(truth));
    let words = |text: &str| text.split(' ').filter(|word| !word.is_empty()).count();
    let set = |text: &str| {
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let common = set(&prediction).intersection(&set(&truth)).count();
    harmonic(common, words(&prediction), words(&truth))
}

fn harmonic(common: usize, predicted: usize, wanted: usize) -> f64 {
    if common == 0 {
        return 0.0;
    }
    let (precision, recall) = (common as f64 / predicted as f64, common as f64 / wanted as f64);
    2.0 * precision * recall / (precision + recall)
}

/// Token F1 with multiplicity, as SQuAD has it.
fn multiset_f1(prediction: &str, truth: &str) -> f64 {
    let (prediction, truth) = (normalize(prediction), normalize(truth));
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for word in truth.split_whitespace() {
        *left.entry(word).or_default() += 1;
    }
    let mut common = 0;
    for word in prediction.split_whitespace() {
        if let Some(count) = left.get_mut(word).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    harmonic(common, prediction.split_whitespace().count(), truth.split_whitespace().count())
}

/// `compute_temporal_iou`: the first two numbers with a comma between them on each side.
///
/// # Errors
/// Something like `1.2.3`, which the pattern takes and `float` does not.
pub fn temporal_iou(prediction: &str, truth: &str) -> Result<f64, NotANumber> {
    let (Some((start, end)), Some((from, to))) = (range(prediction)?, range(truth)?) else { return Ok(0.0) };
    if end <= start || to <= from {
        return Ok(0.0);
    }
    let intersection = (end.min(to) - start.max(from)).max(0.0);
    let union = (end - start) + (to - from) - intersection;
    Ok(if union > 0.0 { intersection / union } else { 0.0 })
}

fn range(text: &str) -> Result<Option<(f64, f64)>, NotANumber> {
    static RANGE: LazyLock<Regex> = LazyLock::new(|| literal_regex(r"\[?\s*([\d.]+)\s*,\s*([\d.]+)\s*\]?"));
    let Some(found) = RANGE.captures(text) else { return Ok(None) };
    let number = |group: usize| {
        let text = found.get(group).map_or("", |found| found.as_str());
        float(text).ok_or_else(|| NotANumber(text.to_owned()))
    };
    Ok(Some((number(1)?, number(2)?)))
}

const CHOICES: std::ops::RangeInclusive<char> = 'A'..='D';

/// `compute_mcq_acc`: any of upstream's patterns whose first match is the gold letter, A to D only.
pub fn mcq_accuracy(prediction: &str, truth: &str) -> f64 {
    let gold = strip(truth).to_uppercase();
    let mut characters = gold.chars();
    let (Some(gold), None) = (characters.next(), characters.next()) else { return 0.0 };
    if !CHOICES.contains(&gold) {
        return 0.0;
    }
    let prediction = strip(prediction);
    let right = prediction.to_uppercase() == gold.to_string()
        || patterns().any(|found| found(prediction) == Some(gold));
    f64::from(u8::from(right))
}

/// The first match's letter, for each pattern.
fn patterns() -> impl Iterator<Item = fn(&str) -> Option<char>> {
    [whole, after_the_answer_is, after_option, leading, |text: &str| {
        standalone(text, |c| CHOICES.contains(&c))
    }]
    .into_iter()
}

fn letter(c: Option<char>) -> Option<char> {
    c.filter(|c| CHOICES.contains(c))
}

/// `^\(?([A-D])\)?$`
fn whole(text: &str) -> Option<char> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let inside = text.strip_prefix('(').unwrap_or(text);
    let inside = inside.strip_suffix(')').unwrap_or(inside);
    let mut characters = inside.chars();
    letter(characters.next()).filter(|_| characters.next().is_none())
}

/// `^([A-D])[.):]`
fn leading(text: &str) -> Option<char> {
    let mut characters = text.chars();
    letter(characters.next()).filter(|_| matches!(characters.next(), Some('.' | ')' | ':')))
}

/// `[Tt]he answer is\s*\(?([A-D])\)?`
fn after_the_answer_is(text: &str) -> Option<char> {
    after(text, "he answer is", 'T')
}

/// `[Oo]ption\s*\(?([A-D])\)?`
fn after_option(text: &str) -> Option<char> {
    after(text, "ption", 'O')
}

/// The first place where `phrase`, its first letter in either case, is followed by a letter.
fn after(text: &str, phrase: &str, first: char) -> Option<char> {
    text.match_indices(phrase).find_map(|(at, _)| {
        let before = text[..at].chars().next_back()?;
        if before != first && before != first.to_ascii_lowercase() {
            return None;
        }
        let rest = text[at + phrase.len()..].trim_start_matches(paravt_python::is_space);
        letter(rest.strip_prefix('(').unwrap_or(rest).chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn accuracies_stay_between_0_and_1(a in ".{0,60}", b in ".{0,60}") {
            for value in [f1(&a, &b), mcq_accuracy(&a, &b), temporal_iou(&a, &b).unwrap_or(0.0)] {
                prop_assert!((0.0..=1.0).contains(&value));
            }
        }
    }
}
