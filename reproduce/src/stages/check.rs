//! Preconditions of later stages, checked every time.

use std::path::Path;

use crate::preflight::{Bound, Needs};

use crate::error::Error;
use crate::host::{Check, Event, Outcome};
use crate::work::{Role, StageContext, Work};

impl Work for Check {
    fn role(&self) -> Role {
        if matches!(self, Self::Machine(_)) { Role::Preflight } else { Role::Check }
    }

    fn title(&self) -> String {
        match self {
            Self::Machine(preflight) => format!("whether this machine has what {} needs", preflight.recipe),
            Self::Protocol(from) => format!("the prompt texts, imported from {from} where they are not yet"),
            Self::OtherProtocol(name) => format!("the prompt texts of protocol {name}"),
            Self::AgentProtocol(name) => {
                format!("the prompt texts of {name}, imported from its authors where they are not yet")
            }
            Self::Data(splits) => format!("files of {}", splits.join(", ")),
            Self::Backend(flags) => format!("what answers is yours ({flags})"),
        }
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        (context.event)(Event::Busy("checking"));
        context.host.check(self, &context.coming)?;
        Ok(Outcome::Complete)
    }

    /// The command that helps where the check fails.
    fn details(&self, _: &Path, _: &Path) -> Vec<(&'static str, String)> {
        let command = |text: String| vec![("command", text)];
        match self {
            Self::Machine(preflight) => {
                let mut details = command(format!("paravt-bench doctor --for {}", preflight.recipe));
                details.extend(needs(&preflight.needs).into_iter().map(|line| ("needs", line)));
                details
            }
            Self::Protocol(from) => {
                let from = paravt_files::quote_path(Path::new(from));
                command(format!("paravt-bench protocol import --from {from}"))
            }
            Self::AgentProtocol(name) => {
                let release = paravt_agents::releases().find(|release| release.name == name);
                let from = release.map_or("URL", |release| release.repository);
                command(format!("paravt-bench protocol import {name} --from https://github.com/{from}"))
            }
            Self::Data(splits) => command(format!("paravt-bench data check {}", splits.join(" "))),
            Self::OtherProtocol(_) | Self::Backend(_) => Vec::new(),
        }
    }

    fn prints(&self) -> bool {
        true
    }
}

/// What a machine needs, a line for each group.
fn needs(needs: &Needs) -> Vec<String> {
    let bound = |bound: &Bound| match (bound.refuse, bound.warn) {
        (Some(least), Some(good)) if good != least => format!("{least}, better {good}"),
        (least, good) => least.or(good).map(|least| least.to_string()).unwrap_or_default(),
    };
    let mut lines = Vec::new();
    if let Some(gpus) = &needs.gpus {
        let capability = gpus.capability.as_ref();
        let capability =
            capability.map(|(low, high)| format!(", compute capability {low} to {high}")).unwrap_or_default();
        lines.push(format!(
            "GPUs: {}; GiB each: {}{capability}",
            bound(&gpus.count),
            bound(&gpus.memory_gib)
        ));
    }
    let amounts =
        [("memory GiB", &needs.memory_gib), ("/dev/shm GiB", &needs.shm_gib), ("processors", &needs.cores)];
    let limits = [("open files", &needs.open_files), ("processes", &needs.processes)];
    let disks = needs.disk_gib.iter().map(|(name, amount)| (format!("disk GiB in {name}"), amount));
    let named = amounts.into_iter().chain(limits).map(|(name, amount)| (name.to_owned(), amount));
    let words = named.chain(disks).filter(|(_, amount)| !amount.is_empty());
    let words: Vec<String> = words.map(|(name, amount)| format!("{name}: {}", bound(amount))).collect();
    if !words.is_empty() {
        lines.push(words.join("; "));
    }
    let tools: Vec<&str> = needs.tools.iter().map(|tool| tool.name.as_str()).collect();
    if !tools.is_empty() {
        lines.push(format!("programs: {}", tools.join(", ")));
    }
    lines
}
