//! Events of a running evaluation.

use std::path::Path;

use crate::record::Record;

/// Something that happened in a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The last line of a resumed journal was torn; its sample is run again.
    TornRecord {
        /// The run directory.
        dir: &'a Path,
        /// Bytes that were cut off.
        bytes: u64,
    },
    /// Another binary than the first one continues the run.
    OtherBinary {
        /// The run directory.
        dir: &'a Path,
        /// The binary that began the run.
        first: &'a str,
        /// The binary that continues it.
        now: &'a str,
    },
    /// Samples are about to be sent.
    Started {
        /// Name of the split.
        task: &'a str,
        /// Samples of the run.
        total: usize,
        /// Samples without a record that counts: those that are run now.
        pending: usize,
        /// Records that the run has already, by row.
        records: &'a [Record],
    },
    /// One more record is on disk.
    Recorded(&'a Record),
}

/// Receives the events of runs, in order, from any thread. Slow observers slow the run down.
///
/// `()` ignores them, a closure is an observer:
///
/// ```
/// use std::sync::Arc;
/// use paravt_suite::evaluate::{Event, Observer};
///
/// let observer: Arc<dyn Observer> = Arc::new(|event: Event<'_>| {
///     if let Event::Recorded(record) = event {
///         println!("{}: {}", record.sample.uid, record.score.value);
///     }
/// });
/// ```
pub trait Observer: Send + Sync {
    /// Takes one event.
    fn observe(&self, event: Event<'_>);
}

impl Observer for () {
    fn observe(&self, _: Event<'_>) {}
}

impl<F: Fn(Event<'_>) + Send + Sync> Observer for F {
    fn observe(&self, event: Event<'_>) {
        self(event);
    }
}
