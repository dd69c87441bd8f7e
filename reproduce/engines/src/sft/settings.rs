//! Settings of SFT: the release's by default (ParaVT cf55249 paravt/sft/configs/qwen3vl_8b.yaml).

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::record::differences;

/// What can be set of an SFT; the default is the release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub processes: usize,
    /// Train on the CPU, through gloo.
    pub cpu: bool,
    /// Steps of the schedule of the learning rate.
    pub steps: usize,
    /// Step after whose checkpoint the training is stopped; all steps where it is not set.
    pub stop_after: Option<usize>,
    /// Steps between checkpoints.
    pub save_every: usize,
    /// Checkpoints that are kept.
    pub keep: usize,
    /// Packs of each process in a step.
    pub packs: usize,
    /// Batches whose gradients are summed.
    pub accumulation: usize,
    /// Tokens of a pack.
    pub packing_length: usize,
    pub learning_rate: f64,
    /// Share of the schedule that is warm-up.
    pub warmup_ratio: f64,
    pub weight_decay: f64,
    /// Frames per second of video.
    pub fps: usize,
    /// Maximum frames of a video.
    pub max_frames: usize,
    /// Minimum pixels of a frame.
    pub min_pixels: usize,
    /// Maximum pixels of a frame.
    pub max_pixels: usize,
    /// Attention: `flash_attention_2`, or `sdpa`.
    pub attention: String,
    /// Fused kernels.
    pub liger: bool,
    /// Rows without padding.
    pub rmpad: bool,
    /// Activations are computed again instead of kept.
    pub gradient_checkpointing: bool,
    /// Processes of each rank that read data; another number makes other packs.
    pub workers: usize,
    /// Batches that each of them reads ahead.
    pub prefetch: usize,
    /// Batches in pinned memory.
    pub pin_memory: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            processes: 8,
            cpu: false,
            steps: 1500,
            stop_after: Some(500),
            save_every: 100,
            keep: 3,
            packs: 4,
            accumulation: 1,
            packing_length: 8192,
            learning_rate: 2e-5,
            warmup_ratio: 0.05,
            weight_decay: 0.01,
            fps: 1,
            max_frames: 64,
            min_pixels: 784,
            max_pixels: 50_176,
            attention: "flash_attention_2".to_owned(),
            liger: true,
            rmpad: true,
            gradient_checkpointing: true,
            workers: 8,
            prefetch: 4,
            pin_memory: true,
        }
    }
}

/// What is done otherwise than by the release, whatever the settings.
const DEVIATIONS: [&str; 7] = [
    "an entry file writes each step as a line of JSON and then runs lmms_engine.launch.cli; started here and not by \
     run_sft.sh",
    "checkpoints: the last 3 and the one that is merged are kept, the release keeps 30",
    "report_to none and print_batch_input_steps -1; the release reports to wandb and prints 5 batches",
    "the manifest names absolute paths; the release's names a variable that its loader does not expand",
    "the training is stopped in order after the checkpoint of the model card, on the schedule of all steps",
    "logs of the ranks and hydra's folder are below the stage's folder (--tee, --log-dir, hydra.run.dir)",
    "set where the release leaves it open: FORCE_QWENVL_VIDEO_READER=decord (what its lock file has), HF_HUB_OFFLINE=1, \
     HF_DATASETS_CACHE, NCCL_DEBUG, OMP_NUM_THREADS, TOKENIZERS_PARALLELISM, TORCH_NCCL_TRACE_BUFFER_SIZE",
];

impl Settings {
    /// The step whose checkpoint is the result.
    pub fn target(&self) -> usize {
        self.stop_after.unwrap_or(self.steps)
    }

    /// Everything that the result depends on: a change of the others keeps it.
    pub(crate) fn key(&self) -> impl Serialize {
        let Self { prefetch: _, pin_memory: _, keep: _, .. } = self;
        let mut key = serde_json::to_value(self).unwrap_or_default();
        if let Value::Object(fields) = &mut key {
            fields.retain(|name, _| !["prefetch", "pin_memory", "keep"].contains(&name.as_str()));
        }
        key
    }

    /// Checks what the trainer would find out late.
    ///
    /// # Errors
    /// A setting that cannot be used, and why.
    pub fn check(&self) -> Result<()> {
        let wrong = |message: String| Err(Error::Setting { section: "sft", message });
        let positive =
            [self.processes, self.steps, self.save_every, self.packs, self.accumulation, self.keep];
        if positive.contains(&0) {
            return wrong(
                "processes, steps, save_every, packs, accumulation and keep are at least 1".to_owned(),
            );
        }
        let target = self.target();
        if target == 0 || target > self.steps || !target.is_multiple_of(self.save_every) {
            return wrong(format!(
                "step {target} has no checkpoint: stop_after (or steps) is a multiple of save_every = {} and at most \
                 steps = {}",
                self.save_every, self.steps
            ));
        }
        let rates = [self.learning_rate, self.warmup_ratio, self.weight_decay];
        if rates.iter().any(|rate| !rate.is_finite() || *rate < 0.0) || self.warmup_ratio >= 1.0 {
            return wrong(
                "learning_rate, weight_decay and warmup_ratio are at least 0, the last below 1".to_owned(),
            );
        }
        Ok(())
    }

    /// What differs from the release: what always does, and each setting that is another.
    pub(crate) fn deviations(&self) -> Vec<String> {
        let fixed = DEVIATIONS.map(str::to_owned).into_iter();
        fixed.chain(differences("sft", self, &Self::default())).collect()
    }

    /// Arguments for lmms-engine's launcher: every key is one of its default configuration.
    pub(crate) fn keys(&self, base: &Path, manifest: &Path, out: &Path) -> Vec<(&'static str, String)> {
        let path = |path: &Path| quoted(&path.display().to_string());
        let number = |value: f64| format!("{value:?}");
        vec![
            ("trainer_type", "fsdp2_trainer".to_owned()),
            ("dataset_config.dataset_path", path(manifest)),
            ("dataset_config.dataset_format", "yaml".to_owned()),
            ("dataset_config.dataset_type", "qwen3_vl_iterable".to_owned()),
            ("dataset_config.packing", "true".to_owned()),
            ("dataset_config.packing_length", self.packing_length.to_string()),
            ("dataset_config.filter_overlong", "true".to_owned()),
            ("dataset_config.video_backend", "qwen_vl_utils".to_owned()),
            ("dataset_config.video_sampling_strategy", "fps".to_owned()),
            ("dataset_config.video_max_pixels", self.max_pixels.to_string()),
            ("dataset_config.video_min_pixels", self.min_pixels.to_string()),
            ("dataset_config.video_max_frames", self.max_frames.to_string()),
            ("dataset_config.frame_num", "64".to_owned()),
            ("dataset_config.fps", self.fps.to_string()),
            ("dataset_config.shuffle", "true".to_owned()),
            ("dataset_config.processor_config.processor_name", path(base)),
            ("dataset_config.processor_config.processor_type", "qwen3_vl".to_owned()),
            ("model_config.load_from_pretrained_path", path(base)),
            ("model_config.attn_implementation", quoted(&self.attention)),
            ("trainer_args.use_cpu", self.cpu.to_string()),
            ("trainer_args.per_device_train_batch_size", self.packs.to_string()),
            ("trainer_args.gradient_accumulation_steps", self.accumulation.to_string()),
            ("trainer_args.learning_rate", number(self.learning_rate)),
            ("trainer_args.weight_decay", number(self.weight_decay)),
            ("trainer_args.num_train_epochs", "1".to_owned()),
            ("trainer_args.max_steps", self.steps.to_string()),
            ("trainer_args.lr_scheduler_type", "cosine".to_owned()),
            ("trainer_args.warmup_ratio", number(self.warmup_ratio)),
            ("trainer_args.bf16", "true".to_owned()),
            ("trainer_args.gradient_checkpointing", self.gradient_checkpointing.to_string()),
            ("trainer_args.logging_steps", "1".to_owned()),
            ("trainer_args.save_strategy", "steps".to_owned()),
            ("trainer_args.save_steps", self.save_every.to_string()),
            ("trainer_args.save_total_limit", self.keep.to_string()),
            ("trainer_args.output_dir", path(out)),
            ("trainer_args.run_name", "paravt-sft".to_owned()),
            ("trainer_args.report_to", "[\"none\"]".to_owned()),
            ("trainer_args.fsdp2", "true".to_owned()),
            (
                "trainer_args.fsdp_config.transformer_layer_cls_to_wrap",
                "[\"Qwen3VLTextDecoderLayer\"]".to_owned(),
            ),
            ("trainer_args.fsdp_config.reshard_after_forward", "false".to_owned()),
            ("trainer_args.sp_ulysses_degree", "1".to_owned()),
            ("trainer_args.use_liger_kernel", self.liger.to_string()),
            ("trainer_args.use_rmpad", self.rmpad.to_string()),
            ("trainer_args.dataloader_num_workers", self.workers.to_string()),
            ("trainer_args.dataloader_prefetch_factor", self.prefetch.to_string()),
            ("trainer_args.dataloader_persistent_workers", (self.workers > 0).to_string()),
            ("trainer_args.dataloader_pin_memory", self.pin_memory.to_string()),
            ("trainer_args.print_batch_input_steps", "-1".to_owned()),
            ("trainer_args.group_by_length", "false".to_owned()),
            ("trainer_args.optim", "adamw_torch_fused".to_owned()),
        ]
    }
}

/// A text as a value of hydra's command line: quoted, and with nothing that stands for another value.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/._-".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace("${", "\\${");
    format!("'{escaped}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_release_and_every_other_value_is_a_deviation() {
        let settings = Settings::default();
        settings.check().unwrap();
        assert_eq!(settings.deviations().len(), DEVIATIONS.len());
        let other = Settings { steps: 4, stop_after: None, save_every: 2, ..settings };
        other.check().unwrap();
        let text = other.deviations().join("\n");
        assert!(text.contains("sft.steps = 4; the release's recipe: 1500"), "{text}");
        let torn = Settings { steps: 5, save_every: 2, stop_after: None, ..Settings::default() };
        assert!(torn.check().unwrap_err().to_string().contains("step 5 has no checkpoint"));
    }

    #[test]
    fn the_key_leaves_out_what_changes_no_weight() {
        let key = |settings: &Settings| serde_json::to_value(settings.key()).unwrap();
        let base = Settings::default();
        assert_eq!(key(&base), key(&Settings { prefetch: 1, keep: 9, ..base.clone() }));
        assert_ne!(key(&base), key(&Settings { workers: 1, ..base.clone() }));
    }

    #[test]
    fn values_with_signs_of_hydra_are_quoted() {
        assert_eq!(quoted("/a/b-c_1.0"), "/a/b-c_1.0");
        assert_eq!(quoted("/a b,(c)='d'"), "'/a b,(c)=\\'d\\''");
        assert_eq!(quoted(""), "''");
    }
}
