//! Pillow's resampling (`src/libImaging/Resample.c`): rows, then columns, 8 bits in between, weights of 22 bits.

use std::f64::consts::PI;

const PRECISION: u32 = 32 - 8 - 2;

/// A filter: its weight at a distance from the centre, and the pixels on each side of that, at a scale of one.
pub(super) struct Filter {
    weight: fn(f64) -> f64,
    support: f64,
}

pub(super) const LANCZOS: Filter = Filter { weight: lanczos, support: 3.0 };
pub(super) const BICUBIC: Filter = Filter { weight: bicubic, support: 2.0 };

/// Weights of one output position, and the input that the first belongs to.
struct Weights {
    first: usize,
    values: Vec<i32>,
}

impl Filter {
    pub(super) fn resize(&self, rgb: &[u8], from: (usize, usize), to: (usize, usize)) -> Vec<u8> {
        let rows =
            if from.0 == to.0 { rgb.to_vec() } else { across(rgb, from, &weights(self, from.0, to.0)) };
        if from.1 == to.1 { rows } else { down(&rows, to.0, &weights(self, from.1, to.1)) }
    }
}

fn lanczos(x: f64) -> f64 {
    let sinc = |x: f64| if x == 0.0 { 1.0 } else { (x * PI).sin() / (x * PI) };
    if (-3.0..3.0).contains(&x) { sinc(x) * sinc(x / 3.0) } else { 0.0 }
}

fn bicubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    match x.abs() {
        x if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
        x if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
        _ => 0.0,
    }
}

/// `precompute_coeffs` and `normalize_coeffs_8bpc`.
fn weights(filter: &Filter, from: usize, to: usize) -> Vec<Weights> {
    let scale = from as f64 / to as f64;
    let widened = scale.max(1.0);
    let support = filter.support * widened;
    let step = 1.0 / widened;
    let at = |position: usize| {
        let centre = (position as f64 + 0.5) * scale;
        let first = (centre - support + 0.5).max(0.0) as usize;
        let last = ((centre + support + 0.5) as usize).min(from);
        let values: Vec<f64> =
            (0..last - first).map(|x| (filter.weight)(((x + first) as f64 - centre + 0.5) * step)).collect();
        let sum: f64 = values.iter().sum();
        let fixed = |value: &f64| {
            let value = if sum == 0.0 { *value } else { *value / sum } * f64::from(1_u32 << PRECISION);
            (if value < 0.0 { value - 0.5 } else { value + 0.5 }) as i32
        };
        Weights { first, values: values.iter().map(fixed).collect() }
    };
    (0..to).map(at).collect()
}

fn level(sum: i32) -> u8 {
    (sum >> PRECISION).clamp(0, 255) as u8
}

const HALF: i32 = 1 << (PRECISION - 1);

/// Every row to a new width.
fn across(rgb: &[u8], from: (usize, usize), weights: &[Weights]) -> Vec<u8> {
    let mut out = Vec::with_capacity(weights.len() * from.1 * 3);
    for row in rgb.chunks_exact(from.0 * 3) {
        for Weights { first, values } in weights {
            let mut sums = [HALF; 3];
            for (weight, pixel) in values.iter().zip(row[first * 3..].chunks_exact(3)) {
                for (sum, value) in sums.iter_mut().zip(pixel) {
                    *sum += weight * i32::from(*value);
                }
            }
            out.extend(sums.map(level));
        }
    }
    out
}

/// Every column to a new height.
fn down(rgb: &[u8], width: usize, weights: &[Weights]) -> Vec<u8> {
    let stride = width * 3;
    let mut out = Vec::with_capacity(weights.len() * stride);
    for Weights { first, values } in weights {
        let mut sums = vec![HALF; stride];
        for (weight, row) in values.iter().zip(rgb[first * stride..].chunks_exact(stride)) {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += weight * i32::from(*value);
            }
        }
        out.extend(sums.into_iter().map(level));
    }
    out
}
