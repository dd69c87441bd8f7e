//! RL prompts read back.

use std::fs::File;
use std::path::Path;

use arrow_array::{Array as _, StringArray};
use paravt_suite::sample::Sample;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::Deserialize;

use crate::WorldError;

/// Fields of a prompt's `extra_info`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Prompt {
    /// Gold answer for the reward.
    pub answer: String,
    /// `mcq`, `tvg` or `oe`.
    pub question_type: String,
    /// Seconds of the video.
    pub duration: f64,
    /// The question as the agent gets it.
    pub sample: Sample,
}

/// Reads the prompts that `make_training` wrote; `root` completes the videos' paths.
///
/// # Errors
/// No such file, or another format.
pub fn read_prompts(path: &Path, root: &Path) -> Result<Vec<Prompt>, WorldError> {
    let fail = |message: String| WorldError::Read { path: path.to_owned(), message };
    let file = File::open(path).map_err(|error| fail(error.to_string()))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).and_then(|builder| builder.build());
    let mut prompts = Vec::new();
    for batch in reader.map_err(|error| fail(error.to_string()))? {
        let batch = batch.map_err(|error| fail(error.to_string()))?;
        let column = batch.column_by_name("extra_info");
        let texts = column.and_then(|column| column.as_any().downcast_ref::<StringArray>());
        for text in texts.ok_or_else(|| fail("no text column `extra_info`".to_owned()))?.iter().flatten() {
            let mut prompt: Prompt = serde_json::from_str(text).map_err(|error| fail(error.to_string()))?;
            prompt.sample.video = root.join(&prompt.sample.video);
            prompts.push(prompt);
        }
    }
    Ok(prompts)
}
