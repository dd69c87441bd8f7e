//! Loss, gradients and optimiser steps beside torch's, on small random models of both families.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use candle_core::{DType, Device, Tensor};
use paravt_qwen_vl::config::Config;
use paravt_qwen_vl::ops::{self, Precision};
use paravt_qwen_vl::positions::VideoRule;
use paravt_qwen_vl::prompt::Prompter;
use paravt_suite::conversation::parse_conversation;
use paravt_train::Compute;
use paravt_train::example::Example;
use paravt_train::learner::Learner;
use paravt_train::objective::{Knobs, Tokens, policy_loss, token_logprobs};
use paravt_train::optimizer::{AdamW, AdamWConfig, Gradients};
use paravt_train::sft;
use serde::Deserialize;

#[derive(Deserialize)]
struct Recorded {
    messages: Vec<serde_json::Value>,
    examples: Vec<RecordedExample>,
    /// Advantages, prox, behaviour.
    tokens: Vec<[Vec<f64>; 3]>,
}

#[derive(Deserialize)]
struct RecordedExample {
    ids: Vec<u32>,
    trained: Vec<bool>,
}

/// What torch recorded under a name of ours.
fn theirs<'a>(tensors: &'a HashMap<String, Tensor>, start: &str, name: &str) -> Option<&'a Tensor> {
    let newer = [
        name.to_owned(),
        name.replacen("model.", "model.language_model.", 1),
        name.replacen("visual.", "model.visual.", 1),
    ];
    newer.iter().find_map(|name| tensors.get(&format!("{start}.{name}")))
}

fn norm(x: &Tensor) -> f64 {
    f64::from(x.sqr().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap()).sqrt()
}

/// Every tensor within 1e-4 of torch's, relative to its own size, or to a millionth of all where it is
/// nothing but rounding.
fn assert_close(label: &str, start: &str, tensors: &HashMap<String, Tensor>, ours: &[(String, Tensor)]) {
    let recorded = tensors.iter().filter(|(name, _)| name.starts_with(&format!("{start}.")));
    let all = recorded.clone().map(|(_, x)| norm(x).powi(2)).sum::<f64>().sqrt();
    assert_eq!(ours.len(), recorded.count(), "{label}: {start}: tensors");
    let mut worst = (0.0, String::new());
    for (name, ours) in ours {
        let theirs = theirs(tensors, start, name).unwrap_or_else(|| panic!("{label}: torch has no {name}"));
        let theirs = theirs.flatten_all().unwrap();
        let far = norm(&(ours.flatten_all().unwrap() - &theirs).unwrap()) / norm(&theirs).max(1e-6 * all);
        assert!(far <= 1e-4, "{label}: {start}.{name}: {far:.2e}");
        if far > worst.0 {
            worst = (far, name.clone());
        }
    }
    println!("{label}: {start}: {} tensors, worst {:.1e} ({})", ours.len(), worst.0, worst.1);
}

fn scalar(tensors: &HashMap<String, Tensor>, name: &str) -> f64 {
    f64::from(tensors[name].to_scalar::<f32>().unwrap())
}

fn compare(folder: &Path) {
    let label = folder.file_name().unwrap().display().to_string();
    let tensors = candle_core::safetensors::load(folder.join("training.safetensors"), &Device::Cpu).unwrap();
    let recorded = std::fs::read_to_string(folder.join("training.json")).unwrap();
    // Media are named from this folder.
    let recorded = recorded.replace("file://", &format!("file://{}/", folder.display()));
    let recorded: Recorded = serde_json::from_str(&recorded).unwrap();
    let learner = Learner::load(folder, &Compute::cpu()).unwrap();
    // The reference is transformers 5, which has a rule of its own for videos.
    let mut config = Config::read(folder).unwrap();
    config.video_rule = VideoRule::Transformers5;
    let prompter = Prompter::read(folder, &config).unwrap();
    let examples: Vec<Example> = recorded
        .messages
        .iter()
        .map(|messages| Example::of_conversation(&prompter, &parse_conversation(messages).unwrap()).unwrap())
        .collect();
    for (ours, theirs) in examples.iter().zip(&recorded.examples) {
        // The line break after the last turn is nobody's.
        let length = theirs.ids.len();
        assert_eq!(
            (&ours.ids[..length], &ours.trained[..length]),
            (&theirs.ids[..], &theirs.trained[..]),
            "{label}"
        );
        assert!(!ours.trained[length..].contains(&true));
    }
    let named = |gradients: &Gradients| -> Vec<(String, Tensor)> {
        let all = learner.named().into_iter();
        all.filter_map(|(name, _)| gradients.get(&name).cloned().map(|gradient| (name, gradient))).collect()
    };

    // Supervised, in two packs: the split does not show.
    let config =
        AdamWConfig { learning_rate: 1e-3, weight_decay: 0.01, max_grad_norm: 0.5, ..AdamWConfig::default() };
    let mut optimizer = AdamW::new(config, learner.parameters().all());
    let packs = [examples[..2].to_vec(), examples[2..].to_vec()];
    let (loss, gradients) = sft::gradients(&learner, &packs).unwrap();
    let wanted = scalar(&tensors, "sft_loss");
    assert!((loss - wanted).abs() <= 1e-5 * wanted, "{label}: loss {loss}, torch {wanted}");
    assert_close(&label, "sft", &tensors, &named(&gradients));
    recomputed(folder, &label, &packs, (loss, &named(&gradients)), &tensors);
    in_bfloat16(folder, &label, &packs, wanted, &named(&gradients));

    // The policy objective, all in one batch.
    let knobs = Knobs::paragrpo();
    let batch: Vec<&Example> = examples.iter().collect();
    let targets: Vec<u32> = examples.iter().flat_map(Example::targets).collect();
    let (new, _) = token_logprobs(&learner.logits(&batch).unwrap(), &targets, knobs.temperature).unwrap();
    let column = |which: usize| -> Vec<f64> {
        recorded.tokens.iter().flat_map(|tokens| &tokens[which]).copied().collect()
    };
    let (advantages, prox, behaviour) = (column(0), column(1), column(2));
    let tokens = Tokens { advantages: &advantages, prox: &prox, behaviour: &behaviour };
    let (loss, sums) = policy_loss(&new, &tokens, &knobs).unwrap();
    assert!(sums.clipped > 0 && sums.dropped > 0, "{label}: every branch is taken");
    let loss = (loss * knobs.scale(targets.len(), targets.len(), 1)).unwrap();
    let wanted = scalar(&tensors, "policy_loss");
    let found = f64::from(loss.to_scalar::<f32>().unwrap());
    assert!((found - wanted).abs() <= 1e-4 * wanted.abs(), "{label}: policy loss {found}, torch {wanted}");
    let gradients = Gradients::of(optimizer.weights(), loss.backward().unwrap()).unwrap();
    assert_close(&label, "policy", &tensors, &named(&gradients));

    // Two optimiser steps.
    let mut norm = 0.0;
    for _ in 0..2 {
        let (_, gradients) = sft::gradients(&learner, &packs).unwrap();
        norm = optimizer.step(&gradients, 1.0).unwrap();
    }
    let wanted = scalar(&tensors, "norm");
    assert!((norm - wanted).abs() <= 1e-4 * wanted, "{label}: gradient norm {norm}, torch {wanted}");
    let after: Vec<(String, Tensor)> =
        learner.named().into_iter().map(|(name, weight)| (name, weight.var.as_tensor().clone())).collect();
    assert_close(&label, "after", &tensors, &after);
}

/// The same step as on a GPU: activations computed again, three rows of logits at a time.
fn recomputed(
    folder: &Path,
    label: &str,
    packs: &[Vec<Example>],
    (loss, gradients): (f64, &[(String, Tensor)]),
    tensors: &HashMap<String, Tensor>,
) {
    let vocabulary = Config::read(folder).unwrap().text.vocab_size;
    let learner = Learner::load(folder, &Compute::cpu().recomputing(3 * vocabulary)).unwrap();
    let (again, found) = sft::gradients(&learner, packs).unwrap();
    assert!((again - loss).abs() <= 1e-6 * loss, "{label}: loss {again}, at once {loss}");
    let (mut same, mut worst, mut named) = (0, 0.0f64, Vec::new());
    for (name, once) in gradients {
        let again = found.get(name).unwrap();
        let far = norm(&(again - once).unwrap());
        same += usize::from(far == 0.0);
        worst = worst.max(far / norm(once).max(1e-9));
        named.push((name.clone(), again.clone()));
    }
    println!("{label}: recomputed: {same} of {} gradients bit-equal, worst {worst:.1e}", named.len());
    assert!(worst <= 2e-6, "{label}: {worst}");
    assert_close(label, "sft", tensors, &named);
}

/// The same step in bfloat16 with f32 weights: gradients but for its rounding, and updates that are too
/// small for a bfloat16 weight.
fn in_bfloat16(
    folder: &Path,
    label: &str,
    packs: &[Vec<Example>],
    loss: f64,
    gradients: &[(String, Tensor)],
) {
    let compute = Compute::new(ops::Device::Cpu, Precision::Bf16).unwrap();
    let learner = Learner::load(folder, &compute).unwrap();
    let config = AdamWConfig { learning_rate: 1e-7, weight_decay: 0.0, ..AdamWConfig::default() };
    let mut optimizer = AdamW::new(config, learner.parameters().all());
    let (found, rounded) = sft::gradients(&learner, packs).unwrap();
    assert!((found - loss).abs() <= 0.01 * loss, "{label}: loss {found} in bfloat16, {loss} in f32");
    let (mut off, mut all) = (0.0, 0.0);
    for (name, gradient) in gradients {
        let rounded = rounded.get(name).unwrap();
        assert_eq!(rounded.dtype(), DType::F32);
        off += norm(&(rounded - gradient).unwrap()).powi(2);
        all += norm(gradient).powi(2);
    }
    let again = Learner::load(folder, &compute.recomputing(1 << 20)).unwrap();
    let (_, again) = sft::gradients(&again, packs).unwrap();
    for (name, _) in gradients {
        let (once, again) = (rounded.get(name).unwrap(), again.get(name).unwrap());
        let far = norm(&(once - again).unwrap()) / norm(once).max(1e-3);
        assert!(far <= 0.02, "{label}: {name}: {far} from the gradient without recomputation");
    }
    let off = (off / all).sqrt();
    println!("{label}: gradients in bfloat16 are {off:.1e} from those in f32");
    assert!(off > 1e-4 && off < 0.05, "{label}: {off}");

    let copies = |learner: &Learner| -> Vec<Tensor> {
        learner.named().iter().map(|(_, weight)| weight.var.as_tensor().copy().unwrap()).collect()
    };
    let before = copies(&learner);
    optimizer.step(&rounded, 1.0).unwrap();
    let (mut moved, mut kept, mut count) = (0, 0, 0);
    for (before, after) in before.iter().zip(copies(&learner)) {
        let values = |x: &Tensor| x.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        for (before, after) in values(before).into_iter().zip(values(&after)) {
            count += 1;
            moved += usize::from(before != after);
            kept += usize::from(half::bf16::from_f32(before) == half::bf16::from_f32(after));
        }
    }
    assert!(2 * moved > count && 10 * kept > 9 * count, "{label}: {moved} moved, {kept} of {count} kept");
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn losses_gradients_and_steps_are_those_of_torch() {
    let folder = tempfile::tempdir().unwrap();
    let python = std::env::var_os("PARAVT_PYTHON").expect("PARAVT_PYTHON: run ci/setup, then ci/test");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/training.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in ["qwen3", "qwen25"] {
        compare(&folder.path().join(name));
    }
}
