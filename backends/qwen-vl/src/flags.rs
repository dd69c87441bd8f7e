//! Flags of in-process engines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use paravt_suite::backend::Backend;

use crate::engine::{Engine, Options};
use crate::error::Error;
use crate::ops::{Device, Precision};
use crate::positions::VideoRule;

/// Loads a model on a device.
pub type Start = fn(Options, Device) -> Result<Engine, Error>;

/// Device and number types of an engine; the same flags for every engine.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "In-process engine")]
pub struct EngineFlags {
    /// Number type of the computation. Weights stay in the file's type where that is narrower. Ignored by servers
    /// [default: f32 on the CPU, bf16 on a GPU].
    #[arg(long, value_parser = ["f32", "bf16", "f16"])]
    dtype: Option<String>,
    /// Device: cpu, or cuda:N in a build with the feature `cuda`.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Kernels on a GPU in bf16, with candle: ours (attention, norms, sampling), or candle's alone, to compare.
    #[arg(long, default_value = "ours", value_parser = ["ours", "candle"], value_name = "KERNELS")]
    gpu_kernels: String,
    /// Branch, tag or commit of a model on the hub.
    #[arg(long, default_value = "main", value_name = "REVISION")]
    revision: String,
    /// Maximum conversations that decode together.
    #[arg(long, default_value_t = 16, value_name = "N")]
    batch: usize,
    /// Batch-invariant answers: the same bits for the same prompt and seed, whatever else is in the batch. Disables the
    /// prefix cache; on a GPU, in f16 and on libtorch one conversation decodes at a time.
    #[arg(long)]
    deterministic: bool,
    /// How videos stand in prompts (temporal positions of Qwen2.5-VL, vision tokens of Qwen3-VL): as in vLLM 0.17
    /// (which served the paper's models), in transformers 4.57, or in transformers 5.
    #[arg(long, alias = "positions", default_value = "vllm", value_parser = VideoRule::ALL.map(VideoRule::as_str), value_name = "RULE")]
    video_rule: String,
}

impl EngineFlags {
    /// GPUs that the engine uses.
    pub fn gpus(&self) -> u32 {
        u32::from(self.device != "cpu")
    }

    /// Device.
    ///
    /// # Errors
    /// `--device` names no device.
    pub fn device(&self) -> anyhow::Result<Device> {
        self.device.parse().map_err(|error| anyhow::anyhow!("--device {error}"))
    }

    /// Number type on that device.
    pub fn precision(&self, device: Device) -> Precision {
        match self.dtype.as_deref() {
            Some("bf16") => Precision::Bf16,
            Some("f16") => Precision::F16,
            None if !device.is_cpu() => Precision::Bf16,
            _ => Precision::F32,
        }
    }

    fn video_rule(&self) -> VideoRule {
        let mut rules = VideoRule::ALL.into_iter();
        rules.find(|rule| rule.as_str() == self.video_rule).unwrap_or_default()
    }

    /// Loads a model on an engine: a folder, or a name on the hub, of which `fetch` knows the folder at a revision. `note` is
    /// given the memory that it takes.
    ///
    /// # Errors
    /// No model is named or it cannot be had; as `start`.
    pub async fn load(
        &self,
        model: Option<&str>,
        fetch: fn(&str, &str) -> anyhow::Result<PathBuf>,
        note: fn(&str),
        start: Start,
    ) -> anyhow::Result<Arc<dyn Backend>> {
        let model = model
            .context("no model is named; give --model DIR, or owner/name of a model on the hub")?
            .to_owned();
        let flags = self.clone();
        let device = self.device()?;
        let load = move || {
            // A name on the hub is a name; of a folder, the records get its last part.
            let is_folder = Path::new(&model).is_dir();
            let folder =
                if is_folder { PathBuf::from(&model) } else { fetch(named(&model)?, &flags.revision)? };
            if !folder.join("config.json").exists() {
                return Err(Error::file(&folder, "not a model folder: config.json is missing").into());
            }
            let named = Options::new(folder);
            let options = Options {
                name: if is_folder { named.name.clone() } else { format!("{model}@{}", flags.revision) },
                device: device.kind().to_owned(),
                precision: flags.precision(device),
                memory: free_memory(device),
                batch: flags.batch,
                candle_kernels: flags.gpu_kernels == "candle",
                deterministic: flags.deterministic,
                video_rule: flags.video_rule(),
                ..named
            };
            anyhow::Ok(start(options, device)?)
        };
        let engine = tokio::task::spawn_blocking(load).await.context("the engine's loader stopped")??;
        note(&format!("{}: {}", engine.describe().name, engine.memory()));
        Ok(Arc::new(engine))
    }
}

/// The model as the name of a hub repository (`owner/name`); an error for anything else, e.g. a path.
fn named(model: &str) -> Result<&str, Error> {
    let is_name =
        model.split('/').count() == 2 && !model.starts_with(['.', '/', '~']) && !model.ends_with('/');
    let wrong = "neither a folder nor a model on the hub (owner/name)";
    is_name.then_some(model).ok_or_else(|| Error::file(Path::new(model), wrong))
}

/// Unallocated bytes of the host or of a GPU; no limit where the system does not say.
pub fn free_memory(device: Device) -> u64 {
    let free = match device {
        Device::Cpu => paravt_devices::host().available,
        Device::Cuda(ordinal) => {
            let gpus = paravt_devices::cuda().map(|cuda| cuda.gpus).unwrap_or_default();
            gpus.into_iter().find(|gpu| gpu.ordinal == ordinal).map(|gpu| gpu.free)
        }
    };
    free.unwrap_or(u64::MAX)
}
