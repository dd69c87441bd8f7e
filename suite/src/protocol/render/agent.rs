//! Messages of an agent's own loop: text around frames.

use super::{RenderError, question_text, slot};
use crate::media::VideoFacts;
use crate::message::Part;
use crate::profile::Switches;
use crate::protocol::template::TemplateError;
use crate::protocol::{AgentLoop, FileInfo, FrameLoop, FramePolicy, PromptMode, Protocol, Template};
use crate::sample::Sample;
use crate::text::fixed1;

/// The first user message of an agent's own loop. `described` are values of slots that its rules have for the frames.
///
/// # Errors
/// The protocol has no template for the sample, or one asks for something else.
pub fn opening(
    agent_loop: &AgentLoop,
    sample: &Sample,
    question: &str,
    (video, described): (Option<&VideoFacts>, &[(&'static str, String)]),
    frames: Vec<Part>,
) -> Result<Vec<Part>, RenderError> {
    let about = video.map(|video| {
        let seconds = (video.stream_duration - 0.5).max(1.0).trunc();
        [("seconds", seconds.to_string()), ("side", video.width.min(video.height).to_string())]
    });
    let about = about.iter().flatten().chain(described).map(|(name, value)| (*name, value.as_str()));
    let texts = [("question", question), ("stripped", question.trim())];
    let values: Vec<(&str, &str)> = about.chain(texts).collect();
    let template = agent_loop.harness.opening(&sample.task).unwrap_or(&agent_loop.opening);
    let mut parts = around_frames(template, frames, &values).map_err(slot("opening"))?;
    if let Some(note) = &agent_loop.harness.note {
        let name = sample.video_name();
        parts.push(Part::Text(note.render(&[("video_name", &name)]).map_err(slot("note"))?));
    }
    Ok(parts)
}

/// The system text of a try (from 0), where it is not that of the mode.
pub fn system_of_try(
    frame_loop: &FrameLoop,
    policy: &FramePolicy,
    number: usize,
) -> Result<Option<String>, RenderError> {
    let frames = policy.overview.map_or(0, |overview| overview.frames).to_string();
    let text = frame_loop.tries.system(number).map(|text| text.render(&[("n", &frames)]));
    text.transpose().map_err(slot("system text of a try"))
}

/// The first user message of an agent that writes code.
pub fn code_opening(
    agent_loop: &AgentLoop,
    question: &str,
    opened: FileInfo,
) -> Result<Vec<Part>, RenderError> {
    let [width, height] = [opened.width, opened.height].map(|side| side.to_string());
    let values =
        [("question", question), ("video_info", &*opened.info), ("width", &*width), ("height", &*height)];
    around_frames(&agent_loop.opening, opened.shown, &values).map_err(slot("opening"))
}

/// The text of that message without a sample: its slots by their names, an image as `[image]`.
pub fn code_opening_text(agent_loop: &AgentLoop, question: &str) -> Result<String, RenderError> {
    let slots = ["video_info", "width", "height"].map(|name| (name, format!("{{{name}}}")));
    let values = slots.iter().map(|(name, text)| (*name, text.as_str()));
    let values: Vec<_> = values.chain([("question", question), ("frames", "[image]")]).collect();
    agent_loop.opening.render(&values).map_err(slot("opening"))
}

/// The message with the frames of a turn's calls in an agent's own loop; `turn` is the one that answers it.
pub fn frames_response(
    protocol: &Protocol,
    frame_loop: &FrameLoop,
    prompt: &str,
    turn: usize,
    (start, end): (f64, f64),
    frames: Vec<Part>,
) -> Result<Vec<Part>, RenderError> {
    let images = frames.iter().filter(|part| matches!(part, Part::Image(_))).count();
    let (n, start, end) = (images.to_string(), fixed1(start), fixed1(end));
    let values = [("n", n.as_str()), ("start", start.as_str()), ("end", end.as_str()), ("prompt", prompt)];
    let parts = around_frames(&protocol.crop_response, frames, &values).map_err(slot("crop response"))?;
    Ok(with_last_turn(frame_loop, turn, parts))
}

/// The message with the video of a call; `turn` counts the calls from 1.
pub fn clip_response(
    template: &Template,
    turn: usize,
    (start, end): (f64, f64),
    described: &[(&'static str, String)],
    frames: Vec<Part>,
) -> Result<Vec<Part>, RenderError> {
    let (turn, start, end) = (turn.to_string(), fixed1(start), fixed1(end));
    let about = described.iter().map(|(name, value)| (*name, value.as_str()));
    let values: Vec<(&str, &str)> =
        [("turn", turn.as_str()), ("start", &start), ("end", &end)].into_iter().chain(about).collect();
    around_frames(template, frames, &values).map_err(slot("crop response"))
}

/// The sentence that precedes the last turn, behind the text of its message.
pub(crate) fn with_last_turn(frame_loop: &FrameLoop, turn: usize, mut parts: Vec<Part>) -> Vec<Part> {
    if frame_loop.is_last(turn) && !frame_loop.last_turn.is_empty() {
        match parts.last_mut() {
            Some(Part::Text(text)) => text.push_str(&frame_loop.last_turn),
            _ => parts.push(Part::Text(frame_loop.last_turn.clone())),
        }
    }
    parts
}

/// The question of a later turn in an agent's own loop.
///
/// # Errors
/// The protocol has no template for the sample, or one asks for something else.
pub fn later_question(
    protocol: &Protocol,
    frame_loop: &FrameLoop,
    turn: usize,
    sample: &Sample,
    mode: &PromptMode,
    switches: &Switches,
) -> Result<String, RenderError> {
    let texts = frame_loop.later(turn);
    let texts = if texts.is_empty() { &protocol.questions } else { texts };
    question_text(protocol, texts, sample, mode, switches, None)
}

/// Frames where the template has its slot `frames`, in front without one, and the text around them.
fn around_frames(
    template: &Template,
    frames: Vec<Part>,
    values: &[(&str, &str)],
) -> Result<Vec<Part>, TemplateError> {
    let (before, after) =
        template.around("frames").unwrap_or_else(|| (Template::default(), template.clone()));
    let text = |template: &Template| -> Result<Option<Part>, TemplateError> {
        let text = template.render(values)?;
        Ok((!text.is_empty()).then_some(Part::Text(text)))
    };
    let (before, after) = (text(&before)?, text(&after)?);
    Ok(before.into_iter().chain(frames).chain(after).collect())
}
