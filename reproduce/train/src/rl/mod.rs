//! The GRPO family: roll out, reward, compare within groups, one or more optimiser steps.

mod figures;
mod update;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::seed::Seed;
use paravt_qwen_vl::engine::Options;
use paravt_suite::frames::FrameSource;
use paravt_suite::protocol::Protocol;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Checkpoints, FINAL, Start};
use crate::compute::Compute;
use crate::error::{Error, Result};
use crate::learner::{Learner, Scorer};
use crate::objective::strategy::{EndReason, Pool, Rollout, Strategy};
use crate::objective::{Knobs, advantages};
use crate::optimizer::{AdamWConfig, Gradients};
use crate::parameters::start_rollouts;
use crate::reward::RewardConfig;
use crate::rollout::{RlPrompt, Roller, RolloutConfig, Trajectory};
use crate::schedule::Schedule;

use figures::rollout_figures;
use update::{Scorers, TokenValues, update};

/// Knobs of reinforcement learning; defaults are those of `paragrpo_8b.yaml` and `_base.yaml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RlConfig {
    pub objective: Knobs,
    pub reward: RewardConfig,
    pub rollout: RolloutConfig,
    pub optimizer: AdamWConfig,
    /// The learning rate over steps.
    pub schedule: Schedule,
    pub steps: usize,
    /// Prompts of a step; each is rolled out `rollout.group_size` times.
    pub prompts_per_step: usize,
    /// Maximum tokens of a forward and backward pass: bounds memory.
    pub micro_batch_tokens: usize,
    /// Steps between checkpoints.
    pub save_every: usize,
    /// Order of the prompts, and sampling.
    pub seed: u64,
    /// Whether the trainer's attention reaches over the frames of a rollout; in the release it does not
    /// ([`Example::last_sequence`](crate::example::Example::last_sequence)).
    #[serde(skip_serializing_if = "is_whole")]
    pub whole_attention: bool,
    /// Loses every group in which a call was executed, as the release does, and asks the next prompts in its place, so many
    /// in a step at most. A step that they do not fill ends the training before its update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_groups: Option<usize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a field over by reference")]
fn is_whole(whole_attention: &bool) -> bool {
    *whole_attention
}

impl Default for RlConfig {
    fn default() -> Self {
        Self {
            objective: Knobs::paragrpo(),
            reward: RewardConfig::paragrpo(),
            rollout: RolloutConfig::default(),
            optimizer: AdamWConfig { learning_rate: 2e-6, ..AdamWConfig::default() },
            schedule: Schedule::Constant,
            steps: 54,
            prompts_per_step: 7,
            micro_batch_tokens: 16_384,
            save_every: 10,
            seed: 0,
            whole_attention: true,
            lost_groups: None,
        }
    }
}

/// First prompt of the next step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Progress {
    step: usize,
    /// Prompts taken so far, over all epochs.
    taken: usize,
}

/// Figures of a finished step, by the names of the log.
#[derive(Debug, Clone)]
pub struct RlStep {
    /// Counted from 1.
    pub step: usize,
    /// Means over the step's rollouts unless the name says otherwise.
    pub figures: BTreeMap<&'static str, f64>,
}

/// Inputs of reinforcement learning beside its settings.
pub struct RlTask {
    pub prompts: Vec<RlPrompt>,
    pub protocol: Arc<Protocol>,
    pub frames: Arc<dyn FrameSource>,
    pub compute: Compute,
}

/// Trains `base` and leaves the model in `out/final`. Goes on from the last checkpoint in `out`.
///
/// # Errors
/// No prompts, a checkpoint of other settings, a rollout that fails, a file that cannot be written.
pub fn train(
    base: &Path,
    out: &Path,
    task: &RlTask,
    config: &RlConfig,
    mut on_step: impl FnMut(&RlStep),
) -> Result<()> {
    if task.prompts.is_empty() {
        return Err(Error::Data("there are no prompts to learn from".to_owned()));
    }
    config.validate()?;
    let checkpoints = Checkpoints::new(out);
    let Start { learner, mut optimizer, mut progress, mut log } =
        checkpoints.start::<_, Progress>(base, &task.compute, &config.optimizer, config)?;
    learner.check_memory("micro_batch_tokens", config.micro_batch_tokens)?;
    let scorers = scorers(&learner, base, config)?;
    let (roller, runtime) = (roller(&learner, task, config)?, runtime()?);
    while progress.step < config.steps {
        let started = Instant::now();
        let seed = Seed::new("rl step", config.seed).numbered(progress.step as u64);
        let mut rolled = runtime.block_on(roll(&roller, &task.prompts, config, seed, &mut progress.taken))?;
        let rolled_in = started.elapsed().as_secs_f64();
        let mut figures = std::mem::take(&mut rolled.figures);
        if !rolled.is_short {
            let factor = config.schedule.factor(progress.step, config.steps);
            figures.extend(update(&learner, &mut optimizer, factor, &scorers, &rolled, config)?);
        }
        progress.step += 1;
        let seconds = started.elapsed().as_secs_f64();
        let tokens: usize = rolled.chosen.iter().map(|&place| rolled.all[place].1.example.ids.len()).sum();
        figures.extend([
            ("rollout_seconds", rolled_in),
            ("seconds", seconds),
            ("tokens_per_second", tokens as f64 / (seconds - rolled_in).max(1e-9)),
            ("groups_dropped", rolled.groups_dropped as f64),
        ]);
        let named: Vec<(&str, f64)> = figures.iter().map(|(name, value)| (*name, *value)).collect();
        log.add(progress.step, &named)?;
        on_step(&RlStep { step: progress.step, figures });
        if rolled.is_short {
            break;
        }
        if progress.step.is_multiple_of(config.save_every) && progress.step < config.steps {
            checkpoints.save(progress.step, &learner, &optimizer, config, &progress)?;
        }
    }
    learner.save(&out.join(FINAL))?;
    learner.verify(&out.join(FINAL))
}

/// Figures of rollouts of the first `prompts` prompts by a model as it is, by the names of the log.
///
/// # Errors
/// As [`train`].
pub fn measure(
    model: &Path,
    task: &RlTask,
    config: &RlConfig,
    prompts: usize,
) -> Result<BTreeMap<&'static str, f64>> {
    config.validate()?;
    let learner = Learner::load(model, &task.compute)?;
    let (roller, runtime) = (roller(&learner, task, config)?, runtime()?);
    let seed = Seed::new("rl measure", config.seed);
    let wanted: Vec<&RlPrompt> = task.prompts.iter().take(prompts).collect();
    let mut all = Vec::new();
    for (number, some) in wanted.chunks(config.prompts_per_step).enumerate() {
        let groups = runtime.block_on(roller.roll(some, seed.numbered(number as u64)))?;
        all.extend(self::number(groups, number * config.prompts_per_step));
    }
    Ok(rollout_figures(&all))
}

/// One batch with all that its first optimiser step is computed from, for another implementation to compare with.
pub struct FirstUpdate {
    /// Rollouts with their groups, their rewards as the strategy gives them.
    pub rollouts: Vec<(usize, Trajectory)>,
    /// Log-probabilities by the reference, of each rollout a value for each row that predicts a trained token, else 0.
    pub reference: Option<Vec<Vec<f64>>>,
    /// The rollouts of this step by place, pass by pass.
    pub passes: Vec<Vec<usize>>,
    pub loss: f64,
    pub gradients: Gradients,
}

/// The first batch of a training of `model` with `reference` for its KL term, and its gradients.
///
/// # Errors
/// As [`train`].
pub fn first_update(model: &Path, reference: &Path, task: &RlTask, config: &RlConfig) -> Result<FirstUpdate> {
    config.validate()?;
    let learner = Learner::load(model, &task.compute)?;
    let scorers = scorers(&learner, reference, config)?;
    let (roller, seed) = (roller(&learner, task, config)?, Seed::new("rl step", config.seed).numbered(0));
    let rolled = runtime()?.block_on(roll(&roller, &task.prompts, config, seed, &mut 0))?;
    if rolled.is_short {
        let message = format!("{} groups are lost before a step is full", rolled.groups_dropped);
        return Err(Error::Data(message));
    }
    update::first(&learner, &scorers, rolled, config)
}

fn scorers(learner: &Learner, reference: &Path, config: &RlConfig) -> Result<Scorers> {
    let is_asked = config.objective.kl_coef != 0.0;
    Ok(Scorers {
        reference: is_asked.then(|| Scorer::load(reference, learner.compute())).transpose()?,
        before: config.objective.strategy.as_ref().map(|_| learner.scorer()).transpose()?,
    })
}

fn roller(learner: &Learner, task: &RlTask, config: &RlConfig) -> Result<Roller> {
    let options = Options {
        precision: task.compute.precision,
        batch: config.prompts_per_step * config.rollout.group_size,
        tempered_logprobs: true,
        ..Options::new(learner.folder().to_owned())
    };
    Ok(Roller {
        engine: Arc::new(start_rollouts(options, &task.compute, learner.parameters())?),
        protocol: Arc::clone(&task.protocol),
        frames: Arc::clone(&task.frames),
        config: config.rollout.clone(),
        reward: config.reward.clone(),
    })
}

/// As many workers as cores, whatever TOKIO_WORKER_THREADS says: tokio panics where that is not a number.
fn runtime() -> Result<tokio::runtime::Runtime> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    runtime.map_err(|error| Error::Threads(error.to_string()))
}

/// Rollouts of a step with their groups, and which of them are trained on.
#[derive(Default)]
struct Rolled {
    all: Vec<(usize, Trajectory)>,
    chosen: Vec<usize>,
    /// Groups that were asked and are not trained on.
    groups_dropped: usize,
    /// Of all rollouts that were asked, those of lost groups too.
    figures: BTreeMap<&'static str, f64>,
    /// Whether too many groups were lost for a step.
    is_short: bool,
}

async fn roll(
    roller: &Roller,
    prompts: &[RlPrompt],
    config: &RlConfig,
    seed: Seed,
    taken: &mut usize,
) -> Result<Rolled> {
    let Some(strategy) = &config.objective.strategy else {
        let ask = async |wanted: &[&RlPrompt], seed| roller.roll(wanted, seed).await;
        return fill(ask, prompts, config, seed, taken).await;
    };
    // Oversampling: batches of prompts until enough groups survive the filters, then the best of them.
    let mut pool = Pool::new(strategy);
    let (mut all, mut groups, mut batches) = (Vec::new(), 0, 0u64);
    while pool.wants_more()? {
        let mut wanted = take(prompts, strategy.gen_batch_size, config.seed, taken);
        // Every prompt is about a video.
        wanted.truncate(strategy.max_video_gen_batch_size);
        let rolled = roller.roll(&wanted, seed.numbered(batches)).await?;
        let (count, mut batch) = (rolled.len(), number(rolled, groups).collect::<Vec<_>>());
        reward(&mut batch, strategy);
        pool.add(&describe(&batch, strategy, &config.objective)?);
        all.extend(batch);
        (groups, batches) = (groups + count, batches + 1);
    }
    let chosen = pool.select();
    let kept: BTreeSet<usize> = chosen.iter().map(|&place| all[place].0).collect();
    let figures = rollout_figures(&all);
    Ok(Rolled { all, chosen, groups_dropped: groups - kept.len(), figures, is_short: false })
}

/// Prompts until there are groups for a step: at once where none is lost. `ask` rolls each out.
async fn fill(
    ask: impl AsyncFn(&[&RlPrompt], Seed) -> Result<Vec<Vec<Trajectory>>>,
    prompts: &[RlPrompt],
    config: &RlConfig,
    seed: Seed,
    taken: &mut usize,
) -> Result<Rolled> {
    let most = config.lost_groups.unwrap_or(config.prompts_per_step);
    let (mut asked, mut kept) = (Vec::new(), BTreeSet::new());
    let (mut groups, mut batches) = (0, 0u64);
    while kept.len() < config.prompts_per_step && groups < most {
        let count = (config.prompts_per_step - kept.len()).min(most - groups);
        let wanted = take(prompts, count, config.seed, taken);
        let rolled = ask(&wanted, seed.numbered(batches)).await?;
        let is_lost = |group: &[Trajectory]| {
            config.lost_groups.is_some() && group.iter().any(|one| one.figures.succeeded > 0)
        };
        kept.extend((groups..).zip(&rolled).filter(|(_, group)| !is_lost(group)).map(|(number, _)| number));
        asked.extend(number(rolled, groups));
        (groups, batches) = (groups + count, batches + 1);
    }
    let figures = rollout_figures(&asked);
    let all: Vec<_> = asked.into_iter().filter(|(group, _)| kept.contains(group)).collect();
    Ok(Rolled {
        chosen: (0..all.len()).collect(),
        all,
        groups_dropped: groups - kept.len(),
        figures,
        is_short: kept.len() < config.prompts_per_step,
    })
}

fn number(groups: Vec<Vec<Trajectory>>, first: usize) -> impl Iterator<Item = (usize, Trajectory)> {
    groups
        .into_iter()
        .enumerate()
        .flat_map(move |(place, group)| group.into_iter().map(move |one| (first + place, one)))
}

/// The next prompts; each epoch a shuffle of its own.
fn take<'a>(prompts: &'a [RlPrompt], count: usize, seed: u64, taken: &mut usize) -> Vec<&'a RlPrompt> {
    let mut chosen = Vec::with_capacity(count);
    while chosen.len() < count {
        let (epoch, start) = (*taken / prompts.len(), *taken % prompts.len());
        let mut order: Vec<usize> = (0..prompts.len()).collect();
        order.shuffle(&mut Seed::new("rl order", seed).numbered(epoch as u64).rng());
        let now = (count - chosen.len()).min(prompts.len() - start);
        chosen.extend(order[start..start + now].iter().map(|&place| &prompts[place]));
        *taken += now;
    }
    chosen
}

/// Gives a batch the rewards of a strategy.
fn reward(batch: &mut [(usize, Trajectory)], strategy: &Strategy) {
    for (_, one) in batch {
        one.reward.total = strategy.reward(graded(one), one.figures.tool_turns);
    }
}

/// Accuracy for a strategy. The release's verifier reads a closed answer block alone
/// (`utils/reward_score/multi_task_verifier.py:388-404`), which a turn that is cut lacks.
fn graded(one: &Trajectory) -> f64 {
    if one.figures.truncated { 0.0 } else { one.reward.accuracy }
}

/// A batch of rollouts for the strategy.
fn describe(batch: &[(usize, Trajectory)], strategy: &Strategy, knobs: &Knobs) -> Result<Vec<Rollout>> {
    let held = TokenValues::new(batch, None);
    let advantages = advantages(&held.sequences(batch), knobs)?;
    let rollouts = batch.iter().zip(&advantages.tokens).map(|((group, one), tokens)| {
        let trained: Vec<f64> = one.example.rows().map(|row| tokens[row]).collect();
        Rollout {
            group: *group,
            reward: one.reward.total,
            is_answer_right: strategy.is_right(graded(one)),
            advantage: trained.iter().sum::<f64>() / trained.len().max(1) as f64,
            // A sub-agent's summary is what our tool brings into the context.
            hasimage: one.figures.succeeded > 0,
            vision_consistent: true,
            trajlength: one.example.ids.len(),
            end_reason: if one.figures.truncated { EndReason::ErrorInAction } else { EndReason::Done },
        }
    });
    Ok(rollouts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::Example;
    use crate::objective::strategy::{Verdict, filter};
    use crate::reward::Reward;
    use crate::rollout::RolloutFigures;

    /// A rollout of one trained token, as ParaVT's reward grades it: accuracy, turns that called, whether it was cut.
    fn rolled((accuracy, tool_turns, truncated): (f64, usize, bool)) -> (usize, Trajectory) {
        let example = Example {
            ids: vec![1, 2],
            positions: vec![[0; 3]; 2],
            media: Vec::new(),
            trained: vec![false, true],
        };
        // Three calls in each turn: they are paid once.
        let figures =
            RolloutFigures { succeeded: 3 * tool_turns, tool_turns, truncated, ..RolloutFigures::default() };
        let reward = Reward { total: 9.0, accuracy, ..Reward::default() };
        (0, Trajectory { example, behaviour: vec![-1.0], reward, figures })
    }

    #[test]
    fn a_group_with_an_executed_call_is_lost_and_the_next_prompt_asked() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = paravt_nano::TrainingSizes { videos: 1, rows: 1, prompts: 5, ..Default::default() };
        paravt_nano::make_training(folder.path(), 3, &sizes).unwrap();
        let prompts: Vec<RlPrompt> =
            paravt_nano::read_prompts(&folder.path().join(paravt_nano::RL_FILE), folder.path())
                .unwrap()
                .into_iter()
                .map(|prompt| RlPrompt {
                    sample: prompt.sample,
                    answer: prompt.answer,
                    question: crate::reward::QuestionType::from_name(&prompt.question_type),
                    duration: prompt.duration,
                })
                .collect();
        // One rollout of each group calls: those of every third group without success.
        let run = |lost_groups, executed_every: usize| {
            let config = RlConfig { prompts_per_step: 2, seed: 4, lost_groups, ..RlConfig::default() };
            let (mut taken, asked) = (0, std::cell::RefCell::new(Vec::new()));
            let ask = async |wanted: &[&RlPrompt], _: Seed| {
                let group = |prompt: &&RlPrompt| {
                    asked.borrow_mut().push(prompt.sample.uid.clone());
                    let is_executed = asked.borrow().len() % executed_every != 0;
                    vec![rolled((1.0, 0, false)).1, rolled((0.5, usize::from(is_executed), false)).1]
                };
                Ok(wanted.iter().map(group).collect())
            };
            let seed = Seed::new("test", 0);
            let done = futures::executor::block_on(fill(ask, &prompts, &config, seed, &mut taken)).unwrap();
            let groups: Vec<usize> = done.all.iter().map(|(group, _)| *group).collect();
            assert_eq!(done.chosen, (0..groups.len()).collect::<Vec<_>>());
            let asked = asked.into_inner();
            let order: Vec<_> =
                take(&prompts, taken, 4, &mut 0).into_iter().map(|one| &one.sample.uid).collect();
            assert_eq!(asked.iter().collect::<Vec<_>>(), order, "in the order of the prompts");
            (groups, asked.len(), done.groups_dropped, done.is_short, done.figures["reward_accuracy"])
        };
        assert_eq!(run(None, 3), (vec![0, 0, 1, 1], 2, 0, false, 0.75), "none is lost");
        assert_eq!(run(Some(20), 3), (vec![2, 2, 5, 5], 6, 4, false, 0.75), "with those that were lost");
        assert_eq!(run(Some(5), 3), (vec![2, 2], 5, 4, true, 0.75), "one in the end");
        assert_eq!(run(Some(5), 100), (vec![], 5, 5, true, 0.75));
    }

    #[test]
    fn a_strategy_rewards_and_keeps_what_the_release_does() {
        let strategy = Strategy::readme();
        let knobs = Knobs { strategy: Some(strategy.clone()), ..Knobs::pyvision() };
        // Right by a letter; an IoU of 0.05 and one of 0.5; F1 of 0.49; right and without a call; cut; cut before any call.
        let cases = [
            (1.0, 2, false),
            (0.05, 4, false),
            (0.5, 1, false),
            (0.49, 3, false),
            (1.0, 0, false),
            (1.0, 2, true),
            (0.0, 0, true),
        ];
        let mut batch: Vec<_> = cases.into_iter().map(rolled).collect();
        reward(&mut batch, &strategy);
        let totals: Vec<f64> = batch.iter().map(|(_, one)| one.reward.total).collect();
        let wanted = [1.2, 0.05, 0.6, 0.49, 1.0, 0.0, 0.0];
        assert!(totals.iter().zip(wanted).all(|(one, other)| (one - other).abs() < 1e-12), "{totals:?}");

        let described = describe(&batch, &strategy, &knobs).unwrap();
        let right: Vec<bool> = described.iter().map(|one| one.is_answer_right).collect();
        assert_eq!(right, [true, false, true, false, true, false, false]);
        use EndReason::{Done, ErrorInAction};
        let ends: Vec<EndReason> = described.iter().map(|one| one.end_reason).collect();
        assert_eq!(ends, [Done, Done, Done, Done, Done, ErrorInAction, ErrorInAction]);
        // The mean of the seven is 3.34 / 7; the cut one has called before, so it is trained, with 0 minus that.
        assert!((described[5].advantage + 3.34 / 7.0).abs() < 1e-12, "{described:?}");
        let dropped = Verdict::Dropped(crate::objective::strategy::Filter::Hasimage);
        let kept = Verdict::Kept;
        assert_eq!(filter(&described, &strategy), [kept, kept, kept, kept, dropped, kept, dropped]);
    }
}
