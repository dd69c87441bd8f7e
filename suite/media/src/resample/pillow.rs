//! Pillow's resampling (`src/libImaging/Resample.c`): rows, then columns, 8 bits in between, weights of 22 bits.

use std::f64::consts::PI;

const PRECISION: u32 = 32 - 8 - 2;
/// Pixels on each side of the centre, at a scale of one.
const SUPPORT: f64 = 3.0;

/// Weights of one output position, and the input that the first belongs to.
struct Weights {
    first: usize,
    values: Vec<i32>,
}

pub(super) fn lanczos(rgb: &[u8], from: (usize, usize), to: (usize, usize)) -> Vec<u8> {
    let rows = if from.0 == to.0 { rgb.to_vec() } else { across(rgb, from, &weights(from.0, to.0)) };
    if from.1 == to.1 { rows } else { down(&rows, to.0, &weights(from.1, to.1)) }
}

fn filter(x: f64) -> f64 {
    let sinc = |x: f64| if x == 0.0 { 1.0 } else { (x * PI).sin() / (x * PI) };
    if (-SUPPORT..SUPPORT).contains(&x) { sinc(x) * sinc(x / SUPPORT) } else { 0.0 }
}

/// `precompute_coeffs` and `normalize_coeffs_8bpc`.
fn weights(from: usize, to: usize) -> Vec<Weights> {
    let scale = from as f64 / to as f64;
    let widened = scale.max(1.0);
    let support = SUPPORT * widened;
    let step = 1.0 / widened;
    let at = |position: usize| {
        let centre = (position as f64 + 0.5) * scale;
        let first = (centre - support + 0.5).max(0.0) as usize;
        let last = ((centre + support + 0.5) as usize).min(from);
        let values: Vec<f64> =
            (0..last - first).map(|x| filter(((x + first) as f64 - centre + 0.5) * step)).collect();
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
