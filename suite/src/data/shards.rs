//! The files that the names of a layout stand for: one each, or those that match a pattern.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

use super::DataError;

const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// The files of a table that lie at a place, and those that do not.
#[derive(Debug, Default)]
pub(super) struct Lying {
    /// Each once, in the order of the names, those of a pattern by name.
    pub files: Vec<PathBuf>,
    /// A file, or a pattern that nothing matches.
    pub missing: Vec<PathBuf>,
}

/// Whether a name is a pattern. A file of that very name is read all the same.
fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Checks a name.
///
/// # Errors
/// It looks like a pattern and is none, or has `**`.
pub(super) fn check(name: &str) -> Result<(), String> {
    if !is_pattern(name) {
        return Ok(());
    }
    if name.contains("**") {
        return Err("`**` is not read; name the folder".to_owned());
    }
    Pattern::new(name).map(drop).map_err(|error| error.to_string())
}

impl Lying {
    /// Looks for names below a folder.
    ///
    /// # Errors
    /// A file or folder that may not be read; a file that says it is one of several, of which not all are named.
    pub(super) fn of(folder: &Path, names: &[String]) -> Result<Self, DataError> {
        let mut lying = Self::default();
        for name in names {
            let path = folder.join(name);
            let found = if is_file(&path)? { vec![path.clone()] } else { matching(folder, name)? };
            if found.is_empty() {
                lying.missing.push(path);
            }
            for file in found {
                // A dangling link of the hub's cache matches a pattern.
                let list = if is_file(&file)? { &mut lying.files } else { &mut lying.missing };
                if !list.contains(&file) {
                    list.push(file);
                }
            }
        }
        lying.check_series()?;
        Ok(lying)
    }

    /// `train-00000-of-00002.parquet` says that there is another: what is read without it is half of the rows.
    fn check_series(&mut self) -> Result<(), DataError> {
        let series: Vec<(&PathBuf, Series<'_>)> =
            self.files.iter().filter_map(|file| Some((file, Series::of(file)?))).collect();
        let has = |one: &Series<'_>, index| {
            series.iter().any(|(_, other)| {
                other.index == index && (other.start, other.count) == (one.start, one.count)
            })
        };
        let absent = series.iter().find_map(|(file, one)| {
            let index = (0..one.count).find(|index| !has(one, *index))?;
            Some(((*file).clone(), one.count, one.name(index)))
        });
        let Some((file, count, name)) = absent else { return Ok(()) };
        let other = file.with_file_name(&name);
        if is_file(&other)? {
            let message = format!(
                "one of {count} files by its name, and layout.annotations does not name `{name}`, which lies beside \
                 it; name all of them, or write `*` in the place of the number"
            );
            return Err(DataError::Format { path: file, message });
        }
        self.missing.push(other);
        Ok(())
    }
}

/// A file of several, by a name such as `train-00000-of-00002.parquet`.
struct Series<'a> {
    /// Up to the number.
    start: &'a str,
    index: usize,
    count: usize,
    name: &'a str,
    digits: std::ops::Range<usize>,
}

impl<'a> Series<'a> {
    fn of(path: &'a Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let (before, after) = name.rsplit_once("-of-")?;
        let length = after.bytes().take_while(u8::is_ascii_digit).count();
        let count = after[..length].parse().ok()?;
        let (start, index) = before.rsplit_once('-')?;
        let digits = start.len() + 1..before.len();
        Some(Self { start, index: index.parse().ok()?, count, name, digits })
    }

    /// The name of another file of it.
    fn name(&self, index: usize) -> String {
        let mut name = self.name.to_owned();
        name.replace_range(self.digits.clone(), &format!("{index:0width$}", width = self.digits.len()));
        name
    }
}

fn is_file(path: &Path) -> Result<bool, DataError> {
    match std::fs::metadata(path) {
        Ok(there) => Ok(there.is_file()),
        Err(source) if source.kind() == ErrorKind::PermissionDenied => {
            Err(DataError::Io { path: path.to_owned(), source })
        }
        Err(_) => Ok(false),
    }
}

/// Files below a folder whose path matches, by name; folders are left out.
fn matching(folder: &Path, name: &str) -> Result<Vec<PathBuf>, DataError> {
    let Some(folder) = folder.to_str().filter(|_| is_pattern(name)) else { return Ok(Vec::new()) };
    let pattern = Path::new(&Pattern::escape(folder)).join(name);
    let wrong = |message: String| DataError::Format { path: name.into(), message };
    let found =
        glob::glob_with(&pattern.to_string_lossy(), OPTIONS).map_err(|error| wrong(error.to_string()))?;
    let mut files = Vec::new();
    for file in found {
        let file =
            file.map_err(|error| DataError::Io { path: error.path().to_owned(), source: error.into() })?;
        if !file.is_dir() {
            files.push(file);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lying(folder: &Path, names: &[&str]) -> Result<Lying, DataError> {
        Lying::of(folder, &names.iter().map(|name| name.to_string()).collect::<Vec<_>>())
    }

    /// Names of what lies and of what does not, separated by blanks.
    fn names(folder: &Path, names: &[&str]) -> [String; 2] {
        let lying = lying(folder, names).unwrap();
        [lying.files, lying.missing].map(|paths| {
            let names = paths.iter().map(|path| path.strip_prefix(folder).unwrap().display().to_string());
            names.collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn names_and_patterns_stand_for_files_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let folder = &dir.path().join("a[1]*");
        std::fs::create_dir_all(folder.join("data/sub.json")).unwrap();
        let files =
            ["b.json", "a.json", "x[1].json", "data/t-00000-of-00002.json", "data/t-00001-of-00002.json"];
        files.iter().for_each(|file| std::fs::write(folder.join(file), "[]").unwrap());
        std::os::unix::fs::symlink("nowhere", folder.join("data/u.json")).unwrap();
        for (asked, found, missing) in [
            (&["b.json", "a.json"][..], "b.json a.json", ""),
            (&["?.json", "a.json", "a.json"], "a.json b.json", ""),
            (&["x[1].json"], "x[1].json", ""),
            (&["a.json", "c.json", "c*.json"], "a.json", "c.json c*.json"),
            (&["data/t-*.json"], "data/t-00000-of-00002.json data/t-00001-of-00002.json", ""),
            (&["data/t-*-of-00002.json"], "data/t-00000-of-00002.json data/t-00001-of-00002.json", ""),
            (&["data/[su]*.json"], "", "data/u.json"),
        ] {
            assert_eq!(names(folder, asked), [found, missing], "{asked:?}");
        }
        let half = lying(folder, &["data/t-00001-of-00002.json"]).unwrap_err().to_string();
        assert!(half.contains("one of 2 files") && half.contains("`t-00000-of-00002.json`"), "{half}");
        std::fs::remove_file(folder.join("data/t-00000-of-00002.json")).unwrap();
        for asked in ["data/t-*.json", "data/t-00001-of-00002.json"] {
            assert_eq!(names(folder, &[asked])[1], "data/t-00000-of-00002.json", "{asked}");
        }
    }

    #[test]
    fn numbers_of_a_name_are_read() {
        let of =
            |name: &'static str| Series::of(Path::new(name)).map(|one| (one.index, one.count, one.name(7)));
        assert_eq!(
            of("train-00001-of-00002-ab12.parquet"),
            Some((1, 2, "train-00007-of-00002-ab12.parquet".into()))
        );
        for none in ["rows.json", "a-of-b.json", "best-of-2.json", "x-1-of-.json", "x-of-3.json"] {
            assert!(of(none).is_none(), "{none}");
        }
    }
}
