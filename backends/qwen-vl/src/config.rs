//! `config.json` of both families, in the published (flat) and the newer (nested) layout.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;
use crate::files::read_json;
use crate::positions::VideoRule;

/// Which architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Windowed vision attention, sectioned MRoPE, biased q/k/v.
    Qwen25,
    /// Interpolated position embeddings, DeepStack, interleaved MRoPE, normed q/k.
    Qwen3,
}

/// Everything the arithmetic needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    pub family: Family,
    /// The language model.
    pub text: TextConfig,
    pub vision: VisionConfig,
    /// Placeholder of one merged image patch.
    pub image_token_id: u32,
    /// Placeholder of one merged video patch.
    pub video_token_id: u32,
    /// Whether the head is the embedding table.
    pub tied: bool,
    /// How videos stand in prompts; not in the file.
    pub video_rule: VideoRule,
}

/// The language model.
#[derive(Debug, Clone, Deserialize)]
pub struct TextConfig {
    /// Rows of the embedding table.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the gated MLP.
    pub intermediate_size: usize,
    /// Decoder layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    pub num_key_value_heads: usize,
    /// Width of a head; 0 until [`Config::read`] fills it from the others.
    #[serde(default)]
    pub head_dim: usize,
    /// Epsilon of every RMS norm.
    pub rms_norm_eps: f64,
    /// Maximum number of positions of the model.
    #[serde(default = "default_context")]
    pub max_position_embeddings: usize,
    /// Base of the rotary frequencies.
    #[serde(default)]
    pub rope_theta: f64,
    /// Frequencies that follow time, height and width.
    #[serde(default)]
    pub mrope_section: Vec<usize>,
}

/// The vision tower.
#[derive(Debug, Clone, Deserialize)]
pub struct VisionConfig {
    /// Blocks.
    pub depth: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the MLP.
    pub intermediate_size: usize,
    pub num_heads: usize,
    /// Colour channels.
    #[serde(default = "three", alias = "in_chans")]
    pub in_channels: usize,
    /// Pixels of a patch's side.
    pub patch_size: usize,
    /// Frames of a patch.
    #[serde(default = "two")]
    pub temporal_patch_size: usize,
    /// Patches of a merged patch's side.
    #[serde(default = "two")]
    pub spatial_merge_size: usize,
    /// Width handed to the language model.
    pub out_hidden_size: usize,
    /// Qwen3-VL: rows of the position table, a square.
    #[serde(default)]
    pub num_position_embeddings: usize,
    /// Qwen3-VL: blocks whose features enter the first decoder layers.
    #[serde(default)]
    pub deepstack_visual_indexes: Vec<usize>,
    /// Qwen2.5-VL: blocks that attend over whole frames.
    #[serde(default)]
    pub fullatt_block_indexes: Vec<usize>,
    /// Qwen2.5-VL: pixels of an attention window's side.
    #[serde(default)]
    pub window_size: usize,
    /// Qwen2.5-VL: temporal positions per second of video.
    #[serde(default = "four")]
    pub tokens_per_second: f32,
}

fn two() -> usize {
    2
}

fn three() -> usize {
    3
}

fn four() -> f32 {
    4.0
}

fn default_context() -> usize {
    32768
}

impl VisionConfig {
    /// Values of one patch: channels by frames by height by width.
    pub fn patch_values(&self) -> usize {
        self.in_channels * self.temporal_patch_size * self.patch_size * self.patch_size
    }
}

impl Config {
    /// Reads `config.json` of a model folder.
    ///
    /// # Errors
    /// A missing or wrong key, or an architecture or option that is not built.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("config.json");
        let json = read_json(&path)?;
        Self::parse(&json).map_err(|message| Error::file(&path, message))
    }

    fn parse(json: &Value) -> Result<Self, String> {
        let family = match json["model_type"].as_str() {
            Some("qwen3_vl") => Family::Qwen3,
            Some("qwen2_5_vl") => Family::Qwen25,
            other => {
                let other = other.unwrap_or("missing");
                return Err(format!("unsupported model_type `{other}` (supported: qwen3_vl, qwen2_5_vl)"));
            }
        };
        // Published Qwen2.5-VL files keep the language model's keys on the top level.
        let text_json = json.get("text_config").filter(|text| text.is_object()).unwrap_or(json);
        let mut text: TextConfig =
            serde_json::from_value(text_json.clone()).map_err(|error| format!("text_config: {error}"))?;
        let vision: VisionConfig = serde_json::from_value(json["vision_config"].clone())
            .map_err(|error| format!("vision_config: {error}"))?;
        fill(&mut text, text_json, family)?;
        let id = |key: &str| {
            let found = json[key].as_u64().and_then(|id| u32::try_from(id).ok());
            found.ok_or_else(|| format!("{key} is missing"))
        };
        let tied = json.get("tie_word_embeddings").or_else(|| text_json.get("tie_word_embeddings"));
        let config = Self {
            family,
            image_token_id: id("image_token_id")?,
            video_token_id: id("video_token_id")?,
            tied: tied.and_then(Value::as_bool).unwrap_or(false),
            video_rule: VideoRule::default(),
            text,
            vision,
        };
        config.check(json, text_json)?;
        Ok(config)
    }

    /// Refuses options that would load and then compute something else.
    fn check(&self, json: &Value, text_json: &Value) -> Result<(), String> {
        let expect = |key: &str, found: &Value, built: &str| match found.as_str() {
            Some(found) if found != built => Err(format!("{key} is {found}; only {built} is built")),
            _ => Ok(()),
        };
        let vision_act = if self.family == Family::Qwen3 { "gelu_pytorch_tanh" } else { "silu" };
        expect("hidden_act", &text_json["hidden_act"], "silu")?;
        expect("vision_config.hidden_act", &json["vision_config"]["hidden_act"], vision_act)?;
        if text_json["use_sliding_window"].as_bool() == Some(true) {
            return Err("use_sliding_window is true; sliding windows are not built".to_owned());
        }
        self.check_ranges()?;
        let (text, vision) = (&self.text, &self.vision);
        let divides = |what: &str, whole: usize, part: usize| {
            let holds = part > 0 && whole.is_multiple_of(part);
            if holds { Ok(()) } else { Err(format!("{what}: {whole} is not a multiple of {part}")) }
        };
        divides("query heads by key heads", text.num_attention_heads, text.num_key_value_heads)?;
        divides("vision width by heads", vision.hidden_size, vision.num_heads)?;
        divides("vision head by 4", vision.hidden_size / vision.num_heads, 4)?;
        let sectioned = 2 * text.mrope_section.iter().sum::<usize>();
        if self.family == Family::Qwen25 && sectioned != text.head_dim {
            let (section, head) = (&text.mrope_section, text.head_dim);
            return Err(format!("mrope_section {section:?} does not fill half of head_dim {head}"));
        }
        if self.family == Family::Qwen3 {
            let side = vision.num_position_embeddings.isqrt();
            if side * side != vision.num_position_embeddings || side == 0 {
                let rows = vision.num_position_embeddings;
                return Err(format!("num_position_embeddings {rows} is not a square"));
            }
        } else if vision.window_size == 0 {
            return Err("vision_config.window_size is missing".to_owned());
        }
        Ok(())
    }
}

impl Config {
    /// Sizes of at least one, and constants that keep the arithmetic finite.
    fn check_ranges(&self) -> Result<(), String> {
        let (text, vision) = (&self.text, &self.vision);
        for (key, size) in [
            ("vocab_size", text.vocab_size),
            ("hidden_size", text.hidden_size),
            ("num_hidden_layers", text.num_hidden_layers),
            ("head_dim", text.head_dim),
            ("max_position_embeddings", text.max_position_embeddings),
            ("vision_config.depth", vision.depth),
            ("vision_config.hidden_size", vision.hidden_size),
            ("vision_config.patch_size", vision.patch_size),
            ("vision_config.temporal_patch_size", vision.temporal_patch_size),
            ("vision_config.spatial_merge_size", vision.spatial_merge_size),
        ] {
            if size == 0 {
                return Err(format!("{key} is 0; at least 1 is needed"));
            }
        }
        let positive = |key: &str, value: f64| {
            let holds = value.is_finite() && value > 0.0;
            if holds { Ok(()) } else { Err(format!("{key} is {value}; a number above 0 is needed")) }
        };
        positive("rms_norm_eps", text.rms_norm_eps)?;
        positive("rope_theta", text.rope_theta)?;
        if !(0.0..=1e6).contains(&vision.tokens_per_second) {
            return Err(format!("vision_config.tokens_per_second is {}", vision.tokens_per_second));
        }
        Ok(())
    }
}

/// Fills what lies in other places in other versions of the file.
fn fill(text: &mut TextConfig, json: &Value, family: Family) -> Result<(), String> {
    if text.head_dim == 0 {
        text.head_dim = text.hidden_size / text.num_attention_heads.max(1);
    }
    let rope =
        ["rope_parameters", "rope_scaling"].iter().find_map(|key| json.get(*key).filter(|v| v.is_object()));
    if let Some(rope) = rope {
        let kind = rope["rope_type"].as_str().or_else(|| rope["type"].as_str()).unwrap_or("default");
        if !matches!(kind, "default" | "mrope") {
            return Err(format!("rope_type is {kind}; only default is built"));
        }
        if let Some(theta) = rope["rope_theta"].as_f64() {
            text.rope_theta = theta;
        }
        if let Some(section) = rope["mrope_section"].as_array() {
            text.mrope_section = section.iter().filter_map(Value::as_u64).map(|part| part as usize).collect();
        }
    }
    if text.mrope_section.is_empty() {
        text.mrope_section = if family == Family::Qwen3 { vec![24, 20, 20] } else { vec![16, 24, 24] };
    }
    if text.mrope_section.len() != 3 {
        return Err(format!("mrope_section {:?}: three parts are needed", text.mrope_section));
    }
    if text.rope_theta == 0.0 {
        return Err("rope_theta is missing".to_owned());
    }
    Ok(())
}
