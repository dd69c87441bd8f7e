//! Patch grids of images and videos, and the position (time, row, column) of every token of a prompt, as
//! `get_rope_index` counts them (see [`VideoRule`]).

/// Patches of one image or video: frames (pairs of them), rows and columns, before merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Temporal patches.
    pub t: usize,
    /// Rows of patches.
    pub h: usize,
    /// Columns of patches.
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

/// How a video stands in a prompt, where vLLM and the versions of transformers differ. For images they agree.
///
/// - Qwen2.5-VL: its temporal positions, and where the text after it starts.
/// - Qwen3-VL: whether the vision tokens that the chat template puts around it are kept, and which frames of a video
///   with no more frames than were asked for are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VideoRule {
    /// vLLM 0.17. Qwen2.5-VL (`get_mrope_input_positions`): text starts after the largest position so far. Qwen3-VL:
    /// the frame pairs, each within vision tokens of its own, replace the template's; a video whose frames are all
    /// loaded is sampled by its processor, two frames a second. The default: what ParaVT cf55249 serves its models
    /// with, and with it the paper's table.
    #[default]
    Vllm,
    /// Transformers 4.57. Qwen2.5-VL (`get_rope_index` since 4.49): the same, but the seconds between frame pairs lose
    /// their fraction. Qwen3-VL: vision tokens as in vLLM, as many frames as were asked for.
    Transformers4,
    /// Transformers 5. Qwen2.5-VL: text starts after as many positions as the longer side has merged patches, even
    /// where the video's temporal positions go on beyond. Qwen3-VL: the template's vision tokens stay around the frame
    /// pairs, which have their own; as many frames as were asked for.
    Transformers5,
}

impl VideoRule {
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

/// A part of the prompt, in order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Run {
    /// Text tokens.
    Text(usize),
    /// An image's or a frame's merged patches.
    Vision {
        grid: Grid,
        /// Of a video with several temporal patches.
        pace: Pace,
    },
}

/// Time, height and width position of every token, and the position after the last.
pub(crate) fn token_positions(runs: &[Run], merge: usize, rule: VideoRule) -> (Vec<[u32; 3]>, u32) {
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
                    VideoRule::Vllm | VideoRule::Transformers4 => rows.max(columns).max(last + 1),
                    VideoRule::Transformers5 => rows.max(columns),
                };
            }
        }
    }
    // A long video's temporal positions can pass those of the text after it.
    let after = positions.iter().flatten().max().map_or(0, |last| last + 1);
    (positions, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tokens of text, a video of four frame pairs of 2 by 3 merged patches `seconds` apart, two tokens.
    fn video(seconds: f32, rule: VideoRule) -> (Vec<u32>, [u32; 3], u32) {
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
        use VideoRule::{Transformers4, Transformers5, Vllm};
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
        let found = VideoRule::ALL.map(|rule| token_positions(&runs, 2, rule));
        assert!(found.iter().all(|positions| *positions == found[0]));
        assert_eq!((found[0].0[9], found[0].1), ([5; 3], 6));
    }
}
