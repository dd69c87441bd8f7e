//! Files that others provide, regular ones only and up to a size.
//!
//! Opening a named pipe waits for a writer for ever, and a device such as `/dev/zero` never ends.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

/// Before a text in UTF-8, it says nothing.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Opens a regular file.
///
/// # Errors
/// It cannot be opened, or is a folder, pipe, socket or device.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Before opening, which may already wait.
    check_regular(&std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open_regular`], or it is larger.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // The length that is reported may be smaller than what comes.
    open_regular(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("larger than the limit of {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Reads a text of at most `limit` bytes, without the byte order mark that some editors set before it.
///
/// # Errors
/// As [`read_limited`], or it is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let mut bytes = read_limited(path, limit)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    let utf16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let found = if utf16 { "found UTF-16".to_owned() } else { format!("line {line} is not") };
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("expected text in UTF-8, {found}; save it as UTF-8"),
        )
    })
}

/// Refuses what is not a regular file.
///
/// # Errors
/// A folder, pipe, socket or device.
pub(crate) fn check_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let kind = if metadata.is_dir() { "a folder" } else { "a pipe, socket or device" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{kind}, not a regular file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, b"12345").unwrap();
        assert_eq!(read_limited(&file, 5).unwrap(), b"12345");
        assert!(read_limited(&file, 4).unwrap_err().to_string().contains("limit of 4 bytes"));
        assert!(read_limited(dir.path(), 9).unwrap_err().to_string().contains("a folder"));
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for endless in [pipe.as_path(), Path::new("/dev/zero")] {
            assert!(read_limited(endless, 9).unwrap_err().to_string().contains("not a regular file"));
        }
        assert_eq!(read_limited(&dir.path().join("none"), 9).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn text_is_read_without_its_byte_order_mark_and_in_utf_8_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let read = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            read_text(&file, 99).map_err(|error| error.to_string())
        };
        assert_eq!(read(b"\xef\xbb\xbf{}").unwrap(), "{}");
        assert_eq!(read("\u{e4}".as_bytes()).unwrap(), "\u{e4}");
        assert!(read(b"\xff\xfe{\0").unwrap_err().contains("found UTF-16"));
        assert!(read(b"a\nb\xff").unwrap_err().contains("line 2 is not"));
    }
}
