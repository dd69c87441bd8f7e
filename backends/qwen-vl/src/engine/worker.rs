//! The thread that owns the tensors: takes conversations in, decodes all open ones together.

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;

use futures::channel::oneshot;

use super::prefix::History;
use super::{Answer, Job, Options};
use crate::error::Error;
use crate::model::{Features, KvCache, Model, Rows};
use crate::ops::Ops;
use crate::prompt::{Medium, Prompt};
use crate::sampling::{Defaults, Sampler, log_probability};

/// Prompt tokens of one pass: bounds activations, whatever the prompt's length.
const PASS_TOKENS: usize = 640;
/// Patches that the vision tower sees at once.
const PASS_PATCHES: usize = 1024;
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

/// Features of a prompt's last media.
struct Encoded<T> {
    features: Features<T>,
    /// Visual tokens they are for.
    tokens: usize,
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
            cache: KvCache::new(0, 0),
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
        let encoded = self.encode(&media, held)?;
        let runs = media.iter().flat_map(|medium| &medium.runs);
        let visual: Vec<usize> = runs.flat_map(|&(start, length)| start..start + length).collect();
        // Not held beside the activations of the passes to come.
        drop(media);
        // Visual tokens that are held already, and the row of the features that the first other one has.
        let mut visual = &visual[visual.iter().take_while(|place| **place < held).count()..];
        let mut row = encoded.as_ref().map_or(0, |encoded| encoded.tokens - visual.len());
        let mut hidden = None;
        let mut start = held;
        // Of about one length: a short last pass would read all weights for a few rows.
        let passes = (ids.len() - held).div_ceil(PASS_TOKENS).max(1);
        let most = (ids.len() - held).div_ceil(passes);
        while start < ids.len() {
            let end = (start + most).min(ids.len());
            let count = visual.iter().take_while(|place| **place < end).count();
            let places: Vec<u32> = visual[..count].iter().map(|place| (place - start) as u32).collect();
            let part = match &encoded {
                Some(encoded) if count > 0 => {
                    let ops = &self.model.ops;
                    Some(encoded.features.map(|tensor| ops.narrow(tensor, 0, row, count))?)
                }
                _ => None,
            };
            (row, visual) = (row + count, &visual[count..]);
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
        Ok(cache.unwrap_or_else(|| KvCache::new(self.model.config.text.num_hidden_layers, capacity)))
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

    /// Features of every medium that is not wholly held; those are the last ones.
    fn encode(&self, media: &[Medium], held: usize) -> Result<Option<Encoded<O::Tensor>>, Error> {
        let end = |runs: &[(usize, usize)]| runs.last().map_or(0, |(start, length)| start + length);
        let first = media.iter().take_while(|medium| end(&medium.runs) <= held).count();
        let runs = media[first..].iter().flat_map(|medium| &medium.runs);
        let tokens = runs.map(|(_, length)| length).sum();
        // Written in place: features of many frames are in memory once.
        let (mut whole, mut row): (Option<Features<O::Tensor>>, usize) = (None, 0);
        let ops = &self.model.ops;
        let mut rest = &media[first..];
        while !rest.is_empty() {
            let (mut count, mut patches) = (0, 0);
            while count < rest.len()
                && (count == 0 || patches + rest[count].patches.grid.patches() <= PASS_PATCHES)
            {
                patches += rest[count].patches.grid.patches();
                count += 1;
            }
            let (now, later) = rest.split_at(count);
            let values: Vec<f32> = now.iter().flat_map(|medium| medium.patches.values()).collect();
            let grids: Vec<_> = now.iter().map(|medium| medium.patches.grid).collect();
            let part = self.model.encode(&values, &grids)?;
            let whole = match &whole {
                Some(whole) => whole,
                None => whole.insert(part.map(|tensor| ops.buffer(tokens, tensor))?),
            };
            for (whole, part) in whole.tensors().zip(part.tensors()) {
                ops.write(whole, row, part)?;
            }
            row += ops.shape(&part.merged)[0];
            rest = later;
        }
        Ok(whole.map(|features| Encoded { features, tokens }))
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
            let cache = std::mem::replace(&mut sequence.cache, KvCache::new(0, 0));
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
        let answer = Answer { ids: self.generated, logprobs: self.logprobs, stopped: self.stopped };
        let _ = self.reply.send(Ok(answer));
    }
}
