//! Attention of a few queries to many keys: one pass over keys and values per query head.

use rayon::prelude::*;

use super::{Heads, SeqLens, Strided};
use crate::gemv::dot;
use crate::math::exp_and_sum;

pub(super) fn attention_decode(
    out: &mut [f32],
    [q, k, v]: [Strided<'_>; 3],
    heads: Heads,
    seq: SeqLens,
    causal: bool,
) {
    let dim = heads.dim;
    // One task per query and head.
    out.par_chunks_mut(dim).enumerate().for_each(|(task, out)| {
        let (query, head) = (task / heads.query, task % heads.query);
        let start = heads.kv_of(head) * dim;
        let q = q.head_row(query, head, dim);
        let k = Strided { values: &k.values[start..], ..k };
        let v = Strided { values: &v.values[start..], ..v };
        one_query(out, q, k, v, seq.visible_keys(query, causal));
    });
}

per_isa! {
    /// One query of one head over the first `keys` rows of its keys and values.
    fn one_query(out: &mut [f32], q: &[f32], k: Strided<'_>, v: Strided<'_>, keys: usize) {
        let dim = q.len();
        let scale = (dim as f32).powf(-0.5);
        let mut scores: Vec<f32> =
            (0..keys).map(|key| dot(q, &k.values[key * k.row_stride..][..dim]) * scale).collect();
        let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum = exp_and_sum(&mut scores, max);
        for (key, prob) in scores.iter().enumerate() {
            let value = &v.values[key * v.row_stride..][..dim];
            out.iter_mut().zip(value).for_each(|(out, value)| *out += prob * value);
        }
        out.iter_mut().for_each(|out| *out /= sum);
    }
}
