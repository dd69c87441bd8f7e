//! Micro-batches on several threads.
//!
//! Small matrices do not fill all cores; whole micro-batches do. Each worker has its share of the cores as
//! a pool of its own, so that no kernel waits for another micro-batch's. Results come back in order, so
//! that sums over them do not depend on which thread was first.

use std::sync::Mutex;
use std::sync::PoisonError;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

/// One pool per micro-batch that is computed at a time: one per core, or fewer with more cores each.
fn pools(parts: usize) -> Result<Vec<ThreadPool>> {
    let cores = rayon::current_num_threads();
    let count = cores.min(parts);
    let share = |worker: usize| (worker + 1) * cores / count - worker * cores / count;
    let pools = (0..count).map(|worker| ThreadPoolBuilder::new().num_threads(share(worker)).build());
    pools.collect::<std::result::Result<_, _>>().map_err(|error| Error::Settings(format!("threads: {error}")))
}

/// `work` of every part, in the order of the parts.
///
/// # Errors
/// The first part in order that failed.
pub fn map<P: Sync, R: Send>(parts: &[P], work: impl Fn(&P) -> Result<R> + Sync) -> Result<Vec<R>> {
    let pools = pools(parts.len())?;
    let queue = Mutex::new(0..parts.len());
    let results = Mutex::new((0..parts.len()).map(|_| None).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for pool in &pools {
            let take_all = || {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(place) = next else { return };
                    let result = work(&parts[place]);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(result);
                }
            };
            scope.spawn(move || pool.install(take_all));
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().flatten().collect()
}
