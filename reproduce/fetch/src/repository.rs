//! A repository of the hub: what it holds, its files, and the hashes that name their bytes.

use std::path::PathBuf;

use paravt_files::hex;
use serde::Deserialize;
use sha1::Digest as _;

/// What a repository holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepoType {
    Dataset,
    Model,
}

impl RepoType {
    /// As in the interface's addresses and the cache's folders.
    pub fn plural(self) -> &'static str {
        match self {
            RepoType::Dataset => "datasets",
            RepoType::Model => "models",
        }
    }

    /// What stands before a repository's name in its address.
    pub fn prefix(self) -> &'static str {
        match self {
            RepoType::Dataset => "datasets/",
            RepoType::Model => "",
        }
    }
}

/// The hash that names a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Oid {
    /// SHA-256 of a file in large-file storage.
    Sha256(String),
    /// Git's SHA-1 of a small file.
    Git(String),
}

impl Oid {
    /// The hash in lower-case hexadecimal, also the name of the blob.
    pub fn name(&self) -> &str {
        match self {
            Oid::Sha256(hash) | Oid::Git(hash) => hash,
        }
    }

    /// Name of the algorithm.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Oid::Sha256(_) => "SHA-256",
            Oid::Git(_) => "git SHA-1",
        }
    }

    /// The same hash of the bytes that `read` yields until it is empty, `size` of them.
    pub(crate) fn of(
        &self,
        size: u64,
        mut read: impl FnMut(&mut [u8]) -> std::io::Result<usize>,
    ) -> std::io::Result<String> {
        let mut sha256 = sha2::Sha256::new();
        let mut sha1 = sha1::Sha1::new();
        sha1.update(format!("blob {size}\0").as_bytes());
        let mut buffer = vec![0; 1 << 20];
        loop {
            let length = read(&mut buffer)?;
            match self {
                _ if length == 0 => break,
                Oid::Sha256(_) => sha256.update(&buffer[..length]),
                Oid::Git(_) => sha1.update(&buffer[..length]),
            }
        }
        Ok(match self {
            Oid::Sha256(_) => hex(&sha256.finalize()),
            Oid::Git(_) => hex(&sha1.finalize()),
        })
    }
}

/// A file of a repository at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubFile {
    /// Path in the repository: relative, without `..`.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Hash of the bytes.
    pub oid: Oid,
}

impl HubFile {
    /// The path with slashes.
    pub fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_hashes_count_the_length() {
        let oid = Oid::Git(String::new());
        let mut rest: &[u8] = b"hello\n";
        let found = oid.of(6, |buffer| std::io::Read::read(&mut rest, buffer)).unwrap();
        assert_eq!(found, "ce013625030ba8dba906f756967f9e9ca394464a", "git hash-object");
    }
}
