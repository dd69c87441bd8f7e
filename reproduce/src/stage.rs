//! Stages: work whose result is kept under what went into it, so that unchanged work is not done again.

use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// Written into a stage's folder when its work is done.
const DONE: &str = "stage.json";
/// Changes when the meaning of any stage's result does.
const VERSION: u32 = 1;

/// One piece of work and where its result is.
#[derive(Debug, Clone)]
pub struct Stage {
    name: String,
    hash: String,
    folder: PathBuf,
    record: String,
}

impl Stage {
    /// The stage of a name, of settings and of the stages it builds on. Its folder is below `root`.
    pub fn new(root: &Path, name: &str, inputs: &[&Stage], settings: &impl Serialize) -> Self {
        let inputs: Vec<&str> = inputs.iter().map(|input| input.hash.as_str()).collect();
        let record = serde_json::json!({
            "stage": name, "version": VERSION, "settings": settings, "inputs": inputs
        });
        let record = format!("{record:#}\n");
        let digest = Sha256::digest(record.as_bytes());
        let hash: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let folder = root.join(format!("{name}-{hash}"));
        Self { name: name.to_owned(), hash, folder, record }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its result is, or will be.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether its work is done.
    pub fn is_done(&self) -> bool {
        self.folder.join(DONE).is_file()
    }

    /// Marks its work as done, with all that went into it.
    ///
    /// # Errors
    /// The mark cannot be written.
    pub fn finish(&self) -> std::io::Result<()> {
        let part = self.folder.join("stage.part");
        std::fs::create_dir_all(&self.folder)?;
        std::fs::write(&part, &self.record)?;
        std::fs::rename(part, self.folder.join(DONE))
    }

    /// Takes its result away, so that it is made anew.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn forget(&self) -> std::io::Result<()> {
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_another_when_its_settings_or_inputs_are() {
        let root = tempfile::tempdir().unwrap();
        let stage =
            |name: &str, inputs: &[&Stage], setting: u32| Stage::new(root.path(), name, inputs, &setting);
        let (one, two) = (stage("world", &[], 1), stage("world", &[], 2));
        assert_eq!(one.folder(), stage("world", &[], 1).folder());
        assert_ne!(one.folder(), two.folder());
        assert_ne!(stage("sft", &[&one], 0).folder(), stage("sft", &[&two], 0).folder());
        assert!(!one.is_done());
        one.finish().unwrap();
        assert!(one.is_done() && stage("world", &[], 1).is_done() && !two.is_done());
        one.forget().unwrap();
        one.forget().unwrap();
        assert!(!one.is_done());
    }
}
