//! `paravt-bench protocol show`: the texts that a model receives for one sample.

use anyhow::Context as _;
use paravt_suite::agent::Bound;
use paravt_suite::message::Part;
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{AgentLoop, Clips, CodeRules, PromptMode, Protocol, render};
use paravt_suite::sample::{Question, Sample};
use paravt_suite::task::{Task as _, TaskSpec};

use super::{ProtocolChoice, choose};
use crate::registry::{DataArgs, TaskFiles};

/// Flags of `protocol show`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Prompt mode; `paravt-bench protocol list` lists them.
    mode: PromptMode,
    /// Split; `paravt-bench tasks` lists them.
    task: String,
    /// Profile: `release` (as the released code), `paper` (comparable to the paper's table) or `strict` (corrected).
    #[arg(long, default_value_t)]
    profile: Profile,
    /// Protocol: native, nano, an imported one, e.g. paravt, or a protocol file.
    #[arg(long, default_value = "native", value_name = "NAME|FILE")]
    protocol: ProtocolChoice,
    /// Row of the split, counted from 0; needs its data [default: none, an invented sample].
    #[arg(long, value_name = "N")]
    row: Option<usize>,
    #[command(flatten)]
    data: DataArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let task = paravt_tasks::select(&[&args.task])?[0];
    if args.row.is_none() {
        args.data.check_unused(&TaskFiles::default(), "--row")?;
    }
    let Bound { protocol, .. } = paravt_agents::bind(choose(&args.protocol)?)?;
    protocol.system_text(&args.mode)?;
    let sample = match args.row {
        Some(row) => {
            let dataset = task.load(&args.data.root()?, args.profile)?;
            dataset.samples.into_iter().find(|sample| sample.row == row).with_context(|| {
                format!("--row {row}: {} has no such row under the profile {}", args.task, args.profile)
            })?
        }
        None => example(task.spec()),
    };
    let name = sample.video_name();
    let switches = args.profile.switches();
    let user = render::user_text(&protocol, &sample, &args.mode, &switches, &name, None)?;
    println!("--- protocol {} {} ---", protocol.name, protocol.hash());
    show_system(&protocol, &args.mode)?;
    if let Some((agent_loop, code)) = protocol.code() {
        println!("--- user ---\n{}", render::code_opening_text(agent_loop, &user)?);
        return show_code(&code.rules);
    }
    println!("--- user (after the overview) ---");
    // What needs the video itself, its length or size, is not shown.
    let given = ["fps", "count", "duration", "file_duration"].map(by_name);
    let opening = protocol
        .agent
        .as_ref()
        .map(|agent_loop| render::opening(agent_loop, &sample, &user, (None, &given), Vec::new()));
    match opening {
        Some(Ok(parts)) => println!("{}", texts(&parts)),
        _ => println!("{user}"),
    }
    let Some(agent_loop) = &protocol.agent else {
        let force = render::force(&protocol, sample.gold.kind())?;
        println!("--- forced answer ({} tokens) ---\n{}", force.max_tokens, force.text);
        return Ok(());
    };
    if let Some(again) = agent_loop.continued(&sample) {
        let (after, limit) = (&again.after, again.max_tokens);
        println!(
            "--- behind the last {after} of the reply, continued ({limit} tokens) ---\n{}",
            again.opening
        );
    }
    if let Some(clips) = agent_loop.clips() {
        return show_clips(&protocol, clips);
    }
    let Some(frames) = agent_loop.frames() else { return Ok(()) };
    let turn = |turn| -> anyhow::Result<String> {
        let prompt = render::later_question(&protocol, frames, turn, &sample, &args.mode, &switches)?;
        Ok(texts(&render::frames_response(&protocol, frames, &prompt, turn, (0.0, 0.0), Vec::new())?))
    };
    let turns = (1..frames.turns).map(turn).collect::<Result<Vec<_>, _>>()?;
    for (numbers, text) in numbered(&turns) {
        match text {
            "" => println!("--- turn {numbers}: frames or an error alone ---"),
            _ => println!("--- turn {numbers}, around the frames of the calls ---\n{text}"),
        }
    }
    Ok(())
}

/// Texts with their numbers from 1, equal neighbours as one: `1`, `2 to 9`.
fn numbered(texts: &[String]) -> impl Iterator<Item = (String, &str)> {
    let mut first = 1;
    texts.chunk_by(|a, b| a == b).map(move |same| {
        let (from, to) = (first, first + same.len() - 1);
        first = to + 1;
        (if from == to { from.to_string() } else { format!("{from} to {to}") }, same[0].as_str())
    })
}

fn texts(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A slot with its name for a value.
fn by_name(slot: &'static str) -> (&'static str, String) {
    (slot, format!("{{{slot}}}"))
}

/// The texts of an agent that is shown a video for each call.
fn show_clips(protocol: &Protocol, clips: &Clips) -> anyhow::Result<()> {
    let given = ["turn", "start", "end", "fps", "count", "frames", "reason"].map(by_name);
    let given: Vec<(&str, &str)> = given.iter().map(|(slot, value)| (*slot, value.as_str())).collect();
    for (title, text) in [
        ("a call's video", &protocol.crop_response),
        ("a call that shows nothing", &protocol.crop_error),
        ("the last turn's video", &clips.last_response),
        ("the same without one", &clips.last_error),
    ] {
        println!("--- {title} ---\n{}", text.render(&given)?);
    }
    println!("--- chat template ---\n{}", clips.chat_template);
    Ok(())
}

/// The system text, or those of the tries of an agent that begins afresh.
fn show_system(protocol: &Protocol, mode: &PromptMode) -> anyhow::Result<()> {
    let frames = protocol.agent.as_ref().and_then(AgentLoop::frames);
    let Some(frames) = frames.filter(|frames| !frames.tries.system.is_empty()) else {
        println!("--- system ---\n{}", protocol.system_text(mode)?);
        return Ok(());
    };
    let text = |number| render::system_of_try(frames, &frames.policy, number).map(Option::unwrap_or_default);
    let tries = (0..frames.tries.count).map(text).collect::<Result<Vec<_>, _>>()?;
    for (numbers, text) in numbered(&tries) {
        println!("--- system of try {numbers} of {} ---\n{text}", frames.tries.count);
    }
    Ok(())
}

/// The texts of an agent that writes code.
fn show_code(rules: &CodeRules) -> anyhow::Result<()> {
    let texts = &rules.texts;
    let given = ["width", "height", "frames", "fps"].map(by_name);
    if !texts.video.0.is_empty() {
        let lines = texts.video.render(&given.each_ref().map(|(slot, text)| (*slot, &**text)))?;
        println!("--- {{video_info}} ---\n{lines}");
    }
    let figure = texts.figure.render(&[("index", "0"), ("figure", "[image]")])?;
    let shown = texts.heading.clone() + &figure;
    println!("--- after code ---\n{}", texts.result.render(&[("stdout", "{stdout}"), ("figures", &shown)])?);
    if let Some(printed) = &texts.printed {
        println!("--- after code that showed nothing ---\n{}", printed.render(&[("stdout", "{stdout}")])?);
    }
    for reason in [texts.raised.render(&[("reason", "{reason}")])?, texts.neither.clone()] {
        println!(
            "--- after an error, where the conversation goes on ---\n{}",
            texts.error.render(&[("reason", &reason)])?
        );
    }
    Ok(())
}

/// A sample that shows a template without data.
pub(crate) fn example(spec: &TaskSpec) -> Sample {
    let gold = spec.metric.empty_gold();
    let (stem, options) = if gold.interval().is_some() {
        ("a person opens the red door.", Vec::new())
    } else {
        ("Which door is opened last?", vec!["The red one".to_owned(), "The green one".to_owned()])
    };
    let question = Question { stem: stem.into(), letters: "AB".into(), options, subtitles: None };
    Sample::new(&spec.name, "example".into(), 0, "example.mp4".into(), question, gold)
}
