//! Headers of a tar archive: those of members, and the extended ones before them (GNU long names, PAX records), of which
//! no more is read than a name can take.

use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};

use tar::{EntryType, Header};

const BLOCK: u64 = 512;
/// Bytes of an extended header; a path has at most 4,096.
const MAX_EXTENDED: u64 = 64 << 10;

/// A member: its header with what the extended headers before it say.
pub(super) struct Entry {
    pub name: Vec<u8>,
    pub kind: EntryType,
    pub link: Option<Vec<u8>>,
    /// Bytes that follow.
    pub size: u64,
    /// Why it cannot be unpacked as it stands.
    pub refusal: Option<&'static str>,
    /// Where its bytes begin.
    start: u64,
}

/// What extended headers say of the next member.
#[derive(Debug, Clone, Default)]
struct Extended {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    refusal: Option<&'static str>,
}

impl Extended {
    /// Takes the records of a PAX header, `LENGTH KEY=VALUE\n` each.
    fn read_records(&mut self, mut rest: &[u8]) {
        while !rest.is_empty() {
            let Some((key, value, after)) = record(rest) else {
                self.refusal = Some("damaged: its extended header is not one");
                return;
            };
            rest = after;
            match key {
                b"path" => self.name = Some(value.to_vec()),
                b"linkpath" => self.link = Some(value.to_vec()),
                b"size" => {
                    self.size = std::str::from_utf8(value).ok().and_then(|size| size.parse().ok());
                    if self.size.is_none() {
                        self.refusal = Some("damaged: its size is not a number");
                    }
                }
                // Its bytes begin with the map of the parts that are there.
                key if key.starts_with(b"GNU.sparse.") || key == b"SCHILY.realsize" => {
                    self.refusal = Some("a sparse file");
                    if key == b"GNU.sparse.name" {
                        self.name = Some(value.to_vec());
                    }
                }
                _ => {}
            }
        }
    }
}

/// Key and value of the first record, and what follows it.
fn record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = records.iter().position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&records[..space]).ok()?.parse().ok()?;
    let (whole, rest) = records.split_at_checked(length)?;
    let text = whole.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = text.iter().position(|byte| *byte == b'=')?;
    Some((&text[..equals], &text[equals + 1..], rest))
}

/// The members of an archive, one after another.
pub(super) struct Headers<R> {
    archive: R,
    next: u64,
    global: Extended,
}

impl<R: Read + Seek> Headers<R> {
    pub(super) fn new(archive: R) -> Self {
        Self { archive, next: 0, global: Extended::default() }
    }

    /// The next member; `None` at the end.
    ///
    /// # Errors
    /// What stands there is not a header.
    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        let mut extended = self.global.clone();
        loop {
            let Some(header) = self.header()? else { return Ok(None) };
            let start = self.next;
            let kind = header.entry_type();
            let is_extension = matches!(
                kind,
                EntryType::GNULongName
                    | EntryType::GNULongLink
                    | EntryType::XHeader
                    | EntryType::XGlobalHeader
            );
            let size = extended.size.filter(|_| !is_extension).map_or_else(|| header.entry_size(), Ok)?;
            if kind == EntryType::GNUSparse {
                self.skip_sparse_map(&header)?;
            }
            let start = start.max(self.next);
            let padded = size.checked_next_multiple_of(BLOCK).and_then(|size| start.checked_add(size));
            self.next = padded.ok_or_else(|| damaged("a member has more bytes than any archive"))?;
            let text = |headers: &mut Self| headers.extended(start, size);
            match kind {
                EntryType::GNULongName => match text(self)? {
                    Some(name) => extended.name = Some(until_nul(name)),
                    None => extended.refusal = Some("its name is too long"),
                },
                EntryType::GNULongLink => match text(self)? {
                    Some(link) => extended.link = Some(until_nul(link)),
                    None => extended.refusal = Some("the name of its target is too long"),
                },
                EntryType::XHeader => match text(self)? {
                    Some(records) => extended.read_records(&records),
                    None => extended.refusal = Some("its extended header is too long"),
                },
                EntryType::XGlobalHeader => {
                    match text(self)? {
                        Some(records) => self.global.read_records(&records),
                        None => self.global.refusal = Some("the archive's global header is too long"),
                    }
                    extended = self.global.clone();
                }
                _ => {
                    return Ok(Some(Entry {
                        name: extended.name.unwrap_or_else(|| header.path_bytes().into_owned()),
                        kind,
                        link: extended
                            .link
                            .or_else(|| header.link_name_bytes().map(|name| name.into_owned())),
                        size,
                        refusal: extended.refusal,
                        start,
                    }));
                }
            }
        }
    }

    /// The bytes of a member.
    ///
    /// # Errors
    /// They cannot be reached.
    pub(super) fn bytes(&mut self, entry: &Entry) -> Result<impl Read + '_> {
        self.archive.seek(SeekFrom::Start(entry.start))?;
        Ok(self.archive.by_ref().take(entry.size))
    }

    /// The next block, checked; `None` where the archive ends.
    fn header(&mut self) -> Result<Option<Header>> {
        let mut header = Header::new_old();
        self.archive.seek(SeekFrom::Start(self.next))?;
        let mut block = Vec::new();
        self.archive.by_ref().take(BLOCK).read_to_end(&mut block)?;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if block.len() as u64 != BLOCK {
            return Err(damaged("it ends within a header"));
        }
        header.as_mut_bytes().copy_from_slice(&block);
        self.next += BLOCK;
        let unsigned =
            block[..148].iter().chain(&block[156..]).fold(8 * 32, |sum, byte| sum + u32::from(*byte));
        if header.cksum()? != unsigned {
            return Err(damaged("archive header checksum mismatch"));
        }
        Ok(Some(header))
    }

    /// An extended header; `None` for one that is too long.
    fn extended(&mut self, start: u64, size: u64) -> Result<Option<Vec<u8>>> {
        if size > MAX_EXTENDED {
            return Ok(None);
        }
        self.archive.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        self.archive.by_ref().take(size).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != size {
            return Err(damaged("it ends within an extended header"));
        }
        Ok(Some(bytes))
    }

    /// The blocks between the header of an old sparse member and its bytes: each says whether another follows.
    fn skip_sparse_map(&mut self, header: &Header) -> Result<()> {
        let mut more = header.as_gnu().is_some_and(tar::GnuHeader::is_extended);
        while more {
            let block = self.extended(self.next, BLOCK)?.unwrap_or_default();
            self.next += BLOCK;
            // Behind 21 pairs of 24 bytes.
            more = block.get(504) == Some(&1);
        }
        Ok(())
    }
}

fn until_nul(mut name: Vec<u8>) -> Vec<u8> {
    name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
    name
}

fn damaged(message: &str) -> Error {
    Error::new(ErrorKind::InvalidData, message)
}
