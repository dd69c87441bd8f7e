//! A model to train and what a run leaves behind.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_nano::write_model;

pub fn fresh(folder: &Path) -> PathBuf {
    let model = folder.join("fresh");
    write_model(&model, 1).unwrap();
    model
}

pub fn weights(folder: &Path) -> BTreeMap<String, Vec<f32>> {
    let tensors = candle_core::safetensors::load(folder.join("model.safetensors"), &candle_core::Device::Cpu);
    let values = |x: candle_core::Tensor| x.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    tensors.unwrap().into_iter().map(|(name, x)| (name, values(x))).collect()
}

/// The log without what a clock says.
pub fn log(folder: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join("training.jsonl")).unwrap();
    let lines = text.lines().map(|line| {
        let mut fields: serde_json::Value = serde_json::from_str(line).unwrap();
        fields.as_object_mut().unwrap().retain(|name, _| !name.contains("second"));
        fields
    });
    lines.collect()
}
