//! What `data check` says about one split.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{DataCheck, DataRoot, Dataset, TaskSpec};
use crate::data::{DataError, Found, Layout};

/// Compares what lies below `root` with what is published.
pub fn check(
    spec: &TaskSpec,
    layout: &Layout,
    loaded: Result<Dataset, DataError>,
    root: &DataRoot,
) -> DataCheck {
    let mut check = DataCheck {
        task: spec.name.clone(),
        expected_rows: spec.expected_rows,
        expected_videos: spec.expected_videos,
        ..DataCheck::default()
    };
    let at = published_at(spec);
    let dataset = match loaded {
        Ok(dataset) => dataset,
        Err(error) => {
            check.findings.push(format!("{error} ({} of {at})", spec.hub.annotations));
            return check;
        }
    };
    check.annotations = dataset.files.first().cloned();
    check.revision = dataset.revision;
    check.rows = dataset.samples.len();
    if check.rows != spec.expected_rows {
        check.findings.push(format!(
            "{} rows where {} are published in {} of {at}",
            check.rows, spec.expected_rows, spec.hub.annotations
        ));
    }
    let found = check.annotations.clone().map(|path| Found { path, revision: check.revision.clone() });
    let archives = layout.archives(root, spec, found.as_ref());
    let videos: BTreeSet<&PathBuf> = dataset.samples.iter().map(|sample| &sample.video).collect();
    videos_found(&mut check, spec, &videos, &archives);
    subtitles_found(&mut check, spec, layout, root);
    check
}

fn published_at(spec: &TaskSpec) -> String {
    let repo = spec.hub.repos.first().map_or("", String::as_str);
    format!("{repo}@{}", spec.hub.revision.as_deref().unwrap_or("main"))
}

/// Published files that hold subtitles, or those that do not.
fn media(spec: &TaskSpec, subtitles: bool) -> String {
    let chosen = spec.hub.media.iter().filter(|name| name.contains("subtitle") == subtitles);
    chosen.cloned().collect::<Vec<_>>().join(", ")
}

fn videos_found(check: &mut DataCheck, spec: &TaskSpec, videos: &BTreeSet<&PathBuf>, archives: &[PathBuf]) {
    check.videos = videos.len();
    // A download that was cut off at once leaves an empty file.
    let there = |video: &Path| std::fs::metadata(video).is_ok_and(|file| file.is_file() && file.len() > 0);
    check.missing_videos =
        videos.iter().filter(|video| !there(video)).map(|video| (*video).clone()).collect();
    if check.videos != spec.expected_videos {
        let (named, published) = (check.videos, spec.expected_videos);
        check.findings.push(format!("rows name {named} videos, {published} are published"));
    }
    let Some(first) = check.missing_videos.first() else { return };
    check.findings.push(format!(
        "{} of {} videos are missing (first: {}); {} of {} provide them",
        check.missing_videos.len(),
        check.videos,
        first.display(),
        media(spec, false),
        published_at(spec)
    ));
    if let Some(archive) = archives.first() {
        check.findings.push(format!(
            "{} published archives lie there and may only want unpacking (first: {}) into {}",
            archives.len(),
            archive.display(),
            first.parent().unwrap_or(Path::new(".")).display()
        ));
    }
}

fn subtitles_found(check: &mut DataCheck, spec: &TaskSpec, layout: &Layout, root: &DataRoot) {
    let Some(expected) = layout.expected_subtitles else { return };
    let folder = layout.folders(root, None).into_iter().next().and_then(|folders| folders.subtitles);
    let entries = folder.as_deref().and_then(|folder| std::fs::read_dir(folder).ok());
    let is_srt = |path: &Path| path.extension().is_some_and(|extension| extension == "srt");
    let found = entries.map_or(0, |all| all.flatten().filter(|entry| is_srt(&entry.path())).count());
    check.subtitles = Some((found, expected));
    if found != expected {
        check.findings.push(format!(
            "{found} subtitle files in {} where {expected} are published; {} of {} provides them",
            folder.unwrap_or_default().display(),
            media(spec, true),
            published_at(spec)
        ));
    }
}
