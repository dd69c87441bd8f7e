//! Headers of safetensors files.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use safetensors::tensor::Metadata;

use super::Error;

/// Bytes before the header, which hold its length.
const LENGTH: u64 = 8;
/// Maximum bytes of a header, as the format has it.
const MAX_HEADER: u64 = 100_000_000;

/// The header of a safetensors file that has all bytes it names.
#[derive(Debug, Clone)]
pub struct Header {
    /// Names, types, shapes and places of the tensors.
    pub metadata: Metadata,
    /// Bytes before the first tensor.
    pub data_start: usize,
}

impl Header {
    /// Reads the header of a file and compares it with the file's length.
    ///
    /// # Errors
    /// The file cannot be read, is not a regular one, or is truncated or corrupt.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let corrupt =
            |why: String| Error::invalid(path, format!("truncated or corrupt safetensors file: {why}"));
        let mut file: File = paravt_files::open_regular(path).map_err(Error::io(path))?;
        let bytes = file.metadata().map_err(Error::io(path))?.len();
        let mut length = [0; LENGTH as usize];
        file.read_exact(&mut length).map_err(|error| corrupt(error.to_string()))?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER {
            return Err(corrupt(format!("a header of {length} bytes")));
        }
        let mut header = Vec::new();
        file.take(length).read_to_end(&mut header).map_err(Error::io(path))?;
        let metadata: Metadata =
            serde_json::from_slice(&header).map_err(|error| corrupt(error.to_string()))?;
        let data_start = LENGTH + length;
        let wanted = data_start.saturating_add(metadata.data_len() as u64);
        if bytes != wanted {
            return Err(corrupt(format!("it has {bytes} bytes, its header names {wanted}")));
        }
        Ok(Self { metadata, data_start: data_start as usize })
    }
}
