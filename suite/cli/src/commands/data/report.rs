//! The report of `data check`: one line for each split, one for each thing that is missing.

use std::path::{Path, PathBuf};

use paravt_reports::terminal::counted;
use paravt_suite::data::DataRoot;
use paravt_suite::task::{DataCheck, Finding, Task as _};

/// Columns that a line may have where no path is longer.
const WIDTH: usize = 80;

/// The report's lines. Paths are relative to the data root that holds them.
pub(super) fn lines(checks: &[DataCheck], root: &DataRoot, verbose: bool) -> Vec<String> {
    let mut lines: Vec<String> =
        root.candidates().map(|folder| format!("data root: {}", folder.display())).collect();
    lines.extend(root.videos.iter().map(|(name, folder)| format!("{name} videos: {}", folder.display())));
    let mut more = false;
    for check in checks {
        lines.push(split_line(check));
        if verbose {
            lines.extend(identity(check, root));
        }
        for finding in &check.findings {
            lines.push(format!("  {}", finding_line(finding, check, root)));
            let details = details(finding, check, root);
            more |= !details.is_empty();
            lines.extend(details.into_iter().filter(|_| verbose).map(|line| format!("    {line}")));
        }
    }
    if more && !verbose {
        lines.push("-v lists every file".to_owned());
    }
    lines
}

/// The command that fetches what is missing, into the folder that is looked into first.
pub(super) fn fetch_command(checks: &[DataCheck], root: &DataRoot) -> Option<String> {
    let missing = |finding: &Finding| {
        matches!(
            finding,
            Finding::AnnotationsMissing { .. }
                | Finding::VideosMissing { .. }
                | Finding::ArchivesPacked { .. }
                | Finding::Subtitles { .. }
        )
    };
    let names: Vec<&str> = checks
        .iter()
        .filter(|check| check.findings.iter().any(missing))
        .map(|check| check.task.as_str())
        .collect();
    let dir = root.data.as_ref().unwrap_or(&root.hf_home).display();
    let mut all = paravt_tasks::all().iter().filter(|task| task.is_part_of_all());
    let is_all = all.all(|task| names.contains(&task.spec().name.as_str()));
    let names = if is_all { "all".to_owned() } else { names.join(" ") };
    (!names.is_empty()).then(|| format!("paravt-bench data fetch {names} --dir {dir}"))
}

fn split_line(check: &DataCheck) -> String {
    let videos = format!("{}/{}", check.usable_videos(), check.expected_videos);
    let subtitles =
        check.subtitles.map_or(String::new(), |(found, all)| format!("  {found}/{all} subtitles"));
    let state = if check.is_complete() { "complete" } else { "INCOMPLETE" };
    let rows = format!("{}/{}", check.rows, check.expected_rows);
    let usable = match check.usable_rows {
        rows if rows == check.rows && check.is_complete() => String::new(),
        0 => String::new(),
        rows => format!("  {rows} usable"),
    };
    format!("{:<15} {rows:>9} rows  {videos:>9} videos  {state}{subtitles}{usable}", check.task)
}

fn identity(check: &DataCheck, root: &DataRoot) -> Vec<String> {
    let Some(path) = &check.annotations else { return Vec::new() };
    let mut lines = vec![format!("  annotations {}", shown(path, root))];
    lines.extend(check.sha256.iter().map(|hash| format!("  SHA-256     {hash}")));
    lines.extend(check.verified.then(|| "  rows        as published".to_owned()));
    lines.extend(check.revision.iter().map(|revision| format!("  revision    {revision}")));
    lines
}

fn finding_line(finding: &Finding, check: &DataCheck, root: &DataRoot) -> String {
    match finding {
        Finding::AnnotationsMissing { remedy, .. } => format!("missing: {}", without_revision(remedy)),
        Finding::AnnotationsUnusable { message, remedy } => {
            format!("unusable: {}; fetch {}", relative_text(message, root), without_revision(remedy))
        }
        Finding::Revision { found, pinned } => {
            format!("revision {}, published results use {}", short(found), short(pinned))
        }
        Finding::OtherRows { difference, remedy } => {
            let line = format!("not the published rows: {difference}");
            appended(line, &format!("; fetch {}", without_revision(remedy)))
        }
        Finding::NoRows => "no rows: the file is empty, or `only` of the task file leaves none".to_owned(),
        Finding::DefectiveRows { defects } => {
            let first = defects.first().map_or("", String::as_str);
            format!("{} unusable, the first: {first}", counted(defects.len(), "row"))
        }
        Finding::Rows { found, published, .. } => format!("{found} of {published} published rows"),
        Finding::VideosNamed { named, published } => {
            format!("the rows name {named} of {published} published videos")
        }
        Finding::VideosMissing { count: number, remedy } => {
            let names = examples(check.missing_videos.iter(), root);
            let line = format!("{} missing: {names}", counted(*number, "video"));
            appended(line, &format!(" ({})", without_revision(remedy)))
        }
        Finding::ArchivesPacked { archives, into } => {
            let number = counted(archives.len(), "archive");
            format!("{number} to unpack into {}: {}", shown(into, root), examples(archives.iter(), root))
        }
        Finding::VideosUnreadable { count: number, .. } => {
            let first = check.unreadable_videos.first();
            let first = first
                .map_or(String::new(), |video| format!("{} ({})", shown(&video.path, root), video.reason));
            let others = if *number > 1 { ", …" } else { "" };
            format!("{} damaged: {first}{others}", counted(*number, "video"))
        }
        Finding::Subtitles { found, published, folder, remedy } => {
            let line = format!("{found} of {published} subtitle files in {}", shown(folder, root));
            appended(line, &format!(" ({})", without_revision(remedy)))
        }
    }
}

/// One line for each file behind a finding.
fn details(finding: &Finding, check: &DataCheck, root: &DataRoot) -> Vec<String> {
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| shown(path, root)).collect::<Vec<_>>();
    match finding {
        Finding::AnnotationsMissing { looked, .. } => paths(looked),
        Finding::DefectiveRows { defects } => defects.clone(),
        Finding::VideosMissing { .. } => paths(&check.missing_videos),
        Finding::ArchivesPacked { archives, .. } => paths(archives),
        Finding::VideosUnreadable { .. } => {
            let videos = check.unreadable_videos.iter();
            videos.map(|video| format!("{}: {}", shown(&video.path, root), video.reason)).collect()
        }
        Finding::Revision { found, pinned } => vec![format!("found  {found}"), format!("pinned {pinned}")],
        _ => Vec::new(),
    }
}

/// A path below the data root, or as it is where it lies elsewhere.
fn shown(path: &Path, root: &DataRoot) -> String {
    let below = root.candidates().find_map(|base| path.strip_prefix(base).ok());
    match below {
        Some(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Some(below) => below.display().to_string(),
        None => path.display().to_string(),
    }
}

/// A message without the data root in front of its paths.
fn relative_text(message: &str, root: &DataRoot) -> String {
    root.candidates()
        .fold(message.to_owned(), |message, base| message.replace(&format!("{}/", base.display()), ""))
}

/// As many file names as a line has room for.
fn examples<'a>(paths: impl Iterator<Item = &'a PathBuf>, root: &DataRoot) -> String {
    const SHOWN: usize = 2;
    let mut names: Vec<String> = paths.take(SHOWN + 1).map(|path| shown(path, root)).collect();
    if names.len() > SHOWN {
        names[SHOWN] = "…".to_owned();
    }
    names.join(", ")
}

/// The line with more to it, on a second line where one has no room.
fn appended(line: String, more: &str) -> String {
    if line.chars().count() + more.chars().count() + 2 <= WIDTH {
        line + more
    } else {
        format!("{line}\n   {more}")
    }
}

/// `FILE of REPOSITORY` out of `FILE of REPOSITORY@REVISION`.
fn without_revision(remedy: &str) -> &str {
    remedy.rsplit_once('@').map_or(remedy, |(file, _)| file)
}

fn short(revision: &str) -> &str {
    revision.get(..8).unwrap_or(revision)
}
