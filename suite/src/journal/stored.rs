//! The records of a journal on disk: found by one pass over its lines, read in the order of their rows and a part at a
//! time, so that a journal of any length fits into memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use serde::Deserialize;

use super::{IoContext as _, JOURNAL, JournalError, open_regular, parse_record};
use crate::record::Record;

/// Bytes of lines that are looked through at once.
const BLOCK: u64 = 8 << 20;
/// Bytes of records that are read at once; a longer record is read alone.
const PART: usize = 4 << 20;

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
    reader: Option<BufReader<File>>,
    /// Of the reader.
    position: u64,
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
        let reader = open_regular(&path)?.map(|file| BufReader::with_capacity(1 << 20, file));
        let (places, replaced) = (Vec::new(), Vec::new());
        let mut stored = Self { path, reader, position: 0, places, replaced, good_bytes: 0, torn_bytes: 0 };
        let mut found: HashMap<(String, usize), Place> = HashMap::new();
        let mut block = Vec::new();
        while stored.next_block(&mut block)? {
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

    /// Reads the next lines; false at the end.
    fn next_block(&mut self, block: &mut Vec<u8>) -> Result<bool, JournalError> {
        block.clear();
        let Some(reader) = &mut self.reader else { return Ok(false) };
        let read = reader.by_ref().take(BLOCK).read_to_end(block);
        let read = read.and_then(|_| reader.read_until(b'\n', block));
        read.at(&self.path, "cannot read")?;
        self.position += block.len() as u64;
        Ok(!block.is_empty())
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
    /// A damaged line, a record of a newer version, I/O; else what `take` returns.
    pub fn each<E: From<JournalError>>(
        mut self,
        mut take: impl FnMut(Vec<Record>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (replaced, places) = (std::mem::take(&mut self.replaced), std::mem::take(&mut self.places));
        thread::scope(|scope| {
            // The next part is read while this one is taken.
            let (sender, parts) = mpsc::sync_channel(1);
            scope.spawn(move || {
                let replaced = parts_of(&replaced).map(|part| (part, false));
                for (part, counts) in replaced.chain(parts_of(&places).map(|part| (part, true))) {
                    let read = self.read(part);
                    let is_last = read.is_err();
                    if sender.send(read.map(|records| (records, counts))).is_err() || is_last {
                        return;
                    }
                }
            });
            let mut taken = Ok(());
            for part in parts {
                // A damaged line anywhere comes before what is wrong with a record.
                let (records, counts) = part?;
                if counts && taken.is_ok() {
                    taken = take(records);
                }
            }
            taken
        })
    }

    fn read(&mut self, places: &[Place]) -> Result<Vec<Record>, JournalError> {
        let Some(reader) = &mut self.reader else { return Ok(Vec::new()) };
        let mut lines = Vec::with_capacity(places.len());
        for Place { start, length, .. } in places {
            let mut line = vec![0; *length];
            // Within the buffer where the line is near: most lie in the order of their rows.
            let found = reader.seek_relative(start.wrapping_sub(self.position) as i64);
            found.and_then(|()| reader.read_exact(&mut line)).at(&self.path, "cannot read")?;
            self.position = start + *length as u64;
            lines.push(line);
        }
        let records = on_all_cores(&lines, |line| parse_record(line, &self.path, 0));
        records.into_iter().collect::<Result<_, _>>().map_err(|_| self.damage())
    }

    /// The error of the first line that is no record.
    fn damage(&mut self) -> JournalError {
        self.first_damage().err().unwrap_or_else(|| {
            let source = std::io::Error::other("changed while it was read");
            JournalError::Io { path: self.path.clone(), action: "cannot read", source }
        })
    }

    fn first_damage(&mut self) -> Result<(), JournalError> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        reader.seek(SeekFrom::Start(0)).at(&self.path, "cannot read")?;
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
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let share = items.len().div_ceil(cores).max(1);
    thread::scope(|scope| {
        let work = &work;
        let parts: Vec<_> = items
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(work).collect::<Vec<R>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}
