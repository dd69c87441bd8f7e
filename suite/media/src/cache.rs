//! Sampled videos shared by the questions about one video.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::error::MediaError;
use crate::{Frame, Sampled, VideoFile, VideoRequest};

/// Indexed files that are kept.
const FILES: usize = 64;

/// A value that the first caller computes.
type Slot<T> = Arc<OnceLock<Result<Arc<T>, MediaError>>>;

/// Samples each request once; the least recently used results are dropped when the budget is used up.
#[derive(Debug)]
pub struct FrameCache<T> {
    budget: usize,
    limit: Duration,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    files: VecDeque<(PathBuf, Slot<VideoFile>)>,
    slots: HashMap<String, Slot<T>>,
    /// Finished results by last use, with their sizes.
    order: VecDeque<(String, usize)>,
    used: usize,
}

impl<T: Send + Sync> FrameCache<T> {
    /// A cache that keeps results of about `budget` bytes; `limit` is the time that a file may take
    /// ([`VideoFile::open_within`]).
    pub fn new(budget: usize, limit: Duration) -> Self {
        let state = State { files: VecDeque::new(), slots: HashMap::new(), order: VecDeque::new(), used: 0 };
        Self { budget, limit, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // The state is consistent between statements; a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The indexed file, read once.
    pub fn file(&self, path: &Path) -> Result<Arc<VideoFile>, MediaError> {
        let slot = {
            let mut state = self.state();
            match state.files.iter().find(|(known, _)| known == path) {
                Some((_, slot)) => Arc::clone(slot),
                None => {
                    let slot = Arc::new(OnceLock::new());
                    state.files.push_back((path.to_owned(), Arc::clone(&slot)));
                    if state.files.len() > FILES {
                        state.files.pop_front();
                    }
                    slot
                }
            }
        };
        let file = slot.get_or_init(|| VideoFile::open_within(path, self.limit).map(Arc::new)).clone();
        if file.is_err() {
            self.state().files.retain(|(known, _)| known != path);
        }
        file
    }

    /// The result for a request: `map` makes each frame's part, `finish` the whole and its size in bytes.
    pub fn get_or_sample<P: Clone + Send>(
        &self,
        path: &Path,
        request: &VideoRequest,
        map: impl Fn(Frame) -> Result<P, MediaError> + Sync,
        finish: impl FnOnce(Sampled<P>) -> (T, usize),
    ) -> Result<Arc<T>, MediaError> {
        let key = format!("{}\0{request:?}", path.display());
        let slot = Arc::clone(self.state().slots.entry(key.clone()).or_default());
        let mut made = None;
        let result = slot
            .get_or_init(|| {
                let sampled = self.file(path)?.sample(request, map)?;
                let (value, size) = finish(sampled);
                made = Some(size);
                Ok(Arc::new(value))
            })
            .clone();
        match (&result, made) {
            (Ok(_), Some(size)) => self.keep(key, size),
            // Failures are not cached: they cost little, and the file may be replaced meanwhile.
            (Err(_), _) => {
                self.state().slots.remove(&key);
            }
            (Ok(_), None) => self.refresh(&key),
        }
        result
    }

    /// Marks a result as most recently used.
    fn refresh(&self, key: &str) {
        let mut state = self.state();
        if let Some(at) = state.order.iter().position(|(known, _)| known == key)
            && let Some(entry) = state.order.remove(at)
        {
            state.order.push_back(entry);
        }
    }

    fn keep(&self, key: String, size: usize) {
        let mut state = self.state();
        state.order.push_back((key, size));
        state.used += size;
        while state.used > self.budget
            && state.order.len() > 1
            && let Some((oldest, size)) = state.order.pop_front()
        {
            state.used -= size;
            state.slots.remove(&oldest);
        }
    }
}
