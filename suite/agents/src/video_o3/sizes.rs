//! Sizes of frames: those of the first message are kept as files in between.

use paravt_suite::media::smart_resize;
use paravt_suite::protocol::{Clips, SizeRule, Stored};

/// Sides of a frame that is read from its file are multiples of that many tokens: `fetch_video` hands `fetch_image` the
/// side of a token for that of a patch, which is then doubled.
const READ_TOKENS: u32 = 2;
/// Multiples of such a frame at most, where the rule has no bound.
const MOST_TOKENS: u64 = 16_384;

/// Sizes of frames: as they are sent, and in between.
pub(super) type Sizes = ((u32, u32), Option<Stored>);

/// Sizes of `count` frames of the first message that have `size` in the video.
pub(super) fn first_sizes(
    clips: &Clips,
    split: &str,
    rule: SizeRule,
    size: (u32, u32),
    count: usize,
) -> Result<Sizes, String> {
    let rule = match (clips.sizes.get(split), rule, clips.least.get(split)) {
        (Some(&rule), ..) => rule,
        (None, SizeRule::Qwen { side, max, total, .. }, Some(&min)) => {
            SizeRule::Qwen { side, min, max, total }
        }
        _ => rule,
    };
    let Some(quality) = clips.stored else { return Ok((rule.apply(size, 1.0, count)?, None)) };
    let read = match rule {
        SizeRule::Qwen { side, min, max, .. } => {
            let side = READ_TOKENS * side;
            let max = max.unwrap_or(MOST_TOKENS * u64::from(side * side));
            smart_resize(size.0, size.1, side, min as f64, max as f64)?
        }
        _ => size,
    };
    Ok((rule.apply(read, 1.0, count)?, Some(Stored { quality, size: read })))
}

/// Sizes of `count` frames of a call, `total` in the place of that of the rule.
pub(super) fn call_sizes(
    rule: SizeRule,
    total: u32,
    size: (u32, u32),
    count: usize,
) -> Result<Sizes, String> {
    let rule = match rule {
        SizeRule::Qwen { side, min, max, .. } => SizeRule::Qwen { side, min, max, total: Some(total) },
        rule => rule,
    };
    Ok((rule.apply(size, 1.0, count)?, None))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use paravt_suite::protocol::Template;

    /// The rule of a model with tokens of `side`; `fewest` tokens a frame.
    fn rule(side: u32, fewest: u32) -> SizeRule {
        let token = side * side;
        let (min, max) = (u64::from(fewest * token), Some(u64::from(768 * token)));
        SizeRule::Qwen { side, min, max, total: Some(16_384 * token) }
    }

    fn clips(least: Option<u64>, size: Option<SizeRule>) -> Clips {
        let lvbench = || "lvbench".to_owned();
        Clips {
            fps: 2.0,
            own_positions: false,
            stored: Some(75),
            least: least.into_iter().map(|least| (lvbench(), least)).collect(),
            sizes: size.into_iter().map(|size| (lvbench(), size)).collect(),
            totals: BTreeMap::new(),
            marks: Vec::new(),
            last_response: Template::default(),
            last_error: Template::default(),
            chat_template: String::new(),
        }
    }

    /// Sizes of `fetch_video` (ZZQ987/Video-o3-Qwen3VL a6e0973, `Eval/vlmeval/vlm/video_o3/vision_process.py`).
    #[test]
    fn frames_are_read_in_the_bounds_of_one_and_sized_in_those_of_all() {
        let (clips, rule) = (clips(Some(128 * 784), None), rule(28, 20));
        let stored = Some(Stored { quality: 75, size: (1008, 560) });
        let first = |split: &str| first_sizes(&clips, split, rule, (1280, 720), 768);
        assert_eq!(first("videomme"), Ok(((224, 112), stored)));
        assert_eq!(first("lvbench"), Ok(((420, 224), stored)));
        let odd = first_sizes(&clips, "videomme", rule, (642, 362), 306);
        assert_eq!(odd, Ok(((392, 196), Some(Stored { quality: 75, size: (616, 336) }))), "multiples of 56");
        assert_eq!(call_sizes(rule, 2048 * 784, (1280, 720), 20), Ok(((532, 280), None)));
    }

    /// As above, of `vision_process_qwen3vl.py` beside it.
    #[test]
    fn tokens_of_32_pixels_have_sides_and_bounds_of_their_own() {
        let lvbench =
            SizeRule::Qwen { side: 32, min: 128 * 784, max: Some(768 * 784), total: Some(16_384 * 784) };
        let (clips, rule) = (clips(None, Some(lvbench)), rule(32, 20));
        let first = |split: &str, size, count| first_sizes(&clips, split, rule, size, count);
        let stored = |size| Some(Stored { quality: 75, size });
        assert_eq!(first("videomme", (1280, 720), 768), Ok(((256, 128), stored((1152, 640)))));
        assert_eq!(first("videomme", (642, 362), 306), Ok(((416, 256), stored((640, 384)))));
        assert_eq!(first("lvbench", (1280, 720), 768), Ok(((416, 224), stored((1024, 576)))));
        assert_eq!(call_sizes(rule, 2048 * 1024, (1280, 720), 20), Ok(((608, 320), None)));
    }
}
