//! Where training conversations come from.

use std::path::{Path, PathBuf};

use paravt_suite::conversation::parse_conversation;
use paravt_suite::data::{JsonRow, read_rows};
use paravt_suite::message::Message;
use serde_json::Value;

use crate::error::{Error, Result};

/// Conversations by number; the same number is always the same conversation.
pub trait Conversations: Send + Sync {
    /// How many there are; `None` where they never end.
    fn count(&self) -> Option<usize>;

    /// One of them, with its media.
    ///
    /// # Errors
    /// The row is damaged or a medium is missing.
    fn conversation(&self, number: usize) -> Result<Vec<Message>>;
}

/// Rows of the published SFT format: a column `messages`, a list (or its JSON text) of messages whose
/// content is text or parts (`text`, `image_url`, `video_url`).
///
/// Source: `paravt_sft_*.parquet`; tool calls and tool responses are plain text in their messages.
pub struct SftRows {
    rows: Vec<(PathBuf, usize, Value)>,
    root: PathBuf,
}

impl SftRows {
    /// Reads parquet files. Media of relative URLs (`longvt_source/…`) lie below `root`. A missing file is
    /// an error: the released trainer logs it and continues without the shard.
    ///
    /// # Errors
    /// A file that cannot be read or has no `messages`.
    pub fn read(files: &[PathBuf], root: &Path) -> Result<Self> {
        let mut rows = Vec::new();
        for file in files {
            let read: Vec<JsonRow> = read_rows(file).map_err(|error| Error::file(file, error))?;
            for (row, mut columns) in read.into_iter().enumerate() {
                let fail = |message: String| Error::Row { path: file.clone(), row, message };
                let messages =
                    columns.remove("messages").ok_or_else(|| fail("no column `messages`".to_owned()))?;
                let messages = match messages {
                    Value::String(text) => {
                        serde_json::from_str(&text).map_err(|error| fail(format!("`messages`: {error}")))?
                    }
                    value => value,
                };
                rows.push((file.clone(), row, messages));
            }
        }
        Ok(Self { rows, root: root.to_owned() })
    }
}

impl Conversations for SftRows {
    fn count(&self) -> Option<usize> {
        Some(self.rows.len())
    }

    fn conversation(&self, number: usize) -> Result<Vec<Message>> {
        let (path, row, messages) = &self.rows[number];
        let mut messages = messages.clone();
        materialize(&mut messages, &self.root);
        parse_conversation(&messages).map_err(|error| Error::Row {
            path: path.clone(),
            row: *row,
            message: error.to_string(),
        })
    }
}

/// Makes relative media URLs absolute (`paravt/data/materialize.py`).
fn materialize(value: &mut Value, root: &Path) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| materialize(value, root)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(url) if name == "url" && !url.starts_with("data:") => {
                        let path = url.strip_prefix("file://").unwrap_or(url);
                        *url = format!("file://{}", root.join(path).display());
                    }
                    value => materialize(value, root),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paravt_suite::message::{Content, Part};

    #[test]
    fn rows_are_read_with_their_media_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("museg")).unwrap();
        std::fs::write(root.path().join("museg/v.mp4"), "x").unwrap();
        let user = r#"{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "file://museg/v.mp4"}}, {"type": "text", "text": "When?"}]}"#;
        let call =
            r#"{"role": "assistant", "content": [{"type": "text", "text": "<tool_call>{}</tool_call>"}]}"#;
        // A list, and its JSON text: both are published.
        let list = format!("[{user}, {call}]");
        let rows = format!(r#"[{{"messages": {list}}}, {{"messages": {}}}]"#, serde_json::json!(list));
        let file = root.path().join("rows.json");
        std::fs::write(&file, rows).unwrap();
        let rows = SftRows::read(std::slice::from_ref(&file), root.path()).unwrap();
        assert_eq!(rows.count(), Some(2));
        for number in 0..2 {
            let messages = rows.conversation(number).unwrap();
            let Content::Parts(parts) = &messages[0].content else { panic!("parts") };
            assert!(matches!(&parts[0], Part::Video(video) if video.path == root.path().join("museg/v.mp4")));
        }
        // Nothing is skipped: a shard or a video that is not there is an error with its place.
        std::fs::remove_file(root.path().join("museg/v.mp4")).unwrap();
        let error = rows.conversation(1).unwrap_err().to_string();
        assert!(error.contains("row 1") && error.contains("no such file"), "{error}");
        assert!(SftRows::read(&[file, root.path().join("gone.parquet")], root.path()).is_err());
    }
}
