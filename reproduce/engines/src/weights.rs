//! Compares the tensors of a model folder with those of another: names, shapes, finite values.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::files;

/// File of SHA-256 sums in a verified folder.
pub const SUMS: &str = "sha256.json";
/// Bytes per read; a multiple of the size of every number type.
const BLOCK: usize = 4 << 20;
/// Bytes of the list of tensors at most.
const HEADER: u64 = 256 << 20;

/// Contents of a verified model folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    /// Tensors.
    pub tensors: usize,
    /// Numbers in them.
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
        wanted.extend(header(&path)?.1.into_iter().map(|(name, tensor)| (name, tensor.shape)));
    }
    compare(folder, &mut found, &mut wanted)?;
    for path in files::entries(folder)? {
        let name = files::name(&path).to_owned();
        if path.is_file() && name != SUMS && !sums.contains_key(&name) {
            let bytes = std::fs::read(&path).map_err(|source| Error::file("cannot read", &path, source))?;
            sums.insert(name, hex(&Sha256::digest(&bytes)));
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

/// The `.safetensors` of a folder; those that an index names where there is one.
fn weight_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let index = folder.join("model.safetensors.index.json");
    let mut paths: Vec<PathBuf> = match std::fs::read(&index) {
        Ok(text) => {
            let parsed: Value =
                serde_json::from_slice(&text).map_err(|error| Error::weights(&index, error.to_string()))?;
            let map = parsed.get("weight_map").and_then(Value::as_object);
            let map = map.ok_or_else(|| Error::weights(&index, "it has no `weight_map`"))?;
            map.values().filter_map(Value::as_str).map(|name| folder.join(name)).collect()
        }
        Err(_) => {
            let is_weights = |path: &PathBuf| path.extension().is_some_and(|end| end == "safetensors");
            files::entries(folder)?.into_iter().filter(is_weights).collect()
        }
    };
    paths.sort();
    paths.dedup();
    if paths.is_empty() {
        return Err(Error::weights(folder, "it has no *.safetensors"));
    }
    Ok(paths)
}

/// A tensor as the list of a file names it.
#[derive(Debug, Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

/// The tensors of a file in the order of their bytes, and where those begin.
fn header(path: &Path) -> Result<(usize, Vec<(String, Tensor)>)> {
    let read = || {
        let mut file = File::open(path)?;
        let mut length = [0; 8];
        file.read_exact(&mut length)?;
        let mut bytes = Vec::new();
        file.take(u64::from_le_bytes(length).min(HEADER)).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|source| Error::file("cannot read", path, source))?;
    let invalid = |error: serde_json::Error| Error::weights(path, format!("its list of tensors: {error}"));
    let mut fields: BTreeMap<String, Value> = serde_json::from_slice(&bytes).map_err(invalid)?;
    fields.remove("__metadata__");
    let tensors = fields.into_iter().map(|(name, about)| Ok((name, serde_json::from_value(about)?)));
    let mut tensors: Vec<(String, Tensor)> = tensors.collect::<serde_json::Result<_>>().map_err(invalid)?;
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let mut end = 0;
    for (name, tensor) in &tensors {
        if tensor.data_offsets[0] != end || tensor.data_offsets[1] < end {
            return Err(Error::weights(path, format!("tensor `{name}` does not follow the one before it")));
        }
        end = tensor.data_offsets[1];
    }
    Ok((bytes.len() + 8, tensors))
}

/// Whether a file has all bytes that its list of tensors names.
pub(crate) fn is_whole(path: &Path) -> bool {
    let Ok((start, tensors)) = header(path) else { return false };
    let end = tensors.last().map_or(0, |(_, tensor)| tensor.data_offsets[1]);
    std::fs::metadata(path).is_ok_and(|file| file.len() == (start + end) as u64)
}

/// Shapes of a file's tensors; sums the file and looks at every number on the way.
fn check_file(path: &Path, sums: &mut BTreeMap<String, String>) -> Result<Shapes> {
    let (start, tensors) = header(path)?;
    let io = |source| Error::file("cannot read", path, source);
    let mut file = File::open(path).map_err(io)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; start];
    file.read_exact(&mut buffer).map_err(io)?;
    hash.update(&buffer);
    for (name, Tensor { dtype, data_offsets: [begin, end], .. }) in &tensors {
        let mut left = end - begin;
        while left > 0 {
            buffer.resize(left.min(BLOCK), 0);
            if let Err(source) = file.read_exact(&mut buffer) {
                return match source.kind() {
                    std::io::ErrorKind::UnexpectedEof => Err(Error::weights(path, "it is truncated")),
                    _ => Err(io(source)),
                };
            }
            hash.update(&buffer);
            if !are_finite(dtype, &buffer) {
                return Err(Error::weights(path, format!("tensor `{name}` has a value that is not finite")));
            }
            left -= buffer.len();
        }
    }
    sums.insert(files::name(path).to_owned(), hex(&hash.finalize()));
    Ok(tensors.into_iter().map(|(name, tensor)| (name, tensor.shape)).collect())
}

/// Whether all numbers are finite: infinities and NaN have all bits of the exponent set.
fn are_finite(dtype: &str, bytes: &[u8]) -> bool {
    let halves = |exponent: u16| {
        bytes.chunks_exact(2).all(|pair| u16::from_le_bytes([pair[0], pair[1]]) & exponent != exponent)
    };
    match dtype {
        "BF16" => halves(0x7f80),
        "F16" => halves(0x7c00),
        "F32" => bytes
            .chunks_exact(4)
            .all(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]).is_finite()),
        _ => true,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use safetensors::Dtype;
    use safetensors::tensor::TensorView;

    use super::*;

    fn model(folder: &Path, tensors: &[(&str, Vec<usize>, u16)]) {
        std::fs::create_dir_all(folder).unwrap();
        let bytes: Vec<Vec<u8>> = tensors
            .iter()
            .map(|(_, shape, value)| value.to_le_bytes().repeat(shape.iter().product()))
            .collect();
        let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
            (*name, TensorView::new(Dtype::BF16, shape.clone(), bytes).unwrap())
        });
        let data = safetensors::serialize(views, None).unwrap();
        std::fs::write(folder.join("model.safetensors"), data).unwrap();
        std::fs::write(folder.join("config.json"), "{\"tie_word_embeddings\": true}").unwrap();
    }

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
        assert_eq!(sums["model.safetensors"], hex(&Sha256::digest(&bytes)));
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
        assert!(verify(&made, &base).unwrap_err().to_string().contains("no *.safetensors"));
    }
}
