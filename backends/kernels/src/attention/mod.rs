//! Attention without the whole matrix of scores.

mod plain;
mod tiled;

use multiversion::multiversion;
use paravt_qwen_vl::ops::Segment;
use rayon::prelude::*;

use super::amx;
use super::dot::dot;
use super::fresh::zeros;
use super::matrix::Matrix;

/// Shapes of q (n, heads, dim) and of k and v (m, key heads, dim).
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// Query heads.
    pub queries: usize,
    /// Key and value heads.
    pub keys: usize,
    /// Width of a head.
    pub dim: usize,
}

/// Up to so many queries, reading keys and values is what takes time.
const FEW: usize = 16;
/// Keys between two updates of the running maximum.
const CHUNK: usize = 512;

/// Values (n, heads, dim); from one row to the next are `stride`.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// From the first row on.
    pub values: &'a [f32],
    /// At least heads by dim.
    pub stride: usize,
}

impl<'a> Rows<'a> {
    fn from(self, row: usize) -> Self {
        Self { values: &self.values[row * self.stride..], ..self }
    }

    /// `count` rows of the columns from `start` on.
    fn part(self, row: usize, count: usize, start: usize, columns: usize) -> Matrix<'a> {
        Matrix::rows(&self.values[row * self.stride + start..], count, columns, self.stride)
    }
}

/// Softmax of scaled scores times values, (n, heads, dim).
pub fn attention([q, k, v]: [Rows<'_>; 3], heads: Heads, segments: &[Segment], causal: bool) -> Vec<f32> {
    let queries: usize = segments.iter().map(|segment| segment.queries).sum();
    let row = heads.queries * heads.dim;
    let mut out = zeros(queries * row);
    let (mut q_start, mut k_start) = (0, 0);
    // Each segment's own rows; the output's are disjoint.
    let mut parts = Vec::with_capacity(segments.len());
    let mut rest = out.as_mut_slice();
    for segment in segments {
        let (part, later) = rest.split_at_mut(segment.queries * row);
        rest = later;
        parts.push((part, [q.from(q_start), k.from(k_start), v.from(k_start)], *segment));
        q_start += segment.queries;
        k_start += segment.keys;
    }
    parts.into_par_iter().for_each(|(out, inputs, segment)| {
        if segment.queries <= FEW {
            few_queries(out, inputs, heads, segment, causal);
        } else if amx::is_available() {
            tiled::many_queries(out, inputs, heads, segment, causal);
        } else {
            plain::many_queries(out, inputs, heads, segment, causal);
        }
    });
    out
}

/// Fills `out` (n, heads, dim) by blocks of at most `most` rows of one head: `block` gets the head, the first
/// row and the number of rows, and gives (rows, dim).
fn by_head(
    out: &mut [f32],
    heads: Heads,
    most: usize,
    block: impl Fn(usize, usize, usize) -> Vec<f32> + Sync,
) {
    let (row, dim) = (heads.queries * heads.dim, heads.dim);
    out.par_chunks_mut(most * row).enumerate().for_each(|(task, out)| {
        let count = out.len() / row;
        // Heads are spread over threads too: a short prompt is one block of rows.
        let results: Vec<Vec<f32>> =
            (0..heads.queries).into_par_iter().map(|head| block(head, task * most, count)).collect();
        for (head, result) in results.iter().enumerate() {
            for (out, result) in out.chunks_mut(row).zip(result.chunks(dim)) {
                out[head * dim..][..dim].copy_from_slice(result);
            }
        }
    });
}

/// Keys that a query sees.
pub fn seen(query: usize, segment: Segment, causal: bool) -> usize {
    if causal { segment.keys - segment.queries + query + 1 } else { segment.keys }
}

fn few_queries(out: &mut [f32], [q, k, v]: [Rows<'_>; 3], heads: Heads, segment: Segment, causal: bool) {
    let Heads { dim, .. } = heads;
    let group = heads.queries / heads.keys;
    // One task per query head.
    out.par_chunks_mut(dim).enumerate().for_each(|(place, out)| {
        let (query, head) = (place / heads.queries, place % heads.queries);
        let start = head / group * dim;
        let q = &q.values[query * q.stride + head * dim..][..dim];
        let (k, v) = ((&k.values[start..], k.stride), (&v.values[start..], v.stride));
        one_query(out, q, k, v, seen(query, segment, causal));
    });
}

/// Keys and values with how far their rows are apart.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn one_query(out: &mut [f32], q: &[f32], k: (&[f32], usize), v: (&[f32], usize), keys: usize) {
    let dim = q.len();
    let scale = (dim as f32).powf(-0.5);
    let mut scores: Vec<f32> = (0..keys).map(|key| dot(q, &k.0[key * k.1..][..dim]) * scale).collect();
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum = exponentials(&mut scores, most);
    for (key, share) in scores.iter().enumerate() {
        let value = &v.0[key * v.1..][..dim];
        out.iter_mut().zip(value).for_each(|(out, value)| *out += share * value);
    }
    out.iter_mut().for_each(|out| *out /= sum);
}

/// Replaces x by exp(x - most) and gives the sum.
#[inline(always)]
pub fn exponentials(values: &mut [f32], most: f32) -> f32 {
    let mut sums = [0.0f32; 16];
    let mut parts = values.chunks_exact_mut(16);
    for part in &mut parts {
        for lane in 0..16 {
            part[lane] = exp(part[lane] - most);
            sums[lane] += part[lane];
        }
    }
    let mut sum = 0.0;
    for value in parts.into_remainder() {
        *value = exp(*value - most);
        sum += *value;
    }
    sum + sums.iter().sum::<f32>()
}

/// exp to two units in the last place, in operations that vectorise: 2^n times
/// a polynomial of what is left (Cephes `expf`).
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Beyond these the result is no normal number.
    let x = x.clamp(-87.3, 88.3);
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    let shifted = x.mul_add(std::f32::consts::LOG2_E, 12_582_912.0);
    let n = shifted - 12_582_912.0;
    let r = n.mul_add(2.121_944_4e-4, n.mul_add(-0.693_359_4, x));
    let polynomial = 1.987_569_1e-4f32
        .mul_add(r, 1.398_199_9e-3)
        .mul_add(r, 8.333_452e-3)
        .mul_add(r, 4.166_579_6e-2)
        .mul_add(r, 1.666_666_5e-1)
        .mul_add(r, 0.5);
    let value = polynomial.mul_add(r * r, r) + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    value * power
}

/// Scores of one query to shares, given the largest so far; what was summed before is scaled along.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn soften(scores: &mut [f32], visible: usize, most: &mut f32, total: &mut f32, sums: &mut [f32]) {
    let (scores, hidden) = scores.split_at_mut(visible);
    hidden.fill(0.0);
    if scores.is_empty() {
        return;
    }
    let mut largest = [*most; 16];
    let parts = scores.chunks_exact(16);
    let rest = parts.remainder().iter().copied().fold(*most, f32::max);
    for part in parts {
        for lane in 0..16 {
            largest[lane] = if part[lane] > largest[lane] { part[lane] } else { largest[lane] };
        }
    }
    let now = largest.iter().copied().fold(rest, f32::max);
    if now > *most {
        let factor = if *most == f32::NEG_INFINITY { 0.0 } else { exp(*most - now) };
        *total *= factor;
        sums.iter_mut().for_each(|sum| *sum *= factor);
        *most = now;
    }
    *total += exponentials(scores, now);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    #[test]
    fn exp_is_exp() {
        for number in 0..100_000 {
            let x = -(number as f32) / 1000.0;
            let wanted = f64::from(x).exp();
            let error = (f64::from(exp(x)) - wanted).abs();
            assert!(error <= 2.5e-7 * wanted || x < -87.0, "{x}: {} {wanted}", exp(x));
        }
    }

    #[test]
    fn attention_is_that_of_the_definition() {
        let mut rng = StdRng::seed_from_u64(3);
        let segment = |queries, keys| Segment { queries, keys };
        let cases: [(Heads, Vec<Segment>, bool); 6] = [
            (Heads { queries: 4, keys: 2, dim: 8 }, vec![segment(1, 700)], true),
            (Heads { queries: 2, keys: 2, dim: 16 }, vec![segment(5, 5), segment(3, 9)], true),
            (Heads { queries: 4, keys: 1, dim: 32 }, vec![segment(40, 40)], true),
            (Heads { queries: 2, keys: 1, dim: 72 }, vec![segment(150, 1200)], true),
            (
                Heads { queries: 3, keys: 3, dim: 40 },
                vec![segment(64, 64), segment(33, 33), segment(4, 4)],
                false,
            ),
            (Heads { queries: 2, keys: 2, dim: 64 }, vec![segment(300, 600)], false),
        ];
        for (heads, segments, causal) in cases {
            let (n, m) = segments.iter().fold((0, 0), |(n, m), s| (n + s.queries, m + s.keys));
            let mut random =
                |count: usize| -> Vec<f32> { (0..count).map(|_| rng.random::<f32>() * 6.0 - 3.0).collect() };
            let q = random(n * heads.queries * heads.dim);
            let dim = heads.dim;
            let (k, v) = (random(m * heads.keys * dim), random(m * heads.keys * dim));
            let rows = |values, heads| Rows { values, stride: heads * dim };
            let sides = [rows(&q[..], heads.queries), rows(&k[..], heads.keys), rows(&v[..], heads.keys)];
            let found = attention(sides, heads, &segments, causal);
            let (mut q_start, mut k_start) = (0, 0);
            for segment in &segments {
                for query in 0..segment.queries {
                    for head in 0..heads.queries {
                        let at = ((q_start + query) * heads.queries + head) * heads.dim;
                        let key = |key: usize| {
                            ((k_start + key) * heads.keys + head / (heads.queries / heads.keys)) * heads.dim
                        };
                        let count = seen(query, *segment, causal);
                        let score = |number: usize| -> f64 {
                            let terms =
                                (0..heads.dim).map(|d| f64::from(q[at + d]) * f64::from(k[key(number) + d]));
                            terms.sum::<f64>() * (heads.dim as f64).powf(-0.5)
                        };
                        let scores: Vec<f64> = (0..count).map(score).collect();
                        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                        let total: f64 = scores.iter().map(|score| (score - most).exp()).sum();
                        for d in 0..heads.dim {
                            let terms = scores.iter().enumerate();
                            let wanted: f64 = terms
                                .map(|(number, score)| {
                                    (score - most).exp() / total * f64::from(v[key(number) + d])
                                })
                                .sum();
                            let error = (f64::from(found[at + d]) - wanted).abs();
                            // Scores reach 30 here, and one f32 step of 30 moves a share by 2e-6 of itself.
                            assert!(error < 1e-5, "{heads:?} {segment:?}: {error}");
                        }
                    }
                }
                (q_start, k_start) = (q_start + segment.queries, k_start + segment.keys);
            }
        }
    }
}
