//! The PyVision-RL strategy: which rollouts a step trains on (arXiv 2602.20739).
//!
//! Prompts are rolled out in generation batches until enough rollouts survive the filters; then those
//! of the prompts whose rewards spread most are kept. Advantages come from the full groups, before
//! filtering, and are not computed again. Source tags: RT is `trainer/ppo/ray_trainer.py`, FF
//! `trainer/ppo/filter_fn_utils.py`, CA `trainer/ppo/core_algos.py`, RM
//! `workers/reward_manager/naive.py` of PyVision-RL `62ca599`, README its README.

mod filter;
mod pool;

use serde::{Deserialize, Serialize};

pub use filter::{Spread, Verdict, filter, spreads};
pub use pool::{Pool, Short};

/// Why a rollout ended, under upstream's names (`parallel_env.py:20-29`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EndReason {
    Done,
    /// The context or the tokens of the response ran out.
    OverLength,
    /// The last turn was taken without an answer.
    ExceedMaxTurns,
    /// Too many images in the context.
    #[serde(rename = "EXCEED_MAX_IMAGE_NUM_32")]
    ExceedMaxImageNum32,
    /// A call that failed, a turn without a call and an answer, or one that was cut at its token limit
    /// (`parallel_env.py:575-583`).
    ErrorInAction,
}

/// A rule that drops rollouts. They apply in this order, whatever the order of the list (FF:375-396).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// Drops groups whose rewards do not spread (FF:16-65).
    SeqReward,
    /// Drops rollouts in whose context no image of a tool came (FF:67-85).
    Hasimage,
    /// Drops rollouts whose vision tokens and images do not match in number (FF:155-173).
    VtokenImagesNumConsis,
    /// Drops rollouts that are too long (FF:87-105).
    Trajlength,
    /// Drops rollouts that ended for another reason than the listed ones (FF:175-222).
    EndReason,
    /// Drops right answers with a negative advantage (FF:259-306); not in the README's list.
    PosSampleNegAdv,
}

/// Unit of ranking and selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Rollouts, as the release: `train_batch_size * n` of them, so the last group may be split.
    Rollouts,
    /// Prompts with their surviving rollouts, as the paper tells it: `train_batch_size` of them.
    Groups,
}

/// Knobs of the strategy. Defaults are those of [`Self::readme`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Strategy {
    /// Prompts of a generation batch. 32 (README; RT:519).
    pub gen_batch_size: usize,
    /// Video prompts of a generation batch that are rolled out; the others of the batch are dropped
    /// (every prompt here is about a video). 16 (README; RT:1178-1249).
    pub max_video_gen_batch_size: usize,
    /// Prompts of a step. 64 (README); the paper has 16.
    pub train_batch_size: usize,
    /// Prompts of an optimiser step. 16 (README).
    pub ppo_mini_batch_size: usize,
    /// Rollouts of a prompt. 8 (README 195).
    pub n: usize,
    /// Generation batches after which a step that is still short fails. 0 (`ppo_trainer.yaml:219`), which is no bound
    /// upstream and 100 here.
    pub max_num_gen_batches: usize,
    /// Rules that drop rollouts. All but the last one (README); none means one generation batch for
    /// each step, short or not (RT:1947).
    pub filters: Vec<Filter>,
    /// Standard deviation (N) up to which the rewards of a group do not spread, in units of reward.
    /// 1e-6: upstream compares with 0, where sums of 0.1 in f32 may differ by their last bit.
    pub spread_tolerance: f64,
    /// Tokens, prompt included, of the longest rollout that is kept. 128,000 (FF:87).
    pub max_trajlength: usize,
    /// Reasons to end that are kept. Done, turns exceeded, error in action (README 188).
    pub end_reason_filter_reserve_names: Vec<EndReason>,
    /// Whether the surplus is cut by rank of the standard deviation rather than by arrival. True
    /// (README; RT:1950-1977).
    pub std_sort_enable: bool,
    /// What is ranked and cut. `rollouts` (RT:1950-1974); `groups` in the paper.
    pub unit: Unit,
    /// Accuracy from which an answer is right. 0.5, that of a graded answer
    /// (`rule_match_verify.py:90-94`); a judged one has 0 or 1. The release grades numbers alone, by their
    /// mean relative accuracy; IoU and F1 are read here as it reads that.
    pub right_accuracy: f64,
    /// Reward of a turn that executed a call, however many it has, where the answer is right. 0.1
    /// (README 198).
    pub tool_using_cumulative_reward_per_turn: f64,
}

impl Default for Strategy {
    fn default() -> Self {
        Self::readme()
    }
}

impl Strategy {
    /// The values of the README, the release's order of things.
    pub fn readme() -> Self {
        use Filter::{EndReason as ByEnd, Hasimage, SeqReward, Trajlength, VtokenImagesNumConsis};
        Self {
            gen_batch_size: 32,
            max_video_gen_batch_size: 16,
            train_batch_size: 64,
            ppo_mini_batch_size: 16,
            n: 8,
            max_num_gen_batches: 0,
            filters: vec![SeqReward, Hasimage, VtokenImagesNumConsis, Trajlength, ByEnd],
            spread_tolerance: 1e-6,
            max_trajlength: 128_000,
            end_reason_filter_reserve_names: vec![
                EndReason::Done,
                EndReason::ExceedMaxTurns,
                EndReason::ErrorInAction,
            ],
            std_sort_enable: true,
            unit: Unit::Rollouts,
            right_accuracy: 0.5,
            tool_using_cumulative_reward_per_turn: 0.1,
        }
    }

    /// The paper's sizes, and groups that are kept or dropped whole.
    pub fn paper() -> Self {
        Self { train_batch_size: 16, unit: Unit::Groups, ..Self::readme() }
    }

    /// Whether an answer of this accuracy is right.
    pub fn is_right(&self, accuracy: f64) -> bool {
        accuracy >= self.right_accuracy
    }

    /// Reward of a rollout (RM:46-134; Eq. 1 of the paper): accuracy, and for a right answer as much
    /// again for every turn that executed a call, without cap or decay. What the turns of a wrong answer
    /// earned is dropped.
    pub fn reward(&self, accuracy: f64, tool_turns: usize) -> f64 {
        let tools = self.tool_using_cumulative_reward_per_turn * tool_turns as f64;
        if self.is_right(accuracy) { accuracy + tools } else { accuracy }
    }
}

/// A rollout for the strategy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rollout {
    /// The same for all samples of one prompt.
    pub group: usize,
    /// As [`Strategy::reward`].
    pub reward: f64,
    pub is_answer_right: bool,
    /// Mean advantage of its trained tokens, from the full group.
    pub advantage: f64,
    /// Whether an image that a tool produced came into the context; the images of the prompt do not
    /// count (`parallel_env.py:334-338`).
    pub hasimage: bool,
    /// Whether its vision tokens are as many as its images.
    pub vision_consistent: bool,
    /// Tokens, prompt included.
    pub trajlength: usize,
    pub end_reason: EndReason,
}

#[cfg(test)]
mod tests_support {
    use super::{EndReason, Rollout};

    /// One that no rule of its own drops.
    pub(super) fn rollout(group: usize, reward: f64) -> Rollout {
        Rollout {
            group,
            reward,
            is_answer_right: reward > 0.0,
            advantage: 0.0,
            hasimage: true,
            vision_consistent: true,
            trajlength: 100,
            end_reason: EndReason::Done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_pay_where_the_answer_is_right() {
        let strategy = Strategy::readme();
        let near = |one: f64, other: f64| assert!((one - other).abs() < 1e-12, "{one} {other}");
        near(strategy.reward(1.0, 4), 1.4);
        near(strategy.reward(1.0, 0), 1.0);
        near(strategy.reward(0.0, 4), 0.0);
        // Mean relative accuracies of 1.25 and 1.3 where 1 is right: the first is right, the second nearly.
        near(strategy.reward(0.5, 2), 0.7);
        near(strategy.reward(0.4, 2), 0.4);
        assert_eq!(Strategy { right_accuracy: 0.0, ..strategy }.reward(0.0, 4), 0.4);
    }

    #[test]
    fn names_are_upstreams() {
        let strategy: Strategy = serde_json::from_str(
            r#"{"filters": ["vtoken_images_num_consis", "pos_sample_neg_adv", "seq_reward", "end_reason"],
                "end_reason_filter_reserve_names": ["DONE", "EXCEED_MAX_IMAGE_NUM_32", "ERROR_IN_ACTION"]}"#,
        )
        .unwrap();
        assert_eq!(strategy.filters.len(), 4);
        assert_eq!(strategy.end_reason_filter_reserve_names[1], EndReason::ExceedMaxImageNum32);
        assert_eq!(strategy.n, 8);
    }
}
