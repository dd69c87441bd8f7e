//! Flags of the backend `libtorch`; they are there in builds without libtorch, too.

use std::sync::Arc;

use clap::{ArgMatches, FromArgMatches as _};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use paravt_backend::{Factory, FlagSets, Job, Kind};
use paravt_qwen_vl::engine::{Engine, Options};
use paravt_qwen_vl::flags::EngineFlags;
use paravt_qwen_vl::ops::Device;
use paravt_suite::backend::Backend;

/// Flags of libtorch.
#[derive(Debug, Clone)]
pub struct LibtorchFlags {
    engine: EngineFlags,
}

#[cfg(feature = "libtorch")]
fn start(device: Device, options: Options) -> anyhow::Result<Engine> {
    Ok(crate::start(options, device)?)
}

#[cfg(not(feature = "libtorch"))]
fn start(_: Device, _: Options) -> anyhow::Result<Engine> {
    anyhow::bail!(
        "--backend libtorch: this binary was built without the feature `libtorch`; install it with --features libtorch, or use --backend candle"
    )
}

impl Kind for LibtorchFlags {
    const NAME: &'static str = "libtorch";
    const ABOUT: &'static str = "The same on libtorch, in a build with the feature `libtorch`";

    fn flags(sets: FlagSets) -> FlagSets {
        sets.with::<EngineFlags>()
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { engine: EngineFlags::from_arg_matches(matches)? })
    }

    #[cfg(feature = "libtorch")]
    fn doctor() -> String {
        crate::version()
    }

    #[cfg(not(feature = "libtorch"))]
    fn doctor() -> String {
        "not in this build (feature `libtorch`)".to_owned()
    }
}

impl Factory for LibtorchFlags {
    fn start<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, anyhow::Result<Arc<dyn Backend>>> {
        self.engine.load(job.model, job.fetch, job.note, start).boxed()
    }

    fn is_in_process(&self) -> bool {
        true
    }

    fn gpus(&self) -> Option<u32> {
        Some(self.engine.gpus())
    }
}
