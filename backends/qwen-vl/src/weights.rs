//! Sharded safetensors, memory-mapped.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::{Mmap, UncheckedAdvice};
use safetensors::tensor::{Metadata, SafeTensors};

pub use safetensors::Dtype;

use crate::error::Error;

/// All tensors of a model folder.
pub struct Weights {
    folder: PathBuf,
    shards: Vec<Shard>,
    shard_of: HashMap<String, usize>,
}

struct Shard {
    path: PathBuf,
    map: Mmap,
    metadata: Metadata,
    data_start: usize,
}

/// One tensor as it lies in its file.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Name in the checkpoint.
    pub name: &'a str,
    /// Type of an element.
    pub dtype: Dtype,
    /// Sizes, outermost first.
    pub shape: &'a [usize],
    /// Little-endian elements, row-major.
    pub data: &'a [u8],
}

impl Weights {
    /// Maps `model.safetensors`, or the shards of `model.safetensors.index.json`.
    ///
    /// # Errors
    /// No such files, or a file that is no safetensors or is cut off.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let index = folder.join("model.safetensors.index.json");
        let mut names: Vec<String> = if index.is_file() {
            let text = std::fs::read(&index).map_err(|error| Error::file(&index, error))?;
            let json: serde_json::Value =
                serde_json::from_slice(&text).map_err(|error| Error::file(&index, error))?;
            let map = json["weight_map"].as_object();
            let map = map.ok_or_else(|| Error::file(&index, "no `weight_map`"))?;
            map.values().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        } else {
            vec!["model.safetensors".to_owned()]
        };
        names.sort();
        names.dedup();
        let shards =
            names.iter().map(|name| Shard::open(&folder.join(name))).collect::<Result<Vec<_>, _>>()?;
        let mut shard_of = HashMap::new();
        for (number, shard) in shards.iter().enumerate() {
            shard_of.extend(shard.metadata.tensors().into_keys().map(|name| (name, number)));
        }
        Ok(Self { folder: folder.to_owned(), shards, shard_of })
    }

    /// Whether any tensor's name starts so.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        self.shard_of.keys().any(|name| name.starts_with(prefix))
    }

    /// Whether there is such a tensor.
    pub fn has(&self, name: &str) -> bool {
        self.shard_of.contains_key(name)
    }

    /// Bytes of all tensors in the files.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.map.len() - shard.data_start).sum()
    }

    /// Elements of all tensors.
    pub fn elements(&self) -> usize {
        let infos =
            self.shards.iter().flat_map(|shard| shard.metadata.tensors().into_values().collect::<Vec<_>>());
        infos.map(|info| info.shape.iter().product::<usize>()).sum()
    }

    /// Type of the first weight: that of the checkpoint.
    pub fn dtype(&self) -> Option<Dtype> {
        self.shards.first()?.metadata.tensors().into_values().next().map(|info| info.dtype)
    }

    /// Lets go of a tensor's pages once its values are copied: a model is in memory once, not twice.
    pub fn release(&self, view: &View<'_>) {
        let Some(&number) = self.shard_of.get(view.name) else { return };
        let (map, page) = (&self.shards[number].map, 4096);
        let start = (view.data.as_ptr() as usize - map.as_ptr() as usize).next_multiple_of(page);
        let end = (view.data.as_ptr() as usize - map.as_ptr() as usize + view.data.len()) / page * page;
        if start < end {
            // SAFETY: the mapping is of a file and never written: dropped pages come back as they were.
            #[allow(unsafe_code)]
            let _ = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start) };
        }
    }

    /// One tensor of a known number of elements per axis.
    ///
    /// # Errors
    /// Missing, another shape, or a type other than f32, bf16 and f16.
    pub fn get<'a>(&'a self, name: &'a str, shape: &[usize]) -> Result<View<'a>, Error> {
        let fail = |path: &Path, message: String| Error::Weight {
            name: name.to_owned(),
            path: path.to_owned(),
            message,
        };
        let Some(&number) = self.shard_of.get(name) else {
            return Err(fail(&self.folder, "no file has it".to_owned()));
        };
        let shard = &self.shards[number];
        let Some(info) = shard.metadata.info(name) else {
            return Err(fail(&shard.path, "no file has it".to_owned()));
        };
        if info.shape != shape {
            let message = format!("shape {:?}, the configuration asks for {shape:?}", info.shape);
            return Err(fail(&shard.path, message));
        }
        if !matches!(info.dtype, Dtype::F32 | Dtype::BF16 | Dtype::F16) {
            return Err(fail(&shard.path, format!("type {:?}; f32, bf16 and f16 are read", info.dtype)));
        }
        let (start, end) = info.data_offsets;
        let data = &shard.map[shard.data_start + start..shard.data_start + end];
        Ok(View { name, dtype: info.dtype, shape: &info.shape, data })
    }
}

impl Shard {
    fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|error| Error::file(path, error))?;
        // SAFETY: model files are read-only to us; a file that somebody truncates while it is mapped
        // ends the process with SIGBUS, as for every user of mapped weights.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::file(path, error))?;
        let (header, metadata) = SafeTensors::read_metadata(&map)
            .map_err(|error| Error::file(path, format!("no whole safetensors file: {error}")))?;
        // The length of the header is itself eight bytes.
        Ok(Self { path: path.to_owned(), map, metadata, data_start: header + 8 })
    }
}

impl View<'_> {
    /// Elements as f32; bf16 and f16 widen exactly.
    pub fn to_f32(&self) -> Vec<f32> {
        let two = |f: fn([u8; 2]) -> f32| self.data.chunks_exact(2).map(|b| f([b[0], b[1]])).collect();
        match self.dtype {
            Dtype::BF16 => two(|b| half::bf16::from_le_bytes(b).to_f32()),
            Dtype::F16 => two(|b| half::f16::from_le_bytes(b).to_f32()),
            _ => self.data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        }
    }
}
