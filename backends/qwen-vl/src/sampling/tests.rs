use serde_json::json;

use super::*;

fn sampler(temperature: f64, top_p: f64, top_k: usize, penalty: f32) -> Sampler {
    let rng = ChaCha12Rng::seed_from_u64(1);
    Sampler { temperature, top_p, top_k, repetition_penalty: penalty, presence_penalty: 0.0, rng }
}

#[test]
fn greedy_takes_the_first_of_the_largest_and_heeds_the_penalty() {
    let logits = [1.0, 3.0, 3.0, -1.0];
    assert_eq!(sampler(0.0, 1.0, 0, 1.0).next(&logits, &[], 0).unwrap(), 1);
    assert_eq!(sampler(0.0, 1.0, 0, 1.1).next(&logits, &[1, 1], 0).unwrap(), 2);
    // Beyond the logits: a tokenizer's token that the model does not have.
    assert_eq!(sampler(0.0, 1.0, 0, 1.1).next(&logits, &[9], 0).unwrap(), 1);
    assert_eq!(penalise(&logits, (&[1, 1, 3], 2.0), (&[], 0.0)), vec![1.0, 1.5, 3.0, -2.0]);
}

/// vLLM's `apply_penalties`: what the prompt holds is not penalised, what the answer holds once, after the other penalty.
#[test]
fn the_presence_penalty_is_of_the_answer_alone() {
    let logits = [1.0, 3.0, 2.5, -1.0];
    let mut sampler = Sampler { presence_penalty: 1.0, ..sampler(0.0, 1.0, 0, 1.0) };
    assert!(sampler.draw().is_none(), "a device knows nothing of the answer");
    assert_eq!(sampler.next(&logits, &[1, 1], 0).unwrap(), 1);
    assert_eq!(sampler.next(&logits, &[1, 1], 1).unwrap(), 2);
    let both = penalise(&logits, (&[0, 1, 3, 1], 2.0), (&[3, 1, 9], 0.5));
    assert_eq!(both, vec![0.5, 1.0, 2.5, -2.5]);
}

#[test]
fn a_seed_draws_the_same_tokens_with_every_version_of_the_suite() {
    let mut sampler = sampler(1.0, 1.0, 0, 1.0);
    let logits = vec![0.0; 1000];
    let tokens: Vec<u32> = (0..6).map(|_| sampler.next(&logits, &[], 0).unwrap()).collect();
    assert_eq!(tokens, [974, 691, 427, 175, 254, 962]);
}

/// As the definition has it: all sorted, all weighed, the nucleus cut, one drawn.
fn by_definition(sampler: &mut Sampler, logits: &[f32]) -> u32 {
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
    order.truncate(if sampler.top_k == 0 { logits.len() } else { sampler.top_k });
    let largest = logits[order[0] as usize];
    let weight = |id: &u32| (f64::from(logits[*id as usize] - largest) / sampler.temperature).exp();
    let mut weights: Vec<f64> = order.iter().map(weight).collect();
    let all: f64 = weights.iter().sum();
    let mut held = 0.0;
    let within = weights.iter().position(|weight| {
        held += weight / all;
        held >= sampler.top_p
    });
    weights.truncate(within.filter(|_| sampler.top_p < 1.0).map_or(weights.len(), |last| last + 1));
    let mut left = sampler.rng.random::<f64>() * weights.iter().sum::<f64>();
    let drawn = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    order[drawn.unwrap_or(weights.len() - 1)]
}

#[test]
fn what_is_drawn_without_sorting_all_is_what_the_definition_draws() {
    let mut rng = ChaCha12Rng::seed_from_u64(5);
    for spread in [0.0f32, 0.1, 4.0, 40.0] {
        // Many equal ones, as in bf16.
        let logits: Vec<f32> =
            (0..5000).map(|_| (rng.random::<f32>() * spread * 16.0).round() / 16.0).collect();
        for (temperature, top_p, top_k) in
            [(1.0, 1.0, 0), (0.7, 1.0, 0), (1.0, 0.9, 0), (1.0, 0.9, 50), (2.0, 1.0, 20), (1.0, 0.1, 9000)]
        {
            let (mut one, mut other) =
                (sampler(temperature, top_p, top_k, 1.0), sampler(temperature, top_p, top_k, 1.0));
            for _ in 0..40 {
                let found = one.next(&logits, &[], 0).unwrap();
                assert_eq!(found, by_definition(&mut other, &logits), "{temperature} {top_p} {top_k}");
            }
        }
    }
}

#[test]
fn sampling_follows_the_probabilities_within_nucleus_and_top_k() {
    let logits = [0.7f32.ln(), 0.2f32.ln(), 0.1f32.ln()];
    let shares = |mut sampler: Sampler| {
        let mut counts = [0.0; 3];
        for _ in 0..20_000 {
            counts[sampler.next(&logits, &[], 0).unwrap() as usize] += 1.0 / 20_000.0;
        }
        counts
    };
    let near = |found: [f64; 3], wanted: [f64; 3]| {
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 0.015), "{found:?} {wanted:?}");
    };
    near(shares(sampler(1.0, 1.0, 0, 1.0)), [0.7, 0.2, 0.1]);
    near(shares(sampler(1.0, 0.8, 0, 1.0)), [0.7 / 0.9, 0.2 / 0.9, 0.0]);
    near(shares(sampler(1.0, 1.0, 1, 1.0)), [1.0, 0.0, 0.0]);
    // Temperature 2 takes square roots.
    let roots = [0.7f64.sqrt(), 0.2f64.sqrt(), 0.1f64.sqrt()];
    let all: f64 = roots.iter().sum();
    near(shares(sampler(2.0, 1.0, 0, 1.0)), roots.map(|root| root / all));
}

#[test]
fn log_probabilities_are_of_the_softmax() {
    let logits = [0.5f32, -0.25, 3.0];
    let all: f32 = logits.iter().map(|logit| logit.exp()).sum();
    assert!((log_probability(&logits, 0, 1.0).unwrap() - (0.5f32.exp() / all).ln()).abs() < 1e-6);
}

#[test]
fn logits_that_are_not_finite_are_errors_and_never_a_token() {
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in 0..3 {
            let mut logits = [0.5f32, -0.25, 3.0];
            logits[at] = wrong;
            for mut sampler in
                [sampler(0.0, 1.0, 0, 1.0), sampler(1.0, 0.9, 2, 1.0), sampler(0.7, 1.0, 0, 1.2)]
            {
                let error = sampler.next(&logits, &[0], 0).unwrap_err().to_string();
                assert!(error.contains(&format!("token {at} is {wrong}")), "{error}");
            }
        }
        assert!(log_probability(&[wrong, 1.0], 0, 1.0).is_err(), "{wrong}");
    }
    // A NaN beside the token whose probability is asked for.
    assert!(log_probability(&[0.0, f32::NAN], 0, 1.0).is_err());
    assert!(sampler(0.0, 1.0, 0, 1.0).next(&[], &[], 0).is_err());
    assert!(sampler(1.0, 1.0, 0, 1.0).next(&[f32::NAN; 4], &[], 0).is_err());
}

#[test]
fn request_settings_override_the_generation_config() {
    let defaults = Defaults { stop: vec![9], repetition_penalty: 1.5, top_p: 0.5, top_k: 1 };
    let silent = Generation { temperature: 1.0, ..Generation::greedy(1) };
    let found = |generation: &Generation, defaults: &Defaults| {
        let Sampler { top_p, top_k, repetition_penalty, .. } = Sampler::new(generation, defaults).unwrap();
        (top_p, top_k, repetition_penalty)
    };
    assert_eq!(found(&silent, &defaults), (0.5, 1, 1.5));
    assert_eq!(found(&silent, &defaults.clone().neutral()), (1.0, 0, 1.0));
    assert_eq!(defaults.clone().neutral().stop, [9]);
    let with = |sampling| Generation { sampling, ..silent.clone() };
    let unset = SamplingParams::default();
    let spoken = with(SamplingParams { top_p: Some(0.9), ..SamplingParams::neutral() });
    assert_eq!(found(&spoken, &defaults), (0.9, 0, 1.0));
    for wrong in [
        Generation { temperature: f64::NAN, ..silent.clone() },
        Generation { temperature: -1.0, ..silent.clone() },
        with(SamplingParams { top_p: Some(1.5), ..unset.clone() }),
        with(SamplingParams { repetition_penalty: Some(0.0), ..unset }),
    ] {
        assert!(Sampler::new(&wrong, &defaults).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_generation_config_with_values_that_mean_nothing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, json: Value| std::fs::write(folder.path().join(name), json.to_string()).unwrap();
    write("config.json", json!({"eos_token_id": 3}));
    let read = || Defaults::read(folder.path()).map_err(|error| error.to_string());
    assert_eq!(read().unwrap(), Defaults { stop: vec![3], repetition_penalty: 1.0, top_p: 1.0, top_k: 0 });
    write("generation_config.json", json!({"top_p": 0.8, "top_k": -1, "eos_token_id": [1, 2]}));
    assert_eq!(read().unwrap(), Defaults { stop: vec![1, 2], repetition_penalty: 1.0, top_p: 0.8, top_k: 0 });
    for (key, value) in [
        ("top_p", json!("0.8")),
        ("top_p", json!(1.5)),
        ("top_k", json!(-7)),
        ("repetition_penalty", json!(0)),
        ("eos_token_id", json!(["</s>"])),
        ("eos_token_id", json!(-1)),
    ] {
        write("generation_config.json", json!({key: value}));
        let error = read().unwrap_err();
        assert!(error.contains(key) && error.contains("generation_config.json"), "{error}");
    }
}

#[test]
fn a_token_that_the_device_draws_uses_up_the_same_random_number() {
    let logits: Vec<f32> = (0..50).map(|id| (id as f32).sin()).collect();
    for temperature in [0.0, 1.0] {
        let (mut host, mut device) = (sampler(temperature, 0.9, 10, 1.0), sampler(temperature, 0.9, 10, 1.0));
        for _ in 0..4 {
            assert_eq!(host.draw(), device.draw());
            host.next(&logits, &[], 0).unwrap();
            device.drawn();
        }
    }
    // What was said before matters: the host draws.
    assert!(sampler(1.0, 0.9, 10, 1.1).draw().is_none());
}
