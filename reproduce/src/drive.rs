//! Runs a graph: selects stages, keeps finished results, resumes interrupted ones, restarts servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use paravt_engines::{Place, Update};
use paravt_suite::frames::FrameSource;
use paravt_suite::journal::JournalError;
use paravt_train::Compute;

use crate::error::Error;
use crate::graph::{Check, Evaluation, Graph, Reporting, Stage, Work};
use crate::launched::Launch;
use crate::provide::Fetch;
use crate::redo;
use crate::serve::{Engine, Servers};
use crate::slot::{self, Slot, State};
use crate::watch;
use crate::work::{self, Progress};

/// Models of many GB are hashed, which takes minutes.
const VERIFYING: &str = "verifying its files";

/// Which stages of a graph run, and with what.
pub struct Options {
    /// Build on results that another version of the code made.
    pub any_code: bool,
    /// Do this stage again, and what builds on it (`--from`).
    pub from: Option<String>,
    /// Do these stages again, or the evaluations of these splits, and what builds on them (`--redo`).
    pub redo: Vec<String>,
    /// Do hours of work again without asking.
    pub yes: bool,
    /// Stop after this stage.
    pub until: Option<String>,
    /// Of the stages whose results are kept, run these alone; empty for all.
    pub only: Vec<String>,
    /// Frames of the videos that are trained on.
    pub frames: Arc<dyn FrameSource>,
    /// Where and in what to train.
    pub compute: Compute,
}

/// How a graph, or a stage that the host ran, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Everything is done.
    Complete,
    /// Samples are missing or failed.
    Incomplete,
    /// The server or the disk failed: further evaluations would fail as well.
    Down,
    /// Stopped by the user.
    Interrupted,
}

/// What the program that runs a graph provides: models behind a backend, data, reports.
pub trait Host {
    /// Error of the program.
    type Error: From<Error> + From<JournalError>;

    /// Runs the splits of an evaluation on the model that `answers` names, in run directories below the stage's
    /// folder; existing ones are resumed.
    ///
    /// # Errors
    /// Data, model or run directory that cannot be used.
    fn evaluate(
        &mut self,
        stage: &Stage,
        evaluation: &Evaluation,
        answers: Answers<'_>,
    ) -> Result<Outcome, Self::Error>;

    /// Asks a server one question in text and one about an image.
    ///
    /// # Errors
    /// It does not answer both, and how.
    fn probe(&mut self, base_url: &str, model: &str) -> Result<(), String>;

    /// Checks a precondition.
    ///
    /// # Errors
    /// It does not hold; the message says how to meet it.
    fn check(&mut self, check: &Check) -> Result<(), Self::Error>;

    /// Downloads the items that are missing on this machine, and lists all of them in a file in `folder`.
    ///
    /// # Errors
    /// No access, no connection, no space.
    fn fetch(&mut self, fetch: &Fetch, folder: &Path) -> Result<Outcome, Self::Error>;

    /// What of these items is no longer on this machine; `None` where all are.
    ///
    /// # Errors
    /// Files that cannot be looked at.
    fn missing(&mut self, fetch: &Fetch) -> Result<Option<String>, Self::Error> {
        let _ = fetch;
        Ok(None)
    }

    /// Writes the training rows with the paths of this machine into `folder`, from what the fetch stage in
    /// `fetched` names.
    ///
    /// # Errors
    /// Rows that cannot be read, or a folder that cannot be written.
    fn materialize(&mut self, fetched: &Path, folder: &Path) -> Result<Outcome, Self::Error>;

    /// Local folder of a model by its id on the hub; `None` where it is not on this machine.
    fn model(&mut self, id: &str) -> Option<PathBuf> {
        let _ = id;
        None
    }

    /// Whether the user, or the system, has asked a training in another program to end since this call.
    fn stop(&mut self) -> Box<dyn Fn() -> bool> {
        Box::new(|| false)
    }

    /// Whether the user has asked, in a stage that is done by now, for the end of the recipe.
    fn is_stopped(&self) -> bool {
        false
    }

    /// Asks the model in a folder `rows` held-out rows of each kind, and shows the answers that are right.
    ///
    /// # Errors
    /// A model that cannot be run.
    fn examine(&mut self, model: &Path, rows: usize) -> Result<(), Self::Error>;

    /// Reports the runs in these folders.
    ///
    /// # Errors
    /// Runs that cannot be read, or a page that cannot be written.
    fn report(&mut self, graph: &Graph, report: &Reporting, runs: &[PathBuf])
    -> Result<Outcome, Self::Error>;
}

/// The model that an evaluation asks.
#[derive(Debug, Clone, Copy)]
pub enum Answers<'a> {
    /// The model of the evaluation, or the backend that the flags name.
    AsGiven,
    /// This model, loaded in this process.
    InProcess(&'a str),
    /// Servers of this model at these base URLs.
    Servers(&'a [String], &'a str),
}

/// Progress of a stage.
pub enum Event<'a> {
    /// Something that may take minutes and is not the work of a stage whose result is kept, such as hashing what an
    /// earlier run made: what it is, as in "verifying its files".
    Busy(&'a str),
    /// Its result of an earlier run is complete and kept.
    Kept,
    /// Its result of an earlier run is moved out of the way: why, and where it is now.
    Discarded(&'a str, &'a Path),
    /// Its work begins.
    Started,
    /// A step of a training.
    Progress(&'a Progress<'a>),
    /// A line for the user.
    Note(&'a str),
    /// Its work has ended, complete or not, after this time.
    Ended(Duration),
}

/// Shows progress; also from the thread that watches servers.
pub trait Observer: Send {
    /// Shows an event of a stage.
    fn event(&mut self, stage: &Stage, event: Event<'_>);
}

/// Runs the stages of a graph that the options select. Finished results are kept; interrupted stages are resumed.
///
/// # Errors
/// Another process works in the folder, an unknown stage, a stage that failed.
pub fn run<H: Host>(
    graph: &Graph,
    options: &Options,
    host: &mut H,
    observer: &mut dyn Observer,
) -> Result<Outcome, H::Error> {
    let end = options.check(graph)?;
    refuse_undone(&graph.stages()[..end])?;
    let _lock = slot::lock(&graph.out)?;
    redo::replace(graph, &options.redoes(graph, end), options.yes, &mut |stage, to| {
        observer.event(stage, Event::Discarded("asked to do it again", to));
    })?;
    let mut worst = Outcome::Complete;
    for stage in &graph.stages()[..end] {
        let outcome = match stage.slot() {
            Some(slot) => kept(graph, stage, slot, options, worst, host, observer)?,
            // The machine is checked only if any stage is still to run.
            None if is_preflight(stage) && !has_work(&graph.stages()[..end], options, observer) => {
                Outcome::Complete
            }
            None => every_time(graph, stage, host, observer)?,
        };
        // A stage may have been too near its end to notice.
        let outcome = if host.is_stopped() { Outcome::Interrupted } else { outcome };
        worst = worst.max(outcome);
        if outcome == Outcome::Interrupted {
            break;
        }
    }
    Ok(worst)
}

/// Refuses, before any stage runs, a recipe with a stage that this version cannot run.
fn refuse_undone(stages: &[Stage]) -> Result<(), Error> {
    let undone = stages.iter().find_map(|stage| match stage.work() {
        Work::Outside(outside) => Some((stage, outside)),
        _ => None,
    });
    undone.map_or(Ok(()), |(stage, outside)| {
        Err(Error::NotBuilt { stage: stage.name().to_owned(), missing: outside.missing.clone() })
    })
}

fn is_preflight(stage: &Stage) -> bool {
    matches!(stage.work(), Work::Check(Check::Machine(_)))
}

/// Whether any selected stage is still to run.
fn has_work(stages: &[Stage], options: &Options, observer: &mut dyn Observer) -> bool {
    let kept = stages.iter().filter(|stage| options.selects(stage));
    let mut kept = kept.filter_map(|stage| Some((stage, stage.slot()?)));
    kept.any(|(stage, slot)| {
        observer.event(stage, Event::Busy(VERIFYING));
        slot.state(options.any_code) != State::Done
    })
}

/// Runs a stage whose result is kept, unless it is done already or not selected.
fn kept<H: Host>(
    graph: &Graph,
    stage: &Stage,
    slot: &Slot,
    options: &Options,
    worst: Outcome,
    host: &mut H,
    observer: &mut dyn Observer,
) -> Result<Outcome, H::Error> {
    if !options.selects(stage) {
        return Ok(Outcome::Complete);
    }
    observer.event(stage, Event::Busy(VERIFYING));
    match slot.state(options.any_code) {
        State::Done => match stage.work().damage(&graph.out) {
            None => {
                let gone = match stage.work() {
                    Work::Fetch(fetch) => host.missing(fetch)?,
                    _ => None,
                };
                let Some(gone) = gone else {
                    tracing::info!(stage = stage.name(), "done before");
                    observer.event(stage, Event::Kept);
                    return Ok(Outcome::Complete);
                };
                observer
                    .event(stage, Event::Note(&format!("done before, but {gone}: fetching what is missing")));
            }
            Some(why) => {
                tracing::info!(stage = stage.name(), why, "result discarded");
                observer.event(stage, Event::Discarded(&why, &redo::discard(graph, slot)?));
            }
        },
        // The failure that ended the evaluation before would end this one as well.
        _ if worst == Outcome::Down && matches!(stage.work(), Work::Evaluate(_)) => {
            return Ok(Outcome::Complete);
        }
        // Answers of a server are expensive and their journal verifies itself; a training of days in another program
        // verifies its own checkpoints. Neither is deleted.
        State::Unusable(_) if stage.work().is_served() || matches!(stage.work(), Work::Launch(_)) => {}
        State::Unusable(why) => {
            tracing::info!(stage = stage.name(), why, "result discarded");
            observer.event(stage, Event::Discarded(&why, &redo::discard(graph, slot)?));
        }
        State::New | State::Begun => {}
    }
    ready(graph, stage, options)?;
    let write = |source| Error::Write { path: slot.folder().to_owned(), source };
    slot.begin().map_err(write)?;
    tracing::info!(stage = stage.name(), "stage started");
    observer.event(stage, Event::Started);
    let began = Instant::now();
    let result = worked(graph, stage, slot, options, host, observer);
    let how = match &result {
        Ok(outcome) => format!("{outcome:?}").to_lowercase(),
        // Its text names paths of this machine, and is in the log.
        Err(_) => "failed".to_owned(),
    };
    let outcome = match slot.ended(how).map_err(write) {
        Ok(()) => result?,
        Err(error) => return result.and(Err(error.into())),
    };
    if outcome == Outcome::Complete {
        slot.finish(&graph.deviations(stage)).map_err(write)?;
    }
    tracing::info!(stage = stage.name(), ?outcome, seconds = began.elapsed().as_secs_f64(), "stage ended");
    observer.event(stage, Event::Ended(began.elapsed()));
    Ok(outcome)
}

/// Does the work of a stage whose result is kept.
fn worked<H: Host>(
    graph: &Graph,
    stage: &Stage,
    slot: &Slot,
    options: &Options,
    host: &mut H,
    observer: &mut dyn Observer,
) -> Result<Outcome, H::Error> {
    Ok(match stage.work() {
        Work::Evaluate(evaluation) => {
            let outcome = evaluate(graph, stage, evaluation, host, observer)?;
            if outcome != Outcome::Interrupted {
                work::show_training(graph, stage, evaluation)?;
            }
            outcome
        }
        Work::Fetch(fetch) => host.fetch(fetch, slot.folder())?,
        Work::Prepare(prepare) => {
            prepare.make(&graph.out, slot.folder(), &mut |note| observer.event(stage, Event::Note(note)))?;
            Outcome::Complete
        }
        Work::Launch(launch) => launched(stage, launch, slot.folder(), host, observer)?,
        Work::Materialize => {
            let mut inputs = graph.inputs(stage).filter(|input| matches!(input.work(), Work::Fetch(_)));
            let fetched = inputs.find_map(Stage::folder);
            let fetched = fetched.ok_or_else(|| Error::Order(stage.name().to_owned()))?;
            host.materialize(fetched, slot.folder())?
        }
        _ => {
            let Options { frames, compute, .. } = options;
            let context = work::Context { graph, stage, out: slot.folder(), frames, compute };
            context.execute(&mut |progress| observer.event(stage, Event::Progress(progress)))?;
            Outcome::Complete
        }
    })
}

/// Runs a training stage of another program.
fn launched<H: Host>(
    stage: &Stage,
    launch: &Launch,
    folder: &Path,
    host: &mut H,
    observer: &mut dyn Observer,
) -> Result<Outcome, H::Error> {
    let job = launch.job.with_models(&mut |id| host.model(id));
    let stop = host.stop();
    let mut observe = |update: Update<'_>| match update {
        Update::Step(step, all) => observer.event(stage, Event::Progress(&Progress::Launched(step, all))),
        Update::Note(note) => observer.event(stage, Event::Note(note.trim_end())),
    };
    let ended =
        job.run(&mut Place { folder, stopped: &*stop, observer: &mut observe }).map_err(Error::from)?;
    Ok(match ended {
        paravt_engines::Outcome::Complete => Outcome::Complete,
        paravt_engines::Outcome::Interrupted => Outcome::Interrupted,
    })
}

/// Runs an evaluation. Where an input stage serves the model, servers are started for it, and restarted if one dies.
fn evaluate<H: Host>(
    graph: &Graph,
    stage: &Stage,
    evaluation: &Evaluation,
    host: &mut H,
    observer: &mut dyn Observer,
) -> Result<Outcome, H::Error> {
    let fleet = graph.inputs(stage).find_map(|input| match input.work() {
        Work::Serve(fleet) => Some(fleet),
        _ => None,
    });
    let Some(fleet) = fleet else { return host.evaluate(stage, evaluation, Answers::AsGiven) };
    if fleet.serve.engine == Engine::Candle {
        return host.evaluate(stage, evaluation, Answers::InProcess(&fleet.model));
    }
    let starting = format!("starting the servers (up to {} s)", fleet.serve.ready_seconds);
    let mut restarts = 0;
    loop {
        observer.event(stage, Event::Note(&starting));
        let probe = |url: &str| host.probe(url, &fleet.model);
        let mut servers = Servers::start(fleet, &graph.out.join("servers"), probe)?;
        let work = |urls: &[String]| host.evaluate(stage, evaluation, Answers::Servers(urls, &fleet.model));
        let (outcome, ended) = servers.watched(work, &mut |line| observer.event(stage, Event::Note(line)));
        let outcome = outcome?;
        let failed = matches!(outcome, Outcome::Incomplete | Outcome::Down);
        servers.finish()?;
        if !failed || ended == 0 || restarts == watch::RESTARTS || host.is_stopped() {
            return Ok(outcome);
        }
        restarts += 1;
        tracing::info!(stage = stage.name(), restarts, "servers started again");
        observer.event(stage, Event::Note("starting the servers again"));
    }
}

/// Checks that all inputs of a stage are done, and the environment of its servers.
fn ready(graph: &Graph, stage: &Stage, options: &Options) -> Result<(), Error> {
    let is_serve = |input: &&Stage| matches!(input.work(), Work::Serve(_));
    let engines = graph.inputs(stage).filter(is_serve).flat_map(|serve| graph.inputs(serve));
    let engines = engines.filter(|input| matches!(input.work(), Work::Prepare(_)));
    let missing = graph
        .inputs(stage)
        .chain(engines)
        .find(|input| input.slot().is_some_and(|slot| slot.state(options.any_code) != State::Done));
    missing.map_or(Ok(()), |input| {
        Err(Error::NotReady { stage: stage.name().to_owned(), input: input.name().to_owned() })
    })
}

/// Runs a stage that is done every time.
fn every_time<H: Host>(
    graph: &Graph,
    stage: &Stage,
    host: &mut H,
    observer: &mut dyn Observer,
) -> Result<Outcome, H::Error> {
    match stage.work() {
        Work::Check(check) => {
            observer.event(stage, Event::Busy("checking"));
            host.check(check)?;
        }
        // The evaluations that build on it start it.
        Work::Serve(_) => {}
        Work::Exam(rows) => {
            let model = graph.inputs(stage).find_map(Stage::folder).map(|folder| folder.join("final"));
            let model = model.ok_or_else(|| Error::Order(stage.name().to_owned()))?;
            observer.event(stage, Event::Started);
            host.examine(&model, *rows)?;
        }
        Work::Report(report) => {
            let begun = graph.evaluations().map(|(_, _, folder)| folder.to_owned());
            let runs: Vec<PathBuf> = begun.filter(|folder| folder.is_dir()).collect();
            if !runs.is_empty() {
                observer.event(stage, Event::Busy("reading the records and writing the report"));
                return host.report(graph, report, &runs);
            }
        }
        _ => return Err(Error::Order(stage.name().to_owned()).into()),
    }
    Ok(Outcome::Complete)
}

impl Options {
    /// The stages to do again, each with its flag.
    fn redone(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let from = self.from.iter().map(|name| ("--from", name.as_str()));
        from.chain(self.redo.iter().map(|name| ("--redo", name.as_str())))
    }

    /// The stages to do again and all that build on them, of those that are selected and not after the end.
    fn redoes<'a>(&self, graph: &'a Graph, end: usize) -> Vec<&'a Stage> {
        let mut is_redone: Vec<bool> = Vec::new();
        for stage in &graph.stages()[..end] {
            let is_named = self.redone().any(|(_, name)| stage.is_called(name));
            is_redone.push(is_named || stage.inputs().any(|input| is_redone[input]));
        }
        let redone = graph.stages().iter().zip(is_redone).filter(|(_, is_redone)| *is_redone);
        redone.map(|(stage, _)| stage).filter(|stage| self.selects(stage)).collect()
    }

    fn selects(&self, stage: &Stage) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| stage.is_called(name))
    }

    /// The number of stages up to the last that runs.
    ///
    /// # Errors
    /// A flag names a stage that the graph does not have.
    pub fn check(&self, graph: &Graph) -> Result<usize, Error> {
        let only = self.only.iter().map(|name| ("--only", name.as_str()));
        let is_unknown = |name: &str| !graph.stages().iter().any(|stage| stage.is_called(name));
        if let Some((flag, name)) = only.chain(self.redone()).find(|(_, name)| is_unknown(name)) {
            return Err(no_stage(graph, flag, name));
        }
        let Some(name) = &self.until else { return Ok(graph.stages().len()) };
        let last = graph.stages().iter().rposition(|stage| stage.name() == name);
        last.map(|last| last + 1).ok_or_else(|| no_stage(graph, "--until", name))
    }
}

fn no_stage(graph: &Graph, flag: &'static str, name: &str) -> Error {
    let mut known: Vec<&str> = Vec::new();
    for stage in graph.stages() {
        if !known.contains(&stage.name()) {
            known.push(stage.name());
        }
    }
    Error::NoStage { flag, name: name.to_owned(), known: known.join(", ") }
}
