use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;
use crate::isa::tests::for_each_isa;

/// A batch of random q, k and v, contiguous.
struct Batch {
    heads: Heads,
    seqs: Vec<SeqLens>,
    causal: bool,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Batch {
    fn new(rng: &mut StdRng, [query, kv, dim]: [usize; 3], seqs: &[(usize, usize)], causal: bool) -> Self {
        let heads = Heads { query, kv, dim };
        let (queries, keys) = seqs.iter().fold((0, 0), |(n, m), seq| (n + seq.0, m + seq.1));
        let mut random =
            |count: usize| -> Vec<f32> { (0..count).map(|_| rng.random::<f32>() * 6.0 - 3.0).collect() };
        let (q, k, v) = (random(queries * query * dim), random(keys * kv * dim), random(keys * kv * dim));
        let seqs = seqs.iter().map(|&(queries, keys)| SeqLens { queries, keys }).collect();
        Self { heads, seqs, causal, q, k, v }
    }

    /// One output row of one head in f64, by the definition.
    fn expected(&self, seq: SeqLens, [q_row, k_start, query, head]: [usize; 4]) -> Vec<f64> {
        let Heads { query: q_heads, kv, dim } = self.heads;
        let q = &self.q[(q_row * q_heads + head) * dim..][..dim];
        let key = |key: usize| ((k_start + key) * kv + head / (q_heads / kv)) * dim;
        let visible = if self.causal { seq.keys - seq.queries + query + 1 } else { seq.keys };
        let score = |number: usize| -> f64 {
            let terms = (0..dim).map(|d| f64::from(q[d]) * f64::from(self.k[key(number) + d]));
            terms.sum::<f64>() * (dim as f64).powf(-0.5)
        };
        let scores: Vec<f64> = (0..visible).map(score).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|score| (score - max).exp()).sum();
        let weighted = |d: usize| {
            let terms = scores.iter().enumerate();
            terms
                .map(|(number, score)| (score - max).exp() / total * f64::from(self.v[key(number) + d]))
                .sum()
        };
        (0..dim).map(weighted).collect()
    }

    fn check(&self) {
        let Heads { query: q_heads, kv, dim } = self.heads;
        let rows = |values, heads| Strided { values, row_stride: heads * dim };
        let sides = [rows(&self.q[..], q_heads), rows(&self.k[..], kv), rows(&self.v[..], kv)];
        let found = attention(sides, self.heads, &self.seqs, self.causal);
        let (mut q_start, mut k_start) = (0, 0);
        for &seq in &self.seqs {
            for query in 0..seq.queries {
                for head in 0..q_heads {
                    let q_row = q_start + query;
                    let expected = self.expected(seq, [q_row, k_start, query, head]);
                    for (found, expected) in found[(q_row * q_heads + head) * dim..].iter().zip(expected) {
                        let error = (f64::from(*found) - expected).abs();
                        // Scores reach 30 here, and one f32 step of 30 changes a probability by 2e-6 of itself.
                        assert!(error < 1e-5, "{} {:?} {seq:?}: {error}", crate::isa(), self.heads);
                    }
                }
            }
            (q_start, k_start) = (q_start + seq.queries, k_start + seq.keys);
        }
    }
}

#[test]
fn attention_equals_its_f64_definition_under_every_isa() {
    for_each_isa(|_| {
        let mut rng = StdRng::seed_from_u64(3);
        Batch::new(&mut rng, [4, 2, 8], &[(1, 700)], true).check();
        Batch::new(&mut rng, [2, 2, 16], &[(5, 5), (3, 9)], true).check();
        Batch::new(&mut rng, [4, 1, 32], &[(40, 40)], true).check();
        Batch::new(&mut rng, [2, 1, 72], &[(150, 1200)], true).check();
        Batch::new(&mut rng, [3, 3, 40], &[(64, 64), (33, 33), (4, 4)], false).check();
        Batch::new(&mut rng, [2, 2, 64], &[(300, 600)], false).check();
    });
}

/// Keys and values in bf16 give the bits that their f32 copies give.
#[test]
fn bf16_caches_are_read_as_they_are() {
    for_each_isa(|isa| {
        let mut rng = StdRng::seed_from_u64(5);
        for (lens, shape) in [((1, 700), [4, 2, 128]), ((40, 300), [4, 2, 72]), ((130, 600), [2, 1, 64])] {
            let Batch { heads, seqs, q, k, v, .. } = Batch::new(&mut rng, shape, &[lens], true);
            let [k, v] = [k, v].map(|side| side.into_iter().map(bf16::from_f32).collect::<Vec<_>>());
            let wide = [&k, &v].map(|side| side.iter().map(|value| value.to_f32()).collect::<Vec<_>>());
            let (q, stride) =
                (Strided { values: &q[..], row_stride: heads.query * heads.dim }, heads.kv * heads.dim);
            let narrow = [&k, &v].map(|side| Strided { values: &side[..], row_stride: stride });
            let wide = [0, 1].map(|side| Strided { values: &wide[side][..], row_stride: stride });
            let found = attention_cached(q, &[narrow], heads, &seqs, true);
            assert_eq!(found, attention_cached(q, &[wide], heads, &seqs, true), "{isa} {lens:?}");
        }
    });
}
