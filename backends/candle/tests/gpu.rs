//! What a GPU computes: by our CUDA kernels, against candle's operations in f32, the host's sampler, and transformers;
//! by candle's alone, against transformers.
//!
//! With the feature `cuda` on the first GPU, as `ci/gpu/bench` does with what `ci/gpu/pack` packs. Without it the text of our
//! kernels runs on the CPU, through the launches of a GPU.
#![allow(clippy::unwrap_used)]

#[cfg(not(feature = "cuda"))]
mod emulator;

use std::sync::LazyLock;

use candle_core::{DType, Device, Tensor};
use paravt_backend_candle::ComposedOps;
use paravt_backend_candle::fused::{AttentionPlan, Fused};
use paravt_qwen_vl::ops::{KvSource, Ops, Precision, Segment};
use paravt_qwen_vl::sampling::{Defaults, Sampler, log_probability};
use paravt_qwen_vl::testing::Reference;
use paravt_suite::backend::Generation;
use paravt_suite::settings::SamplingParams;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

#[cfg(feature = "cuda")]
static GPU: LazyLock<(Device, Fused)> = LazyLock::new(|| {
    let device = paravt_backend_candle::open(paravt_qwen_vl::ops::Device::Cuda(0)).unwrap();
    let kernels = paravt_backend_candle::fused(&device).unwrap().unwrap();
    (device, kernels)
});
#[cfg(not(feature = "cuda"))]
static GPU: LazyLock<(Device, Fused)> = LazyLock::new(|| (Device::Cpu, emulator::Emulator::start().1));

fn device() -> &'static Device {
    &GPU.0
}

fn kernels() -> &'static Fused {
    &GPU.1
}

fn plain() -> ComposedOps {
    ComposedOps::new(Device::Cpu, Precision::F32)
}

/// Values (n, ...) in bf16, from `before` columns on in rows that have so many more behind.
fn random(rng: &mut StdRng, shape: &[usize], [before, behind]: [usize; 2]) -> Tensor {
    let axis = if shape.len() == 1 { 0 } else { 1 };
    let mut whole = shape.to_vec();
    whole[axis] += before + behind;
    let values: Vec<f32> = (0..whole.iter().product()).map(|_| rng.random_range(-2.0..2.0)).collect();
    let whole = Tensor::from_vec(values, whole, device()).unwrap().to_dtype(DType::BF16).unwrap();
    whole.narrow(axis, before, shape[axis]).unwrap()
}

/// In f32 on the host.
fn wide(x: &Tensor) -> Tensor {
    x.to_device(&Device::Cpu).unwrap().to_dtype(DType::F32).unwrap()
}

/// Largest difference in units of 2^-8, relative to values above 1.
fn off(found: &Tensor, wanted: &Tensor) -> f32 {
    assert_eq!(found.dims(), wanted.dims());
    let values = |x: &Tensor| wide(x).flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let far = |(a, b): (f32, f32)| {
        assert!(a.is_finite(), "{a} for {b}");
        (a - b).abs() / b.abs().max(1.0) * 256.0
    };
    values(found).into_iter().zip(values(wanted)).map(far).fold(0.0, f32::max)
}

fn bits(x: &Tensor) -> Vec<u16> {
    x.flatten_all().unwrap().to_vec1::<half::bf16>().unwrap().into_iter().map(half::bf16::to_bits).collect()
}

#[test]
#[ignore = "needs a C++ compiler: run by ci/test"]
fn norms_rotation_and_gate_are_those_of_candle() {
    let (ops, mut rng) = (plain(), StdRng::seed_from_u64(1));
    for case in 0..40 {
        let (n, width) = (rng.random_range(1..6), 8 * rng.random_range(1..400));
        let weight = random(&mut rng, &[width], [0, 0]);
        let (x, y) = (random(&mut rng, &[n, width], [8, 16]), random(&mut rng, &[n, width], [0, 0]));
        let (sum, normed) = kernels().add_norm(&x, &y, &weight, 1e-6).unwrap();
        assert!(off(&sum, &(wide(&x) + wide(&y)).unwrap()) <= 1.0, "sum {case}");
        let wanted = ops.rms_norm(&wide(&sum), &wide(&weight), 1e-6).unwrap();
        assert!(off(&normed, &wanted) <= 1.0, "norm {case}: {}", off(&normed, &wanted));

        let (x, y) = (random(&mut rng, &[n, width], [0, width]), random(&mut rng, &[n, width], [width, 0]));
        let gated = kernels().gated(&x, &y).unwrap();
        assert!(off(&gated, &ops.gated(wide(&x), &wide(&y)).unwrap()) <= 1.0, "gate {case}");

        let bias = random(&mut rng, &[width], [0, 0]);
        let wanted = wide(&y).broadcast_add(&wide(&bias)).unwrap();
        let biased = kernels().add_bias(&y, &bias).unwrap();
        assert!(off(&biased, &wanted) <= 1.0, "bias {case}");

        let (heads, dim) = (rng.random_range(1..5), 8 * rng.random_range(1..17));
        let x = random(&mut rng, &[n, heads, dim], [1, 2]);
        let tables = (0..n * dim / 2).map(|_| rng.random_range(-7f32..7.0)).map(f32::sin_cos);
        let (sin, cos): (Vec<f32>, Vec<f32>) = tables.unzip();
        let table = |values| Tensor::from_vec(values, (n, dim / 2), &Device::Cpu).unwrap();
        let tables = (table(cos), table(sin));
        let [own_cos, own_sin] = [&tables.0, &tables.1].map(|table| table.to_device(device()).unwrap());
        let weight = random(&mut rng, &[dim], [0, 0]);
        for norm in [None, Some(&weight)] {
            let found =
                kernels().norm_rotate(&x, norm.map(|weight| (weight, 1e-6)), &own_cos, &own_sin).unwrap();
            let weight = norm.map(wide);
            let wanted = ops.norm_rotate(wide(&x), weight.as_ref().map(|weight| (weight, 1e-6)), &tables);
            // Rounded between the two.
            let off = off(&found, &wanted.unwrap());
            assert!(off <= if norm.is_some() { 4.0 } else { 1.0 }, "rotation {case}: {off}");
        }
    }
}

#[test]
#[ignore = "needs a C++ compiler: run by ci/test"]
fn attention_is_that_of_candle_whatever_the_order_of_threads() {
    let mut rng = StdRng::seed_from_u64(2);
    for case in 0..39 {
        let dim = [64, 72, 80, 128, 8, 104][case % 6];
        let (key_heads, group) = (rng.random_range(1..3), [1, 2, 4, 7][rng.random_range(0..4)]);
        let heads = key_heads * group;
        let (causal, cached) = (rng.random(), rng.random());
        // Some as of decoded tokens, which share keys among blocks; some as of prompts and frames.
        let (queries, keys) = [(1, 900), (40, 100), (90, 1)][case % 3];
        let mut segments: Vec<Segment> = (0..rng.random_range(1..4))
            .map(|_| {
                let queries = rng.random_range(1..=queries);
                Segment { queries, keys: queries + rng.random_range(0..keys) }
            })
            .collect();
        if case >= 36 {
            // After the many frames of a long prompt.
            segments = vec![Segment { queries: [1, 3, 9][case % 3], keys: 20_000 }];
        }
        let sum = |of: fn(&Segment) -> usize| segments.iter().map(of).sum::<usize>();
        let (n, m) = (sum(|segment| segment.queries), sum(|segment| segment.keys));
        let q = random(&mut rng, &[n, heads, dim], [heads, key_heads]);
        let k = random(&mut rng, &[m, key_heads, dim], [0, 0]);
        let v = random(&mut rng, &[m, key_heads, dim], [0, key_heads]);
        let starts = segments.iter().scan(0, |end, segment| {
            *end += segment.keys;
            Some((*end - segment.keys, segment.keys))
        });
        let part = |x: &Tensor, (start, length)| x.narrow(0, start, length).unwrap();
        let caches: Vec<_> = starts.map(|at| (part(&k, at), part(&v, at))).collect();
        let source = if cached { KvSource::Cached(&caches) } else { KvSource::Packed(&k, &v) };
        let plan = AttentionPlan::new(&segments, causal, device()).unwrap();
        let found = kernels().attention(&q, source, &plan).unwrap();
        let ops = plain();
        let plan_of_candle = ops.plan(&segments, causal).unwrap();
        let wanted =
            ops.attention(&wide(&q), KvSource::Packed(&wide(&k), &wide(&v)), &plan_of_candle).unwrap();
        let far = off(&found, &wanted);
        println!(
            "{segments:?} heads {heads}/{key_heads} of {dim}, causal {causal}, cached {cached}: {far:.2}"
        );
        assert!(far <= 2.0, "{case}: {far}");
        let source = if cached { KvSource::Cached(&caches) } else { KvSource::Packed(&k, &v) };
        assert_eq!(bits(&found), bits(&kernels().attention(&q, source, &plan).unwrap()), "{case}");
    }
}

#[test]
#[ignore = "needs a C++ compiler: run by ci/test"]
fn tokens_are_those_that_the_host_draws() {
    let mut rng = StdRng::seed_from_u64(3);
    let defaults = Defaults { stop: vec![], repetition_penalty: 1.0, top_p: 1.0, top_k: 0 };
    for case in 0..24 {
        let (rows, width) = (rng.random_range(1..4), rng.random_range(30..5000));
        let spread = [0.5, 4.0, 20.0][case % 3];
        let logits: Vec<f32> = (0..rows * width).map(|_| rng.random_range(-spread..spread)).collect();
        let logits = Tensor::from_vec(logits, (rows, width), device()).unwrap();
        let logits = logits.to_dtype(DType::BF16).unwrap();
        let mut samplers: Vec<Sampler> = (0..rows)
            .map(|_| {
                let generation = Generation {
                    temperature: [0.0, 0.3, 1.0, 1.7][rng.random_range(0..4)],
                    sampling: SamplingParams {
                        top_k: [None, Some(1), Some(20), Some(9000)][rng.random_range(0..4)],
                        top_p: [None, Some(0.8), Some(0.05), Some(0.0)][rng.random_range(0..4)],
                        ..SamplingParams::default()
                    },
                    seed: Some(rng.random()),
                    ..Generation::greedy(1)
                };
                Sampler::new(&generation, &defaults).unwrap()
            })
            .collect();
        let draws: Vec<_> = samplers.iter().map(|sampler| sampler.draw().unwrap()).collect();
        let found = kernels().sample(&logits, &draws).unwrap().unwrap();
        let rows: Vec<Vec<f32>> = wide(&logits).to_vec2().unwrap();
        for (number, ((id, logprob), logits)) in found.into_iter().zip(&rows).enumerate() {
            assert_eq!(id, samplers[number].next(logits, &[], 0).unwrap(), "{case}: {:?}", draws[number]);
            let wanted = log_probability(logits, id, 1.0).unwrap();
            assert!((logprob - wanted).abs() <= 1e-5, "{case}: {logprob}, {wanted}");
        }
    }
    let draw = Sampler::new(&Generation::greedy(1), &defaults).unwrap().draw().unwrap();
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let logits = Tensor::new(&[[1.0, wrong, 2.0]], device()).unwrap().to_dtype(DType::BF16).unwrap();
        assert!(kernels().sample(&logits, &[draw]).unwrap().is_none(), "{wrong}");
    }
}

#[test]
#[ignore = "needs Python and a C++ compiler: run by ci/test"]
fn models_by_our_kernels_are_those_of_transformers() {
    let ours = || ComposedOps::new(device().clone(), Precision::Bf16).with_fused(Some(kernels().clone()));
    Reference::record(env!("CARGO_TARGET_TMPDIR")).compare_bf16(1.2, ours);
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn models_by_candles_operations_are_those_of_transformers() {
    let reference = Reference::record(env!("CARGO_TARGET_TMPDIR"));
    // With the scores of some queries at a time. In bf16 they are rounded before the softmax.
    let composed = |precision| ComposedOps::new(device().clone(), precision).with_scores(1 << 12);
    reference.compare(move || composed(Precision::F32));
    reference.compare_bf16(1.2, || composed(Precision::Bf16));
}
