//! Cold-start SFT by the release's lmms-engine under torchrun.

mod checkpoint;
mod run;
mod settings;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_supervise::Command;

use crate::command::{PrintedCommand, command, extend, print_command, with_path};
use crate::entry::STEPS;
use crate::{Paths, Watch};

pub(crate) use checkpoint::damage;
pub(crate) use run::kept;
pub use settings::Settings;

/// Rows in the order of the release's manifest: they are shuffled with a fixed seed, so the order counts.
const ROWS: [&str; 7] = [
    "geminicot_4k8", "selftrace_15k3", "tvg_6k3", "museg_2k5", "charades_12k4", "longvideoreason_5k2",
    "videor1_50k",
];

/// A cold-start SFT.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub settings: Settings,
    /// When it counts as stalled.
    pub watch: Watch,
    /// Further variables of its environment.
    pub environment: BTreeMap<String, String>,
    /// Where programs and inputs are.
    pub paths: Paths,
}

/// Folder of checkpoints in the folder of the stage.
pub(crate) fn checkpoints(folder: &Path) -> PathBuf {
    folder.join("scratch/checkpoints")
}

impl Job {
    pub(crate) fn title(&self) -> String {
        let Settings { steps, stop_after, processes, .. } = self.settings;
        let stop =
            stop_after.map(|step| format!(", stopped in order after checkpoint {step}")).unwrap_or_default();
        format!("cold-start SFT, {steps} steps of its schedule on {processes} processes{stop}")
    }

    /// Folder of sources that Python finds modules in.
    pub(crate) fn sources(paths: &Paths) -> PathBuf {
        paths.checkout.join("paravt/sft/lmms-engine/src")
    }

    /// torchrun with the entry file and every setting.
    fn command(&self, folder: &Path, port: &str) -> Command {
        let work = folder.join("scratch");
        let mut args: Vec<String> = vec![
            format!("--nproc_per_node={}", self.settings.processes),
            "--nnodes=1".to_owned(),
            "--node_rank=0".to_owned(),
            "--master_addr=127.0.0.1".to_owned(),
            format!("--master_port={port}"),
            "--tee".to_owned(),
            "3".to_owned(),
            "--log-dir".to_owned(),
            work.join("torchrun").display().to_string(),
            work.join("sft_entry.py").display().to_string(),
            "hydra.job.chdir=False".to_owned(),
            format!("hydra.run.dir={}", settings::quoted(&work.join("hydra").display().to_string())),
        ];
        let keys = self.settings.keys(&self.paths.base, &work.join("manifest.yaml"), &checkpoints(folder));
        args.extend(keys.into_iter().map(|(key, value)| format!("{key}={value}")));
        let cache = work.join("hf");
        let mut env: BTreeMap<String, String> = [
            ("PYTHONPATH", Self::sources(&self.paths).display().to_string()),
            (STEPS, work.join("steps.jsonl").display().to_string()),
            ("HF_HUB_OFFLINE", "1".to_owned()),
            ("HF_DATASETS_CACHE", cache.display().to_string()),
            ("TOKENIZERS_PARALLELISM", "false".to_owned()),
            ("FORCE_QWENVL_VIDEO_READER", "decord".to_owned()),
            ("OMP_NUM_THREADS", "1".to_owned()),
            ("NCCL_DEBUG", "WARN".to_owned()),
            ("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        extend(&mut env, &self.environment);
        command(&self.paths.sft_environment, "torchrun", args, &work, env)
    }

    pub(crate) fn print_commands(&self, folder: &Path) -> Vec<PrintedCommand> {
        vec![print_command(&self.command(folder, "{port}"), &[])]
    }

    /// As recorded: without paths of the machine.
    fn recorded(&self, folder: &Path) -> PrintedCommand {
        print_command(&self.command(folder, "{port}"), &self.paths.words(folder))
    }

    fn launched(&self, folder: &Path, port: u16) -> Command {
        with_path(&self.paths.sft_environment, self.command(folder, &port.to_string()))
    }
}
