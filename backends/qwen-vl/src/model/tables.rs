//! Tables of one pass: rotary cosines and sines, rows of the position table, attention windows.
//!
//! Sources: `Qwen3VLTextRotaryEmbedding`, `Qwen2_5_VLRotaryEmbedding` and `vision_utils.py` of transformers 5.23.

use crate::config::{Config, Family, TextConfig, VisionConfig};
use crate::ops::Segment;
use crate::positions::Grid;

/// Cosines and sines (tokens, head_dim) of the language model.
pub(super) fn text_rotary(config: &Config, positions: &[[u32; 3]]) -> (Vec<f32>, Vec<f32>) {
    let text = &config.text;
    let axes = rotary_axes(config.family, text);
    let frequencies = frequencies(text.rope_theta, text.head_dim);
    table(positions.len(), text.head_dim, |token, pair| {
        positions[token][axes[pair]] as f32 * frequencies[pair]
    })
}

/// Which of time, height and width each frequency follows.
fn rotary_axes(family: Family, text: &TextConfig) -> Vec<usize> {
    let (pairs, section) = (text.head_dim / 2, &text.mrope_section);
    match family {
        // Time, height and width take turns while height and width last.
        Family::Qwen3 => {
            let axis = |pair: usize| match pair % 3 {
                1 if pair < 3 * section[1] => 1,
                2 if pair < 3 * section[2] => 2,
                _ => 0,
            };
            (0..pairs).map(axis).collect()
        }
        Family::Qwen25 => {
            (0..3).flat_map(|axis| std::iter::repeat_n(axis, section[axis])).take(pairs).collect()
        }
    }
}

/// Row and column of every patch in the order of the processor: merged blocks, then inside a block.
fn patch_places(grid: Grid, merge: usize) -> Vec<(usize, usize)> {
    let mut places = Vec::with_capacity(grid.patches());
    for _ in 0..grid.t {
        for block_row in 0..grid.h / merge {
            for block_column in 0..grid.w / merge {
                for row in 0..merge {
                    for column in 0..merge {
                        places.push((block_row * merge + row, block_column * merge + column));
                    }
                }
            }
        }
    }
    places
}

/// Cosines and sines (patches, head_dim) of the vision tower: half of the frequencies follow the row,
/// half the column.
pub(super) fn vision_rotary(vision: &VisionConfig, grids: &[Grid]) -> (Vec<f32>, Vec<f32>) {
    let head_dim = vision.hidden_size / vision.num_heads;
    let frequencies = frequencies(10000.0, head_dim / 2);
    let places: Vec<_> =
        grids.iter().flat_map(|&grid| patch_places(grid, vision.spatial_merge_size)).collect();
    let half = frequencies.len();
    table(places.len(), head_dim, |patch, pair| {
        let (row, column) = places[patch];
        if pair < half { row as f32 * frequencies[pair] } else { column as f32 * frequencies[pair - half] }
    })
}

fn frequencies(theta: f64, dim: usize) -> Vec<f32> {
    // The power rounded to f32, then its inverse in f32, as torch computes `1 / base ** (arange / dim)`.
    (0..dim / 2).map(|pair| 1.0 / theta.powf((2 * pair) as f64 / dim as f64) as f32).collect()
}

/// Tables whose second half repeats the first: the model pairs element i with i + dim/2.
fn table(rows: usize, dim: usize, angle: impl Fn(usize, usize) -> f32) -> (Vec<f32>, Vec<f32>) {
    let (mut cos, mut sin) = (Vec::with_capacity(rows * dim), Vec::with_capacity(rows * dim));
    for row in 0..rows {
        for _ in 0..2 {
            for pair in 0..dim / 2 {
                let (s, c) = angle(row, pair).sin_cos();
                cos.push(c);
                sin.push(s);
            }
        }
    }
    (cos, sin)
}

/// Qwen3-VL: which four rows of the position table, with which weights, give each patch its position
/// embedding: bilinear, corners aligned. Both (patches, 4).
pub(super) fn position_taps(vision: &VisionConfig, grids: &[Grid]) -> (Vec<u32>, Vec<f32>) {
    let side = vision.num_position_embeddings.isqrt();
    let axis = |index: usize, size: usize| {
        let source = index as f32 * (side - 1) as f32 / size.saturating_sub(1).max(1) as f32;
        let floor = source.floor();
        let near = (floor as usize).min(side - 1);
        let far = (floor as usize + 1).min(side - 1);
        let distance = source - floor;
        let far_weight = (1.0 - (distance - 1.0).abs()).max(0.0);
        [(near, 1.0 - distance), (far, far_weight)]
    };
    let (mut ids, mut weights) = (Vec::new(), Vec::new());
    for &grid in grids {
        for (row, column) in patch_places(grid, vision.spatial_merge_size) {
            for (y, y_weight) in axis(row, grid.h) {
                for (x, x_weight) in axis(column, grid.w) {
                    ids.push((y * side + x) as u32);
                    weights.push(y_weight * x_weight);
                }
            }
        }
    }
    (ids, weights)
}

/// Attention within each frame.
pub(super) fn frame_segments(grids: &[Grid]) -> Vec<Segment> {
    let frame = |grid: &Grid| std::iter::repeat_n(grid.h * grid.w, grid.t);
    grids.iter().flat_map(frame).map(|rows| Segment { queries: rows, keys: rows }).collect()
}

/// Qwen2.5-VL: the order of merged blocks that brings each attention window together, and the windows.
pub(super) fn windows(vision: &VisionConfig, grids: &[Grid]) -> (Vec<u32>, Vec<Segment>) {
    let merge = vision.spatial_merge_size;
    let side = (vision.window_size / merge / vision.patch_size).max(1);
    let (mut order, mut segments) = (Vec::new(), Vec::new());
    let mut start = 0;
    for grid in grids {
        let (rows, columns) = (grid.h / merge, grid.w / merge);
        for t in 0..grid.t {
            for top in (0..rows).step_by(side) {
                for left in (0..columns).step_by(side) {
                    let before = order.len();
                    for row in top..(top + side).min(rows) {
                        for column in left..(left + side).min(columns) {
                            order.push((start + (t * rows + row) * columns + column) as u32);
                        }
                    }
                    let patches = (order.len() - before) * merge * merge;
                    segments.push(Segment { queries: patches, keys: patches });
                }
            }
        }
        start += grid.t * rows * columns;
    }
    (order, segments)
}
