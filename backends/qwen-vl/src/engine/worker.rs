//! The thread that owns the tensors: takes conversations in, decodes all open ones together.
//!
//! The caches never exceed the planned memory: a sequence is admitted only if its maximum length fits beside the open
//! ones, its cache grows by blocks up to that, and finished sequences that are kept for reuse are dropped first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rayon::prelude::*;

use super::prefix::History;
use super::prefix_cache::PrefixCache;
use super::sequence::Sequence;
use super::{Job, Options};
use crate::error::Error;
use crate::model::{BLOCK, KvCache, Model, Rows};
use crate::ops::Ops;
use crate::prompt::Prompter;
use crate::sampling::{Defaults, Sampler};

/// The owner of a model.
pub(super) struct Worker<O: Ops> {
    model: Model<O>,
    prompter: Arc<Prompter>,
    defaults: Defaults,
    waiting: VecDeque<Job>,
    open: Vec<Sequence<O::Tensor>>,
    prefixes: PrefixCache<O::Tensor>,
    cache_tokens: usize,
    batch: usize,
    /// Maximum number of open sequences, after a prompt that did not fit into memory beside them.
    max_running: usize,
    reuse: bool,
    tempered_logprobs: bool,
}

impl<O: Ops> Worker<O> {
    pub(super) fn new(
        model: Model<O>,
        prompter: Arc<Prompter>,
        defaults: Defaults,
        cache_tokens: usize,
        options: &Options,
    ) -> Self {
        Self {
            model,
            prompter,
            defaults,
            waiting: VecDeque::new(),
            open: Vec::new(),
            prefixes: PrefixCache::default(),
            cache_tokens,
            batch: options.batch.max(1),
            max_running: usize::MAX,
            reuse: options.reuse,
            tempered_logprobs: options.tempered_logprobs,
        }
    }

    /// Works until all senders are gone and everything is answered. Between two tokens of the open answers at most one
    /// pass of a prompt is read.
    pub(super) fn run(mut self, queue: &Receiver<Job>) {
        loop {
            if self.open.is_empty() && self.waiting.is_empty() {
                match queue.recv() {
                    Ok(job) => self.waiting.push_back(job),
                    Err(_) => return,
                }
            }
            self.waiting.extend(queue.try_iter());
            self.waiting.retain(|job| !job.reply.is_canceled());
            self.open.retain(|sequence| !sequence.reply.is_canceled());
            self.admit();
            self.prefill();
            self.decode();
        }
    }

    /// Opens waiting conversations in their order, as long as the next one fits beside the open ones. A first one
    /// always does: that was checked on its arrival.
    fn admit(&mut self) {
        if self.open.len() < self.max_running {
            self.max_running = usize::MAX;
        }
        while self.open.len() < self.batch.min(self.max_running) {
            let reserved: usize =
                self.open.iter().map(|sequence| sequence.cache.capacity().max(sequence.end())).sum();
            let free = self.cache_tokens.saturating_sub(reserved);
            let alone = self.open.is_empty();
            let Some(job) = self.waiting.pop_front_if(|job| alone || job.end() <= free) else { return };
            let sampler = match Sampler::new(&job.generation, &self.defaults) {
                Ok(sampler) => sampler,
                Err(error) => {
                    drop(job.reply.send(Err(error)));
                    continue;
                }
            };
            match Sequence::new(job, sampler, self.tempered_logprobs) {
                sequence if sequence.ended() => sequence.answer(),
                sequence => self.open.push(sequence),
            }
        }
    }

    /// One prefill chunk of the oldest unfinished prompt.
    fn prefill(&mut self) {
        let Some(place) = self.open.iter().position(|sequence| sequence.prefill.is_some()) else { return };
        let logits = self.prepare(place).and_then(|()| self.open[place].pass(&self.model));
        match logits {
            Ok(None) => {}
            Ok(Some(logits)) => self.choose(&[place], &logits),
            Err(error) => self.give_up(place, error),
        }
    }

    /// Gives a sequence its cache before its first pass: by then the prompt before it, which may begin alike, is read.
    fn prepare(&mut self, place: usize) -> Result<(), Error> {
        if !self.open[place].is_fresh() || self.open[place].cache.capacity() > 0 {
            return Ok(());
        }
        let (history, end) = (self.open[place].history.clone(), self.open[place].end());
        self.open[place].cache = self.start_cache(&history, end)?;
        Ok(())
    }

    /// Fails a prompt; after out-of-memory it is requeued if evicting prefixes or closing others can free memory.
    fn give_up(&mut self, place: usize, error: Error) {
        let sequence = self.open.remove(place);
        let can_help = !self.open.is_empty() || self.prefixes.tokens() > 0;
        if matches!(error, Error::Memory(_)) && can_help {
            self.prefixes.evict_to(0);
            self.max_running = self.open.len().max(1);
            self.waiting.extend(sequence.into_job());
            self.waiting.rotate_right(1);
        } else {
            let _ = sequence.reply.send(Err(error));
        }
    }

    /// The kept cache that shares the longest start with a prompt, cut to it; or a copy of an open one's
    /// start; or an empty one. At least one token is left to run, and there is room for the prompt and a block.
    fn start_cache(&mut self, history: &History, end: usize) -> Result<KvCache<O::Tensor>, Error> {
        let tokens = history.ids.len();
        // Room for the answer is made as it grows: many are short.
        let capacity = (tokens + BLOCK).min(end);
        let limit = if self.reuse { tokens.saturating_sub(1) } else { 0 };
        let kept = self.prefixes.longest(history, limit);
        let open = (0..self.open.len())
            .map(|place| {
                let held = self.open[place].cache.len();
                (history.common(&self.open[place].history, limit.min(held)), place)
            })
            .filter(|(length, _)| *length > 0)
            .max();
        match (kept, open) {
            (Some((length, place)), open) if open.is_none_or(|open| length >= open.0) => {
                let taken = self.prefixes.take(place);
                let (before, mut cache) =
                    taken.ok_or_else(|| Error::Compute("a kept cache is gone".to_owned()))?;
                // Copied where little is shared, so that its own conversation may still come back; if both fit.
                let both = self.open_tokens() + cache.capacity() + capacity <= self.cache_tokens;
                if 2 * length < before.ids.len() && both {
                    self.make_room(cache.capacity() + capacity);
                    let copy = cache.copy(&self.model.ops, length, capacity)?;
                    self.prefixes.push(before, cache);
                    return Ok(copy);
                }
                cache.truncate(length);
                self.make_room(cache.capacity().max(capacity));
                if !(tokens..=end).contains(&cache.capacity()) {
                    cache.resize(&self.model.ops, capacity)?;
                }
                Ok(cache)
            }
            (_, Some((length, place))) => {
                self.make_room(capacity);
                self.open[place].cache.copy(&self.model.ops, length, capacity)
            }
            _ => {
                self.make_room(capacity);
                KvCache::new(&self.model.ops, &self.model.config.text, capacity)
            }
        }
    }

    /// Tokens that the caches of open sequences have room for.
    fn open_tokens(&self) -> usize {
        self.open.iter().map(|sequence| sequence.cache.capacity()).sum()
    }

    /// Drops kept caches, oldest first, until `tokens` more fit beside the open ones.
    fn make_room(&mut self, tokens: usize) {
        let free = self.cache_tokens.saturating_sub(self.open_tokens());
        self.prefixes.evict_to(free.saturating_sub(tokens));
    }

    /// One token for every open sequence whose prompt is read.
    fn decode(&mut self) {
        let ready: Vec<usize> =
            (0..self.open.len()).filter(|&place| self.open[place].prefill.is_none()).collect();
        if ready.is_empty() {
            return;
        }
        match self.forward(&ready) {
            Ok(logits) => self.choose(&ready, &logits),
            // Each is retried alone, which shows the one that fails; the others continue.
            Err(_) => {
                self.prefixes.evict_to(0);
                for &place in ready.iter().rev() {
                    match self.forward(&[place]) {
                        Ok(logits) => self.choose(&[place], &logits),
                        Err(error) => drop(self.open.remove(place).reply.send(Err(error))),
                    }
                }
            }
        }
    }

    /// Logits after the last token of some sequences. Their caches grow by blocks, never beyond their ends.
    fn forward(&mut self, places: &[usize]) -> Result<Vec<f32>, Error> {
        for &place in places {
            let (length, capacity) = (self.open[place].cache.len(), self.open[place].cache.capacity());
            if length == capacity {
                let grown = (capacity + BLOCK).min(self.open[place].end()).max(capacity + 1);
                self.make_room(grown - capacity);
                self.open[place].cache.resize(&self.model.ops, grown)?;
            }
        }
        let wanted = |place: &usize| places.contains(place);
        let tokens: Vec<([u32; 1], [[u32; 3]; 1])> = places
            .iter()
            .map(|&place| {
                let sequence = &self.open[place];
                let last = sequence.generated.last().copied().unwrap_or_default();
                ([last], [[sequence.next_position; 3]])
            })
            .collect();
        let open = self.open.iter_mut().enumerate().filter(|(place, _)| wanted(place));
        let mut batch: Vec<Rows<'_, O::Tensor>> = open
            .zip(&tokens)
            .map(|((_, sequence), (ids, positions))| Rows {
                ids,
                positions,
                visual: &[],
                features: None,
                cache: Some(&mut sequence.cache),
                last_only: true,
            })
            .collect();
        let hidden = self.model.hidden(&mut batch)?;
        let logits = self.model.ops.download(&self.model.logits(&hidden)?)?;
        places.iter().for_each(|&place| self.open[place].next_position += 1);
        Ok(logits)
    }

    /// Adds a token to each of some sequences, given in the order of their places, and answers those that end.
    fn choose(&mut self, places: &[usize], logits: &[f32]) {
        let width = self.model.config.text.vocab_size;
        let open = self.open.iter_mut().enumerate().filter(|(place, _)| places.contains(place));
        let open: Vec<_> = open.map(|(_, sequence)| sequence).collect();
        let (defaults, prompter) = (&self.defaults, &self.prompter);
        let chosen: Vec<Result<(), Error>> = open
            .into_par_iter()
            .zip(logits.par_chunks(width))
            .map(|(sequence, logits)| sequence.choose(logits, defaults, prompter))
            .collect();
        // From the last on: those that end leave.
        for (&place, chosen) in places.iter().zip(chosen).rev() {
            match chosen {
                Ok(()) if self.open[place].ended() => self.close(place),
                Ok(()) => {}
                Err(error) => drop(self.open.remove(place).reply.send(Err(error))),
            }
        }
    }

    /// Answers, and keeps the cache.
    fn close(&mut self, place: usize) {
        let mut sequence = self.open.remove(place);
        let cache = std::mem::take(&mut sequence.cache);
        // The last token was never run.
        let mut history = std::mem::take(&mut sequence.history);
        history.truncate(cache.len());
        if self.reuse {
            self.prefixes.push(history, cache);
        }
        self.make_room(0);
        sequence.answer();
    }
}
