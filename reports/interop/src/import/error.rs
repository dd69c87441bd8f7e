//! Why a file is not read.

use std::path::{Path, PathBuf};

/// An example of a mapping, for messages.
const TEMPLATE: &str = "    id = \"question_id\"       # or row = \"index\", the row of the published file
    answer = \"answer\"        # the gold answer; leave it out with --split
    response = \"response\"    # what the model wrote
    # question, options, prediction, score, error, video, rows = \"COLUMN\"
    # tags = [\"COLUMN\"], answer_is and response_is = \"text\" | \"index0\" | \"index1\"
    # kind = \"choice\" | \"grounding\" | \"open\" | \"number\"
    # failures = [\"Unknown\"], model = \"NAME\", task = \"NAME\"";

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be opened or read.
    #[error("{path}: cannot be read: {source}", path = .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// The file is not of the kind that its name or first bytes say.
    #[error("{path}: {message}", path = .path.display())]
    Format { path: PathBuf, message: String },
    /// A row cannot be used.
    #[error("{path}: row {place}: {message}", path = .path.display())]
    Row { path: PathBuf, place: usize, message: String },
    /// A plain table, of which nobody said what its columns are.
    #[error(
        "{path}: a plain table; say with --columns FILE what its columns are. It has: {columns}\nhint: for example\n{TEMPLATE}",
        path = .path.display()
    )]
    NoColumns { path: PathBuf, columns: String },
    /// A mapping file that cannot be used.
    #[error("{path}: {message}", path = .path.display())]
    Columns { path: PathBuf, message: String },
    /// The rows are not those of the split that they are said to be of.
    #[error("{path}: {message}", path = .path.display())]
    Join { path: PathBuf, message: String },
}

/// What is wrong inside of a file; the caller names the file.
pub(super) enum Problem {
    File(String),
    Row(usize, String),
}

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Self::File(message)
    }
}

impl Problem {
    /// Names the member of the file.
    pub(super) fn within(self, member: &str) -> Self {
        match self {
            Self::File(message) | Self::Row(_, message) => Self::File(format!("{member}: {message}")),
        }
    }

    pub(super) fn at(self, path: &Path) -> ImportError {
        let path = path.to_owned();
        match self {
            Self::File(message) => ImportError::Format { path, message },
            Self::Row(place, message) => ImportError::Row { path, place, message },
        }
    }
}
