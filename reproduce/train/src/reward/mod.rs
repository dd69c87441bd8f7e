//! Rewards: accuracy, format with Exploration Anchoring, graded tool use, and their composition
//! (`paravt/rl/rewards`). [`RewardConfig::strict`] corrects the upstream's named defects.

mod accuracy;
mod format;
mod text;

use std::collections::BTreeMap;

use paravt_python::float;
use paravt_upstream::paravt::toolcall::has_parseable_tool_call;
use serde::{Deserialize, Serialize};

pub use accuracy::{f1, mcq_accuracy, temporal_iou};
pub use format::format_reward;
pub use text::{extract_answer, has_substantive_think, normalize, think_before_tool};

/// A completion that upstream raises on: `float()` of something like `1.2.3`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not convert string to float: '{0}'")]
pub struct NotANumber(pub String);

/// Comparison of open-ended answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerMode {
    /// Token F1: the recipes' choice, upstream's reading of an unknown mode, and what its `llm` mode
    /// falls back to without a judge (there is none here).
    F1,
    /// Normalised equality only.
    Exact,
}

/// Knobs of the reward. Upstream reads them from environment variables of the same names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewardConfig {
    /// `ANSWER_SUFFIX`: answer tags carry more of the format reward than the think block.
    pub answer_suffix: bool,
    /// `ANCHOR_WEIGHT`: weight of the bonus for a closed think block and a full flow; 0 is off.
    pub anchor_weight: f64,
    /// `FORMAT_WEIGHT`: weight of the format reward in the total.
    pub format_weight: f64,
    /// Weight of the tool reward in the total: 1 in the release, which has no knob for it.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub tool_weight: f64,
    /// `REWARD_MODE`: how open-ended answers are compared.
    pub answer_mode: AnswerMode,
    /// Corrected semantics: articles are kept when a single letter is compared, numbers keep their
    /// points in the fast path, malformed numbers are no answer, F1 counts tokens with their
    /// multiplicity, option letters reach beyond D, and the format reward is never negative.
    #[serde(default)]
    pub strict: bool,
}

impl RewardConfig {
    /// The PARA-GRPO recipe (`paragrpo_8b.yaml`).
    pub fn paragrpo() -> Self {
        Self { answer_suffix: true, anchor_weight: 0.5, ..Self::vanilla() }
    }

    /// The plain GRPO recipe.
    pub fn vanilla() -> Self {
        Self {
            answer_suffix: false,
            anchor_weight: 0.0,
            format_weight: 1.0,
            tool_weight: 1.0,
            answer_mode: AnswerMode::F1,
            strict: false,
        }
    }

    /// As upstream reads its environment: flags are true only for `1`; numbers that are empty or
    /// not readable take the default; an unset format weight is 0.5.
    pub fn from_env(env: &BTreeMap<String, String>) -> Self {
        let text = |name: &str| env.get(name).map(String::as_str).unwrap_or_default();
        let number = |name: &str, default: f64| match text(name) {
            "" => default,
            text => float(text).unwrap_or(default),
        };
        Self {
            answer_suffix: text("ANSWER_SUFFIX") == "1",
            anchor_weight: number("ANCHOR_WEIGHT", 0.0),
            format_weight: number("FORMAT_WEIGHT", 0.5),
            tool_weight: 1.0,
            answer_mode: if text("REWARD_MODE") == "exact" { AnswerMode::Exact } else { AnswerMode::F1 },
            strict: false,
        }
    }

    /// The same knobs with corrected semantics.
    #[must_use]
    pub fn strict(self) -> Self {
        Self { strict: true, ..self }
    }
}

fn one() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_one(weight: &f64) -> bool {
    *weight == one()
}

/// Kind of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionType {
    /// Multiple choice (`mcq`).
    Mcq,
    /// Temporal grounding (`tvg`).
    Tvg,
    /// Open-ended (`oe`, and anything else).
    Oe,
}

impl QuestionType {
    /// From the data set's column.
    pub fn from_name(name: &str) -> Self {
        match name {
            "mcq" => Self::Mcq,
            "tvg" => Self::Tvg,
            _ => Self::Oe,
        }
    }
}

/// A reward and its parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Reward {
    /// Accuracy, plus weighted format, plus tool.
    pub total: f64,
    pub accuracy: f64,
    /// Up to 1; below 0 for an unclosed think block under a large anchor weight.
    pub format: f64,
    pub tool: f64,
}

/// `compute_tool_reward`: a call, an executed call, and either of them with a right answer.
pub fn tool_reward(completion: &str, accuracy: f64) -> f64 {
    if !has_parseable_tool_call(completion) {
        return 0.0;
    }
    let mut reward: f64 = if completion.contains("<tool_response>") { 0.3 } else { 0.1 };
    if accuracy > 0.0 {
        reward += 0.5;
    }
    reward.min(1.0)
}

/// Spam of turn markers that gets nothing (`compose_reward`).
fn is_degenerate(completion: &str) -> bool {
    completion.matches("<|im_start|>").count() >= 5 && completion.chars().count() < 300
}

/// `compose_reward`.
///
/// # Errors
/// Where upstream raises: a grounding answer with a malformed number (not under `strict`).
pub fn compose(
    completion: &str,
    answer: &str,
    question: QuestionType,
    config: &RewardConfig,
) -> Result<Reward, NotANumber> {
    if is_degenerate(completion) {
        return Ok(Reward::default());
    }
    let solution = extract_answer(completion);
    let accuracy = accuracy::accuracy(&solution, answer, question, config)?;
    let format = format_reward(completion, config);
    let tool = tool_reward(completion, accuracy);
    let total = accuracy + config.format_weight * format + config.tool_weight * tool;
    Ok(Reward { total, accuracy, format, tool })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_environment_is_read_as_upstream_reads_it() {
        let config = |pairs: &[(&str, &str)]| {
            let env = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            RewardConfig::from_env(&env)
        };
        let unset = config(&[]);
        assert_eq!((unset.answer_suffix, unset.anchor_weight, unset.format_weight), (false, 0.0, 0.5));
        for (text, weight) in [("", 0.5), ("abc", 0.5), ("0", 0.0), (" 2 ", 2.0), ("1_0", 10.0), ("-1", -1.0)]
        {
            assert_eq!(config(&[("FORMAT_WEIGHT", text)]).format_weight, weight, "{text:?}");
        }
        for (text, on) in [("1", true), ("true", false), ("1 ", false), ("", false), ("0", false)] {
            assert_eq!(config(&[("ANSWER_SUFFIX", text)]).answer_suffix, on, "{text:?}");
        }
        for (text, mode) in [("exact", AnswerMode::Exact), ("Exact", AnswerMode::F1), ("", AnswerMode::F1)] {
            assert_eq!(config(&[("REWARD_MODE", text)]).answer_mode, mode, "{text:?}");
        }
        let recipe = [("THINK_PREFIX", "1"), ("ANSWER_SUFFIX", "1"), ("NFRAMES_GATING", "1")];
        let weights = [("ANCHOR_WEIGHT", "0.5"), ("REWARD_MODE", "f1"), ("FORMAT_WEIGHT", "1.0")];
        assert_eq!(config(&[&recipe[..], &weights[..]].concat()), RewardConfig::paragrpo());
    }

    #[test]
    fn weights_that_are_nan_stay_nan_as_in_python() {
        let config = RewardConfig { anchor_weight: f64::INFINITY, ..RewardConfig::vanilla() };
        assert!(format_reward("no think block", &config).is_nan(), "infinity times nothing");
    }

    proptest! {
        #[test]
        fn every_completion_has_a_reward(
            text in "(<think>|</think>|<answer>|</answer>|<tool_call>|[{}\":, 0-9a-eA-E.]){0,30}",
            answer in ".{0,8}",
        ) {
            for config in [RewardConfig::paragrpo(), RewardConfig::vanilla().strict()] {
                for question in [QuestionType::Mcq, QuestionType::Tvg, QuestionType::Oe] {
                    let Ok(reward) = compose(&text, &answer, question, &config) else { continue };
                    prop_assert!((0.0..=1.0).contains(&reward.accuracy) && (0.0..=1.0).contains(&reward.tool));
                    prop_assert!(reward.format <= 1.0);
                }
            }
        }
    }

    #[test]
    fn strict_rewards_correct_those_of_the_release() {
        let release = RewardConfig::paragrpo();
        let strict = release.clone().strict();
        let accuracy = |text: &str, gold: &str, question, config: &RewardConfig| {
            compose(&format!("<answer>{text}</answer>"), gold, question, config).unwrap().accuracy
        };
        assert_eq!(accuracy("the", "A", QuestionType::Mcq, &release), 1.0, "the article is the letter");
        assert_eq!(accuracy("the", "A", QuestionType::Mcq, &strict), 0.0);
        assert_eq!(accuracy("a", "A", QuestionType::Mcq, &strict), 1.0);
        assert_eq!(accuracy("[100 200]", "[10.0, 20.0]", QuestionType::Tvg, &release), 1.0);
        assert_eq!(accuracy("[100 200]", "[10.0, 20.0]", QuestionType::Tvg, &strict), 0.0);
        assert_eq!(accuracy("(E)", "E", QuestionType::Mcq, &strict), 1.0);
        assert_eq!(accuracy("x x y", "x y y", QuestionType::Oe, &strict), 2.0 / 3.0);
        let malformed = "<answer>1.2.3, 4</answer>";
        assert!(compose(malformed, "[1, 4]", QuestionType::Tvg, &release).is_err());
        assert_eq!(compose(malformed, "[1, 4]", QuestionType::Tvg, &strict).unwrap().accuracy, 0.0);
        let unclosed = RewardConfig { anchor_weight: 2.0, ..RewardConfig::paragrpo() };
        let text = "<think>unclosed reasoning here";
        assert!(format_reward(text, &unclosed) < 0.0);
        assert_eq!(format_reward(text, &unclosed.strict()), 0.0);
    }
}
