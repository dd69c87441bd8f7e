//! AdamW beside torch's, with a weight that first gets a gradient late, and with a state that was saved in between.
//!
//! Needs the Python that `ci/setup` installs (`PARAVT_PYTHON`).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use candle_core::{Device, Tensor, Var};
use paravt_train::Parameter;
use paravt_train::optimizer::{AdamW, AdamWConfig, Gradients};
use paravt_train::seed::Seed;
use rand::Rng as _;

const NAMES: [&str; 2] = ["a", "late"];
/// The step in which the second weight gets its first gradient, counted from 1.
const FIRST: usize = 1001;
const STEPS: usize = 1004;

fn weights(start: &[Vec<f32>]) -> BTreeMap<String, Parameter> {
    let weight = |(name, values): (&&str, &Vec<f32>)| {
        let tensor = Tensor::from_slice(values, values.len(), &Device::Cpu).unwrap();
        let parameter = Parameter::new(Var::from_tensor(&tensor).unwrap(), vec![values.len()]);
        ((*name).to_owned(), parameter)
    };
    NAMES.iter().zip(start).map(weight).collect()
}

fn torch(case: &serde_json::Value) -> Vec<Vec<f32>> {
    let python = std::env::var_os("PARAVT_PYTHON").expect("PARAVT_PYTHON: run ci/setup, then ci/test");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/optimizer.py");
    let mut child =
        Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(case.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_weight_that_first_gets_a_gradient_late_moves_as_in_torch() {
    let mut rng = Seed::new("test", 11).rng();
    let mut draw = |spread: f32| -> Vec<f32> { (0..5).map(|_| rng.random_range(-spread..spread)).collect() };
    let start = vec![draw(1.0), draw(1.0)];
    let gradients: Vec<[Option<Vec<f32>>; 2]> =
        (1..=STEPS).map(|step| [Some(draw(0.5)), (step >= FIRST).then(|| draw(0.5))]).collect();
    let config = AdamWConfig { learning_rate: 1e-2, ..AdamWConfig::default() };
    let wanted = torch(&serde_json::json!({
        "start": start, "gradients": gradients, "learning_rate": config.learning_rate, "beta1": config.beta1,
        "beta2": config.beta2, "eps": config.eps, "weight_decay": config.weight_decay,
        "max_grad_norm": config.max_grad_norm,
    }));

    let named = weights(&start);
    let mut optimizer = AdamW::new(config.clone(), named.clone());
    for (step, gradients) in gradients.iter().enumerate() {
        // Saved and loaded before the late weight's second step.
        if step == FIRST {
            let state = optimizer.state().unwrap();
            optimizer = AdamW::new(config.clone(), named.clone());
            optimizer.restore(state).unwrap();
            assert_eq!(optimizer.steps(), FIRST);
        }
        let given = NAMES.iter().zip(gradients).filter_map(|(name, gradient)| {
            let gradient = Tensor::from_slice(gradient.as_ref()?, 5, &Device::Cpu).unwrap();
            Some(((*name).to_owned(), gradient))
        });
        optimizer.step(&given.collect::<Gradients>(), 1.0).unwrap();
    }
    for ((name, start), wanted) in NAMES.iter().zip(&start).zip(&wanted) {
        let found = named[*name].var.to_vec1::<f32>().unwrap();
        for ((start, found), wanted) in start.iter().zip(found).zip(wanted) {
            let moved = (wanted - start).abs();
            assert!((found - wanted).abs() <= 1e-4 * moved.max(1e-3), "{name}: {found}, torch {wanted}");
        }
    }

    // As a version without steps by weight saved it.
    let mut state = optimizer.state().unwrap();
    state.remove("late.steps");
    let error = AdamW::new(config, named).restore(state).unwrap_err().to_string();
    assert!(error.contains("`late.steps`") && error.contains("start over"), "{error}");
}

#[test]
fn the_norm_of_many_gradients_is_summed_in_f64() {
    // 2^24 ones and as many values that an f32 sum of squares would lose.
    let (large, small) = (1.0f32, 1e-4f32);
    let count = (1 << 22) + 3;
    let values: Vec<f32> = (0..count).map(|place| if place == 0 { 3000.0 * large } else { small }).collect();
    let exact = (9e6 + (count - 1) as f64 * f64::from(small).powi(2)).sqrt();
    let tensor = Tensor::from_vec(values, count, &Device::Cpu).unwrap();
    let norm = [("a".to_owned(), tensor)].into_iter().collect::<Gradients>().norm().unwrap();
    assert!((norm - exact).abs() < 1e-9 * exact, "{norm} {exact}");
}

#[test]
fn a_frozen_weight_neither_moves_nor_counts_in_the_norm() {
    let start = vec![vec![1.0, 2.0], vec![3.0, 4.0]];
    let named = weights(&start);
    let config = AdamWConfig { freeze: vec!["la".to_owned()], ..AdamWConfig::default() };
    let mut optimizer = AdamW::new(AdamWConfig { learning_rate: 0.5, ..config }, named.clone());
    assert_eq!(optimizer.weights().keys().collect::<Vec<_>>(), ["a"]);
    let gradient = |values: [f32; 2]| Tensor::new(&values, &Device::Cpu).unwrap();
    let gradients: Gradients =
        [("a".to_owned(), gradient([3.0, 4.0])), ("late".to_owned(), gradient([12.0, 0.0]))]
            .into_iter()
            .collect();
    assert_eq!(optimizer.step(&gradients, 1.0).unwrap(), 5.0, "without the 12 of the frozen weight");
    let values = |name: &str| named[name].var.to_vec1::<f32>().unwrap();
    assert_eq!(values("late"), [3.0, 4.0], "it does not decay either");
    assert_ne!(values("a"), [1.0, 2.0]);
    assert!(optimizer.state().unwrap().keys().all(|name| !name.starts_with("late")));
}

/// Why the released trainers, which keep everything in bfloat16, move few weights.
#[test]
fn a_step_of_the_recipes_is_lost_in_bfloat16() {
    let bf16 = |value: f32| half::bf16::from_f32(value);
    for (rate, largest) in [(2e-5, 0.0079), (2e-6, 0.00099)] {
        assert_eq!(bf16(bf16(largest).to_f32() - rate), bf16(largest), "the step");
        assert_ne!(bf16(bf16(largest / 4.0).to_f32() - rate), bf16(largest / 4.0));
        assert_eq!(bf16(3.0 * (1.0 - rate * 0.01)), bf16(3.0), "the decay of the weight");
    }
    assert_eq!(bf16(0.7 * 0.999), bf16(0.7), "the decay of the second moment");
}
