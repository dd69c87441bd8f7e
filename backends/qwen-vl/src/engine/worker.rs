//! The thread that owns the tensors: takes conversations in, decodes all open ones together.
//!
//! The caches never exceed the planned memory: a sequence is admitted only if its maximum length fits beside the open
//! ones, and finished sequences that are kept for reuse are dropped first.
//!
//! Samples of one prompt that are open together are prefilled once: the cache is copied after the prompt.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rayon::prelude::*;

use super::memory::Taken;
use super::prefix::History;
use super::prefix_cache::PrefixCache;
use super::sequence::{Scores, Sequence};
use super::{Job, MemoryPlan, Options};
use crate::error::Error;
use crate::model::{KvCache, Model, Rows};
use crate::ops::{Ops, PassLimits};
use crate::prompt::Prompter;
use crate::sampling::{Defaults, Draw, Sampler};

/// The owner of a model.
pub(super) struct Worker<O: Ops> {
    model: Model<O>,
    prompter: Arc<Prompter>,
    defaults: Defaults,
    waiting: VecDeque<Job>,
    open: Vec<Sequence<O::Tensor>>,
    prefixes: PrefixCache<O::Tensor>,
    cache_tokens: usize,
    taken: Arc<Taken>,
    pass: PassLimits,
    batch: usize,
    /// Maximum number of open sequences, after a prompt that did not fit into memory beside them.
    max_running: usize,
    reuse: bool,
    tempered_logprobs: bool,
}

/// What a pass says of the next tokens.
enum Next {
    /// Logits, row by row, and their width.
    Logits(Vec<f32>, usize),
    /// See [`Ops::sample`].
    Drawn(Vec<(u32, f32)>),
}

impl Next {
    /// Of each sequence.
    fn rows(&self) -> Vec<Scores<'_>> {
        match self {
            Self::Logits(logits, width) => logits.chunks(*width).map(Scores::Logits).collect(),
            Self::Drawn(found) => found.iter().map(|&(id, logprob)| Scores::Drawn(id, logprob)).collect(),
        }
    }
}

impl<O: Ops> Worker<O> {
    pub(super) fn new(
        model: Model<O>,
        prompter: Arc<Prompter>,
        defaults: Defaults,
        (plan, taken): (&MemoryPlan, Arc<Taken>),
        options: &Options,
    ) -> Self {
        taken.peak(&model.ops);
        Self {
            model,
            prompter,
            defaults,
            waiting: VecDeque::new(),
            open: Vec::new(),
            prefixes: PrefixCache::default(),
            cache_tokens: plan.cache_tokens,
            taken,
            pass: plan.pass,
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
            self.open.extend(self.sequence(job));
        }
    }

    /// A sequence before its prefill; none where the request asks for nothing, or for what cannot be.
    fn sequence(&self, job: Job) -> Option<Sequence<O::Tensor>> {
        let sampler = match Sampler::new(&job.generation, &self.defaults) {
            Ok(sampler) => sampler,
            Err(error) => {
                drop(job.reply.send(Err(error)));
                return None;
            }
        };
        let sequence = Sequence::new(job, sampler, self.tempered_logprobs);
        if sequence.ended() {
            sequence.answer();
            return None;
        }
        Some(sequence)
    }

    /// One prefill chunk of the oldest unfinished prompt; then the first tokens of the answers to all that are read.
    fn prefill(&mut self) {
        self.fork();
        if let Some(place) = self.open.iter().position(|sequence| sequence.prefill.is_some()) {
            match self.prepare(place).and_then(|()| self.open[place].pass(&self.model, self.pass)) {
                Ok(()) => self.fork(),
                Err(error) => self.give_up(place, error),
            }
        }
        let first =
            self.open.iter().enumerate().filter_map(|(place, one)| Some((place, one.first_logits()?)));
        let (places, logits): (Vec<usize>, Vec<Arc<[f32]>>) = first.unzip();
        self.choose(&places, logits.iter().map(|logits| Scores::Logits(logits)).collect());
    }

    /// Other samples of a prompt that is read need no prefill of their own.
    fn fork(&mut self) {
        let read_of = |open: &[Sequence<O::Tensor>], place: usize| {
            let fresh: &Sequence<_> = &open[place];
            let read = || open.iter().position(|read| read.has_read(&fresh.history));
            if fresh.is_fresh() { read() } else { None }
        };
        for place in (0..self.open.len()).rev() {
            let Some(read) = read_of(&self.open, place) else { continue };
            self.make_room(self.open[place].end());
            let mut sequence = self.open.remove(place);
            let forked = sequence.fork(&self.model, &self.open[read - usize::from(read > place)]);
            self.open.insert(place, sequence);
            if let Err(error) = forked {
                self.give_up(place, error);
            }
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
    /// start; or an empty one. At least one token is left to run. There is room for the prompt, in a new one for the
    /// answer too.
    fn start_cache(&mut self, history: &History, capacity: usize) -> Result<KvCache<O::Tensor>, Error> {
        let tokens = history.ids.len();
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
                if !(tokens..=capacity).contains(&cache.capacity()) {
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
        self.taken.caches(self.open_tokens() + self.prefixes.tokens() + tokens);
    }

    /// The next token of every open answer.
    fn decode(&mut self) {
        let ready: Vec<usize> =
            (0..self.open.len()).filter(|&place| !self.open[place].generated.is_empty()).collect();
        if ready.is_empty() {
            return;
        }
        match self.forward(&ready) {
            Ok(next) => self.choose(&ready, next.rows()),
            // Each is retried alone, which shows the one that fails; the others continue.
            Err(_) => {
                self.prefixes.evict_to(0);
                for &place in ready.iter().rev() {
                    match self.forward(&[place]) {
                        Ok(next) => self.choose(&[place], next.rows()),
                        Err(error) => drop(self.open.remove(place).reply.send(Err(error))),
                    }
                }
            }
        }
    }

    /// The pass after the last token of some sequences.
    fn forward(&mut self, places: &[usize]) -> Result<Next, Error> {
        for &place in places {
            // One that had a conversation before in it may be smaller.
            let (cache, end) = (&self.open[place].cache, self.open[place].end());
            if cache.len() == cache.capacity() {
                self.make_room(end.saturating_sub(cache.capacity()));
                self.open[place].cache.resize(&self.model.ops, end)?;
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
                shared: 0..0,
                last_only: true,
            })
            .collect();
        let hidden = self.model.hidden(&mut batch)?;
        let (ops, logits) = (&self.model.ops, self.model.logits(&hidden)?);
        let draws: Option<Vec<Draw>> = places.iter().map(|&place| self.open[place].draw()).collect();
        let drawn = draws.map(|draws| ops.sample(&logits, &draws)).transpose()?.flatten();
        let next = match drawn {
            Some(drawn) => Next::Drawn(drawn),
            None => Next::Logits(ops.download(&logits)?, self.model.config.text.vocab_size),
        };
        places.iter().for_each(|&place| self.open[place].next_position += 1);
        Ok(next)
    }

    /// Adds a token to each of some sequences, given in the order of their places, and answers those that end.
    fn choose(&mut self, places: &[usize], scores: Vec<Scores<'_>>) {
        let open = self.open.iter_mut().enumerate().filter(|(place, _)| places.contains(place));
        let open: Vec<_> = open.map(|(_, sequence)| sequence).collect();
        let (defaults, prompter) = (&self.defaults, &self.prompter);
        let chosen: Vec<Result<(), Error>> = open
            .into_par_iter()
            .zip(scores)
            .map(|(sequence, scores)| sequence.choose(scores, defaults, prompter))
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

    /// Answers; the cache is kept, or given to the next sample of its prompt.
    fn close(&mut self, place: usize) {
        let mut sequence = self.open.remove(place);
        let cache = std::mem::take(&mut sequence.cache);
        if self.reuse {
            // The last token was never run.
            let mut history = std::mem::take(&mut sequence.history);
            history.truncate(cache.len());
            self.prefixes.push(history, cache);
        } else {
            self.hand_over(&sequence, cache);
        }
        self.make_room(0);
        self.taken.peak(&self.model.ops);
        sequence.answer();
    }

    /// The first waiting sample of the prompt of an answer that has ended, and that has room in its cache, is opened.
    fn hand_over(&mut self, ended: &Sequence<O::Tensor>, cache: KvCache<O::Tensor>) {
        let fits = |job: &Job| job.end() <= cache.capacity() && ended.has_read(&job.history);
        let next = self.waiting.iter().position(fits).and_then(|at| self.waiting.remove(at));
        if let Some(mut next) = next.and_then(|job| self.sequence(job)) {
            next.inherit(ended, cache);
            self.open.push(next);
        }
    }
}
