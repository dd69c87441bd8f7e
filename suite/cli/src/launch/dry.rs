//! `--dry-run`: what would be sent, how many calls and tokens.

use paravt_suite::frames::CachedFrames;
use paravt_suite::media::{VideoRequest, planned_size};
use paravt_suite::protocol::render;
use paravt_suite::run::{Channel, CropMode};
use paravt_suite::sample::Sample;

use super::Launch;

/// Pixels along one side that become one visual token (patch 16, merged 2 by 2).
const TOKEN_SIDE: u64 = 32;
/// English text averages about this many bytes a token; good enough for a forecast.
const BYTES_PER_TOKEN: u64 = 4;

/// Prints counts and the first sample's texts.
pub fn print(launch: &Launch<'_>, samples: &[Sample], _frames: &CachedFrames) -> anyhow::Result<()> {
    let plan = &launch.plan;
    let system = render::dialect_system_text(&launch.protocol, plan.mode, plan.dialect)?;
    let (mut text_bytes, mut visual, mut frames, mut without) = (0, 0, 0, 0);
    for sample in samples {
        let name =
            sample.video.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let user = render::user_text(&launch.protocol, sample, plan.mode, &plan.switches, &name, None)?;
        text_bytes += (system.len() + user.len()) as u64;
        if plan.channel == Channel::Image {
            match planned_size(
                &sample.video,
                &VideoRequest::overview(plan.nframes).with_reader(plan.switches.reader),
            ) {
                Ok((count, width, height)) => {
                    frames += count as u64;
                    visual += count as u64 * tokens(width) * tokens(height);
                }
                Err(_) => without += 1,
            }
        }
    }
    let turns = if plan.mode.is_agentic() { plan.max_turns + 1 } else { 1 };
    let per_turn = if plan.crop == CropMode::Subagent { 1 + plan.max_parallel } else { 1 };
    let first = &samples[0];
    let name = first.video.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    println!("{}: {} samples into {}", launch.task.spec().name, samples.len(), launch.dir.display());
    println!("  protocol {} ({})", launch.protocol.name, launch.protocol.hash());
    println!(
        "  profile {}, mode {}, crop {:?}, at most {} tokens a turn",
        plan.profile, plan.mode, plan.crop, plan.max_tokens
    );
    println!("  model calls: {} to {}", samples.len(), samples.len() * turns * per_turn);
    println!(
        "  first turns: about {} text tokens, {visual} visual tokens in {frames} frames",
        text_bytes / BYTES_PER_TOKEN
    );
    if without > 0 {
        println!("  {without} samples have no usable frames (missing, damaged or too short video)");
    }
    println!("\n--- system ---\n{system}");
    let user = render::user_text(&launch.protocol, first, plan.mode, &plan.switches, &name, None)?;
    println!("--- user (sample {}) ---\n{user}\n", first.uid);
    Ok(())
}

fn tokens(side: u32) -> u64 {
    (u64::from(side) + TOKEN_SIDE / 2) / TOKEN_SIDE
}
