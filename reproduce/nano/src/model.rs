//! A fresh model folder: a small Qwen3-VL with random weights, laid out as the published ones are.

use std::collections::HashMap;
use std::path::Path;

use rand::Rng as _;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

use crate::tokenizer::{SPECIAL, tokenizer};
use crate::{WorldError, WorldRng, tables, world_rng};

/// ChatML with image and video parts.
const CHAT_TEMPLATE: &str = "\
{%- for message in messages -%}
<|im_start|>{{ message.role }}{{ '\\n' }}
{%- if message.content is string -%}
{{ message.content }}
{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'text' -%}
{{ part.text }}
{%- elif part.type == 'video' or part.type == 'video_url' -%}
<|vision_start|><|video_pad|><|vision_end|>
{%- else -%}
<|vision_start|><|image_pad|><|vision_end|>
{%- endif -%}
{%- endfor -%}
{%- endif -%}
<|im_end|>{{ '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant{{ '\\n' }}
{%- endif -%}";

/// Configuration for transformers 5 and later, which choose among `configuration_files` by their version.
const LATER_CONFIG: &str = "config.5.0.0.json";
/// Deviation of most first weights: at the usual 0.02 a model this small barely learns.
const DEVIATION: f64 = 0.06;
/// Width of the language model.
const HIDDEN: usize = 128;
const LAYERS: usize = 4;
/// Width of its MLP.
const MLP: usize = 384;
/// Width of an attention head, and how many there are for queries, and for keys and values.
const HEAD: usize = 32;
const QUERY_HEADS: usize = 4;
const KEY_HEADS: usize = 2;
/// Width of the vision tower.
const VISION: usize = 64;
/// Its blocks.
const VISION_DEPTH: usize = 2;
/// Width of its MLP.
const VISION_MLP: usize = 256;
/// Rows of its position table: a frame is 4 by 4 patches.
const POSITIONS: usize = 16;
/// Pixels of a patch's side.
const PATCH: usize = 16;
/// Pixels of a frame: 64 by 64, which are 4 tokens.
const PIXELS: usize = 4096;

/// Writes a model folder: weights from the seed, everything else always the same.
///
/// # Errors
/// A file cannot be written.
pub fn write_model(folder: &Path, seed: u64) -> Result<(), WorldError> {
    let tokenizer = tokenizer()?;
    let text = tokenizer.to_string(false).map_err(|error| WorldError::Tokenizer(error.to_string()))?;
    tables::write_text(&folder.join("tokenizer.json"), &text)?;
    let id = |token: &str| tokenizer.token_to_id(token).unwrap_or_default();
    // A multiple of 64, as usual for matrix products.
    let vocabulary = tokenizer.get_vocab_size(true).next_multiple_of(64);
    let write = |name: &str, value: &Value| tables::write_text(&folder.join(name), &format!("{value:#}\n"));
    let config = config(vocabulary, id);
    write(LATER_CONFIG, &later(&config))?;
    write("config.json", &config)?;
    write("tokenizer_config.json", &tokenizer_config())?;
    write(
        "generation_config.json",
        &json!({"eos_token_id": [id("<|im_end|>"), id("<|endoftext|>")], "pad_token_id": id("<|endoftext|>"),
            "do_sample": false}),
    )?;
    write("preprocessor_config.json", &processor("Qwen2VLImageProcessorFast", PIXELS, PIXELS))?;
    // A video's bounds are those of all its frames together.
    write("video_preprocessor_config.json", &processor("Qwen3VLVideoProcessor", PIXELS, 64 * PIXELS))?;
    tables::write_text(&folder.join("chat_template.jinja"), CHAT_TEMPLATE)?;
    write_weights(&folder.join("model.safetensors"), vocabulary, seed)
}

fn config(vocabulary: usize, id: impl Fn(&str) -> u32) -> Value {
    json!({
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "configuration_files": [LATER_CONFIG],
        "image_token_id": id("<|image_pad|>"),
        "video_token_id": id("<|video_pad|>"),
        "vision_start_token_id": id("<|vision_start|>"),
        "vision_end_token_id": id("<|vision_end|>"),
        "tie_word_embeddings": true,
        "text_config": {
            "model_type": "qwen3_vl_text",
            "dtype": "float32",
            "vocab_size": vocabulary,
            "hidden_size": HIDDEN,
            "intermediate_size": MLP,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": QUERY_HEADS,
            "num_key_value_heads": KEY_HEADS,
            "head_dim": HEAD,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "max_position_embeddings": 4096,
            "rope_theta": 10000.0,
            "rope_scaling": {"rope_type": "default", "mrope_interleaved": true, "mrope_section": [8, 4, 4]},
            "attention_bias": false,
            "attention_dropout": 0.0,
            "tie_word_embeddings": true,
            "bos_token_id": null,
            "eos_token_id": id("<|im_end|>"),
            "pad_token_id": id("<|endoftext|>"),
        },
        "vision_config": {
            "model_type": "qwen3_vl",
            "depth": VISION_DEPTH,
            "hidden_size": VISION,
            "intermediate_size": VISION_MLP,
            "num_heads": 4,
            "hidden_act": "gelu_pytorch_tanh",
            "in_channels": 3,
            "patch_size": PATCH,
            "temporal_patch_size": 2,
            "spatial_merge_size": 2,
            "out_hidden_size": HIDDEN,
            "num_position_embeddings": POSITIONS,
            "deepstack_visual_indexes": [0],
        },
    })
}

/// The configuration that transformers 5 reads. Its `Qwen2Tokenizer` has a splitting rule of its own in place of
/// `tokenizer.json`'s, so the class is named here. Transformers 4 (vLLM 0.17), whose processor of Qwen3-VL takes no
/// other class, finds none named and takes the one of the model type.
fn later(config: &Value) -> Value {
    let mut later = config.clone();
    later["tokenizer_class"] = json!("PreTrainedTokenizerFast");
    later
}

fn tokenizer_config() -> Value {
    json!({
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "additional_special_tokens": &SPECIAL[1..],
        "clean_up_tokenization_spaces": false,
        "model_max_length": 4096,
    })
}

fn processor(kind: &str, min: usize, max: usize) -> Value {
    let name = if kind.contains("Video") { "video_processor_type" } else { "image_processor_type" };
    let mut json = json!({
        "do_resize": true, "do_rescale": true, "do_normalize": true, "do_convert_rgb": true, "resample": 3,
        "size": {"shortest_edge": min, "longest_edge": max},
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
        "patch_size": PATCH, "temporal_patch_size": 2, "merge_size": 2,
    });
    json[name] = json!(kind);
    json
}

/// Name and shape of every tensor.
fn tensors(vocabulary: usize) -> Vec<(String, Vec<usize>)> {
    let mut all: Vec<(String, Vec<usize>)> = Vec::new();
    let linear = |all: &mut Vec<_>, name: &str, to: usize, from: usize| {
        all.push((format!("{name}.weight"), vec![to, from]));
        all.push((format!("{name}.bias"), vec![to]));
    };
    let norm = |all: &mut Vec<_>, name: &str, width: usize| {
        all.push((format!("{name}.weight"), vec![width]));
        all.push((format!("{name}.bias"), vec![width]));
    };
    all.push(("model.visual.patch_embed.proj.weight".into(), vec![VISION, 3, 2, PATCH, PATCH]));
    all.push(("model.visual.patch_embed.proj.bias".into(), vec![VISION]));
    all.push(("model.visual.pos_embed.weight".into(), vec![POSITIONS, VISION]));
    for block in 0..VISION_DEPTH {
        let name = |part: &str| format!("model.visual.blocks.{block}.{part}");
        norm(&mut all, &name("norm1"), VISION);
        norm(&mut all, &name("norm2"), VISION);
        linear(&mut all, &name("attn.qkv"), 3 * VISION, VISION);
        linear(&mut all, &name("attn.proj"), VISION, VISION);
        linear(&mut all, &name("mlp.linear_fc1"), VISION_MLP, VISION);
        linear(&mut all, &name("mlp.linear_fc2"), VISION, VISION_MLP);
    }
    // The mergers of the deeper features normalise after the merge, the last one before.
    for (merger, width) in [("merger", VISION), ("deepstack_merger_list.0", 4 * VISION)] {
        let name = |part: &str| format!("model.visual.{merger}.{part}");
        norm(&mut all, &name("norm"), width);
        linear(&mut all, &name("linear_fc1"), 4 * VISION, 4 * VISION);
        linear(&mut all, &name("linear_fc2"), HIDDEN, 4 * VISION);
    }
    let text = |part: &str| format!("model.language_model.{part}.weight");
    all.push((text("embed_tokens"), vec![vocabulary, HIDDEN]));
    for layer in 0..LAYERS {
        let name = |part: &str| text(&format!("layers.{layer}.{part}"));
        all.push((name("input_layernorm"), vec![HIDDEN]));
        all.push((name("post_attention_layernorm"), vec![HIDDEN]));
        all.push((name("self_attn.q_proj"), vec![QUERY_HEADS * HEAD, HIDDEN]));
        all.push((name("self_attn.k_proj"), vec![KEY_HEADS * HEAD, HIDDEN]));
        all.push((name("self_attn.v_proj"), vec![KEY_HEADS * HEAD, HIDDEN]));
        all.push((name("self_attn.o_proj"), vec![HIDDEN, QUERY_HEADS * HEAD]));
        all.push((name("self_attn.q_norm"), vec![HEAD]));
        all.push((name("self_attn.k_norm"), vec![HEAD]));
        all.push((name("mlp.gate_proj"), vec![MLP, HIDDEN]));
        all.push((name("mlp.up_proj"), vec![MLP, HIDDEN]));
        all.push((name("mlp.down_proj"), vec![HIDDEN, MLP]));
    }
    all.push((text("norm"), vec![HIDDEN]));
    all
}

fn write_weights(path: &Path, vocabulary: usize, seed: u64) -> Result<(), WorldError> {
    let fail = |error: safetensors::SafeTensorError| WorldError::Write {
        path: path.to_owned(),
        message: error.to_string(),
    };
    let mut rng = world_rng(seed);
    let mut stored = Vec::new();
    for (name, shape) in tensors(vocabulary) {
        let count: usize = shape.iter().product();
        let bytes: Vec<u8> = match shape.len() {
            1 => vec![first_value(&name); count],
            _ => (0..count).map(|_| (normal(&mut rng) * deviation(&name)) as f32).collect(),
        }
        .into_iter()
        .flat_map(f32::to_le_bytes)
        .collect();
        stored.push((name, shape, bytes));
    }
    let views: Result<Vec<_>, _> = stored
        .iter()
        .map(|(name, shape, bytes)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), bytes)?)))
        .collect();
    // transformers refuses a file that does not name its framework.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize_to_file(views.map_err(fail)?, Some(metadata), path).map_err(fail)
}

/// Deviation of a matrix's first weights. What a layer adds is small beside the embedding, so that a token
/// can be told by what it is through all layers: names are bound to letters and times in half as many
/// steps as with the same deviation everywhere.
fn deviation(name: &str) -> f64 {
    let adds = ["o_proj", "down_proj", "attn.proj", "mlp.linear_fc2"];
    match name {
        _ if name.contains("embed_tokens") => 0.15,
        _ if adds.iter().any(|part| name.contains(part)) => 0.015,
        _ => DEVIATION,
    }
}

/// Initial values of a vector.
fn first_value(name: &str) -> f32 {
    match name {
        _ if name.ends_with("bias") => 0.0,
        // Normalised queries and keys of 32 values bound a score to 5.7 at first: too little to single out
        // one of a hundred tokens.
        _ if name.contains("q_norm") || name.contains("k_norm") => 1.4,
        _ => 1.0,
    }
}

/// One draw of the standard normal distribution (Box and Muller).
fn normal(rng: &mut WorldRng) -> f64 {
    let radius: f64 = 1.0 - rng.random_range(0.0..1.0);
    let angle: f64 = rng.random_range(0.0..std::f64::consts::TAU);
    (-2.0 * radius.ln()).sqrt() * angle.cos()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;
    use std::process::Command;

    use super::*;
    use crate::curriculum::{Curriculum, Skill};
    use paravt_qwen_vl::config::Config;
    use paravt_qwen_vl::prompt::Prompter;
    use paravt_suite::frames::CachedFrames;

    fn prompter(folder: &Path) -> Prompter {
        Prompter::read(folder, &Config::read(folder).unwrap()).unwrap()
    }

    #[test]
    fn a_seed_gives_the_same_folder_to_the_byte() {
        let folders: Vec<_> = [1, 1, 2]
            .into_iter()
            .map(|seed| {
                let dir = tempfile::tempdir().unwrap();
                write_model(dir.path(), seed).unwrap();
                dir
            })
            .collect();
        let read = |folder: usize, name: &str| std::fs::read(folders[folder].path().join(name)).unwrap();
        for name in ["tokenizer.json", "config.json", "model.safetensors"] {
            assert!(read(0, name) == read(1, name), "{name}");
        }
        assert!(read(0, "model.safetensors") != read(2, "model.safetensors"));
        assert!(read(0, "model.safetensors").len() < 6 << 20);
    }

    /// Every token is paid for: names and calls cost few. Sizes are shown with --nocapture.
    #[test]
    fn texts_take_few_tokens() {
        let dir = tempfile::tempdir().unwrap();
        write_model(dir.path(), 0).unwrap();
        let prompter = prompter(dir.path());
        let tokenizer = prompter.tokenizer();
        println!("vocabulary {}", tokenizer.get_vocab_size(true));
        let count = |text: &str| tokenizer.encode_fast(text, false).unwrap().len();
        let encoding = |text: &str| tokenizer.encode(text, false).unwrap().get_tokens().to_vec();
        assert_eq!(
            count(" red circle 36-40; purple triangle 104-111"),
            11,
            "{:?}",
            encoding(" red circle 36-40; purple triangle 104-111")
        );
        let window = 35..39;
        let call = crate::policy::call(&crate::questions::Ask::Perception { second: 37 }, &[window]);
        assert!(count(&call) <= 24, "{:?}", encoding(&call));
        assert_eq!(
            tokenizer.decode(tokenizer.encode(call.as_str(), false).unwrap().get_ids(), true).unwrap(),
            call
        );
        let mut curriculum = Curriculum::new(9);
        for skill in Skill::ALL {
            let sizes: Vec<usize> = (0..30)
                .map(|_| prompter.prompt(&curriculum.row(skill).unwrap().messages).unwrap().ids.len())
                .collect();
            println!("{}: {} tokens on average", skill.as_str(), sizes.iter().sum::<usize>() / sizes.len());
        }
        let sizes =
            crate::TrainingSizes { videos: 4, rows: 80, prompts: 1, ..crate::TrainingSizes::default() };
        let paths = crate::make_training(dir.path(), 0, &sizes).unwrap();
        let mut by_kind: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (id, messages) in rows(&paths.sft) {
            let value = serde_json::from_str(&messages).unwrap();
            let frames = CachedFrames::default();
            let messages = crate::read_messages(&value, &paths.root, &frames, &crate::protocol()).unwrap();
            let kind = id.split('-').next().unwrap().to_owned();
            by_kind.entry(kind).or_default().push(prompter.prompt(&messages).unwrap().ids.len());
        }
        for (kind, sizes) in &by_kind {
            let mean = sizes.iter().sum::<usize>() / sizes.len();
            println!(
                "sft {kind}: {} rows, {mean} tokens on average, {:?} at most",
                sizes.len(),
                sizes.iter().max()
            );
        }
        assert!(by_kind.values().flatten().all(|size| *size < 1500));
    }

    fn rows(path: &Path) -> Vec<(String, String)> {
        use arrow_array::{Array as _, StringArray};
        use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
        let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(path).unwrap()).unwrap();
        let mut found = Vec::new();
        for batch in reader.build().unwrap() {
            let batch = batch.unwrap();
            let column = |index: usize| {
                let texts = batch.column(index).as_any().downcast_ref::<StringArray>().unwrap();
                texts.iter().map(|text| text.unwrap().to_owned()).collect::<Vec<_>>()
            };
            found.extend(column(0).into_iter().zip(column(1)));
        }
        found
    }

    /// The real transformers load the folder without missing or unknown weights, and read texts to
    /// the same ids.
    #[test]
    #[ignore = "needs Python: run by ci/test"]
    fn transformers_load_the_folder_and_read_the_same_ids() {
        let python =
            std::env::var_os("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
        let dir = tempfile::tempdir().unwrap();
        write_model(dir.path(), 0).unwrap();
        let prompter = prompter(dir.path());
        let mut curriculum = Curriculum::new(2);
        let mut cases = Vec::new();
        for skill in [Skill::Bind, Skill::Recall, Skill::Whole] {
            let row = curriculum.row(skill).unwrap();
            let prompt = prompter.prompt(&row.messages).unwrap();
            cases.push(json!({"text": prompt.text, "ids": prompt.ids}));
        }
        let path = dir.path().join("cases.json");
        std::fs::write(&path, serde_json::Value::from(cases).to_string()).unwrap();
        let script = "
import json, sys
from transformers import AutoModelForImageTextToText, AutoProcessor, AutoTokenizer
folder = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(folder)
for case in json.load(open(sys.argv[2])):
    found = tokenizer(case['text'], add_special_tokens=False)['input_ids']
    assert found == case['ids'], (case['text'], found, case['ids'])
model, info = AutoModelForImageTextToText.from_pretrained(folder, output_loading_info=True)
assert not [key for key in info['missing_keys'] if key != 'lm_head.weight'], info
assert not info['unexpected_keys'] and not info['mismatched_keys'], info
processor = AutoProcessor.from_pretrained(folder)
from PIL import Image
for side in (128, 140, 336):
    grid = processor.image_processor(images=[Image.new('RGB', (side, side))], return_tensors='pt')['image_grid_thw']
    assert grid.tolist() == [[1, 4, 4]], (side, grid)
text = processor.apply_chat_template([{'role': 'user', 'content': [{'type': 'image'}, {'type': 'text', 'text': 'a'}]}],
    add_generation_prompt=True, tokenize=False)
assert text == '<|im_start|>user\\n<|vision_start|><|image_pad|><|vision_end|>a<|im_end|>\\n<|im_start|>assistant\\n', text
print(sum(p.numel() for p in model.parameters()), 'parameters')
";
        let output = Command::new(python).arg("-c").arg(script).arg(dir.path()).arg(&path).output().unwrap();
        println!("{}", String::from_utf8_lossy(&output.stdout));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
