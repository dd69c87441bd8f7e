//! Video-R1 (tulerfeng/Video-R1 59d65c3) and VideoRFT (QiWang98/VideoRFT bba6099): the question's text and the score.
//!
//! Both have the same `src/eval_bench.py` but for what stands between a question and its options.

use paravt_python::{float, strip};
use paravt_suite::text::between;

/// What Video-R1 writes between a question and its options.
pub const VIDEO_R1_OPTIONS: &str = "Options:\n";
/// What VideoRFT writes there.
pub const VIDEO_RFT_OPTIONS: &str = "\n";

/// The text of a user's turn: the question and one option a line within `template` (slot `{Question}`), then the words
/// for its kind of answer, `kind`. Without options the question stands alone.
pub fn prompt(template: &str, kind: &str, question: &str, options: Option<(&str, &[&str])>) -> String {
    let mut text = question.to_owned();
    if let Some((between, options)) = options {
        text.push_str(between);
        for option in options {
            text.push_str(option);
            text.push('\n');
        }
    }
    template.replace("{Question}", &text) + kind
}

/// The text of the first `<answer>` (`extract_answer`); the whole reply where there is none or it is empty.
pub fn answer(reply: &str) -> &str {
    match tagged(reply) {
        "" => reply,
        answer => answer,
    }
}

fn tagged(text: &str) -> &str {
    between(text, "<answer>", "</answer>").next().map_or("", strip)
}

/// Kinds of questions that are scored by rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `multiple choice`: the same text.
    Choice,
    /// `numerical`: equal to two decimals, and both with or both without a point or comma.
    Numerical,
    /// `regression`: mean relative accuracy.
    Regression,
}

/// Score of a reply between 0 and 1 (`reward_fn`). `solution` holds the gold answer in `<answer>` tags.
pub fn score(kind: Kind, reply: &str, solution: &str) -> f64 {
    let (found, gold) = (strip(answer(reply)), tagged(solution));
    let right = match kind {
        Kind::Choice => found == gold,
        Kind::Numerical => {
            let has_point = |text: &str| text.contains(['.', ',']);
            let cents = |text: &str| number(text).map(|value| format!("{value:.2}").parse::<f64>());
            match (cents(found), cents(gold)) {
                (Some(Ok(a)), Some(Ok(b))) => has_point(found) == has_point(gold) && a == b,
                _ => false,
            }
        }
        Kind::Regression => {
            let values = number(found).zip(number(gold));
            return values.map_or(0.0, |(found, gold)| mean_relative_accuracy(found, gold));
        }
    };
    f64::from(u8::from(right))
}

/// `normalize_number`.
fn number(text: &str) -> Option<f64> {
    float(&text.replace(',', ""))
}

/// `mean_relative_accuracy`: the share of the thresholds 0.5, 0.55, …, 0.95 for which the relative error is below what
/// they leave of 1. In single precision as torch has it, the result too.
pub fn mean_relative_accuracy(predicted: f64, target: f64) -> f64 {
    let (predicted, target) = (predicted as f32, target as f32);
    let error = (predicted - target).abs() / (target.abs() + 1e-8);
    let below = (0..10).filter(|index| error < 1.0 - (0.5 + 0.05 * f64::from(*index)) as f32).count();
    f64::from(below as f32 / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts() {
        let options = ["A. one", "B. two"];
        let text = |between| prompt("{Question}\nThink.", " Letter.", "Why?", Some((between, &options[..])));
        assert_eq!(text(VIDEO_R1_OPTIONS), "Why?Options:\nA. one\nB. two\n\nThink. Letter.");
        assert_eq!(text(VIDEO_RFT_OPTIONS), "Why?\nA. one\nB. two\n\nThink. Letter.");
        assert_eq!(prompt("{Question}!", "", "Why?", None), "Why?!");
    }

    #[test]
    fn scores() {
        for (kind, reply, gold, value) in [
            (Kind::Choice, "<answer> B </answer>", "B", 1.0),
            (Kind::Choice, "B", "B", 1.0),
            (Kind::Choice, "<answer>B. two</answer>", "B", 0.0),
            (Kind::Numerical, "<answer>1,000.004</answer>", "1000.00", 1.0),
            (Kind::Numerical, "<answer>3</answer>", "3.0", 0.0),
            (Kind::Numerical, "<answer>nan</answer>", "nan", 0.0),
            (Kind::Regression, "<answer>three</answer>", "3", 0.0),
            (Kind::Regression, "<answer>9</answer>", "10", f64::from(0.9_f32)),
            (Kind::Regression, "<answer>10</answer>", "10", 1.0),
            (Kind::Regression, "<answer>1</answer>", "0", 0.0),
        ] {
            assert_eq!(score(kind, reply, &format!("<answer>{gold}</answer>")), value, "{reply} {gold}");
        }
    }
}
