//! Positions of tokens and patches: rotary tables, position-table taps, attention windows.
//!
//! Sources: `get_rope_index` (see [`PositionRule`]), `Qwen3VLTextRotaryEmbedding`, `Qwen2_5_VLRotaryEmbedding` and
//! `vision_utils.py` of transformers 5.23.

use crate::config::{Config, Family, TextConfig, VisionConfig};
use crate::ops::Segment;

/// Patches of one image or video: frames (pairs of them), rows and columns, before merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Temporal patches.
    pub t: usize,
    /// Patches down.
    pub h: usize,
    /// Patches across.
    pub w: usize,
}

impl Grid {
    /// Patches in all.
    pub fn patches(self) -> usize {
        self.t * self.h * self.w
    }

    /// Tokens in the prompt after merging blocks of `merge` by `merge` patches.
    pub fn tokens(self, merge: usize) -> usize {
        self.patches() / (merge * merge)
    }
}

/// How temporal positions of a Qwen2.5-VL video are counted, and where the text after it starts. For images, and
/// for Qwen3-VL, whose frames are images to the text, the rules agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PositionRule {
    /// vLLM (`get_mrope_input_positions` of its Qwen2.5-VL): text starts after the largest position so far. The
    /// default: what ParaVT cf55249 serves its models with, and with it the paper's table.
    #[default]
    Vllm,
    /// `get_rope_index` of transformers 4.49 to 4.57: the same, but the seconds between frame pairs lose their fraction.
    Transformers4,
    /// That of transformers 5: text starts after as many positions as the longer side has merged patches, even where
    /// the video's temporal positions go on beyond.
    Transformers5,
}

impl PositionRule {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Vllm, Self::Transformers4, Self::Transformers5];

    /// The name used on the command line and in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Transformers4 => "transformers-4",
            Self::Transformers5 => "transformers-5",
        }
    }

    /// Temporal position of a frame pair, in f32 and rounded down, as in torch.
    fn time(self, step: usize, Pace { seconds, per_second }: Pace) -> u32 {
        let step = step as f32;
        let time = match self {
            Self::Vllm => step * seconds * per_second,
            Self::Transformers4 => step * seconds.trunc() * per_second,
            Self::Transformers5 => step * (per_second * seconds),
        };
        time as u32
    }
}

/// Increment of temporal positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Seconds between two temporal patches.
    pub seconds: f32,
    /// Temporal positions in a second.
    pub per_second: f32,
}

/// A run of the prompt, in order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Run {
    /// Text tokens.
    Text(usize),
    /// An image's or a frame's merged patches.
    Vision {
        /// Its grid.
        grid: Grid,
        /// Of a video with several temporal patches.
        pace: Pace,
    },
}

/// Time, height and width position of every token, and the position after the last.
pub fn token_positions(runs: &[Run], merge: usize, rule: PositionRule) -> (Vec<[u32; 3]>, u32) {
    let mut positions: Vec<[u32; 3]> = Vec::new();
    let mut next = 0;
    for run in runs {
        match *run {
            Run::Text(count) => {
                positions.extend((next..next + count as u32).map(|position| [position; 3]));
                next += count as u32;
            }
            Run::Vision { grid, pace } => {
                let (rows, columns) = ((grid.h / merge) as u32, (grid.w / merge) as u32);
                for step in 0..grid.t {
                    let time = rule.time(step, pace);
                    for row in 0..rows {
                        positions.extend((0..columns).map(|column| [next + time, next + row, next + column]));
                    }
                }
                let last = rule.time(grid.t.saturating_sub(1), pace);
                next += match rule {
                    PositionRule::Vllm | PositionRule::Transformers4 => rows.max(columns).max(last + 1),
                    PositionRule::Transformers5 => rows.max(columns),
                };
            }
        }
    }
    // A long video's temporal positions can pass those of the text after it.
    let after = positions.iter().flatten().max().map_or(0, |last| last + 1);
    (positions, after)
}

/// Cosines and sines (tokens, head_dim) of the language model.
pub fn text_rotary(config: &Config, positions: &[[u32; 3]]) -> (Vec<f32>, Vec<f32>) {
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
pub fn vision_rotary(vision: &VisionConfig, grids: &[Grid]) -> (Vec<f32>, Vec<f32>) {
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
pub fn position_taps(vision: &VisionConfig, grids: &[Grid]) -> (Vec<u32>, Vec<f32>) {
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
pub fn frame_segments(grids: &[Grid]) -> Vec<Segment> {
    let frame = |grid: &Grid| std::iter::repeat_n(grid.h * grid.w, grid.t);
    grids.iter().flat_map(frame).map(|rows| Segment { queries: rows, keys: rows }).collect()
}

/// Qwen2.5-VL: the order of merged blocks that brings each attention window together, and the windows.
pub fn windows(vision: &VisionConfig, grids: &[Grid]) -> (Vec<u32>, Vec<Segment>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tokens of text, a video of four frame pairs of 2 by 3 merged patches `seconds` apart, two tokens.
    fn video(seconds: f32, rule: PositionRule) -> (Vec<u32>, [u32; 3], u32) {
        let grid = Grid { t: 4, h: 4, w: 6 };
        let runs =
            [Run::Text(2), Run::Vision { grid, pace: Pace { seconds, per_second: 2.0 } }, Run::Text(2)];
        let (positions, next) = token_positions(&runs, 2, rule);
        assert_eq!(positions.len(), 2 + 4 * 6 + 2);
        let times = (0..4).map(|step| positions[2 + step * 6][0]).collect();
        (times, positions[26], next)
    }

    #[test]
    fn each_rule_gives_the_numbers_of_its_own_formula() {
        use PositionRule::{Transformers4, Transformers5, Vllm};
        // Two seconds apart: temporal positions 2 + 4 * step. Text follows on the largest, 14; by the newer rule on
        // the three columns.
        assert_eq!(video(2.0, Vllm), (vec![2, 6, 10, 14], [15; 3], 17));
        assert_eq!(video(2.0, Transformers4), (vec![2, 6, 10, 14], [15; 3], 17));
        assert_eq!(video(2.0, Transformers5), (vec![2, 6, 10, 14], [5; 3], 15));
        // 1.25 seconds: 2.5 positions a step, rounded down; 4.57 counts whole seconds, 2 positions a step.
        assert_eq!(video(1.25, Vllm), (vec![2, 4, 7, 9], [10; 3], 12));
        assert_eq!(video(1.25, Transformers4), (vec![2, 4, 6, 8], [9; 3], 11));
        assert_eq!(video(1.25, Transformers5), (vec![2, 4, 7, 9], [5; 3], 10));
        // Half a second: 4.57 counts none at all, and the columns decide.
        assert_eq!(video(0.5, Vllm), (vec![2, 3, 4, 5], [6; 3], 8));
        assert_eq!(video(0.5, Transformers4), (vec![2, 2, 2, 2], [5; 3], 7));
        assert_eq!(video(0.5, Transformers5), (vec![2, 3, 4, 5], [5; 3], 7));
    }

    #[test]
    fn images_are_the_same_by_every_rule() {
        let grid = Grid { t: 1, h: 8, w: 4 };
        let runs = [
            Run::Text(1),
            Run::Vision { grid, pace: Pace { seconds: 100.0, per_second: 2.0 } },
            Run::Text(1),
        ];
        let found = PositionRule::ALL.map(|rule| token_positions(&runs, 2, rule));
        assert!(found.iter().all(|positions| *positions == found[0]));
        assert_eq!((found[0].0[9], found[0].1), ([5; 3], 6));
    }
}
