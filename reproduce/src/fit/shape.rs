//! The sizes of a model that its memory and its time depend on.

use std::path::{Path, PathBuf};

use paravt_suite::data::DataRoot;
use serde::Deserialize;
use serde_json::Value;

use crate::target;

/// Sizes of a model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shape {
    /// GB of its weights as they are stored: of a quantised checkpoint, quantised.
    pub weights_gb: f64,
    pub text: Text,
    pub vision: Vision,
}

/// Of the language model. Of a mixture of experts the sizes are those of the experts that a token goes through.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    pub layers: usize,
    pub hidden: usize,
    pub intermediate: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
}

/// Of the vision encoder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vision {
    pub layers: usize,
    pub hidden: usize,
    pub intermediate: usize,
    /// Pixels along a side of a patch, four of which become a visual token.
    pub patch: u32,
    /// Layers whose features are handed to the language model, too.
    #[serde(default)]
    pub deepstack: usize,
}

impl Shape {
    /// The sizes of a model: read from its folder or the cache of the hub, else from the table of this build.
    pub(super) fn of(model: &str, root: &DataRoot) -> Option<Self> {
        let here =
            Some(PathBuf::from(model)).filter(|path| path.is_dir()).or_else(|| target::model(model, root));
        here.and_then(|folder| Self::read(&folder)).or_else(|| Self::listed(model))
    }

    pub(super) fn listed(model: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct File {
            models: Vec<Listed>,
        }
        #[derive(Deserialize)]
        struct Listed {
            ids: Vec<String>,
            #[serde(flatten)]
            shape: Shape,
        }
        let file: File = toml::from_str(include_str!("models.toml")).expect("read by a test");
        file.models
            .into_iter()
            .find(|listed| listed.ids.iter().any(|id| id == model))
            .map(|listed| listed.shape)
    }

    /// Reads config.json and the sizes of the weights.
    fn read(folder: &Path) -> Option<Self> {
        let config: Value = serde_json::from_slice(&std::fs::read(folder.join("config.json")).ok()?).ok()?;
        let weights = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        let weights = weights.filter(|path| path.extension().is_some_and(|end| end == "safetensors"));
        let bytes: u64 = weights.filter_map(|path| Some(std::fs::metadata(path).ok()?.len())).sum();
        let text = config.get("text_config").unwrap_or(&config);
        let vision = config.get("vision_config")?;
        let number =
            |of: &Value, name: &str| of.get(name)?.as_u64().and_then(|number| usize::try_from(number).ok());
        let (hidden, heads) = (number(text, "hidden_size")?, number(text, "num_attention_heads")?);
        // Of the experts, those that a token goes through.
        let experts = number(text, "num_experts_per_tok").zip(number(text, "moe_intermediate_size"));
        let intermediate = match experts {
            Some((experts, each)) => experts * each,
            None => number(text, "intermediate_size")?,
        };
        Some(Self {
            weights_gb: bytes as f64 / 1e9,
            text: Text {
                layers: number(text, "num_hidden_layers")?,
                hidden,
                intermediate,
                heads,
                kv_heads: number(text, "num_key_value_heads").unwrap_or(heads),
                head_dim: number(text, "head_dim").unwrap_or(hidden / heads.max(1)),
            },
            vision: Vision {
                layers: number(vision, "depth")?,
                hidden: number(vision, "hidden_size")?,
                intermediate: number(vision, "intermediate_size")?,
                patch: number(vision, "patch_size").and_then(|side| u32::try_from(side).ok())?,
                deepstack: vision["deepstack_visual_indexes"].as_array().map_or(0, Vec::len),
            },
        })
    }

    /// Bytes that a token of the context takes in the cache of keys and values, in bfloat16.
    pub(super) fn cache_bytes(&self) -> f64 {
        let Text { layers, kv_heads, head_dim, .. } = self.text;
        (2 * 2 * layers * kv_heads * head_dim) as f64
    }

    /// Weights of the language model that a token is multiplied with.
    pub(super) fn text_weights(&self) -> f64 {
        let Text { layers, hidden, intermediate, heads, kv_heads, head_dim } = self.text;
        let attention = 2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim;
        (layers * (attention + 3 * hidden * intermediate)) as f64
    }

    /// Width of all heads of all layers, which each pair of tokens costs.
    pub(super) fn attention_width(&self) -> f64 {
        (self.text.layers * self.text.heads * self.text.head_dim) as f64
    }

    /// Weights of the vision encoder that a patch is multiplied with; 2 matrices in its MLP or 3, here 2.5.
    pub(super) fn vision_weights(&self) -> f64 {
        let Vision { layers, hidden, intermediate, .. } = self.vision;
        layers as f64 * (4.0 * (hidden * hidden) as f64 + 2.5 * (hidden * intermediate) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_shapes_come_to_the_weights_that_the_hub_lists() {
        for (model, embeddings) in [
            ("ParaVT/ParaVT-8B", 2.0 * 151_936.0 * 4096.0),
            ("Video-R1/Video-R1-7B", 2.0 * 152_064.0 * 3584.0),
            ("Qwen/Qwen3-VL-32B-Instruct", 2.0 * 151_936.0 * 5120.0),
            ("Qwen/Qwen2.5-VL-72B-Instruct", 2.0 * 152_064.0 * 8192.0),
        ] {
            let shape = Shape::listed(model).unwrap();
            let all = 2.0 * (shape.text_weights() + shape.vision_weights() + embeddings) / 1e9;
            assert!((all / shape.weights_gb - 1.0).abs() < 0.03, "{model}: {all} of {}", shape.weights_gb);
        }
        // 144 KiB a token: 36 layers, keys and values of 8 heads of 128.
        assert!((Shape::listed("ParaVT/ParaVT-8B").unwrap().cache_bytes() - 147_456.0).abs() < 0.5);
    }

    #[test]
    fn a_checkpoint_on_this_machine_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let config = r#"{"text_config": {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 16}, "vision_config": {"depth": 1, "hidden_size": 32, "intermediate_size": 48,
            "patch_size": 16, "deepstack_visual_indexes": [0]}}"#;
        std::fs::write(folder.path().join("config.json"), config).unwrap();
        std::fs::write(folder.path().join("model.safetensors"), [0; 5000]).unwrap();
        let shape = Shape::of(folder.path().to_str().unwrap(), &DataRoot::new("nowhere")).unwrap();
        assert_eq!((shape.weights_gb, shape.vision.deepstack), (5e-6, 1));
        assert!(
            (shape.text_weights() - 2.0 * (2.0 * 64.0 * 64.0 + 2.0 * 64.0 * 32.0 + 3.0 * 64.0 * 96.0)).abs()
                < 0.5
        );
    }
}
