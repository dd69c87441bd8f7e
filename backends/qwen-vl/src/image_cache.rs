//! Patches of images seen lately: the frames of a video come back in every turn and every question.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::processor::Patches;

/// Bytes that are held whatever a prompt needs.
const BYTES: usize = 64 << 20;

type Made = Result<Arc<Patches>, String>;

/// Patches by the content of their image.
#[derive(Default)]
pub(crate) struct ImageCache(Mutex<Held>);

#[derive(Default)]
struct Held {
    entries: HashMap<u64, Entry>,
    /// Counts uses.
    clock: u64,
}

#[derive(Default)]
struct Entry {
    /// Set by whoever asks first; others who ask meanwhile wait for it.
    made: Arc<OnceLock<Made>>,
    used: u64,
}

impl Entry {
    /// Bytes; none of what is still being made, or cannot be.
    fn size(&self) -> usize {
        self.made.get().and_then(|made| made.as_ref().ok()).map_or(0, |patches| patches.size())
    }
}

impl ImageCache {
    /// The patches of an image: those that are held, or what `make` makes, once however many ask at a time.
    ///
    /// # Errors
    /// That of `make`.
    pub(crate) fn get(&self, key: u64, make: impl FnOnce() -> Result<Patches, String>) -> Made {
        let slot = {
            let mut held = self.lock();
            held.clock += 1;
            let used = held.clock;
            let entry = held.entries.entry(key).or_default();
            entry.used = used;
            Arc::clone(&entry.made)
        };
        slot.get_or_init(|| make().map(Arc::new)).clone()
    }

    /// Evicts what was used longest ago, until at most `prompt` bytes are held, those of a whole prompt, or what is held
    /// in any case.
    pub(crate) fn trim(&self, prompt: usize) {
        let mut held = self.lock();
        let limit = prompt.max(BYTES);
        held.entries.retain(|_, entry| entry.made.get().is_none_or(Result::is_ok));
        let mut bytes: usize = held.entries.values().map(Entry::size).sum();
        if bytes <= limit {
            return;
        }
        let mut oldest: Vec<(u64, u64)> =
            held.entries.iter().map(|(key, entry)| (entry.used, *key)).collect();
        oldest.sort_unstable();
        for (_, key) in oldest {
            if bytes <= limit {
                return;
            }
            bytes -= held.entries.remove(&key).map_or(0, |entry| entry.size());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::positions::Grid;
    use crate::processor::Scale;

    fn patches(bytes: usize) -> Result<Patches, String> {
        let scale = Scale { mean: [0.0; 3], std: [1.0; 3] };
        Ok(Patches { grid: Grid { t: 1, h: 2, w: 2 }, bytes: vec![0; bytes], scale })
    }

    #[test]
    fn an_image_is_made_once_however_many_ask() {
        let (cache, made) = (ImageCache::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    cache.get(1, || {
                        made.fetch_add(1, Ordering::SeqCst);
                        patches(9)
                    })
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
        assert_eq!(cache.get(2, || Err("damaged".to_owned())).unwrap_err(), "damaged");
    }

    #[test]
    fn the_oldest_goes_first_and_a_prompt_stays_whole() {
        let cache = ImageCache::default();
        let (size, count) = (BYTES / 4, 8);
        for key in 0..count {
            cache.get(key, || patches(size)).unwrap();
        }
        cache.get(99, || Err("damaged".to_owned())).unwrap_err();
        let keys = || {
            let mut keys: Vec<u64> = cache.lock().entries.keys().copied().collect();
            keys.sort_unstable();
            keys
        };
        cache.trim(8 * size);
        assert_eq!(keys(), Vec::from_iter(0..count), "a whole prompt is held, and no failure");
        cache.get(0, || Err("it is held".to_owned())).unwrap();
        cache.trim(0);
        assert_eq!(keys(), [0, 5, 6, 7]);
    }
}
