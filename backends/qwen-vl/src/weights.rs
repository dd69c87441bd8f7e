//! Sharded safetensors, memory-mapped.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use memmap2::{Mmap, UncheckedAdvice};
use paravt_hub::checkpoint::{Header, Metadata, all_finite};
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::xxh3_128;

pub use paravt_hub::checkpoint::Dtype;

use crate::error::Error;

/// Bytes of a tensor that one task reads.
const PART: usize = 1 << 20;
/// Unused tensors that an error names.
const NAMED: usize = 3;

/// All tensors of a model folder.
pub struct Weights {
    folder: PathBuf,
    shards: Vec<Shard>,
    shard_of: HashMap<String, usize>,
    /// Digest of each tensor that a model has taken.
    taken: Mutex<BTreeMap<String, u128>>,
}

struct Shard {
    path: PathBuf,
    map: Mmap,
    metadata: Metadata,
    data_start: usize,
}

/// One tensor as it lies in its file.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
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
    /// A file is missing, truncated or corrupt, or the index names one outside of the folder.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let files = paravt_hub::checkpoint::weight_files(folder).map_err(Error::Checkpoint)?;
        let shards = files.iter().map(|file| Shard::open(file)).collect::<Result<Vec<_>, _>>()?;
        let mut shard_of = HashMap::new();
        for (number, shard) in shards.iter().enumerate() {
            shard_of.extend(shard.metadata.tensors().into_keys().map(|name| (name, number)));
        }
        Ok(Self { folder: folder.to_owned(), shards, shard_of, taken: Mutex::default() })
    }

    /// A tensor for a model: its values are read once, for its digest, and have to be finite.
    ///
    /// # Errors
    /// As [`Self::get`], or a value that is NaN or infinite.
    pub fn take<'a>(&'a self, name: &'a str, shape: &[usize]) -> Result<TensorView<'a>, Error> {
        let view = self.get(name, shape)?;
        let parts: Vec<Option<u128>> = view
            .data
            .par_chunks(PART)
            .map(|part| all_finite(view.dtype, part).then(|| xxh3_128(part)))
            .collect();
        let parts: Option<Vec<u128>> = parts.into_iter().collect();
        let Some(parts) = parts else {
            let path = self.shard_of.get(name).map_or(&self.folder, |&number| &self.shards[number].path);
            return Err(Error::Weight {
                name: name.to_owned(),
                path: path.clone(),
                message: "holds a value that is NaN or infinite; the checkpoint is damaged".to_owned(),
            });
        };
        let bytes: Vec<u8> = parts.into_iter().flat_map(u128::to_le_bytes).collect();
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), xxh3_128(&bytes));
        Ok(view)
    }

    /// Checks that the model has taken every tensor that computes something.
    ///
    /// # Errors
    /// Names tensors that the configuration leaves out.
    pub(crate) fn check_all_taken(&self, tied: bool) -> Result<(), Error> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let harmless = |name: &str| {
            // Computed from the configuration; older versions of transformers saved it.
            name.ends_with(".inv_freq") || (tied && name == "lm_head.weight")
        };
        let mut unused: Vec<&String> =
            self.shard_of.keys().filter(|name| !taken.contains_key(*name) && !harmless(name)).collect();
        unused.sort();
        if unused.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = unused.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
        let more = unused.len().checked_sub(NAMED).filter(|more| *more > 0);
        let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
        let message = format!(
            "{} tensors of the checkpoint are not used: {}{more}; config.json describes another model (layers, depth, \
             family)",
            unused.len(),
            names.join(", ")
        );
        Err(Error::file(&self.folder, message))
    }

    /// SHA-256 over name, type, shape and a digest (XXH3, 128 bits) of the values of every tensor taken, in hex.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        for (name, values) in &*self.taken.lock().unwrap_or_else(PoisonError::into_inner) {
            let info = self.shard_of.get(name).and_then(|&number| self.shards[number].metadata.info(name));
            let kind = info.map(|info| format!("{:?} {:?}", info.dtype, info.shape)).unwrap_or_default();
            hasher.update(format!("{name} {kind} {values:032x}\n"));
        }
        paravt_files::hex(&hasher.finalize())
    }

    /// Whether any tensor's name starts so.
    pub(crate) fn has_prefix(&self, prefix: &str) -> bool {
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
    pub fn release(&self, view: &TensorView<'_>) {
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
    /// Missing, of another shape, or of a type other than f32, bf16 and f16.
    pub fn get<'a>(&'a self, name: &'a str, shape: &[usize]) -> Result<TensorView<'a>, Error> {
        let fail = |path: &Path, message: String| Error::Weight {
            name: name.to_owned(),
            path: path.to_owned(),
            message,
        };
        let Some(&number) = self.shard_of.get(name) else {
            return Err(fail(&self.folder, "not found in any shard".to_owned()));
        };
        let shard = &self.shards[number];
        let Some(info) = shard.metadata.info(name) else {
            return Err(fail(&shard.path, "not found in any shard".to_owned()));
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
        Ok(TensorView { name, dtype: info.dtype, shape: &info.shape, data })
    }
}

impl Shard {
    fn open(path: &Path) -> Result<Self, Error> {
        let Header { metadata, data_start } = Header::read(path).map_err(Error::Checkpoint)?;
        let file = File::open(path).map_err(|error| Error::file(path, error))?;
        // SAFETY: model files are read-only to us; a file that somebody truncates while it is mapped
        // ends the process with SIGBUS, as for every user of mapped weights.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::file(path, error))?;
        Ok(Self { path: path.to_owned(), map, metadata, data_start })
    }
}

impl TensorView<'_> {
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
