//! What a turn of the model is, for the environment and for the verifier, which read it differently.

use std::sync::LazyLock;

use regex::Regex;

use crate::python::{literal_regex, strip};

/// What the environment takes a turn for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// An answer ends the episode; code beside it does not run.
    Answer(String),
    /// Code to run.
    Code(String),
    /// An error.
    Neither,
}

/// Characters from which on the verifier gives no reward for an answer (`utils/reward_score/multi_task_verifier.py:483`).
pub const MAX_ANSWER_CHARS: usize = 1000;

static ANSWER: LazyLock<Regex> = LazyLock::new(|| environments(r"(?s)<answer>(.*?)</answer>"));
static CODE: LazyLock<Regex> =
    LazyLock::new(|| environments(r"(?s)<code>\s*```python\s*(.*?)\s*```\s*</code>"));
static FENCE: LazyLock<Regex> = LazyLock::new(|| environments(r"(?s)```python\s*(.*?)\s*```"));
static BOXED: LazyLock<Regex> = LazyLock::new(|| literal_regex(r"(?s)<answer>\n\\boxed\{(.*?)\}\n</answer>"));

/// A pattern of the environment, which uses the module `regex`: its white space is Unicode's, as here, and not that of
/// `re`.
fn environments(pattern: &str) -> Regex {
    Regex::new(pattern).expect("literal pattern")
}

fn last(pattern: &Regex, text: &str) -> Option<String> {
    pattern.captures_iter(text).last().map(|found| found[1].to_owned())
}

/// The last answer that is not empty, else the last block of code, else the last fence
/// (`workers/agent/envs/agents_x/safe_persis_python_exe_tool_wo_video_hint.py:298`).
pub fn action(turn: &str) -> Action {
    let some = |text: &String| !text.is_empty();
    if let Some(answer) = last(&ANSWER, turn).filter(some) {
        return Action::Answer(answer);
    }
    let code = last(&CODE, turn).or_else(|| last(&FENCE, turn));
    code.filter(some).map_or(Action::Neither, Action::Code)
}

/// The release's one look at code (the same file, line 264): calls of `input`, `os.system` and `subprocess`, and names
/// that end so.
pub fn is_forbidden(code: &str) -> bool {
    ["input(", "os.system(", "subprocess("].iter().any(|call| code.contains(call))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_before_code_and_the_last_block_counts() {
        let code = "<code>\n```python\na\n```\n</code>";
        assert_eq!(action(&format!("{code}<answer>B</answer>")), Action::Answer("B".into()));
        assert_eq!(action(&format!("{code}<answer></answer>")), Action::Code("a".into()));
        assert_eq!(
            action("```python\nx\n``` <code>```python\ny```</code> ```python\nz\n```"),
            Action::Code("y".into())
        );
        assert_eq!(action("```python\nx\n``` ```python\nz\n```"), Action::Code("z".into()));
        assert_eq!(action("<code>```python\n```</code>"), Action::Neither);
        assert_eq!(action("no"), Action::Neither);
    }

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
}
