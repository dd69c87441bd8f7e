//! Micro-batches on several threads.
//!
//! Small matrices do not fill all cores; whole micro-batches do. Each worker has its share of the cores as
//! a pool of its own, so that no kernel waits for another micro-batch's. Results come back in order, so
//! that sums over them do not depend on which thread was first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::compute::Compute;
use crate::error::{Error, Result};

/// The threads of a trainer, kept from step to step: kernels have buffers of their threads.
pub struct Workers {
    /// Micro-batches that are computed at a time.
    at_once: usize,
    /// Pools by their number.
    pools: Mutex<BTreeMap<usize, Arc<Vec<ThreadPool>>>>,
}

impl Workers {
    /// As many micro-batches at a time as there are cores on the CPU. One on another device: it is busy with
    /// one, and its memory is bounded by the tokens of one.
    pub fn new(compute: &Compute) -> Self {
        let at_once = if compute.device.is_cpu() { rayon::current_num_threads() } else { 1 };
        Self { at_once, pools: Mutex::default() }
    }

    /// One pool per micro-batch that is computed at a time: one per core, or fewer with more cores each.
    fn pools(&self, parts: usize) -> Result<Arc<Vec<ThreadPool>>> {
        let cores = rayon::current_num_threads();
        let count = self.at_once.min(parts).max(1);
        let mut known = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pools) = known.get(&count) {
            return Ok(Arc::clone(pools));
        }
        let share = |worker: usize| (worker + 1) * cores / count - worker * cores / count;
        let pools = (0..count).map(|worker| ThreadPoolBuilder::new().num_threads(share(worker)).build());
        let pools: Vec<ThreadPool> = pools
            .collect::<std::result::Result<_, _>>()
            .map_err(|error| Error::Threads(error.to_string()))?;
        let pools = Arc::new(pools);
        known.insert(count, Arc::clone(&pools));
        Ok(pools)
    }

    /// `work` of every part, in the order of the parts.
    ///
    /// # Errors
    /// The first part in order that failed.
    pub fn map<P: Sync, R: Send>(
        &self,
        parts: &[P],
        work: impl Fn(&P) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let pools = self.pools(parts.len())?;
        let queue = Mutex::new(0..parts.len());
        let results = Mutex::new((0..parts.len()).map(|_| None).collect::<Vec<_>>());
        std::thread::scope(|scope| {
            for pool in pools.iter() {
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
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn no_more_parts_are_computed_at_a_time_than_the_device_takes() {
        for at_once in [1, 2] {
            let workers = Workers { at_once, pools: Mutex::default() };
            let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let parts: Vec<usize> = (0..8).collect();
            for _ in 0..2 {
                let done = workers.map(&parts, |part| {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok(part * 2)
                });
                assert_eq!(done.unwrap(), [0, 2, 4, 6, 8, 10, 12, 14]);
            }
            assert_eq!(most.into_inner(), at_once);
            assert_eq!(workers.pools.lock().unwrap().len(), 1, "pools are kept");
        }
    }
}
