//! Attention of a few queries to many keys: one pass over keys and values per query head.

use half::bf16;
use rayon::prelude::*;

use super::{Heads, KvElement, SeqLens, Strided};
use crate::gemv::dot;
use crate::math::exp_and_sum;
use crate::matrix::Element;

pub(super) fn attention_decode<T: KvElement>(
    out: &mut [f32],
    q: Strided<'_>,
    [k, v]: [Strided<'_, T>; 2],
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
        T::ONE_QUERY(out, q, k, v, seq.visible_keys(query, causal));
    });
}

per_isa! {
    pub(super) fn one_query_f32(out: &mut [f32], q: &[f32], k: Strided<'_>, v: Strided<'_>, keys: usize) {
        one_query(out, q, k, v, keys);
    }
}

per_isa! {
    pub(super) fn one_query_bf16(
        out: &mut [f32],
        q: &[f32],
        k: Strided<'_, bf16>,
        v: Strided<'_, bf16>,
        keys: usize,
    ) {
        one_query(out, q, k, v, keys);
    }
}

/// One query of one head over the first `keys` rows of its keys and values.
#[inline(always)]
fn one_query<T: Element>(out: &mut [f32], q: &[f32], k: Strided<'_, T>, v: Strided<'_, T>, keys: usize) {
    let dim = q.len();
    let scale = (dim as f32).powf(-0.5);
    let mut scores = vec![0.0; keys];
    for (key, score) in scores.iter_mut().enumerate() {
        *score = dot(q, &k.values[key * k.row_stride..][..dim]) * scale;
    }
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum = exp_and_sum(&mut scores, max);
    for (key, prob) in scores.iter().enumerate() {
        let value = &v.values[key * v.row_stride..][..dim];
        for (out, value) in out.iter_mut().zip(value) {
            *out += prob * value.value();
        }
    }
    for out in out {
        *out /= sum;
    }
}
