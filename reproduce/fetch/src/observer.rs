//! Progress of a fetch as events; the observer decides how to show them.

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A repository was listed and compared with the disk.
    Planned {
        repo: String,
        commit: String,
        files: usize,
        /// Bytes still to download.
        missing: u64,
        /// Bytes wanted in all.
        total: u64,
    },
    /// Bytes were written.
    Bytes(u64),
    /// Bytes that were written before turned out wrong and will come again.
    Discarded(u64),
    /// A request failed and will be tried again.
    Retry {
        /// The file or request.
        what: String,
        message: String,
        /// Seconds until the next try.
        seconds: u64,
    },
    /// A file is whole and its hash is right.
    Verified {
        /// Path in the repository.
        file: String,
    },
    /// An archive is being unpacked.
    Unpacking {
        /// File name.
        archive: String,
    },
    Unpacked {
        /// File name.
        archive: String,
        members: usize,
        /// Members that were refused.
        refused: usize,
    },
    /// An unpacked archive was deleted.
    Deleted {
        /// File name.
        archive: String,
    },
}

/// Watches a fetch. Called from several threads.
pub trait Observer: Send + Sync {
    /// Takes note of an event; must not block.
    fn event(&self, event: Event);
}

/// Watches nothing.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _event: Event) {}
}
