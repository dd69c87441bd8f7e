//! Attention of packed sequences: our kernels, candle's operations part by part, and the CPU attention that candle-nn has
//! for the same `cu_seqlens`, all on the same plan.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;

use candle_core::{Device, Tensor};
use candle_nn::attention::flash_attn_varlen_cpu;
use paravt_backend_candle::tensor;
use paravt_backend_candle::{ComposedOps, CpuOps};
use paravt_qwen_vl::ops::{KvSource, Ops, Precision, Segment};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// q, k and v of all segments, one after the other.
struct Packed {
    segments: Vec<Segment>,
    causal: bool,
    sides: [Tensor; 3],
}

impl Packed {
    fn random(
        [heads, key_heads, dim]: [usize; 3],
        segments: &[(usize, usize)],
        causal: bool,
        seed: u64,
    ) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let (queries, keys) = segments.iter().fold((0, 0), |(n, m), one| (n + one.0, m + one.1));
        let sides = [(queries, heads), (keys, key_heads), (keys, key_heads)].map(|(rows, heads)| {
            let values: Vec<f32> = (0..rows * heads * dim).map(|_| rng.random_range(-2.0..2.0)).collect();
            Tensor::from_vec(values, (rows, heads, dim), &Device::Cpu).unwrap()
        });
        let segments = segments.iter().map(|&(queries, keys)| Segment { queries, keys }).collect();
        Self { segments, causal, sides }
    }

    fn by<O: Ops<Tensor = Tensor>>(&self, ops: &O, cached: bool) -> Tensor {
        let [q, k, v] = &self.sides;
        let plan = ops.plan(&self.segments, self.causal).unwrap();
        if !cached {
            return ops.attention(q, KvSource::Packed(k, v), &plan).unwrap();
        }
        let starts = self.segments.iter().scan(0, |start, segment| {
            *start += segment.keys;
            Some((*start - segment.keys, segment.keys))
        });
        let part = |x: &Tensor, (start, length)| x.narrow(0, start, length).unwrap();
        let caches: Vec<_> = starts.map(|at| (part(k, at), part(v, at))).collect();
        ops.attention(q, KvSource::Cached(&caches), &plan).unwrap()
    }

    /// By candle-nn, from the lengths that a varlen kernel is given.
    fn by_candle_nn(&self) -> Tensor {
        let [q, k, v] = &self.sides;
        let lengths = |of: fn(&Segment) -> usize| {
            let lengths: Vec<u32> = self.segments.iter().map(|segment| of(segment) as u32).collect();
            (*lengths.iter().max().unwrap() as usize, Tensor::new(lengths, &Device::Cpu).unwrap())
        };
        let ((longest_q, q_lengths), (longest_k, k_lengths)) = (lengths(|s| s.queries), lengths(|s| s.keys));
        let scale = (q.dim(2).unwrap() as f32).powf(-0.5);
        flash_attn_varlen_cpu(
            q, k, v, None, &q_lengths, &k_lengths, longest_q, longest_k, scale, self.causal, None, None,
        )
        .unwrap()
    }
}

fn far(a: &Tensor, b: &Tensor) -> f32 {
    assert_eq!(a.dims(), b.dims());
    let far = (a - b).unwrap().abs().unwrap().flatten_all().unwrap().max(0).unwrap();
    far.to_scalar().unwrap()
}

thread_local! {
    /// Elements of the scores of each softmax on this thread.
    static SCORES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn counted_softmax(scores: &Tensor) -> candle_core::Result<Tensor> {
    SCORES.with_borrow_mut(|seen| seen.push(scores.elem_count()));
    candle_nn::ops::softmax_last_dim(scores)
}

/// Sequences with some queries and at least as many keys; some of them alike, as frames of a video are.
fn segments() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let one = (1usize..40, 0usize..60, 1usize..4);
    prop::collection::vec(one, 1..5).prop_map(|list| {
        let alike = |(queries, past, count)| std::iter::repeat_n((queries, queries + past), count);
        list.into_iter().flat_map(alike).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn all_attention_agrees_and_makes_no_more_scores_than_it_may(
        segments in segments(),
        (key_heads, group, dim) in (1usize..4, 1usize..4, prop::sample::select(vec![8usize, 24, 64])),
        causal in any::<bool>(),
        room in 1usize..4000,
        seed in any::<u64>(),
    ) {
        let heads = key_heads * group;
        let packed = Packed::random([heads, key_heads, dim], &segments, causal, seed);
        let kernels = packed.by(&CpuOps::new(Precision::F32), false);
        prop_assert!(far(&kernels, &packed.by_candle_nn()) < 2e-5);
        let composed = ComposedOps::new(Device::Cpu, Precision::F32).with_scores(room);
        for cached in [false, true] {
            prop_assert!(far(&kernels, &packed.by(&composed, cached)) < 2e-5);
        }
        let plan = tensor::plan(&packed.segments, causal, room, &Device::Cpu).unwrap();
        let [q, k, v] = &packed.sides;
        SCORES.take();
        tensor::attention(q, KvSource::Packed(k, v), &plan, counted_softmax).unwrap();
        let longest = segments.iter().map(|segment| segment.1).max().unwrap();
        let seen = SCORES.take();
        prop_assert!(seen.iter().all(|scores| *scores <= room.max(heads * longest)), "{:?} of {}", seen, room);
        // What is hidden is not computed, but for the rows that are taken together.
        let all: usize = segments.iter().map(|(queries, keys)| heads * queries * keys).sum();
        prop_assert!(seen.iter().sum::<usize>() <= all);
    }
}
