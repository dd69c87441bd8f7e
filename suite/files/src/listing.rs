//! Listings of files, which notice damage.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::hash::sha256_and_length;

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
        let (sha256, bytes) = sha256_and_length(path)?;
        Ok(Self { bytes, sha256 })
    }
}

impl Listing {
    /// All files below a folder but those whose path below it, or the path of a folder they are in,
    /// `leaves_out`.
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
    use crate::folder::remove;

    #[test]
    fn a_listing_names_the_file_that_is_cut_changed_or_gone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir(root.join("final")).unwrap();
        std::fs::write(root.join("final/model"), "weights").unwrap();
        std::fs::write(root.join("log"), "one").unwrap();
        std::fs::write(root.join(".lock"), "").unwrap();
        let listing = Listing::of(root, |name| name.starts_with('.')).unwrap();
        assert!(listing.has("final/model") && !listing.has(".lock"));
        assert_eq!(listing.damage(root), None);
        std::fs::write(root.join("more"), "not listed").unwrap();
        assert_eq!(listing.damage(root), None);
        std::fs::write(root.join("final/model"), "Weights").unwrap();
        assert!(listing.damage(root).unwrap().contains("final/model has changed"));
        std::fs::write(root.join("final/model"), "weight").unwrap();
        assert!(listing.damage(root).unwrap().contains("6 bytes instead of 7"));
        remove(&root.join("final")).unwrap();
        assert!(listing.damage(root).unwrap().contains("final/model is missing"));
    }
}
