//! One file: parallel ranges into a partial file, resumed after any interruption, verified, renamed.
//!
//! The partial file is sparse, so it must not bear the name (`.incomplete`) that huggingface_hub would
//! continue at its end. Beside it lies a small file of counters, one for each range.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use futures::stream::{StreamExt as _, TryStreamExt as _};
use reqwest::header::CONTENT_RANGE;
use reqwest::{Response, StatusCode};
use tokio::sync::Semaphore;
use url::Url;

use crate::cache::Cache;
use crate::error::FetchError;
use crate::hub::{Failure, Hub};
use crate::observer::{Event, Observer};
use crate::repository::{HubFile, RepoType};

/// Bytes after which a range's counter is written.
const COUNTED: u64 = 256 << 10;
/// Times that a file is downloaded when its hash is wrong.
const DOWNLOADS: usize = 2;
const MAGIC: u64 = u64::from_le_bytes(*b"PVRANGE1");
const HEADER: u64 = 24;

/// Downloads files of one commit.
pub(crate) struct Downloader<'a> {
    pub hub: &'a Hub,
    /// Data set or model.
    pub kind: RepoType,
    pub repo: &'a str,
    pub commit: &'a str,
    /// Where files go.
    pub cache: &'a Cache,
    /// Connections at a time, over all files.
    pub slots: &'a Semaphore,
    /// Connections for one file.
    pub jobs: usize,
    /// Bytes of one range.
    pub range: u64,
    /// Who watches.
    pub observer: &'a dyn Observer,
}

/// How the ranges of a file ended.
enum Ended {
    Whole,
    /// The server sends the whole file whatever range is asked for.
    RangesIgnored,
}

impl Downloader<'_> {
    /// Makes the blob of a file whole; what lies there already is kept.
    ///
    /// # Errors
    /// No access, no connection, a wrong hash or size twice, a full disk, or another process at work on it.
    pub(crate) async fn file(&self, file: &HubFile) -> Result<(), FetchError> {
        let _lock = self.cache.lock(&file.oid)?;
        if self.cache.holds(file) {
            return Ok(());
        }
        let blob = self.cache.blob(&file.oid);
        let parent = blob.parent().expect("a blob lies in a folder");
        fs::create_dir_all(parent).map_err(FetchError::io(parent))?;
        let mut range = self.range;
        let mut found = String::new();
        for _ in 0..DOWNLOADS {
            let mut partial = Partial::open(&blob, file.size, range)?;
            if let Ended::RangesIgnored = self.ranges(file, &partial).await? {
                self.observer.event(Event::Discarded(partial.done()));
                range = file.size.max(1);
                partial = Partial::open(&blob, file.size, range)?;
                self.ranges(file, &partial).await?;
            }
            let (partial, hash) = verified(partial, file.clone()).await?;
            if hash == file.oid.name() {
                partial.keep(&blob)?;
                self.observer.event(Event::Verified { file: file.name() });
                return Ok(());
            }
            self.observer.event(Event::Discarded(file.size));
            partial.discard()?;
            found = hash;
        }
        let (algorithm, expected) = (file.oid.algorithm(), file.oid.name().to_owned());
        Err(FetchError::Hash { file: file.name(), algorithm, found, expected })
    }

    async fn ranges(&self, file: &HubFile, partial: &Partial) -> Result<Ended, FetchError> {
        // Where the hub redirects to, so that not every range asks it again.
        let place = Mutex::new(None);
        let missing: Vec<usize> =
            (0..partial.counters.len()).filter(|&part| partial.left(part) > 0).collect();
        let parts =
            futures::stream::iter(missing.into_iter().map(|part| self.range(file, partial, part, &place)));
        let ended: Vec<Ended> = parts.buffer_unordered(self.jobs.max(1)).try_collect().await?;
        Ok(if ended.iter().all(|ended| matches!(ended, Ended::Whole)) {
            Ended::Whole
        } else {
            Ended::RangesIgnored
        })
    }

    async fn range(
        &self,
        file: &HubFile,
        partial: &Partial,
        part: usize,
        place: &Mutex<Option<Url>>,
    ) -> Result<Ended, FetchError> {
        let what = file.name();
        let mut failures = 0;
        while partial.left(part) > 0 {
            let before = partial.left(part);
            let tried = {
                let _slot = self.slots.acquire().await.expect("the slots are never closed");
                self.attempt(file, partial, part, place, &what).await
            };
            match tried {
                Ok(Ended::Whole) => {}
                Ok(Ended::RangesIgnored) => return Ok(Ended::RangesIgnored),
                Err(failure) => {
                    *place.lock().expect("no holder of this lock panics") = None;
                    if partial.left(part) < before {
                        failures = 0;
                    }
                    self.hub.wait(failure, &mut failures, &what, self.observer).await?;
                }
            }
        }
        Ok(Ended::Whole)
    }

    async fn attempt(
        &self,
        file: &HubFile,
        partial: &Partial,
        part: usize,
        place: &Mutex<Option<Url>>,
        what: &str,
    ) -> Result<Ended, Failure> {
        let (start, end) = (partial.position(part), partial.end(part));
        let whole = start == 0 && end == file.size;
        let asked = (!whole).then(|| format!("bytes={start}-{}", end - 1));
        let stored = place.lock().expect("no holder of this lock panics").clone();
        let url = stored.unwrap_or_else(|| self.hub.file_address(self.kind, self.repo, self.commit, file));
        let (from, response) = self.hub.follow(url, asked.as_deref(), self.kind, self.repo, what).await?;
        *place.lock().expect("no holder of this lock panics") = Some(from);
        match (response.status(), asked) {
            (StatusCode::PARTIAL_CONTENT, Some(_)) => check_range(&response, start, file.size, what)?,
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(range)) => {
                return Err(refused_range(&response, &range, file.size, what));
            }
            (StatusCode::OK, None) => {
                if let Some(length) = response.content_length().filter(|length| *length != file.size) {
                    return Err(wrong_size(what, length, file.size));
                }
            }
            (StatusCode::OK, Some(_)) if partial.counters.len() > 1 => return Ok(Ended::RangesIgnored),
            // One range that is the whole file begins again.
            (StatusCode::OK, Some(_)) => {
                self.observer.event(Event::Discarded(start));
                partial.restart(part)?;
            }
            (status, _) => {
                return Err(Failure::Final(FetchError::protocol(
                    what,
                    format!("{status} to a request of bytes"),
                )));
            }
        }
        self.copy(response, partial, part).await?;
        Ok(Ended::Whole)
    }

    async fn copy(&self, mut response: Response, partial: &Partial, part: usize) -> Result<(), Failure> {
        let mut uncounted = 0;
        loop {
            let chunk = match response.chunk().await {
                Ok(Some(chunk)) => chunk,
                ended => {
                    partial.count(part)?;
                    ended.map_err(Failure::transport)?;
                    let left = partial.left(part);
                    return Err(Failure::passing(format!("the connection ended {left} bytes early")));
                }
            };
            let wanted = usize::try_from(partial.left(part)).unwrap_or(usize::MAX).min(chunk.len());
            partial.write(part, &chunk[..wanted])?;
            self.observer.event(Event::Bytes(wanted as u64));
            uncounted += wanted as u64;
            if uncounted >= COUNTED || partial.left(part) == 0 {
                partial.count(part)?;
                uncounted = 0;
            }
            if partial.left(part) == 0 {
                return Ok(());
            }
        }
    }
}

fn wrong_size(what: &str, found: u64, listed: u64) -> Failure {
    let message = format!("the server has {found} bytes, the repository lists {listed}");
    Failure::Final(FetchError::protocol(what, message))
}

/// A range within the listed size is refused: the server has another file, or will have this one at the next try.
fn refused_range(response: &Response, range: &str, size: u64, what: &str) -> Failure {
    let header = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let total: Option<u64> = header.and_then(|value| value.rsplit_once('/')?.1.parse().ok());
    match total.filter(|total| *total != size) {
        Some(total) => wrong_size(what, total, size),
        None => Failure::passing(format!("{} to {range} of {size}", response.status())),
    }
}

/// The reply's `Content-Range` begins where it was asked to, in a file of the listed size.
fn check_range(response: &Response, start: u64, size: u64, what: &str) -> Result<(), Failure> {
    let header = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let parsed = header.and_then(|value| {
        let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
        Some((range.split_once('-')?.0.parse::<u64>().ok()?, total))
    });
    match parsed {
        Some((found, total)) if found == start => match total.parse() {
            Ok(total) if total != size => Err(wrong_size(what, total, size)),
            _ => Ok(()),
        },
        _ => {
            let header = header.unwrap_or("nothing of its range");
            let message = format!("bytes from {start} were asked for, the reply says {header}");
            Err(Failure::Final(FetchError::protocol(what, message)))
        }
    }
}

/// A file of which some ranges are there.
struct Partial {
    data: File,
    data_path: PathBuf,
    counters_file: File,
    counters_path: PathBuf,
    size: u64,
    range: u64,
    /// Bytes of each range that are written.
    counters: Vec<std::sync::atomic::AtomicU64>,
}

impl Partial {
    /// Continues, or begins where nothing lies there or it was cut into other ranges.
    fn open(blob: &Path, size: u64, range: u64) -> Result<Self, FetchError> {
        let (data_path, counters_path) = (blob.with_extension("partial"), blob.with_extension("ranges"));
        let open = |path: &Path| {
            let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
            file.map_err(FetchError::io(path))
        };
        let (data, counters_file) = (open(&data_path)?, open(&counters_path)?);
        let parts =
            usize::try_from(size.div_ceil(range)).expect("a file has fewer ranges than memory has bytes");
        let header = [MAGIC, size, range].map(u64::to_le_bytes).concat();
        let saved = fs::read(&counters_path).map_err(FetchError::io(&counters_path))?;
        let whole = data.metadata().is_ok_and(|data| data.len() == size);
        let counts: Vec<u64> = if whole
            && saved.starts_with(&header)
            && saved.len() == header.len() + 8 * parts
        {
            let words = saved[header.len()..].chunks_exact(8);
            words.map(|word| u64::from_le_bytes(word.try_into().expect("a chunk of eight bytes"))).collect()
        } else {
            counters_file.set_len(0).map_err(FetchError::io(&counters_path))?;
            data.set_len(0).and_then(|()| data.set_len(size)).map_err(FetchError::io(&data_path))?;
            let empty = [header, vec![0; 8 * parts]].concat();
            counters_file.write_all_at(&empty, 0).map_err(FetchError::io(&counters_path))?;
            vec![0; parts]
        };
        let counters = counts.into_iter().map(std::sync::atomic::AtomicU64::new).collect();
        let partial = Self { data, data_path, counters_file, counters_path, size, range, counters };
        for part in 0..partial.counters.len() {
            // A counter that no download wrote.
            if partial.count_of(part) > partial.end(part) - partial.start(part) {
                partial.set(part, 0);
            }
        }
        Ok(partial)
    }

    fn start(&self, part: usize) -> u64 {
        part as u64 * self.range
    }

    fn end(&self, part: usize) -> u64 {
        (self.start(part) + self.range).min(self.size)
    }

    fn count_of(&self, part: usize) -> u64 {
        self.counters[part].load(std::sync::atomic::Ordering::Relaxed)
    }

    fn set(&self, part: usize, count: u64) {
        self.counters[part].store(count, std::sync::atomic::Ordering::Relaxed);
    }

    fn position(&self, part: usize) -> u64 {
        self.start(part) + self.count_of(part)
    }

    fn left(&self, part: usize) -> u64 {
        self.end(part) - self.position(part)
    }

    fn done(&self) -> u64 {
        (0..self.counters.len()).map(|part| self.count_of(part)).sum()
    }

    fn write(&self, part: usize, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.data.write_all_at(bytes, self.position(part));
        written.map_err(|error| Failure::Final(FetchError::io(&self.data_path)(error)))?;
        self.set(part, self.count_of(part) + bytes.len() as u64);
        Ok(())
    }

    /// Saves a range's counter: what it counts is written already.
    fn count(&self, part: usize) -> Result<(), Failure> {
        let at = HEADER + 8 * part as u64;
        let written = self.counters_file.write_all_at(&self.count_of(part).to_le_bytes(), at);
        written.map_err(|error| Failure::Final(FetchError::io(&self.counters_path)(error)))
    }

    fn restart(&self, part: usize) -> Result<(), Failure> {
        self.set(part, 0);
        self.count(part)
    }

    /// The hash of all bytes, which are on the disk when it returns.
    fn hash(&self, file: &HubFile) -> Result<String, FetchError> {
        self.data.sync_data().map_err(FetchError::io(&self.data_path))?;
        let mut at = 0;
        let hash = file.oid.of(self.size, |buffer| {
            let length = self.data.read_at(buffer, at)?;
            at += length as u64;
            Ok(length)
        });
        hash.map_err(FetchError::io(&self.data_path))
    }

    fn keep(self, blob: &Path) -> Result<(), FetchError> {
        paravt_files::rename(&self.data_path, blob).map_err(FetchError::io(blob))?;
        fs::remove_file(&self.counters_path).map_err(FetchError::io(&self.counters_path))
    }

    fn discard(self) -> Result<(), FetchError> {
        fs::remove_file(&self.counters_path).map_err(FetchError::io(&self.counters_path))?;
        fs::remove_file(&self.data_path).map_err(FetchError::io(&self.data_path))
    }
}

/// Bytes of a blob that an interrupted download left.
pub(crate) fn partly_there(blob: &Path, size: u64) -> u64 {
    let saved = fs::read(blob.with_extension("ranges")).unwrap_or_default();
    let words: Vec<u64> = saved
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("a chunk of eight bytes")))
        .collect();
    match words.as_slice() {
        [MAGIC, listed, _, counts @ ..] if *listed == size => {
            counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count)).min(size)
        }
        _ => 0,
    }
}

async fn verified(partial: Partial, file: HubFile) -> Result<(Partial, String), FetchError> {
    let hashed = tokio::task::spawn_blocking(move || partial.hash(&file).map(|hash| (partial, hash)));
    hashed.await.expect("hashing a file does not panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_file_is_resumed_with_its_ranges_and_restarted_with_others() {
        let dir = tempfile::tempdir().unwrap();
        let blob = dir.path().join("abc");
        let partial = Partial::open(&blob, 25, 10).unwrap();
        assert_eq!((partial.counters.len(), partial.end(2)), (3, 25));
        assert!(partial.write(1, b"12345").is_ok() && partial.count(1).is_ok());
        assert!(partial.write(2, b"abcde").is_ok(), "not counted: comes again");
        drop(partial);
        assert_eq!(partly_there(&blob, 25), 5);
        assert_eq!(partly_there(&blob, 26), 0);
        let again = Partial::open(&blob, 25, 10).unwrap();
        assert_eq!((again.left(0), again.position(1), again.left(2)), (10, 15, 5));
        drop(again);
        // A counter beyond its range is not believed.
        let counters = File::options().write(true).open(dir.path().join("abc.ranges")).unwrap();
        counters.write_all_at(&99_u64.to_le_bytes(), HEADER + 8).unwrap();
        assert_eq!(Partial::open(&blob, 25, 10).unwrap().done(), 0);
        assert_eq!(Partial::open(&blob, 25, 5).unwrap().counters.len(), 5);
        fs::write(dir.path().join("abc.ranges"), b"torn").unwrap();
        assert_eq!(Partial::open(&blob, 25, 5).unwrap().done(), 0);
    }

    #[test]
    fn an_empty_file_has_no_ranges() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Partial::open(&dir.path().join("abc"), 0, 10).unwrap().counters.is_empty());
    }
}
