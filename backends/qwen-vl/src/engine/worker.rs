//! The thread that owns the tensors: takes conversations in, decodes all open ones together.

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use futures::channel::oneshot;

use super::features::Upcoming;
use super::prefix::History;
use super::{Answer, Job, Options};
use crate::error::Error;
use crate::model::{KvCache, Model, Rows};
use crate::ops::Ops;
use crate::prompt::Prompt;
use crate::sampling::{Defaults, Sampler, log_probability};

/// Prompt tokens of one pass: bounds activations, whatever the prompt's length.
const PASS_TOKENS: usize = 640;
/// Caches of ended conversations that are kept for what follows on them.
const KEPT: usize = 32;

/// The owner of a model.
pub struct Worker<O: Ops> {
    model: Model<O>,
    defaults: Defaults,
    open: Vec<Sequence<O::Tensor>>,
    /// Ended sequences, last used last.
    kept: VecDeque<(History, KvCache<O::Tensor>)>,
    cache_tokens: usize,
    batch: usize,
    reuse: bool,
    tempered_logprobs: bool,
}

/// One conversation that is being answered.
struct Sequence<T> {
    history: History,
    cache: KvCache<T>,
    next_position: u32,
    sampler: Sampler,
    generated: Vec<u32>,
    logprobs: Option<Vec<f32>>,
    /// What logits are divided by before their log-probabilities are taken.
    temperature: f32,
    most: usize,
    stopped: bool,
    /// When the first token was chosen.
    first: Option<Instant>,
    reply: oneshot::Sender<Result<Answer, Error>>,
}

impl<O: Ops> Worker<O> {
    pub fn new(model: Model<O>, defaults: Defaults, cache_tokens: usize, options: &Options) -> Self {
        let Options { batch, reuse, tempered_logprobs, .. } = *options;
        let (open, kept) = (Vec::new(), VecDeque::new());
        Self { model, defaults, open, kept, cache_tokens, batch: batch.max(1), reuse, tempered_logprobs }
    }

    /// Works until all senders are gone and everything is answered.
    pub fn run(mut self, queue: &Receiver<Job>) {
        let mut waiting: VecDeque<Job> = VecDeque::new();
        loop {
            if self.open.is_empty() && waiting.is_empty() {
                match queue.recv() {
                    Ok(job) => waiting.push_back(job),
                    Err(_) => return,
                }
            }
            while let Ok(job) = queue.try_recv() {
                waiting.push_back(job);
            }
            waiting.retain(|job| !job.reply.is_canceled());
            while self.open.len() < self.batch
                && let Some(job) = waiting.pop_front_if(|job| self.has_room(job))
            {
                self.admit(job);
            }
            self.step();
        }
    }

    /// Whether a job fits beside the open ones; a first one always does, it was checked on arrival.
    fn has_room(&self, job: &Job) -> bool {
        let open: usize =
            self.open.iter().map(|sequence| sequence.cache.capacity().max(sequence.end())).sum();
        let new = job.prompt.ids.len() + job.generation.max_tokens as usize;
        self.open.is_empty() || open + new <= self.cache_tokens
    }

    /// Reads a prompt and chooses the first token.
    fn admit(&mut self, job: Job) {
        let Job { prompt, generation, reply } = job;
        let history = History::of(&prompt);
        let mut sequence = Sequence {
            cache: KvCache::default(),
            history,
            next_position: prompt.next_position,
            sampler: Sampler::new(&generation, &self.defaults),
            generated: Vec::new(),
            logprobs: generation.logprobs.then(Vec::new),
            temperature: match generation.temperature as f32 {
                temperature if self.tempered_logprobs && temperature > 0.0 => temperature,
                _ => 1.0,
            },
            most: generation.max_tokens as usize,
            stopped: false,
            first: None,
            reply,
        };
        if sequence.most == 0 {
            sequence.answer();
            return;
        }
        match self.prefill(prompt, &mut sequence) {
            Ok(logits) => {
                sequence.take(&logits, &self.defaults.stop);
                self.open.push(sequence);
                self.close_ended();
            }
            Err(error) => {
                let _ = sequence.reply.send(Err(error));
            }
        }
    }

    /// Runs what no kept cache holds of a prompt; logits after its last token.
    fn prefill(&mut self, prompt: Prompt, sequence: &mut Sequence<O::Tensor>) -> Result<Vec<f32>, Error> {
        sequence.cache = self.start_cache(&sequence.history, sequence.most)?;
        let held = sequence.cache.len();
        let Prompt { ids, positions, media, .. } = prompt;
        let runs = media.iter().flat_map(|medium| &medium.runs);
        let visual: Vec<usize> = runs.flat_map(|&(start, length)| start..start + length).collect();
        let (before, mut visual) = visual.split_at(visual.partition_point(|place| *place < held));
        let mut features = Upcoming::new(&self.model, media, before.len())?;
        let mut hidden = None;
        let mut start = held;
        // Of about one length: a short last pass would read all weights for a few rows.
        let passes = (ids.len() - held).div_ceil(PASS_TOKENS).max(1);
        let most = (ids.len() - held).div_ceil(passes);
        while start < ids.len() {
            let end = (start + most).min(ids.len());
            let (now, later) = visual.split_at(visual.partition_point(|place| *place < end));
            let places: Vec<u32> = now.iter().map(|place| (place - start) as u32).collect();
            let part = features.take(&self.model, places.len())?;
            visual = later;
            let rows = Rows {
                ids: &ids[start..end],
                positions: &positions[start..end],
                visual: &places,
                features: part.as_ref(),
                cache: Some(&mut sequence.cache),
                last_only: true,
            };
            hidden = Some(self.model.hidden(&mut [rows])?);
            start = end;
        }
        let hidden = hidden.ok_or_else(|| Error::Prompt("an empty prompt".to_owned()))?;
        let last = self.model.ops.shape(&hidden)[0] - 1;
        let logits = self.model.logits(&self.model.ops.narrow(&hidden, 0, last, 1)?)?;
        self.model.ops.download(&logits)
    }

    /// The kept cache that shares the longest start with a prompt, cut to it; or a copy of an open one's
    /// start; or an empty one. At least one token is left to run.
    fn start_cache(&mut self, history: &History, new: usize) -> Result<KvCache<O::Tensor>, Error> {
        let tokens = history.ids.len();
        // Room for the answer is made as it grows: most are short.
        let capacity = tokens + new.min(256);
        let shared = |other: &History| if self.reuse { history.common(other, tokens - 1) } else { 0 };
        let kept = (0..self.kept.len()).map(|place| (shared(&self.kept[place].0), place)).max();
        let open = (0..self.open.len()).map(|place| (shared(&self.open[place].history), place)).max();
        let (kept_length, open_length) = (kept.map_or(0, |best| best.0), open.map_or(0, |best| best.0));
        let ops = &self.model.ops;
        let cache = match (kept, open) {
            (Some((length, place)), _) if length > 0 && length >= open_length => {
                // Taken where most of it goes on; copied where little is shared and its own conversation
                // may still come back.
                if 2 * length >= self.kept[place].0.ids.len() {
                    self.kept.remove(place).map(|(_, mut cache)| {
                        cache.truncate(length);
                        cache
                    })
                } else {
                    Some(self.kept[place].1.copy(ops, length, capacity)?)
                }
            }
            (_, Some((length, place))) if length > kept_length => {
                let cache = &self.open[place].cache;
                Some(cache.copy(ops, length.min(cache.len()), capacity)?)
            }
            _ => None,
        };
        let held = cache.as_ref().map_or(0, KvCache::capacity).max(capacity);
        self.make_room(held);
        cache.map_or_else(|| KvCache::new(&self.model.ops, &self.model.config.text, capacity), Ok)
    }

    /// Lets go of kept caches, oldest first, until `tokens` more fit.
    fn make_room(&mut self, tokens: usize) {
        let open: usize = self.open.iter().map(|sequence| sequence.cache.capacity()).sum();
        while self.kept.len() > KEPT
            || open + tokens + self.kept.iter().map(|(_, cache)| cache.capacity()).sum::<usize>()
                > self.cache_tokens
        {
            if self.kept.pop_front().is_none() {
                return;
            }
        }
    }

    /// One token for every open sequence.
    fn step(&mut self) {
        self.open.retain(|sequence| !sequence.reply.is_canceled());
        if self.open.is_empty() {
            return;
        }
        match self.decode() {
            Ok(logits) => {
                let width = self.model.config.text.vocab_size;
                for (sequence, logits) in self.open.iter_mut().zip(logits.chunks(width)) {
                    sequence.next_position += 1;
                    sequence.take(logits, &self.defaults.stop);
                }
                self.close_ended();
            }
            Err(error) => {
                let message = error.to_string();
                for sequence in self.open.drain(..) {
                    let _ = sequence.reply.send(Err(Error::Compute(message.clone())));
                }
            }
        }
    }

    fn decode(&mut self) -> Result<Vec<f32>, Error> {
        let tokens: Vec<([u32; 1], [[u32; 3]; 1])> = self
            .open
            .iter()
            .map(|sequence| {
                let last = sequence.generated.last().copied().unwrap_or_default();
                ([last], [[sequence.next_position; 3]])
            })
            .collect();
        let mut batch: Vec<Rows<'_, O::Tensor>> = self
            .open
            .iter_mut()
            .zip(&tokens)
            .map(|(sequence, (ids, positions))| Rows {
                ids,
                positions,
                visual: &[],
                features: None,
                cache: Some(&mut sequence.cache),
                last_only: true,
            })
            .collect();
        let hidden = self.model.hidden(&mut batch)?;
        self.model.ops.download(&self.model.logits(&hidden)?)
    }

    /// Answers what has ended, and keeps the caches.
    fn close_ended(&mut self) {
        let mut place = 0;
        while place < self.open.len() {
            if !self.open[place].ended() {
                place += 1;
                continue;
            }
            let mut sequence = self.open.remove(place);
            let cache = std::mem::take(&mut sequence.cache);
            // The last token was never run.
            let mut history = std::mem::take(&mut sequence.history);
            history.truncate(cache.len());
            if self.reuse {
                self.kept.push_back((history, cache));
            }
            sequence.answer();
        }
        self.make_room(0);
    }
}

impl<T: Clone> Sequence<T> {
    fn take(&mut self, logits: &[f32], stop: &[u32]) {
        let id = self.sampler.next(logits, &self.history.ids);
        self.first.get_or_insert_with(Instant::now);
        if let Some(logprobs) = &mut self.logprobs {
            logprobs.push(log_probability(logits, id, self.temperature));
        }
        self.generated.push(id);
        self.history.ids.push(id);
        self.stopped = stop.contains(&id);
    }

    fn ended(&self) -> bool {
        self.stopped || self.generated.len() >= self.most
    }

    /// Tokens it may come to.
    fn end(&self) -> usize {
        self.history.ids.len() + self.most - self.generated.len()
    }

    fn answer(self) {
        let Self { generated: ids, logprobs, stopped, first, reply, .. } = self;
        let _ = reply.send(Ok(Answer { ids, logprobs, stopped, first }));
    }
}
