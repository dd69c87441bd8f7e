//! A graph as text: every stage with its inputs, its output and its command.

use std::fmt::Write as _;

use paravt_preflight::{Bound, Needs};
use paravt_supervise::{variable, words};

use crate::graph::{Check, Graph, Stage, Work};
use crate::serve::{Engine, Fleet};

impl Graph {
    /// All stages in order, numbered from 1.
    pub fn plan(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for (number, stage) in self.stages().iter().enumerate() {
            let _ = writeln!(text, "{:>3}. {}", number + 1, stage.line());
            for (name, value) in self.details(stage) {
                let _ = writeln!(text, "       {name:<8} {value}");
            }
        }
        text
    }

    /// Inputs, output and command of a stage, where it has them.
    fn details(&self, stage: &Stage) -> Vec<(&'static str, String)> {
        let mut details = Vec::new();
        let inputs: Vec<&str> = self.inputs(stage).map(Stage::name).collect();
        if !inputs.is_empty() {
            details.push(("inputs", inputs.join(", ")));
        }
        if let Some(command) = stage.work().command() {
            details.push(("command", command));
        }
        if let Work::Check(Check::Machine(preflight)) = stage.work() {
            details.extend(needs(&preflight.needs).into_iter().map(|line| ("needs", line)));
        }
        if let Work::Prepare(prepare) = stage.work() {
            details.extend(prepare.commands(&self.out).into_iter().map(|line| ("command", line)));
        }
        if let Work::Serve(Fleet { serve, .. }) = stage.work() {
            let named = serve.environment.iter().map(|(name, value)| variable(name, value));
            let gpu = ["CUDA_VISIBLE_DEVICES={gpu}, where there is one".to_owned()];
            details.push(("environ", named.chain(gpu).collect::<Vec<_>>().join(" ")));
            let ports = format!("{} and up; ready within {} s", serve.port, serve.ready_seconds);
            details.push(("ports", ports));
        }
        if let (Work::Launch(launch), Some(folder)) = (stage.work(), stage.folder()) {
            for shown in launch.job.shown(folder) {
                details.push(("command", shown.line));
                details.push(("environ", shown.environment.join(" ")));
            }
        }
        if let Work::Outside(outside) = stage.work() {
            let variables = outside.environment.iter().map(|(name, value)| variable(name, value));
            let variables = variables.collect::<Vec<_>>().join(" ");
            let fields = [
                ("command", outside.command.as_deref().map(|command| words(&[command]).concat())),
                ("environ", Some(variables).filter(|text| !text.is_empty())),
                ("output", outside.output.clone()),
                ("missing", Some(outside.missing.clone())),
            ];
            details.extend(fields.into_iter().filter_map(|(name, value)| Some((name, value?))));
        }
        if let Some(folder) = stage.folder() {
            details.push(("output", folder.display().to_string()));
        }
        details.extend(stage.estimate().words().map(|words| ("size", words)));
        details.extend(stage.deviations().iter().map(|text| ("deviates", text.clone())));
        details
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

impl Work {
    /// The command that does the work outside this process, or that helps where a check fails.
    fn command(&self) -> Option<String> {
        match self {
            Self::Check(Check::Machine(preflight)) => {
                Some(format!("paravt-bench doctor --for {}", preflight.recipe))
            }
            Self::Fetch(fetch) => Some(fetch.command()),
            Self::Materialize => Some(
                "paravt-bench data materialize --rows <snapshot of ParaVT-Parquet> --media <paravt-source> --out <output>"
                    .to_owned(),
            ),
            Self::Check(Check::Protocol(from)) => Some(format!("paravt-bench protocol import --from {from}")),
            Self::Check(Check::Data(splits)) => Some(format!("paravt-bench data check {}", splits.join(" "))),
            Self::Serve(fleet) if fleet.serve.engine == Engine::Candle => None,
            // Running the stage says what is wrong with it.
            Self::Serve(fleet) => fleet.command_line().ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{GraphOptions, Recipe};

    fn plan(name: &str, options: &GraphOptions) -> String {
        Recipe::load(name).unwrap().graph(options).unwrap().plan()
    }

    /// Another name of a stage's folder means that finished stages of users are made again.
    #[test]
    fn plans_of_the_built_in_recipes() {
        let options = GraphOptions::new("out");
        for name in Recipe::names() {
            insta::assert_snapshot!(name.clone(), plan(&name, &options));
        }
        let own = GraphOptions { backend: Some("--base-url".to_owned()), ..options };
        insta::assert_snapshot!("paravt-8b-own-server", plan("paravt-8b", &own));
    }
}
