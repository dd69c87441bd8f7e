//! Model folders that are made to hang, to take all memory or to read other files: each ends in an error that names the
//! file.

use std::time::{Duration, Instant};

use paravt_qwen_vl::chat::ChatTemplate;
use paravt_qwen_vl::config::{Config, Family};
use paravt_qwen_vl::processor::{Pixels, Processor};
use paravt_qwen_vl::weights::Weights;
use serde_json::{Value, json};

use crate::prompts::{prompter, vision};

fn template(source: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chat_template.jinja"), source).unwrap();
    let template = ChatTemplate::read(folder.path()).map_err(|error| error.to_string())?;
    let messages = json!([{"role": "user", "content": "hello"}]);
    template.render(&messages, None).map_err(|error| error.to_string())
}

#[test]
fn templates_that_never_end_or_grow_without_bound_are_errors() {
    let deep = |open: &str, middle: &str, close: &str, count: usize| {
        format!("{{{{ {}{middle}{} }}}}", open.repeat(count), close.repeat(count))
    };
    let nines = "9999999999";
    for source in [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}\
         {% endfor %}"
            .to_owned(),
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}".to_owned(),
        "{% for a in range(99999) %}{{ 'a' * 100000 }}{% endfor %}".to_owned(),
        "{% set x %}{% for a in range(99999) %}{{ 'a' * 100000 }}{% endfor %}{% endset %}{{ x | length }}".to_owned(),
        format!("{{{{ 'a\\nb' | indent({nines}) }}}}"),
        format!("{{{{ 'a\\nb' | indent(width={nines}) }}}}"),
        format!("{{{{ messages | tojson(indent={nines}) }}}}"),
        format!("{{{{ 'a' * {nines} }}}}"),
        format!("{{{{ '%{nines}d' | format(1) }}}}"),
        format!("{{{{ '%*d' | format({nines}, 1) }}}}"),
        format!("{{{{ '{{:>{nines}}}'.format(1) }}}}"),
        format!("{{{{ '{{:{{}}}}'.format(1, {nines}) }}}}"),
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(40) %}{% set ns.x = ns.x | replace('a', 'aaaa') %}\
         {% endfor %}"
            .to_owned(),
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(40) %}{% set ns.x = ns.x.replace('a', 'aaaa') %}\
         {% endfor %}"
            .to_owned(),
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] | join(ns.x) %}\
         {% endfor %}"
            .to_owned(),
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(40) %}{% set ns.x = ns.x.join([ns.x, ns.x]) %}\
         {% endfor %}"
            .to_owned(),
        "{% for a in range(99999) %}" .to_owned() + &"a".repeat(100_000) + "{% endfor %}",
        // Too long; what fits is parsed on a stack that is large enough.
        deep("not ", "1", "", 200_000),
    ] {
        let start = Instant::now();
        let error = template(&source).expect_err(&source[..source.len().min(80)]);
        assert!(start.elapsed() < Duration::from_secs(50) && error.contains("chat template"), "{error}");
    }
    // As deep as the limit of length allows: an answer or an error, and no overflow of the stack.
    for source in [
        deep("not ", "1", "", 30_000),
        deep("-", "1", "", 60_000),
        deep("(", "1", ")", 30_000),
        deep("[", "1", "]", 30_000),
        format!("{{{{ 1{} }}}}", "+1".repeat(60_000)),
        format!("{{{{ messages{} }}}}", ".a".repeat(60_000)),
        "{% set ns = namespace(x=[]) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% endfor %}fine"
            .to_owned(),
    ] {
        let _ = template(&source);
    }
    // An ordinary one is as it was.
    assert_eq!(template("{% for m in messages %}{{ m.content | indent(2) }}{% endfor %}").unwrap(), "hello");
}

#[test]
fn a_long_conversation_has_fuel_in_proportion() {
    let folder = tempfile::tempdir().unwrap();
    let source = "{% for m in messages %}{% for part in m.content %}{% if part.type == 'image' %}<i>{% else %}\
                  {{ part.text | trim }}{% endif %}{% endfor %}{% endfor %}";
    std::fs::write(folder.path().join("chat_template.jinja"), source).unwrap();
    let template = ChatTemplate::read(folder.path()).unwrap();
    let parts: Vec<Value> =
        (0..4_000)
            .map(|number| {
                if number % 2 == 0 {
                    json!({"type": "image"})
                } else {
                    json!({"type": "text", "text": " a "})
                }
            })
            .collect();
    let messages: Vec<Value> = (0..50).map(|_| json!({"role": "user", "content": parts})).collect();
    assert_eq!(template.render(&json!(messages), None).unwrap(), "<i>a".repeat(100_000));
}

#[cfg(unix)]
#[test]
fn pipes_in_the_place_of_files_are_refused_and_not_waited_for() {
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors",
            "preprocessor_config.json",
        ] {
            let made = std::process::Command::new("mkfifo").arg(folder.path().join(name)).status().unwrap();
            assert!(made.success());
        }
        let vision = serde_json::from_value(vision()).unwrap();
        let errors = [
            Config::read(folder.path()).err().unwrap().to_string(),
            ChatTemplate::read(folder.path()).err().unwrap().to_string(),
            Weights::open(folder.path()).err().unwrap().to_string(),
            Processor::read(folder.path(), Family::Qwen3, &vision).err().unwrap().to_string(),
        ];
        done.send(errors).unwrap();
    });
    let errors = finished.recv_timeout(Duration::from_secs(30)).expect("no waiting for a pipe");
    assert!(errors.iter().all(|error| error.contains("not a regular file")), "{errors:?}");
}

#[test]
fn an_index_names_files_of_its_own_folder_alone() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["../outside.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "./x/../y"] {
        let index = json!({"weight_map": {"one": "model.safetensors", "two": name}});
        std::fs::write(folder.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
        let error = Weights::open(folder.path()).err().unwrap().to_string();
        assert!(error.contains("`two`") && error.contains("index.json"), "{name}: {error}");
    }
}

fn processor(json: &Value) -> Result<Processor, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("preprocessor_config.json"), json.to_string()).unwrap();
    let vision = serde_json::from_value(vision()).unwrap();
    Processor::read(folder.path(), Family::Qwen3, &vision).map_err(|error| error.to_string())
}

#[test]
fn preprocessors_whose_pixels_would_be_infinite_or_too_many_are_refused() {
    for (key, value) in [
        ("image_std", json!([0.5, 0.0, 0.5])),
        ("image_std", json!([0.5, -1.0, 0.5])),
        ("image_std", json!([0.5, 1e300, 0.5])),
        ("image_std", json!("half")),
        ("image_mean", json!([0.5, null, 0.5])),
        ("image_mean", json!([0.5, 0.5])),
        ("image_mean", json!([1e39, 0, 0])),
        ("size", json!({"shortest_edge": 1_000_000_000_000u64, "longest_edge": 1_000_000_000_000u64})),
        ("size", json!({"shortest_edge": -1, "longest_edge": 100})),
        ("min_pixels", json!(1e12)),
        ("max_pixels", json!("many")),
        ("fps", json!(0)),
        ("max_frames", json!(1e9)),
    ] {
        let error = processor(&json!({key: value})).expect_err(key);
        let key = if key == "size" { "edge" } else { key };
        assert!(error.contains(key) && error.contains("preprocessor_config.json"), "{error}");
    }
    // Allowed for each frame, too much for all of them.
    let found =
        processor(&json!({"size": {"shortest_edge": 400_000_000, "longest_edge": 400_000_000}})).unwrap();
    let pixels = Pixels { width: 32, height: 32, rgb: vec![0; 32 * 32 * 3] };
    assert!(found.image.image(&pixels).unwrap_err().contains("more than"), "two frames of an image");
}

#[test]
fn patterns_that_give_up_and_texts_beyond_the_context_are_errors_of_their_text() {
    let folder = tempfile::tempdir().unwrap();
    for pattern in [r"(.+)+\1\1#|.", r"(a|a|aa)+$|(\w+\s?)*!"] {
        let split =
            json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        let prompter = prompter(folder.path(), &json!({"pre_tokenizer": split}), "hello").unwrap();
        let error = prompter.encode(&("a".repeat(60) + "b")).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json"), "{pattern}: {error}");
    }
    let prompter = prompter(folder.path(), &json!({}), "hello").unwrap();
    let context = prompter.config().text.max_position_embeddings;
    let encode = |text: &str| prompter.encode(text).map(|ids| ids.len());
    assert_eq!(encode(&"cc".repeat(context)).unwrap(), context);
    let error = encode(&"c".repeat(2 * context + 1)).unwrap_err().to_string();
    assert!(error.contains("bytes") && error.contains(&context.to_string()), "{error}");
}

/// As in transformers, which turns both off unless a call asks for them.
#[test]
fn truncation_and_padding_that_a_tokenizer_was_saved_with_do_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let text = "cc".repeat(40);
    let encoded = |change: Value| prompter(folder.path(), &change, "hello").unwrap().encode(&text).unwrap();
    let plain = encoded(json!({}));
    let truncation = json!({"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0});
    assert_eq!(encoded(json!({"truncation": truncation})), plain);
    for length in [512, 2_000_000_000_u64] {
        let padding = json!({"strategy": {"Fixed": length}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "c"});
        assert_eq!(encoded(json!({"padding": padding})), plain);
    }
}

#[test]
fn normalizers_that_multiply_the_text_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let made = |normalizer: &Value| {
        let made = prompter(folder.path(), &json!({"normalizer": normalizer}), "hello");
        made.map(drop).map_err(|error| error.to_string())
    };
    let replace = |content: &str| json!({"type": "Replace", "pattern": {"String": "a"}, "content": content});
    let bomb = json!({"type": "Sequence", "normalizers": vec![replace("aa"); 40]});
    let error = made(&bomb).unwrap_err();
    assert!(error.contains("normalizer") && error.contains("tokenizer.json"), "{error}");
    let nested = json!({"type": "Sequence", "normalizers": [bomb]});
    assert!(made(&nested).is_err());
    assert!(made(&replace(&"a".repeat(1_000_000))).is_err());
    // Those of published tokenizers.
    made(&json!({"type": "NFC"})).unwrap();
    let ordinary =
        json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace("▁")]});
    made(&ordinary).unwrap();
}

#[test]
fn sizes_of_nothing_and_constants_that_are_not_finite_are_refused_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    prompter(folder.path(), &json!({}), "hello").unwrap();
    let whole: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (key, value) in [
        ("num_hidden_layers", json!(0)),
        ("hidden_size", json!(0)),
        ("rms_norm_eps", json!(-1)),
        ("rms_norm_eps", json!(0)),
        ("rope_theta", json!(-1)),
        ("max_position_embeddings", json!(0)),
    ] {
        let mut wrong = whole.clone();
        wrong[key] = value;
        std::fs::write(&path, wrong.to_string()).unwrap();
        let error = Config::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
    for key in ["depth", "patch_size", "temporal_patch_size", "spatial_merge_size"] {
        let mut wrong = whole.clone();
        wrong["vision_config"][key] = json!(0);
        std::fs::write(&path, wrong.to_string()).unwrap();
        assert!(Config::read(folder.path()).unwrap_err().to_string().contains(key), "{key}");
    }
}
