//! Reinforcement learning with the suite's agent on generated videos: what is kept of a rollout, and that
//! a run that is stopped and resumed ends as one that was not.

use std::path::Path;
use std::sync::Arc;

use candle_core::Tensor;

use crate::common::runs::{files, fresh, log};
use paravt_nano::{RL_FILE, TrainingSizes, make_training, protocol, read_prompts};
use paravt_qwen_vl::engine::Options;
use paravt_qwen_vl::ops::Precision;
use paravt_suite::frames::{CachedFrames, FrameSource};
use paravt_train::example::Example;
use paravt_train::learner::Learner;
use paravt_train::objective::strategy::Strategy;
use paravt_train::objective::{Knobs, token_logprobs};
use paravt_train::optimizer::{AdamWConfig, Gradients};
use paravt_train::reward::{QuestionType, RewardConfig};
use paravt_train::rl::{self, RlConfig, RlTask};
use paravt_train::rollout::{RlPrompt, Roller, RolloutConfig, Semantics};
use paravt_train::seed::Seed;
use paravt_train::{Compute, start_rollouts};
use tokio::runtime::Runtime;

fn task(folder: &Path) -> RlTask {
    let sizes = TrainingSizes { videos: 2, rows: 4, prompts: 5, ..TrainingSizes::default() };
    make_training(folder, 3, &sizes).unwrap();
    let prompts = read_prompts(&folder.join(RL_FILE), folder).unwrap().into_iter().map(|prompt| RlPrompt {
        sample: prompt.sample,
        answer: prompt.answer,
        question: QuestionType::from_name(&prompt.question_type),
        duration: prompt.duration,
    });
    RlTask {
        prompts: prompts.collect(),
        protocol: Arc::new(protocol()),
        frames: Arc::new(CachedFrames::default()) as Arc<dyn FrameSource>,
        compute: Compute::cpu(),
    }
}

fn config() -> RlConfig {
    RlConfig {
        rollout: RolloutConfig {
            semantics: Semantics::Paper,
            group_size: 3,
            max_new_tokens: 12,
            frame_budgets: vec![4, 8],
            ..RolloutConfig::default()
        },
        optimizer: AdamWConfig { learning_rate: 1e-3, ..AdamWConfig::default() },
        steps: 3,
        prompts_per_step: 2,
        micro_batch_tokens: 400,
        save_every: 1,
        seed: 2,
        ..RlConfig::default()
    }
}

#[test]
fn reinforcement_learning_that_stops_ends_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (base, task) = (fresh(folder.path()), task(&folder.path().join("data")));
    let (whole, part) = (folder.path().join("whole"), folder.path().join("part"));
    rl::train(&base, &whole, &task, &config(), |_| {}).unwrap();
    let figures = log(&whole);
    assert_eq!(figures.len(), 3);
    for name in ["loss", "reward", "f_tau", "kappa", "entropy", "kl", "clip_fraction", "grad_norm", "turns"] {
        assert!(figures[0][name].as_f64().is_some_and(f64::is_finite), "{name}: {}", figures[0]);
    }
    // The first step is on the reference itself.
    assert!(figures[0]["kl"].as_f64().unwrap().abs() < 1e-4, "{}", figures[0]);
    assert!((figures[0]["behaviour_weight"].as_f64().unwrap() - 1.0).abs() < 1e-3, "{}", figures[0]);
    assert!(figures[0]["max_ratio_error"].as_f64().unwrap() < 1e-3, "{}", figures[0]);
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        rl::train(&base, &part, &task, &config(), |step| assert_ne!(step.step, 2))
    }));
    assert!(stopped.is_err());
    rl::train(&base, &part, &task, &config(), |_| {}).unwrap();
    assert_eq!(log(&part), log(&whole));
    assert_eq!(files(&part.join("final")), files(&whole.join("final")));
}

#[test]
fn pyvision_oversamples_until_enough_groups_spread() {
    let folder = tempfile::tempdir().unwrap();
    let (base, task) = (fresh(folder.path()), task(&folder.path().join("data")));
    let strategy = Strategy {
        gen_batch_size: 2,
        train_batch_size: 1,
        ppo_mini_batch_size: 1,
        n: 3,
        max_num_gen_batches: 2,
        ..Strategy::paper()
    };
    let objective = Knobs { strategy: Some(strategy), temperature: 0.7, ..Knobs::pyvision() };
    let config = RlConfig { objective, steps: 1, ..config() };
    // A fresh model is never right: no group spreads, and that is said.
    let error = rl::train(&base, &folder.path().join("out"), &task, &config, |_| {}).unwrap_err();
    assert!(error.to_string().contains("after 2 generation batches"), "{error}");
}

#[test]
fn a_frozen_vision_tower_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (base, task) = (fresh(folder.path()), task(&folder.path().join("data")));
    let train = |freeze: &str, out: &str| {
        let optimizer = AdamWConfig { freeze: vec![freeze.to_owned()], ..config().optimizer };
        let config = RlConfig { optimizer, steps: 1, ..config() };
        rl::train(&base, &folder.path().join(out), &task, &config, |_| {})
    };
    train("model.visual.", "out").unwrap();
    let read = |folder: &Path| {
        candle_core::safetensors::load(folder.join("model.safetensors"), &candle_core::Device::Cpu).unwrap()
    };
    let (before, after) = (read(&base), read(&folder.path().join("out/final")));
    assert_eq!(before.len(), after.len());
    let is_same = |name: &String| {
        let [before, after] = [&before, &after].map(|all| all[name].flatten_all().unwrap());
        before.to_vec1::<f32>().unwrap() == after.to_vec1::<f32>().unwrap()
    };
    let (frozen, trained): (Vec<&String>, Vec<&String>) =
        before.keys().partition(|name| name.starts_with("model.visual."));
    assert!(!frozen.is_empty() && frozen.into_iter().all(is_same));
    // A norm may stay: its weights are 1, its biases 0 and the steps small.
    assert!(trained.into_iter().any(|name| name.ends_with("proj.weight") && !is_same(name)));
    let error = train("model.vision.", "other").unwrap_err().to_string();
    assert!(error.starts_with("`optimizer.freeze` holds `model.vision.`"), "{error}");
}

/// A folder whose defaults leave one token to choose from: rollouts that took them would all be the same.
#[test]
fn rollouts_take_nothing_from_the_generation_config() {
    let folder = tempfile::tempdir().unwrap();
    let (base, task) = (fresh(folder.path()), task(&folder.path().join("data")));
    let path = base.join("generation_config.json");
    let mut defaults: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    (defaults["top_k"], defaults["top_p"]) = (1.into(), 0.01.into());
    defaults["repetition_penalty"] = 50.0.into();
    std::fs::write(&path, defaults.to_string()).unwrap();
    let learner = Learner::load(&base, &Compute::cpu()).unwrap();
    let roller = roller(&learner, &task);
    let prompts: Vec<&RlPrompt> = task.prompts.iter().take(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let group = runtime.block_on(roller.roll(&prompts, Seed::new("test", 7))).unwrap().remove(0);
    assert!(group.iter().any(|one| one.example.ids != group[0].example.ids), "the rollouts are all the same");
}

/// A fresh model repeats its last token at any usual temperature.
const TEMPERATURE: f64 = 10.0;

fn roller(learner: &Learner, task: &RlTask) -> Roller {
    let options = Options {
        precision: Precision::F32,
        tempered_logprobs: true,
        ..Options::new(learner.folder().to_owned())
    };
    Roller {
        engine: Arc::new(start_rollouts(options, &Compute::cpu(), learner.parameters()).unwrap()),
        protocol: Arc::clone(&task.protocol),
        frames: Arc::clone(&task.frames),
        config: RolloutConfig { temperature: TEMPERATURE, ..config().rollout },
        reward: RewardConfig::paragrpo(),
    }
}

/// A fresh model with its roller, in a folder of its own.
fn rolling(folder: &Path) -> (Learner, RlTask, Roller, Runtime) {
    let (base, task) = (fresh(folder), task(&folder.join("data")));
    let learner = Learner::load(&base, &Compute::cpu()).unwrap();
    let roller = roller(&learner, &task);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    (learner, task, roller, runtime)
}

/// What the rollouts of a prompt have in common is computed once, with the gradients of each alone.
#[test]
fn rollouts_of_a_prompt_share_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (learner, task, roller, runtime) = rolling(folder.path());
    let prompts: Vec<&RlPrompt> = task.prompts.iter().take(2).collect();
    let groups = runtime.block_on(roller.roll(&prompts, Seed::new("shared", 7))).unwrap();
    let all: Vec<&Example> = groups.iter().flatten().map(|one| &one.example).collect();
    assert!(all[1].in_common(all[0]) > all[0].media.last().unwrap().end());
    assert_eq!(all[3].in_common(all[0]).max(all[0].media[0].start()), all[0].media[0].start());
    // A weight of its own for each token, also one whose row is shared.
    let run = |batch: &[&Example], first: usize| {
        let loss = |logprobs: &Tensor, _: &Tensor| {
            let weights: Vec<f32> =
                (first..first + logprobs.elem_count()).map(|at| (at as f32).sin()).collect();
            let weights = Tensor::from_vec(weights, logprobs.shape(), logprobs.device())?;
            Ok(((logprobs * weights)?.sum_all()?, logprobs.to_vec1::<f32>()?))
        };
        learner.gradients(batch, TEMPERATURE, loss).unwrap()
    };
    let (together, _, found) = run(&all, 0);
    let (mut apart, mut alone) = (Gradients::default(), Vec::new());
    for one in &all {
        let (gradients, _, logprobs) = run(&[one], alone.len());
        apart.add(gradients).unwrap();
        alone.extend(logprobs);
    }
    assert!(found.iter().zip(&alone).all(|(found, alone)| (found - alone).abs() < 1e-5));
    for name in learner.parameters().all().keys() {
        let [together, apart] = [&together, &apart].map(|gradients| gradients.get(name).unwrap());
        let size = |x: &Tensor| x.sqr().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap().sqrt();
        assert!(size(&(together - apart).unwrap()) < 1e-5 * size(apart), "{name}");
    }
}

#[test]
fn log_probabilities_of_a_rollout_are_those_that_the_trainer_finds() {
    let folder = tempfile::tempdir().unwrap();
    let (learner, task, roller, runtime) = rolling(folder.path());
    let prompts: Vec<&RlPrompt> = task.prompts.iter().take(2).collect();
    let groups = runtime.block_on(roller.roll(&prompts, Seed::new("test", 7))).unwrap();
    assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
    for one in groups.iter().flatten() {
        assert_eq!((one.example.learned(), one.figures.frames <= 8), (one.behaviour.len(), true));
        let targets: Vec<u32> = one.example.targets().collect();
        let (found, _) =
            token_logprobs(&learner.logits(&[&one.example]).unwrap(), &targets, TEMPERATURE).unwrap();
        for (found, kept) in found.to_vec1::<f32>().unwrap().iter().zip(&one.behaviour) {
            assert!((found - kept).abs() < 1e-4, "{found} {kept}");
        }
    }
    // The same seed gives the same rollouts, another one others.
    let ids = |seed| -> Vec<Vec<u32>> {
        let groups = runtime.block_on(roller.roll(&prompts, seed)).unwrap();
        groups.into_iter().flatten().map(|one| one.example.ids).collect()
    };
    let seed = |number| Seed::new("test", number);
    assert_eq!(ids(seed(7)), ids(seed(7)));
    assert_ne!(ids(seed(7)), ids(seed(8)));
    // The same weights without gradients find the same.
    let scorer = learner.scorer().unwrap();
    let all: Vec<_> = groups.iter().flatten().map(|one| &one.example).collect();
    let found = scorer.logprobs(&all, TEMPERATURE).unwrap();
    let kept = groups.iter().flatten().flat_map(|one| one.behaviour.clone());
    for (found, kept) in found.iter().zip(kept) {
        assert!((found - kept).abs() < 1e-4, "{found} {kept}");
    }
}
