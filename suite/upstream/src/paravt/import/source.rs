//! Reads the files out of a work tree, a git directory or anything git can clone.

use std::path::{Path, PathBuf};

use paravt_files::read_limited;

use super::git::{Cancel, MAX_FILE, Repository, clone};
use super::{COMMIT, DRIVER, ImportError, SUBAGENT, UTILS, WORKFLOW};

/// Contents of the upstream files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// `paravt/eval/driver.py`
    pub driver: String,
    /// `paravt/eval/utils.py`
    pub utils: String,
    /// `paravt/rl/subagents/crop_video/cropped_video.py`, where it is there.
    pub subagent: Option<String>,
    /// `paravt/rl/workflow.py`, where it is there.
    pub workflow: Option<String>,
    /// Commit of the files with its state, or `no commit (…)`: human-readable.
    pub commit: String,
}

/// Reads the files from `from`: the pinned commit where there is a git history, else what is there.
/// With `unpinned` always what is there: the work tree, edits included, or `HEAD` where there is no
/// work tree.
///
/// A checkout may be hostile: its configuration, hooks, filters and remotes are never read.
///
/// # Errors
/// A file is at none of these places, is not a regular file, or is too large.
pub fn read_files(from: &str, unpinned: bool) -> Result<Files, ImportError> {
    read_files_until(from, unpinned, &|| false)
}

/// [`read_files`] that stops, and removes its temporary files, once `cancel` answers true.
///
/// # Errors
/// As [`read_files`], or it was cancelled.
pub fn read_files_until(from: &str, unpinned: bool, cancel: &Cancel<'_>) -> Result<Files, ImportError> {
    let shown = paravt_suite::redact::urls(from);
    let unreadable = |file: &str, message: String| ImportError::Unreadable {
        file: file.to_owned(),
        from: shown.clone(),
        message,
    };
    let repository_error = |message| unreadable("the repository", message);
    match location(from).map_err(repository_error)? {
        Location::Folder(folder) => {
            let repository = Repository::find(&folder).map_err(repository_error)?;
            read_folder(&folder, repository.as_ref(), unpinned, cancel, &unreadable)
        }
        Location::History(folder) => {
            let repository = Repository::find(&folder).map_err(repository_error)?;
            let repository = repository.ok_or_else(|| repository_error("not a git repository".to_owned()))?;
            read_history(&repository, unpinned, cancel, &unreadable)
        }
        Location::Remote => {
            let folder = tempfile::tempdir().map_err(|error| repository_error(error.to_string()))?;
            let cloned = folder.path().join("clone");
            clone(from, &cloned, cancel)
                .map_err(|message| repository_error(paravt_suite::redact::urls(&message)))?;
            let repository = Repository::find(&cloned).map_err(repository_error)?;
            let repository = repository.ok_or_else(|| repository_error("the clone is empty".to_owned()))?;
            read_history(&repository, unpinned, cancel, &unreadable)
        }
    }
}

impl Files {
    /// Each file's name and pinned hash, and its text.
    pub(super) fn texts(&self) -> [((&'static str, &'static str), Option<&str>); 4] {
        [
            (DRIVER, Some(&self.driver)),
            (UTILS, Some(&self.utils)),
            (SUBAGENT, self.subagent.as_deref()),
            (WORKFLOW, self.workflow.as_deref()),
        ]
    }
}

enum Location {
    /// A path: its files count, and its history.
    Folder(PathBuf),
    /// A `file://` URL: what is committed there. Read in place, because a clone would run
    /// `git-upload-pack` under that repository's configuration.
    History(PathBuf),
    /// Anything else with a scheme, or `git@host:path`.
    Remote,
}

fn location(from: &str) -> Result<Location, String> {
    if from.starts_with("git@") {
        return Ok(Location::Remote);
    }
    if !from.contains("://") {
        return Ok(Location::Folder(PathBuf::from(from)));
    }
    match url::Url::parse(from) {
        Ok(url) if url.scheme() == "file" => {
            url.to_file_path().map(Location::History).map_err(|()| "the URL names no local path".to_owned())
        }
        _ => Ok(Location::Remote),
    }
}

type Unreadable<'a> = dyn Fn(&str, String) -> ImportError + 'a;

/// The pinned commit, or `HEAD` with `unpinned`.
fn read_history(
    repository: &Repository,
    unpinned: bool,
    cancel: &Cancel<'_>,
    unreadable: &Unreadable<'_>,
) -> Result<Files, ImportError> {
    let head = repository.head();
    let commit = match (&head, unpinned) {
        (Some(head), true) => head.clone(),
        (None, true) => return Err(unreadable("HEAD", "the repository has no commit".to_owned())),
        (_, false) => COMMIT.to_owned(),
    };
    let read = |file: &str| {
        repository
            .blob(&commit, file, cancel)
            .map_err(|message| unreadable(file, format!("commit {commit}: {message}")))
    };
    let (subagent, workflow) = (read(SUBAGENT.0).ok(), read(WORKFLOW.0).ok());
    Ok(Files { driver: read(DRIVER.0)?, utils: read(UTILS.0)?, subagent, workflow, commit })
}

fn read_folder(
    folder: &Path,
    repository: Option<&Repository>,
    unpinned: bool,
    cancel: &Cancel<'_>,
    unreadable: &Unreadable<'_>,
) -> Result<Files, ImportError> {
    let committed = |revision: &str| {
        let repository = repository?;
        let blob = |file| repository.blob(revision, file, cancel).ok();
        let (subagent, workflow) = (blob(SUBAGENT.0), blob(WORKFLOW.0));
        let commit = revision.to_owned();
        Some(Files { driver: blob(DRIVER.0)?, utils: blob(UTILS.0)?, subagent, workflow, commit })
    };
    if !unpinned && let Some(files) = committed(COMMIT) {
        return Ok(files);
    }
    let has_files = folder.join(DRIVER.0).exists();
    if let Some(repository) = repository.filter(|_| !has_files) {
        return read_history(repository, unpinned, cancel, unreadable);
    }
    let read = |file: &str| {
        let bytes = read_limited(&folder.join(file), MAX_FILE)
            .map_err(|error| unreadable(file, error.to_string()))?;
        String::from_utf8(bytes).map_err(|_| unreadable(file, "not UTF-8".to_owned()))
    };
    let optional = |file: &str| folder.join(file).exists().then(|| read(file)).transpose();
    let mut files = Files {
        driver: read(DRIVER.0)?,
        utils: read(UTILS.0)?,
        subagent: optional(SUBAGENT.0)?,
        workflow: optional(WORKFLOW.0)?,
        commit: repository.and_then(Repository::head).unwrap_or_default(),
    };
    if files.commit.is_empty() {
        files.commit = "no commit (files without a git history)".to_owned();
    } else if committed(&files.commit).as_ref() != Some(&files) {
        files.commit.push_str(" with uncommitted edits");
    }
    Ok(files)
}
