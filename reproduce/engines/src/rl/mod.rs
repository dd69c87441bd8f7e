//! Reinforcement learning by the release on AReaL: SGLang's server on one GPU, trainers on the others.

mod config;
mod run;
mod settings;
mod state;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_supervise::Command;

use crate::command::{PrintedCommand, command, extend, print_command, with_path};
use crate::entry::STEPS;
use crate::error::{Error, Result};
use crate::{Paths, Watch};

pub use settings::{Constrained, Settings};
pub(crate) use state::saves;

/// A reinforcement learning.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Job {
    pub settings: Settings,
    /// When it counts as stalled.
    pub watch: Watch,
    /// Further variables of its environment.
    pub environment: BTreeMap<String, String>,
    /// Where programs and inputs are.
    pub paths: Paths,
    /// Folder of the model that it starts from.
    pub model: PathBuf,
    /// GPUs as `CUDA_VISIBLE_DEVICES` names them, the server's first. A plan counts from 0 where there are
    /// too few; a run of some but too few is refused.
    pub gpus: Vec<String>,
}

/// Folder of everything that the release writes, in the folder of the stage.
pub(crate) fn experiments(folder: &Path) -> PathBuf {
    folder.join("scratch/experiments")
}

impl Job {
    pub(crate) fn title(&self) -> String {
        let Settings { steps, trainers, .. } = self.settings;
        let (name, [server, _]) = (self.settings.name(), self.gpus());
        format!("{name}, {steps} steps: SGLang on GPU {server}, {trainers} trainers on the others")
    }

    /// What both processes see.
    pub fn environment(&self, folder: &Path) -> BTreeMap<String, String> {
        let work = folder.join("scratch");
        let at = |name: &str| work.join(name).display().to_string();
        let sources = format!("{}:{}", self.paths.engines.display(), self.paths.checkout.display());
        let rows = self.paths.rl_rows.display().to_string();
        let videos = self.paths.rl_rows.parent().unwrap_or(&self.paths.rl_rows).display().to_string();
        let mut env: BTreeMap<String, String> = [
            ("PYTHONPATH", sources),
            ("PARAVT_FILEROOT", experiments(folder).display().to_string()),
            ("PARAVT_BASE_MODEL", self.model.display().to_string()),
            ("PARAVT_TRAIN_DATA", rows.clone()),
            ("PARAVT_VALID_DATA", rows),
            ("PARAVT_VIDEO_ROOT", videos),
            ("WANDB_MODE", "disabled".to_owned()),
            ("SGLANG_VLM_CACHE_SIZE_MB", "4096".to_owned()),
            // An older cuDNN stops the server instead of hanging it, whatever the shell says.
            ("SGLANG_DISABLE_CUDNN_CHECK", "0".to_owned()),
            ("PYTHONHASHSEED", "0".to_owned()),
            ("HF_HUB_OFFLINE", "1".to_owned()),
            ("HF_DATASETS_CACHE", at("hf")),
            ("AREAL_CACHE_DIR", at("cache")),
            ("TOKENIZERS_PARALLELISM", "true".to_owned()),
            ("CUDA_DEVICE_MAX_CONNECTIONS", "1".to_owned()),
            ("PYTORCH_KERNEL_CACHE_PATH", at("cache/torch")),
            ("TRITON_CACHE_DIR", at("cache/triton")),
            ("VLLM_CACHE_ROOT", at("cache/vllm")),
            ("FORCE_QWENVL_VIDEO_READER", "decord".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        if self.settings.whole_attention {
            env.insert("PARAVT_WHOLE_ATTENTION".to_owned(), "1".to_owned());
        }
        if self.settings.lost_groups {
            env.insert("PARAVT_LOST_GROUPS".to_owned(), "1".to_owned());
        }
        extend(&mut env, &self.environment);
        env
    }

    /// GPUs of the server and of the trainers, as `CUDA_VISIBLE_DEVICES` names them.
    fn gpus(&self) -> [String; 2] {
        let count = self.settings.trainers + 1;
        let all: Vec<String> = match self.gpus.get(..count) {
            Some(given) => given.to_vec(),
            None => (0..count).map(|number| number.to_string()).collect(),
        };
        [all[0].clone(), all[1..].join(",")]
    }

    /// # Errors
    /// Fewer GPUs are given than are needed: others than the given ones may be somebody else's.
    fn check_gpus(&self) -> Result<()> {
        let (trainers, given) = (self.settings.trainers, self.gpus.len());
        if given == 0 || given > trainers {
            return Ok(());
        }
        let message = format!(
            "the server and {trainers} trainers need {} GPUs, {given} given: {}",
            trainers + 1,
            self.gpus.join(",")
        );
        Err(Error::Setting { section: "rl", message })
    }

    fn server(&self, folder: &Path) -> Command {
        let work = folder.join("scratch");
        let mut env = self.environment(folder);
        env.insert("CUDA_VISIBLE_DEVICES".to_owned(), self.gpus()[0].clone());
        // It asks itself whether it is ready, at the address of the machine; nothing else is asked for.
        env.extend(["no_proxy", "NO_PROXY"].map(|name| (name.to_owned(), "*".to_owned())));
        let args = vec![
            "-m".to_owned(),
            "areal.launcher.sglang_server".to_owned(),
            work.join("rl_entry.py").display().to_string(),
            "--config".to_owned(),
            work.join("config.yaml").display().to_string(),
            format!("sglang.random_seed={}", self.settings.seed),
        ];
        command(&self.paths.rl_environment, "python3", args, &work, env)
    }

    fn trainer(&self, folder: &Path, port: &str, address: &str, recovers: bool) -> Command {
        let work = folder.join("scratch");
        let mut env = self.environment(folder);
        let own = [
            ("CUDA_VISIBLE_DEVICES", self.gpus()[1].clone()),
            ("AREAL_LLM_SERVER_ADDRS", address.to_owned()),
            ("AREAL_RECOVER_RUN", u8::from(recovers).to_string()),
            ("AREAL_SPMD_MODE", "1".to_owned()),
            ("NCCL_CUMEM_ENABLE", "0".to_owned()),
            ("NCCL_NVLS_ENABLE", "0".to_owned()),
            (STEPS, work.join("steps.jsonl").display().to_string()),
        ];
        env.extend(own.map(|(name, value)| (name.to_owned(), value)));
        // The server answers at the address of the machine, which a proxy must not see.
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        for name in ["no_proxy", "NO_PROXY"] {
            env.insert(name.to_owned(), format!("{host},localhost,127.0.0.1"));
        }
        let args = vec![
            "--nnodes".to_owned(),
            "1".to_owned(),
            "--nproc-per-node".to_owned(),
            self.settings.trainers.to_string(),
            "--master-addr".to_owned(),
            "localhost".to_owned(),
            "--master-port".to_owned(),
            port.to_owned(),
            work.join("rl_entry.py").display().to_string(),
            "--config".to_owned(),
            work.join("config.yaml").display().to_string(),
        ];
        command(&self.paths.rl_environment, "torchrun", args, &work, env)
    }

    fn commands(&self, folder: &Path) -> [Command; 2] {
        [self.server(folder), self.trainer(folder, "{port}", "{server}", false)]
    }

    pub(crate) fn print_commands(&self, folder: &Path) -> Vec<PrintedCommand> {
        self.commands(folder).iter().map(|command| print_command(command, &[])).collect()
    }

    /// As recorded: without paths of the machine.
    fn recorded(&self, folder: &Path) -> Vec<PrintedCommand> {
        let mut words = vec![(self.model.as_path(), "{model}")];
        words.extend(self.paths.words(folder));
        self.commands(folder).iter().map(|command| print_command(command, &words)).collect()
    }

    /// As it is started: with the programs of its environment, and beside what this process asks without a proxy.
    fn launched(&self, mut command: Command) -> Command {
        for name in ["no_proxy", "NO_PROXY"] {
            if let (Some(hosts), Ok(own)) = (command.env.get_mut(name), std::env::var(name))
                && !own.is_empty()
                && hosts != "*"
            {
                *hosts = format!("{own},{hosts}");
            }
        }
        with_path(&self.paths.rl_environment, command)
    }
}
