//! Objective settings of the published recipes.

use serde::{Deserialize, Serialize};

use super::strategy::Strategy;

/// Normalisation of rewards within the rollouts of one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupNorm {
    /// Minus the mean, by the unbiased standard deviation plus `norm_eps`. A prompt with a single
    /// sample gets 0.
    MeanStd,
    /// Minus the mean (PyVision-RL, `norm_adv_by_std_in_grpo=False`). A prompt with a single sample
    /// keeps its reward, as upstream.
    Mean,
}

/// Which position the reward of a sequence is added at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardPosition {
    /// The one that predicts the last token, as the release. Where that token was not generated (a
    /// rollout that ends in a tool response) the position is passed over and the reward is lost;
    /// [`super::Advantages::unrewarded`] counts these.
    PredictsLast,
    /// The last position that is trained, so every trained sequence is rewarded, as the formulas of
    /// the papers have it.
    LastTrained,
}

/// Divisor of the sum of token losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// The trained tokens of the whole batch: the split into micro-batches does not show.
    Tokens,
    /// The trained tokens of the micro-batch, and then by the number of micro-batches: tokens of a
    /// short micro-batch weigh more (verl `token-mean` as PyVision-RL runs it).
    MicroBatches,
}

/// Knobs of an objective. Defaults are those of the PARA-GRPO recipe (`_base.yaml`,
/// `paragrpo_8b.yaml`); names are AReaL's where it has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Knobs {
    /// Added to the reward, in units of reward. -0.2 (`_base.yaml`); PyVision-RL has none.
    pub reward_bias: f64,
    /// Factor after the bias. 10 (`_base.yaml`); PyVision-RL has none.
    pub reward_scaling: f64,
    /// Bound of the scaled reward on both sides. 20 (AReaL's default); PyVision-RL has none, and its
    /// rewards (at most 1.4) do not reach it.
    pub reward_clip: f64,
    /// Comparison within a prompt. `mean_std` (`_base.yaml`: group mean and std); `mean` in
    /// PyVision-RL.
    pub group_norm: GroupNorm,
    /// Added to standard deviations before dividing by them. 1e-5 (AReaL `Normalization`).
    pub norm_eps: f64,
    /// Weight of the KL term in the token rewards. 0.01 (`_base.yaml` `kl_ctl`); 0 in PyVision-RL.
    /// The estimator is k1, the difference of log-probabilities.
    pub kl_coef: f64,
    /// Bound of the KL of a token on both sides, in nats. 10 (AReaL `KLEstimator`).
    pub kl_clamp: f64,
    /// Discount per token. 1 (AReaL's default).
    pub discount: f64,
    /// GAE lambda. 1 (AReaL's default).
    pub gae_lambda: f64,
    /// Where the reward stands. `predicts_last` (AReaL); `last_trained` in PyVision-RL, which gives
    /// every action token the advantage of its sequence.
    pub reward_position: RewardPosition,
    /// Whether advantages are normalised over the trained tokens of the batch. True (`_base.yaml`
    /// `adv_norm`); false in PyVision-RL.
    pub adv_norm: bool,
    /// Whether token losses are weighted by exp(prox - behaviour). True (`_base.yaml`); PyVision-RL
    /// only knows the recomputed log-probabilities, so false.
    pub use_decoupled_loss: bool,
    /// The ratio is clipped to 1 - this below. 0.2 (all recipes).
    pub eps_clip: f64,
    /// The ratio is clipped to 1 + this above; as below where not given. None in all recipes.
    pub eps_clip_higher: Option<f64>,
    /// Dual clip: a token's loss is at most this times the absolute advantage, which binds where the
    /// advantage is negative. None (AReaL's default); 3 in PyVision-RL (verl `clip_ratio_c`).
    pub c_clip: Option<f64>,
    /// Tokens whose behaviour weight is above this add nothing, yet are counted. 5 (AReaL's default).
    pub behav_imp_weight_cap: f64,
    /// What the sum is divided by. `tokens` (AReaL); `micro_batches` in PyVision-RL.
    pub aggregation: Aggregation,
    /// Temperature of the log-probabilities, that of the sampling. 0.7 (`_base.yaml`); 1 in
    /// PyVision-RL.
    pub temperature: f64,
    /// Oversampling, filtering and ranking of groups, and the accumulative tool reward. None in
    /// ParaVT's recipes.
    pub strategy: Option<Strategy>,
}

impl Default for Knobs {
    fn default() -> Self {
        Self::paragrpo()
    }
}

impl Knobs {
    /// Plain GRPO as ParaVT trains it. PARA-GRPO differs in the reward (answer suffix, anchor weight),
    /// the forced think prefix and the frame budget; its objective is this one.
    pub fn grpo() -> Self {
        Self {
            reward_bias: -0.2,
            reward_scaling: 10.0,
            reward_clip: 20.0,
            group_norm: GroupNorm::MeanStd,
            norm_eps: 1e-5,
            kl_coef: 0.01,
            kl_clamp: 10.0,
            discount: 1.0,
            gae_lambda: 1.0,
            reward_position: RewardPosition::PredictsLast,
            adv_norm: true,
            use_decoupled_loss: true,
            eps_clip: 0.2,
            eps_clip_higher: None,
            c_clip: None,
            behav_imp_weight_cap: 5.0,
            aggregation: Aggregation::Tokens,
            temperature: 0.7,
            strategy: None,
        }
    }

    /// PARA-GRPO: the knobs of [`Self::grpo`].
    pub fn paragrpo() -> Self {
        Self::grpo()
    }

    /// PyVision-RL with the values of its README and trainer configuration.
    pub fn pyvision() -> Self {
        Self {
            reward_bias: 0.0,
            reward_scaling: 1.0,
            group_norm: GroupNorm::Mean,
            kl_coef: 0.0,
            reward_position: RewardPosition::LastTrained,
            adv_norm: false,
            use_decoupled_loss: false,
            c_clip: Some(3.0),
            aggregation: Aggregation::MicroBatches,
            temperature: 1.0,
            strategy: Some(Strategy::readme()),
            ..Self::grpo()
        }
    }

    /// What the sum of a micro-batch's token losses is multiplied by, so that the step's loss is the
    /// sum over its micro-batches. `here` and `total` count trained tokens of the micro-batch and of
    /// all `parts` micro-batches of the optimiser step.
    pub fn scale(&self, here: usize, total: usize, parts: usize) -> f64 {
        // Nothing trained gives loss 0, not 0 / 0 (AReaL counts at least one token).
        match self.aggregation {
            Aggregation::Tokens => 1.0 / total.max(1) as f64,
            Aggregation::MicroBatches => 1.0 / (here.max(1) * parts.max(1)) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_names_only_what_it_changes() {
        let knobs: Knobs = serde_json::from_str(r#"{"kl_coef": 0.0, "c_clip": 3.0}"#).unwrap();
        assert_eq!(knobs, Knobs { kl_coef: 0.0, c_clip: Some(3.0), ..Knobs::paragrpo() });
        let error = serde_json::from_str::<Knobs>(r#"{"kl_coeff": 0.0}"#).unwrap_err();
        assert!(error.to_string().contains("unknown field `kl_coeff`"), "{error}");
        for knobs in [Knobs::grpo(), Knobs::paragrpo(), Knobs::pyvision()] {
            let text = serde_json::to_string(&knobs).unwrap();
            assert_eq!(serde_json::from_str::<Knobs>(&text).unwrap(), knobs);
        }
    }

    #[test]
    fn loss_scales_depend_on_tokens_and_micro_batches() {
        let (grpo, pyvision) = (Knobs::grpo(), Knobs::pyvision());
        assert_eq!([grpo.scale(2, 8, 2), grpo.scale(6, 8, 2)], [0.125, 0.125]);
        assert_eq!([pyvision.scale(2, 8, 2), pyvision.scale(5, 8, 2)], [0.25, 0.1]);
        assert_eq!(grpo.scale(0, 0, 0), 1.0);
    }
}
