//! `--dry-run`: what would be sent, how many calls and tokens.

use paravt_suite::media::{VideoRequest, planned_size};
use paravt_suite::protocol::render;
use paravt_suite::run::{Channel, CropMode, RunPlan};
use paravt_suite::sample::Sample;

use super::Launch;

/// Pixels along one side that become one visual token (patch 16, merged 2 by 2).
const TOKEN_SIDE: u64 = 32;
/// English text averages about this many bytes a token; good enough for a forecast.
const BYTES_PER_TOKEN: u64 = 4;

/// Prints counts and the first sample's texts.
pub fn print(launch: &Launch<'_>, samples: &[Sample]) -> anyhow::Result<()> {
    let plan = &launch.plan;
    let system = render::dialect_system_text(&launch.protocol, plan.mode, plan.dialect)?;
    let (mut text_bytes, mut visual, mut frames, mut without) = (0, 0, 0, 0);
    for sample in samples {
        let name = sample.video_name();
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
    let first = &samples[0];
    let name = first.video_name();
    println!("{}: {} samples into {}", launch.task.spec().name, samples.len(), launch.dir.display());
    println!("  protocol {} ({})", launch.protocol.name, launch.protocol.hash());
    println!(
        "  profile {}, mode {}, crop {:?}, at most {} tokens a turn",
        plan.profile, plan.mode, plan.crop, plan.max_tokens
    );
    println!("  model calls: {}", model_calls(samples.len(), plan));
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

/// Fewest and most model calls of a run.
fn model_calls(samples: usize, plan: &RunPlan) -> String {
    let subagents = plan.mode.is_agentic() && plan.crop == CropMode::Subagent;
    if subagents && plan.max_parallel == 0 {
        return format!("{samples} or more (no limit on the tool calls of a turn)");
    }
    let turns = plan.max_turns as u128;
    // The forced answer follows the last turn with tools; without turns, the first answer's calls run.
    let main = if plan.mode.is_agentic() { turns + 1 } else { 1 };
    let crops = if subagents { turns.max(1).saturating_mul(plan.max_parallel as u128) } else { 0 };
    let most = main.saturating_add(crops).saturating_mul(samples as u128);
    format!("{samples} to {most}")
}

fn tokens(side: u32) -> u64 {
    (u64::from(side) + TOKEN_SIDE / 2) / TOKEN_SIDE
}
