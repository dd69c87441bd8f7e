//! Unpacking that zip and tar share: checks a member's path, writes a temporary file, renames it into place.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};

use paravt_files::remove;

use super::journal::Journal;
use super::{Archive, Refused, Unpacked};
use crate::error::FetchError;
use crate::names;

/// A link that waits for its target to be unpacked.
struct Link {
    index: usize,
    name: Vec<u8>,
    place: Place,
    to: PathBuf,
}

pub(super) struct Extraction<'a> {
    archive: Archive<'a>,
    journal: Journal,
    /// Members by their path in the archive: where they are below the folder, and their bytes.
    placed: HashMap<PathBuf, (PathBuf, u64)>,
    /// Paths below the folder that a member has taken.
    taken: HashMap<PathBuf, usize>,
    links: Vec<Link>,
    unpacked: Unpacked,
}

/// A member's place.
pub(super) struct Place {
    pub source: PathBuf,
    /// Path below the folder.
    pub path: PathBuf,
}

/// A member that holds bytes.
pub(super) struct Member<'m> {
    /// Its number in the archive.
    pub index: usize,
    /// Its name as the archive has it.
    pub name: &'m [u8],
    pub place: Place,
    /// Bytes that the archive declares.
    pub size: u64,
    /// CRC-32 that the archive declares, where it does.
    pub crc: Option<u32>,
}

/// Why a member did not arrive.
enum MemberError {
    /// The member is refused; unpacking continues with the others.
    Refused(String),
    Stop(FetchError),
}

impl<'a> Extraction<'a> {
    /// Begins or resumes an unpacking.
    pub(super) fn new(archive: &Archive<'a>, journal: Journal) -> Self {
        let (placed, taken, links) = (HashMap::new(), HashMap::new(), Vec::new());
        Self { archive: *archive, journal, placed, taken, links, unpacked: Unpacked::default() }
    }

    pub(super) fn folder(&self) -> &Path {
        self.archive.into
    }

    /// Bytes that an interrupted unpacking left whole.
    pub(super) fn bytes_there(&self) -> u64 {
        self.journal.bytes()
    }

    /// Names a member that is not unpacked.
    pub(super) fn refuse(&mut self, member: &[u8], reason: impl Into<String>) {
        let member = String::from_utf8_lossy(member).into_owned();
        self.unpacked.refused.push(Refused { member, reason: reason.into() });
    }

    /// Where a member goes; `None` for what other systems leave beside files.
    pub(super) fn place(&self, name: &[u8], backslash: bool) -> Result<Option<Place>, &'static str> {
        let source = names::relative(name, backslash)?;
        let last = source.file_name().expect("a relative path of plain components has a last one");
        let last = last.as_encoded_bytes();
        if source.starts_with("__MACOSX") || last.starts_with(b"._") || last == b".DS_Store" {
            return Ok(None);
        }
        if source.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b".paravt-")) {
            return Err("its name is reserved for the unpacking journal");
        }
        let path = if self.archive.flatten { last_component(&source) } else { source.clone() };
        Ok(Some(Place { source, path }))
    }

    /// Unpacks one member, unless it is there already or is refused.
    ///
    /// # Errors
    /// The disk is full, or the folder cannot be written.
    pub(super) fn member(&mut self, member: Member<'_>, bytes: &mut dyn Read) -> Result<(), FetchError> {
        let Member { index, name, place, size, crc } = member;
        if let Some(other) = self.taken.get(&place.path) {
            let reason = format!("member {other} has the same name {}", place.path.display());
            self.refuse(name, reason);
            return Ok(());
        }
        let target = self.archive.into.join(&place.path);
        let there = fs::symlink_metadata(&target).is_ok_and(|file| file.is_file() && file.len() == size);
        if !(there && self.journal.has(index, &place.path, size)) {
            let adopted = there && crc.is_some_and(|crc| crc_of(&target).is_ok_and(|found| found == crc));
            if !adopted {
                match self.write(index, &target, size, crc, bytes) {
                    Ok(()) => {}
                    Err(MemberError::Refused(reason)) => {
                        self.refuse(name, reason);
                        return Ok(());
                    }
                    Err(MemberError::Stop(error)) => return Err(error),
                }
            }
            self.journal.member(index, &place.path, size)?;
        }
        self.arrived(index, place, size);
        Ok(())
    }

    fn arrived(&mut self, index: usize, place: Place, size: u64) {
        self.unpacked.members += 1;
        self.unpacked.bytes += size;
        self.taken.insert(place.path.clone(), index);
        self.placed.insert(place.source, (place.path, size));
    }

    /// A link inside the archive: becomes a second name of the member that it points to.
    pub(super) fn link(&mut self, index: usize, name: &[u8], place: Place, to: PathBuf) {
        self.links.push(Link { index, name: name.to_owned(), place, to });
    }

    fn write(
        &mut self,
        index: usize,
        target: &Path,
        size: u64,
        crc: Option<u32>,
        bytes: &mut dyn Read,
    ) -> Result<(), MemberError> {
        let aside = self.aside(index, target)?;
        let copied = copy(&aside, size, crc, bytes);
        if copied.is_err() {
            let _ = fs::remove_file(&aside);
        }
        copied?;
        put(&aside, target).map_err(|error| of_io(target, error))
    }

    /// A name beside the target; its folder is made.
    fn aside(&self, index: usize, target: &Path) -> Result<PathBuf, MemberError> {
        let folder = target.parent().expect("a member lies in a folder");
        fs::create_dir_all(folder).map_err(|error| of_io(folder, error))?;
        let aside = folder.join(format!(".paravt-{index}.part"));
        remove(&aside).map_err(|error| of_io(&aside, error))?;
        Ok(aside)
    }

    /// Makes the links, notes the end and says what arrived.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn finish(mut self) -> Result<Unpacked, FetchError> {
        let mut links = std::mem::take(&mut self.links);
        // A link may point to a link.
        while !links.is_empty() {
            let before = links.len();
            let mut left = Vec::new();
            for link in links {
                match self.placed.get(&link.to).cloned() {
                    Some((path, size)) => self.make_link(link, &path, size)?,
                    None => left.push(link),
                }
            }
            links = left;
            if links.len() == before {
                break;
            }
        }
        for link in links {
            self.refuse(&link.name, "a link to something that was not unpacked");
        }
        // Everything is on the disk before the archive may be deleted.
        let folder = self.archive.into;
        fs::create_dir_all(folder).map_err(FetchError::io(folder))?;
        let handle = File::open(folder).map_err(FetchError::io(folder))?;
        rustix::fs::syncfs(&handle).map_err(|error| FetchError::io(folder)(error.into()))?;
        self.journal.complete(&self.unpacked)?;
        Ok(self.unpacked)
    }

    fn make_link(&mut self, link: Link, to: &Path, size: u64) -> Result<(), FetchError> {
        let Link { index, name, place, .. } = link;
        if self.taken.contains_key(&place.path) {
            self.refuse(&name, "another member has the same name");
            return Ok(());
        }
        let (from, target) = (self.archive.into.join(to), self.archive.into.join(&place.path));
        let made = self.aside(index, &target).and_then(|aside| {
            let linked = fs::hard_link(&from, &aside).or_else(|_| fs::copy(&from, &aside).map(|_| ()));
            linked.and_then(|()| put(&aside, &target)).map_err(|error| of_io(&target, error))
        });
        match made {
            Ok(()) => {
                self.journal.member(index, &place.path, size)?;
                self.arrived(index, place, size);
                Ok(())
            }
            Err(MemberError::Refused(reason)) => {
                self.refuse(&name, reason);
                Ok(())
            }
            Err(MemberError::Stop(error)) => Err(error),
        }
    }
}

/// Gives a member its name. It is on disk with the others, at the end of the archive.
#[expect(clippy::disallowed_methods, reason = "one wait for all members")]
fn put(aside: &Path, target: &Path) -> std::io::Result<()> {
    fs::rename(aside, target)
}

/// Writes exactly the declared bytes.
fn copy(path: &Path, size: u64, crc: Option<u32>, bytes: &mut dyn Read) -> Result<(), MemberError> {
    let mut file =
        File::options().write(true).create_new(true).open(path).map_err(|error| of_io(path, error))?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    let mut written = 0;
    loop {
        let length =
            bytes.read(&mut buffer).map_err(|error| MemberError::Refused(format!("damaged: {error}")))?;
        if length == 0 {
            break;
        }
        written += length as u64;
        if written > size {
            return Err(MemberError::Refused(format!("it declares {size} bytes and holds more")));
        }
        hasher.update(&buffer[..length]);
        file.write_all(&buffer[..length]).map_err(|error| of_io(path, error))?;
    }
    if written != size {
        return Err(MemberError::Refused(format!("it declares {size} bytes and holds {written}")));
    }
    let found = hasher.finalize();
    match crc {
        Some(crc) if crc != found => {
            Err(MemberError::Refused(format!("damaged: CRC-32 is {found:08x}, the archive says {crc:08x}")))
        }
        _ => Ok(()),
    }
}

fn crc_of(path: &Path) -> std::io::Result<u32> {
    let mut file = File::open(path)?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            length => hasher.update(&buffer[..length]),
        }
    }
}

/// Names that cannot be made are the member's fault; everything else is the machine's.
fn of_io(path: &Path, error: std::io::Error) -> MemberError {
    match error.kind() {
        ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::AlreadyExists
        | ErrorKind::DirectoryNotEmpty
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidInput => MemberError::Refused(format!("its name cannot be made here: {error}")),
        _ => MemberError::Stop(FetchError::io(path)(error)),
    }
}

fn last_component(path: &Path) -> PathBuf {
    PathBuf::from(path.file_name().expect("a relative path of plain components has a last one"))
}
