//! Published paths and the files behind them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::{Media, PathForm};

/// What published paths begin with. The release's own list is not published; these are the folders that its
/// documentation names.
const PREFIXES: [&str; 3] = ["longvt_source/", "museg/", "selfqa/"];
/// Links that are followed for one path.
const MAX_LINKS: usize = 40;

/// Turns published paths into absolute ones and remembers each.
pub(super) struct Paths {
    root: PathBuf,
    form: PathForm,
    /// By published path: absolute path, whether it exists, what it is.
    known: BTreeMap<String, (PathBuf, bool, Media)>,
    references: usize,
    missing_references: BTreeMap<String, usize>,
}

impl Paths {
    /// Paths below an absolute root.
    pub(super) fn new(root: PathBuf, form: PathForm) -> Self {
        let (known, missing_references) = (BTreeMap::new(), BTreeMap::new());
        Self { root, form, known, references: 0, missing_references }
    }

    /// The absolute form of a published path; `None` for a path that stays as it is.
    ///
    /// # Errors
    /// The path leaves the root.
    pub(super) fn absolute(&mut self, given: &str, media: Media) -> Result<Option<String>, String> {
        let published = given.strip_prefix("file://").unwrap_or(given);
        if !PREFIXES.iter().any(|prefix| published.starts_with(prefix)) {
            return Ok(None);
        }
        if published.split('/').any(|part| part == "..") {
            return Err(format!("`{given}` leaves the folder of the media"));
        }
        let (path, exists, _) = self.known.entry(published.to_owned()).or_insert_with(|| {
            let path = real(&self.root.join(published));
            let exists = path.exists();
            (path, exists, media)
        });
        self.references += 1;
        if !*exists {
            let bucket = published.split('/').next().unwrap_or_default();
            *self.missing_references.entry(bucket.to_owned()).or_default() += 1;
        }
        let path = path.to_str().ok_or_else(|| format!("`{given}`: the folder's path is not UTF-8"))?;
        Ok(Some(match self.form {
            PathForm::Plain => path.to_owned(),
            PathForm::Uri => format!("file://{path}"),
        }))
    }

    /// References since the last call, and those to media that are not there by folder.
    pub(super) fn take_counts(&mut self) -> (usize, BTreeMap<String, usize>) {
        (std::mem::take(&mut self.references), std::mem::take(&mut self.missing_references))
    }

    /// Media that are there, and published paths of those that are not, each once and sorted.
    pub(super) fn into_media(self) -> (Vec<(String, PathBuf, Media)>, Vec<String>) {
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for (published, (path, exists, media)) in self.known {
            if exists {
                there.push((published, path, media));
            } else {
                missing.push(published);
            }
        }
        (there, missing)
    }
}

/// Python's `os.path.realpath` of an absolute path: links followed as far as the path exists.
pub(super) fn real(path: &Path) -> PathBuf {
    let mut open: Vec<std::ffi::OsString> =
        path.components().rev().map(|component| component.as_os_str().to_owned()).collect();
    let mut found = PathBuf::new();
    let mut links = 0;
    while let Some(next) = open.pop() {
        match Path::new(&next).components().next() {
            Some(Component::RootDir) => found = PathBuf::from("/"),
            Some(Component::ParentDir) => {
                found.pop();
            }
            Some(Component::Normal(name)) => {
                let step = found.join(name);
                match std::fs::read_link(&step) {
                    Ok(target) if links < MAX_LINKS => {
                        links += 1;
                        open.extend(target.components().rev().map(|part| part.as_os_str().to_owned()));
                    }
                    _ => found = step,
                }
            }
            Some(Component::CurDir | Component::Prefix(_)) | None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_as_far_as_the_path_exists() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        std::os::unix::fs::symlink(root.join("link/deep"), root.join("far")).unwrap();
        std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
        for (path, expected) in [
            ("link/deep/none.mp4", "real/deep/none.mp4"),
            ("far/./x//y", "real/deep/x/y"),
            ("far/../z", "real/z"),
            ("loop/x", "loop/x"),
        ] {
            assert_eq!(real(&root.join(path)), root.join(expected), "{path}");
        }
    }

    #[test]
    fn only_published_paths_change_and_each_file_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("museg")).unwrap();
        std::fs::write(root.join("museg/a.mp4"), "a").unwrap();
        let mut paths = Paths::new(root.clone(), PathForm::Plain);
        let text = |path: &str| root.join(path).to_str().unwrap().to_owned();
        assert_eq!(paths.absolute("museg/a.mp4", Media::Video), Ok(Some(text("museg/a.mp4"))));
        assert_eq!(paths.absolute("file://museg/b.mp4", Media::Video), Ok(Some(text("museg/b.mp4"))));
        assert_eq!(paths.absolute("museg/b.mp4", Media::Video), Ok(Some(text("museg/b.mp4"))));
        for unchanged in ["", "other/a.mp4", "/museg/a.mp4", "file:///museg/a.mp4", "museg"] {
            assert_eq!(paths.absolute(unchanged, Media::Video), Ok(None), "{unchanged}");
        }
        assert!(paths.absolute("museg/../../etc/passwd", Media::Video).is_err());
        assert_eq!(paths.take_counts(), (3, BTreeMap::from([("museg".to_owned(), 2)])));
        let (there, missing) = paths.into_media();
        assert_eq!((there.len(), missing), (1, vec!["museg/b.mp4".to_owned()]));
    }
}
