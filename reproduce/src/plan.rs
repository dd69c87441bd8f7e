//! A graph as text: a table of its stages for the eye, or every stage with its inputs, its output and its command.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use paravt_engines::Job;
use paravt_preflight::{Bound, Needs};
use paravt_supervise::{variable, words};

use crate::graph::{Check, Graph, Stage, Work};
use crate::serve::{Engine, Fleet};

/// Columns of the table.
const COLUMNS: usize = 100;

impl Graph {
    /// A line for each stage with its hours, GB and GPU hours as far as they are known; evaluations that differ only in their
    /// split share one. Then what is done otherwise than in the published code, each once.
    pub fn table(&self) -> String {
        let mut text = format!("{}\n\n", self.title);
        let row = |number: &str, name: &str, [hours, gb, gpu]: [Option<f64>; 3], what: &str| {
            let figure = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.1}"));
            let (hours, gb, gpu) = (figure(hours), figure(gb), figure(gpu));
            cut(&format!("{number:>6} {name:<18} {hours:>6} {gb:>7} {gpu:>6}  {what}"))
        };
        let head = format!("{:>6} {:<18} {:>6} {:>7} {:>6}  does", "", "stage", "hours", "GB", "GPU h");
        let _ = writeln!(text, "{head}");
        let mut sums = [0.0; 3];
        let mut rest = self.stages().iter().enumerate().peekable();
        while let Some((index, stage)) = rest.next() {
            let first = index + 1;
            let Some(evaluated) = stage.family() else {
                let estimate = stage.estimate();
                let gpu =
                    estimate.hours.map(|hours| hours * self.gpus(stage) as f64).filter(|hours| *hours > 0.0);
                let figures = [estimate.hours, estimate.gb, gpu];
                for (sum, figure) in sums.iter_mut().zip(figures) {
                    *sum += figure.unwrap_or_default();
                }
                let _ = writeln!(
                    text,
                    "{}",
                    row(&format!("{first}."), &stage.label(), figures, &stage.work().title())
                );
                continue;
            };
            // Those of all splits, by the name of the run.
            let mut runs = BTreeMap::from([(evaluated, 1)]);
            let mut last = first;
            while let Some((index, other)) = rest.next_if(|(_, other)| other.family().is_some()) {
                *runs.entry(other.family().unwrap_or_default()).or_insert(0) += 1;
                last = index + 1;
            }
            let runs: Vec<String> =
                runs.iter().map(|(run, count)| format!("{run} on {count} splits")).collect();
            let number = if last > first { format!("{first}-{last}.") } else { format!("{first}.") };
            let _ = writeln!(text, "{}", row(&number, "evaluations", [None; 3], &runs.join(", ")));
        }
        let known = sums.map(|sum| Some(sum).filter(|sum| *sum > 0.0));
        if known.iter().any(Option::is_some) {
            let evaluates = if self.evaluations().next().is_some() {
                "; the evaluations' hours are not known"
            } else {
                ""
            };
            let _ =
                writeln!(text, "{}", row("", "sum", known, &format!("what is known beforehand{evaluates}")));
        }
        let deviations = self.all_deviations();
        if !deviations.is_empty() {
            let _ = writeln!(text, "\notherwise than the published code ({}):", deviations.len());
        }
        for (deviation, stages) in deviations {
            let _ = writeln!(text, "{}", cut(&format!("  {}: {deviation}", stages.join(", "))));
        }
        let _ = writeln!(
            text,
            "\n-v shows commands, folders and every word; --only STAGE that stage with the files it generates"
        );
        text
    }

    /// What the stages do otherwise than the published code; each text once, with the stages that it is about. Of the
    /// evaluations, the first one's name stands for all.
    fn all_deviations(&self) -> Vec<(&str, Vec<&str>)> {
        let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
        for stage in self.stages() {
            let name = if stage.family().is_some() { "evaluations" } else { stage.name() };
            for text in stage.deviations() {
                match found.iter_mut().find(|(known, _)| known == text) {
                    Some((_, names)) if names.contains(&name) => {}
                    Some((_, names)) => names.push(name),
                    None => found.push((text, vec![name])),
                }
            }
        }
        found
    }

    /// Every stage that `is_shown`, numbered from 1, with its inputs, its output and its commands. A deviation is shown at
    /// the first stage that has it.
    pub fn plan(&self, is_shown: &dyn Fn(&Stage) -> bool) -> String {
        let mut text = format!("{}\n", self.title);
        let mut known: Vec<&str> = Vec::new();
        for (number, stage) in self.stages().iter().enumerate().filter(|(_, stage)| is_shown(stage)) {
            let _ = writeln!(text, "{:>3}. {}", number + 1, stage.line());
            for (name, value) in self.details(stage) {
                let _ = writeln!(text, "       {name:<8} {value}");
            }
            for deviation in stage.deviations() {
                if !known.contains(&deviation.as_str()) {
                    known.push(deviation);
                    let _ = writeln!(text, "       deviates {deviation}");
                }
            }
        }
        text
    }

    /// The files that the programs of a stage get from here, as they would be written now: their names and texts.
    pub fn files(&self, stage: &Stage) -> Vec<(&'static str, String)> {
        match (stage.work(), stage.folder()) {
            (Work::Launch(launch), Some(folder)) => match &launch.job {
                Job::Rl(job) => job.files(folder),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
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
        details
    }
}

/// A line that fits the table.
fn cut(line: &str) -> String {
    let line = line.trim_end();
    match line.char_indices().nth(COLUMNS - 1) {
        Some((end, last)) if end + last.len_utf8() < line.len() => format!("{}…", &line[..end]),
        _ => line.to_owned(),
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
        let graph = Recipe::load(name).unwrap().graph(options).unwrap();
        let table = graph.table();
        assert!(table.lines().all(|line| line.chars().count() <= super::COLUMNS), "{table}");
        format!("{table}\n{}", graph.plan(&|_| true))
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

    #[test]
    fn the_configuration_of_a_training_is_shown_before_it_runs() {
        let graph = Recipe::load("paravt-8b-train").unwrap().graph(&GraphOptions::new("out")).unwrap();
        let rl = graph.stages().iter().find(|stage| stage.name() == "rl").unwrap();
        let [(name, text)] = &graph.files(rl)[..] else { panic!("one file") };
        assert_eq!(*name, "config.yaml");
        assert!(text.contains("total_train_steps: 55") && text.contains("trial_name"), "{text}");
        let only = graph.plan(&|stage| stage.is_called("rl"));
        assert!(only.contains("config.yaml") && !only.contains("with-tool-mlvu"), "{only}");
    }
}
