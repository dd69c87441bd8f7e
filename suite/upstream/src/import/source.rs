//! Reads the files out of a work tree, a git directory or anything git can clone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_files::read_limited;

use super::git::{Cancel, MAX_FILE, Repository, clone};
use super::{ImportError, Release};

/// Contents of a release's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Texts by path; an optional one may be missing.
    pub texts: BTreeMap<&'static str, String>,
    /// Commit of the files with its state, or `no commit (…)`: human-readable.
    pub commit: String,
}

impl Files {
    /// Text of a file.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Text of a file that is not optional.
    ///
    /// # Errors
    /// It is not there.
    pub fn required(&self, path: &'static str) -> Result<&str, ImportError> {
        self.get(path).ok_or_else(|| ImportError::Unreadable {
            file: path.to_owned(),
            from: self.commit.clone(),
            message: "it is not there".to_owned(),
        })
    }
}

/// Reads the files from `from`: the pinned commit where there is a git history, else what is there.
/// With `unpinned` always what is there: the work tree, edits included, or `HEAD` where there is no
/// work tree.
///
/// A checkout may be hostile: its configuration, hooks, filters and remotes are never read.
///
/// # Errors
/// A file is at none of these places, is not a regular file, or is too large.
pub fn read_files(release: &Release, from: &str, unpinned: bool) -> Result<Files, ImportError> {
    read_files_until(release, from, unpinned, &|| false)
}

/// [`read_files`] that stops, and removes its temporary files, once `cancel` answers true.
///
/// # Errors
/// As [`read_files`], or it was cancelled.
pub fn read_files_until(
    release: &Release,
    from: &str,
    unpinned: bool,
    cancel: &Cancel<'_>,
) -> Result<Files, ImportError> {
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
            read_folder(release, &folder, repository.as_ref(), unpinned, cancel, &unreadable)
        }
        Location::History(folder) => {
            let repository = Repository::find(&folder).map_err(repository_error)?;
            let repository = repository.ok_or_else(|| repository_error("not a git repository".to_owned()))?;
            read_history(release, &repository, unpinned, cancel, &unreadable)
        }
        Location::Remote => {
            let folder = tempfile::tempdir().map_err(|error| repository_error(error.to_string()))?;
            let cloned = folder.path().join("clone");
            clone(from, &cloned, cancel)
                .map_err(|message| repository_error(paravt_suite::redact::urls(&message)))?;
            let repository = Repository::find(&cloned).map_err(repository_error)?;
            let repository = repository.ok_or_else(|| repository_error("the clone is empty".to_owned()))?;
            read_history(release, &repository, unpinned, cancel, &unreadable)
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

/// The pinned commit, or `HEAD` with `unpinned`.
fn read_history(
    release: &Release,
    repository: &Repository,
    unpinned: bool,
    cancel: &Cancel<'_>,
    unreadable: &Unreadable<'_>,
) -> Result<Files, ImportError> {
    let head = repository.head();
    let commit = match (&head, unpinned) {
        (Some(head), true) => head.clone(),
        (None, true) => return Err(unreadable("HEAD", "the repository has no commit".to_owned())),
        (_, false) => release.commit.to_owned(),
    };
    let mut texts = BTreeMap::new();
    for file in release.files {
        match repository.blob(&commit, file.path, cancel) {
            Ok(text) => drop(texts.insert(file.path, text)),
            Err(_) if file.optional => {}
            Err(message) => return Err(unreadable(file.path, format!("commit {commit}: {message}"))),
        }
    }
    Ok(Files { texts, commit })
}

fn read_folder(
    release: &Release,
    folder: &Path,
    repository: Option<&Repository>,
    unpinned: bool,
    cancel: &Cancel<'_>,
    unreadable: &Unreadable<'_>,
) -> Result<Files, ImportError> {
    let committed = |revision: &str| {
        let repository = repository?;
        let mut texts = BTreeMap::new();
        for file in release.files {
            match repository.blob(revision, file.path, cancel) {
                Ok(text) => drop(texts.insert(file.path, text)),
                Err(_) if file.optional => {}
                Err(_) => return None,
            }
        }
        Some(Files { texts, commit: revision.to_owned() })
    };
    if !unpinned && let Some(files) = committed(release.commit) {
        return Ok(files);
    }
    let has_files = release.files.first().is_some_and(|file| folder.join(file.path).exists());
    if let Some(repository) = repository.filter(|_| !has_files) {
        return read_history(release, repository, unpinned, cancel, unreadable);
    }
    let mut texts = BTreeMap::new();
    for file in release.files {
        let path = folder.join(file.path);
        if file.optional && !path.exists() {
            continue;
        }
        let bytes =
            read_limited(&path, MAX_FILE).map_err(|error| unreadable(file.path, error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| unreadable(file.path, "not UTF-8".to_owned()))?;
        texts.insert(file.path, text);
    }
    let head = repository.and_then(Repository::head).unwrap_or_default();
    let mut files = Files { texts, commit: head };
    if files.commit.is_empty() {
        files.commit = "no commit (files without a git history)".to_owned();
    } else if committed(&files.commit).as_ref() != Some(&files) {
        files.commit.push_str(" with uncommitted edits");
    }
    Ok(files)
}
