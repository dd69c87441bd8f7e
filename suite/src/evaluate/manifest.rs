//! The manifest of a run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use super::select::Selected;
use super::{Evaluation, Workspace};
use crate::backend::BackendInfo;
use crate::data::{DataError, sha256_file};
use crate::plan::RunPlan;
use crate::redact;
use crate::run::{Host, Inputs, Manifest, RUN_VERSION, constants};
use crate::sample::Sample;

pub(super) fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs_f64()).unwrap_or_default()
}

/// The manifest of a run that starts now. Who answers is filled in when that is known.
pub(super) fn build(
    run: &Evaluation<'_>,
    plan: RunPlan,
    selected: &Selected,
    workspace: &Workspace,
) -> Result<Manifest, DataError> {
    let mut data = BTreeMap::new();
    for file in &selected.files {
        // Files of one table may have one name, in folders of their own.
        let is_one = selected.files.iter().filter(|other| other.file_name() == file.file_name()).count() == 1;
        let shown = file.iter().rev().take(if is_one { 1 } else { 2 }).collect::<Vec<_>>();
        let name = shown.into_iter().rev().collect::<std::path::PathBuf>();
        data.insert(name.to_string_lossy().into_owned(), sha256_file(file)?);
    }
    Ok(Manifest {
        version: RUN_VERSION,
        id: None,
        binary: workspace.binary.clone(),
        command: workspace.command.clone(),
        task: run.task.spec().clone(),
        quirks: run.task.kept_quirks(plan.profile()),
        doubtful: run.task.doubtful().to_vec(),
        offers_tool: run.protocol.has_tool(&plan.mode),
        fidelity: plan.fidelity(&run.protocol, &run.task.spec().name),
        plan,
        protocol_hash: run.protocol.hash(),
        protocol: run.protocol.name.clone(),
        protocol_source: run.protocol.source.clone(),
        data,
        data_revision: selected.revision.clone(),
        inputs: inputs(selected),
        constants: match run.protocol.agent {
            // They are those of the first release's loop; an agent's own numbers are in its protocol.
            Some(_) => {
                let code = workspace.code.as_ref().filter(|_| run.protocol.code().is_some());
                code.map(|code| ("code_tool".to_owned(), code.versions().to_owned())).into_iter().collect()
            }
            // Images are sent as they lie.
            None if run.task.is_about_images() => BTreeMap::new(),
            None => constants(&run.protocol.tool),
        },
        backend: BackendInfo { name: String::new(), model: String::new(), details: BTreeMap::new() },
        memory: None,
        imported: None,
        label: run.config.label.clone(),
        paper_row: run.config.paper_row.clone(),
        selection: selected.selection.clone(),
        host: Host {
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            cpu: processor(),
            gpus: workspace.gpus,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            ffmpeg: crate::media::ffmpeg_version(),
        },
        continued_by: Vec::new(),
        started_at: unix_seconds(),
        ended_at: None,
    })
}

/// A backend's description without credentials.
pub(super) fn described(backend: BackendInfo) -> BackendInfo {
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
    let size = |name: &PathBuf| {
        let file = std::fs::metadata(selected.videos.resolve(name)).ok()?;
        file.is_file().then(|| (name.to_string_lossy().into_owned(), file.len()))
    };
    Inputs {
        samples: selected.split_hash.clone(),
        verified: selected.verified,
        videos: selected.samples.iter().flat_map(Sample::media).filter_map(size).collect(),
        replaced: BTreeMap::new(),
    }
}
