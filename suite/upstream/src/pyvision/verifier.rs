//! How the release judges a whole response, which it reads differently from its environment.

use paravt_python::{float, pattern, strip};

/// Characters from which on the verifier gives no reward for an answer (`utils/reward_score/multi_task_verifier.py:483`).
pub(crate) const MAX_ANSWER_CHARS: usize = 1000;

pattern! { BOXED = r"(?s)<answer>\n\\boxed\{(.*?)\}\n</answer>" }

/// The answer that the verifier hands to its judge, `None` where it gives no reward without one
/// (`utils/reward_score/multi_task_verifier.py:388`): the first box in answer tags with exactly these line ends, anywhere
/// in the response, observations included.
pub fn judged_answer(response: &str) -> Option<&str> {
    let count = |text: &str, tag| text.matches(tag).count();
    let visions =
        ["<|vision_start|><|image_pad|>", "<|image_pad|><|vision_end|>"].map(|tag| count(response, tag));
    let last_turn = response.rsplit("</interpreter>").next().unwrap_or_default();
    let answers = ["<answer>", "</answer>"].map(|tag| count(last_turn, tag));
    if visions[0] != visions[1] || answers[0] != answers[1] {
        return None;
    }
    let answer = strip(BOXED.captures(response)?.get(1)?.as_str());
    let nested = ["<interpreter>", "<answer>", "\\boxed"].iter().any(|tag| answer.contains(tag));
    (!nested).then_some(answer)
}

/// The score of an answer by the rule that the release has beside its judge (`utils/reward_score/rule_match_verify.py:43`):
/// the first capital letter, or mean relative accuracy of the first number.
pub fn rule_score(answer: &str, truth: &str) -> f64 {
    pattern! { LETTER = "[A-Z]" }
    let right = |is: bool| f64::from(u8::from(is));
    if strip(answer) == strip(truth) {
        return 1.0;
    }
    match first_number(truth) {
        Some(truth) => first_number(answer).map_or(0.0, |found| relative_accuracy(found, truth)),
        None => right(LETTER.find(answer).is_some_and(|found| found.as_str() == truth)),
    }
}

fn first_number(text: &str) -> Option<f64> {
    pattern! { NUMBER = r"[-+]?\p{Nd}*\.?\p{Nd}+" }
    float(NUMBER.find(text)?.as_str())
}

/// Unlike VSI-Bench's own, a prediction that is exactly as far away as a threshold allows does not count.
fn relative_accuracy(predicted: f64, target: f64) -> f64 {
    if target == 0.0 {
        return f64::from(u8::from(predicted == 0.0));
    }
    let distance = (predicted - target).abs() / target.abs();
    let hits = (0..10).filter(|step| distance < 1.0 - (0.5 + 0.05 * f64::from(*step))).count();
    hits as f64 / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_wants_exact_line_ends_and_takes_the_first() {
        let boxed = |text: &str| format!("<answer>\n\\boxed{{{text}}}\n</answer>");
        assert_eq!(judged_answer(&format!("{}{}", boxed(" A "), boxed("B"))), Some("A"));
        assert_eq!(judged_answer("<answer>\\boxed{A}</answer>"), None);
        assert_eq!(judged_answer(&boxed("\\text{A}")), Some("\\text{A}"));
        assert_eq!(judged_answer(&boxed("\\boxed{A}")), None);
        assert_eq!(judged_answer(&format!("</answer>{}", boxed("A"))), None);
        assert_eq!(judged_answer(&format!("</answer></interpreter>{}", boxed("A"))), Some("A"));
        assert_eq!(judged_answer(&format!("<|vision_start|><|image_pad|>{}", boxed("A"))), None);
    }

    #[test]
    fn numbers_are_judged_below_each_distance_and_letters_by_the_first_capital() {
        for (answer, value) in
            [("1.04", 1.0), ("1.05", 0.9), ("about 1.1 m", 0.8), ("1.5", 0.0), ("one", 0.0)]
        {
            assert_eq!(rule_score(answer, "1"), value, "{answer}");
        }
        for (answer, value) in [("B", 1.0), ("(B) left", 1.0), ("b", 0.0), ("The B", 0.0)] {
            assert_eq!(rule_score(answer, "B"), value, "{answer}");
        }
    }
}
