//! Runs a graph: selects stages, keeps finished results, resumes interrupted ones, restarts servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use paravt_engines::{Place, Update};
use paravt_suite::frames::FrameSource;
use paravt_train::Compute;

use crate::error::Error;
use crate::graph::{Evaluation, Graph, Stage, Work};
use crate::launched::Launch;
use crate::provenance::{self, Provenance};
use crate::redo;
use crate::serve::{Engine, Fleet, Servers};
use crate::slot::{self, Slot, State};
use crate::status;
use crate::watch;
use crate::work::{self, Progress};

pub use crate::host::{Answers, Event, Host, Observer, Outcome};

/// Models of many GB are hashed, which takes minutes.
const VERIFYING: &str = "verifying its files";

/// Which stages of a graph run, and with what.
pub struct Options {
    /// Build on results that another version of the code, another model or another engine made.
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
    /// The command, for who asks later how it was run; without secrets and paths.
    pub command: Vec<String>,
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
    let stages = &graph.stages()[..end];
    refuse_undone(stages)?;
    let _lock = slot::lock(&graph.out)?;
    status::list(graph, &options.command)?;
    let redone = options.redoes(graph, end);
    let (worst, provenance, standing) = (Outcome::Complete, None, None);
    let mut drive = Drive { graph, stages, options, host, observer, worst, provenance, standing };
    if let Some(fleet) = redone.iter().find_map(|stage| graph.fleet(stage)) {
        // Nothing is moved for what is refused afterwards.
        drive.same_answers(fleet, &redone)?;
    }
    redo::replace(graph, &redone, options.yes, &mut |stage, to| {
        drive.observer.event(stage, Event::Discarded("asked to do it again", to));
    })?;
    for stage in stages {
        let outcome = drive.stage(stage)?;
        // A stage may have been too near its end to notice.
        let outcome = if drive.host.is_stopped() { Outcome::Interrupted } else { outcome };
        drive.worst = drive.worst.max(outcome);
        if outcome == Outcome::Interrupted {
            break;
        }
    }
    Ok(drive.worst)
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

/// A graph that is being run.
struct Drive<'a, H> {
    graph: &'a Graph,
    /// Its stages up to the last that runs.
    stages: &'a [Stage],
    options: &'a Options,
    host: &'a mut H,
    observer: &'a mut dyn Observer,
    /// The worst outcome so far.
    worst: Outcome,
    /// What answers for a fleet, once that is known.
    provenance: Option<(&'a Fleet, Provenance)>,
    /// Servers of the evaluation before, which the next one asks, too.
    standing: Option<Servers>,
}

impl<'a, H: Host> Drive<'a, H> {
    fn stage(&mut self, stage: &'a Stage) -> Result<Outcome, H::Error> {
        match stage.slot() {
            Some(_) if !self.options.selects(stage) => Ok(Outcome::Complete),
            Some(slot) => self.kept(stage, slot),
            // The machine is checked only if any stage is still to run.
            None if is_preflight(stage) && !self.has_work()? => Ok(Outcome::Complete),
            None => self.every_time(stage),
        }
    }

    /// Whether any selected stage is still to run.
    fn has_work(&mut self) -> Result<bool, H::Error> {
        for stage in self.stages.iter().filter(|stage| self.options.selects(stage)) {
            let Some(slot) = stage.slot() else { continue };
            self.observer.event(stage, Event::Busy(VERIFYING));
            let is_done = slot.state(self.options.any_code) == State::Done;
            if !is_done || self.gone(stage)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What of the files that a stage fetched is no longer on this machine.
    fn gone(&mut self, stage: &Stage) -> Result<Option<String>, H::Error> {
        match stage.work() {
            Work::Fetch(fetch) => self.host.missing(fetch),
            _ => Ok(None),
        }
    }

    /// Runs a stage whose result is kept, unless it is done already.
    fn kept(&mut self, stage: &'a Stage, slot: &Slot) -> Result<Outcome, H::Error> {
        self.observer.event(stage, Event::Busy(VERIFYING));
        let fleet = self.graph.fleet(stage);
        if let Some(fleet) = fleet {
            self.refuse_mixture(fleet)?;
        }
        let is_served = stage.work().is_served();
        match slot.state(self.options.any_code) {
            State::Done => match stage.work().damage(&self.graph.out) {
                None => {
                    let Some(gone) = self.gone(stage)? else {
                        tracing::info!(stage = stage.name(), "done before");
                        self.observer.event(stage, Event::Kept);
                        return Ok(Outcome::Complete);
                    };
                    let note = format!("done before, but {gone}: fetching what is missing");
                    self.observer.event(stage, Event::Note(&note));
                }
                Some(why) => self.discard(stage, slot, &why)?,
            },
            // The failure that ended the evaluation before would end this one as well.
            _ if self.worst == Outcome::Down && matches!(stage.work(), Work::Evaluate(_)) => {
                return Ok(Outcome::Complete);
            }
            // Answers of a server are expensive and their journal verifies itself; a training of days in another program
            // verifies its own checkpoints. Neither is deleted.
            State::Unusable(_) if is_served || matches!(stage.work(), Work::Launch(_)) => {}
            State::Unusable(why) => self.discard(stage, slot, &why)?,
            State::New | State::Begun => {}
        }
        self.ready(stage)?;
        let write = |source| Error::Write { path: slot.folder().to_owned(), source };
        // Of what an earlier version began, the first is not known.
        let is_unknown = provenance::read(slot.folder()).is_empty();
        slot.begin().map_err(write)?;
        status::note_error(slot.folder(), None).map_err(write)?;
        if let (Some((_, facts)), Some(_), true) = (&self.provenance, fleet, is_unknown) {
            provenance::write(slot.folder(), facts).map_err(write)?;
        }
        tracing::info!(stage = stage.name(), "stage started");
        self.observer.event(stage, Event::Started);
        let began = Instant::now();
        let result = self.worked(stage, slot);
        let noted = match &result {
            Ok(outcome) => slot.ended(outcome.as_str().to_owned()),
            Err(error) => status::note_error(slot.folder(), Some(&format!("{error:#}")))
                .and_then(|()| slot.ended("failed".to_owned())),
        };
        let outcome = result?;
        // A full disk that has ended the stage takes no note of it either; the stage is unfinished without one.
        if outcome != Outcome::Down {
            noted.map_err(write)?;
        }
        if outcome == Outcome::Complete {
            slot.finish(&self.graph.deviations(stage)).map_err(write)?;
        }
        tracing::info!(
            stage = stage.name(),
            ?outcome,
            seconds = began.elapsed().as_secs_f64(),
            "stage ended"
        );
        self.observer.event(stage, Event::Ended(began.elapsed(), outcome));
        Ok(outcome)
    }

    fn discard(&mut self, stage: &Stage, slot: &Slot, why: &str) -> Result<(), Error> {
        tracing::info!(stage = stage.name(), why, "result discarded");
        self.observer.event(stage, Event::Discarded(why, &redo::discard(self.graph, slot)?));
        Ok(())
    }

    /// Does the work of a stage whose result is kept.
    fn worked(&mut self, stage: &'a Stage, slot: &Slot) -> Result<Outcome, H::Error> {
        let (graph, out) = (self.graph, slot.folder());
        Ok(match stage.work() {
            Work::Evaluate(evaluation) => {
                let outcome = self.evaluate(stage, evaluation)?;
                if outcome != Outcome::Interrupted {
                    work::show_training(graph, stage, evaluation)?;
                }
                outcome
            }
            Work::Fetch(fetch) => self.host.fetch(fetch, out)?,
            Work::Prepare(prepare) => {
                let observer = &mut *self.observer;
                prepare.make(&graph.out, out, &mut |note| observer.event(stage, Event::Note(note)))?;
                Outcome::Complete
            }
            Work::Launch(launch) => self.launch(stage, launch, out)?,
            Work::Materialize => {
                let mut inputs = graph.inputs(stage).filter(|input| matches!(input.work(), Work::Fetch(_)));
                let fetched = inputs.find_map(Stage::folder);
                let fetched = fetched.ok_or_else(|| Error::Order(stage.name().to_owned()))?;
                self.host.materialize(fetched, out)?
            }
            _ => {
                let Options { frames, compute, .. } = self.options;
                let context = work::Context { graph, stage, out, frames, compute };
                let observer = &mut *self.observer;
                context.execute(&mut |progress| observer.event(stage, Event::Progress(progress)))?;
                Outcome::Complete
            }
        })
    }

    /// Runs a training stage of another program.
    fn launch(&mut self, stage: &Stage, launch: &Launch, folder: &Path) -> Result<Outcome, H::Error> {
        let job = launch.job.with_models(&mut |id| self.host.model(id));
        let stop = self.host.stop();
        let observer = &mut *self.observer;
        let mut observe = |update: Update<'_>| match update {
            Update::Step(step, all) => {
                observer.event(stage, Event::Progress(&Progress::Launched(step, all)));
            }
            Update::Note(note) => observer.event(stage, Event::Note(note.trim_end())),
        };
        let mut place = Place { folder, stopped: &*stop, observer: &mut observe };
        Ok(match job.run(&mut place).map_err(Error::from)? {
            paravt_engines::Outcome::Complete => Outcome::Complete,
            paravt_engines::Outcome::Interrupted => Outcome::Interrupted,
        })
    }

    /// Finds out what answers for a fleet, and refuses to build on evaluations that another model or engine has answered.
    fn refuse_mixture(&mut self, fleet: &'a Fleet) -> Result<(), H::Error> {
        if self.provenance.as_ref().is_none_or(|(known, _)| *known != fleet) {
            self.provenance = Some((fleet, self.same_answers(fleet, &[])?));
        }
        Ok(())
    }

    /// What answers for a fleet, which has to be what answered the evaluations before, other than some.
    fn same_answers(&mut self, fleet: &Fleet, except: &[&Stage]) -> Result<Provenance, H::Error> {
        let folder = Some(PathBuf::from(&fleet.model)).filter(|folder| folder.is_dir());
        let folder = folder.or_else(|| self.host.model(&fleet.model));
        let now = provenance::of(fleet, folder.as_deref())?;
        let (mut others, mut difference) = (Vec::new(), None);
        let selected = self.stages.iter().filter(|stage| self.options.selects(stage));
        for stage in selected.filter(|stage| !except.iter().any(|other| other.folder() == stage.folder())) {
            let Some(folder) = stage.folder().filter(|_| self.graph.fleet(stage) == Some(fleet)) else {
                continue;
            };
            let differences = provenance::differences(&provenance::read(folder), &now);
            if !differences.is_empty() {
                others.push(stage.name());
                difference.get_or_insert_with(|| differences.join("; "));
            }
        }
        if let Some(difference) = difference.filter(|_| !self.options.any_code) {
            return Err(Error::OtherModel { difference, stages: others.join(",") }.into());
        }
        Ok(now)
    }

    /// Runs an evaluation. Where an input stage serves the model, servers are started for it, or those of the evaluation
    /// before asked again, and restarted if one dies.
    fn evaluate(&mut self, stage: &'a Stage, evaluation: &Evaluation) -> Result<Outcome, H::Error> {
        let Some(fleet) = self.graph.fleet(stage) else {
            return self.host.evaluate(stage, evaluation, Answers::AsGiven);
        };
        let facts = self.provenance.as_ref().map(|(_, facts)| facts.clone()).unwrap_or_default();
        let Fleet { model, serve, .. } = fleet;
        if serve.engine == Engine::Candle {
            return self.host.evaluate(stage, evaluation, Answers::InProcess(model, &facts));
        }
        let starting = format!("starting the servers (up to {} s)", serve.ready_seconds);
        let mut restarts = 0;
        loop {
            let (host, observer) = (&mut *self.host, &mut *self.observer);
            let mut servers = match self.standing.take() {
                Some(servers) => {
                    observer.event(stage, Event::Note("asking the servers of the evaluation before"));
                    servers
                }
                None => {
                    observer.event(stage, Event::Note(&starting));
                    let probe = |url: &str| host.probe(url, model);
                    Servers::start(fleet, &self.graph.out.join("servers"), probe)?
                }
            };
            let work =
                |urls: &[String]| host.evaluate(stage, evaluation, Answers::Servers(urls, model, &facts));
            let (outcome, ended) =
                servers.watched(work, &mut |line| observer.event(stage, Event::Note(line)));
            let outcome = outcome?;
            if ended == 0 && outcome == Outcome::Complete && self.next_asks_them(stage, evaluation) {
                self.standing = Some(servers);
                return Ok(outcome);
            }
            servers.finish()?;
            let failed = matches!(outcome, Outcome::Incomplete | Outcome::Down);
            if !failed || ended == 0 || restarts == watch::RESTARTS || self.host.is_stopped() {
                return Ok(outcome);
            }
            restarts += 1;
            tracing::info!(stage = stage.name(), restarts, "servers started again");
            self.observer.event(stage, Event::Note("starting the servers again"));
        }
    }

    /// Whether the next evaluation to run is of the same splits on the same servers. The release starts other servers for each
    /// data set (scripts/run_eval.sh), and so do we.
    fn next_asks_them(&self, stage: &Stage, evaluation: &Evaluation) -> bool {
        let after = self.stages.iter().skip_while(|other| other.folder() != stage.folder()).skip(1);
        let to_run = after.filter(|other| self.options.selects(other)).find_map(|other| {
            let Work::Evaluate(next) = other.work() else { return None };
            let is_done = other.slot()?.state(self.options.any_code) == State::Done;
            (!is_done).then_some((other, next))
        });
        !self.host.is_stopped()
            && to_run.is_some_and(|(other, next)| {
                next.splits == evaluation.splits && self.graph.fleet(other) == self.graph.fleet(stage)
            })
    }

    /// Checks that all inputs of a stage are done, and the environment of its servers.
    fn ready(&self, stage: &Stage) -> Result<(), Error> {
        let is_serve = |input: &&Stage| matches!(input.work(), Work::Serve(_));
        let engines = self.graph.inputs(stage).filter(is_serve).flat_map(|serve| self.graph.inputs(serve));
        let engines = engines.filter(|input| matches!(input.work(), Work::Prepare(_)));
        let is_done = |slot: &Slot| slot.state(self.options.any_code) == State::Done;
        let mut needed = self.graph.inputs(stage).chain(engines);
        let missing = needed.find(|input| input.slot().is_some_and(|slot| !is_done(slot)));
        missing.map_or(Ok(()), |input| {
            Err(Error::NotReady { stage: stage.name().to_owned(), input: input.name().to_owned() })
        })
    }

    /// Runs a stage that is done every time.
    fn every_time(&mut self, stage: &Stage) -> Result<Outcome, H::Error> {
        match stage.work() {
            Work::Check(check) => {
                self.observer.event(stage, Event::Busy("checking"));
                self.host.check(check)?;
            }
            // The evaluations that build on it start it.
            Work::Serve(_) => {}
            Work::Exam(rows) => {
                let model = self.graph.inputs(stage).find_map(Stage::folder);
                let model = model.map(|folder| folder.join("final"));
                let model = model.ok_or_else(|| Error::Order(stage.name().to_owned()))?;
                self.observer.event(stage, Event::Started);
                self.host.examine(&model, *rows)?;
            }
            Work::Report(report) => {
                let begun = self.graph.evaluations().map(|(_, _, folder)| folder.to_owned());
                let runs: Vec<PathBuf> = begun.filter(|folder| folder.is_dir()).collect();
                if !runs.is_empty() {
                    self.observer.event(stage, Event::Busy("reading the records and writing the report"));
                    return self.host.report(self.graph, report, &runs);
                }
            }
            _ => return Err(Error::Order(stage.name().to_owned()).into()),
        }
        Ok(Outcome::Complete)
    }
}

fn is_preflight(stage: &Stage) -> bool {
    matches!(stage.work(), Work::Check(crate::graph::Check::Machine(_)))
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
