//! Checks of settings before anything is loaded.

use crate::error::{Error, Result};
use crate::objective::Knobs;
use crate::objective::strategy::Strategy;
use crate::optimizer::AdamWConfig;
use crate::rl::RlConfig;
use crate::rollout::RolloutConfig;
use crate::schedule::Schedule;
use crate::sft::SftConfig;

fn refuse(field: &str, message: String) -> Result<()> {
    Err(Error::Setting { field: field.to_owned(), message })
}

fn at_least_one(fields: &[(&str, usize)]) -> Result<()> {
    match fields.iter().find(|(_, value)| *value == 0) {
        Some((field, _)) => refuse(field, "is 0; it must be at least 1".to_owned()),
        None => Ok(()),
    }
}

/// Finite and within a closed interval.
fn within(field: &str, value: f64, low: f64, high: f64) -> Result<()> {
    if value.is_finite() && (low..=high).contains(&value) {
        return Ok(());
    }
    let range = if high == f64::MAX { format!("at least {low}") } else { format!("from {low} to {high}") };
    refuse(field, format!("is {value}; it must be a number {range}"))
}

fn above_zero(field: &str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    refuse(field, format!("is {value}; it must be a number above 0"))
}

fn optimizer(config: &AdamWConfig) -> Result<()> {
    let AdamWConfig { learning_rate, beta1, beta2, eps, weight_decay, max_grad_norm, .. } = *config;
    within("optimizer.learning_rate", learning_rate, 0.0, f64::MAX)?;
    for (field, beta) in [("optimizer.beta1", beta1), ("optimizer.beta2", beta2)] {
        if !(0.0..1.0).contains(&beta) {
            refuse(field, format!("is {beta}; it must be at least 0 and below 1"))?;
        }
    }
    within("optimizer.eps", eps, 0.0, f64::MAX)?;
    within("optimizer.weight_decay", weight_decay, 0.0, f64::MAX)?;
    within("optimizer.max_grad_norm", max_grad_norm, 0.0, f64::MAX)
}

fn schedule(schedule: Schedule) -> Result<()> {
    match schedule {
        Schedule::Constant => Ok(()),
        Schedule::Cosine { warmup_ratio } => within("schedule.warmup_ratio", warmup_ratio, 0.0, 1.0),
    }
}

impl SftConfig {
    /// Whether a training can have these settings.
    ///
    /// # Errors
    /// The first field that cannot be, by its name.
    pub fn validate(&self) -> Result<()> {
        at_least_one(&[
            ("steps", self.steps),
            ("pack_tokens", self.pack_tokens),
            ("packs_per_step", self.packs_per_step),
            ("save_every", self.save_every),
        ])?;
        optimizer(&self.optimizer)?;
        schedule(self.schedule)
    }
}

impl RlConfig {
    /// Whether a training can have these settings.
    ///
    /// # Errors
    /// The first field that cannot be, by its name.
    pub fn validate(&self) -> Result<()> {
        at_least_one(&[
            ("steps", self.steps),
            ("prompts_per_step", self.prompts_per_step),
            ("micro_batch_tokens", self.micro_batch_tokens),
            ("save_every", self.save_every),
        ])?;
        optimizer(&self.optimizer)?;
        schedule(self.schedule)?;
        rollout(&self.rollout)?;
        self.lost_groups()?;
        objective(&self.objective, &self.rollout)
    }

    fn lost_groups(&self) -> Result<()> {
        let Some(most) = self.lost_groups else { return Ok(()) };
        if self.objective.strategy.is_some() {
            refuse(
                "lost_groups",
                "cannot be had with objective.strategy, which chooses groups itself".to_owned(),
            )?;
        }
        if most < self.prompts_per_step {
            let message =
                format!("is {most}; a step needs {} groups (prompts_per_step)", self.prompts_per_step);
            refuse("lost_groups", message)?;
        }
        Ok(())
    }
}

fn rollout(config: &RolloutConfig) -> Result<()> {
    at_least_one(&[
        ("rollout.group_size", config.group_size),
        ("rollout.max_new_tokens", config.max_new_tokens as usize),
        ("rollout.max_turns", config.max_turns),
        ("rollout.nframes", config.nframes),
        ("rollout.tool_response_tokens", config.tool_response_tokens),
    ])?;
    above_zero("rollout.temperature", config.temperature)?;
    within("rollout.failed_calls", config.failed_calls, 0.0, 1.0)?;
    match config.frame_budgets.iter().min() {
        None => refuse("rollout.frame_budgets", "is empty; it needs at least one number".to_owned()),
        Some(0) => refuse("rollout.frame_budgets", "holds 0; each must be at least 1".to_owned()),
        Some(_) => Ok(()),
    }
}

fn objective(knobs: &Knobs, rollout: &RolloutConfig) -> Result<()> {
    if knobs.temperature != rollout.temperature {
        let message = format!(
            "is {}, rollout.temperature is {}; tokens are scored under the distribution that they were \
             drawn from, so both must be the same",
            knobs.temperature, rollout.temperature
        );
        refuse("objective.temperature", message)?;
    }
    for (field, value) in [
        ("objective.reward_scaling", knobs.reward_scaling),
        ("objective.reward_bias", knobs.reward_bias),
        ("objective.kl_coef", knobs.kl_coef),
    ] {
        if !value.is_finite() {
            refuse(field, format!("is {value}; it must be a number"))?;
        }
    }
    above_zero("objective.eps_clip", knobs.eps_clip)?;
    above_zero("objective.reward_clip", knobs.reward_clip)?;
    within("objective.discount", knobs.discount, 0.0, 1.0)?;
    within("objective.gae_lambda", knobs.gae_lambda, 0.0, 1.0)?;
    knobs.strategy.as_ref().map_or(Ok(()), |strategy| selection(strategy, rollout))
}

fn selection(strategy: &Strategy, rollout: &RolloutConfig) -> Result<()> {
    at_least_one(&[
        ("objective.strategy.gen_batch_size", strategy.gen_batch_size),
        ("objective.strategy.max_video_gen_batch_size", strategy.max_video_gen_batch_size),
        ("objective.strategy.train_batch_size", strategy.train_batch_size),
        ("objective.strategy.ppo_mini_batch_size", strategy.ppo_mini_batch_size),
    ])?;
    if strategy.n != rollout.group_size {
        let message = format!(
            "is {}, rollout.group_size is {}; both are the rollouts of one prompt and must be the same",
            strategy.n, rollout.group_size
        );
        refuse("objective.strategy.n", message)?;
    }
    within("objective.strategy.right_accuracy", strategy.right_accuracy, 0.0, 1.0)?;
    if strategy.ppo_mini_batch_size > strategy.train_batch_size {
        let message = format!(
            "is {}, train_batch_size is {}; a step cannot be cut into larger parts",
            strategy.ppo_mini_batch_size, strategy.train_batch_size
        );
        refuse("objective.strategy.ppo_mini_batch_size", message)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_train_nothing_are_refused_by_name() {
        let sft = |change: fn(&mut SftConfig)| {
            let mut config = SftConfig::default();
            change(&mut config);
            config.validate().map_err(|error| error.to_string())
        };
        assert_eq!(sft(|_| {}), Ok(()));
        for (change, name) in [
            ((|config| config.steps = 0) as fn(&mut SftConfig), "steps"),
            (|config| config.pack_tokens = 0, "pack_tokens"),
            (|config| config.packs_per_step = 0, "packs_per_step"),
            (|config| config.save_every = 0, "save_every"),
        ] {
            assert_eq!(sft(change), Err(format!("`{name}` is 0; it must be at least 1")));
        }
        assert!(sft(|config| config.optimizer.learning_rate = f64::NAN).unwrap_err().contains("NaN"));
        assert!(sft(|config| config.optimizer.beta2 = 1.0).unwrap_err().contains("beta2"));
        let rl = |change: fn(&mut RlConfig)| {
            let mut config = RlConfig::default();
            change(&mut config);
            config.validate().map_err(|error| error.to_string())
        };
        assert_eq!(rl(|_| {}), Ok(()));
        for (change, name) in [
            ((|config| config.prompts_per_step = 0) as fn(&mut RlConfig), "prompts_per_step"),
            (|config| config.micro_batch_tokens = 0, "micro_batch_tokens"),
            (|config| config.save_every = 0, "save_every"),
            (|config| config.rollout.group_size = 0, "rollout.group_size"),
            (|config| config.rollout.max_new_tokens = 0, "rollout.max_new_tokens"),
            (|config| config.rollout.frame_budgets = vec![4, 0], "rollout.frame_budgets"),
            (|config| config.rollout.temperature = 1.0, "objective.temperature"),
            (|config| config.rollout.failed_calls = 1.5, "rollout.failed_calls"),
            (|config| config.lost_groups = Some(6), "lost_groups"),
            (
                |config| {
                    config.objective.strategy = Some(Strategy::readme());
                    config.lost_groups = Some(70);
                },
                "lost_groups",
            ),
            (
                |config| config.objective.strategy = Some(Strategy { n: 4, ..Strategy::readme() }),
                "objective.strategy.n",
            ),
            (
                |config| {
                    let strategy = Strategy { ppo_mini_batch_size: 65, ..Strategy::readme() };
                    config.objective.strategy = Some(strategy);
                },
                "objective.strategy.ppo_mini_batch_size",
            ),
        ] {
            assert!(rl(change).unwrap_err().starts_with(&format!("`{name}` ")), "{name}: {:?}", rl(change));
        }
    }
}
