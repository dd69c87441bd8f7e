//! Requests in flight: additive increase, multiplicative decrease.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Successes at the limit before it grows by one.
const GROW_AFTER: usize = 8;

/// A limit that halves when servers push back and recovers with success.
#[derive(Debug)]
pub(crate) struct Limit {
    max: usize,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug)]
struct State {
    allowed: usize,
    in_flight: usize,
    successes: usize,
    /// Number of times the limit was halved.
    cuts: usize,
}

/// One request in flight. Dropped unfinished (a cancelled request), it only frees its place.
pub(crate) struct Permit<'a> {
    limit: &'a Limit,
    pushback: Option<bool>,
    /// `State::cuts` when the request was let through.
    cuts: usize,
}

impl Limit {
    pub(crate) fn new(max: usize) -> Self {
        let max = max.max(1);
        let state = State { allowed: max, in_flight: 0, successes: 0, cuts: 0 };
        Self { max, state: Mutex::new(state), freed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place.
    pub(crate) async fn acquire(&self) -> Permit<'_> {
        loop {
            let freed = self.freed.notified();
            {
                let mut state = self.state();
                if state.in_flight < state.allowed {
                    state.in_flight += 1;
                    return Permit { limit: self, pushback: None, cuts: state.cuts };
                }
            }
            freed.await;
        }
    }

    #[cfg(test)]
    fn allowed(&self) -> usize {
        self.state().allowed
    }
}

impl Permit<'_> {
    /// Reports how the request ended.
    pub(crate) fn finished(mut self, pushback: bool) {
        self.pushback = Some(pushback);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = self.limit.state();
        state.in_flight -= 1;
        match self.pushback {
            // Requests that were admitted before the last cut belong to the same congestion.
            Some(true) if self.cuts == state.cuts => {
                state.allowed = (state.allowed / 2).max(1);
                state.successes = 0;
                state.cuts += 1;
            }
            Some(true) => {}
            Some(false) => {
                state.successes += 1;
                if state.successes >= GROW_AFTER && state.allowed < self.limit.max {
                    state.allowed += 1;
                    state.successes = 0;
                }
            }
            None => {}
        }
        drop(state);
        self.limit.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rate_limits_halve_concurrency_and_success_restores_it() {
        let limit = Limit::new(8);
        limit.acquire().await.finished(true);
        assert_eq!(limit.allowed(), 4);
        for _ in 0..GROW_AFTER * 4 {
            limit.acquire().await.finished(false);
        }
        assert_eq!(limit.allowed(), 8);
        for _ in 0..10 {
            limit.acquire().await.finished(true);
        }
        assert_eq!(limit.allowed(), 1, "never none");
    }

    #[tokio::test]
    async fn one_congestion_halves_once() {
        let limit = Limit::new(16);
        let mut held = Vec::new();
        for _ in 0..16 {
            held.push(limit.acquire().await);
        }
        held.into_iter().for_each(|permit| permit.finished(true));
        assert_eq!(limit.allowed(), 8);
    }

    #[tokio::test]
    async fn beyond_the_limit_requests_wait_for_a_place() {
        let limit = Limit::new(1);
        let held = limit.acquire().await;
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(20), limit.acquire()).await;
        assert!(waiting.is_err());
        drop(held);
        let _ = limit.acquire().await;
    }
}
