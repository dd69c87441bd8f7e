//! Files and folders that are whole after a crash or a power cut, and listings that notice damage.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Writes a file so that its name holds either the old content or the new one, whole.
///
/// # Errors
/// I/O; the old file is then still there.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = beside(path, ".part");
    // A half file, or a link of somebody else, which is not written through.
    let _ = std::fs::remove_file(&part);
    let mut file = File::create_new(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&part, path)?;
    sync_parent(path)
}

/// The path with something added to its name.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// Renames the folder `part` to `whole` once everything in it is on disk. A folder that had that name is deleted
/// after the rename.
///
/// # Errors
/// I/O.
pub fn replace_folder(part: &Path, whole: &Path) -> io::Result<()> {
    sync_folder(part)?;
    let old = beside(whole, ".old");
    remove_folder(&old)?;
    if whole.exists() {
        std::fs::rename(whole, &old)?;
    }
    std::fs::rename(part, whole)?;
    sync_parent(whole)?;
    remove_folder(&old)
}

/// Removes a folder with everything in it, or a file that has its name; one that is not there is no error.
///
/// # Errors
/// I/O.
pub fn remove_folder(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => std::fs::remove_file(folder),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Waits until every file and folder below a folder is on disk.
///
/// # Errors
/// I/O.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folder(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    sync_directory(folder)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

/// Makes the names in a folder durable, which only Unix has a call for.
fn sync_directory(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Size and SHA-256 of files, by their path below a folder, with `/` between its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Listing(BTreeMap<String, FileSum>);

/// What a file has to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSum {
    bytes: u64,
    sha256: String,
}

impl FileSum {
    fn of(path: &Path) -> io::Result<Self> {
        let (mut file, mut hash, mut bytes) = (File::open(path)?, Sha256::new(), 0);
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                return Ok(Self { bytes, sha256: hex(&hash.finalize()) });
            }
            hash.update(&buffer[..count]);
            bytes += count as u64;
        }
    }
}

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Listing {
    /// All files below a folder but those whose path below it, or the path of a folder they are in,
    /// `leaves_out`.
    ///
    /// # Errors
    /// I/O.
    pub fn of(folder: &Path, leaves_out: impl Fn(&str) -> bool) -> io::Result<Self> {
        let mut listing = Self::default();
        listing.add(folder, "", &leaves_out)?;
        Ok(listing)
    }

    fn add(&mut self, folder: &Path, prefix: &str, leaves_out: &impl Fn(&str) -> bool) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = format!("{prefix}{}", path.file_name().unwrap_or_default().to_string_lossy());
            if leaves_out(&name) {
                continue;
            }
            if path.is_dir() {
                self.add(&path, &format!("{name}/"), leaves_out)?;
            } else {
                self.0.insert(name, FileSum::of(&path)?);
            }
        }
        Ok(())
    }

    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a file is listed.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The first listed file that is missing or has changed, and how; `None` where all are as they were.
    /// Files that are not listed are not looked at.
    pub fn damage(&self, folder: &Path) -> Option<String> {
        self.0.iter().find_map(|(name, wanted)| match FileSum::of(&folder.join(name)) {
            Ok(found) if found == *wanted => None,
            Ok(found) if found.bytes != wanted.bytes => {
                Some(format!("{name} has {} bytes instead of {}", found.bytes, wanted.bytes))
            }
            Ok(_) => Some(format!("{name} has changed (SHA-256)")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(format!("{name} is missing")),
            Err(error) => Some(format!("{name} cannot be read: {error}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_names_the_file_that_is_cut_changed_or_gone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir(root.join("final")).unwrap();
        write(&root.join("final/model"), b"weights").unwrap();
        write(&root.join("log"), b"one").unwrap();
        std::fs::write(root.join(".lock"), "").unwrap();
        let listing = Listing::of(root, |name| name.starts_with('.')).unwrap();
        assert!(listing.has("final/model") && !listing.has(".lock"));
        assert_eq!(listing.damage(root), None);
        std::fs::write(root.join("more"), "not listed").unwrap();
        assert_eq!(listing.damage(root), None);
        write(&root.join("final/model"), b"Weights").unwrap();
        assert!(listing.damage(root).unwrap().contains("final/model has changed"));
        write(&root.join("final/model"), b"weight").unwrap();
        assert!(listing.damage(root).unwrap().contains("6 bytes instead of 7"));
        remove_folder(&root.join("final")).unwrap();
        assert!(listing.damage(root).unwrap().contains("final/model is missing"));
    }

    #[test]
    fn a_folder_replaces_another_atomically() {
        let folder = tempfile::tempdir().unwrap();
        let (part, whole) = (folder.path().join("part"), folder.path().join("step"));
        for text in ["one", "two"] {
            std::fs::create_dir(&part).unwrap();
            std::fs::write(part.join("file"), text).unwrap();
            replace_folder(&part, &whole).unwrap();
            assert_eq!(std::fs::read_to_string(whole.join("file")).unwrap(), text);
        }
        // A file in the place of the folder, or of the one before it, is no obstacle.
        remove_folder(&whole).unwrap();
        std::fs::write(&whole, "").unwrap();
        std::fs::write(beside(&whole, ".old"), "").unwrap();
        std::fs::create_dir(&part).unwrap();
        replace_folder(&part, &whole).unwrap();
        assert!(whole.is_dir());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }
}
