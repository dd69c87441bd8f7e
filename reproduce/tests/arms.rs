//! The first optimiser step of every arm of the study, worked out again by torch: rewards to advantages, loss, gradients.
//!
//! Without `PARAVT_STUDY` on a few generated prompts with the embedded checkpoint as the reference and one that was moved
//! away from it as the policy. With `PARAVT_STUDY=OUT`, the folder of a finished `paravt-bench reproduce RECIPE --full` of one
//! of the studies, on the study's own prompts of seed 0, with each arm's cold start as its reference and its last weights as
//! its policy.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use paravt_nano::{TrainingSizes, make_training, protocol, write_base};
use paravt_reproduce::graph::Graph;
use paravt_reproduce::stages::{Reinforcement, prompts};
use paravt_reproduce::{GraphOptions, Recipe};
use paravt_suite::frames::CachedFrames;
use paravt_train::checkpoint::FINAL;
use paravt_train::rl::{FirstUpdate, RlConfig, RlTask, first_update};
use paravt_train::rollout::RolloutConfig;
use paravt_train::{Compute, Error};
use serde_json::json;

/// Largest difference from torch in float64: of log-probabilities as a share of their norm, of the loss, a sum that nearly
/// cancels, as a share of the size of its terms.
const TOLERANCE: f64 = 1e-5;
/// Of the gradient of a weight, as a share of the sizes of its rollouts' gradients; ours are computed in float32.
const GRADIENTS: f64 = 1e-4;

/// One training, and what it goes on from.
struct Arm {
    name: String,
    config: RlConfig,
    data: PathBuf,
    policy: PathBuf,
    reference: PathBuf,
}

/// Arms on few short rollouts, all from the same two checkpoints.
fn small(folder: &Path) -> Vec<Arm> {
    let (base, moved, data) = (folder.join("base"), folder.join("moved"), folder.join("data"));
    write_base(&base).unwrap();
    write_base(&moved).unwrap();
    let weights = moved.join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(&weights, &Device::Cpu).unwrap();
    for tensor in tensors.values_mut().filter(|tensor| tensor.rank() > 1) {
        *tensor = (&*tensor * 0.97).unwrap();
    }
    candle_core::safetensors::save(&tensors, &weights).unwrap();
    make_training(&data, 3, &TrainingSizes { videos: 3, rows: 4, prompts: 6, ..TrainingSizes::default() })
        .unwrap();
    let mut small: Vec<Arm> = Vec::new();
    let all = arms(|_, config, name| {
        // A strategy keeps groups in which rewards differ: few of such rollouts have any.
        if config.objective.strategy.is_some() {
            return None;
        }
        let config = RlConfig {
            prompts_per_step: 2,
            micro_batch_tokens: 1000,
            // These models call nothing: no call fails, and no group is lost.
            lost_groups: None,
            rollout: RolloutConfig {
                group_size: 3,
                max_new_tokens: 24,
                nframes: 8,
                frame_budgets: vec![4, 8],
                failed_calls: 0.0,
                ..config.rollout
            },
            ..config
        };
        let (data, policy, reference) = (data.clone(), moved.clone(), base.clone());
        Some(Arm { name, config, data, policy, reference })
    });
    for arm in all {
        if small.iter().all(|other| other.config != arm.config) {
            small.push(arm);
        }
    }
    small
}

/// The stages of the studies.
fn studies(out: &Path) -> [Graph; 2] {
    let options = GraphOptions { full: true, ..GraphOptions::new(out) };
    ["paravt-paradox", "paravt-paradox-release"]
        .map(|name| Recipe::load(name).unwrap().graph(&options).unwrap())
}

/// Arms of a finished study, seed 0.
fn of_study(out: &Path) -> Vec<Arm> {
    let graphs = studies(out);
    let folder = |name: &str| {
        let stages = graphs.iter().flat_map(Graph::stages);
        let mut stages = stages.filter(|stage| stage.name() == name && stage.seed() != Some(1));
        stages.next().unwrap().folder().unwrap().to_owned()
    };
    arms(|start, config, name| {
        let policy = folder(&name).join(FINAL);
        // A study may have been run without some arms.
        policy.is_dir().then(|| Arm {
            config,
            data: folder("data"),
            reference: folder(start).join(FINAL),
            policy,
            name,
        })
    })
}

fn arms(arm: impl Fn(&str, RlConfig, String) -> Option<Arm>) -> Vec<Arm> {
    let mut all: Vec<Arm> = Vec::new();
    for graph in studies(Path::new("out")) {
        for stage in graph.stages() {
            let Some(training) = stage.kind::<Reinforcement>() else { continue };
            let start = graph.inputs(stage).next().unwrap();
            let arm = arm(start.name(), (*training.config).clone(), stage.name().to_owned());
            // The studies have their control in common.
            all.extend(arm.filter(|arm| all.iter().all(|other| other.name != arm.name)));
        }
    }
    all
}

/// What torch needs to work the same step out.
fn write(folder: &Path, arm: &Arm, step: &FirstUpdate) {
    std::fs::create_dir(folder).unwrap();
    let mut tensors: HashMap<String, Tensor> = HashMap::new();
    let mut sequences = Vec::new();
    for (place, (group, one)) in step.rollouts.iter().enumerate() {
        let example = &one.example;
        let positions: Vec<u32> = example.positions.iter().flatten().copied().collect();
        let positions = Tensor::from_vec(positions, (example.ids.len(), 3), &Device::Cpu).unwrap();
        tensors.insert(format!("{place}.positions"), positions);
        tensors.insert(format!("{place}.ids"), Tensor::new(example.ids.as_slice(), &Device::Cpu).unwrap());
        let mut grids = Vec::new();
        for (number, medium) in example.media.iter().enumerate() {
            let grid = medium.patches.grid;
            let values: Vec<f32> = medium.patches.values().collect();
            let shape = (grid.patches(), values.len() / grid.patches());
            let values = Tensor::from_vec(values, shape, &Device::Cpu).unwrap();
            tensors.insert(format!("{place}.patches.{number}"), values);
            grids.push(json!({ "grid": [grid.t, grid.h, grid.w], "is_video": medium.is_video }));
        }
        let mut behaviour = vec![0.0; example.ids.len()];
        for (row, value) in example.rows().zip(&one.behaviour) {
            behaviour[row + 1] = f64::from(*value);
        }
        sequences.push(json!({
            "loss_mask": example.trained.iter().copied().map(u8::from).collect::<Vec<_>>(),
            "behaviour": behaviour,
            "reference": step.reference.as_ref().map(|all| &all[place]),
            "reward": one.reward.total,
            "group": group,
            "media": grids,
        }));
    }
    let case = json!({
        "policy": arm.policy,
        "reference": step.reference.is_some().then_some(&arm.reference),
        "knobs": arm.config.objective,
        "whole_attention": arm.config.whole_attention,
        "passes": step.passes,
        "sequences": sequences,
    });
    std::fs::write(folder.join("step.json"), case.to_string()).unwrap();
    candle_core::safetensors::save(&tensors, folder.join("step.safetensors")).unwrap();
}

fn far(ours: &[f64], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let off = norm(&mut ours.iter().zip(theirs).map(|(a, b)| a - b));
    off / norm(&mut theirs.iter().copied()).max(1e-9)
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(candle_core::DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn the_first_step_of_every_arm_is_that_of_torch() {
    let folder = tempfile::tempdir().unwrap();
    let arms = match std::env::var_os("PARAVT_STUDY") {
        Some(out) => of_study(Path::new(&out)),
        None => small(folder.path()),
    };
    assert!(!arms.is_empty());
    let ours = arms.iter().filter_map(|arm| {
        let task = RlTask {
            prompts: prompts(&arm.data).unwrap(),
            protocol: Arc::new(protocol()),
            frames: Arc::new(CachedFrames::default()),
            compute: Compute::cpu(),
        };
        let step = match first_update(&arm.policy, &arm.reference, &task, &arm.config) {
            // That it has no step is the finding about an arm.
            Err(Error::Data(why)) if arm.config.lost_groups.is_some() => {
                println!("{}: {why}", arm.name);
                return None;
            }
            step => step.unwrap(),
        };
        let case = folder.path().join(format!("arm-{}", arm.name));
        write(&case, arm, &step);
        Some((arm, step, case))
    });
    let ours: Vec<_> = ours.collect();
    assert!(!ours.is_empty());
    let python = std::env::var_os("PARAVT_PYTHON").expect("PARAVT_PYTHON: run ci/setup, then ci/test");
    let mut torch = Command::new(&python);
    torch.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/arms.py"));
    let output = torch.args(ours.iter().map(|(.., case)| case)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (arm, step, case) in ours {
        let torch = candle_core::safetensors::load(case.join("torch.safetensors"), &Device::Cpu).unwrap();
        let reference = step.reference.as_ref().map(|all| all.concat());
        let reference = reference.map_or(0.0, |ours| far(&ours, &values(&torch["reference"])));
        let [theirs, terms] = ["loss", "terms"].map(|name| values(&torch[name])[0]);
        let loss = (step.loss - theirs).abs() / terms.max(1e-9);
        let mut gradient = (0.0, "");
        for (name, theirs) in &torch {
            let Some(name) = name.strip_prefix("gradient.") else { continue };
            let theirs = values(theirs);
            let ours = step.gradients.get(name).map_or_else(|| vec![0.0; theirs.len()], values);
            let off = ours.iter().zip(&theirs).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
            let away = off / values(&torch[&format!("size.{name}")])[0].max(1e-9);
            if away > gradient.0 {
                gradient = (away, name);
            }
        }
        println!(
            "{}: {} rollouts, {} passes, loss {:.6}: {loss:.1e} from torch, reference {reference:.1e}, gradients {:.1e} ({})",
            arm.name,
            step.rollouts.len(),
            step.passes.len(),
            step.loss,
            gradient.0,
            gradient.1,
        );
        assert!(loss.max(reference) <= TOLERANCE && gradient.0 <= GRADIENTS, "{}", arm.name);
    }
}
