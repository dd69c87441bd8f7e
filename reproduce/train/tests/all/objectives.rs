//! The same advantages, losses and gradients as torch computes by the formulas.
//!
//! Needs the Python that `ci/setup` installs (`PARAVT_PYTHON`).

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::{Rollout, error, flat, host_loss, objectives, rollouts};
use candle_core::{Device, Tensor, Var};
use paravt_train::objective::{
    Knobs, Loss, Sequence, Tokens, advantages, cross_entropy, policy_loss, token_logprobs,
};
use paravt_train::seed::{ChaCha8Rng, Seed};
use rand::Rng as _;
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Softmax {
    logits: Vec<Vec<f32>>,
    targets: Vec<u32>,
    temperature: f64,
    by_logprob: Vec<f32>,
    by_entropy: Vec<f32>,
}

#[derive(Serialize)]
struct Chain {
    knobs: Knobs,
    logits: Vec<Vec<f32>>,
    targets: Vec<u32>,
    advantages: Vec<f64>,
    prox: Vec<f64>,
    behaviour: Vec<f64>,
}

#[derive(Serialize)]
struct Batch {
    knobs: Knobs,
    sequences: Vec<Rollout>,
}

#[derive(Serialize)]
struct Cases {
    batches: Vec<Batch>,
    softmax: Vec<Softmax>,
    chains: Vec<Chain>,
}

#[derive(Deserialize)]
struct BatchResult {
    scaled: Vec<f64>,
    normalised: Vec<f64>,
    raw: Vec<Vec<f64>>,
    tokens: Vec<Vec<f64>>,
    kl_mean: f64,
    loss: f64,
    gradient: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct SoftmaxResult {
    logprobs: Vec<f64>,
    entropy: Vec<f64>,
    gradient: Vec<Vec<f64>>,
    cross_entropy: f64,
    cross_entropy_gradient: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct ChainResult {
    loss: f64,
    gradient: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct Results {
    batches: Vec<BatchResult>,
    softmax: Vec<SoftmaxResult>,
    chains: Vec<ChainResult>,
}

fn torch(cases: &Cases) -> Results {
    let python =
        std::env::var("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
    let mut child = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/objectives.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    serde_json::to_writer(child.stdin.as_mut().unwrap(), cases).unwrap();
    child.stdin.take().unwrap().flush().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn logits(rng: &mut ChaCha8Rng, n: usize, vocab: usize, spread: f32) -> Vec<Vec<f32>> {
    let row = |rng: &mut ChaCha8Rng| (0..vocab).map(|_| rng.random_range(-spread..spread)).collect();
    (0..n).map(|_| row(rng)).collect()
}

fn cases() -> Cases {
    let objectives = objectives();
    let batch = |seed: u64| Batch {
        knobs: objectives[seed as usize % objectives.len()].clone(),
        sequences: rollouts(seed, 1 + seed as usize % 3, 2 + seed as usize % 7),
    };
    let mut rng = Seed::new("test", 5).rng();
    let mut softmax = Vec::new();
    let mut chains = Vec::new();
    for (n, vocab, spread) in [(1, 2, 1.0), (7, 33, 5.0), (24, 257, 12.0), (5, 4_099, 30.0)] {
        let targets: Vec<u32> = (0..n).map(|_| rng.random_range(0..vocab as u32)).collect();
        for knobs in &objectives {
            let mut numbers =
                |low: f64, high: f64| -> Vec<f64> { (0..n).map(|_| rng.random_range(low..high)).collect() };
            let (by_logprob, by_entropy) = (numbers(-2.0, 2.0), numbers(-1.0, 1.0));
            let (advantages, offsets, behind) = (numbers(-3.0, 3.0), numbers(-0.6, 0.6), numbers(-2.0, 2.0));
            let logits = logits(&mut rng, n, vocab, spread);
            let narrow = |values: Vec<f64>| values.into_iter().map(|value| value as f32).collect();
            // Near the new log-probabilities, or every token would be clipped.
            let tensor = Tensor::new(logits.clone(), &Device::Cpu).unwrap();
            let new =
                token_logprobs(&tensor, &targets, knobs.temperature).unwrap().0.to_vec1::<f32>().unwrap();
            let prox: Vec<f64> =
                new.iter().zip(offsets).map(|(&new, offset)| f64::from(new) + offset).collect();
            let behaviour = prox.iter().zip(behind).map(|(prox, behind)| prox + behind).collect();
            softmax.push(Softmax {
                logits: logits.clone(),
                targets: targets.clone(),
                temperature: knobs.temperature,
                by_logprob: narrow(by_logprob),
                by_entropy: narrow(by_entropy),
            });
            chains.push(Chain {
                knobs: knobs.clone(),
                logits,
                targets: targets.clone(),
                advantages,
                prox,
                behaviour,
            });
        }
    }
    Cases { batches: (0..60).map(batch).collect(), softmax, chains }
}

fn check_batch(case: &Batch, wanted: &BatchResult) {
    let batch: Vec<Sequence<'_>> = case.sequences.iter().map(Rollout::sequence).collect();
    let made = advantages(&batch, &case.knobs).unwrap();
    let (loss, _, gradient) = host_loss(&case.sequences, &case.knobs, 1);
    let errors = [
        error(made.scaled, wanted.scaled.clone()),
        error(made.normalised, wanted.normalised.clone()),
        error(flat(&made.raw), flat(&wanted.raw)),
        error(flat(&made.tokens), flat(&wanted.tokens)),
        error([made.kl_mean], [wanted.kl_mean]),
        error([loss], [wanted.loss]),
        error(flat(&gradient), flat(&wanted.gradient)),
    ];
    assert!(errors.iter().all(|&error| error <= 1e-9), "{errors:?} {:?}", case.knobs);
}

fn check_softmax(case: &Softmax, wanted: &SoftmaxResult) -> f64 {
    let logits = Var::new(case.logits.clone(), &Device::Cpu).unwrap();
    let weights = |values: &[f32]| Tensor::new(values, &Device::Cpu).unwrap();
    let (logprobs, entropy) = token_logprobs(&logits, &case.targets, case.temperature).unwrap();
    let sum = (logprobs.clone() * weights(&case.by_logprob)).unwrap().sum_all().unwrap();
    let sum = (sum + (&entropy * weights(&case.by_entropy)).unwrap().sum_all().unwrap()).unwrap();
    let gradient = |of: &Tensor| of.backward().unwrap().get(&logits).unwrap().to_vec2::<f32>().unwrap();
    let values = |of: &Tensor| of.to_vec1::<f32>().unwrap().into_iter().map(f64::from).collect::<Vec<_>>();
    let supervised = cross_entropy(&logits, &case.targets).unwrap();
    let errors = [
        error(values(&logprobs), wanted.logprobs.clone()),
        error(values(&entropy), wanted.entropy.clone()),
        error(flat(&gradient(&sum)), flat(&wanted.gradient)),
        error([f64::from(supervised.to_scalar::<f32>().unwrap())], [wanted.cross_entropy]),
        error(flat(&gradient(&supervised)), flat(&wanted.cross_entropy_gradient)),
    ];
    assert!(errors.iter().all(|&error| error <= 1e-5), "{errors:?}");
    errors.into_iter().fold(0.0, f64::max)
}

fn check_chain(case: &Chain, wanted: &ChainResult) -> f64 {
    let logits = Var::new(case.logits.clone(), &Device::Cpu).unwrap();
    let (new, _) = token_logprobs(&logits, &case.targets, case.knobs.temperature).unwrap();
    let tokens = Tokens { advantages: &case.advantages, prox: &case.prox, behaviour: &case.behaviour };
    let (loss, sums) = policy_loss(&new, &tokens, &case.knobs).unwrap();
    let n = case.targets.len();
    let loss = (loss * case.knobs.scale(n, n, 1)).unwrap();
    let gradient = loss.backward().unwrap().get(&logits).unwrap().to_vec2::<f32>().unwrap();
    let value = f64::from(loss.to_scalar::<f32>().unwrap());
    assert!((value - sums.mean(sums.sum)).abs() <= 1e-6 * value.abs().max(1e-3));
    // The mean of a few tokens of either sign may be small beside them.
    let value = (value - wanted.loss).abs() / wanted.loss.abs().max(0.1);
    let errors = [value, error(flat(&gradient), flat(&wanted.gradient))];
    assert!(errors.iter().all(|&error| error <= 1e-4), "{errors:?} {:?}", case.knobs);
    errors.into_iter().fold(0.0, f64::max)
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn objective_values_and_gradients_equal_torchs() {
    let cases = cases();
    let results = torch(&cases);
    assert_eq!(results.batches.len(), 60);
    cases.batches.iter().zip(&results.batches).for_each(|(case, wanted)| check_batch(case, wanted));
    let most = |errors: &mut dyn Iterator<Item = f64>| errors.fold(0.0, f64::max);
    let softmax =
        most(&mut cases.softmax.iter().zip(&results.softmax).map(|(case, of)| check_softmax(case, of)));
    let chains = most(&mut cases.chains.iter().zip(&results.chains).map(|(case, of)| check_chain(case, of)));
    println!("largest relative errors: log-probabilities {softmax:.1e}, losses by logits {chains:.1e}");
}

#[test]
fn the_cases_reach_every_branch() {
    let mut sums = Loss::default();
    let mut unrewarded = 0;
    for case in cases().batches {
        sums += host_loss(&case.sequences, &case.knobs, 1).1;
        let batch: Vec<Sequence<'_>> = case.sequences.iter().map(Rollout::sequence).collect();
        unrewarded += advantages(&batch, &case.knobs).unwrap().unrewarded;
    }
    let counts = [sums.clipped, sums.dual_clipped, sums.dropped, unrewarded];
    assert!(counts.iter().all(|&count| count > 20), "{counts:?} of {}", sums.tokens);
}
