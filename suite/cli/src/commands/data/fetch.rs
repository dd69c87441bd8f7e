//! `paravt-bench data fetch`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use paravt_fetch::{
    Cache, FetchError, FetchOptions, Fetched, Hub, Kind, Observer, Only, Plan, Retries, Source, Unpack,
    available, is_offline, size, training,
};
use paravt_files::write_atomic;
use paravt_media::Depth;
use paravt_reports::terminal::counted;
use paravt_reproduce::Target;
use paravt_suite::data::DataRoot;
use paravt_suite::task::{Benchmark, DataCheck, Task as _};

use super::progress::Progress;
use super::report;
use crate::exit::Exit;
use crate::failure;
use crate::registry;
use crate::signals::{Signal, Taken};

const MAX_JOBS: usize = 64;
/// Where nothing is downloaded, a hub that does not answer twice is out of reach.
pub(crate) const FEW: Retries =
    Retries { tries: 2, pause: Duration::from_secs(1), longest: Duration::from_secs(1) };

/// Flags of `data fetch`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Splits (`paravt-bench tasks` lists them), `all`, `training`, or `model:OWNER/NAME`.
    #[arg(required = true, value_name = "TASK|training|model:ID")]
    what: Vec<String>,
    /// Branch, tag or commit; only with a single repository to download [default: the pinned commit, else main].
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,
    /// Data root: downloads go to its `hub` folder, unpacked videos beside that [default: $HF_HOME, else
    /// ~/.cache/huggingface].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Download only the rows, or only the media [default: both].
    #[arg(long, value_enum)]
    only: Option<OnlyName>,
    /// Delete each archive after all its members are unpacked and verified.
    #[arg(long)]
    delete_archives: bool,
    /// Print what would be downloaded, where to, and the space needed; download nothing.
    #[arg(long)]
    dry_run: bool,
    /// Concurrent connections, at most 64.
    #[arg(long, value_name = "N", default_value_t = FetchOptions::default().jobs)]
    jobs: usize,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum OnlyName {
    /// The rows.
    Annotations,
    /// Videos and subtitles.
    Videos,
}

/// Something to fetch, and the split that is checked after it.
struct Item {
    source: Source,
    task: Option<&'static Benchmark>,
}

/// What a stage of a recipe fetched, or found here.
#[derive(serde::Serialize)]
struct Provided {
    name: String,
    /// Repository and commit; absent where the files were here.
    #[serde(skip_serializing_if = "Option::is_none")]
    repository: Option<String>,
    /// Members of archives that were refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
}

/// Name of the list of what a stage fetched.
const PROVIDED: &str = "fetched.json";

/// Fetches what of these is not here, and lists all of it in `fetched.json` in a folder. Members of archives that are
/// refused are listed there: a file that a row needs is missed by what reads the rows.
pub(crate) fn provide(
    targets: &[Target],
    root: &DataRoot,
    folder: &Path,
    delete_archives: bool,
) -> anyhow::Result<Exit> {
    let dir = root.data.clone().unwrap_or_else(|| root.hf_home.clone());
    let mut provided = Vec::new();
    let mut open = Vec::new();
    for target in targets {
        match missing(target, root)? {
            None => {
                eprintln!("  {}: here", target.name());
                provided.push(Provided { name: target.name(), repository: None, refused: Vec::new() });
            }
            Some(_) => open.extend(items_of(&target.name())?),
        }
    }
    let options = FetchOptions { delete_archives, ..FetchOptions::default() };
    let exit = fetch_all(&open, &dir, &options, false, &mut |source, fetched| {
        provided.push(Provided {
            name: source.name.clone(),
            repository: Some(format!("{}@{}", fetched.repo, fetched.commit)),
            refused: fetched
                .refused
                .iter()
                .map(|(archive, one)| format!("{} in {archive}", one.member))
                .collect(),
        });
    });
    let exit = exit.map_err(|error| with_room(error, "--hf-home or --data", delete_archives))?;
    if exit == Exit::Interrupted {
        return Ok(exit);
    }
    let path = folder.join(PROVIDED);
    write_atomic(&path, &serde_json::to_vec_pretty(&provided)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    let mut is_whole = true;
    // Fewer rows than published are no reason to download again: the report says what they are comparable to.
    for target in targets.iter().filter(|target| !matches!(target, Target::Training)) {
        if let Some(what) = missing(target, root)? {
            eprintln!("  {}: {what}", target.name());
            is_whole = false;
        }
    }
    Ok(if is_whole { Exit::Ok } else { Exit::Finding })
}

/// What of a target is not here; `None` where all of it is.
pub(crate) fn missing(target: &Target, root: &DataRoot) -> anyhow::Result<Option<String>> {
    match target {
        Target::Task(name) => {
            let tasks = registry::select_tasks(std::slice::from_ref(name))?;
            let checks: Vec<DataCheck> =
                tasks.into_iter().map(|task| task.check(root, Depth::Header)).collect();
            Ok(checks.iter().find_map(report::absent))
        }
        Target::Model(id) => {
            let is_here = Path::new(id).is_dir() || model(id, root).is_some();
            Ok((!is_here).then(|| "not in the cache".to_owned()))
        }
        // Only the hub knows whether all archives were unpacked; without it, what is here has to do.
        Target::Training if is_offline() && rows_of_training(root).is_some() => Ok(None),
        Target::Training => Ok(Some("to be compared with the hub".to_owned())),
    }
}

/// What of a target that was fetched is no longer here, without asking the hub.
pub(crate) fn gone(target: &Target, root: &DataRoot) -> anyhow::Result<Option<String>> {
    if !matches!(target, Target::Training) {
        return missing(target, root);
    }
    let is_here = rows_of_training(root).is_some() && media_of_training(root).is_some();
    Ok((!is_here).then(|| "rows or media are not here".to_owned()))
}

/// Folder of a model that is here.
pub(crate) fn model(id: &str, root: &DataRoot) -> Option<PathBuf> {
    root.candidates().find_map(|base| Cache::new(base, Kind::Model, id).model("main"))
}

/// Folder of a model on the hub at a revision, for an engine in this process; waits for its download.
pub(crate) fn model_folder(id: &str, revision: &str) -> anyhow::Result<PathBuf> {
    let progress = Arc::new(Progress::start(id));
    let observer: Arc<dyn Observer> = progress.clone();
    let folder = tokio::runtime::Handle::current().block_on(paravt_fetch::model(id, revision, &observer));
    progress.finish();
    // In words: to an engine, a model that is nowhere is a precondition like one that cannot be downloaded.
    folder.map_err(|error| anyhow!("{id}: no such folder, and it cannot be fetched: {error}"))
}

/// Folder of the training rows as they were published.
pub(crate) fn rows_of_training(root: &DataRoot) -> Option<PathBuf> {
    let sources = training();
    let repos = sources.first()?.repos.iter();
    let caches = repos.flat_map(|repo| root.candidates().map(|base| Cache::new(base, Kind::Dataset, repo)));
    caches.into_iter().find_map(|cache| cache.current("main"))
}

/// Folder of the unpacked training media.
pub(crate) fn media_of_training(root: &DataRoot) -> Option<PathBuf> {
    let into: Vec<PathBuf> =
        training().into_iter().flat_map(|source| source.archives).map(|unpack| unpack.into).collect();
    root.candidates().flat_map(|base| into.iter().map(|into| base.join(into))).find(|folder| folder.is_dir())
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    ensure!((1..=MAX_JOBS).contains(&args.jobs), "--jobs: expected 1 to {MAX_JOBS}, got {}", args.jobs);
    let items = items(args)?;
    let root = root(args.dir.as_deref())?;
    let options = FetchOptions {
        only: match args.only {
            None => Only::Everything,
            Some(OnlyName::Annotations) => Only::Annotations,
            Some(OnlyName::Videos) => Only::Videos,
        },
        delete_archives: args.delete_archives,
        jobs: args.jobs,
        ..FetchOptions::default()
    };
    let fetched = fetch_all(&items, &root, &options, args.dry_run, &mut |_, _| {});
    fetched.map_err(|error| with_room(error, "--dir", args.delete_archives))
}

/// An error with the flags of its command that give it room, where it is about too little space.
fn with_room(error: anyhow::Error, folder: &str, deletes: bool) -> anyhow::Error {
    if !matches!(error.downcast_ref(), Some(FetchError::Space { .. })) {
        return error;
    }
    let smaller = if deletes { "" } else { ", or add --delete-archives" };
    let hint = format!("free some space, name another folder with {folder}{smaller}");
    failure::with_hint(error, hint)
}

/// Fetches items one after the other; shows `seen` what came of each.
fn fetch_all(
    items: &[Item],
    root: &Path,
    options: &FetchOptions,
    dry: bool,
    seen: &mut dyn FnMut(&Source, &Fetched),
) -> anyhow::Result<Exit> {
    if items.is_empty() {
        return Ok(Exit::Ok);
    }
    if is_offline() {
        let names: Vec<&str> = items.iter().map(|item| item.source.name.as_str()).collect();
        return Err(FetchError::Offline { what: names.join(", ") }.into());
    }
    let hub = Hub::of_environment(root, if dry { FEW } else { Retries::default() })?;
    let runtime = crate::launch::runtime()?;
    let work = async {
        let mut worst = Exit::Ok;
        for item in items {
            worst = worst.worse(one(&hub, item, root, options, dry, seen).await?);
        }
        Ok(worst)
    };
    let _taken = Taken::new(&[Signal::Interrupt]);
    let exit = runtime.block_on(async {
        tokio::select! {
            ended = work => ended,
            _ = tokio::signal::ctrl_c() => {
                eprintln!("\nstopped; repeat the command to continue");
                Ok(Exit::Interrupted)
            }
        }
    });
    // An archive that is being unpacked is left where it is.
    runtime.shutdown_background();
    exit
}

async fn one(
    hub: &Hub,
    item: &Item,
    root: &Path,
    options: &FetchOptions,
    dry: bool,
    seen: &mut dyn FnMut(&Source, &Fetched),
) -> anyhow::Result<Exit> {
    let name = &item.source.name;
    let progress = Arc::new(Progress::start(name));
    let observer: Arc<dyn Observer> = progress.clone();
    let plan = paravt_fetch::plan(hub, &item.source, root, options, &*observer).await;
    let plan = plan.with_context(|| format!("cannot list {name}"))?;
    if dry {
        print_plan(&item.source, &plan, root)?;
        return Ok(Exit::Ok);
    }
    let fetched = paravt_fetch::fetch(hub, &item.source, &plan, root, options, &observer).await;
    progress.finish();
    let fetched = fetched.with_context(|| format!("cannot fetch {name}"))?;
    print_fetched(name, &plan, &fetched);
    seen(&item.source, &fetched);
    let refused = if fetched.refused.is_empty() { Exit::Ok } else { Exit::Finding };
    let Some(task) = item.task.filter(|_| options.only == Only::Everything) else { return Ok(refused) };
    let root = DataRoot { hf_home: root.to_owned(), data: None, videos: std::collections::BTreeMap::new() };
    let check: DataCheck = tokio::task::block_in_place(|| task.check(&root, Depth::Header));
    report::lines(std::slice::from_ref(&check), &root, false)
        .iter()
        .skip(1)
        .for_each(|line| println!("{line}"));
    Ok(refused.worse(if check.is_complete() { Exit::Ok } else { Exit::Finding }))
}

fn items(args: &Args) -> anyhow::Result<Vec<Item>> {
    let mut items = Vec::new();
    for what in &args.what {
        items.extend(items_of(what)?);
    }
    if let Some(revision) = &args.revision {
        let repos: std::collections::BTreeSet<&String> =
            items.iter().map(|item| &item.source.repos[0]).collect();
        ensure!(
            repos.len() == 1,
            "--revision: applies to one repository; fetch {} one at a time",
            args.what.join(", ")
        );
        items.iter_mut().for_each(|item| item.source.revision.clone_from(revision));
    }
    Ok(items)
}

fn items_of(what: &str) -> anyhow::Result<Vec<Item>> {
    Ok(match Target::named(what) {
        Target::Training => training().into_iter().map(|source| Item { source, task: None }).collect(),
        Target::Model(id) => vec![Item { source: Source::model(&id, "main")?, task: None }],
        Target::Task(name) => {
            let tasks = registry::select_tasks(&[name])?;
            tasks.into_iter().map(|task| Item { source: of_task(task), task: Some(task) }).collect()
        }
    })
}

/// What a split needs, from its description: archives go where its layout looks first.
fn of_task(task: &Benchmark) -> Source {
    let (spec, layout) = (task.spec(), task.layout());
    let mut source = Source {
        name: spec.name.clone(),
        kind: Kind::Dataset,
        repos: spec.hub.repos.clone(),
        revision: spec.hub.revision.clone().unwrap_or_else(|| "main".to_owned()),
        annotations: vec![spec.hub.annotations.clone()],
        loose: Vec::new(),
        archives: Vec::new(),
    };
    for media in &spec.hub.media {
        let folders = if media.contains("subtitle") { &layout.subtitles } else { &layout.videos };
        match folders.first().filter(|_| is_archive(media)) {
            Some(into) => {
                source.archives.push(Unpack { files: media.clone(), into: into.into(), flatten: true })
            }
            None => source.loose.push(placeholders_as_pattern(media)),
        }
    }
    source
}

fn is_archive(name: &str) -> bool {
    name.ends_with(".zip") || name.ends_with(".tar") || name.contains(".tar.")
}

/// `videos/<Subject>/<n>.mp4` as `videos/*/*.mp4`.
fn placeholders_as_pattern(name: &str) -> String {
    let mut pattern = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('<') {
        let Some((_, after)) = after.split_once('>') else { break };
        pattern.push_str(before);
        pattern.push('*');
        rest = after;
    }
    pattern + rest
}

fn root(dir: Option<&Path>) -> anyhow::Result<PathBuf> {
    dir.map(Path::to_owned).or_else(paravt_fetch::home).context("neither --dir nor $HF_HOME nor $HOME is set")
}

fn print_plan(source: &Source, plan: &Plan, root: &Path) -> anyhow::Result<()> {
    println!("{}: {}@{}", source.name, plan.repo, plan.commit);
    if !plan.files.is_empty() {
        let bytes = plan.files.iter().map(|file| file.size).sum();
        println!("  {}, {}", counted(plan.files.len(), "file"), size(bytes));
    }
    for archive in &plan.archives {
        let parts = if archive.parts.len() > 1 {
            format!(" in {} parts", archive.parts.len())
        } else {
            String::new()
        };
        let state = if archive.done.is_some() { "unpacked" } else { "to unpack" };
        let into = archive.unpack.into.display();
        println!("  {}{parts}, {}, {state} into {into}", archive.name, size(archive.bytes()));
    }
    println!(
        "  {} of {} to download; {} of disk needed, {} available in {}",
        size(plan.missing),
        size(plan.total),
        size(plan.needed),
        size(available(root)?),
        root.display()
    );
    Ok(())
}

fn print_fetched(name: &str, plan: &Plan, fetched: &Fetched) {
    let files = counted(plan.files.len(), "file");
    println!(
        "{name}: {}@{}, {files}, {} unpacked",
        fetched.repo,
        fetched.commit,
        counted(fetched.members, "member")
    );
    println!("  {}", fetched.snapshot.display());
    for (archive, refused) in &fetched.refused {
        println!("  refused: {} in {archive}: {}", refused.member, refused.reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_of_a_split_says_what_to_fetch_and_where_it_goes() {
        let source = |name: &str| of_task(paravt_tasks::named(name).unwrap());
        let first =
            |name: &str| source(name).archives.first().map(|unpack| unpack.into.display().to_string());
        assert_eq!(first("videomme").as_deref(), Some("videomme/data"));
        assert_eq!(first("longvideobench").as_deref(), Some("datasets/longvideobench/videos"));
        assert_eq!(first("lvbench").as_deref(), Some("lvbench"));
        assert_eq!(first("mlvu").as_deref(), Some("MLVU/video"));
        assert_eq!(first("charades").as_deref(), Some("charades_sta/Charades_v1_480"));
        assert_eq!((first("mmvu"), source("mmvu").loose), (None, vec!["videos/*/*.mp4".to_owned()]));
        let subtitles = source("videomme_wsub").archives.pop().unwrap();
        assert_eq!((subtitles.files.as_str(), subtitles.into), ("subtitle.zip", "videomme/subtitle".into()));
        assert_eq!(source("longvideobench").archives.len(), 32);
    }
}
