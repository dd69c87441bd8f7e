//! Which samples belong to a run.

use std::collections::HashSet;
use std::path::PathBuf;

use super::{RunConfig, RunError};
use crate::data::DataRoot;
use crate::profile::Profile;
use crate::run::{Selection, Sizes};
use crate::sample::{self, Sample};
use crate::summary::group_sizes;
use crate::task::{Origin, Task, TaskSpec};
use crate::videos::VideoStore;

/// Samples of a run with what the manifest says about them.
pub(super) struct Selected {
    /// In row order.
    pub samples: Vec<Sample>,
    pub selection: Selection,
    pub files: Vec<PathBuf>,
    /// Revision of the hub snapshot.
    pub revision: Option<String>,
    /// SHA-256 over all samples of the split, before any was left out.
    pub split_hash: String,
    /// See [`Inputs::verified`](crate::run::Inputs::verified).
    pub verified: bool,
    /// See [`Dataset::warning`](crate::task::Dataset::warning).
    pub warning: Option<String>,
    /// The folder that the videos lie in.
    pub videos: VideoStore,
}

/// Loads the split and narrows it: ids, then limit, then shard (the reference driver's order).
pub(super) fn samples(
    task: &dyn Task,
    profile: Profile,
    config: &RunConfig,
    root: &DataRoot,
) -> Result<Selected, RunError> {
    let dataset = task.load(root, profile)?;
    let split_rows = dataset.samples.len();
    let split_hash = sample::sha256(&dataset.samples);
    let spec = task.spec();
    let mut samples = dataset.samples;
    if let Some(ids) = &config.ids {
        samples = with_ids(samples, ids, &spec.name)?;
    }
    if let Some(limit) = config.limit {
        samples.truncate(limit);
    }
    let whole = config.shard.map(|_| Box::new(sizes(spec, &samples)));
    if let Some(shard) = config.shard {
        samples = samples.into_iter().skip(shard.index()).step_by(shard.count()).collect();
    }
    if samples.is_empty() {
        let reason = dataset.empty.unwrap_or_else(|| "check --limit, --ids and --shard".to_owned());
        return Err(RunError::NoSamples { task: spec.name.clone(), reason });
    }
    let mut seen = HashSet::new();
    if let Some(twice) = samples.iter().find(|sample| !seen.insert(sample.uid.as_str())) {
        return Err(RunError::SameUid { task: spec.name.clone(), uid: twice.uid.clone() });
    }
    if let Some(probe) = config.probe {
        let refused = |message| RunError::Probe { probe, task: spec.name.clone(), message };
        samples = probe.samples(samples).map_err(refused)?;
    }
    let selection = Selection {
        split_rows,
        sizes: sizes(spec, &samples),
        limit: config.limit,
        ids: config.ids.clone(),
        shard: config.shard.map(|shard| (shard.index(), shard.count())),
        whole,
    };
    Ok(Selected {
        samples,
        selection,
        files: dataset.files,
        revision: dataset.revision,
        split_hash,
        verified: dataset.origin == Origin::Published && !dataset.shows_subtitles,
        warning: dataset.warning,
        videos: dataset.videos,
    })
}

/// The samples of these uids or upstream ids.
fn with_ids(mut samples: Vec<Sample>, ids: &[String], task: &str) -> Result<Vec<Sample>, RunError> {
    let wanted: HashSet<&str> = ids.iter().map(String::as_str).collect();
    let known: HashSet<&str> =
        samples.iter().flat_map(|sample| [sample.uid.as_str(), sample.id.as_str()]).collect();
    if let Some(unknown) = ids.iter().find(|id| !known.contains(id.as_str())) {
        return Err(RunError::UnknownId { task: task.to_owned(), id: unknown.clone() });
    }
    samples.retain(|sample| wanted.contains(sample.uid.as_str()) || wanted.contains(sample.id.as_str()));
    Ok(samples)
}

fn sizes(spec: &TaskSpec, samples: &[Sample]) -> Sizes {
    let open_ended = samples.iter().filter(|sample| sample.gold.is_excluded_from_headline()).count();
    Sizes { expected: samples.len(), open_ended, groups: group_sizes(spec, samples) }
}
