//! `paravt-bench data fetch`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use paravt_fetch::{
    FetchError, FetchOptions, Fetched, Hub, Observer, Only, Plan, Retries, Source, available, is_offline,
    size,
};
use paravt_files::write_atomic;
use paravt_media::Depth;
use paravt_reports::terminal::counted;
use paravt_reproduce::Target;
use paravt_suite::data::DataRoot;
use paravt_suite::task::{DataCheck, Task as _};
use serde_json::json;

use super::progress::Progress;
use super::report;
use crate::exit::Exit;
use crate::signals::{Signal, SignalGuard};
use crate::{failure, output};

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
        match target.missing(root)? {
            None => {
                eprintln!("  {}: already downloaded", target.name());
                provided.push(json!({ "name": target.name() }));
            }
            Some(_) => open.extend(target.sources()?),
        }
    }
    let options = FetchOptions { delete_archives, ..FetchOptions::default() };
    let exit = fetch_all(&open, &dir, &options, false, &mut |source, fetched| {
        let repository = format!("{}@{}", fetched.repo, fetched.commit);
        let mut one = json!({ "name": source.name, "repository": repository });
        if !fetched.refused.is_empty() {
            let refused = fetched.refused.iter().map(|(archive, one)| format!("{} in {archive}", one.member));
            one["refused"] = refused.collect();
        }
        provided.push(one);
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
        if let Some(what) = target.missing(root)? {
            eprintln!("  {}: {what}", target.name());
            is_whole = false;
        }
    }
    Ok(if is_whole { Exit::Ok } else { Exit::Finding })
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

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    ensure!((1..=MAX_JOBS).contains(&args.jobs), "--jobs: expected 1 to {MAX_JOBS}, got {}", args.jobs);
    let sources = sources(args)?;
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
    let fetched = fetch_all(&sources, &root, &options, args.dry_run, &mut |_, _| {});
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

/// Fetches sources one after the other; shows `seen` what came of each.
fn fetch_all(
    sources: &[Source],
    root: &Path,
    options: &FetchOptions,
    dry: bool,
    seen: &mut dyn FnMut(&Source, &Fetched),
) -> anyhow::Result<Exit> {
    if sources.is_empty() {
        return Ok(Exit::Ok);
    }
    if is_offline() {
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        return Err(FetchError::Offline { what: names.join(", ") }.into());
    }
    let hub = Hub::of_environment(root, if dry { FEW } else { Retries::default() })?;
    let runtime = crate::launch::runtime()?;
    let work = async {
        let mut worst = Exit::Ok;
        for source in sources {
            worst = worst.worse(one(&hub, source, root, options, dry, seen).await?);
        }
        Ok(worst)
    };
    let _taken = SignalGuard::new(&[Signal::Interrupt]);
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
    source: &Source,
    root: &Path,
    options: &FetchOptions,
    dry: bool,
    seen: &mut dyn FnMut(&Source, &Fetched),
) -> anyhow::Result<Exit> {
    let name = &source.name;
    let progress = Arc::new(Progress::start(name));
    let observer: Arc<dyn Observer> = progress.clone();
    let plan = paravt_fetch::plan(hub, source, root, options, &*observer).await;
    let plan = plan.with_context(|| format!("cannot list {name}"))?;
    if dry {
        print_plan(source, &plan, root)?;
        return Ok(Exit::Ok);
    }
    let fetched = paravt_fetch::fetch(hub, source, &plan, root, options, &observer).await;
    progress.finish();
    let fetched = fetched.with_context(|| format!("cannot fetch {name}"))?;
    print_fetched(name, &plan, &fetched);
    seen(source, &fetched);
    let refused = if fetched.refused.is_empty() { Exit::Ok } else { Exit::Finding };
    let task = paravt_tasks::named(name).filter(|_| options.only == Only::Everything);
    let Some(task) = task else { return Ok(refused) };
    let root = DataRoot::new(root);
    let check: DataCheck = tokio::task::block_in_place(|| task.check(&root, &Depth::Header));
    output::show(&report::checks(std::slice::from_ref(&check), &root, false));
    Ok(refused.worse(if check.is_complete() { Exit::Ok } else { Exit::Finding }))
}

fn sources(args: &Args) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for what in &args.what {
        sources.extend(Target::named(what).sources()?);
    }
    if let Some(revision) = &args.revision {
        let repos: BTreeSet<&String> = sources.iter().map(|source| &source.repos[0]).collect();
        ensure!(
            repos.len() == 1,
            "--revision: applies to one repository; fetch {} one at a time",
            args.what.join(", ")
        );
        sources.iter_mut().for_each(|source| source.revision.clone_from(revision));
    }
    Ok(sources)
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
