//! One SFT: prepared, started, watched, stopped.

use std::path::{Path, PathBuf};

use paravt_supervise::Process;
use serde_json::{Value, json};

use super::{Job, ROWS, checkpoint, checkpoints};
use crate::command::free_port;
use crate::error::{Error, Result};
use crate::files::needs;
use crate::materialized::{check_rows, written_rows};
use crate::record::Record;
use crate::watch::{Attempt, End, Watcher, failed, seconds, with_restarts};
use crate::{JobContext, Outcome, Update, entry, files, steps};

/// Name of the process and of its log.
const NAME: &str = "sft";
/// The trainer failed to apply its fused kernels, and trains on without them.
const UNPATCHED: &str = "Error applying monkey patch";
/// The loader raised on a row and dropped it.
const DROPPED: &str = "Error getting one sample";
/// Prefix of the trainer's log line about the rows of a file.
const SIZE: &str = "Dataset size: ";

/// Where the checkpoint of a step is kept in the stage's folder: the trainer deletes old ones of its own.
pub(crate) fn kept(folder: &Path, step: usize) -> PathBuf {
    folder.join("scratch/kept").join(format!("{}-{step}", checkpoint::NAME))
}

impl Job {
    /// Trains; resumes from the last complete checkpoint.
    pub(crate) fn run(&self, context: &mut JobContext<'_>) -> Result<Outcome> {
        self.settings.check()?;
        let job = Self { paths: self.paths.absolute()?, ..self.clone() };
        let folder = files::absolute(context.folder)?;
        if checkpoint::damage(&kept(&folder, job.settings.target()), job.settings.processes).is_none() {
            return Ok(Outcome::Complete);
        }
        job.prepare(&folder)?;
        with_restarts(&job.watch, context, |context| job.attempt(&folder, context))
    }

    fn prepare(&self, folder: &Path) -> Result<()> {
        let work = folder.join("scratch");
        files::make(&checkpoints(folder))?;
        files::make(&work.join("kept"))?;
        entry::write(&work, "sft_entry.py", entry::SFT)?;
        needs(
            "the environment of lmms-engine",
            &self.paths.sft_environment.join("bin/torchrun"),
            "run the stage `environments`",
        )?;
        needs(
            "lmms-engine",
            &Self::sources(&self.paths).join("lmms_engine"),
            "run the stage `environments`, which checks ParaVT out",
        )?;
        needs("the base model", &self.paths.base.join("config.json"), "run the stage `fetch`")?;
        let datasets: Vec<Value> = self
            .rows()?
            .iter()
            .map(|path| json!({ "path": path, "data_folder": null, "data_type": "parquet" }))
            .collect();
        // JSON is YAML as well.
        let manifest = format!("{:#}\n", json!({ "datasets": datasets }));
        files::write(&work.join("manifest.yaml"), manifest.as_bytes())
    }

    /// Files of rows: those of the release's manifest in its order, then the others by name.
    fn rows(&self) -> Result<Vec<PathBuf>> {
        let folder = &self.paths.sft_rows;
        let mut rows = files::entries(folder)?;
        rows.retain(|path| {
            let name = files::name(path);
            name.starts_with("paravt_sft_") && name.ends_with(".parquet")
        });
        if rows.is_empty() {
            let remedy = "run the stage `materialize`".to_owned();
            return Err(Error::Missing { what: "a file paravt_sft_*.parquet", path: folder.clone(), remedy });
        }
        let place = |path: &PathBuf| {
            let name = files::name(path).trim_start_matches("paravt_sft_").trim_end_matches(".parquet");
            ROWS.iter().position(|known| *known == name).unwrap_or(ROWS.len())
        };
        rows.sort_by_key(place);
        Ok(rows)
    }

    /// One start of the trainer, up to its end; the second value is how many steps it made.
    fn attempt(&self, folder: &Path, context: &mut JobContext<'_>) -> Result<(Attempt, usize)> {
        let (work, target) = (folder.join("scratch"), self.settings.target());
        let processes = self.settings.processes;
        let (resumed, notes) = checkpoint::tidy(&checkpoints(folder), &work.join("partial"), processes)?;
        for note in &notes {
            (context.observer)(Update::Note(note));
        }
        let last = Some(steps::Curves::open(folder)?.last());
        let deviations = self.settings.deviations();
        let mut record = Record::of(folder, &[self.recorded(folder)], deviations, last);
        record.begin(resumed, notes, folder)?;
        let lines = work.join("steps.jsonl");
        steps::Curves::open(folder)?.fill(&lines, steps::SFT, 0, resumed)?;
        let mut watcher = Watcher::new(&self.watch, folder, &lines, steps::SFT, resumed, target)?;
        let log = work.join(format!("{NAME}.log"));
        let begun = std::fs::metadata(&log).map_or(0, |about| about.len());
        let command = self.launched(folder, free_port()?);
        let mut process = Process::start_counting(NAME, &command, &work, &[UNPATCHED, DROPPED])?;
        record.runs(NAME, &process, folder)?;
        let ended = self.follow(folder, &mut process, &mut watcher, context, begun);
        process.stop(seconds(self.watch.grace_seconds));
        record.exited(NAME, &mut process);
        watcher.finish(context)?;
        let dropped = process.count(DROPPED);
        if dropped > 0 {
            (context.observer)(Update::Note(&format!("{dropped} rows could not be read and were dropped")));
        }
        let done = format!("step {target} is done and its checkpoint kept");
        record.close(&ended, watcher.last(), [&done, "see the log"], folder)?;
        Ok((ended?, watcher.made))
    }

    fn follow(
        &self,
        folder: &Path,
        process: &mut Process,
        watcher: &mut Watcher<'_>,
        context: &mut JobContext<'_>,
        begun: u64,
    ) -> Result<Attempt> {
        let (target, processes) = (self.settings.target(), self.settings.processes);
        let kept = kept(folder, target);
        let mut is_counted = false;
        loop {
            let ended = process.exited();
            let end = watcher.look(context)?;
            if process.count(UNPATCHED) > 0 && (self.settings.liger || self.settings.rmpad) {
                let why = "the fused kernels could not be applied, and the trainer would go on without them; run the stage `environments` again, or set sft.liger = false";
                // A restart would fail in the same way.
                return Err(failed(NAME, why, process));
            }
            if !is_counted && watcher.made > 0 {
                is_counted = true;
                self.count_rows(process, begun)?;
            }
            // The trainer logs a step before it saves it.
            if watcher.last() >= target {
                checkpoint::keep(&checkpoints(folder), target, &kept, processes)?;
            }
            let is_kept = checkpoint::damage(&kept, processes).is_none();
            if is_kept && self.settings.stop_after.is_some() {
                return Ok(Attempt::Done);
            }
            match (end, ended) {
                (Some(End::Interrupted), _) => return Ok(Attempt::Interrupted),
                (_, Some(status)) if status.success() => {
                    return Ok(match is_kept {
                        true => Attempt::Done,
                        false => Attempt::Failed(failed(
                            NAME,
                            format!("it ended without checkpoint {target}"),
                            process,
                        )),
                    });
                }
                (_, Some(status)) => {
                    return Ok(Attempt::Failed(failed(NAME, format!("ended with {status}"), process)));
                }
                (Some(End::Stalled(why)), _) => return Ok(Attempt::Failed(failed(NAME, why, process))),
                (None, None) => std::thread::sleep(seconds(self.watch.poll_seconds)),
            }
        }
    }

    /// Compares the rows that the trainer read with those that were written for it, where the latter are counted.
    fn count_rows(&self, process: &mut Process, begun: u64) -> Result<()> {
        let written = written_rows(&self.paths.sft_rows, |name| name.starts_with("paravt_sft_"));
        check_rows(NAME, process, begun, written, |log| {
            let counts = log.lines().filter_map(|line| {
                let rest = line.split_once(SIZE)?.1;
                rest.split(|char: char| !char.is_ascii_digit()).next()?.parse::<usize>().ok()
            });
            Some(counts.sum()).filter(|read| *read > 0)
        })
    }
}
