//! Whether two runs measured the same thing.

use paravt_suite::run::Manifest;

use super::Rule;

/// The backend that answers from a recorded run, and its detail that names the engine of that run.
const REPLAY: &str = "replay";
const RECORDED_WITH: &str = "recorded_with";
/// Details that say which weights a model has: they go with the model's name.
const WEIGHTS: &str = "weights";

/// A manifest as a baseline keeps it: without the command line, the endpoints and the sizes of video files,
/// which differ from machine to machine and may hold its paths and names.
pub(super) fn kept(manifest: &Manifest) -> Manifest {
    let mut kept = manifest.clone();
    kept.command.clear();
    kept.backend.details = manifest.backend.identity();
    kept.inputs.videos.clear();
    kept
}

/// Differences of two measurements, in words; empty when they are the same.
///
/// Everything that can change an answer counts ([`Manifest::differences`]): profile, plan, protocol, data,
/// selection, engine, number type and the other settings of the backend, and the model unless the rule
/// leaves it open. A recorded run and its replay are one measurement.
pub(super) fn differences(baseline: &Manifest, run: &Manifest, rule: &Rule) -> Vec<String> {
    let (mut ours, mut theirs) = (recorded(baseline), recorded(run));
    if rule.any_model {
        ours.backend.model.clone_from(&theirs.backend.model);
        for manifest in [&mut ours, &mut theirs] {
            manifest.backend.details.retain(|name, _| !name.starts_with(WEIGHTS));
        }
    }
    if baseline.backend.name == REPLAY || run.backend.name == REPLAY {
        // A replay knows neither the number type nor the other settings of the engine it recorded.
        ours.backend.details.clear();
        theirs.backend.details.clear();
    }
    ours.differences(&theirs)
}

/// The manifest of a replay as that of the run it replays.
fn recorded(manifest: &Manifest) -> Manifest {
    let mut manifest = manifest.clone();
    if manifest.backend.name == REPLAY
        && let Some(engine) = manifest.backend.details.get(RECORDED_WITH).cloned()
    {
        manifest.backend.name = engine;
    }
    manifest
}

/// A name for the machine that says nothing about whose it is: a hash of its kind of processor, cores,
/// GPUs and system.
pub(super) fn host_fingerprint(manifest: &Manifest) -> String {
    let host = &manifest.host;
    let kind = format!(
        "{}|{}|{}|{:?}|{}",
        host.platform,
        host.cpu.as_deref().unwrap_or_default(),
        host.cores,
        host.gpus,
        host.ffmpeg
    );
    paravt_files::sha256(kind)[..16].to_owned()
}
