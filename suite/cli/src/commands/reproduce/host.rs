//! What the stages of a recipe need of the command: models behind backends, data, reports.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use paravt_agents::releases;
use paravt_reports::study::{Arm, Study, Trained};
use paravt_reports::terminal::{Detail, counted};
use paravt_reports::{Deviation, Report, Training, has_run, readable_runs, terminal};
use paravt_reproduce::driver::{self, Answers, Check, Evaluation, Outcome, Reporting};
use paravt_reproduce::graph::{Graph, Stage};
use paravt_reproduce::preflight::Level;
use paravt_reproduce::stages::{Generated, Measurement, Reinforcement, examine};
use paravt_reproduce::{CONCURRENCY, Fetch, Recipe, Target, mixture, target};
use paravt_suite::agent::Bound;
use paravt_suite::data::DataRoot;
use paravt_suite::evaluate::{self, Prepared, RunConfig, RunError, Shard, Workspace};
use paravt_suite::frames::CachedFrames;
use paravt_suite::profile::Profile;
use paravt_suite::task::{Benchmark, Task as _};
use paravt_train::Compute;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::Args;
use crate::commands::protocol::chosen::Chosen;
use crate::commands::protocol::show::example;
use crate::commands::protocol::{choose, provide, provide_agent};
use crate::commands::run::{execute, execute_on};
use crate::commands::{data, preflight, report};
use crate::exit::{Exit, OrPreflight as _};
use crate::failure::Continue;
use crate::launch::{self, Ending, Obstacle};
use crate::registry::BackendArgs;
use crate::signals::{self, Signal};
use crate::{engines, output};

/// Samples in flight for each server (ParaVT cf55249 paravt/eval/driver.py:588).
const CONCURRENCY_PER_SERVER: usize = 4;

/// The command as the host of a graph.
pub(super) struct Host<'a> {
    args: &'a Args,
    recipe: &'a Recipe,
    graph: &'a Graph,
    compute: Compute,
    frames: Arc<CachedFrames>,
    /// Splits of the evaluations that are run.
    splits: Vec<String>,
    started: Instant,
    /// Records of the last evaluation could not be written.
    is_full: bool,
}

/// Flags that change the answers of a served model; `other` replaces the shard.
pub(super) fn selection(args: &Args, other: Option<Shard>) -> Value {
    let RunConfig { limit, ids, shard, .. } = args.dispatch.applied_to(RunConfig::default());
    let shard = other.or(shard);
    // More samples continue the result for fewer, which is known by the same name. A shard of more is another one.
    let limit = limit.filter(|_| shard.is_some());
    let mut selection =
        json!({ "limit": limit, "ids": ids, "shard": shard, "protocol": args.protocol.identity() });
    if let Some(engine) = args.serving {
        selection["engine"] = engine.as_str().into();
    }
    selection
}

impl<'a> Host<'a> {
    /// The host of a recipe.
    pub(super) fn new(
        args: &'a Args,
        recipe: &'a Recipe,
        graph: &'a Graph,
        compute: Compute,
        frames: Arc<CachedFrames>,
    ) -> Self {
        let run = graph.evaluations().filter(|(stage, ..)| stage.is_among(&args.only));
        let splits = run.flat_map(|(_, evaluation, _)| evaluation.splits.clone()).collect();
        let started = Instant::now();
        Self { args, recipe, graph, compute, frames, splits, started, is_full: false }
    }

    /// Prints what the evaluations of a served recipe would send.
    pub(super) fn dry_run(&self) -> anyhow::Result<Exit> {
        for (stage, evaluation, folder) in self.graph.evaluations() {
            if stage.is_among(&self.args.only) {
                self.served(evaluation, folder, &self.args.backend)?;
            }
        }
        Ok(Exit::Ok)
    }

    /// Runs splits on what the flags of the backend name, with the evaluation's settings where no flag says otherwise;
    /// or prints what would be sent.
    fn served(
        &self,
        evaluation: &Evaluation,
        folder: &Path,
        backend: &BackendArgs,
    ) -> anyhow::Result<Ending> {
        let config = self.args.dispatch.applied_to(evaluation.config.clone());
        let chosen = self.chosen(evaluation)?;
        let runs = split_runs(evaluation, &config, &chosen.bound, folder)?;
        let served = evaluation.fleet.as_ref().map(|fleet| &fleet.model);
        let model = served.or(self.recipe.model.as_ref()).filter(|_| !self.recipe.is_launched());
        let named = model.map(|model| backend.or_model(model));
        let backend = named.as_ref().unwrap_or(backend);
        execute(&runs, &chosen, self.args.data.root()?, backend, &self.args.dispatch, Continue::Repeat)
    }

    /// The protocol of an evaluation: its own, else that of the command.
    fn chosen(&self, evaluation: &Evaluation) -> anyhow::Result<Chosen> {
        Chosen::of_recipe(evaluation.protocol.as_deref(), &self.args.protocol)
    }

    /// Refuses evaluations that their protocols have no texts for, before hours of serving and asking; `concerns` says
    /// which, by the protocol that they name.
    fn check_texts(
        &self,
        coming: &[&Evaluation],
        concerns: impl Fn(Option<&str>) -> bool,
    ) -> anyhow::Result<()> {
        for evaluation in coming.iter().filter(|evaluation| concerns(evaluation.protocol.as_deref())) {
            let protocol = self.chosen(evaluation)?.bound.protocol;
            let plan = evaluation.config.plan(&protocol)?;
            for task in paravt_tasks::select(&evaluation.splits)? {
                evaluate::check_texts(&protocol, &plan, [&example(task.spec())]).map_err(RunError::from)?;
            }
        }
        Ok(())
    }

    /// Runs splits of the generated world on a model in this process; goes on where it was stopped.
    fn embedded(&self, evaluation: &Evaluation, folder: &Path, model: &Path) -> anyhow::Result<Ending> {
        let root = match &evaluation.world {
            Some(world) => DataRoot::new(world),
            None => self.args.data.root()?,
        };
        let gpus = u32::from(!self.compute.device().is_cpu());
        let workspace =
            Workspace { frames: Arc::clone(&self.frames) as Arc<_>, ..launch::workspace(root, Some(gpus)) };
        let chosen = Chosen::of_recipe(Some("nano"), &self.args.protocol)?;
        let runs = split_runs(evaluation, &evaluation.config, &chosen.bound, folder)?;
        let engine = OnceCell::new();
        let start = async |_: &Prepared| {
            let load = async || engines::start_candle(model, CONCURRENCY, &self.compute);
            engine.get_or_try_init(load).await.cloned()
        };
        execute_on(&runs, &chosen, workspace, start, &self.args.dispatch, Continue::Repeat)
    }

    /// Writes the page of an embedded recipe.
    fn page(&self, page: &Path, runs: &[PathBuf]) -> anyhow::Result<Exit> {
        let graph = self.graph;
        let study = study(self.recipe, graph)?;
        let answers = paravt_reports::study::terminal(&study);
        let world = graph.stages().iter().find(|stage| matches!(stage.kind(), Some(Generated::World(_))));
        let root = world.and_then(Stage::folder).map(DataRoot::new);
        let folder = page.parent().unwrap_or(page);
        let frames = root.as_ref().map(|root| (root, paravt_tasks::all()));
        let report = report::write(runs, folder, frames, |runs| {
            let (study, deviations) = (Some(study), deviations(graph));
            Ok(Report { study, deviations, ..Report::build(runs, None)? })
        })?;
        output::show(&terminal(&report, Detail::Brief));
        output::show(&answers);
        eprintln!(
            "report: {} ({:.1} min in all)",
            page.display(),
            self.started.elapsed().as_secs_f64() / 60.0
        );
        say_next(graph, page);
        Ok(report::exit(&report))
    }
}

impl driver::Host for Host<'_> {
    fn evaluate(
        &mut self,
        evaluation: &Evaluation,
        folder: &Path,
        answers: Answers<'_>,
    ) -> anyhow::Result<Outcome> {
        let flags = &self.args.backend;
        let is_as_given = matches!(answers, Answers::AsGiven);
        let ending = match (answers, &evaluation.model) {
            (Answers::AsGiven, Some(model)) => self.embedded(evaluation, folder, model),
            (Answers::AsGiven, None) => self.served(evaluation, folder, flags),
            (Answers::InProcess(model, known), _) => {
                self.served(evaluation, folder, &flags.in_process(model).knowing(known))
            }
            (Answers::Servers(urls, model, known), _) => {
                let mut evaluation = evaluation.clone();
                // Unless the recipe says otherwise.
                evaluation.config.concurrency.get_or_insert(CONCURRENCY_PER_SERVER * urls.len());
                let flags = flags.on_servers(urls, model).knowing(known);
                self.served(&evaluation, folder, &flags)
            }
        }?;
        self.is_full = ending.obstacle == Some(Obstacle::Disk);
        Ok(match ending.obstacle {
            Some(Obstacle::Disk) => Outcome::Down,
            // Servers of the recipe are started again for the next evaluation.
            Some(Obstacle::Server) if is_as_given => Outcome::Down,
            _ => outcome(ending.exit),
        })
    }

    fn probe(&mut self, base_url: &str, model: &str) -> Result<(), String> {
        let runtime = launch::runtime().map_err(|error| format!("{error:#}"))?;
        let probe = engines::probe(&self.args.backend, base_url, model);
        runtime.block_on(probe).map_err(|error| format!("{error:#}"))
    }

    fn check(&mut self, check: &Check, coming: &[&Evaluation]) -> anyhow::Result<()> {
        match check {
            Check::Machine(preflight) => {
                let root = self.args.data.root()?;
                let (report, _) = preflight::examine(preflight, &self.graph.out, &root, Some(&self.splits))?;
                if report.level() == Level::Refuse && !self.args.skip_preflight {
                    let hint = "--skip-preflight continues anyway";
                    return Err(anyhow::anyhow!("{}{hint}", report.problems())).or_preflight();
                }
                if report.level() > Level::Ok {
                    eprint!("{}", report.problems());
                }
                Ok(())
            }
            Check::Protocol(from) => {
                provide(from).or_preflight()?;
                self.check_texts(coming, |name| !is_release(name))
            }
            Check::AgentProtocol(name) => {
                provide_agent(name).or_preflight()?;
                let protocol = choose(&name.parse().map_err(anyhow::Error::msg)?)?;
                // Before the downloads: without an interpreter the evaluation would be refused.
                self.args.dispatch.check_code_tool(&protocol)?;
                self.check_texts(coming, |of| of == Some(name.as_str()))
            }
            Check::OtherProtocol(_) => {
                choose(&self.args.protocol).map(drop).or_preflight()?;
                self.check_texts(coming, |name| !is_release(name))
            }
            Check::Data(splits) => {
                let root = self.args.data.root()?;
                for task in paravt_tasks::select(splits)? {
                    // A split that `--only` leaves out need not be there.
                    if coming.iter().any(|evaluation| evaluation.splits.contains(&task.spec().name)) {
                        task.load(&root, Profile::Release)?;
                    }
                }
                Ok(())
            }
            // One that does not answer is an error of the first evaluation.
            Check::Backend(_) => Ok(()),
        }
    }

    fn fetch(&mut self, fetch: &Fetch, folder: &Path) -> anyhow::Result<Outcome> {
        let targets: Vec<Target> = fetch.items.iter().map(|item| item.target.clone()).collect();
        data::fetch::provide(&targets, &self.args.data.root()?, folder, self.args.delete_archives)
            .map(outcome)
    }

    fn missing(&mut self, fetch: &Fetch) -> anyhow::Result<Option<String>> {
        Ok(fetch.gone(&self.args.data.root()?)?)
    }

    fn materialize(&mut self, folder: &Path) -> anyhow::Result<Outcome> {
        data::materialize::provide(&self.args.data.root()?, folder, self.args.allow_missing).map(outcome)
    }

    fn model(&mut self, id: &str) -> Option<PathBuf> {
        target::model(id, &self.args.data.root().ok()?)
    }

    fn stop(&mut self) -> Box<dyn Fn() -> bool> {
        let Ok(runtime) = launch::runtime() else { return Box::new(|| false) };
        let message = "stopping the training; repeat the command to continue from its last checkpoint";
        let stop = launch::stopped(&runtime, &Signal::ALL, message);
        // The signals are waited for as long as the runtime lives.
        Box::new(move || {
            let _alive = &runtime;
            *stop.borrow()
        })
    }

    fn is_stopped(&self) -> bool {
        signals::is_stopped()
    }

    fn examine(&mut self, model: &Path, rows: usize) -> anyhow::Result<()> {
        let backend = engines::start_candle(model, rows, &self.compute)?;
        println!("answers right to the letter, on rows it was not trained on:");
        for (kind, right) in launch::runtime()?.block_on(examine(backend.as_ref(), rows))? {
            println!("  {kind:<8} {right:>3} of {rows}");
        }
        println!("{}", model.display());
        Ok(())
    }

    fn report(&mut self, report: &Reporting, runs: &[PathBuf]) -> anyhow::Result<Outcome> {
        if self.is_full {
            eprintln!("the report was not written: the disk is full");
            return Ok(Outcome::Down);
        }
        // Of an evaluation that was refused there is a folder and no run.
        let runs: Vec<PathBuf> = runs.iter().filter(|folder| has_run(folder)).cloned().collect();
        if runs.is_empty() {
            eprintln!("no report: no evaluation has a result");
            return Ok(Outcome::Incomplete);
        }
        if let Some(page) = &report.page {
            return Ok(outcome(self.page(page, &runs)?));
        }
        let graph = self.graph;
        let folder = graph.out.join("report");
        let report = report::write(&runs, &folder, None, |runs| {
            Ok(Report { deviations: deviations(graph), ..Report::build(runs, None)? })
        })?;
        output::show(&terminal(&report, Detail::Brief));
        let listed = match report.deviations.len() {
            0 => String::new(),
            count => format!("; it lists {} from the released code", counted(count, "deviation")),
        };
        eprintln!("report: {}{listed}", folder.join("index.html").display());
        say_next(graph, &folder.join("index.html"));
        Ok(if report.damaged.is_empty() { Outcome::Complete } else { Outcome::Incomplete })
    }
}

/// Whether a protocol is an agent's own, which has a check of its own.
fn is_release(name: Option<&str>) -> bool {
    name.is_some_and(|name| releases().any(|release| release.name == name))
}

/// What to look at once a recipe is through.
fn say_next(graph: &Graph, page: &Path) {
    eprintln!("next: open {} in a browser", page.display());
    eprintln!("next: `paravt-bench report {}` prints the scores again", paravt_files::quote_path(&graph.out));
}

/// What the stages of a recipe do otherwise than the published code; each text once.
fn deviations(graph: &Graph) -> Vec<Deviation> {
    let deviation = |text: &str, stages: &[&str]| Deviation {
        text: text.to_owned(),
        stages: stages.iter().map(|&name| name.to_owned()).collect(),
    };
    let stages = graph.all_deviations(Stage::name);
    // Not a stage's: each was asked for as it is.
    let mixed = mixture::mixed(graph);
    let mixed = mixed.iter().map(|text| deviation(text, &["report"]));
    stages.iter().map(|(text, names)| deviation(text, names)).chain(mixed).collect()
}

fn outcome(exit: Exit) -> Outcome {
    match exit {
        Exit::Ok => Outcome::Complete,
        Exit::Interrupted => Outcome::Interrupted,
        Exit::Finding | Exit::Incomplete | Exit::Usage | Exit::Preflight => Outcome::Incomplete,
    }
}

/// One run for each split of an evaluation.
fn split_runs(
    evaluation: &Evaluation,
    config: &RunConfig,
    bound: &Bound,
    folder: &Path,
) -> anyhow::Result<Vec<evaluate::Evaluation<'static>>> {
    let run = |task: &'static Benchmark| {
        let dir = folder.join(&task.spec().name);
        evaluate::Evaluation::new(task, config.clone(), bound.clone(), dir)
    };
    Ok(paravt_tasks::select(&evaluation.splits)?.into_iter().map(run).collect())
}

/// What the recipe asks of its runs, and what they answer. Evaluations that were not run are left out.
fn study(recipe: &Recipe, graph: &Graph) -> anyhow::Result<Study> {
    let (mut arms, mut trainings) = (Vec::new(), Vec::new());
    for stage in graph.stages() {
        let Some(folder) = stage.folder().filter(|folder| folder.is_dir()) else { continue };
        let (name, seed) = (stage.name().to_owned(), stage.seed().unwrap_or_default());
        let said = match (stage.kind::<Reinforcement>(), stage.kind::<Measurement>()) {
            (Some(training), _) => Some((training.title.clone(), training.paper.clone())),
            (_, Some(_)) => Some((stage.work().title(), None)),
            _ => None,
        };
        if stage.kind::<Evaluation>().is_some() {
            arms.push(Arm { name, seed, runs: readable_runs(&[folder.to_owned()])?.0 });
        } else if let Some((title, paper)) = said {
            let curves = Training::read(folder).context("cannot read the curves of a training")?;
            trainings.push(Trained { name, seed, title, paper, curves });
        }
    }
    Ok(Study::of((&recipe.comparisons, &recipe.predictions), &arms, trainings))
}
