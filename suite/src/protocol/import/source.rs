//! Reads the two files out of a work tree, a git directory or anything git can clone.

use std::path::Path;
use std::process::Command;

use super::{COMMIT, DRIVER, ImportError, UTILS};

/// Contents of the two upstream files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// `paravt/eval/driver.py`
    pub driver: String,
    /// `paravt/eval/utils.py`
    pub utils: String,
}

/// Reads both files from `from`: the pinned commit where there is a git history, else the work tree.
///
/// # Errors
/// A file is at none of these places.
pub fn read_files(from: &str) -> Result<Files, ImportError> {
    let is_url = from.contains("://") || from.starts_with("git@");
    if !is_url {
        return read_both(from, Path::new(from));
    }
    let unreadable = |message: String| ImportError::Unreadable {
        file: "the repository".to_owned(),
        from: from.to_owned(),
        message,
    };
    let folder = std::env::temp_dir().join(format!("paravt-protocol-{}", std::process::id()));
    let cloned = Command::new("git")
        .args(["clone", "--quiet", "--no-checkout", "--", from])
        .arg(&folder)
        .output()
        .map_err(|error| unreadable(format!("git: {error}")))?;
    let files = if cloned.status.success() {
        read_both(from, &folder)
    } else {
        Err(unreadable(String::from_utf8_lossy(&cloned.stderr).trim().to_owned()))
    };
    let _ = std::fs::remove_dir_all(&folder);
    files
}

fn read_both(from: &str, folder: &Path) -> Result<Files, ImportError> {
    Ok(Files { driver: read(from, folder, DRIVER.0)?, utils: read(from, folder, UTILS.0)? })
}

fn read(from: &str, folder: &Path, file: &str) -> Result<String, ImportError> {
    for revision in [COMMIT, "HEAD"] {
        let shown =
            Command::new("git").arg("-C").arg(folder).args(["show", &format!("{revision}:{file}")]).output();
        if let Ok(shown) = shown
            && shown.status.success()
        {
            return String::from_utf8(shown.stdout).map_err(|error| unreadable(from, file, &error));
        }
    }
    std::fs::read_to_string(folder.join(file)).map_err(|error| unreadable(from, file, &error))
}

fn unreadable(from: &str, file: &str, error: &dyn std::fmt::Display) -> ImportError {
    ImportError::Unreadable { file: file.to_owned(), from: from.to_owned(), message: error.to_string() }
}
