//! Flags of the backend `candle`.

use std::sync::Arc;

use clap::{ArgMatches, FromArgMatches as _};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use paravt_backend::{Factory, FlagSets, Job, Kind};
use paravt_qwen_vl::flags::EngineFlags;
use paravt_suite::backend::Backend;

use crate::{HAS_CUDA, Isa, cpu_features, set_isa, start};

/// Flags of candle.
#[derive(Debug, Clone)]
pub struct CandleFlags {
    engine: EngineFlags,
    kernels: KernelFlags,
}

/// Flags of its kernels.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "In-process engine")]
struct KernelFlags {
    /// Instruction set of the kernels on the CPU, of answers and of training, to compare results with another machine's:
    /// avx512, avx2 or baseline. Products in f16 and training in bf16 are candle's own, which are not covered
    /// [default: the best that the processor has].
    #[arg(long, hide = true, value_name = "SET")]
    isa: Option<Isa>,
}

impl Kind for CandleFlags {
    const NAME: &'static str = "candle";
    const ABOUT: &'static str = "Qwen3-VL or Qwen2.5-VL in this process, on candle";

    fn flags(sets: FlagSets) -> FlagSets {
        sets.with::<EngineFlags>().with::<KernelFlags>()
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            engine: EngineFlags::from_arg_matches(matches)?,
            kernels: KernelFlags::from_arg_matches(matches)?,
        })
    }

    fn doctor() -> String {
        let gpus = paravt_devices::cuda().map(|cuda| cuda.gpus.len()).unwrap_or_default();
        let cuda = match (HAS_CUDA, gpus) {
            (true, 0) => "; built with CUDA, but no GPU is here".to_owned(),
            (true, gpus) => format!(" and {gpus} GPU(s)"),
            (false, 0) => "; built without CUDA".to_owned(),
            (false, gpus) => {
                format!("; {gpus} GPU(s) are here, but this build is without the feature `cuda`")
            }
        };
        format!("CPU ({}){cuda}", cpu_features())
    }
}

impl Factory for CandleFlags {
    fn configure(&self) -> anyhow::Result<()> {
        Ok(self.kernels.isa.map_or(Ok(()), set_isa)?)
    }

    fn start<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, anyhow::Result<Arc<dyn Backend>>> {
        self.engine
            .load(job.model, job.fetch, job.note, |device, options| Ok(start(options, device)?))
            .boxed()
    }

    fn is_in_process(&self) -> bool {
        true
    }

    fn gpus(&self) -> Option<u32> {
        Some(self.engine.gpus())
    }
}
