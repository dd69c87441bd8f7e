//! One model folder from the shards of SFT.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_supervise::{Command, Process};

use crate::command::{PrintedCommand, command, extend, print_command, with_path};
use crate::error::{Error, Result};
use crate::files::needs;
use crate::record::Record;
use crate::sft::kept;
use crate::watch::{failed, seconds};
use crate::{JobContext, Outcome, Paths, Update, Watch, files, sft, weights};

/// Name of the process and of its log.
const NAME: &str = "merge";

/// A merge.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Folder of the stage of SFT.
    pub sft: PathBuf,
    pub settings: sft::Settings,
    /// When it counts as stalled.
    pub watch: Watch,
    /// Further variables of its environment.
    pub environment: BTreeMap<String, String>,
    /// Where programs and inputs are.
    pub paths: Paths,
}

/// What is done otherwise than by the release.
pub(crate) fn deviations() -> Vec<String> {
    let text =
        "the release's README hands the unmerged folder to reinforcement learning, which cannot load it";
    vec![
        text.to_owned(),
        "names, shapes and values are compared with the base model's, files are hashed".to_owned(),
    ]
}

/// The model folder of a stage that makes one.
pub fn model(folder: &Path) -> PathBuf {
    folder.join("model")
}

impl Job {
    fn command(&self, folder: &Path, checkpoint: &Path) -> Command {
        let args = vec![
            "-m".to_owned(),
            "lmms_engine.merger".to_owned(),
            "--checkpoint_path".to_owned(),
            checkpoint.display().to_string(),
            "--output_path".to_owned(),
            folder.join("scratch/merged").display().to_string(),
        ];
        let mut env: BTreeMap<String, String> = [
            ("PYTHONPATH".to_owned(), sft::Job::sources(&self.paths).display().to_string()),
            ("HF_HUB_OFFLINE".to_owned(), "1".to_owned()),
            ("CUDA_VISIBLE_DEVICES".to_owned(), String::new()),
        ]
        .into();
        extend(&mut env, &self.environment);
        command(&self.paths.sft_environment, "python", args, &folder.join("scratch"), env)
    }

    fn checkpoint(&self) -> PathBuf {
        kept(&self.sft, self.settings.target())
    }

    pub(crate) fn print_commands(&self, folder: &Path) -> Vec<PrintedCommand> {
        vec![print_command(&self.command(folder, &self.checkpoint()), &[])]
    }

    /// Merges and verifies.
    pub(crate) fn run(&self, context: &mut JobContext<'_>) -> Result<Outcome> {
        let job = Self { paths: self.paths.absolute()?, sft: files::absolute(&self.sft)?, ..self.clone() };
        let folder = files::absolute(context.folder)?;
        let (work, checkpoint) = (folder.join("scratch"), job.checkpoint());
        files::make(&work)?;
        files::remove(&work.join("merged"))?;
        needs(
            "the environment of lmms-engine",
            &job.paths.sft_environment.join("bin/python"),
            "run the stage `environments`",
        )?;
        if let Some(damage) = sft::damage(&checkpoint, job.settings.processes) {
            return Err(Error::weights(&checkpoint, format!("{damage}; run the stage `sft` again")));
        }
        let mut words = vec![(job.sft.as_path(), "{sft}")];
        words.extend(job.paths.words(&folder));
        let recorded = print_command(&job.command(&folder, &checkpoint), &words);
        let mut record = Record::of(&folder, &[recorded], deviations(), None);
        record.begin(0, Vec::new(), &folder)?;
        let command = with_path(&job.paths.sft_environment, job.command(&folder, &checkpoint));
        let mut process = Process::start(NAME, &command, &work)?;
        record.runs(NAME, &process, &folder)?;
        let status = loop {
            if let Some(status) = process.exited() {
                break status;
            }
            if (context.stopped)() {
                process.stop(seconds(job.watch.grace_seconds));
                record.exited(NAME, &mut process);
                record.end("stopped by the user", None, &folder)?;
                return Ok(Outcome::Interrupted);
            }
            if process.silence() > seconds(job.watch.first_step_seconds) {
                let why = format!(
                    "no output for {:.0} s (limit: `first_step_seconds` in [engines.watch])",
                    job.watch.first_step_seconds
                );
                record.end(format!("failed: {why}"), None, &folder)?;
                return Err(failed(NAME, why, &mut process));
            }
            std::thread::sleep(seconds(job.watch.poll_seconds));
        };
        record.exited(NAME, &mut process);
        if !status.success() {
            record.end(format!("failed: ended with {status}"), None, &folder)?;
            return Err(failed(NAME, format!("ended with {status}"), &mut process));
        }
        process.stop(seconds(job.watch.grace_seconds));
        let verified = weights::verify(&work.join("merged"), &job.paths.base);
        if verified.is_err() {
            record.end("failed: the merged weights are not those of the base model", None, &folder)?;
        }
        let made = verified?;
        (context.observer)(Update::Note(&made.to_string()));
        files::replace(&work.join("merged"), &model(&folder))?;
        record.end("merged and verified", None, &folder)?;
        Ok(Outcome::Complete)
    }
}
