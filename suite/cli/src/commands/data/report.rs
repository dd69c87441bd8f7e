//! The report of `data check`: one line for each split, one for each thing that is missing.

use std::path::{Path, PathBuf};

use paravt_media::VideoInfo;
use paravt_reports::terminal::{Text, Tone, counted};
use paravt_suite::data::DataRoot;
use paravt_suite::task::{DataCheck, DecodedVideo, Doubtful, Finding, ReportedVideo, Task as _};

/// Columns that a line may have where no path is longer.
const WIDTH: usize = 80;

/// The whole report: the folders that were looked into, and the splits.
pub(super) fn page(all: &[DataCheck], root: &DataRoot, verbose: bool) -> Text {
    let mut text = Text::default();
    root.candidates().for_each(|folder| text.whole(&format!("data root: {}", folder.display())));
    root.videos.iter().for_each(|(name, folder)| text.whole(&format!("{name} videos: {}", folder.display())));
    text.append(checks(all, root, verbose));
    text
}

/// The splits. Paths are relative to the data root that holds them; lines are never folded, for the paths.
pub(super) fn checks(checks: &[DataCheck], root: &DataRoot, verbose: bool) -> Text {
    let mut text = Text::default();
    let mut more = false;
    for check in checks {
        split_line(&mut text, check);
        if verbose {
            identity(check, root).iter().for_each(|line| text.whole(line));
        }
        decoded(&mut text, check, root, verbose);
        doubtful(&mut text, check, verbose);
        for (flag, rows) in &check.flagged {
            let first = rows.first().map_or("", String::as_str);
            text.whole(&format!("  {} flagged {flag}, the first: {first}", counted(rows.len(), "row")));
            rows.iter().filter(|_| verbose).for_each(|row| text.whole(&format!("    {row}")));
        }
        for finding in &check.findings {
            finding_line(finding, check, root).lines().for_each(|line| text.whole(&format!("  {line}")));
            let details = details(finding, check, root);
            more |= !details.is_empty();
            details.iter().filter(|_| verbose).for_each(|line| text.whole(&format!("    {line}")));
        }
    }
    if more && !verbose {
        text.line("-v lists every file");
    }
    text
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
    let dir = paravt_files::quote_path(root.data.as_ref().unwrap_or(&root.hf_home));
    let mut all = paravt_tasks::all().iter().filter(|task| task.is_part_of_all());
    let is_all = all.all(|task| names.contains(&task.spec().name.as_str()));
    let names = if is_all { "all".to_owned() } else { names.join(" ") };
    (!names.is_empty()).then(|| format!("paravt-bench data fetch {names} --dir {dir}"))
}

fn split_line(text: &mut Text, check: &DataCheck) {
    let videos = format!("{}/{}", check.usable_videos(), check.expected_videos);
    let subtitles =
        check.subtitles.map_or(String::new(), |(found, all)| format!("  {found}/{all} subtitles"));
    let (state, tone) =
        if check.is_complete() { ("complete", Tone::Plain) } else { ("INCOMPLETE", Tone::Open) };
    let rows = format!("{}/{}", check.rows, check.expected_rows);
    let usable = match check.usable_rows {
        rows if rows == check.rows && check.is_complete() => String::new(),
        0 => String::new(),
        rows => format!("  {rows} usable"),
    };
    let before = format!("{:<15} {rows:>9} rows  {videos:>9} videos  ", check.task);
    text.toned(&before, state, tone, &format!("{subtitles}{usable}"));
}

/// Videos that were decoded, and those among them that others reported as broken.
fn decoded(text: &mut Text, check: &DataCheck, root: &DataRoot, verbose: bool) {
    if !check.decoded_videos.is_empty() {
        text.line(format!("  frames decoded of {}", counted(check.decoded_videos.len(), "video")));
    }
    for DecodedVideo { path, video } in check.decoded_videos.iter().filter(|_| verbose) {
        let VideoInfo { frames, duration, codec, width, height, .. } = video;
        text.whole(&format!(
            "    {}: {codec} {width}x{height}, {frames} frames, {duration:.1} s",
            relative_to_root(path, root)
        ));
    }
    for ReportedVideo { path, report, source, is_sound } in &check.reported_videos {
        let here = if *is_sound { "sound here" } else { "broken here as well" };
        text.whole(&format!("  {}: {here}; reported: {report} ({source})", relative_to_root(path, root)));
    }
}

/// Items that others doubt; a report has a second score without them.
fn doubtful(text: &mut Text, check: &DataCheck, verbose: bool) {
    let items: usize = check.doubtful.iter().map(|one| one.uids.len()).sum();
    if check.doubtful_rows > 0 {
        let named = if check.doubtful_rows == items { String::new() } else { format!(" of {items} named") };
        let which = if verbose { "" } else { " (-v: which)" };
        text.line(format!("  {}{named} doubted by others{which}", counted(check.doubtful_rows, "row")));
    }
    for Doubtful { uids, reason, source } in check.doubtful.iter().filter(|_| verbose) {
        text.whole(&format!("    {}: {reason} ({source})", uids.join(", ")));
    }
}

fn identity(check: &DataCheck, root: &DataRoot) -> Vec<String> {
    let Some(path) = &check.annotations else { return Vec::new() };
    let one = check.sha256.iter().map(|hash| (path, hash));
    let several = check.files.iter().map(|(path, hash)| (path, hash));
    let files: Vec<_> = if check.files.is_empty() { one.collect() } else { several.collect() };
    let of_file = |(path, hash): (&PathBuf, &String)| {
        [format!("  annotations {}", relative_to_root(path, root)), format!("  SHA-256     {hash}")]
    };
    let mut lines: Vec<String> = files.into_iter().flat_map(of_file).collect();
    lines.extend(check.verified.then(|| "  rows        as published".to_owned()));
    lines.extend(check.revision.iter().map(|revision| format!("  revision    {revision}")));
    lines
}

fn finding_line(finding: &Finding, check: &DataCheck, root: &DataRoot) -> String {
    match finding {
        Finding::AnnotationsMissing { provider, .. } => format!("missing: {provider}"),
        Finding::AnnotationsUnusable { message, provider } => {
            format!("unusable: {}; fetch {provider}", relative_text(message, root))
        }
        Finding::Revision { found, pinned } => {
            format!("revision {}, published results use {}", short(found), short(pinned))
        }
        Finding::OtherRows { difference, provider } => {
            let line = format!("not the published rows: {difference}");
            appended(line, &format!("; fetch {provider}"))
        }
        Finding::NoRows { reason } => format!("no rows: {reason}"),
        Finding::DefectiveRows { defects } => {
            let first = defects.first().map_or("", String::as_str);
            format!("{} unusable, the first: {first}", counted(defects.len(), "row"))
        }
        Finding::Rows { found, published, .. } => format!("{found} of {published} published rows"),
        Finding::VideosNamed { named, published } => {
            format!("the rows name {named} of {published} published videos")
        }
        Finding::VideosMissing { count: number, provider } => {
            let names = examples(check.missing_videos.iter(), root);
            let line = format!("{} missing: {names}", counted(*number, "video"));
            appended(line, &format!(" ({provider})"))
        }
        Finding::ArchivesPacked { archives, into } => {
            let number = counted(archives.len(), "archive");
            format!(
                "{number} to unpack into {}: {}",
                relative_to_root(into, root),
                examples(archives.iter(), root)
            )
        }
        Finding::VideosUnreadable { count: number, .. } => {
            let first = check.unreadable_videos.first();
            let first = first.map_or(String::new(), |video| {
                format!("{} ({})", relative_to_root(&video.path, root), video.reason)
            });
            let others = if *number > 1 { ", …" } else { "" };
            format!("{} damaged: {first}{others}", counted(*number, "video"))
        }
        Finding::Subtitles { found, published, folder, provider } => {
            let line = format!("{found} of {published} subtitle files in {}", relative_to_root(folder, root));
            appended(line, &format!(" ({provider})"))
        }
    }
}

/// One line for each file behind a finding.
fn details(finding: &Finding, check: &DataCheck, root: &DataRoot) -> Vec<String> {
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| relative_to_root(path, root)).collect::<Vec<_>>();
    match finding {
        Finding::AnnotationsMissing { looked, .. } => paths(looked),
        Finding::DefectiveRows { defects } => defects.clone(),
        Finding::VideosMissing { .. } => paths(&check.missing_videos),
        Finding::ArchivesPacked { archives, .. } => paths(archives),
        Finding::VideosUnreadable { .. } => {
            let videos = check.unreadable_videos.iter();
            videos.map(|video| format!("{}: {}", relative_to_root(&video.path, root), video.reason)).collect()
        }
        Finding::Revision { found, pinned } => vec![format!("found  {found}"), format!("pinned {pinned}")],
        _ => Vec::new(),
    }
}

/// A path below the data root, or as it is where it lies elsewhere.
fn relative_to_root(path: &Path, root: &DataRoot) -> String {
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
    let mut names: Vec<String> = paths.take(SHOWN + 1).map(|path| relative_to_root(path, root)).collect();
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
        format!("{line}\n {more}")
    }
}

fn short(revision: &str) -> &str {
    revision.get(..8).unwrap_or(revision)
}
