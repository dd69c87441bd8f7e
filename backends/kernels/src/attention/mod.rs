//! Attention of packed sequences, without the whole matrix of scores.

mod decode;
mod prefill;

use half::bf16;
use rayon::prelude::*;

use crate::init::par_zeros;
use crate::matrix::{Element, MatRef};

/// Shapes of q (rows, heads, dim) and of k and v (rows, kv heads, dim). Groups of `query / kv` query heads share a
/// key head.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    pub query: usize,
    /// Key and value heads.
    pub kv: usize,
    /// Width of a head.
    pub dim: usize,
}

impl Heads {
    /// The key head of a query head.
    pub(crate) fn kv_of(self, head: usize) -> usize {
        head / (self.query / self.kv)
    }
}

/// Lengths of one sequence of a packed batch, which attends to its own keys alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeqLens {
    /// Rows of q.
    pub queries: usize,
    /// Rows of k and v. With a causal mask the last query sees all of them.
    pub keys: usize,
}

impl SeqLens {
    /// Number of keys that a query sees: the first ones.
    pub(crate) fn visible_keys(self, query: usize, causal: bool) -> usize {
        if causal { self.keys - self.queries + query + 1 } else { self.keys }
    }
}

/// Rows (row, heads, dim) at a stride.
#[derive(Debug, Clone, Copy)]
pub struct Strided<'a, T = f32> {
    /// From the first row on.
    pub values: &'a [T],
    /// Elements from one row to the next; at least heads by dim.
    pub row_stride: usize,
}

impl<'a, T: Element> Strided<'a, T> {
    fn skip_rows(self, rows: usize) -> Self {
        Self { values: &self.values[rows * self.row_stride..], ..self }
    }

    /// `count` rows of one head.
    fn head(self, first: usize, count: usize, head: usize, dim: usize) -> MatRef<'a, T> {
        MatRef::row_major(&self.values[first * self.row_stride + head * dim..], count, dim, self.row_stride)
    }

    /// One row of one head.
    fn head_row(self, row: usize, head: usize, dim: usize) -> &'a [T] {
        &self.values[row * self.row_stride + head * dim..][..dim]
    }
}

/// Element types of keys and values; read as they are stored and widened on the fly, exactly.
pub trait KvElement: Element {
    /// One query of one head over the first rows of its keys and values: `(out, q, k, v, keys)`.
    #[doc(hidden)]
    const ONE_QUERY: OneQuery<Self>;
}

type OneQuery<T> = fn(&mut [f32], &[f32], Strided<'_, T>, Strided<'_, T>, usize);

impl KvElement for f32 {
    const ONE_QUERY: OneQuery<f32> = decode::one_query_f32;
}

impl KvElement for bf16 {
    const ONE_QUERY: OneQuery<bf16> = decode::one_query_bf16;
}

/// Queries up to which attention is bound by reading keys and values.
const DECODE_MAX_QUERIES: usize = 16;

/// softmax(q k^T / sqrt(dim)) v of each sequence: (rows, heads, dim).
pub fn attention([q, k, v]: [Strided<'_>; 3], heads: Heads, seqs: &[SeqLens], causal: bool) -> Vec<f32> {
    let mut start = 0;
    let kv = seqs.iter().map(|seq| {
        let rows = [k.skip_rows(start), v.skip_rows(start)];
        start += seq.keys;
        rows
    });
    attention_cached(q, &kv.collect::<Vec<_>>(), heads, seqs, causal)
}

/// [`attention`] with k and v of each sequence in a place of its own, as in caches.
///
/// # Panics
/// Not as many places as sequences.
pub fn attention_cached<T: KvElement>(
    q: Strided<'_>,
    kv: &[[Strided<'_, T>; 2]],
    heads: Heads,
    seqs: &[SeqLens],
    causal: bool,
) -> Vec<f32> {
    assert_eq!(kv.len(), seqs.len());
    let queries: usize = seqs.iter().map(|seq| seq.queries).sum();
    let row = heads.query * heads.dim;
    let mut out = par_zeros(queries * row);
    // Rows of each sequence; those of the output are disjoint.
    let mut parts = Vec::with_capacity(seqs.len());
    let (mut rest, mut start) = (out.as_mut_slice(), 0);
    for (&[k, v], seq) in kv.iter().zip(seqs) {
        let (part, later) = rest.split_at_mut(seq.queries * row);
        rest = later;
        parts.push((part, q.skip_rows(start), [k, v], *seq));
        start += seq.queries;
    }
    parts.into_par_iter().for_each(|(out, q, kv, seq)| {
        if seq.queries <= DECODE_MAX_QUERIES {
            decode::attention_decode(out, q, kv, heads, seq, causal);
        } else {
            prefill::attention_prefill(out, q, kv, heads, seq, causal);
        }
    });
    out
}

#[cfg(test)]
mod tests;
