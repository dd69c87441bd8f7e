//! Reads the files out of a work tree, a git directory or anything git can clone.

use std::path::{Path, PathBuf};

use paravt_files::read_limited;

use super::git::{Cancel, MAX_FILE, Repository, clone};
use super::{Files, ImportError, Release};

/// Reads the files from `from`: the pinned commit where there is a git history, else what is there.
///
/// A checkout may be hostile: its configuration, hooks, filters and remotes are never read.
///
/// # Errors
/// A file is at none of these places, is not a regular file, or is too large.
pub fn read_files(release: &Release, from: &str) -> Result<Files, ImportError> {
    read_files_until(release, from, &|| false)
}

/// [`read_files`] that stops, and removes its temporary files, once `cancel` answers true.
///
/// # Errors
/// As [`read_files`], or it was cancelled.
pub fn read_files_until(release: &Release, from: &str, cancel: &Cancel<'_>) -> Result<Files, ImportError> {
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
            read_folder(release, &folder, repository.as_ref(), cancel, &unreadable)
        }
        Location::History(folder) => {
            let repository = Repository::find(&folder).map_err(repository_error)?;
            let repository = repository.ok_or_else(|| repository_error("not a git repository".to_owned()))?;
            read_history(release, &repository, cancel, &unreadable)
        }
        Location::Remote => {
            let folder = tempfile::tempdir().map_err(|error| repository_error(error.to_string()))?;
            let cloned = folder.path().join("clone");
            clone(from, &cloned, cancel)
                .map_err(|message| repository_error(paravt_suite::redact::urls(&message)))?;
            let repository = Repository::find(&cloned).map_err(repository_error)?;
            let repository = repository.ok_or_else(|| repository_error("the clone is empty".to_owned()))?;
            read_history(release, &repository, cancel, &unreadable)
        }
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

/// The files of the pinned commit.
fn read_history(
    release: &Release,
    repository: &Repository,
    cancel: &Cancel<'_>,
    unreadable: &Unreadable<'_>,
) -> Result<Files, ImportError> {
    let commit = release.commit;
    let read = release.files.iter().map(|file| match repository.blob(commit, file.path, cancel) {
        Ok(text) => Ok((file.path, text)),
        Err(message) => Err(unreadable(file.path, format!("commit {commit}: {message}"))),
    });
    read.collect()
}

/// The files of the pinned commit, else those of the work tree.
fn read_folder(
    release: &Release,
    folder: &Path,
    repository: Option<&Repository>,
    cancel: &Cancel<'_>,
    unreadable: &Unreadable<'_>,
) -> Result<Files, ImportError> {
    if let Some(repository) = repository {
        let committed = read_history(release, repository, cancel, unreadable);
        let has_files = release.files.first().is_some_and(|file| folder.join(file.path).exists());
        if committed.is_ok() || !has_files {
            return committed;
        }
    }
    let read = release.files.iter().map(|file| {
        let bytes = read_limited(&folder.join(file.path), MAX_FILE);
        let bytes = bytes.map_err(|error| unreadable(file.path, error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| unreadable(file.path, "not UTF-8".to_owned()))?;
        Ok((file.path, text))
    });
    read.collect()
}
