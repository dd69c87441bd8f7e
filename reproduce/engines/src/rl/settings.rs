//! Settings of reinforcement learning: PARA-GRPO of the release by default (ParaVT cf55249 paravt/rl/configs).

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::record::differences;

/// What can be set; the default is the release's PARA-GRPO up to the step of the published checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Steps after which the training ends.
    pub steps: usize,
    /// Step, counted from 0, whose checkpoint is the result.
    pub pick: usize,
    pub seed: u64,
    /// Trainers, one for each GPU but the server's.
    pub trainers: usize,
    /// Prompts of a step; the trainers share them evenly.
    pub prompts: usize,
    /// Answers to each prompt.
    pub samples: usize,
    /// Answers that are generated at once.
    pub concurrent: usize,
    /// Versions that the weights of an answer may be behind.
    pub off_policy: usize,
    /// Maximum tokens of a turn.
    pub max_new_tokens: usize,
    pub temperature: f64,
    /// Maximum tokens of a conversation.
    pub context: usize,
    pub max_turns: usize,
    /// Frames of a second of video.
    pub fps: usize,
    /// Maximum frames of a video.
    pub max_frames: usize,
    /// Minimum pixels of a frame.
    pub min_pixels: usize,
    /// Maximum pixels of a frame.
    pub max_pixels: usize,
    pub learning_rate: f64,
    pub weight_decay: f64,
    /// Factor of the KL term.
    pub kl: f64,
    pub clip: f64,
    pub micro_batch_tokens: usize,
    /// Steps between checkpoints.
    pub save_every: usize,
    /// Requests that the server works on at once.
    pub server_requests: usize,
    /// Share of its GPU's memory that the server takes.
    pub server_memory: f64,
    /// The opening is forced, and an answer's tag counts.
    pub constrained: Constrained,
    /// The overview's number of frames is drawn for each prompt.
    pub nframes_gating: bool,
    /// Factor of the anchoring reward; 0 for none.
    pub anchor_weight: f64,
    /// How an answer is scored: `f1`, `exact` or `llm`.
    pub reward: String,
    /// Factor of the format reward.
    pub format_weight: f64,
    /// Let the trainer attend over the whole sequence; the release restarts attention at every frame token.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub whole_attention: bool,
    /// Let an executed call end its rollout and lose its group, as the released workflow does: it calls a method that the
    /// release lacks.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lost_groups: bool,
}

/// Parts of the constrained generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Constrained {
    /// Every answer begins with `<think>`.
    pub think_prefix: bool,
    /// The format reward has a part for the tag of the answer.
    pub answer_suffix: bool,
}

impl Default for Constrained {
    fn default() -> Self {
        Self { think_prefix: true, answer_suffix: true }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            steps: 55,
            pick: 54,
            seed: 1,
            trainers: 7,
            prompts: 7,
            samples: 8,
            concurrent: 64,
            off_policy: 2,
            max_new_tokens: 2048,
            temperature: 0.7,
            context: 32_768,
            max_turns: 3,
            fps: 1,
            max_frames: 64,
            min_pixels: 784,
            max_pixels: 50_176,
            learning_rate: 2e-6,
            weight_decay: 0.01,
            kl: 0.01,
            clip: 0.2,
            micro_batch_tokens: 16_384,
            save_every: 5,
            server_requests: 32,
            server_memory: 0.7,
            constrained: Constrained::default(),
            nframes_gating: true,
            anchor_weight: 0.5,
            reward: "f1".to_owned(),
            format_weight: 1.0,
            whole_attention: false,
            lost_groups: false,
        }
    }
}

/// Lost groups since the last step after which a training is stopped.
const LOST_LIMIT: u64 = 20;
/// The mend that `lost_groups` leaves out.
const MEND: &str = "the entry file adds SubagentManager._extract_completion, which the released workflow calls and no file \
     defines: without it every group with an executed call is lost";
/// What is done otherwise than by the release, whatever the settings.
const DEVIATIONS: [&str; 10] = [
    "an entry file merges the `paravt` block into its schema: the released train.py stops there on every rank",
    "the entry file writes each step as a line of JSON",
    "the release's two files of configuration and variables of the shell are merged into one file, with the values set that \
     --plan shows",
    "started here and not by areal.launcher.local, which reports every finished training as failed",
    "SGLANG_DISABLE_CUDNN_CHECK is off; the release sets it",
    "ref.path is the SFT model by name, so that a restart does not move the reference of the KL term",
    "set where the release leaves it open: WANDB_MODE=disabled, PYTHONHASHSEED=0, HF_HUB_OFFLINE=1, HF_DATASETS_CACHE, and \
     no_proxy for the server's address",
    "curves for TensorBoard are written (stats_logger.tensorboard)",
    "videos are read by decord (FORCE_QWENVL_VIDEO_READER); of the readers in the release's lock file qwen-vl-utils prefers \
     torchcodec 0.8.0",
    "checkpoints: the chosen one, the last 2 and every 50th are kept, the release keeps all",
];

impl Settings {
    /// The release's comparison without the parts of PARA-GRPO (vanilla_grpo_8b.yaml).
    pub fn vanilla() -> Self {
        Self {
            constrained: Constrained { think_prefix: false, answer_suffix: false },
            nframes_gating: false,
            anchor_weight: 0.0,
            ..Self::default()
        }
    }

    /// What the method is called.
    pub(crate) fn name(&self) -> &'static str {
        match (self.is_anchored(), self.nframes_gating) {
            (true, true) => "PARA-GRPO",
            (true, false) => "GRPO with exploration anchoring",
            (false, true) => "GRPO with frame gating",
            (false, false) => "GRPO",
        }
    }

    /// Groups that may be lost since the last step: where executed calls lose theirs, twenty for each that a step needs.
    pub(super) fn lost_limit(&self) -> u64 {
        if self.lost_groups { LOST_LIMIT * self.prompts as u64 } else { LOST_LIMIT }
    }

    fn is_anchored(&self) -> bool {
        self.anchor_weight != 0.0 || self.constrained.think_prefix || self.constrained.answer_suffix
    }

    /// Everything that the result depends on.
    pub(crate) fn key(&self) -> &impl Serialize {
        self
    }

    /// Checks what AReaL would find out late.
    ///
    /// # Errors
    /// A setting that cannot be used, and why.
    pub fn check(&self) -> Result<()> {
        let wrong = |message: String| Err(Error::Setting { section: "rl", message });
        if [self.steps, self.trainers, self.prompts, self.samples, self.save_every].contains(&0) {
            return wrong("steps, trainers, prompts, samples and save_every are at least 1".to_owned());
        }
        if !self.prompts.is_multiple_of(self.trainers) {
            return wrong(format!(
                "prompts = {} cannot be shared by trainers = {}: one must divide the other",
                self.prompts, self.trainers
            ));
        }
        if self.pick >= self.steps || !(self.pick + 1).is_multiple_of(self.save_every) {
            return wrong(format!(
                "pick = {} has no checkpoint: saved are the steps {}, {}, .. below steps = {}",
                self.pick,
                self.save_every - 1,
                2 * self.save_every - 1,
                self.steps
            ));
        }
        if !["f1", "exact", "llm"].contains(&self.reward.as_str()) {
            return wrong(format!("reward = {:?} is not f1, exact or llm", self.reward));
        }
        Ok(())
    }

    /// What differs from the release: what always does, and each setting that is another.
    pub(crate) fn deviations(&self) -> Vec<String> {
        let end = format!(
            "ends after {} steps, and the checkpoint of step {} is taken; the release's configuration has no limit but 100 \
             epochs, its README speaks of 700 steps and more, and the model card of ParaVT-8B of step 54",
            self.steps, self.pick
        );
        let mend = (!self.lost_groups).then_some(MEND);
        let fixed = DEVIATIONS.into_iter().chain(mend).map(str::to_owned).chain([end]);
        // Groups are lost by the release too.
        let others = Self { lost_groups: false, ..self.clone() };
        fixed.chain(differences("rl", &others, &Self::default())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_areal_refuses_late_are_refused_at_once() {
        Settings::default().check().unwrap();
        let wrong = |settings: Settings| settings.check().unwrap_err().to_string();
        assert!(wrong(Settings { prompts: 8, ..Settings::default() }).contains("cannot be shared"));
        assert!(wrong(Settings { pick: 53, ..Settings::default() }).contains("4, 9"));
        assert!(wrong(Settings { steps: 54, ..Settings::default() }).contains("pick = 54"));
        assert!(wrong(Settings { reward: "f2".to_owned(), ..Settings::default() }).contains("f2"));
    }

    #[test]
    fn methods_have_the_names_of_the_paper() {
        let grpo = Settings::vanilla();
        assert_eq!((Settings::default().name(), grpo.name()), ("PARA-GRPO", "GRPO"));
        assert_eq!(grpo.deviations().len(), DEVIATIONS.len() + 5);
        let lost = Settings { lost_groups: true, ..grpo.clone() };
        let mend: Vec<String> =
            grpo.deviations().into_iter().filter(|one| !lost.deviations().contains(one)).collect();
        assert_eq!(mend, [MEND]);
    }
}
