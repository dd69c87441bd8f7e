//! Supervised fine-tuning on packed conversations.
//!
//! Source: ParaVT `paravt/sft/configs/qwen3vl_8b.yaml` and lmms-engine.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use crate::seed::Seed;
use paravt_qwen_vl::prompt::Prompter;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Checkpoints, FINAL, Start};
use crate::compute::Compute;
use crate::data::Conversations;
use crate::error::{Error, Result};
use crate::example::Example;
use crate::learner::Learner;
use crate::optimizer::{AdamWConfig, Gradients};
use crate::schedule::Schedule;

/// Knobs of SFT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SftConfig {
    pub optimizer: AdamWConfig,
    /// The learning rate over steps.
    pub schedule: Schedule,
    /// Steps in all; the data is gone through as often as they need (recipe: one epoch, at most 1,500).
    pub steps: usize,
    /// Maximum tokens of a pack, which is one forward and backward pass: bounds memory (recipe: 8,192).
    /// Longer rows are left out and counted.
    pub pack_tokens: usize,
    /// Packs of a step (recipe: 4 on each of 8 devices).
    pub packs_per_step: usize,
    /// Steps between checkpoints (recipe: 100).
    pub save_every: usize,
    /// Order of the rows.
    pub seed: u64,
}

impl Default for SftConfig {
    fn default() -> Self {
        Self {
            optimizer: AdamWConfig::default(),
            schedule: Schedule::Cosine { warmup_ratio: 0.05 },
            steps: 1500,
            pack_tokens: 8192,
            packs_per_step: 32,
            save_every: 100,
            seed: 0,
        }
    }
}

/// Where in the data a step begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Progress {
    step: usize,
    /// Rows taken so far, over all epochs.
    taken: usize,
    over_long: usize,
}

/// A step's packs, and where the next step begins.
struct Batch {
    packs: Vec<Vec<Example>>,
    next: Progress,
}

/// Figures of a finished step.
#[derive(Debug, Clone, Copy)]
pub struct SftStep {
    /// Counted from 1.
    pub step: usize,
    /// Mean negative log-likelihood of a learned token, in nats.
    pub loss: f64,
    /// Norm of the gradients before clipping.
    pub grad_norm: f64,
    /// Tokens of the step per second, learned or not.
    pub tokens_per_second: f64,
}

/// Trains `base` and leaves the model in `out/final`. Goes on from the last checkpoint in `out`.
///
/// # Errors
/// Wrong data, a checkpoint of other settings, a file that cannot be written.
pub fn train(
    base: &Path,
    out: &Path,
    data: Arc<dyn Conversations>,
    config: &SftConfig,
    compute: &Compute,
    mut on_step: impl FnMut(&SftStep),
) -> Result<()> {
    config.validate()?;
    let checkpoints = Checkpoints::new(out);
    let Start { learner, mut optimizer, mut progress, mut log } =
        checkpoints.start::<_, Progress>(base, compute, &config.optimizer, config)?;
    learner.check_memory("pack_tokens", config.pack_tokens)?;
    let batches = prepare(data, Arc::clone(learner.prompter()), config.clone(), progress.clone());
    while progress.step < config.steps {
        let started = Instant::now();
        let batch = batches.recv().unwrap_or_else(|_| {
            Err(Error::Data(
                "the data loader stopped before the last step; see the log for its error".to_owned(),
            ))
        })?;
        let (loss, gradients) = gradients(&learner, &batch.packs)?;
        let factor = config.schedule.factor(progress.step, config.steps);
        let grad_norm = optimizer.step(&gradients, factor)?;
        progress = batch.next;
        let examples = || batch.packs.iter().flatten();
        let tokens: usize = examples().map(|example| example.ids.len()).sum();
        let learned: usize = examples().map(Example::learned).sum();
        let tokens_per_second = tokens as f64 / started.elapsed().as_secs_f64();
        let figures = [
            ("loss", loss),
            ("grad_norm", grad_norm),
            ("learning_rate", config.optimizer.learning_rate * factor),
            ("tokens", tokens as f64),
            ("learned_tokens", learned as f64),
            ("over_long_rows", progress.over_long as f64),
            ("tokens_per_second", tokens_per_second),
        ];
        log.add(progress.step, &figures)?;
        on_step(&SftStep { step: progress.step, loss, grad_norm, tokens_per_second });
        if progress.step % config.save_every == 0 && progress.step < config.steps {
            checkpoints.save(progress.step, &learner, &optimizer, config, &progress)?;
        }
    }
    learner.save(&out.join(FINAL))?;
    learner.verify(&out.join(FINAL))
}

/// Token-mean loss over all packs together, and its gradients.
///
/// # Errors
/// Packs without a learned token; tensor arithmetic.
pub fn gradients(learner: &Learner, packs: &[Vec<Example>]) -> Result<(f64, Gradients)> {
    let learned: usize = packs.iter().flatten().map(Example::learned).sum();
    if learned == 0 {
        return Err(Error::NothingLearned);
    }
    let gradients_of = |pack: &Vec<Example>| {
        let batch: Vec<&Example> = pack.iter().collect();
        learner.gradients(&batch, 1.0, |logprobs, _| Ok(((logprobs.sum_all()? / -(learned as f64))?, ())))
    };
    learner.workers().fold(
        packs,
        gradients_of,
        (0.0, Gradients::default()),
        |(loss, sum), (its, part, ())| {
            *loss += part;
            sum.add(its)
        },
    )
}

/// Makes batches on a thread of its own while the model computes.
fn prepare(
    data: Arc<dyn Conversations>,
    prompter: Arc<Prompter>,
    config: SftConfig,
    mut progress: Progress,
) -> Receiver<Result<Batch>> {
    let (sender, receiver) = sync_channel(2);
    std::thread::spawn(move || {
        while progress.step < config.steps {
            let batch = next_batch(&*data, &prompter, &config, &progress);
            if let Ok(batch) = &batch {
                progress = batch.next.clone();
            }
            let failed = batch.is_err();
            if sender.send(batch).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

/// Packs of one step in the order of the rows; the row that no longer fits begins
/// the next step.
fn next_batch(
    data: &dyn Conversations,
    prompter: &Prompter,
    config: &SftConfig,
    progress: &Progress,
) -> Result<Batch> {
    let (mut packs, mut open, mut held) = (Vec::new(), Vec::new(), 0);
    // Rows in a row that do not fit: as many as there are is all of them.
    let mut misses = 0;
    let mut next = Progress { step: progress.step + 1, ..progress.clone() };
    let mut order = Order::new(data.count(), config.seed)?;
    while packs.len() < config.packs_per_step {
        let conversation = data.conversation(order.row(next.taken))?;
        let example = Example::of_conversation(prompter, &conversation)?;
        let length = example.ids.len();
        if length > config.pack_tokens {
            next.over_long += 1;
            next.taken += 1;
            misses += 1;
            if data.count().is_some_and(|count| misses >= count) {
                return Err(Error::Data(format!("no row fits into {} tokens", config.pack_tokens)));
            }
            continue;
        }
        misses = 0;
        if held + length > config.pack_tokens {
            packs.push(std::mem::take(&mut open));
            held = 0;
            // The row is made again for the next step where this was the last pack.
            if packs.len() == config.packs_per_step {
                break;
            }
        }
        open.push(example);
        held += length;
        next.taken += 1;
    }
    Ok(Batch { packs, next })
}

/// Rows in the order of training: each epoch a shuffle of its own; endless data as it comes.
struct Order {
    count: Option<usize>,
    seed: u64,
    epoch: Option<(usize, Vec<usize>)>,
}

impl Order {
    fn new(count: Option<usize>, seed: u64) -> Result<Self> {
        if count == Some(0) {
            return Err(Error::Data("the data has no row".to_owned()));
        }
        Ok(Self { count, seed, epoch: None })
    }

    fn row(&mut self, taken: usize) -> usize {
        let Some(count) = self.count else { return taken };
        let wanted = taken / count;
        if self.epoch.as_ref().is_none_or(|(epoch, _)| *epoch != wanted) {
            let mut rows: Vec<usize> = (0..count).collect();
            rows.shuffle(&mut Seed::new("sft order", self.seed).numbered(wanted as u64).rng());
            self.epoch = Some((wanted, rows));
        }
        self.epoch.as_ref().map_or(0, |(_, rows)| rows[taken % count])
    }
}
