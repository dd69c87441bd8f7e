//! Steps of trainings, as progress shows them.

use paravt_train::rl::RlStep;
use paravt_train::sft::SftStep;

/// A finished step of a training, and the number of steps in all.
pub enum Progress<'a> {
    Sft(&'a SftStep, usize),
    /// Of reinforcement learning.
    Rl(&'a RlStep, usize),
    /// Of a training in another program.
    Launched(&'a paravt_engines::Step, usize),
}

impl Progress<'_> {
    /// Steps done and steps in all.
    pub fn steps(&self) -> (usize, usize) {
        match self {
            Self::Sft(step, all) => (step.step, *all),
            Self::Rl(step, all) => (step.step, *all),
            Self::Launched(step, all) => (step.step, *all),
        }
    }
}

impl std::fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (done, all) = self.steps();
        match self {
            Self::Sft(step, _) => {
                write!(f, "step {done}/{all}, loss {:.3}, {:.0} tokens/s", step.loss, step.tokens_per_second)
            }
            Self::Rl(step, _) => {
                let figure = |name: &str| step.figures.get(name).copied().unwrap_or_default();
                write!(
                    f,
                    "step {done}/{all}, reward {:.2}, accuracy {:.2}, f_tau {:.2}, kappa {:.2}",
                    figure("reward"),
                    figure("reward_accuracy"),
                    figure("f_tau"),
                    figure("kappa")
                )
            }
            Self::Launched(step, _) => {
                write!(f, "step {done}/{all}")?;
                let names = ["reward", "reward_accuracy", "f_tau", "kappa", "loss"];
                let shown = names.iter().filter_map(|name| Some((name, step.figure(name)?)));
                shown.take(4).try_for_each(|(name, value)| write!(f, ", {name} {value:.3}"))
            }
        }
    }
}
