//! Prompts by a tokenizer of a few tokens.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use paravt_qwen_vl::Error;
use paravt_qwen_vl::config::Config;
use paravt_qwen_vl::prompt::Prompter;
use paravt_suite::message::{FrameOrigin, Frames, Image, Message, Part, Role};
use serde_json::{Value, json};

/// A small vision tower.
pub(crate) fn vision() -> Value {
    json!({"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "patch_size": 16,
        "out_hidden_size": 64, "num_position_embeddings": 16})
}

/// A Qwen3-VL whose tokens are `I`, which stands for an image, `V` for a video, `c`, `cc` and `d`; with these further
/// parts of the tokenizer, and this chat template.
pub(crate) fn prompter(folder: &Path, parts: &Value, template: &str) -> Result<Prompter, Error> {
    let vocabulary = json!({"I": 0, "V": 1, "c": 2, "cc": 3, "d": 4});
    let mut tokenizer = json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [["c", "c"]]}});
    for (name, part) in parts.as_object().into_iter().flatten() {
        tokenizer[name] = part.clone();
    }
    let config = json!({"model_type": "qwen3_vl", "vocab_size": 5, "hidden_size": 8, "intermediate_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "rms_norm_eps": 1e-6,
        "rope_theta": 1e4, "image_token_id": 0, "video_token_id": 1, "vision_config": vision()});
    for (name, text) in [
        ("tokenizer.json", tokenizer.to_string()),
        ("chat_template.jinja", template.to_owned()),
        ("preprocessor_config.json", "{}".to_owned()),
        ("config.json", config.to_string()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    Prompter::read(folder, &Config::read(folder)?)
}

fn black(width: u32, height: u32, index: usize) -> Arc<Image> {
    let mut bytes = Cursor::new(Vec::new());
    image::RgbImage::new(width, height).write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    let origin = FrameOrigin { index, time: index as f64 };
    Arc::new(Image::new("image/png", bytes.into_inner(), width, height, Some(origin)))
}

#[test]
fn a_video_of_the_same_bytes_in_another_shape_is_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let prompter = prompter(folder.path(), &json!({}), "V").unwrap();
    let medium = |width, height| {
        let frames = Frames::placed(vec![black(width, height, 0), black(width, height, 1)]);
        let message = Message::parts(Role::User, vec![Part::Frames(frames)]);
        let prompt = prompter.prompt(&[message]).unwrap();
        (prompt.ids.len(), prompt.media[0].key)
    };
    let (wide, tall) = (medium(448, 224), medium(224, 448));
    assert_eq!(wide.0, tall.0);
    assert_ne!(wide.1, tall.1);
    assert_eq!(wide, medium(448, 224));
}

#[test]
fn each_video_has_its_own_times_and_may_keep_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let letters = "IV<>.0123456789 second";
    let vocabulary: serde_json::Map<String, Value> =
        letters.chars().enumerate().map(|(id, letter)| (letter.to_string(), json!(id))).collect();
    let parts = json!({"model": {"type": "BPE", "vocab": vocabulary, "merges": []}});
    let prompter = prompter(folder.path(), &parts, "{% for message in messages %}V{% endfor %}").unwrap();
    let written = |size: (u32, u32), keep_size: bool| {
        let video = |indices: &[usize], even| {
            let images = indices.iter().map(|&index| black(size.0, size.1, index)).collect();
            Message::parts(Role::User, vec![Part::Frames(Frames { images, even, keep_size })])
        };
        let prompt = prompter.prompt(&[video(&[10, 20, 30, 40], Some(2.0)), video(&[30, 31], None)])?;
        let text = prompt.ids.iter().map(|&id| letters.chars().nth(id as usize).unwrap());
        Ok::<String, Error>(text.collect())
    };
    let text = written((64, 64), true).unwrap();
    let times = text.split('<').filter_map(|piece| Some(piece.split_once(" seconds>")?.0));
    assert_eq!(times.collect::<Vec<_>>(), ["0.2", "1.2", "30.5"], "from 0 on, and where they are");
    let tokens = |text: &str| text.matches('V').count();
    assert_eq!(tokens(&text), 3 * 4);
    assert!(tokens(&written((64, 64), false).unwrap()) > 3 * 4, "the folder's rules have a minimum");
    let error = written((70, 64), true).unwrap_err().to_string();
    assert!(error.contains("70 by 64: sides are not multiples of 32"), "{error}");
}

#[test]
fn a_turn_goes_on_from_the_tokens_that_were_generated() {
    let folder = tempfile::tempdir().unwrap();
    let template = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}\
                    {% for p in m.content %}{% if p.type == 'image' %}I{% else %}{{ p.text }}{% endif %}{% endfor %}\
                    {% endif %}{% endfor %}";
    let prompter = prompter(folder.path(), &json!({}), template).unwrap();
    let question =
        Message::parts(Role::User, vec![Part::Image(black(64, 64, 0)), Part::Text("d".to_owned())]);
    let said = |text: &str| Message::text(Role::Assistant, text);
    let before = prompter.prompt(std::slice::from_ref(&question)).unwrap();
    let crop = Message::parts(Role::User, vec![Part::Text("cd".to_owned()), Part::Image(black(64, 96, 1))]);
    let conversation = [question.clone(), said("ccd"), crop];
    let (again, generated) = (prompter.prompt(&conversation).unwrap(), [2, 2, 4]);
    let after = prompter.prompt_after(&before, &generated, &conversation).unwrap().unwrap();
    let kept = [&before.ids[..], &generated, &[2, 4]].concat();
    assert!(!again.ids.starts_with(&kept) && after.ids.starts_with(&kept));
    assert_eq!((after.media[1].start(), after.ids.len()), (kept.len(), again.ids.len() + 1));
    assert_eq!((&after.text, after.media[1].key), (&again.text, again.media[1].key));
    assert_eq!((after.positions.len(), after.next_position), (after.ids.len(), again.next_position + 1));
    // A template, or an agent, that writes something else in the place of the turn.
    let other = [question, said("dd")];
    assert!(prompter.prompt_after(&before, &generated, &other).unwrap().is_none());
}
