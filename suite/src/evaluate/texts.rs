//! Whether a protocol has the texts of a run, before the first sample is decoded and asked.

use std::collections::BTreeMap;

use super::RunError;
use crate::plan::{Channel, CropMode, RunPlan};
use crate::probe::Probe;
use crate::protocol::render::{self, RenderError};
use crate::protocol::{Protocol, Template};
use crate::sample::Sample;

/// Refuses a protocol about videos for a split of images, the other way round, and images sent as a video.
///
/// # Errors
/// The protocol or channel, and one that goes with the split.
pub fn check_medium(
    protocol: &Protocol,
    plan: &RunPlan,
    (split, has_images): (&str, bool),
) -> Result<(), RunError> {
    let name = &protocol.name;
    let message = match (has_images, protocol.is_about_images()) {
        (true, false) => format!(
            "{split} asks about images, protocol {name} about videos: use --protocol images, or an agent's for images \
             such as pyvision-image"
        ),
        (false, true) => format!(
            "{split} asks about videos, protocol {name} about images: use --protocol native, or an agent's for videos"
        ),
        (true, true) if plan.channel != Channel::Image => {
            format!("--channel: the images of {split} are sent as images; leave it out")
        }
        (true, true) if plan.probe.is_some_and(|probe| probe != Probe::Blind && probe.changes_frames()) => {
            format!("--probe: {split} has images, and this probe changes the frames of a video")
        }
        _ => return Ok(()),
    };
    Err(RunError::Medium(message))
}

/// Renders the texts of one sample of every kind of question: those of the first message, of later turns, of the forced
/// answer, of sub-agents.
///
/// # Errors
/// The protocol lacks one of them, so that every sample of the kind would fail.
pub fn check_texts<'a>(
    protocol: &Protocol,
    plan: &RunPlan,
    samples: impl IntoIterator<Item = &'a Sample>,
) -> Result<(), RenderError> {
    render::dialect_system_text(protocol, &plan.mode, plan.dialect)?;
    let kinds: BTreeMap<_, _> = samples
        .into_iter()
        .map(|sample| ((sample.gold.kind(), sample.gold.is_excluded_from_headline()), sample))
        .collect();
    kinds.into_values().try_for_each(|sample| check_sample(protocol, plan, sample))
}

fn check_sample(protocol: &Protocol, plan: &RunPlan, sample: &Sample) -> Result<(), RenderError> {
    let (mode, switches) = (&plan.mode, plan.switches());
    render::user_text(protocol, sample, mode, switches, &sample.video_name(), Some(1.0))?;
    if let Some(agent_loop) = &protocol.agent {
        let Some(frames) = agent_loop.frames() else { return Ok(()) };
        let later = |turn| render::later_question(protocol, frames, turn, sample, mode, switches).map(drop);
        return (1..frames.turns).try_for_each(later);
    }
    if !protocol.offers_tool(mode) {
        return Ok(());
    }
    render::force(protocol, sample.gold.kind())?;
    let is_missing = |text: &Template| text.0.is_empty();
    match plan.crop {
        CropMode::Subagent if is_missing(&protocol.subagent_prompt) => missing(protocol, "subagent_prompt"),
        CropMode::Subagent if is_missing(&protocol.subagent_response) => {
            missing(protocol, "subagent_response")
        }
        CropMode::Subagent | CropMode::Frames => Ok(()),
    }
}

fn missing(protocol: &Protocol, field: &str) -> Result<(), RenderError> {
    let what = format!("`{field}` for --crop subagent");
    Err(RenderError::NoText { protocol: protocol.name.clone(), what })
}
