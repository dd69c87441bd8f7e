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
        let results = Vec::with_capacity(parts.len());
        self.fold(parts, work, results, |results, result| {
            results.push(result);
            Ok(())
        })
    }

    /// Adds `work` of every part to a sum, in the order of the parts, each as soon as those before it are added: of parts
    /// that are computed one at a time, no two results live.
    ///
    /// # Errors
    /// The first part in order that failed.
    pub fn fold<P: Sync, R: Send, S: Send>(
        &self,
        parts: &[P],
        work: impl Fn(&P) -> Result<R> + Sync,
        sum: S,
        add: impl Fn(&mut S, R) -> Result<()> + Sync,
    ) -> Result<S> {
        let pools = self.pools(parts.len())?;
        let queue = Mutex::new(0..parts.len());
        let sum = Mutex::new(Sum { all: Ok(sum), next: 0, waiting: BTreeMap::new() });
        std::thread::scope(|scope| {
            for pool in pools.iter() {
                let take_all = || {
                    loop {
                        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let Some(place) = next else { return };
                        let result = work(&parts[place]);
                        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                        sum.waiting.insert(place, result);
                        if sum.add_next(&add) {
                            return;
                        }
                    }
                };
                scope.spawn(move || pool.install(take_all));
            }
        });
        sum.into_inner().unwrap_or_else(PoisonError::into_inner).all
    }
}

/// The sum of the parts up to one, and results of later parts.
struct Sum<S, R> {
    all: Result<S>,
    next: usize,
    waiting: BTreeMap<usize, Result<R>>,
}

impl<S, R> Sum<S, R> {
    /// Adds the results that follow. Whether one failed.
    fn add_next(&mut self, add: impl Fn(&mut S, R) -> Result<()>) -> bool {
        while let Ok(all) = &mut self.all
            && let Some(result) = self.waiting.remove(&self.next)
        {
            self.next += 1;
            if let Err(error) = result.and_then(|result| add(all, result)) {
                self.all = Err(error);
            }
        }
        self.all.is_err()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// What counts how many of it live.
    struct Counted<'a>(&'a AtomicUsize);

    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn one_result_lives_at_a_time_where_one_part_is_computed_at_a_time() {
        let workers = Workers { at_once: 1, pools: Mutex::default() };
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let made = |_: &usize| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            Ok(Counted(&now))
        };
        let parts: Vec<usize> = (0..9).collect();
        let added = workers.fold(&parts, made, 0, |sum, _: Counted<'_>| {
            *sum += 1;
            Ok(())
        });
        assert_eq!((added.unwrap(), most.into_inner()), (9, 1));
    }

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
            let failing =
                |part: &usize| if part % 3 == 2 { Err(Error::Threads(part.to_string())) } else { Ok(()) };
            assert!(matches!(workers.map(&parts, failing), Err(Error::Threads(part)) if part == "2"));
            assert_eq!(workers.pools.lock().unwrap().len(), 1, "pools are kept");
        }
    }
}
