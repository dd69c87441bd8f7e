//! SHA-256 in lower-case hexadecimal.

use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::read::open_regular;

/// Bytes that are read at once.
const BLOCK: usize = 1 << 20;

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of some bytes.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

/// File name of a picture in base64, by its text: 16 digits of the SHA-256 and the ending that the first bytes say; `None`
/// for what is no JPEG, PNG or WebP. A picture that a table has several times has one name.
pub fn picture_name(base64: &str) -> Option<String> {
    let endings = [("/9j/", "jpg"), ("iVBORw0KGgo", "png"), ("UklGR", "webp")];
    let (_, ending) = endings.iter().find(|(start, _)| base64.starts_with(start))?;
    Some(format!("{}.{ending}", &sha256(base64)[..16]))
}

/// SHA-256 of a regular file.
///
/// # Errors
/// It cannot be read, or is a folder, pipe, socket or device.
pub fn sha256_file(path: &Path) -> io::Result<String> {
    Ok(sha256_and_length(path)?.0)
}

/// SHA-256 of a regular file, and its bytes.
pub(crate) fn sha256_and_length(path: &Path) -> io::Result<(String, u64)> {
    let (mut file, mut hash, mut length) = (open_regular(path)?, Sha256::new(), 0);
    let mut buffer = vec![0; BLOCK];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok((hex(&hash.finalize()), length));
        }
        hash.update(&buffer[..count]);
        length += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_hash_of_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        // As `sha256sum` says.
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(""), empty);
        let bytes = vec![7; BLOCK + 1];
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(sha256_and_length(&file).unwrap(), (sha256(&bytes), bytes.len() as u64));
        assert!(sha256_file(dir.path()).unwrap_err().to_string().contains("a folder"));
    }
}
