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
    /// The commit they are of, as far as there is one, in words for a person.
    pub commit: String,
}

/// Reads both files from `from`: the pinned commit where there is a git history, else what is there.
/// With `unpinned` always what is there: the work tree, edits included, or `HEAD` where there is no
/// work tree.
///
/// # Errors
/// A file is at none of these places.
pub fn read_files(from: &str, unpinned: bool) -> Result<Files, ImportError> {
    let is_url = from.contains("://") || from.starts_with("git@");
    if !is_url {
        return read_both(from, Path::new(from), unpinned);
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
        read_both(from, &folder, unpinned)
    } else {
        Err(unreadable(String::from_utf8_lossy(&cloned.stderr).trim().to_owned()))
    };
    let _ = std::fs::remove_dir_all(&folder);
    files
}

fn read_both(from: &str, folder: &Path, unpinned: bool) -> Result<Files, ImportError> {
    let committed = |revision: &str| {
        let show = |file| git(folder, &["show", &format!("{revision}:{file}")]);
        Some((show(DRIVER.0)?, show(UTILS.0)?))
    };
    if !unpinned && let Some((driver, utils)) = committed(COMMIT) {
        return Ok(Files { driver, utils, commit: COMMIT.to_owned() });
    }
    // A folder inside another repository has a prefix there, and that repository's commits say nothing of it.
    let is_root = git(folder, &["rev-parse", "--show-prefix"]).is_some_and(|prefix| prefix.trim().is_empty());
    let head = git(folder, &["rev-parse", "--verify", "HEAD"]).filter(|_| is_root);
    let head = head.map(|commit| commit.trim().to_owned());
    if let Some(commit) = &head
        && !folder.join(DRIVER.0).exists()
        && let Some((driver, utils)) = committed("HEAD")
    {
        return Ok(Files { driver, utils, commit: commit.clone() });
    }
    let read = |file: &str| {
        std::fs::read_to_string(folder.join(file)).map_err(|error| ImportError::Unreadable {
            file: file.to_owned(),
            from: from.to_owned(),
            message: error.to_string(),
        })
    };
    let (driver, utils) = (read(DRIVER.0)?, read(UTILS.0)?);
    let commit = match head {
        None => "no commit (files without a git history)".to_owned(),
        Some(commit) if committed("HEAD").is_some_and(|texts| texts == (driver.clone(), utils.clone())) => {
            commit
        }
        Some(commit) => format!("{commit} with uncommitted edits"),
    };
    Ok(Files { driver, utils, commit })
}

/// Standard output of a git command about `folder` alone; `None` when it fails.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // Set inside a git hook, where they would name another repository.
    command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
    let output = command.arg("-C").arg(folder).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).ok())?
}
