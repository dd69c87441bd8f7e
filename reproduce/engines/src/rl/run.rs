//! One reinforcement learning: server and trainers prepared, started, watched, stopped together.

use std::net::ToSocketAddrs as _;
use std::path::Path;
use std::time::{Duration, Instant};

use paravt_hub::http::health;
use paravt_supervise::Process;

use super::state::{self, EXPERIMENT, From};
use super::{Job, experiments};
use crate::command::free_port;
use crate::error::Result;
use crate::files::needs;
use crate::materialized::{check_rows, written_rows};
use crate::record::Record;
use crate::watch::{Attempt, End, Watcher, failed, seconds, with_restarts};
use crate::{JobContext, Outcome, Update, entry, files, steps};

/// Name of the server's process and log.
const SERVER: &str = "server";
/// Name of the trainers' process and log.
const TRAINER: &str = "trainer";
/// An exception in the server or in its wrapper, which then waits for ever.
const CRASHED: &str = "Traceback (most recent call last)";
/// A group of answers was lost; AReaL generates another one, without a limit.
const LOST: &str = "Workflow execution failed";
/// A reward was not computed in time and counts as 0.
const SLOW: &str = "Computing reward timeout";
/// A row without its video was dropped.
const DROPPED: &str = "[paravt.data] missing video, skipping";
/// Line of the trainer about its rows.
const LOADED: &str = "Loaded ";
/// Time between two health checks of the server.
const HEALTH_PAUSE: Duration = Duration::from_secs(30);
/// Failed health checks in a row after which the server is stopped.
const UNHEALTHY: usize = 10;

impl Job {
    /// Trains; resumes from AReaL's recovery state or from the last checkpoint.
    pub(crate) fn run(&self, context: &mut JobContext<'_>) -> Result<Outcome> {
        self.settings.check()?;
        self.check_gpus()?;
        let job =
            Self { paths: self.paths.absolute()?, model: files::absolute(&self.model)?, ..self.clone() };
        let folder = files::absolute(context.folder)?;
        if job.is_done(&folder)? {
            return Ok(Outcome::Complete);
        }
        job.prepare(&folder)?;
        with_restarts(&job.watch, context, |context| job.attempt(&folder, context))
    }

    /// Whether all steps are done and the chosen checkpoint is there.
    fn is_done(&self, folder: &Path) -> Result<bool> {
        let steps = steps::Curves::open(folder)?.last();
        Ok(steps >= self.settings.steps && self.is_saved(folder)?)
    }

    /// Whether the chosen checkpoint is there.
    fn is_saved(&self, folder: &Path) -> Result<bool> {
        Ok(state::saves(folder)?.iter().any(|save| save.step == self.settings.pick))
    }

    fn prepare(&self, folder: &Path) -> Result<()> {
        let work = folder.join("scratch");
        let environments = "run the stage `environments`";
        needs("the environment of AReaL", &self.paths.rl_environment.join("bin/torchrun"), environments)?;
        let configuration = self.configurations().join("paragrpo_8b.yaml");
        needs("the release's configuration", &configuration, "run the stage `checkout`")?;
        needs("AReaL", &self.paths.engines.join("areal"), environments)?;
        needs("the model to start from", &self.model.join("config.json"), "run the stage `merge`")?;
        needs("the rows of reinforcement learning", &self.paths.rl_rows, "run the stage `materialize`")?;
        for name in ["cache/torch", "cache/triton", "cache/vllm"] {
            files::make(&work.join(name))?;
        }
        files::make(&experiments(folder))?;
        entry::write(&work, "rl_entry.py", entry::RL)?;
        Ok(())
    }

    /// One start of server and trainers; the second value is how many steps it made.
    fn attempt(&self, folder: &Path, context: &mut JobContext<'_>) -> Result<(Attempt, usize)> {
        let work = folder.join("scratch");
        let (from, mut notes) = state::resume(folder, self.settings.save_every)?;
        // A trial that resumes from weights counts its steps from 0 again.
        let (behind, offset, resumed) = match &from {
            From::Scratch => (0, 0, None),
            From::State(steps, offset) => (*steps, *offset, None),
            From::Weights(steps, path) => (*steps, *steps, Some(path.as_path())),
        };
        let lines = work.join("steps.jsonl");
        let mut curves = steps::Curves::open(folder)?;
        curves.fill(&lines, steps::RL, state::offset(folder)?, behind)?;
        // AReaL writes the figures after the checkpoint and the state.
        for step in curves.last() + 1..=behind {
            notes.push(format!(
                "the figures of step {step} are lost: the training was stopped after its checkpoint and before they were written"
            ));
        }
        for note in &notes {
            (context.observer)(Update::Note(note));
        }
        let mut record =
            Record::of(folder, &self.recorded(folder), self.settings.deviations(), Some(curves.last()));
        // Killed after the last checkpoint and before its figures: nothing is left to train.
        if behind >= self.settings.steps && self.is_saved(folder)? {
            let ended = format!("all {behind} steps were done before");
            record.begin(behind, notes, folder)?;
            record.end(ended, Some(behind), folder)?;
            return Ok((Attempt::Done, 0));
        }
        let recovers = matches!(from, From::State(..));
        if !recovers {
            state::set_aside(folder)?;
            // It counts its steps from 0.
            files::remove(&lines)?;
        }
        if !self.configure(folder, resumed, offset, &|| (context.stopped)())? {
            return Ok((Attempt::Interrupted, 0));
        }
        files::remove(&experiments(folder).join("name_resolve"))?;
        // Rows are kept under a hash of the code that reads them: files that were mended since would not be read.
        files::remove(&work.join("hf"))?;
        record.begin(behind, notes, folder)?;
        let total = self.settings.steps;
        let mut watcher =
            Watcher::new(&self.watch, folder, &lines, steps::RL, behind, total)?.counting_from(offset);
        let mut server =
            Process::start_counting(SERVER, &self.launched(self.server(folder)), &work, &[CRASHED])?;
        record.runs(SERVER, &server, folder)?;
        let ended = self.serve(folder, recovers, &mut server, &mut watcher, &mut record, context);
        server.stop(seconds(self.watch.grace_seconds));
        record.exited(SERVER, &mut server);
        let at = watcher.last();
        record.close(&ended, at, [&format!("{at} steps are done"), "see the logs"], folder)?;
        Ok((ended?, watcher.made))
    }

    /// Waits for the server, then runs the trainers.
    fn serve(
        &self,
        folder: &Path,
        recovers: bool,
        server: &mut Process,
        watcher: &mut Watcher<'_>,
        record: &mut Record,
        context: &mut JobContext<'_>,
    ) -> Result<Attempt> {
        let began = Instant::now();
        let address = loop {
            if let Some(address) = self.address(folder)? {
                break address;
            }
            if (context.stopped)() {
                return Ok(Attempt::Interrupted);
            }
            // The wrapper waits for ever for a server that has died.
            if let Some(why) = dead(server) {
                return Ok(Attempt::Failed(failed(SERVER, why, server)));
            }
            if began.elapsed() > seconds(self.watch.ready_seconds) {
                let why = format!("not ready after {} s", self.watch.ready_seconds);
                return Ok(Attempt::Failed(failed(SERVER, why, server)));
            }
            std::thread::sleep(seconds(self.watch.poll_seconds));
        };
        (context.observer)(Update::Note(&format!(
            "the server is ready after {:.0} s",
            began.elapsed().as_secs_f64()
        )));
        let work = folder.join("scratch");
        let command = self.trainer(folder, &free_port()?.to_string(), &address, recovers);
        let texts = [LOST, SLOW, DROPPED];
        let log = work.join(format!("{TRAINER}.log"));
        let begun = std::fs::metadata(&log).map_or(0, |about| about.len());
        let mut trainer = Process::start_counting(TRAINER, &self.launched(command), &work, &texts)?;
        record.runs(TRAINER, &trainer, folder)?;
        watcher.begin();
        let ended = self.follow(folder, &address, (server, &mut trainer), watcher, begun, context);
        trainer.stop(seconds(self.watch.grace_seconds));
        record.exited(TRAINER, &mut trainer);
        watcher.finish(context)?;
        for (text, what) in
            [(SLOW, "rewards were not computed in time and count as 0"), (DROPPED, "videos are missing")]
        {
            let count = trainer.count(text);
            if count > 0 {
                (context.observer)(Update::Note(&format!("{count} {what}")));
            }
        }
        ended
    }

    fn follow(
        &self,
        folder: &Path,
        address: &str,
        (server, trainer): (&mut Process, &mut Process),
        watcher: &mut Watcher<'_>,
        begun: u64,
        context: &mut JobContext<'_>,
    ) -> Result<Attempt> {
        let mut checks = Health { next: Instant::now() + HEALTH_PAUSE, failed: 0 };
        let (mut made, mut lost_before) = (0, 0);
        loop {
            let ended = trainer.exited();
            let end = watcher.look(context)?;
            if watcher.made > made {
                if made == 0 {
                    self.count_rows(trainer, begun)?;
                }
                (made, lost_before) = (watcher.made, trainer.count(LOST));
                state::prune(folder, self.settings.pick)?;
            }
            if end == Some(End::Interrupted) {
                return Ok(Attempt::Interrupted);
            }
            if let Some(status) = ended {
                // The verdict is torchrun's.
                return Ok(match status.success() && watcher.last() >= self.settings.steps {
                    true => Attempt::Done,
                    false => {
                        let why = format!("ended with {status} after step {}", watcher.last());
                        Attempt::Failed(failed(TRAINER, why, trainer))
                    }
                });
            }
            if let Some(why) =
                server.exited().map(|status| format!("ended with {status} during the training"))
            {
                return Ok(Attempt::Failed(failed(SERVER, why, server)));
            }
            let lost = trainer.count(LOST) - lost_before;
            if lost > self.settings.lost_limit() {
                let why = format!("{lost} groups of answers were lost since the last step");
                return Ok(Attempt::Failed(failed(TRAINER, why, trainer)));
            }
            if let Some(End::Stalled(why)) = end {
                return Ok(Attempt::Failed(failed(TRAINER, why, trainer)));
            }
            if checks.is_lost(address) {
                let why = format!("{UNHEALTHY} health checks in a row failed");
                return Ok(Attempt::Failed(failed(SERVER, why, server)));
            }
            std::thread::sleep(seconds(self.watch.poll_seconds));
        }
    }

    /// Where the server answers, once it has said so.
    fn address(&self, folder: &Path) -> Result<Option<String>> {
        for user in files::entries(&experiments(folder).join("name_resolve"))? {
            for trial in files::entries(&user.join(EXPERIMENT))? {
                for server in files::entries(&trial.join("gen_servers"))? {
                    let address = std::fs::read_to_string(server.join("ENTRY")).unwrap_or_default();
                    if address.trim().contains(':') {
                        return Ok(Some(address.trim().to_owned()));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Compares the rows that the trainers read with those that were written for them, where the latter are counted.
    fn count_rows(&self, trainer: &mut Process, begun: u64) -> Result<()> {
        let (folder, name) = (self.paths.rl_rows.parent(), files::name(&self.paths.rl_rows));
        let written = folder.and_then(|folder| written_rows(folder, |file| file == name));
        check_rows(TRAINER, trainer, begun, written, |log| {
            log.lines().find_map(|line| {
                let (count, rest) = line.split_once(LOADED)?.1.split_once(' ')?;
                rest.starts_with("training samples").then(|| count.parse().ok())?
            })
        })
    }
}

/// Why the server cannot become ready any more.
fn dead(server: &mut Process) -> Option<String> {
    if let Some(status) = server.exited() {
        return Some(format!("ended with {status} before it was ready"));
    }
    (server.count(CRASHED) > 0).then(|| "stopped with an exception before it was ready".to_owned())
}

/// Health checks of the server.
struct Health {
    next: Instant,
    failed: usize,
}

impl Health {
    /// Checks the server's health at intervals; true once too many checks in a row failed.
    fn is_lost(&mut self, address: &str) -> bool {
        if Instant::now() < self.next {
            return false;
        }
        self.next = Instant::now() + HEALTH_PAUSE;
        let server = address.to_socket_addrs().ok().and_then(|mut found| found.next());
        let is_healthy = server.is_some_and(|server| health(server).is_ok());
        self.failed = if is_healthy { 0 } else { self.failed + 1 };
        self.failed >= UNHEALTHY
    }
}
