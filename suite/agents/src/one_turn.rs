//! What models share that answer in one turn: frames of `fetch_video` of qwen-vl-utils 0.0.10, given to the model as a video,
//! and prompts with slots.

use paravt_suite::media::{Sampling as Rate, VideoFacts, VideoRequest, frame_indices};
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{
    AgentLoop, Encoding, FailedCalls, Fidelity, Filter, FrameLoop, FramePolicy, Overview, Sampling, SentAs,
    SizeRule, Template,
};
use paravt_suite::reference::{FrameChoice, FrameRules, ToolSyntax};
use paravt_upstream::import::{ImportError, Texts};

/// Pixels of one visual token.
pub(crate) const TOKEN: u64 = 28 * 28;

pub(crate) struct OneTurn;

impl ToolSyntax for OneTurn {}

/// Frames over the whole video at a rate, within bounds.
pub(crate) fn sampled(wanted: &Overview, frames: usize, rate: f64) -> FrameChoice {
    let sampling = Rate::Fps {
        fps: wanted.fps.unwrap_or(rate),
        min_frames: wanted.at_least.unwrap_or(4),
        max_frames: Some(wanted.frames),
    };
    let request = VideoRequest { sampling, ..VideoRequest::at_default_rate() };
    // A video of one frame has none.
    FrameChoice::at(frame_indices(&request, frames, rate).unwrap_or_default(), rate)
}

pub(crate) struct AllFrames;

impl FrameRules for AllFrames {
    fn overview(&self, wanted: &Overview, video: &VideoFacts) -> FrameChoice {
        sampled(wanted, video.frames, video.rate)
    }
}

/// Two frames a second as a video: fewest and most frames; fewest, most and all pixels.
pub(crate) fn video(
    (at_least, frames): (Option<usize>, usize),
    (min, max, total): (u64, Option<u64>, Option<u32>),
) -> FramePolicy {
    FramePolicy {
        overview: Some(Overview { frames, fps: Some(2.0), at_least }),
        sent_as: SentAs::Video,
        ..FramePolicy::new(SizeRule::Qwen { side: 28, min, max, total }, Filter::Bicubic, Encoding::Png)
    }
}

/// Up to 768 frames, two of them one step, of 3,584 tokens in all steps.
pub(crate) fn long_video() -> FramePolicy {
    video((None, 768), (16 * TOKEN, None, Some(3584 * TOKEN as u32)))
}

/// One call.
pub(crate) fn one_turn(opening: &str, policy: FramePolicy, sampling: Sampling) -> AgentLoop {
    let frames = FrameLoop { failed_calls: FailedCalls::Stop, ..FrameLoop::new(1, policy) };
    AgentLoop { opening: Template::parse(opening), sampling, ..AgentLoop::new(Fidelity::Exact, frames) }
}

/// The text of that name, and `end` behind it, with a slot in the place of each mark.
pub(crate) fn with_slots(
    texts: &Texts,
    name: &str,
    end: &str,
    marks: &[(&str, &[Piece])],
) -> Result<Template, ImportError> {
    let mut pieces = vec![Piece::Text(texts.text(name)? + end)];
    for (mark, slot) in marks {
        let place = pieces.iter().position(|piece| matches!(piece, Piece::Text(text) if text.contains(mark)));
        let place = place.ok_or_else(|| texts.error(name, format!("{mark} is not in it")))?;
        let Piece::Text(text) = pieces.remove(place) else { continue };
        let (before, after) = text.split_once(mark).unwrap_or((&text, ""));
        let texts = [before, after].map(|text| Piece::Text(text.to_owned()));
        let [before, after] = texts;
        let around = [before].into_iter().chain(slot.iter().cloned()).chain([after]);
        pieces.splice(place..place, around.filter(|piece| *piece != Piece::Text(String::new())));
    }
    Ok(Template(pieces))
}
