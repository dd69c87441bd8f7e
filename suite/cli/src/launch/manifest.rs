//! What a run says about itself.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::CommandFactory as _;
use paravt_suite::backend::BackendInfo;
use paravt_suite::data::sha256_file;
use paravt_suite::redact;
use paravt_suite::run::{Host, Inputs, Manifest, RUN_VERSION, constants};

use super::select::Selected;
use super::{Common, Launch, command_line};

/// Version and commit of this binary.
pub const BINARY: &str =
    concat!("paravt-bench ", env!("CARGO_PKG_VERSION"), " ", env!("PARAVT_BENCH_COMMIT"));

/// Seconds since 1970.
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs_f64()).unwrap_or_default()
}

/// The manifest of a run that starts now. Who answers is filled in when that is known.
pub fn build(launch: &Launch<'_>, selected: &Selected, common: &Common<'_>) -> anyhow::Result<Manifest> {
    let mut data = BTreeMap::new();
    for file in &selected.files {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        data.insert(name, sha256_file(file)?);
    }
    Ok(Manifest {
        version: RUN_VERSION,
        binary: BINARY.to_owned(),
        command: command_line::shown(&crate::Cli::command(), std::env::args_os()),
        task: launch.task.spec().clone(),
        plan: launch.plan.clone(),
        protocol_hash: launch.protocol.hash(),
        protocol: launch.protocol.name.clone(),
        protocol_source: launch.protocol.source.clone(),
        data,
        data_revision: selected.revision.clone(),
        inputs: Some(inputs(selected)),
        constants: constants(),
        backend: BackendInfo { name: String::new(), model: String::new(), details: BTreeMap::new() },
        label: launch.label.clone(),
        paper_row: launch.paper_row.clone(),
        selection: selected.selection.clone(),
        host: Host {
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            cpu: processor(),
            gpus: common.gpus,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            ffmpeg: paravt_media::ffmpeg_version(),
        },
        continued_by: Vec::new(),
        started_at: unix_seconds(),
        ended_at: None,
    })
}

/// What a backend says about itself, without credentials.
pub fn described(backend: BackendInfo) -> BackendInfo {
    let details = backend.details.iter().map(|(key, value)| (key.clone(), redact::urls(value)));
    BackendInfo { model: redact::urls(&backend.model), details: details.collect(), ..backend }
}

/// Kind of processor, e.g. `AMD EPYC 7763 64-Core Processor`.
fn processor() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned()).filter(|name| !name.is_empty())
}

fn inputs(selected: &Selected) -> Inputs {
    let size = |sample: &paravt_suite::sample::Sample| {
        let file = std::fs::metadata(&sample.video).ok().filter(std::fs::Metadata::is_file)?;
        Some((selected.videos.name(&sample.video).to_string_lossy().into_owned(), file.len()))
    };
    Inputs {
        samples: selected.split_hash.clone(),
        videos: selected.samples.iter().filter_map(size).collect(),
        replaced: BTreeMap::new(),
    }
}
