//! The journal of an unpacking, beside its members: a line per finished member, and a last line when all are.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use paravt_files::Lock;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use serde::{Deserialize, Serialize};

use super::{Archive, Refused, Unpacked};
use crate::cache::lock;
use crate::error::FetchError;

/// Folder of the journals within the folder of the members.
pub(super) const FOLDER: &str = ".paravt-fetch";
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Archive { version: u32, id: String, flatten: bool },
    Member { index: usize, path: String, size: u64 },
    Refused { member: String, reason: String },
    Complete { members: usize, bytes: u64 },
}

/// Opened for one unpacking; locked as long as it lives.
pub(super) struct Journal {
    path: PathBuf,
    file: Lock,
    /// Members that are done: index, path below the folder, bytes.
    done: HashMap<usize, (PathBuf, u64)>,
}

fn path(archive: &Archive<'_>) -> PathBuf {
    archive.into.join(FOLDER).join(format!("{}.jsonl", archive.name.replace('/', "_")))
}

fn encoded(path: &Path) -> String {
    percent_encode(path.as_os_str().as_bytes(), ESCAPED).to_string()
}

fn decoded(text: &str) -> PathBuf {
    let bytes: Vec<u8> = percent_decode_str(text).collect();
    PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))
}

/// The whole lines; a torn last one is dropped.
fn lines(path: &Path, archive: &Archive<'_>) -> Option<Vec<Line>> {
    let text = fs::read(path).ok()?;
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines: Vec<Line> = text[..end]
        .split_inclusive(|byte| *byte == b'\n')
        .map_while(|line| serde_json::from_slice(line).ok())
        .collect();
    let same = matches!(lines.first(), Some(Line::Archive { version: VERSION, id, flatten })
        if id == archive.id && *flatten == archive.flatten);
    same.then_some(lines)
}

impl Journal {
    /// What an earlier unpacking says, if it ended and its files still have their sizes.
    pub(super) fn read_complete(archive: &Archive<'_>) -> Option<Unpacked> {
        let lines = lines(&path(archive), archive)?;
        let Some(Line::Complete { members, bytes }) = lines.last() else { return None };
        let mut unpacked = Unpacked { members: *members, bytes: *bytes, refused: Vec::new() };
        for line in &lines {
            match line {
                Line::Member { path, size, .. } => {
                    let file = fs::metadata(archive.into.join(decoded(path))).ok()?;
                    if !file.is_file() || file.len() != *size {
                        return None;
                    }
                }
                Line::Refused { member, reason } => {
                    unpacked.refused.push(Refused { member: member.clone(), reason: reason.clone() });
                }
                Line::Archive { .. } | Line::Complete { .. } => {}
            }
        }
        Some(unpacked)
    }

    /// Goes on with the members of an interrupted unpacking of the same archive.
    pub(super) fn open(archive: &Archive<'_>) -> Result<Self, FetchError> {
        let path = path(archive);
        let file = lock(&path)?;
        let mut done = HashMap::new();
        for line in lines(&path, archive).unwrap_or_default() {
            if let Line::Member { index, path, size } = line {
                done.insert(index, (decoded(&path), size));
            }
        }
        let mut journal = Self { path, file, done };
        // Written again without refusals and end: both are found again.
        let begin = Line::Archive { version: VERSION, id: archive.id.to_owned(), flatten: archive.flatten };
        let mut kept = vec![begin];
        for (index, (path, size)) in &journal.done {
            kept.push(Line::Member { index: *index, path: encoded(path), size: *size });
        }
        let text: Vec<u8> = kept.iter().flat_map(line).collect();
        let file = journal.file.file();
        let written = file.set_len(0).and_then(|()| file.write_all(&text));
        written.map_err(FetchError::io(&journal.path))?;
        Ok(journal)
    }

    /// Whether a member was unpacked to a path with a size before.
    pub(super) fn has(&self, index: usize, path: &Path, size: u64) -> bool {
        self.done.get(&index).is_some_and(|(found, bytes)| found == path && *bytes == size)
    }

    /// Bytes of the members that are done.
    pub(super) fn bytes(&self) -> u64 {
        self.done.values().map(|(_, size)| size).sum()
    }

    /// Notes a member that is whole on the disk.
    pub(super) fn member(&mut self, index: usize, path: &Path, size: u64) -> Result<(), FetchError> {
        self.append(&Line::Member { index, path: encoded(path), size })
    }

    /// Notes the end, with everything that was refused.
    pub(super) fn complete(&mut self, unpacked: &Unpacked) -> Result<(), FetchError> {
        for Refused { member, reason } in &unpacked.refused {
            self.append(&Line::Refused { member: member.clone(), reason: reason.clone() })?;
        }
        self.append(&Line::Complete { members: unpacked.members, bytes: unpacked.bytes })
    }

    fn append(&mut self, entry: &Line) -> Result<(), FetchError> {
        self.file.file().write_all(&line(entry)).map_err(FetchError::io(&self.path))
    }
}

fn line(line: &Line) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).expect("a line of texts and numbers is JSON");
    text.push(b'\n');
    text
}
