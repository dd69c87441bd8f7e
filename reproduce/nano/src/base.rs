//! The base checkpoint in this build (`paravt-bench reproduce paravt-nano-base` trains it again).

use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::{WorldError, tables};

const FILES: [(&str, &[u8]); 9] = [
    ("config.json", include_bytes!("../base/config.json")),
    ("config.5.0.0.json", include_bytes!("../base/config.5.0.0.json")),
    ("generation_config.json", include_bytes!("../base/generation_config.json")),
    ("tokenizer.json", include_bytes!("../base/tokenizer.json")),
    ("tokenizer_config.json", include_bytes!("../base/tokenizer_config.json")),
    ("chat_template.jinja", include_bytes!("../base/chat_template.jinja")),
    ("preprocessor_config.json", include_bytes!("../base/preprocessor_config.json")),
    ("video_preprocessor_config.json", include_bytes!("../base/video_preprocessor_config.json")),
    ("model.safetensors", include_bytes!("../base/model.safetensors")),
];

/// Writes it as a model folder.
///
/// # Errors
/// A file cannot be written.
pub fn write_base(folder: &Path) -> Result<(), WorldError> {
    for (name, bytes) in FILES {
        let path = folder.join(name);
        tables::make_parent(&path)?;
        std::fs::write(&path, bytes)
            .map_err(|error| WorldError::Write { path: path.clone(), message: error.to_string() })?;
    }
    Ok(())
}

/// SHA-256 of all its files together, in lower-case hexadecimal.
pub fn base_sha256() -> String {
    let mut hash = Sha256::new();
    for (name, bytes) in FILES {
        hash.update(name);
        hash.update(bytes);
    }
    paravt_files::hex(&hash.finalize())
}
