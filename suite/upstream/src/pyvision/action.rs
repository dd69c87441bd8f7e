//! What a turn of the model is for the environment. The verifier reads it differently: [`judged_answer`](super::judged_answer).

use std::sync::LazyLock;

use regex::Regex;

/// What the environment takes a turn for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// An answer ends the episode; code beside it does not run.
    Answer(String),
    Code(String),
    Neither,
}

static ANSWER: LazyLock<Regex> = LazyLock::new(|| environments(r"(?s)<answer>(.*?)</answer>"));
static CODE: LazyLock<Regex> =
    LazyLock::new(|| environments(r"(?s)<code>\s*```python\s*(.*?)\s*```\s*</code>"));
static FENCE: LazyLock<Regex> = LazyLock::new(|| environments(r"(?s)```python\s*(.*?)\s*```"));

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
}
