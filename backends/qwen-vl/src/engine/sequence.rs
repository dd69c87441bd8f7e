//! One conversation that is being answered.

use std::sync::Arc;
use std::time::Instant;

use futures::channel::oneshot;

use super::features::LazyVisionFeatures;
use super::prefix::History;
use super::{Answer, Job};
use crate::error::Error;
use crate::model::{KvCache, Model, Rows};
use crate::ops::{Ops, PassLimits};
use crate::prompt::{Prompt, Prompter};
use crate::sampling::{Defaults, Draw, Sampler, log_probability};

/// A prompt in prefill, then an answer that grows.
pub(super) struct Sequence<T> {
    pub history: History,
    pub cache: KvCache<T>,
    pub next_position: u32,
    pub sampler: Sampler,
    pub generated: Vec<u32>,
    logprobs: Option<Vec<f32>>,
    /// Temperature of the log-probabilities.
    temperature: f32,
    max_tokens: usize,
    stop: Vec<String>,
    stopped: bool,
    /// When the first token was chosen.
    first: Option<Instant>,
    /// Rest of the prompt; `None` after prefill.
    pub prefill: Option<Prefill<T>>,
    /// Logits after the prompt; `None` before that.
    after_prompt: Option<Arc<[f32]>>,
    pub reply: oneshot::Sender<Result<Answer, Error>>,
    /// The request, for another try.
    generation: paravt_suite::backend::Generation,
}

/// From what the next token of an answer comes.
#[derive(Clone, Copy)]
pub(super) enum Scores<'a> {
    /// Logits, of which the host draws one.
    Logits(&'a [f32]),
    /// A token and its log-probability, which the device has found.
    Drawn(u32, f32),
}

/// A prompt between its passes.
pub(super) struct Prefill<T> {
    prompt: Prompt,
    /// Set with the first pass.
    state: Option<State<T>>,
}

struct State<T> {
    /// Places of visual tokens.
    visual: Vec<usize>,
    features: LazyVisionFeatures<T>,
    /// First token of the next chunk.
    start: usize,
    /// Tokens of a pass.
    step: usize,
}

impl<T: Clone> Sequence<T> {
    /// A sequence before its prefill; `sampler` is that of the job's generation.
    pub(super) fn new(job: Job, sampler: Sampler, tempered: bool) -> Self {
        let Job { prompt, history, generation, reply } = job;
        Self {
            history,
            cache: KvCache::default(),
            next_position: prompt.next_position,
            sampler,
            generated: Vec::new(),
            logprobs: generation.logprobs.then(Vec::new),
            temperature: match generation.temperature as f32 {
                temperature if tempered && temperature > 0.0 => temperature,
                _ => 1.0,
            },
            max_tokens: generation.max_tokens as usize,
            stop: generation.sampling.stop.clone(),
            stopped: false,
            first: None,
            prefill: Some(Prefill { prompt, state: None }),
            after_prompt: None,
            reply,
            generation,
        }
    }

    /// The request as it came, of a sequence that has answered nothing yet.
    pub(super) fn into_job(self) -> Option<Job> {
        let prompt = self.prefill?.prompt;
        Some(Job::new(prompt, self.generation, self.reply))
    }

    /// Whether the first pass is still to come.
    pub(super) fn is_fresh(&self) -> bool {
        self.prefill.as_ref().is_some_and(|prefill| prefill.state.is_none())
    }

    /// Tokens of the prompt.
    fn prompt_tokens(&self) -> usize {
        self.history.ids.len() - self.generated.len()
    }

    /// Whether its prompt is read, and is the one of a history.
    pub(super) fn has_read(&self, prompt: &History) -> bool {
        self.after_prompt.is_some() && self.history.begins_as(self.prompt_tokens(), prompt)
    }

    /// Logits after the prompt, until the first token is chosen.
    pub(super) fn first_logits(&self) -> Option<Arc<[f32]>> {
        self.after_prompt.clone().filter(|_| self.generated.is_empty())
    }

    /// Goes on after the prompt that another sequence has read: with a copy of its cache, which is to the bit what a
    /// prefill of its own would make.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn fork<O: Ops<Tensor = T>>(&mut self, model: &Model<O>, read: &Self) -> Result<(), Error> {
        self.cache = read.cache.copy(&model.ops, read.prompt_tokens(), self.end())?;
        (self.after_prompt, self.prefill) = (read.after_prompt.clone(), None);
        Ok(())
    }

    /// Goes on after the prompt of a sequence that has ended, in its cache.
    pub(super) fn inherit(&mut self, ended: &Self, mut cache: KvCache<T>) {
        cache.truncate(self.history.ids.len());
        (self.cache, self.after_prompt, self.prefill) = (cache, ended.after_prompt.clone(), None);
    }

    pub(super) fn ended(&self) -> bool {
        self.stopped || self.generated.len() >= self.max_tokens
    }

    /// Maximum length in tokens, prompt and answer.
    pub(super) fn end(&self) -> usize {
        self.history.ids.len() + self.max_tokens - self.generated.len()
    }

    /// What the next token is drawn by, where the device can do so.
    pub(super) fn draw(&self) -> Option<Draw> {
        self.sampler.draw().map(|draw| Draw { logprob_temperature: self.temperature, ..draw })
    }

    /// Adds the next token to the answer.
    ///
    /// # Errors
    /// Logits that are NaN or infinite.
    pub(super) fn choose(
        &mut self,
        scores: Scores<'_>,
        defaults: &Defaults,
        prompter: &Prompter,
    ) -> Result<(), Error> {
        self.sample(scores).map_err(|error| {
            let (step, prompt) = (self.generated.len() + 1, self.prompt_tokens());
            Error::Compute(format!(
                "token {step} of the answer to a prompt of {prompt} tokens: {error}; the weights are damaged, or \
                 overflow in this --dtype"
            ))
        })?;
        let last = self.generated.last();
        self.stopped = last.is_some_and(|id| defaults.stop.contains(id)) || self.stops_here(prompter);
        Ok(())
    }

    fn sample(&mut self, scores: Scores<'_>) -> Result<(), Error> {
        let id = match scores {
            Scores::Logits(logits) => self.sampler.next(logits, &self.history.ids, self.generated.len())?,
            Scores::Drawn(id, _) => {
                self.sampler.drawn();
                id
            }
        };
        if let Some(logprobs) = &mut self.logprobs {
            logprobs.push(match scores {
                Scores::Logits(logits) => log_probability(logits, id, self.temperature)?,
                Scores::Drawn(_, logprob) => logprob,
            });
        }
        self.first.get_or_insert_with(Instant::now);
        self.generated.push(id);
        self.history.ids.push(id);
        Ok(())
    }

    /// Whether the end of the answer holds a stop text. A token is at least one byte of text, unless it is special.
    fn stops_here(&self, prompter: &Prompter) -> bool {
        let Some(longest) = self.stop.iter().map(String::len).max() else { return false };
        let start = self.generated.len().saturating_sub(longest + 8);
        let text = prompter.decode(&self.generated[start..]).unwrap_or_default();
        self.stop.iter().any(|stop| text.contains(stop))
    }

    pub(super) fn answer(self) {
        let Self { generated: ids, logprobs, stopped, first, reply, .. } = self;
        let _ = reply.send(Ok(Answer { ids, logprobs, stopped, first }));
    }

    /// Reads the next tokens of the prompt, after those that the cache holds.
    ///
    /// # Errors
    /// Tensor arithmetic, e.g. no memory.
    pub(super) fn pass<O: Ops<Tensor = T>>(
        &mut self,
        model: &Model<O>,
        limits: PassLimits,
    ) -> Result<(), Error> {
        let Some(Prefill { prompt, state }) = &mut self.prefill else { return Ok(()) };
        let state = match state {
            Some(state) => state,
            None => state.insert(State::new(model, prompt, self.cache.len(), limits)?),
        };
        let end = (state.start + state.step).min(prompt.ids.len());
        let later = state.visual.split_off(state.visual.partition_point(|place| *place < end));
        let places: Vec<u32> = state.visual.iter().map(|place| (place - state.start) as u32).collect();
        let features = state.features.take(model, places.len())?;
        let rows = Rows {
            ids: &prompt.ids[state.start..end],
            positions: &prompt.positions[state.start..end],
            visual: &places,
            features: features.as_ref(),
            cache: Some(&mut self.cache),
            shared: 0..0,
            last_only: true,
        };
        let hidden = model.hidden(&mut [rows])?;
        (state.visual, state.start) = (later, end);
        if end < prompt.ids.len() {
            return Ok(());
        }
        let last = model.ops.shape(&hidden)[0] - 1;
        let logits = model.logits(&model.ops.narrow(&hidden, 0, last, 1)?)?;
        self.after_prompt = Some(model.ops.download(&logits)?.into());
        self.prefill = None;
        Ok(())
    }
}

impl<T: Clone> State<T> {
    /// Of a prompt whose first `held` tokens are in the cache.
    fn new<O: Ops<Tensor = T>>(
        model: &Model<O>,
        prompt: &Prompt,
        held: usize,
        limits: PassLimits,
    ) -> Result<Self, Error> {
        let left = prompt.ids.len().checked_sub(held).filter(|left| *left > 0);
        let left = left.ok_or_else(|| Error::Prompt("the prompt is empty".to_owned()))?;
        let runs = prompt.media.iter().flat_map(|medium| &medium.runs);
        let mut visual: Vec<usize> = runs.flat_map(|&(start, length)| start..start + length).collect();
        let visual = visual.split_off(visual.partition_point(|place| *place < held));
        let tokens: usize = prompt.media.iter().flat_map(|medium| &medium.runs).map(|run| run.1).sum();
        let (media, skipped) = (prompt.media.clone(), tokens - visual.len());
        let features = LazyVisionFeatures::new(model, media, skipped, limits.patches)?;
        // Passes of about equal length: a short last one would read all weights for a few rows.
        let step = left.div_ceil(left.div_ceil(limits.tokens));
        Ok(Self { visual, features, start: held, step })
    }
}
