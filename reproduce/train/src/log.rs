//! The training log: one JSON object per step, on disk when the step is done.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// File name of the log, in a training's folder and in a run directory.
pub const FILE: &str = "training.jsonl";

/// `training.jsonl` of a run; reports draw its numbers as curves.
pub struct Log {
    path: PathBuf,
    file: File,
}

/// Whole lines of steps 1, 2, 3 and so on up to the first that does not follow.
fn steps(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let fields: Option<Map<String, Value>> = serde_json::from_str(line).ok();
        let step = fields.and_then(|fields| fields.get("step")?.as_u64());
        // A step that is there already was written twice; its first line counts.
        match step {
            Some(step) if step == found.len() as u64 + 1 => found.push(line),
            Some(step) if step <= found.len() as u64 => {}
            _ => break,
        }
    }
    found
}

fn read(path: &Path) -> Result<String> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Error::file(path, error)),
    }
}

impl Log {
    /// Steps from the first one on that a log holds without a gap; 0 where there is none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn steps(path: &Path) -> Result<usize> {
        Ok(steps(&read(path)?).len())
    }

    /// Opens the log of a run that resumes after `step` steps: each of them is kept once, and lines that a killed run
    /// wrote beyond its checkpoint are removed.
    ///
    /// # Errors
    /// The file cannot be read or written, or lacks one of these steps.
    pub fn open(path: &Path, step: usize) -> Result<Self> {
        let text = read(path)?;
        let mut kept = steps(&text);
        if kept.len() < step {
            let message = format!("{} of {step} steps are there; start the training over", kept.len());
            return Err(Error::file(path, message));
        }
        kept.truncate(step);
        let kept = kept.concat();
        if kept != text {
            paravt_files::write_atomic(path, kept.as_bytes()).map_err(|error| Error::file(path, error))?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { path: path.to_owned(), file: file.map_err(|error| Error::file(path, error))? })
    }

    /// Adds a step's figures and waits until they are on disk.
    ///
    /// # Errors
    /// The file cannot be written, or a figure is NaN or infinite.
    pub fn add(&mut self, step: usize, figures: &[(&str, f64)]) -> Result<()> {
        if let Some(&(name, value)) = figures.iter().find(|(_, value)| !value.is_finite()) {
            return Err(Error::Diverged { step, name: name.to_owned(), value });
        }
        let mut fields = Map::new();
        fields.insert("step".to_owned(), step.into());
        fields.extend(figures.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))));
        let mut line = Value::from(fields).to_string();
        line.push('\n');
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| Error::file(&self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_holds_each_step_once_and_none_beyond_the_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let line = |step: usize, loss: f64| format!("{{\"step\":{step},\"loss\":{loss}}}\n");
        // Two processes at once, then a torn line.
        let doubled = [line(1, 0.5), line(1, 0.5), line(2, 0.25), line(2, 0.25), line(3, 0.125)].concat();
        std::fs::write(&path, format!("{doubled}{{\"step\":4,\"lo")).unwrap();
        assert_eq!(Log::steps(&path).unwrap(), 3);
        let mut log = Log::open(&path, 2).unwrap();
        log.add(3, &[("loss", 0.75)]).unwrap();
        assert!(log.add(4, &[("loss", f64::NAN)]).unwrap_err().to_string().contains("step 4: loss is NaN"));
        let text = std::fs::read_to_string(&path).unwrap();
        let values = |text: &str| -> Vec<Value> {
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        assert_eq!(values(&text), values(&[line(1, 0.5), line(2, 0.25), line(3, 0.75)].concat()));
        // A gap is never passed over.
        std::fs::write(&path, [line(1, 0.5), line(3, 0.5)].concat()).unwrap();
        assert_eq!(Log::steps(&path).unwrap(), 1);
        assert!(Log::open(&path, 3).is_err());
    }
}
