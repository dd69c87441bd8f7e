//! Model folders that are wrong: the error names the file, and the tensor or key.

use std::path::Path;

use paravt_qwen_vl::config::{Config, Family};
use paravt_qwen_vl::processor::Processor;
use paravt_qwen_vl::weights::{Dtype, Weights};
use safetensors::tensor::{TensorView, serialize_to_file};
use serde_json::{Value, json};

fn published_qwen25() -> Value {
    json!({
        "model_type": "qwen2_5_vl", "vocab_size": 100, "hidden_size": 256, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-6,
        "rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "hidden_act": "silu",
        "image_token_id": 7, "video_token_id": 8, "tie_word_embeddings": false, "use_sliding_window": false,
        "vision_config": {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "patch_size": 14,
            "in_chans": 3, "out_hidden_size": 256, "window_size": 112, "tokens_per_second": 2, "hidden_act": "silu",
            "fullatt_block_indexes": [1], "spatial_merge_size": 2, "temporal_patch_size": 2},
    })
}

fn read(json: &Value) -> Result<Config, String> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("config.json"), json.to_string()).expect("written");
    Config::read(folder.path()).map_err(|error| error.to_string())
}

#[test]
fn published_flat_configs_are_read() {
    let config = read(&published_qwen25()).unwrap();
    assert_eq!((config.family, config.text.head_dim, config.tied), (Family::Qwen25, 128, false));
    assert_eq!(config.text.mrope_section, [16, 24, 24]);
    assert_eq!(config.vision.patch_values(), 3 * 2 * 14 * 14);
}

/// Damage to a config.
type Change = fn(&mut Value);

#[test]
fn wrong_configs_are_refused_by_key() {
    let with = |change: Change| {
        let mut json = published_qwen25();
        change(&mut json);
        read(&json).unwrap_err()
    };
    let cases: [(Change, &str); 8] = [
        (|json| json["model_type"] = json!("llava"), "unsupported model_type `llava`"),
        (|json| drop(json.as_object_mut().unwrap().remove("hidden_size")), "missing field `hidden_size`"),
        (|json| json["rope_scaling"]["type"] = json!("yarn"), "rope_type is yarn"),
        (|json| json["rope_scaling"]["mrope_section"] = json!([1, 2, 3]), "mrope_section [1, 2, 3]"),
        (|json| json["num_key_value_heads"] = json!(3), "2 is not a multiple of 3"),
        (|json| json["use_sliding_window"] = json!(true), "use_sliding_window"),
        (|json| json["vision_config"]["hidden_act"] = json!("relu"), "vision_config.hidden_act is relu"),
        (|json| drop(json.as_object_mut().unwrap().remove("image_token_id")), "image_token_id is missing"),
    ];
    for (change, words) in cases {
        let error = with(change);
        assert!(error.contains(words) && error.contains("config.json"), "{error}");
    }
}

#[test]
fn processors_are_read_from_old_and_new_files() {
    let config = read(&published_qwen25()).unwrap();
    let folder = tempfile::tempdir().expect("a folder");
    let read =
        || Processor::read(folder.path(), config.family, &config.vision).map_err(|error| error.to_string());
    assert!(read().unwrap_err().contains("preprocessor_config.json"));
    let old = json!({"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2,
        "merge_size": 2, "image_mean": [0.1, 0.2, 0.3], "image_std": [1, 2, 3]});
    std::fs::write(folder.path().join("preprocessor_config.json"), old.to_string()).unwrap();
    let found = read().unwrap();
    assert_eq!((found.image.min_pixels, found.image.max_pixels), (3136, 12_845_056));
    // Before video processors existed, one file was for both.
    assert_eq!((found.video.rules.max_pixels, found.video.rules.mean), (12_845_056, [0.1, 0.2, 0.3]));
    let new = json!({"size": {"shortest_edge": 100, "longest_edge": 200}, "image_mean": [0.5, 0.5, 0.5]});
    std::fs::write(folder.path().join("video_preprocessor_config.json"), new.to_string()).unwrap();
    assert_eq!(read().unwrap().video.rules.min_pixels, 100);
    for (key, value) in [("patch_size", json!(16)), ("do_resize", json!(false)), ("resample", json!(2))] {
        let mut wrong = old.clone();
        wrong[key] = value;
        std::fs::write(folder.path().join("preprocessor_config.json"), wrong.to_string()).unwrap();
        let error = read().unwrap_err();
        assert!(error.contains(key) && error.contains("preprocessor_config.json"), "{error}");
    }
}

fn save(path: &Path, tensors: &[(&str, Dtype, &[usize])]) {
    let size = |dtype: Dtype| if dtype == Dtype::F32 { 4 } else { 2 };
    let data: Vec<(String, Vec<u8>)> = tensors
        .iter()
        .map(|(name, dtype, shape)| {
            ((*name).to_owned(), vec![0; shape.iter().product::<usize>() * size(*dtype)])
        })
        .collect();
    let views = tensors.iter().zip(&data).map(|((name, dtype, shape), (_, bytes))| {
        (*name, TensorView::new(*dtype, shape.to_vec(), bytes).expect("a tensor"))
    });
    serialize_to_file(views, None, path).expect("written");
}

#[test]
fn wrong_weights_are_refused_by_tensor_and_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let open = || Weights::open(folder.path()).map_err(|error| error.to_string());
    assert!(open().err().unwrap().contains("model.safetensors"));
    save(&path("a.safetensors"), &[("one", Dtype::F32, &[2, 3])]);
    save(&path("b.safetensors"), &[("two", Dtype::BF16, &[4]), ("three", Dtype::I16, &[4])]);
    let index =
        json!({"weight_map": {"one": "a.safetensors", "two": "b.safetensors", "three": "b.safetensors"}});
    std::fs::write(path("model.safetensors.index.json"), index.to_string()).unwrap();
    let weights = open().unwrap();
    assert_eq!(weights.get("one", &[2, 3]).unwrap().to_f32(), [0.0; 6]);
    assert_eq!(weights.get("two", &[4]).unwrap().dtype, Dtype::BF16);
    let error = |name: &str, shape: &[usize]| weights.get(name, shape).unwrap_err().to_string();
    assert!(error("four", &[1]).contains("tensor `four`"));
    let shape = error("one", &[3, 2]);
    assert!(
        shape.contains("`one`") && shape.contains("a.safetensors") && shape.contains("[2, 3]"),
        "{shape}"
    );
    assert!(error("three", &[4]).contains("I16"));
    // Cut off in the middle of a download.
    let bytes = std::fs::read(path("b.safetensors")).unwrap();
    std::fs::write(path("b.safetensors"), &bytes[..bytes.len() - 3]).unwrap();
    let error = open().err().unwrap();
    assert!(error.contains("b.safetensors") && error.contains("truncated or corrupt"), "{error}");
}
