//! Prefix cache: keys and values of finished sequences, for prompts with the same beginning.

use std::collections::VecDeque;

use super::prefix::History;
use crate::model::KvCache;

/// Maximum number of finished sequences.
const MAX_SEQUENCES: usize = 32;

/// Finished sequences, last used last.
pub(super) struct PrefixCache<T>(VecDeque<(History, KvCache<T>)>);

impl<T> Default for PrefixCache<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Clone> PrefixCache<T> {
    /// Adds one; the oldest goes where there are too many.
    pub(super) fn push(&mut self, history: History, cache: KvCache<T>) {
        if self.0.len() == MAX_SEQUENCES {
            self.0.pop_front();
        }
        self.0.push_back((history, cache));
    }

    /// Tokens that all of them have room for.
    pub(super) fn tokens(&self) -> usize {
        self.0.iter().map(|(_, cache)| cache.capacity()).sum()
    }

    /// Evicts the oldest until at most so many tokens are left.
    pub(super) fn evict_to(&mut self, tokens: usize) {
        while self.tokens() > tokens && self.0.pop_front().is_some() {}
    }

    /// Tokens that the best one shares with the start of a history, at most `limit`, and its place.
    pub(super) fn longest(&self, history: &History, limit: usize) -> Option<(usize, usize)> {
        let shared = |place: usize| history.common(&self.0[place].0, limit);
        (0..self.0.len()).map(|place| (shared(place), place)).filter(|(length, _)| *length > 0).max()
    }

    /// Takes one out.
    pub(super) fn take(&mut self, place: usize) -> Option<(History, KvCache<T>)> {
        self.0.remove(place)
    }
}
