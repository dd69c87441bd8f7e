//! The sentences of the release, out of two pinned files of a checkout.

use std::path::Path;

use paravt_files::{read_limited, sha256};

use crate::python::{FormatError, PyValue, format_named, literal_regex, loads};

/// Repository of the release.
pub const REPOSITORY: &str = "agents-x-project/PyVision-RL";
/// Pinned commit.
pub const COMMIT: &str = "62ca599";
/// The templates of all prompts, and their SHA-256 at the pinned commit.
pub const TEMPLATES: (&str, &str) = (
    "verl_agents/verl/utils/dataset/rl_system_prompt_template.json",
    "528327ed2221c355af6c18490e9d72e9f9a42a56ea408a7e5e10f473e8bb2413",
);
/// Key of the template of PyVision-Video, and the SHA-256 of its text (`utils/dataset/rl_dataset_wo_mm_hint.py`).
pub const TEMPLATE: (&str, &str) =
    ("vis_tool_with_img_info_video_v4", "998902247825d2514b9d9fba31930a6687ff9c63dd916f5170ccfb43768fe3d8");
/// The tool, and its SHA-256 at the pinned commit.
pub const TOOL: (&str, &str) = (
    "verl_agents/verl/workers/agent/envs/agents_x/safe_persis_python_exe_tool_wo_video_hint.py",
    "fd6c8d01d8cce049035f708ea3854cde2ce76769a542884e2dae60ae1c5b91f6",
);
/// Bytes that one of the files may have; the pinned ones have 30 thousand.
const MAX_FILE: u64 = 4 << 20;

/// Why the texts cannot be had.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum TextsError {
    #[error("{file} cannot be read from {from}: {message}; give a checkout of {REPOSITORY} at {COMMIT}")]
    Unreadable { file: &'static str, from: String, message: String },
    #[error("{file} has SHA-256 {found}, pinned is {pinned}: check out commit {COMMIT} of {REPOSITORY}")]
    Hash { file: &'static str, found: String, pinned: &'static str },
    #[error("{file}: {wanted} was not found")]
    Shape { file: &'static str, wanted: &'static str },
}

/// The sentences that a model reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// Template of the first prompt, for `str.format`, with the fields `video_info` and `query`.
    pub prompt: String,
    /// For a turn with neither code nor answer.
    pub neither: String,
    /// For code that [`is_forbidden`](super::is_forbidden).
    pub forbidden: String,
    /// For a call that did not end in time.
    pub timeout: String,
}

impl Texts {
    /// Reads the files below the root of a checkout.
    ///
    /// # Errors
    /// A file is missing or is not the pinned one.
    pub fn import(checkout: &Path) -> Result<Self, TextsError> {
        let templates = pinned(checkout, TEMPLATES)?;
        let (file, wanted) = (TEMPLATES.0, "the template of PyVision-Video");
        let Ok(PyValue::Dict(templates)) = loads(&templates) else {
            return Err(TextsError::Shape { file, wanted });
        };
        let template = templates.into_iter().find_map(|(key, value)| match value {
            PyValue::Str(text) if key == TEMPLATE.0 => Some(text),
            _ => None,
        });
        let prompt = template.ok_or(TextsError::Shape { file, wanted })?;
        let found = sha256(&prompt);
        if found != TEMPLATE.1 {
            return Err(TextsError::Hash { file: TEMPLATE.0, found, pinned: TEMPLATE.1 });
        }
        let tool = pinned(checkout, TOOL)?;
        let sentence = |wanted, before: &str, pattern| {
            let begin = tool.find(before).unwrap_or(tool.len());
            let found = literal_regex(pattern).captures(&tool[begin..]);
            found.map(|found| found[1].to_owned()).ok_or(TextsError::Shape { file: TOOL.0, wanted })
        };
        Ok(Self {
            prompt,
            neither: sentence(
                "the error of a turn without code",
                "if not code:",
                r#"error_msg = "([^"]+)""#,
            )?,
            forbidden: sentence(
                "the error of forbidden code",
                "def exec_code",
                r#"RuntimeError\("([^"]+)"\)"#,
            )?,
            timeout: sentence("the error of a late call", "except queue.Empty", r"'error': '([^']+)'")?,
        })
    }

    /// The first prompt, of role user: `query` is the question with its options.
    ///
    /// # Errors
    /// The template has other fields.
    pub fn first_prompt(&self, video_lines: &str, query: &str) -> Result<String, FormatError> {
        format_named(&self.prompt, &[("video_info", video_lines), ("query", query)])
    }
}

fn pinned(checkout: &Path, (file, pinned): (&'static str, &'static str)) -> Result<String, TextsError> {
    let unreadable = |message| TextsError::Unreadable { file, from: checkout.display().to_string(), message };
    let bytes =
        read_limited(&checkout.join(file), MAX_FILE).map_err(|error| unreadable(error.to_string()))?;
    let found = sha256(&bytes);
    if found != pinned {
        return Err(TextsError::Hash { file, found, pinned });
    }
    String::from_utf8(bytes).map_err(|_| unreadable("not UTF-8".to_owned()))
}

/// The lines on the video in the first prompt (`utils/dataset/rl_dataset_wo_mm_hint.py:178`): its "length" is the number
/// of frames, its "sample" rate the average one of the file.
pub fn video_lines(video: &paravt_jail::Video) -> String {
    let paravt_jail::Video { frames, fps, width, height, .. } = video;
    format!(
        "Frame Width: {width}; Frame Height: {height};\nVideo Length: {frames}; Sample FPS: {fps:.2}\nThe original video has been read into the global variable `video_clue_0`."
    )
}
