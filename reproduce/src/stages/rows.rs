//! The generated training data as the trainer reads it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paravt_nano::{Prompt, read_messages, read_prompts};
use paravt_suite::data::read_rows;
use paravt_suite::frames::FrameSource;
use paravt_suite::message::Message;
use paravt_suite::protocol::Protocol;
use paravt_train::data::Conversations;
use paravt_train::reward::QuestionType;
use paravt_train::rollout::RlPrompt;
use serde_json::Value;

use crate::error::Error;

/// SFT rows, with the frames that their videos stand for.
pub(crate) struct Traces {
    path: PathBuf,
    rows: Vec<Value>,
    root: PathBuf,
    frames: Arc<dyn FrameSource>,
    protocol: Protocol,
}

impl Traces {
    /// Reads the rows of a training world.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(root: &Path, frames: &Arc<dyn FrameSource>) -> Result<Self, Error> {
        let path = root.join(paravt_nano::SFT_FILE);
        let wrong = |message: String| paravt_train::Error::File { path: path.clone(), message };
        let mut rows = Vec::new();
        for row in read_rows(&path).map_err(|error| wrong(error.to_string()))? {
            let text = row.get("messages").and_then(Value::as_str).unwrap_or_default();
            rows.push(serde_json::from_str(text).map_err(|error| wrong(format!("`messages`: {error}")))?);
        }
        let (frames, protocol) = (Arc::clone(frames), paravt_nano::protocol());
        Ok(Self { path, rows, root: root.to_owned(), frames, protocol })
    }
}

impl Conversations for Traces {
    fn count(&self) -> Option<usize> {
        Some(self.rows.len())
    }

    fn conversation(&self, row: usize) -> paravt_train::Result<Vec<Message>> {
        let wrong = |message| paravt_train::Error::Row { path: self.path.clone(), row, message };
        read_messages(&self.rows[row], &self.root, &*self.frames, &self.protocol).map_err(wrong)
    }
}

/// The prompts of a training world.
///
/// # Errors
/// The file cannot be read.
pub fn prompts(root: &Path) -> Result<Vec<RlPrompt>, Error> {
    let prompt = |prompt: Prompt| RlPrompt {
        sample: prompt.sample,
        answer: prompt.answer,
        question: QuestionType::from_name(&prompt.question_type),
        duration: prompt.duration,
    };
    let read = read_prompts(&root.join(paravt_nano::RL_FILE), root)?;
    Ok(read.into_iter().map(prompt).collect())
}
