//! Forecast of a run: calls, tokens, the first sample's texts.

use std::path::Path;

use super::select;
use super::{Evaluation, RunError, Workspace, check_medium, check_texts};
use crate::media::{MediaError, VideoFile, VideoRequest, planned_size};
use crate::plan::{Channel, CropMode, RunPlan};
use crate::protocol::{AgentLoop, FramePolicy, Protocol, render};
use crate::sample::Sample;
use crate::tokens;

/// Forecast of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    pub plan: RunPlan,
    /// SHA-256 of the protocol.
    pub protocol_hash: String,
    pub samples: usize,
    /// Fewest and most model calls; no maximum where the tool calls of a turn have no limit.
    pub calls: (u128, Option<u128>),
    /// Text tokens of the first turns, about.
    pub text_tokens: u64,
    /// Visual tokens of the first turns, where frames are sampled here.
    pub visual_tokens: u64,
    /// Tokens of all prompts, fewest and most, and of all replies; no maximum where nothing limits them.
    pub prompt_tokens: Range,
    pub completion_tokens: Range,
    /// Frames of the first turns, where they are sampled here.
    pub frames: u64,
    /// Samples whose video gives no frames: missing, damaged or too short.
    pub without_frames: usize,
    pub system: String,
    /// The first sample's uid.
    pub first_uid: String,
    /// The first sample's user text.
    pub first_user: String,
    /// What a user should know of data and settings before the run.
    pub warnings: Vec<String>,
}

/// Fewest and most.
pub type Range = (u64, Option<u64>);

/// Counts what a run would send. Sends nothing, writes nothing.
///
/// # Errors
/// Settings or data that cannot be used, or a sample that the protocol has no text for.
pub fn forecast(run: &Evaluation<'_>, workspace: &Workspace) -> Result<Forecast, RunError> {
    let protocol = &*run.protocol;
    let config = run.effective_config();
    let plan = config.plan(protocol)?;
    let selected = select::samples(run.task, plan.profile(), &config, &workspace.data)?;
    let samples = &selected.samples;
    check_medium(protocol, &plan, (&run.task.spec().name, run.task.is_about_images()))?;
    check_texts(protocol, &plan, samples)?;
    let own = protocol.agent.as_ref().and_then(AgentLoop::frames);
    let of_try = own.map(|frames| render::system_of_try(frames, &frames.policy, 0)).transpose()?.flatten();
    let system = match of_try {
        Some(text) => text,
        None => render::dialect_system_text(protocol, &plan.mode, plan.dialect)?.to_owned(),
    };
    let user = |sample: &Sample| -> Result<String, RunError> {
        let name = sample.video_name();
        let text = render::user_text(protocol, sample, &plan.mode, plan.switches(), &name, None)?;
        match protocol.code() {
            Some((agent_loop, _)) => Ok(render::code_opening_text(agent_loop, &text)?),
            None => Ok(text),
        }
    };
    // What code has it may see alone, and a model at most in so many pixels.
    let shown = protocol.code().map(|(_, code)| code.rules.clues.as_ref().and_then(|clues| clues.shown));
    let (shows_images, most_pixels) =
        (shown != Some(None), shown.flatten().map_or(u32::MAX, |[_, most]| most));
    let (mut text_bytes, mut visual_tokens, mut frames, mut without_frames) = (0, 0, 0, 0);
    for sample in samples {
        text_bytes += (system.len() + user(sample)?.len()) as u64;
        if sample.is_about_images() && !plan.is_blind() && shows_images {
            for image in sample.media() {
                match VideoFile::open(&selected.videos.resolve(image)) {
                    Ok(file) => {
                        let facts = file.facts();
                        frames += 1;
                        let pixels = f64::from(facts.width) * f64::from(facts.height);
                        let shrunk = (f64::from(most_pixels) / pixels).sqrt().min(1.0);
                        let [width, height] =
                            [facts.width, facts.height].map(|side| (f64::from(side) * shrunk) as u32);
                        visual_tokens += tokens::of_image(width, height);
                    }
                    Err(_) => without_frames += 1,
                }
            }
        } else if plan.channel.samples_here() && !plan.is_blind() && protocol.code().is_none() {
            let overview = VideoRequest::overview(plan.nframes).with_reader(plan.switches().reader);
            let overview = plan.probe.map_or(overview, |probe| probe.request(overview));
            let video = selected.videos.resolve(&sample.video);
            let planned = match own {
                Some(frames) => overview_of(&frames.policy, &video),
                None => planned_size(&video, &overview),
            };
            match planned {
                Ok((count, width, height)) => {
                    frames += count as u64;
                    visual_tokens += match plan.channel {
                        Channel::FramesVideo => tokens::of_frames(count, (width, height)),
                        Channel::Image | Channel::Video => count as u64 * tokens::of_image(width, height),
                    };
                }
                Err(_) => without_frames += 1,
            }
        }
    }
    let first = &samples[0];
    let times = plan.repeat as u64;
    let warnings = selected.warning.into_iter().chain(plan.warnings());
    let calls = model_calls(samples.len() * plan.repeat, &plan, protocol);
    let (text_tokens, visual_tokens) = (tokens::of_text(times * text_bytes), times * visual_tokens);
    let first_turns = text_tokens + visual_tokens;
    let of_frame = visual_tokens.div_ceil((times * frames).max(1));
    let answers = times * samples.len() as u64;
    let most = most_prompt_tokens(first_turns, answers, of_frame, &plan, protocol);
    let replies =
        calls.1.and_then(|calls| u64::try_from(calls).ok()?.checked_mul(u64::from(plan.max_tokens)));
    Ok(Forecast {
        protocol_hash: protocol.hash(),
        samples: samples.len(),
        calls,
        prompt_tokens: (first_turns, most),
        completion_tokens: (answers, replies),
        text_tokens,
        visual_tokens,
        frames: times * frames,
        without_frames,
        system,
        first_uid: first.uid.clone(),
        first_user: user(first)?,
        warnings: warnings.collect(),
        plan,
    })
}

/// Maximum of frames in the first turn of an agent's own loop, and their size.
fn overview_of(policy: &FramePolicy, video: &Path) -> Result<(usize, u32, u32), MediaError> {
    let facts = VideoFile::open(video)?.facts();
    let policy = policy.of(&facts);
    let count = policy.overview.map_or(0, |overview| overview.frames.min(facts.frames));
    let size = policy.size.apply((facts.width, facts.height), 1.0, count);
    let (width, height) = size.map_err(MediaError::Request)?;
    Ok((count, width, height))
}

/// Most tokens of all prompts: each call sends its conversation again, after replies of `max_tokens` and calls for as many
/// frames as the protocol allows. `None` where an agent's own loop, a sub-agent or an endless list of calls decides.
fn most_prompt_tokens(
    first_turns: u64,
    answers: u64,
    of_frame: u64,
    plan: &RunPlan,
    protocol: &Protocol,
) -> Option<u64> {
    if protocol.agent.is_some() {
        return None;
    }
    if !protocol.offers_tool(&plan.mode) {
        return Some(first_turns);
    }
    if plan.max_parallel == 0 || plan.crop == CropMode::Subagent {
        return None;
    }
    let counts = [plan.max_turns, plan.max_parallel, protocol.tool.max_frames];
    let [turns, parallel, frames] = counts.map(|count| count as u128);
    let added = u128::from(plan.max_tokens) + parallel.checked_mul(frames)?.checked_mul(of_frame.into())?;
    let again = turns.checked_mul(turns + 1)? / 2;
    let all = u128::from(first_turns).checked_mul(turns + 1)?;
    u64::try_from(all.checked_add(added.checked_mul(again)?.checked_mul(answers.into())?)?).ok()
}

/// Fewest and most model calls of a run.
fn model_calls(samples: usize, plan: &RunPlan, protocol: &Protocol) -> (u128, Option<u128>) {
    let fewest = samples as u128;
    let tool = protocol.offers_tool(&plan.mode);
    let tries =
        protocol.agent.as_ref().and_then(AgentLoop::frames).map_or(1, |frames| frames.tries.count) as u128;
    let subagents = tool && plan.crop == CropMode::Subagent;
    if subagents && plan.max_parallel == 0 {
        return (fewest, None);
    }
    let turns = plan.max_turns as u128;
    // The forced answer follows the last turn with tools; without turns, the first answer's calls run.
    let main = if tool { turns + 1 } else { 1 };
    let crops = if subagents { turns.max(1).saturating_mul(plan.max_parallel as u128) } else { 0 };
    (fewest, Some(main.saturating_add(crops).saturating_mul(tries).saturating_mul(fewest)))
}
