//! What a run asks, of whom and why so: the lines before its first sample.

use std::path::Path;
use std::sync::Arc;

use paravt_reports::terminal::{COLUMNS, Text, fold};
use paravt_suite::backend::{Backend, BackendInfo};
use paravt_suite::data::DataRoot;
use paravt_suite::evaluate::Prepared;
use paravt_suite::plan::{Channel, CropMode, RunPlan};
use paravt_suite::protocol::Protocol;
use paravt_suite::redact;

use crate::commands::protocol::chosen::Chosen;

/// Columns of a label and the gap behind it.
const LABEL: usize = 10;

/// A label and what stands behind it.
type Line = (&'static str, String);

/// The lines of splits that run one after the other, each on its backend; what is the same for all of them once.
pub(crate) fn block(
    prepared: &[Prepared],
    backends: &[Arc<dyn Backend>],
    chosen: &Chosen,
    root: &DataRoot,
) -> Text {
    let mut text = Text::default();
    let mut before = Vec::new();
    for (run, backend) in prepared.iter().zip(backends) {
        let head = head(&backend.describe(), chosen, run.plan());
        let mut label = "";
        if head != before {
            head.iter().for_each(|line| add(&mut text, line));
            (before, label) = (head, "data");
        }
        add(&mut text, &(label, data(run, root)));
    }
    text
}

/// The lines of a single question.
pub(crate) fn of_one(backend: &BackendInfo, chosen: &Chosen, plan: &RunPlan) -> Text {
    let mut text = Text::default();
    head(backend, chosen, plan).iter().for_each(|line| add(&mut text, line));
    text
}

fn head(backend: &BackendInfo, chosen: &Chosen, plan: &RunPlan) -> Vec<Line> {
    let protocol = &*chosen.bound.protocol;
    let mut lines = vec![("model", model(backend)), ("protocol", chosen.describe())];
    lines.extend(chosen.notice().map(|notice| ("", notice)));
    lines.push(("mode", mode(plan, protocol)));
    lines.push(("frames", frames(plan, protocol)));
    lines
}

/// Adds a line, wrapped beside its label.
fn add(text: &mut Text, (label, body): &Line) {
    for (number, line) in fold(body, COLUMNS - LABEL).lines().enumerate() {
        let label = if number == 0 { *label } else { "" };
        text.line(format!("{label:LABEL$}{line}"));
    }
}

/// The model and where it runs.
fn model(backend: &BackendInfo) -> String {
    let detail = |name: &str| backend.details.get(name).map(String::as_str);
    let place = match (detail("base_urls"), detail("device")) {
        (Some(urls), _) => {
            let said = detail("servers").map(|said| format!(" ({said})")).unwrap_or_default();
            format!("at {urls}{said}")
        }
        (None, Some(device)) => {
            let dtype = detail("dtype").map(|dtype| format!(", {dtype}")).unwrap_or_default();
            format!("in this process: {} on {device}{dtype}", backend.name)
        }
        (None, None) => format!("by {}", backend.name),
    };
    redact::urls(&format!("{} {place}", backend.model))
}

/// Mode, turns and profile.
fn mode(plan: &RunPlan, protocol: &Protocol) -> String {
    let turns = match &protocol.agent {
        Some(agent_loop) => format!("its own loop of at most {} turns", agent_loop.turns()),
        None if protocol.offers_tool(&plan.mode) => {
            let calls = match plan.max_parallel {
                0 => "any number of calls".to_owned(),
                most => format!("{most} calls"),
            };
            let crops = if plan.crop == CropMode::Subagent { ", crops told by sub-agents" } else { "" };
            format!("tool {}, up to {} turns of {calls}{crops}", protocol.tool.name, plan.max_turns)
        }
        None if protocol.has_tool(&plan.mode) => "one call, the tool is the server's".to_owned(),
        None => "one call, no tool".to_owned(),
    };
    format!("{}: {turns}; profile {}", plan.mode, plan.profile())
}

/// What is shown of each video.
fn frames(plan: &RunPlan, protocol: &Protocol) -> String {
    let shown = match (plan.overview_frames(protocol), plan.channel) {
        _ if plan.is_blind() => "none".to_owned(),
        _ if protocol.is_about_images() && protocol.agent.is_none() => "the images, as they are".to_owned(),
        (Some(count), Channel::FramesVideo) => format!("{count} of each video, sent as one video"),
        (Some(count), _) => format!("{count} of each video, sent as images"),
        (None, Channel::Video) => {
            format!("sampled by the server: {} of each video", plan.switches().video_channel_frames)
        }
        (None, _) => "chosen by the agent's own rules".to_owned(),
    };
    let probe = plan.probe.map(|probe| format!(", probe {probe}")).unwrap_or_default();
    format!("{shown}{probe}")
}

/// Rows that are asked, and the folder in which they were found.
fn data(run: &Prepared, root: &DataRoot) -> String {
    let selection = run.selection();
    let (asked, rows) = (selection.sizes.expected, selection.split_rows);
    let rows = if asked == rows { format!("{rows} rows") } else { format!("{asked} of {rows} rows") };
    let times = match run.plan().repeat {
        1 => String::new(),
        times => format!(", each {times} times"),
    };
    let file = run.files().first();
    let folder = file.and_then(|file| {
        let beside = || file.parent().filter(|folder| *folder != Path::new(""));
        root.candidates().find(|root| file.starts_with(root)).or_else(beside)
    });
    let place = folder.map(|folder| format!(" in {}", folder.display())).unwrap_or_default();
    format!("{}: {rows}{times}{place}", run.task())
}
