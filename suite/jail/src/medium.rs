//! The files of an episode.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// What the code of an episode looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// A video, opened by decord: the variable `video_clue_0`.
    Video(PathBuf),
    /// Images, opened by Pillow as RGB.
    Images {
        files: Vec<PathBuf>,
        /// Name of their variables without the number: `image_clue` is `image_clue_0`, `image_clue_1`, ….
        variable: String,
        /// Fewest and most pixels of the pictures that the model is shown of them; none without it.
        shown: Option<[u32; 2]>,
    },
}

impl From<&Path> for Medium {
    fn from(video: &Path) -> Self {
        Self::Video(video.to_owned())
    }
}

impl From<&PathBuf> for Medium {
    fn from(video: &PathBuf) -> Self {
        Self::Video(video.clone())
    }
}

impl Medium {
    /// Its files on this machine.
    pub(crate) fn files(&self) -> &[PathBuf] {
        match self {
            Self::Video(video) => std::slice::from_ref(video),
            Self::Images { files, .. } => files,
        }
    }

    /// The first of them, for messages.
    pub(crate) fn first(&self) -> PathBuf {
        self.files().first().cloned().unwrap_or_default()
    }

    /// The same with the path of each file changed.
    pub(crate) fn map<E>(self, path: impl Fn(&Path) -> Result<PathBuf, E>) -> Result<Self, E> {
        Ok(match self {
            Self::Video(video) => Self::Video(path(&video)?),
            Self::Images { files, variable, shown } => {
                let files = files.iter().map(|file| path(file)).collect::<Result<_, E>>()?;
                Self::Images { files, variable, shown }
            }
        })
    }

    /// Names of the files inside the jail, in their order.
    pub(crate) fn inside(&self) -> Vec<String> {
        match self {
            Self::Video(_) => vec!["/video/0.mp4".to_owned()],
            // Pillow knows a format by its content.
            Self::Images { files, .. } => (0..files.len()).map(|number| format!("/image/{number}")).collect(),
        }
    }

    /// The part of the worker's settings that names them.
    pub(crate) fn setup(&self) -> Value {
        match self {
            Self::Video(_) => json!({ "video": self.inside()[0] }),
            Self::Images { variable, shown, .. } => {
                json!({ "images": self.inside(), "variable": variable, "shown": shown })
            }
        }
    }
}
