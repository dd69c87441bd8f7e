//! In-process engines: from flags to a loaded model.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use paravt_backend_candle as candle;
#[cfg(feature = "libtorch")]
use paravt_backend_libtorch as libtorch;
use paravt_qwen_vl::engine::{Engine, Options};
use paravt_qwen_vl::hub;
use paravt_qwen_vl::ops::{Device, Precision};
use paravt_qwen_vl::positions::PositionRule;
use paravt_suite::backend::Backend;
use paravt_train::Compute;

/// Starts an engine of one kind.
pub type Start = fn(Device, Options) -> anyhow::Result<Engine>;

/// Flags of in-process engines.
#[derive(Clone, clap::Args)]
#[command(next_help_heading = "In-process engine")]
pub struct EngineArgs {
    /// Number type of activations and cache; weights keep the smaller of this and the file's. A server
    /// keeps its own [default: f32 on the CPU, bf16 on a GPU].
    #[arg(long, value_parser = ["f32", "bf16", "f16"])]
    dtype: Option<String>,
    /// Where to compute: cpu, or cuda:N in a build with the feature `cuda`.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Branch, tag or commit of a model on the hub.
    #[arg(long, default_value = "main", value_name = "REVISION")]
    revision: String,
    /// Most conversations that decode together.
    #[arg(long, default_value_t = 16, value_name = "N")]
    batch: usize,
    /// Batch-invariant: an answer depends, to the bit, on its prompt and seed alone, and not on the answers before and
    /// beside it. No keys and values are reused; on a GPU, in f16 and on libtorch one conversation decodes at a time.
    #[arg(long)]
    deterministic: bool,
    /// Temporal positions of Qwen2.5-VL videos: as vLLM counts them, which the paper's models were served by, or as
    /// transformers up to 4.57 or since 5 does.
    #[arg(long, default_value = "vllm", value_parser = PositionRule::ALL.map(PositionRule::as_str), value_name = "RULE")]
    positions: String,
    /// Instruction set of candle's kernels on the CPU, to compare results with another machine's: avx512, avx2 or
    /// baseline [default: the best that the processor has].
    #[arg(long, hide = true, value_name = "SET")]
    isa: Option<candle::Isa>,
}

impl EngineArgs {
    /// GPUs that the engine uses.
    pub fn gpus(&self) -> u32 {
        u32::from(self.device != "cpu")
    }

    /// Where and in what to train.
    pub fn compute(&self) -> anyhow::Result<Compute> {
        let device = self.device()?;
        let precision = self.precision(device);
        if precision == Precision::F16 {
            bail!("--dtype f16: gradients would vanish; bf16 or f32 train");
        }
        Ok(Compute::new(built_in(device)?, precision)?)
    }

    fn device(&self) -> anyhow::Result<Device> {
        self.device.parse().map_err(|error| anyhow::anyhow!("--device {error}"))
    }

    fn position_rule(&self) -> PositionRule {
        let mut rules = PositionRule::ALL.into_iter();
        rules.find(|rule| rule.as_str() == self.positions).unwrap_or_default()
    }

    fn precision(&self, device: Device) -> Precision {
        match self.dtype.as_deref() {
            Some("bf16") => Precision::Bf16,
            Some("f16") => Precision::F16,
            None if !device.is_cpu() => Precision::Bf16,
            _ => Precision::F32,
        }
    }

    /// Loads a model: a folder, or a name on the hub.
    pub async fn load(&self, model: Option<&str>, start: Start) -> anyhow::Result<Arc<dyn Backend>> {
        let model = model.context("an in-process engine needs --model DIR")?.to_owned();
        let revision = self.revision.clone();
        let device = self.device()?;
        if let Some(isa) = self.isa {
            candle::set_isa(isa)?;
        }
        let precision = self.precision(device);
        let (batch, deterministic, positions) = (self.batch, self.deterministic, self.position_rule());
        let load = move || {
            let folder = hub::resolve(&model, &revision)?;
            // A name on the hub is a name; of a folder, the records get its last part.
            let is_folder = Path::new(&model).is_dir();
            let named = Options::new(folder);
            let options = Options {
                name: if is_folder { named.name.clone() } else { format!("{model}@{revision}") },
                device: device.kind().to_owned(),
                precision,
                memory: free_memory(device),
                batch,
                deterministic,
                positions,
                ..named
            };
            start(device, options)
        };
        let engine = tokio::task::spawn_blocking(load).await.context("the engine's loader stopped")??;
        eprintln!("{}: {}", engine.describe().name, engine.memory());
        Ok(Arc::new(engine))
    }
}

/// A model folder on candle, where its trainer computes.
pub fn start_candle(model: &Path, batch: usize, compute: &Compute) -> anyhow::Result<Arc<dyn Backend>> {
    let device = compute.device();
    let options = Options {
        device: device.kind().to_owned(),
        precision: compute.precision(),
        memory: if device.is_cpu() { free_memory(device) } else { u64::MAX },
        batch,
        ..Options::new(model.to_owned())
    };
    Ok(Arc::new(candle::start(options, device)?))
}

/// Bytes that can be had there; no limit where the system does not say. candle asks the GPU that it opens itself.
fn free_memory(device: Device) -> u64 {
    let free = match device {
        Device::Cpu => paravt_devices::host().available,
        Device::Cuda(ordinal) => {
            let gpus = paravt_devices::cuda().map(|cuda| cuda.gpus).unwrap_or_default();
            gpus.into_iter().find(|gpu| gpu.ordinal == ordinal).map(|gpu| gpu.free)
        }
    };
    free.unwrap_or(u64::MAX)
}

/// A device that this build's candle can use.
fn built_in(device: Device) -> anyhow::Result<Device> {
    if !device.is_cpu() && !candle::HAS_CUDA {
        bail!("--device cuda: this binary was built without the feature `cuda`");
    }
    Ok(device)
}

/// Starts a model on candle.
pub fn start_on_candle(device: Device, options: Options) -> anyhow::Result<Engine> {
    Ok(candle::start(options, built_in(device)?)?)
}

/// Starts a model on libtorch.
#[cfg(feature = "libtorch")]
pub fn start_on_libtorch(device: Device, options: Options) -> anyhow::Result<Engine> {
    Ok(libtorch::start(options, device)?)
}

/// Starts a model on libtorch.
#[cfg(not(feature = "libtorch"))]
pub fn start_on_libtorch(_: Device, _: Options) -> anyhow::Result<Engine> {
    bail!("--backend libtorch: this binary was built without the feature `libtorch`")
}

#[cfg(feature = "libtorch")]
fn libtorch_ability() -> String {
    libtorch::version()
}

#[cfg(not(feature = "libtorch"))]
fn libtorch_ability() -> String {
    "not in this build (feature `libtorch`)".to_owned()
}

/// What each engine can use on this machine, for `doctor`.
pub fn abilities() -> Vec<(&'static str, String)> {
    let gpus = paravt_devices::cuda().map(|cuda| cuda.gpus.len()).unwrap_or_default();
    let cuda = match (candle::HAS_CUDA, gpus) {
        (true, 0) => "; built with CUDA, but no GPU is here".to_owned(),
        (true, gpus) => format!(" and {gpus} GPU(s)"),
        (false, 0) => "; built without CUDA".to_owned(),
        (false, gpus) => format!("; {gpus} GPU(s) are here, but this build is without the feature `cuda`"),
    };
    vec![("candle", format!("CPU ({}){cuda}", candle::cpu_features())), ("libtorch", libtorch_ability())]
}
