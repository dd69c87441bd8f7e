//! Compares the tensors of a model folder with those of another: names, shapes, finite values.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use paravt_files::{hex, sha256_file};
use paravt_hub::checkpoint::{Header, Metadata, all_finite, weight_files};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::files;

/// File of SHA-256 sums in a verified folder.
pub const SUMS: &str = "sha256.json";
/// Bytes per read; a multiple of the size of every number type.
const BLOCK: usize = 4 << 20;

/// Contents of a verified model folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    pub tensors: usize,
    pub parameters: u64,
    /// SHA-256 by file.
    pub sums: BTreeMap<String, String>,
}

impl std::fmt::Display for Weights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tensors, parameters, .. } = self;
        write!(
            f,
            "{tensors} tensors with {parameters} parameters, names and shapes as in the base model, all finite"
        )
    }
}

type Shapes = BTreeMap<String, Vec<usize>>;

/// Compares the tensors of a model folder with those of its base by name and shape, looks for values that are not
/// finite, and writes the SHA-256 of every file into [`SUMS`]. An output head that shares the embedding's tensor may be
/// in one of the two alone.
///
/// # Errors
/// A difference, a value that is not finite, a file that cannot be read.
pub fn verify(folder: &Path, base: &Path) -> Result<Weights> {
    let (mut found, mut parameters, mut sums) = (Shapes::new(), 0, BTreeMap::new());
    for path in weight_files(folder)? {
        let shapes = check_file(&path, &mut sums)?;
        parameters += shapes.values().map(|shape| shape.iter().product::<usize>() as u64).sum::<u64>();
        found.extend(shapes);
    }
    let mut wanted = Shapes::new();
    for path in weight_files(base)? {
        wanted.extend(shapes(&Header::read(&path)?.metadata));
    }
    compare(folder, &mut found, &mut wanted)?;
    for path in files::entries(folder)? {
        let name = files::name(&path).to_owned();
        if path.is_file() && name != SUMS && !sums.contains_key(&name) {
            let sum = sha256_file(&path).map_err(|source| Error::file("cannot read", &path, source))?;
            sums.insert(name, sum);
        }
    }
    files::write(&folder.join(SUMS), format!("{:#}\n", json!(sums)).as_bytes())?;
    Ok(Weights { tensors: found.len(), parameters, sums })
}

fn compare(folder: &Path, found: &mut Shapes, wanted: &mut Shapes) -> Result<()> {
    const HEAD: &str = "lm_head.weight";
    if found.contains_key(HEAD) != wanted.contains_key(HEAD) && is_tied(folder) {
        found.remove(HEAD);
        wanted.remove(HEAD);
    }
    if let Some(name) = wanted.keys().find(|name| !found.contains_key(*name)) {
        return Err(Error::weights(folder, format!("tensor `{name}` of the base model is missing")));
    }
    for (name, shape) in found.iter() {
        match wanted.get(name) {
            None => return Err(Error::weights(folder, format!("tensor `{name}` is not in the base model"))),
            Some(base) if base != shape => {
                let message = format!("tensor `{name}` has shape {shape:?}, in the base model {base:?}");
                return Err(Error::weights(folder, message));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn is_tied(folder: &Path) -> bool {
    let config: Value = std::fs::read(folder.join("config.json"))
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    let of = |value: &Value| value.get("tie_word_embeddings").and_then(Value::as_bool);
    of(&config).or_else(|| config.get("text_config").and_then(of)).unwrap_or(false)
}

/// Shapes of the tensors that a header names.
fn shapes(metadata: &Metadata) -> Shapes {
    metadata.tensors().into_iter().map(|(name, tensor)| (name, tensor.shape.clone())).collect()
}

/// Shapes of a file's tensors; sums the file and looks at every number on the way.
fn check_file(path: &Path, sums: &mut BTreeMap<String, String>) -> Result<Shapes> {
    let Header { metadata, data_start } = Header::read(path)?;
    let io = |source| Error::file("cannot read", path, source);
    let mut file = File::open(path).map_err(io)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; data_start];
    file.read_exact(&mut buffer).map_err(io)?;
    hash.update(&buffer);
    for name in metadata.offset_keys() {
        let tensor = metadata.info(&name).expect("the header names its own tensors");
        let (begin, end) = tensor.data_offsets;
        let mut left = end - begin;
        while left > 0 {
            buffer.resize(left.min(BLOCK), 0);
            file.read_exact(&mut buffer).map_err(io)?;
            hash.update(&buffer);
            if !all_finite(tensor.dtype, &buffer) {
                return Err(Error::weights(path, format!("tensor `{name}` has a value that is not finite")));
            }
            left -= buffer.len();
        }
    }
    sums.insert(files::name(path).to_owned(), hex(&hash.finalize()));
    Ok(shapes(&metadata))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standin::model;

    #[test]
    fn names_shapes_and_values_are_compared_with_the_base() {
        let root = tempfile::tempdir().unwrap();
        let (base, made) = (root.path().join("base"), root.path().join("made"));
        model(&base, &[("a", vec![2, 3], 0x3f80), ("b", vec![4], 0)]);
        model(&made, &[("a", vec![2, 3], 0x3f81), ("b", vec![4], 1), ("lm_head.weight", vec![1], 1)]);
        let found = verify(&made, &base).unwrap();
        assert_eq!((found.tensors, found.parameters), (2, 11));
        let sums: BTreeMap<String, String> =
            serde_json::from_slice(&std::fs::read(made.join(SUMS)).unwrap()).unwrap();
        let bytes = std::fs::read(made.join("model.safetensors")).unwrap();
        assert_eq!(sums["model.safetensors"], paravt_files::sha256(&bytes));
        assert!(sums.contains_key("config.json"));

        for (tensors, wrong) in [
            (vec![("a", vec![2, 3], 0x3f80)], "`b` of the base model is missing"),
            (vec![("a", vec![2, 3], 0), ("b", vec![4], 0), ("c", vec![1], 0)], "`c` is not in the base"),
            (vec![("a", vec![3, 2], 0), ("b", vec![4], 0)], "[3, 2], in the base model [2, 3]"),
            (vec![("a", vec![2, 3], 0), ("b", vec![4], 0x7fc0)], "`b` has a value that is not finite"),
        ] {
            model(&made, &tensors);
            let error = verify(&made, &base).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
        std::fs::write(made.join("model.safetensors"), &bytes[..bytes.len() - 2]).unwrap();
        assert!(verify(&made, &base).is_err());
        std::fs::remove_file(made.join("model.safetensors")).unwrap();
        assert!(verify(&made, &base).unwrap_err().to_string().contains("model.safetensors: No such file"));
    }
}
