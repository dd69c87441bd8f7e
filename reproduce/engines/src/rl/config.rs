//! The configuration of AReaL: the release's `_base.yaml` and `paragrpo_8b.yaml` (ParaVT cf55249 paravt/rl/configs), read
//! from the checkout, with the values set in them that a training changes.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Job, Settings};
use crate::error::{Error, Result};
use crate::{entry, files};

/// Bytes of what the composition says.
const MAX_OUTPUT: u64 = 1 << 20;
/// Time for it: Python on a cold network disk.
const LIMIT: Duration = Duration::from_secs(300);

/// Settings, as JSON pointers, and where they stand in the configuration. Values that others refer to stand there once.
const KEYS: [(&str, &[&str]); 27] = [
    ("/seed", &["seed"]),
    ("/prompts", &["train_dataset.batch_size", "valid_dataset.batch_size"]),
    ("/samples", &["gconfig.n_samples"]),
    ("/concurrent", &["rollout.max_concurrent_rollouts"]),
    ("/off_policy", &["rollout.max_head_offpolicyness"]),
    ("/max_new_tokens", &["gconfig.max_new_tokens"]),
    ("/temperature", &["gconfig.temperature"]),
    ("/context", &["sglang.context_length"]),
    ("/max_turns", &["hierarchical_agent.max_turns"]),
    ("/fps", &["hierarchical_agent.fps"]),
    ("/max_frames", &["hierarchical_agent.max_frames"]),
    ("/min_pixels", &["hierarchical_agent.min_pixels"]),
    ("/max_pixels", &["hierarchical_agent.max_pixels"]),
    ("/learning_rate", &["actor.optimizer.lr"]),
    ("/weight_decay", &["actor.optimizer.weight_decay"]),
    ("/kl", &["actor.kl_ctl"]),
    ("/clip", &["actor.eps_clip"]),
    ("/micro_batch_tokens", &["actor.mb_spec.max_tokens_per_mb", "ref.mb_spec.max_tokens_per_mb"]),
    ("/save_every", &["saver.freq_steps", "recover.freq_steps"]),
    ("/server_requests", &["sglang.max_running_requests"]),
    ("/server_memory", &["sglang.mem_fraction_static"]),
    ("/constrained/think_prefix", &["paravt.constrained.think_prefix"]),
    ("/constrained/answer_suffix", &["paravt.constrained.answer_suffix"]),
    ("/nframes_gating", &["paravt.gating.nframes_gating"]),
    ("/anchor_weight", &["paravt.anchoring.weight"]),
    ("/reward", &["paravt.reward.mode"]),
    ("/format_weight", &["paravt.reward.format_weight"]),
];

impl Job {
    /// Folder of the release's configurations.
    pub(super) fn configurations(&self) -> PathBuf {
        self.paths.checkout.join("paravt/rl/configs")
    }

    /// What a training in `folder` sets in the release's configuration, as `KEY=VALUE` with the value as JSON.
    ///
    /// # Errors
    /// A setting that AReaL would refuse.
    pub fn overrides(&self, folder: &Path) -> Result<Vec<String>> {
        self.settings.check()?;
        Ok(self.overrides_from(folder, None, 0))
    }

    /// The same where `offset` steps are behind; `resumed` are the weights of the last.
    fn overrides_from(&self, folder: &Path, resumed: Option<&Path>, offset: usize) -> Vec<String> {
        let Settings { steps, trainers, .. } = self.settings;
        let curves = folder.join("scratch/tensorboard");
        let mut set = vec![
            ("trial_name", json!(super::state::trial(offset))),
            ("total_train_steps", json!(steps.saturating_sub(offset))),
            ("ref.path", json!(self.model)),
            ("stats_logger.tensorboard.path", json!(curves)),
        ];
        set.extend(resumed.map(|path| ("actor.path", json!(path))));
        let released = Settings::default();
        if trainers != released.trainers {
            set.push(("cluster.n_gpus_per_node", json!(trainers + 1)));
            set.push(("allocation_mode", json!(format!("sglang:d1p1t1+d{trainers}p1t1"))));
        }
        let (ours, theirs) = (json!(self.settings), json!(released));
        for (setting, keys) in KEYS {
            if let Some(value) = ours.pointer(setting).filter(|value| Some(*value) != theirs.pointer(setting))
            {
                set.extend(keys.iter().map(|key| (*key, value.clone())));
            }
        }
        set.into_iter().map(|(key, value): (_, Value)| format!("{key}={value}")).collect()
    }

    /// Writes the whole configuration of a training into its `scratch/config.yaml`, by OmegaConf of its environment;
    /// whether it did before the user stopped it.
    ///
    /// # Errors
    /// The release's files cannot be read, or the file cannot be written.
    pub fn configure(
        &self,
        folder: &Path,
        resumed: Option<&Path>,
        offset: usize,
        stopped: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let work = folder.join("scratch");
        let script = entry::write(&work, "compose.py", entry::COMPOSE)?;
        let mut python = Command::new(self.paths.rl_environment.join("bin/python3"));
        python.arg(script).arg(self.configurations()).arg(work.join("config.yaml"));
        python.args(self.overrides_from(folder, resumed, offset)).envs(self.environment(folder));
        // Values of the release's configuration where the shell has them.
        python.env_remove("WANDB_ENTITY").env_remove("WANDB_PROJECT");
        // A group of its own: Ctrl-C speaks to this process alone, which ends the other.
        python.current_dir(&work).process_group(0);
        let output = paravt_supervise::output(&mut python, MAX_OUTPUT, LIMIT, stopped);
        let output =
            output.map_err(|source| Error::file("cannot run", Path::new(python.get_program()), source))?;
        let (ended, errors) = match output {
            Some(output) if output.status.success() => return Ok(true),
            None if stopped() => return Ok(false),
            Some(output) => (output.status.to_string(), output.stderr),
            None => (format!("no answer in {} s", LIMIT.as_secs()), Vec::new()),
        };
        let log = work.join("compose.log");
        files::write(&log, &errors)?;
        let text = String::from_utf8_lossy(&errors);
        let tail = text.lines().rev().take(5).collect::<Vec<_>>();
        Err(Error::Failed {
            name: "compose.py",
            why: format!("the release's configuration cannot be read: {ended}"),
            log,
            tail: tail.into_iter().rev().collect::<Vec<_>>().join("\n"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(settings: Settings) -> Job {
        Job { settings, model: "base".into(), ..Job::default() }
    }

    #[test]
    fn what_differs_from_the_release_is_set() {
        let fixed = [
            "trial_name=\"run\"",
            "total_train_steps=55",
            "ref.path=\"base\"",
            "stats_logger.tensorboard.path=\"rl/scratch/tensorboard\"",
        ];
        let overrides = |settings| job(settings).overrides(Path::new("rl")).unwrap();
        assert_eq!(overrides(Settings::default()), fixed);
        assert_eq!(
            overrides(Settings::vanilla())[4..],
            [
                "paravt.constrained.think_prefix=false", "paravt.constrained.answer_suffix=false",
                "paravt.gating.nframes_gating=false", "paravt.anchoring.weight=0.0"
            ]
        );
        let small = overrides(Settings { trainers: 2, prompts: 4, ..Settings::default() });
        assert_eq!(
            small[4..],
            [
                "cluster.n_gpus_per_node=3",
                "allocation_mode=\"sglang:d1p1t1+d2p1t1\"",
                "train_dataset.batch_size=4",
                "valid_dataset.batch_size=4"
            ]
        );
        let resumed = job(Settings::default()).overrides_from(Path::new("rl"), Some(Path::new("step")), 5);
        assert_eq!(resumed[..2], ["trial_name=\"run-from-5\"", "total_train_steps=50"]);
        assert!(resumed.contains(&"actor.path=\"step\"".to_owned()));
    }

    /// A setting without a place in the configuration would be kept from AReaL in silence.
    #[test]
    fn every_setting_has_its_place() {
        let settings = json!(Settings { whole_attention: true, lost_groups: true, ..Settings::default() });
        assert!(KEYS.iter().all(|(setting, _)| settings.pointer(setting).is_some()));
        // Of the suite, of the number of GPUs and of environment variables.
        let elsewhere = ["steps", "pick", "trainers", "whole_attention", "lost_groups"];
        let names = settings.as_object().unwrap().keys().filter(|name| !elsewhere.contains(&name.as_str()));
        for name in names {
            assert!(KEYS.iter().any(|(setting, _)| setting[1..].split('/').next() == Some(name)), "{name}");
        }
    }
}
