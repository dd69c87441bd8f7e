//! Splits, run on a model: one that is loaded in this process, one behind servers that are started for it, or what the
//! user's flags name.

use std::path::Path;

use paravt_train::log::FILE as TRAINING;

use super::training_record::{self, TrainingRecord, parameters};
use crate::error::Error;
use crate::host::{Answers, Evaluation, Event, Outcome, TrainedModel};
use crate::server_watch;
use crate::servers::{Engine, Fleet, Servers};
use crate::slot::Key;
use crate::work::{Role, StageContext, Work};

/// Name of the protocol of the release's own rollouts.
const UPSTREAM: &str = "paravt";

impl Work for Evaluation {
    fn role(&self) -> Role {
        Role::Evaluate
    }

    fn title(&self) -> String {
        self.title.clone()
    }

    /// Records of a model behind a server stay valid across versions; each run's manifest names its binary.
    fn key(&self) -> Option<Key> {
        let version = if self.is_served() { "served" } else { "evaluation-1" };
        Some(Key { limit: self.limit, ..Key::new(version, &self.settings) })
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        let outcome = match &self.fleet {
            None => context.host.evaluate(self, context.folder, Answers::AsGiven)?,
            Some(fleet) => self.ask(fleet, context)?,
        };
        if outcome != Outcome::Interrupted {
            self.show_training(context.folder)?;
        }
        Ok(outcome)
    }

    /// From the release's driver (ParaVT cf55249 paravt/eval/driver.py).
    fn deviations(&self) -> Vec<String> {
        let retried = "a failed request is retried, then recorded as an error of its sample; the release scores it as an answer";
        vec![retried.to_owned()]
    }

    fn gpus(&self) -> usize {
        self.fleet.as_ref().map_or(0, |fleet| fleet.gpus.len())
    }

    /// Answers of a server are expensive, and their journal verifies itself.
    fn verifies_itself(&self) -> bool {
        self.is_served()
    }

    fn prints(&self) -> bool {
        true
    }
}

impl Evaluation {
    /// Starts servers, or asks those of the evaluation before again, and restarts them if one dies.
    fn ask(&self, fleet: &Fleet, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        let folder = context.folder;
        let facts = context.serving.provenance.as_ref().map(|(_, facts)| facts.clone()).unwrap_or_default();
        let Fleet { model, serve, .. } = fleet;
        if serve.engine == Engine::Candle {
            return Ok(context.host.evaluate(self, folder, Answers::InProcess(model, &facts))?);
        }
        let starting = format!("starting the servers (up to {} s)", serve.ready_seconds);
        let mut restarts = 0;
        loop {
            let mut servers = match context.serving.standing.take() {
                Some(servers) => {
                    (context.event)(Event::Note("asking the servers of the evaluation before"));
                    servers
                }
                None => {
                    (context.event)(Event::Note(&starting));
                    let probe = |url: &str| context.host.probe(url, model);
                    Servers::start(fleet, &context.out.join("servers"), probe)?
                }
            };
            let (host, event) = (&mut *context.host, &mut *context.event);
            let work = |urls: &[String]| host.evaluate(self, folder, Answers::Servers(urls, model, &facts));
            let (outcome, ended) = servers.watched(work, &mut |line| event(Event::Note(line)));
            let outcome = outcome?;
            if ended == 0 && outcome == Outcome::Complete && self.next_asks_them(context) {
                context.serving.standing = Some(servers);
                return Ok(outcome);
            }
            servers.finish()?;
            let failed = matches!(outcome, Outcome::Incomplete | Outcome::Down);
            if !failed || ended == 0 || restarts == server_watch::RESTARTS || context.host.is_stopped() {
                return Ok(outcome);
            }
            restarts += 1;
            tracing::info!(stage = context.stage, restarts, "servers started again");
            (context.event)(Event::Note("starting the servers again"));
        }
    }

    /// Whether the next evaluation to run asks the same servers.
    fn next_asks_them(&self, context: &StageContext<'_>) -> bool {
        !context.host.is_stopped() && (context.next)().is_some_and(|next| next.fleet == self.fleet)
    }

    /// Puts a checkpoint's training curves, and the description of the training, beside its first split in `folder`, where
    /// the report finds them.
    fn show_training(&self, folder: &Path) -> Result<(), Error> {
        let Some(split) = self.splits.first() else { return Ok(()) };
        let run = folder.join(split);
        if let Some(model) = &self.model {
            for name in [TRAINING, training_record::FILE, paravt_reports::BEFORE] {
                copy(&model.with_file_name(name), &run.join(name))?;
            }
        }
        if let Some(TrainedModel { training, model, about }) = &self.training
            && run.is_dir()
        {
            copy(&training.join(TRAINING), &run.join(TRAINING))?;
            let record = TrainingRecord {
                recipe: &about.recipe,
                model: &about.base_model,
                parameters: parameters(model)?,
                protocol: UPSTREAM,
                seed: Some(about.seed),
            };
            record.write(&run)?;
        }
        Ok(())
    }
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    if !from.is_file() {
        return Ok(());
    }
    let copied = std::fs::read(from).and_then(|bytes| paravt_files::write_atomic(to, &bytes));
    copied.map_err(|source| Error::Write { path: to.to_owned(), source })
}
