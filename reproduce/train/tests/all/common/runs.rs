//! A model to train and what a run leaves behind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_nano::write_model;

pub(crate) fn fresh(folder: &Path) -> PathBuf {
    let model = folder.join("fresh");
    write_model(&model, 1).unwrap();
    model
}

/// Names and sizes of a model folder's files with their SHA-256; every folder that a training leaves has its
/// configuration and its tokenizer.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, serde_json::Value> {
    let listing = paravt_files::Listing::of(folder, |_| false).unwrap();
    for name in ["config.json", "tokenizer.json", "chat_template.jinja", "preprocessor_config.json"] {
        assert!(listing.has(name), "{name}");
    }
    serde_json::from_value(serde_json::to_value(listing).unwrap()).unwrap()
}

/// The log without what a clock says.
pub(crate) fn log(folder: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join("training.jsonl")).unwrap();
    let lines = text.lines().map(|line| {
        let mut fields: serde_json::Value = serde_json::from_str(line).unwrap();
        fields.as_object_mut().unwrap().retain(|name, _| !name.contains("second"));
        fields
    });
    lines.collect()
}
