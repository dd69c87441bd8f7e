//! Flags of in-process engines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use clap::builder::RangedU64ValueParser;
use paravt_suite::backend::Backend;
use paravt_suite::plan::Channel;

use crate::engine::{Engine, Options};
use crate::error::Error;
use crate::ops::{Device, Precision};
use crate::positions::VideoRule;
use crate::spread::Spread;

/// Every GPU.
const ALL: &str = "cuda:all";

/// Loads a model on a device.
pub type Start = fn(Options, Device) -> Result<Engine, Error>;

/// Device and number types of an engine; the same flags for every engine.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "In-process engine")]
pub struct EngineFlags {
    /// Number type of the computation. Weights stay in the file's type where that is narrower [default: f32 on the CPU, bf16 on a GPU].
    #[arg(long, value_parser = ["f32", "bf16", "f16"])]
    dtype: Option<String>,
    /// Device: cpu, or cuda:N in a build with the feature `cuda`; cuda:all answers on every GPU, with a copy of the model
    /// on each.
    #[arg(long, default_value = CPU)]
    device: String,
    /// Kernels on a GPU in bf16, with candle: ours (attention, norms, sampling), or candle's alone, to compare.
    #[arg(long, default_value = OURS, value_parser = [OURS, "candle"], value_name = "KERNELS")]
    gpu_kernels: String,
    /// Branch, tag or commit of a model on the hub.
    #[arg(long, default_value = MAIN, value_name = "REVISION")]
    revision: String,
    /// Maximum conversations that decode together.
    #[arg(long, default_value_t = BATCH, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
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

/// Values of flags that are not given.
const CPU: &str = "cpu";
const OURS: &str = "ours";
const MAIN: &str = "main";
const BATCH: usize = 16;

impl EngineFlags {
    /// The first of the flags that is given; a model elsewhere knows none of them.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--device", self.device != CPU),
            ("--dtype", self.dtype.is_some()),
            ("--gpu-kernels", self.gpu_kernels != OURS),
            ("--revision", self.revision != MAIN),
            ("--batch", self.batch != BATCH),
            ("--deterministic", self.deterministic),
            ("--video-rule", self.video_rule() != VideoRule::default()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }

    /// Refuses flags that change nothing on the device or for the model.
    ///
    /// # Errors
    /// The first such flag.
    pub fn check(&self, model: Option<&str>) -> anyhow::Result<()> {
        ensure!(
            self.gpu_kernels == OURS || self.device != CPU,
            "--gpu-kernels {}: for a GPU, and the model runs on the CPU; leave it out",
            self.gpu_kernels
        );
        let folder = model.filter(|model| Path::new(model).is_dir());
        match folder.filter(|_| self.revision != MAIN) {
            Some(folder) => bail!(
                "--revision {}: for a model on the hub, and {folder} is a folder; leave it out",
                self.revision
            ),
            None => Ok(()),
        }
    }

    /// Flags that are given and change nothing on this channel, with the one that they are for.
    pub fn without_effect(&self, channel: Channel) -> impl Iterator<Item = (&'static str, &'static str)> {
        let is_idle = channel == Channel::Image && self.video_rule() != VideoRule::default();
        is_idle.then_some(("--video-rule", "frames-video")).into_iter()
    }

    /// GPUs that the engine uses.
    pub fn gpus(&self) -> u32 {
        self.devices().map_or(1, |devices| devices.iter().filter(|device| !device.is_cpu()).count() as u32)
    }

    /// The one device.
    ///
    /// # Errors
    /// `--device` names no device, or all.
    pub fn device(&self) -> anyhow::Result<Device> {
        anyhow::ensure!(self.device != ALL, "--device {ALL}: one device is needed here, e.g. cuda:0");
        self.device.parse().map_err(|error| anyhow::anyhow!("--device {error}"))
    }

    /// Devices that answer.
    ///
    /// # Errors
    /// `--device` names no device, or there is none.
    fn devices(&self) -> anyhow::Result<Vec<Device>> {
        if self.device != ALL {
            return Ok(vec![self.device()?]);
        }
        let gpus = paravt_devices::cuda().map_err(|error| anyhow::anyhow!("--device {ALL}: {error}"))?.gpus;
        anyhow::ensure!(!gpus.is_empty(), "--device {ALL}: the driver shows no GPU");
        Ok(gpus.iter().map(|gpu| Device::Cuda(gpu.ordinal)).collect())
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
        let devices = self.devices()?;
        let is_folder = Path::new(&model).is_dir();
        let find = {
            let (model, revision) = (model.clone(), self.revision.clone());
            move || if is_folder { Ok(PathBuf::from(model)) } else { fetch(named(&model)?, &revision) }
        };
        let folder = tokio::task::spawn_blocking(find).await.context("the download stopped")??;
        if !folder.join("config.json").exists() {
            return Err(Error::file(&folder, "not a model folder: config.json is missing").into());
        }
        // A name on the hub is a name; of a folder, the records get its last part.
        let mut options = Options::new(folder);
        if !is_folder {
            options.name = format!("{model}@{}", self.revision);
        }
        let load = |device: Device| {
            let options = self.options(options.clone(), device);
            async move {
                let engine = tokio::task::spawn_blocking(move || start(options, device)).await;
                Ok::<_, anyhow::Error>(engine.context("the engine's loader stopped")??)
            }
        };
        let engines = futures::future::try_join_all(devices.into_iter().map(load)).await?;
        for engine in &engines {
            note(&format!("{}: {}", engine.describe().name, engine.plan()));
        }
        let mut engines: Vec<Arc<dyn Backend>> =
            engines.into_iter().map(|engine| Arc::new(engine) as Arc<dyn Backend>).collect();
        Ok(if engines.len() == 1 { engines.remove(0) } else { Arc::new(Spread::new(engines)) })
    }

    /// Options of a model on a device.
    fn options(&self, named: Options, device: Device) -> Options {
        Options {
            device: device.kind().to_owned(),
            precision: self.precision(device),
            memory: free_memory(device),
            batch: self.batch,
            candle_kernels: self.gpu_kernels == "candle",
            deterministic: self.deterministic,
            video_rule: self.video_rule(),
            ..named
        }
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
