//! Runs a graph: selects stages, keeps finished results, resumes interrupted ones, restarts servers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::error::Error;
use crate::graph::{Graph, Stage};
use crate::provenance::{self, Provenance};
use crate::replacement;
use crate::servers::Fleet;
use crate::slot::{self, Slot, State};
use crate::status;
use crate::verdict::Verdict;
use crate::work::{Role, Serving, StageContext};

pub use crate::host::{About, Answers, Check, Evaluation, Event, Host, Outcome, Reporting, TrainedModel};
pub use crate::options::Options;

/// Models of many GB are hashed, which takes minutes.
const VERIFYING: &str = "verifying its files";

/// Shows progress; also from the thread that watches servers.
pub trait Observer: Send {
    /// Shows an event of a stage.
    fn event(&mut self, stage: &Stage, event: Event<'_>);
}

/// Runs the stages of a graph that the options select. Finished results are kept; interrupted stages are resumed.
///
/// # Errors
/// Another process works in the folder, an unknown stage, a stage that failed.
pub fn run(
    graph: &Graph,
    options: &Options,
    host: &mut dyn Host,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    let end = options.check(graph)?;
    let stages = &graph.stages()[..end];
    let _lock = slot::lock(&graph.out)?;
    status::list(graph, &options.command)?;
    let redone = options.redoes(graph, end);
    let (worst, serving, verdicts) = (Outcome::Complete, Serving::default(), BTreeMap::new());
    let given_up = Vec::new();
    let mut drive = Drive { graph, stages, options, host, observer, worst, serving, verdicts, given_up };
    let mut fleets: Vec<&Arc<Fleet>> = redone.iter().filter_map(|stage| stage.fleet()).collect();
    fleets.dedup();
    for fleet in fleets {
        // Nothing is moved for what is refused afterwards.
        drive.same_answers(fleet, &redone)?;
    }
    replacement::replace(graph, &redone, options.yes, &mut |stage, to| {
        drive.observer.event(stage, Event::Discarded("asked to do it again", to));
    })?;
    for (number, stage) in stages.iter().enumerate() {
        if !drive.is_left(stage) {
            continue;
        }
        let outcome = match (drive.stage(number), stage.row()) {
            (Err(error), Some(_)) => drive.give_up(stage, &error)?,
            (outcome, _) => outcome?,
        };
        // A stage may have been too near its end to notice.
        let outcome = if drive.host.is_stopped() { Outcome::Interrupted } else { outcome };
        drive.worst = drive.worst.max(outcome);
        if outcome == Outcome::Interrupted {
            break;
        }
    }
    Ok(drive.worst)
}

/// A graph that is being run.
struct Drive<'a> {
    graph: &'a Graph,
    /// Its stages up to the last that runs.
    stages: &'a [Stage],
    options: &'a Options,
    host: &'a mut dyn Host,
    observer: &'a mut dyn Observer,
    /// The worst outcome so far.
    worst: Outcome,
    serving: Serving,
    /// Verdicts on stages, by their numbers, that no work since has changed.
    verdicts: BTreeMap<usize, Verdict>,
    /// Rows of a table of which a stage has failed, or a run of one.
    given_up: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> Drive<'a> {
    fn stage(&mut self, number: usize) -> Result<Outcome, Error> {
        let stage = &self.stages[number];
        match stage.slot() {
            Some(_) if !self.options.selects(stage) => Ok(Outcome::Complete),
            Some(slot) => self.run_cached(number, slot),
            // The machine is checked only if any stage is still to run.
            None if stage.work().role() == Role::Preflight && !self.has_work()? => Ok(Outcome::Complete),
            None => self.run_work(stage, &self.graph.out),
        }
    }

    /// After the failure of a stage that one row of a table has for itself: the others go on, and where its evaluation could not
    /// be asked, as its settings or its texts have it, so do those of the row's other runs.
    fn give_up(&mut self, stage: &'a Stage, error: &Error) -> Result<Outcome, Error> {
        let run = stage.family().filter(|_| matches!(error, Error::Host(_)));
        tracing::info!(stage = stage.name(), ?run, "given up");
        self.observer.event(stage, Event::GivenUp(run, &causes(error)));
        self.given_up.push((stage.row().unwrap_or_default(), run));
        if let Some(servers) = self.serving.standing.take() {
            servers.finish()?;
        }
        Ok(Outcome::Incomplete)
    }

    /// Whether nothing has failed that a stage would fail for as well.
    fn is_left(&self, stage: &Stage) -> bool {
        let fails = |(row, run): &(&str, Option<&str>)| {
            stage.row() == Some(row) && (run.is_none() || stage.family() == *run)
        };
        !self.given_up.iter().any(fails)
    }

    /// The verdict on a stage whose result is kept.
    fn verdict(&mut self, number: usize, slot: &Slot) -> Result<Verdict, Error> {
        if let Some(known) = self.verdicts.get(&number) {
            return Ok(known.clone());
        }
        let stage = &self.stages[number];
        self.observer.event(stage, Event::Busy(VERIFYING));
        let verdict = Verdict::of(stage, slot, &self.graph.out, self.options.any_code, self.host)?;
        self.verdicts.insert(number, verdict.clone());
        Ok(verdict)
    }

    /// Does the work of a stage, in a folder.
    fn run_work(&mut self, stage: &'a Stage, folder: &Path) -> Result<Outcome, Error> {
        let runs: Vec<PathBuf> = self.graph.evaluations().map(|(_, _, folder)| folder.to_owned()).collect();
        let (stages, options) = (self.stages, self.options);
        let chosen = self.graph.stages().iter();
        let chosen: Vec<&Stage> =
            chosen.filter(|other| options.selects(other) && self.is_left(other)).collect();
        let is_chosen = |other: &&Stage| chosen.iter().any(|chosen| std::ptr::eq(*chosen, *other));
        let after = || stages.iter().skip_while(|other| !std::ptr::eq(*other, stage)).skip(1);
        let next = || {
            after().filter(is_chosen).find_map(|other| {
                let next = other.evaluation()?;
                (other.slot()?.state(options.any_code) != State::Done).then_some(next)
            })
        };
        let observer = &mut *self.observer;
        stage.work().run(&mut StageContext {
            stage: stage.name(),
            recipe: &self.graph.recipe,
            out: &self.graph.out,
            folder,
            runs: &runs,
            // Also those behind --until, of which a job on another node begins.
            coming: chosen.iter().filter_map(|chosen| chosen.evaluation()).collect(),
            next: &next,
            options,
            host: self.host,
            event: &mut |event| observer.event(stage, event),
            serving: &mut self.serving,
        })
    }

    /// Whether any selected stage is still to run.
    fn has_work(&mut self) -> Result<bool, Error> {
        for (number, stage) in self.stages.iter().enumerate().filter(|(_, stage)| self.options.selects(stage))
        {
            if let Some(slot) = stage.slot()
                && self.verdict(number, slot)? != Verdict::Keep
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs a stage whose result is kept, unless it is done already.
    fn run_cached(&mut self, number: usize, slot: &Slot) -> Result<Outcome, Error> {
        let stage = &self.stages[number];
        self.observer.event(stage, Event::Busy(VERIFYING));
        let fleet = stage.fleet();
        if let Some(fleet) = fleet {
            self.refuse_mixture(fleet)?;
        }
        let verdict = self.verdict(number, slot)?;
        if verdict == Verdict::Keep {
            tracing::info!(stage = stage.name(), "done before");
            self.observer.event(stage, Event::Kept);
            return Ok(Outcome::Complete);
        }
        // The failure that ended the evaluation before would end this one as well.
        if self.worst == Outcome::Down && stage.work().role() == Role::Evaluate {
            return Ok(Outcome::Complete);
        }
        // What builds on it is looked at again.
        self.verdicts.clear();
        match verdict {
            Verdict::Redo(why) => self.discard(stage, slot, &why)?,
            Verdict::Resume(Some(gone)) => {
                let note = format!("done before, but {gone}: fetching what is missing");
                self.observer.event(stage, Event::Note(&note));
            }
            Verdict::Resume(None) | Verdict::Keep => {}
        }
        self.ready(stage)?;
        let write = |source| Error::Write { path: slot.folder().to_owned(), source };
        // Of what an earlier version began, the first is not known.
        let is_unknown = provenance::read(slot.folder()).is_empty();
        slot.begin().map_err(write)?;
        status::note_error(slot.folder(), None).map_err(write)?;
        if let (Some((_, facts)), Some(_), true) = (&self.serving.provenance, fleet, is_unknown) {
            provenance::write(slot.folder(), facts).map_err(write)?;
        }
        tracing::info!(stage = stage.name(), "stage started");
        self.observer.event(stage, Event::Started);
        let began = Instant::now();
        let result = self.run_work(stage, slot.folder());
        let noted = match &result {
            Ok(outcome) => slot.ended(outcome.as_str().to_owned()),
            Err(error) => status::note_error(slot.folder(), Some(&causes(error)))
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
        self.observer.event(stage, Event::Discarded(why, &replacement::discard(self.graph, slot)?));
        Ok(())
    }

    /// Finds out what answers for a fleet, and refuses to build on evaluations that another model or engine has answered.
    fn refuse_mixture(&mut self, fleet: &Arc<Fleet>) -> Result<(), Error> {
        if self.serving.provenance.as_ref().is_none_or(|(known, _)| known != fleet) {
            self.serving.provenance = Some((Arc::clone(fleet), self.same_answers(fleet, &[])?));
        }
        Ok(())
    }

    /// What answers for a fleet, which has to be what answered the evaluations before, other than some.
    fn same_answers(&mut self, fleet: &Arc<Fleet>, except: &[&Stage]) -> Result<Provenance, Error> {
        let folder = Some(PathBuf::from(&fleet.model)).filter(|folder| folder.is_dir());
        let folder = folder.or_else(|| self.host.model(&fleet.model));
        let now = provenance::of(fleet, folder.as_deref())?;
        let (mut others, mut difference) = (Vec::new(), None);
        let selected = self.stages.iter().filter(|stage| self.options.selects(stage));
        for stage in selected.filter(|stage| !except.iter().any(|other| other.folder() == stage.folder())) {
            let Some(folder) = stage.folder().filter(|_| stage.fleet() == Some(fleet)) else {
                continue;
            };
            let differences = provenance::differences(&provenance::read(folder), &now);
            if !differences.is_empty() {
                others.push(stage.name());
                difference.get_or_insert_with(|| differences.join("; "));
            }
        }
        if let Some(difference) = difference.filter(|_| !self.options.any_code) {
            return Err(Error::OtherModel { difference, stages: others.join(",") });
        }
        Ok(now)
    }

    /// Checks that all inputs of a stage are done, and the environment of its servers.
    fn ready(&self, stage: &Stage) -> Result<(), Error> {
        let missing = self.missing(stage);
        let Some(input) = missing.first().map(|input| input.name().to_owned()) else { return Ok(()) };
        let mut only: Vec<&str> = Vec::new();
        self.gather(&missing, &mut only);
        only.extend(self.options.only.iter().map(String::as_str));
        Err(Error::NotReady { stage: stage.name().to_owned(), input, only: only.join(",") })
    }

    /// Names of stages that are not done, each after what it builds on that is not done either.
    fn gather(&self, missing: &[&'a Stage], found: &mut Vec<&'a str>) {
        for stage in missing {
            if !found.contains(&stage.name()) {
                self.gather(&self.missing(stage), found);
                found.push(stage.name());
            }
        }
    }

    /// What a stage builds on that is not done.
    fn missing(&self, stage: &Stage) -> Vec<&'a Stage> {
        let graph: &'a Graph = self.graph;
        let serves = graph.inputs(stage).filter(|input| input.work().role() == Role::Serve);
        let engines = serves.flat_map(|serve| graph.inputs(serve));
        let engines = engines.filter(|input| input.work().role() == Role::Install);
        let is_done = |slot: &Slot| slot.state(self.options.any_code) == State::Done;
        let needed = graph.inputs(stage).chain(engines);
        needed.filter(|input| input.slot().is_some_and(|slot| !is_done(slot))).collect()
    }
}

/// An error and its causes in one line, each text once.
fn causes(error: &Error) -> String {
    let first: &dyn std::error::Error = error;
    let all = std::iter::successors(Some(first), |error| error.source());
    let mut texts: Vec<String> = all.map(ToString::to_string).collect();
    texts.dedup_by(|next, known| known.contains(next.as_str()));
    texts.join(": ")
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
        stage.is_among(&self.only)
    }

    /// The number of stages up to the last that runs.
    ///
    /// # Errors
    /// A flag names a stage that the graph does not have, or that another flag leaves out.
    pub fn check(&self, graph: &Graph) -> Result<usize, Error> {
        let named = || self.only.iter().map(|name| ("--only", name.as_str())).chain(self.redone());
        let is_unknown = |name: &str| !graph.stages().iter().any(|stage| stage.is_called(name));
        if let Some((flag, name)) = named().find(|(_, name)| is_unknown(name)) {
            return Err(no_stage(graph, flag, name));
        }
        let end = match &self.until {
            None => graph.stages().len(),
            Some(name) => {
                let last = graph.stages().iter().rposition(|stage| stage.name() == name);
                last.map(|last| last + 1).ok_or_else(|| no_stage(graph, "--until", name))?
            }
        };
        let apart = |flag, name: &str, other| Error::Apart { flag, name: name.to_owned(), other };
        for (flag, name) in named() {
            let mut called = graph.stages()[..end].iter().filter(|stage| stage.is_called(name)).peekable();
            if called.peek().is_none() {
                let until = self.until.as_deref().unwrap_or_default();
                return Err(apart(flag, name, format!("--until {until}")));
            }
            if !called.any(|stage| self.selects(stage)) {
                return Err(apart(flag, name, format!("--only {}", self.only.join(","))));
            }
        }
        Ok(end)
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
