//! A graph as text: a table of its stages for the eye, or every stage with its inputs, its output and its command.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::graph::{Graph, Stage};
use crate::verdict::Verdict;

const COLUMNS: usize = 100;
/// Columns of numbers, at least.
const NUMBERS: usize = 6;
/// Columns of names, at least.
const NAMES: usize = 18;
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

/// How the lines are set.
struct Widths {
    numbers: usize,
    names: usize,
    /// Of the figures that any line has.
    figures: [Option<usize>; 3],
}

impl Widths {
    /// The figures of a line, or their titles.
    fn figures(&self, texts: [String; 3]) -> String {
        let shown = self.figures.iter().zip(texts).filter_map(|(width, text)| {
            let width = (*width)?;
            Some(format!("{text:>width$} "))
        });
        let shown: String = shown.collect();
        if shown.is_empty() { shown } else { shown + " " }
    }
}

impl Row {
    fn number(&self) -> String {
        match self.numbers {
            (0, _) => String::new(),
            (first, last) if first == last => format!("{first}."),
            (first, last) => format!("{first}-{last}."),
        }
    }

    fn line(&self, widths: &Widths) -> String {
        let number = self.number();
        let figure = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.1}"));
        let figures = widths.figures(self.figures.map(figure));
        let (before, width) = (widths.numbers, widths.names);
        let runs = self
            .runs
            .iter()
            .map(|(run, count)| format!("{run} on {count} split{}", if *count == 1 { "" } else { "s" }));
        let does = [self.does.clone()].into_iter().filter(|text| !text.is_empty()).chain(runs);
        let does = does.collect::<Vec<_>>().join(", ");
        cut(&format!("{number:>before$} {:<width$} {figures}{does}\n", self.name))
    }
}

impl Graph {
    /// A line for each stage with its hours, GB and GPU hours as far as they are known; evaluations that differ only in their
    /// split share one. Then what is done otherwise than in the published code, each once.
    pub fn table(&self) -> String {
        let rows = self.rows();
        let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or_default().max(NAMES);
        let sum = |column: usize| rows.iter().filter_map(|row| row.figures[column]).reduce(|a, b| a + b);
        let figures = [sum(0), sum(1), sum(2)];
        let has_figures = figures.iter().any(Option::is_some);
        let widths = Widths {
            numbers: rows.iter().map(|row| row.number().len()).max().unwrap_or_default().max(NUMBERS),
            names: width,
            figures: [0, 1, 2].map(|column| figures[column].map(|_| [6, 7, 6][column])),
        };
        let head = widths.figures(["hours", "GB", "GPU h"].map(str::to_owned));
        let before = widths.numbers;
        let mut text = format!("{}\n\n{:before$} {:<width$} {head}does\n", self.title, "", "stage");
        rows.iter().for_each(|row| text += &row.line(&widths));
        if has_figures {
            let unknown = rows.iter().any(|row| !row.runs.is_empty());
            let unknown = if unknown { "; the evaluations' hours are not known" } else { "" };
            let does = format!("what is known beforehand{unknown}");
            let (name, runs) = ("sum".to_owned(), BTreeMap::new());
            text += &Row { numbers: (0, 0), name, figures, does, runs }.line(&widths);
        }
        // The evaluations share a line, and what each row of a table has is called the same.
        let name = |stage| Stage::family(stage).map_or_else(|| stage.name_in_row(), |_| EVALUATIONS);
        let deviations = self.all_deviations(name);
        if !deviations.is_empty() {
            let _ = writeln!(text, "\ndeviations from the published code ({}):", deviations.len());
        }
        for (deviation, stages) in deviations {
            text += &cut(&format!("  {}: {deviation}\n", stages.join(", ")));
        }
        text + "\n-v shows commands, folders and every word; --only STAGE that stage alone\n"
    }

    /// What a run would do with the results in the folder; nothing where there are none.
    pub fn standing(&self, any_code: bool) -> String {
        let (mut kept, mut others) = (0, String::new());
        let with_results = self.stages().iter().filter_map(|stage| Some((stage, stage.slot()?)));
        for (stage, slot) in with_results.clone() {
            match Verdict::noted(stage, slot, any_code) {
                Verdict::Keep => kept += 1,
                Verdict::Redo(why) => others += &cut(&format!("  {}: made again: {why}\n", stage.label())),
                Verdict::Resume(_) if slot.folder().is_dir() => {
                    others += &cut(&format!("  {}: continued\n", stage.label()));
                }
                Verdict::Resume(_) => {}
            }
        }
        if kept == 0 && others.is_empty() {
            return others;
        }
        format!("\n{kept} of {} results are there and kept\n{others}", with_results.count())
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for (number, stage) in (1..).zip(self.stages()) {
            let run = stage.family();
            let evaluations = || stage.row().unwrap_or(EVALUATIONS);
            if let (Some(run), Some(row)) = (run, rows.last_mut().filter(|row| row.name == evaluations())) {
                row.numbers.1 = number;
                *row.runs.entry(run.to_owned()).or_default() += 1;
                continue;
            }
            let estimate = stage.estimate();
            let gpu =
                estimate.hours.map(|hours| hours * stage.work().gpus() as f64).filter(|hours| *hours > 0.0);
            rows.push(Row {
                numbers: (number, number),
                name: run.map_or_else(|| stage.label(), |_| evaluations().to_owned()),
                figures: [estimate.hours, estimate.gb, gpu],
                does: if run.is_some() { String::new() } else { stage.work().title() },
                runs: run.map(|run| (run.to_owned(), 1)).into_iter().collect(),
            });
        }
        rows
    }

    /// What the stages do otherwise than the published code; each text once, with the names of the stages that it is about.
    pub fn all_deviations<'a>(&'a self, name: impl Fn(&'a Stage) -> &'a str) -> Vec<(&'a str, Vec<&'a str>)> {
        let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
        for stage in self.stages() {
            let name = name(stage);
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

    /// Inputs, output and commands of a stage, where it has them.
    fn details(&self, stage: &Stage) -> Vec<(&'static str, String)> {
        let mut details = Vec::new();
        let inputs: Vec<&str> = self.inputs(stage).map(Stage::name).collect();
        if !inputs.is_empty() {
            details.push(("inputs", inputs.join(", ")));
        }
        details.extend(stage.work().details(&self.out, stage.folder().unwrap_or(&self.out)));
        details.extend(stage.folder().map(|folder| ("output", folder.display().to_string())));
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

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use similar::{ChangeTag, TextDiff};

    use super::*;
    use crate::{GraphOptions, Recipe};

    /// Recipes whose plans are kept whole; those of the others as differences from the one before that is most like it.
    const WHOLE: [&str; 3] = ["paravt-8b", "paravt-8b-train", "paravt-paradox"];

    fn graph(name: &str, options: &GraphOptions) -> Graph {
        Recipe::load(name).unwrap().graph(options).unwrap()
    }

    /// A plan without numbers, folders, and names of the recipe and its model, and a hash of the names of the folders.
    fn without_folders(graph: &Graph) -> (String, String) {
        let (mut plan, mut names) = (graph.plan(&|_| true).replace(&graph.recipe, "RECIPE"), String::new());
        if let Some(model) = Recipe::load(&graph.recipe).unwrap().model {
            plan = plan.replace(&model, "MODEL");
        }
        for folder in graph.stages().iter().filter_map(Stage::folder) {
            let folder = folder.file_name().unwrap().to_str().unwrap();
            plan = plan.replace(folder, folder.rsplit_once('-').unwrap().0);
            names += folder;
        }
        let lines = plan.lines().filter(|line| !line.starts_with("       output"));
        let lines = lines.map(|line| match line.get(3..5) {
            Some(". ") => &line[5..],
            _ => line,
        });
        (lines.map(|line| format!("{line}\n")).collect(), paravt_files::sha256(names)[..12].to_owned())
    }

    /// The lines in which a text differs from another.
    fn difference(from: &str, to: &str) -> String {
        let changes = TextDiff::from_lines(from, to);
        let changes = changes.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
        changes.map(|change| format!("{}{change}", change.tag())).collect()
    }

    /// Another name of a stage's folder means that finished stages of users are made again.
    #[test]
    fn plans_of_the_built_in_recipes() {
        let options = GraphOptions::new("out");
        let mut known: Vec<(String, String)> = Vec::new();
        for name in WHOLE {
            let graph = graph(name, &options);
            insta::assert_snapshot!(name, format!("{}\n{}", graph.table(), graph.plan(&|_| true)));
            known.push((name.to_owned(), without_folders(&graph).0));
        }
        let own = GraphOptions { backend: Some("--base-url".to_owned()), ..options.clone() };
        let own = ("paravt-8b on a server of the user".to_owned(), graph("paravt-8b", &own));
        let names = Recipe::names().into_iter().filter(|name| !WHOLE.contains(&name.as_str()));
        let mut text = String::new();
        for (name, graph) in names.map(|name| (name.clone(), graph(&name, &options))).chain([own]) {
            let table = graph.table();
            assert!(table.lines().all(|line| line.chars().count() <= COLUMNS), "{table}");
            let (plan, folders) = without_folders(&graph);
            if graph.stages().iter().any(|stage| stage.row().is_some()) {
                let _ = writeln!(text, "{name}; folders {folders}\n{table}");
                continue;
            }
            let all = known.iter().map(|(other, from)| (other, difference(from, &plan)));
            let (other, lines) = all.min_by_key(|(_, lines)| lines.lines().count()).unwrap();
            let model = Recipe::load(&graph.recipe).unwrap().model.unwrap_or_default();
            let _ = writeln!(text, "{name} {model} from {other}; folders {folders}\n{lines}");
            known.push((name, plan));
        }
        insta::assert_snapshot!("others", text);
    }

    #[test]
    fn one_stage_is_planned_alone_with_what_it_sets_in_the_releases_configuration() {
        let graph = Recipe::load("paravt-8b-train").unwrap().graph(&GraphOptions::new("out")).unwrap();
        let only = graph.plan(&|stage| stage.is_called("rl"));
        assert!(only.contains("sets     total_train_steps=55") && !only.contains("with-tool-mlvu"), "{only}");
    }
}
