//! A model folder: which files hold its weights, what their headers say, whether their values are finite.
//!
//! ```
//! use paravt_hub::checkpoint::{Dtype, all_finite};
//!
//! assert!(all_finite(Dtype::F32, &1.5_f32.to_le_bytes()));
//! assert!(!all_finite(Dtype::F32, &f32::NAN.to_le_bytes()));
//! ```

mod finite;
mod header;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

pub use safetensors::Dtype;
pub use safetensors::tensor::Metadata;
use serde::Deserialize;

pub use finite::all_finite;
pub use header::Header;

/// Configuration of a model folder.
const CONFIG: &str = "config.json";
/// File of weights in a folder without an index.
const SINGLE: &str = "model.safetensors";
/// Names the file of each tensor in a folder with several.
pub const INDEX: &str = "model.safetensors.index.json";
/// Maximum bytes of a JSON file; the largest published index has a megabyte.
const MAX_JSON: u64 = 256 << 20;

/// Why the weights of a folder cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be opened or read.
    #[error("{path}: {source}", path = .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// A file that does not hold what it should.
    #[error("{path}: {message}", path = .path.display())]
    Invalid { path: PathBuf, message: String },
}

impl Error {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    fn invalid(path: &Path, message: impl ToString) -> Self {
        Self::Invalid { path: path.to_owned(), message: message.to_string() }
    }
}

/// The fields of an index that are read.
#[derive(Deserialize)]
struct Index {
    /// File by tensor.
    weight_map: BTreeMap<String, String>,
}

/// The safetensors files of a folder's weights: those that its index names, each once and by name, else
/// `model.safetensors`. They need not exist.
///
/// # Errors
/// The index cannot be read, names no file, or names one that is not directly in the folder.
pub fn weight_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let index = folder.join(INDEX);
    let bytes = match paravt_files::read_limited(&index, MAX_JSON) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![folder.join(SINGLE)]),
        read => read.map_err(Error::io(&index))?,
    };
    let Index { weight_map } =
        serde_json::from_slice(&bytes).map_err(|error| Error::invalid(&index, error))?;
    for (tensor, name) in &weight_map {
        let mut parts = Path::new(name).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
            let message =
                format!("weight_map puts `{tensor}` into {name:?}; a file name in this folder is needed");
            return Err(Error::invalid(&index, message));
        }
    }
    let mut names: Vec<String> = weight_map.into_values().collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Err(Error::invalid(&index, "weight_map names no file"));
    }
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// Whether a folder has its configuration and all files of its weights, none of them truncated.
pub fn is_whole(folder: &Path) -> bool {
    let config = paravt_files::read_limited(&folder.join(CONFIG), MAX_JSON).unwrap_or_default();
    serde_json::from_slice::<serde_json::Value>(&config).is_ok()
        && weight_files(folder).is_ok_and(|files| files.iter().all(|file| Header::read(file).is_ok()))
}

/// The commit of a model in the hub's cache, whose folder is `…/snapshots/COMMIT`.
pub fn commit(folder: &Path) -> Option<String> {
    let is_snapshot = folder.parent()?.file_name()? == "snapshots";
    Some(folder.file_name()?.to_str()?.to_owned()).filter(|_| is_snapshot)
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::TensorView;

    use super::*;

    fn write(path: &Path) -> Vec<u8> {
        let view = TensorView::new(Dtype::U8, vec![3], &[1, 2, 3]).unwrap();
        let bytes = safetensors::serialize([("a", view)], None).unwrap();
        std::fs::write(path, &bytes).unwrap();
        bytes
    }

    #[test]
    fn a_folder_is_whole_with_every_byte_of_every_file_that_its_index_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let bytes = write(&path(SINGLE));
        assert!(!is_whole(dir.path()));
        std::fs::write(path(CONFIG), "{}").unwrap();
        assert!(is_whole(dir.path()));
        std::fs::write(path(SINGLE), &bytes[..bytes.len() - 1]).unwrap();
        assert!(!is_whole(dir.path()));
        let error = Header::read(&path(SINGLE)).unwrap_err().to_string();
        assert!(error.contains("model.safetensors: truncated or corrupt"), "{error}");

        write(&path("1"));
        std::fs::write(path(INDEX), r#"{"weight_map": {"a": "2", "b": "1", "c": "2"}}"#).unwrap();
        assert_eq!(weight_files(dir.path()).unwrap(), [path("1"), path("2")]);
        assert!(!is_whole(dir.path()));
        write(&path("2"));
        assert!(is_whole(dir.path()));
        for (index, wrong) in [
            (r#"{"weight_map": {"a": "../2"}}"#, "a file name in this folder"),
            (r#"{"weight_map": {}}"#, "names no file"),
            (r#"{"weights": {}}"#, "missing field `weight_map`"),
        ] {
            std::fs::write(path(INDEX), index).unwrap();
            let error = weight_files(dir.path()).unwrap_err().to_string();
            assert!(error.contains(INDEX) && error.contains(wrong), "{error}");
        }
    }
}
