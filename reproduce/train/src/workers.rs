//! Micro-batches on several threads.
//!
//! Small matrices do not fill all cores; whole micro-batches do. Results come back in order, so that sums
//! over them do not depend on which thread was first.

use std::sync::Mutex;
use std::sync::PoisonError;

use crate::error::Result;

/// Threads that compute micro-batches: one per core, each holding the activations of one micro-batch.
fn count(parts: usize) -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(parts)
}

/// `work` of every part, in the order of the parts.
///
/// # Errors
/// The first part in order that failed.
pub fn map<P: Sync, R: Send>(parts: &[P], work: impl Fn(&P) -> Result<R> + Sync) -> Result<Vec<R>> {
    let queue = Mutex::new(0..parts.len());
    let results = Mutex::new((0..parts.len()).map(|_| None).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for _ in 0..count(parts.len()) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(place) = next else { return };
                    let result = work(&parts[place]);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().flatten().collect()
}
