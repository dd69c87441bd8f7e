//! Which samples belong to a run.

use std::collections::HashSet;

use anyhow::{bail, ensure};
use paravt_suite::run::Selection;
use paravt_suite::sample::{QuestionKind, Sample};
use paravt_suite::scoring::summary::group_sizes;

use super::{Common, Launch};

/// Limits on the samples of a split.
#[derive(Debug, Clone, Default)]
pub struct Select {
    /// The first N rows.
    pub limit: Option<usize>,
    /// These uids (or upstream ids).
    pub ids: Option<Vec<String>>,
    /// Zero-based shard and number of shards: rows `i, i + n, …` of what is left.
    pub shard: Option<(usize, usize)>,
}

/// Samples of a run with what the manifest says about them.
pub struct Selected {
    /// In row order.
    pub samples: Vec<Sample>,
    /// For the manifest.
    pub selection: Selection,
    /// Files that were read.
    pub files: Vec<std::path::PathBuf>,
    /// Revision of the hub snapshot.
    pub revision: Option<String>,
}

/// Loads the split and narrows it: ids, then limit, then shard (the reference driver's order).
pub fn samples(launch: &Launch<'_>, common: &Common<'_>) -> anyhow::Result<Selected> {
    let dataset = launch.task.load(common.root, launch.plan.profile)?;
    let split_rows = dataset.samples.len();
    let task = &launch.task.spec().name;
    let mut samples = dataset.samples;
    if let Some(ids) = &common.select.ids {
        let wanted: HashSet<&str> = ids.iter().map(String::as_str).collect();
        let known: HashSet<&str> =
            samples.iter().flat_map(|sample| [sample.uid.as_str(), sample.id.as_str()]).collect();
        if let Some(unknown) = ids.iter().find(|id| !known.contains(id.as_str())) {
            bail!("--ids: {task} has no sample `{unknown}`");
        }
        samples.retain(|sample| wanted.contains(sample.uid.as_str()) || wanted.contains(sample.id.as_str()));
    }
    if let Some(limit) = common.select.limit {
        samples.truncate(limit);
    }
    if let Some((index, count)) = common.select.shard {
        samples = samples.into_iter().skip(index).step_by(count).collect();
    }
    ensure!(!samples.is_empty(), "{task}: no sample is left to run");
    let mut seen = HashSet::new();
    if let Some(twice) = samples.iter().find(|sample| !seen.insert(sample.uid.as_str())) {
        bail!("{task}: two rows have the uid `{}`; the data file is damaged", twice.uid);
    }
    let selection = Selection {
        split_rows,
        expected: samples.len(),
        limit: common.select.limit,
        ids: common.select.ids.clone(),
        shard: common.select.shard,
        open_ended: samples.iter().filter(|sample| sample.gold.kind() == QuestionKind::Open).count(),
        groups: group_sizes(launch.task.spec(), &samples),
    };
    Ok(Selected { samples, selection, files: dataset.files, revision: dataset.revision })
}
