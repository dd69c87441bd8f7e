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
/// Name of the line of all evaluations.
const EVALUATIONS: &str = "evaluations";

/// A line of the table.
struct Row {
    /// Numbers of its first and its last stage.
    numbers: (usize, usize),
    name: String,
    /// Hours, GB and GPU hours.
    figures: [Option<f64>; 3],
    does: String,
    /// Of evaluations, how many splits each run has.
    runs: BTreeMap<String, usize>,
}

impl Row {
    fn line(&self) -> String {
        let number = match self.numbers {
            (0, _) => String::new(),
            (first, last) if first == last => format!("{first}."),
            (first, last) => format!("{first}-{last}."),
        };
        let figure = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.1}"));
        let [hours, gb, gpu] = self.figures.map(figure);
        let runs = self
            .runs
            .iter()
            .map(|(run, count)| format!("{run} on {count} split{}", if *count == 1 { "" } else { "s" }));
        let does = [self.does.clone()].into_iter().filter(|text| !text.is_empty()).chain(runs);
        let does = does.collect::<Vec<_>>().join(", ");
        cut(&format!("{number:>6} {:<18} {hours:>6} {gb:>7} {gpu:>6}  {does}\n", self.name))
    }
}

impl Graph {
    /// A line for each stage with its hours, GB and GPU hours as far as they are known; evaluations that differ only in their
    /// split share one. Then what is done otherwise than in the published code, each once.
    pub fn table(&self) -> String {
        let rows = self.rows();
        let head = format!("{:>6} {:<18} {:>6} {:>7} {:>6}  does\n", "", "stage", "hours", "GB", "GPU h");
        let mut text = format!("{}\n\n{head}", self.title);
        rows.iter().for_each(|row| text += &row.line());
        let sum = |column: usize| rows.iter().filter_map(|row| row.figures[column]).reduce(|a, b| a + b);
        let figures = [sum(0), sum(1), sum(2)];
        if figures.iter().any(Option::is_some) {
            let unknown = rows.iter().any(|row| row.name == EVALUATIONS);
            let unknown = if unknown { "; the evaluations' hours are not known" } else { "" };
            let does = format!("what is known beforehand{unknown}");
            let (name, runs) = ("sum".to_owned(), BTreeMap::new());
            text += &Row { numbers: (0, 0), name, figures, does, runs }.line();
        }
        let deviations = self.all_deviations();
        if !deviations.is_empty() {
            let _ = writeln!(text, "\ndeviations from the published code ({}):", deviations.len());
        }
        for (deviation, stages) in deviations {
            text += &cut(&format!("  {}: {deviation}\n", stages.join(", ")));
        }
        text + "\n-v shows commands, folders and every word; --only STAGE that stage with the files it generates\n"
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for (number, stage) in (1..).zip(self.stages()) {
            let run = stage.family();
            if let (Some(run), Some(row)) = (run, rows.last_mut().filter(|row| row.name == EVALUATIONS)) {
                row.numbers.1 = number;
                *row.runs.entry(run.to_owned()).or_default() += 1;
                continue;
            }
            let estimate = stage.estimate();
            let gpu =
                estimate.hours.map(|hours| hours * self.gpus(stage) as f64).filter(|hours| *hours > 0.0);
            rows.push(Row {
                numbers: (number, number),
                name: run.map_or_else(|| stage.label(), |_| EVALUATIONS.to_owned()),
                figures: [estimate.hours, estimate.gb, gpu],
                does: if run.is_some() { String::new() } else { stage.work().title() },
                runs: run.map(|run| (run.to_owned(), 1)).into_iter().collect(),
            });
        }
        rows
    }

    /// What the stages do otherwise than the published code; each text once, with the stages that it is about. Of the
    /// evaluations, the first one's name stands for all.
    fn all_deviations(&self) -> Vec<(&str, Vec<&str>)> {
        let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
        for stage in self.stages() {
            let name = if stage.family().is_some() { EVALUATIONS } else { stage.name() };
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
                Job::Rl(job) => {
                    let config = job.configuration(folder);
                    config.into_iter().map(|text| ("config.yaml", text)).collect()
                }
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

/// A line that fits the table, with its end.
fn cut(line: &str) -> String {
    let line = line.trim_end();
    match line.char_indices().nth(COLUMNS) {
        Some(_) => line.chars().take(COLUMNS - 1).chain("…\n".chars()).collect(),
        None => format!("{line}\n"),
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
