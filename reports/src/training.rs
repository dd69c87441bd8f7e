//! Training curves: `RUN/training.jsonl`, one object per step with `step` and any numbers beside it
//! (reward parts, `f_tau`, `kappa`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_files::read_text;
use paravt_suite::journal::JournalError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// File name inside a run directory.
pub const TRAINING: &str = "training.jsonl";
/// The same of the training that this one began from, an SFT before reinforcement learning.
pub const BEFORE: &str = "training.before.jsonl";
/// File name of [`About`] beside it.
pub const ABOUT: &str = "training.json";

/// Bytes that either file may have.
const MAX_FILE: u64 = 1 << 30;

/// Description of a training: `RUN/training.json`. Only with it a claim about a training can be judged.
/// Unknown fields are tolerated, so that a newer writer's file stays readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Name of the training recipe.
    pub recipe: String,
    /// Name of the model that was trained, or its architecture where it has no name.
    #[serde(rename = "model")]
    pub base_model: String,
    pub parameters: u64,
    /// Name of the protocol of its rollouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// Pairs of step and value by the curve's name, in file order.
pub(crate) type Curves = BTreeMap<String, Vec<(f64, f64)>>;

/// The curves of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Training {
    pub series: Curves,
    /// Those of the training that it began from.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub before: Curves,
    /// Description of the training, where the run has one.
    pub about: Option<About>,
}

impl Training {
    /// Reads the curves of a run directory; none is not an error.
    ///
    /// # Errors
    /// A line that is not an object with a `step`, or a damaged [`ABOUT`]; a torn last line is left out.
    pub fn read(dir: &Path) -> Result<Self, JournalError> {
        if !dir.join(TRAINING).exists() {
            return Ok(Self::default());
        }
        Ok(Self {
            series: curves(dir.join(TRAINING))?,
            before: curves(dir.join(BEFORE))?,
            about: read_about(dir)?,
        })
    }
}

/// The curves of a file; none where it does not exist.
fn curves(path: PathBuf) -> Result<Curves, JournalError> {
    let text = match read_text(&path, MAX_FILE) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Curves::new()),
        Err(source) => return Err(JournalError::Io { path, action: "cannot read", source }),
    };
    let mut series = Curves::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let parsed = serde_json::from_str::<Map<String, Value>>(line);
        let (fields, step) = match parsed.map(|fields| (fields.get("step").and_then(Value::as_f64), fields)) {
            Ok((Some(step), fields)) => (fields, step),
            _ if !line.ends_with('\n') => break,
            Ok((None, _)) => {
                let message = "the line has no number `step`".to_owned();
                return Err(JournalError::Damaged { path, line: index + 1, message });
            }
            Err(error) => {
                return Err(JournalError::Damaged { path, line: index + 1, message: error.to_string() });
            }
        };
        for (name, value) in fields {
            if let Some(value) = value.as_f64().filter(|_| name != "step") {
                series.entry(name).or_default().push((step, value));
            }
        }
    }
    Ok(series)
}

fn read_about(dir: &Path) -> Result<Option<About>, JournalError> {
    let path = dir.join(ABOUT);
    let text = match read_text(&path, MAX_FILE) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(JournalError::Io { path, action: "cannot read", source }),
    };
    let damaged = |error: serde_json::Error| JournalError::Damaged {
        path,
        line: error.line(),
        message: error.to_string(),
    };
    serde_json::from_str(&text).map(Some).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_curves_and_a_torn_line_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Training::read(dir.path()).unwrap(), Training::default());
        let path = dir.path().join(TRAINING);
        std::fs::write(&path, "{\"step\":1,\"f_tau\":0.1,\"note\":\"x\"}\n{\"step\":2,\"f_tau\":0.5}\n{\"st")
            .unwrap();
        let read = Training::read(dir.path()).unwrap();
        assert_eq!(read.series["f_tau"], [(1.0, 0.1), (2.0, 0.5)]);
        assert_eq!((read.series.len(), read.before.len()), (1, 0));
        std::fs::write(dir.path().join(BEFORE), "{\"step\":1,\"loss\":2.5}\n").unwrap();
        assert_eq!(Training::read(dir.path()).unwrap().before["loss"], [(1.0, 2.5)]);
        std::fs::write(&path, "{\"f_tau\":0.1}\n").unwrap();
        assert!(Training::read(dir.path()).unwrap_err().to_string().contains("step"));
        std::fs::write(&path, "").unwrap();
        let about = About {
            recipe: "r".into(),
            base_model: "m".into(),
            parameters: 5,
            protocol: None,
            seed: Some(1),
        };
        std::fs::write(dir.path().join(ABOUT), serde_json::to_string(&about).unwrap()).unwrap();
        assert_eq!(Training::read(dir.path()).unwrap().about, Some(about));
        std::fs::write(dir.path().join(ABOUT), "{}").unwrap();
        assert!(Training::read(dir.path()).unwrap_err().to_string().contains("recipe"));
    }
}
