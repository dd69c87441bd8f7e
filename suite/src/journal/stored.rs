//! The records of a journal on disk: found by one pass over its lines, read in the order of their rows and a part at a
//! time, so that a journal of any length fits into memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use serde::Deserialize;

use super::{IoContext as _, JOURNAL, JournalError, open_regular, parse_record};
use crate::record::Record;

/// Bytes of lines that are looked through at once.
const BLOCK: u64 = 8 << 20;
/// Bytes of records that are read at once; a longer record is read alone.
const PART: usize = 4 << 20;
/// Threads that read parts: each has one in memory, and more would wait for the one that takes them.
const READERS: usize = 4;

/// What a record is known by: all that the first pass keeps of it.
#[derive(Deserialize)]
struct Key<'a> {
    #[serde(borrow)]
    sample: SampleKey<'a>,
    #[serde(default)]
    epoch: usize,
}

#[derive(Deserialize)]
struct SampleKey<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    row: usize,
}

/// Where a line lies.
#[derive(Debug, Clone, Copy)]
struct Place {
    row: usize,
    start: u64,
    length: usize,
}

/// A journal whose records were found and not read yet.
#[derive(Debug)]
pub struct Stored {
    path: PathBuf,
    /// `None` where there is no journal, which is an empty one.
    file: Option<File>,
    /// The last record of each sample and epoch, by row.
    places: Vec<Place>,
    /// Records that a later one replaces.
    replaced: Vec<Place>,
    /// Length of the complete lines in bytes.
    pub good_bytes: u64,
    /// Bytes of a torn last line, if any.
    pub torn_bytes: u64,
}

impl Stored {
    /// Finds the records in the journal of a run directory.
    ///
    /// # Errors
    /// A line without a record, I/O. A record that lacks anything else is found when it is read.
    pub fn find(dir: &Path) -> Result<Self, JournalError> {
        let path = dir.join(JOURNAL);
        let file = open_regular(&path)?;
        let (places, replaced) = (Vec::new(), Vec::new());
        let mut stored = Self { path, file, places, replaced, good_bytes: 0, torn_bytes: 0 };
        let Some(file) = &stored.file else { return Ok(stored) };
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut found: HashMap<(String, usize), Place> = HashMap::new();
        let mut block = Vec::new();
        loop {
            block.clear();
            let read = reader.by_ref().take(BLOCK).read_to_end(&mut block);
            let read = read.and_then(|_| reader.read_until(b'\n', &mut block));
            read.at(&stored.path, "cannot read")?;
            if block.is_empty() {
                break;
            }
            let lines: Vec<&[u8]> = block.split_inclusive(|byte| *byte == b'\n').collect();
            let keys = on_all_cores(&lines, |line| serde_json::from_slice::<Key<'_>>(line));
            for (line, key) in lines.iter().zip(keys) {
                if line.last() != Some(&b'\n') {
                    stored.torn_bytes = line.len() as u64;
                    break;
                }
                let Ok(Key { sample, epoch }) = key else { return Err(stored.damage()) };
                let place = Place { row: sample.row, start: stored.good_bytes, length: line.len() };
                stored.replaced.extend(found.insert((sample.uid.into_owned(), epoch), place));
                stored.good_bytes += line.len() as u64;
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_unstable_by(|(a, at), (b, other)| (at.row, a).cmp(&(other.row, b)));
        stored.places = found.into_iter().map(|(_, place)| place).collect();
        Ok(stored)
    }

    /// Number of samples and epochs with a record.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Hands out the records by row, some at a time: the last of each sample and epoch.
    ///
    /// # Errors
    /// A damaged line, a record of a newer version, I/O.
    pub fn each(&self, mut take: impl FnMut(Vec<Record>) + Send) -> Result<(), JournalError> {
        self.each_prepared(|_| Ok(()), |records, ()| take(records))
    }

    /// As [`each`](Self::each), with what `prepare` makes of each part, on all cores; nothing is taken from the first that
    /// it refuses on.
    pub fn each_prepared<T, E: From<JournalError> + Send>(
        &self,
        prepare: impl Fn(&[Record]) -> Result<T, E> + Sync,
        take: impl FnMut(Vec<Record>, T) + Send,
    ) -> Result<(), E> {
        let replaced = parts_of(&self.replaced).map(|part| (part, false));
        let parts: Vec<_> = replaced.chain(parts_of(&self.places).map(|part| (part, true))).collect();
        let threads = cores().min(READERS).min(parts.len());
        // Each part waits for the one before it, which hands on what takes them, and the first errors.
        let (first, after_last) = mpsc::channel();
        first.send((take, Ok(()), Ok(()))).expect("the receiver is there");
        let queue = Mutex::new((parts.into_iter(), after_last));
        let next_part = || {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            let part = queue.0.next()?;
            let (done, after) = mpsc::channel();
            Some((part, std::mem::replace(&mut queue.1, after), done))
        };
        let work = || {
            while let Some(((part, counts), before, done)) = next_part() {
                let read = self.read(part);
                let prepared = read.as_ref().ok().filter(|_| counts).map(|records| prepare(records));
                // No one hands on what a panic has ended.
                let Ok((mut take, mut damage, mut refused)) = before.recv() else { return };
                match (read, prepared) {
                    (Err(error), _) => damage = damage.and(Err(error)),
                    (Ok(_), Some(Err(error))) => refused = refused.and(Err(error)),
                    (Ok(records), Some(Ok(prepared))) if refused.is_ok() => take(records, prepared),
                    _ => {}
                }
                _ = done.send((take, damage, refused));
            }
        };
        // A record is given back by the thread that made it: another would have to wait for that one's memory.
        thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
        let (_, after_last) = queue.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (_, damage, refused) = after_last.recv().expect("no thread has panicked");
        // A damaged line anywhere comes before what is wrong with a record.
        match damage {
            Ok(()) => refused,
            Err(error @ JournalError::Io { .. }) => Err(error.into()),
            Err(_) => Err(self.damage().into()),
        }
    }

    fn read(&self, places: &[Place]) -> Result<Vec<Record>, JournalError> {
        let Some(file) = &self.file else { return Ok(Vec::new()) };
        let mut records = Vec::with_capacity(places.len());
        let mut bytes = Vec::new();
        // Most lie in the order of their rows.
        for together in places.chunk_by(|place, next| place.start + place.length as u64 == next.start) {
            bytes.resize(together.iter().map(|place| place.length).sum(), 0);
            file.read_exact_at(&mut bytes, together[0].start).at(&self.path, "cannot read")?;
            let mut rest = bytes.as_slice();
            for place in together {
                let (line, after) = rest.split_at(place.length);
                records.push(parse_record(line, &self.path, 0)?);
                rest = after;
            }
        }
        Ok(records)
    }

    /// The error of the first line that is no record.
    fn damage(&self) -> JournalError {
        self.first_damage().err().unwrap_or_else(|| {
            let source = std::io::Error::other("changed while it was read");
            JournalError::Io { path: self.path.clone(), action: "cannot read", source }
        })
    }

    fn first_damage(&self) -> Result<(), JournalError> {
        let Some(mut file) = self.file.as_ref() else { return Ok(()) };
        file.seek(SeekFrom::Start(0)).at(&self.path, "cannot read")?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            reader.read_until(b'\n', &mut line).at(&self.path, "cannot read")?;
            if line.last() != Some(&b'\n') {
                break;
            }
            parse_record(&line, &self.path, number)?;
        }
        Ok(())
    }
}

/// The places in parts that are read at once.
fn parts_of(mut places: &[Place]) -> impl Iterator<Item = &[Place]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |place: &&Place| {
            bytes += place.length;
            bytes <= PART
        };
        let count = places.iter().take_while(fits).count().max(1);
        let (part, rest) = places.split_at_checked(count)?;
        places = rest;
        Some(part)
    })
}

/// What `work` makes of each item, in their order. By threads of their own: the caller may be a worker of a pool that is
/// waited for.
fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let share = items.len().div_ceil(cores()).max(1);
    thread::scope(|scope| {
        let work = &work;
        let parts: Vec<_> = items
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(work).collect::<Vec<R>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
