//! Which samples belong to a run.

use std::collections::HashSet;

use anyhow::{bail, ensure};
use paravt_suite::run::{GroupSizes, Selection, Whole};
use paravt_suite::sample::{QuestionKind, Sample};
use paravt_suite::scoring::summary::group_sizes;
use paravt_suite::videos::VideoStore;
use sha2::{Digest as _, Sha256};

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
    /// SHA-256 over all samples of the split, before any was left out.
    pub split_hash: String,
    /// Names and files of the split's videos.
    pub videos: VideoStore,
}

/// Loads the split and narrows it: ids, then limit, then shard (the reference driver's order).
pub fn samples(launch: &Launch<'_>, common: &Common<'_>) -> anyhow::Result<Selected> {
    let dataset = launch.task.load(common.root, launch.plan.profile)?;
    let split_rows = dataset.samples.len();
    let videos = launch.task.videos(common.root);
    let split_hash = hash(&dataset.samples, &videos);
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
    let whole = common.select.shard.map(|_| {
        let (expected, open_ended, groups) = sizes(launch, &samples);
        Box::new(Whole { expected, open_ended, groups })
    });
    if let Some((index, count)) = common.select.shard {
        samples = samples.into_iter().skip(index).step_by(count).collect();
    }
    ensure!(!samples.is_empty(), "{task}: no sample is left to run");
    let mut seen = HashSet::new();
    if let Some(twice) = samples.iter().find(|sample| !seen.insert(sample.uid.as_str())) {
        bail!("{task}: two rows have the uid `{}`; the data file is damaged", twice.uid);
    }
    let (expected, open_ended, groups) = sizes(launch, &samples);
    let selection = Selection {
        split_rows,
        expected,
        limit: common.select.limit,
        ids: common.select.ids.clone(),
        shard: common.select.shard,
        open_ended,
        groups,
        whole,
    };
    Ok(Selected { samples, selection, files: dataset.files, revision: dataset.revision, split_hash, videos })
}

/// How many samples there are, how many of them are open-ended, and how many each breakdown group has.
fn sizes(launch: &Launch<'_>, samples: &[Sample]) -> (usize, usize, GroupSizes) {
    let open_ended = samples.iter().filter(|sample| sample.gold.kind() == QuestionKind::Open).count();
    (samples.len(), open_ended, group_sizes(launch.task.spec(), samples))
}

/// SHA-256 over samples, subtitles included, with the names of their videos in the place of the paths.
fn hash(samples: &[Sample], videos: &VideoStore) -> String {
    let mut hasher = Sha256::new();
    for sample in samples {
        let sample = Sample { video: videos.name(&sample.video), ..sample.clone() };
        hasher.update(serde_json::to_vec(&sample).expect("plain structs with string keys serialise"));
        hasher.update(b"\n");
    }
    paravt_suite::record::hex(&hasher.finalize())
}
