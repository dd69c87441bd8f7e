//! One source from the hub to usable files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::stream::{StreamExt as _, TryStreamExt as _};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::archive::{Archive, Refused, Unpacked, unpack};
use crate::cache::{Cache, has_weights};
use crate::disk;
use crate::download::{Downloader, partly_there};
use crate::environment::{home, is_offline};
use crate::error::FetchError;
use crate::hub::Hub;
use crate::observer::{Event, Observer};
use crate::repository::{HubFile, RepoType};
use crate::retry::Retries;
use crate::source::{Only, Source, Unpack};

/// How a source is fetched.
#[derive(Debug, Clone, Copy)]
pub struct FetchOptions {
    pub only: Only,
    /// Delete each archive whose members have all arrived.
    pub delete_archives: bool,
    /// Connections at a time.
    pub jobs: usize,
    /// Bytes of one range.
    pub range: u64,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self { only: Only::Everything, delete_archives: false, jobs: 8, range: 32 << 20 }
    }
}

/// An archive of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedArchive {
    /// File name, without the suffix of a part.
    pub name: String,
    pub parts: Vec<HubFile>,
    /// Where its members go.
    pub unpack: Unpack,
    /// What an earlier, finished unpacking left.
    pub done: Option<Unpacked>,
}

impl PlannedArchive {
    /// Bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.size).sum()
    }

    fn id(&self) -> String {
        self.parts.iter().map(|part| part.oid.name()).collect::<Vec<_>>().join("+")
    }
}

/// What fetching a source would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Repository id that answered.
    pub repo: String,
    pub commit: String,
    /// Files that are used as they are.
    pub files: Vec<HubFile>,
    pub archives: Vec<PlannedArchive>,
    /// Bytes of all files and archives.
    pub total: u64,
    /// Bytes still to download.
    pub missing: u64,
    /// Bytes that must be free: downloads and unpacked members.
    pub needed: u64,
}

/// What fetching a source left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    pub repo: String,
    pub commit: String,
    /// The snapshot's folder.
    pub snapshot: PathBuf,
    /// Members that were refused, by archive.
    pub refused: Vec<(String, Refused)>,
    pub members: usize,
}

/// Lists a source and compares it with what lies below the data root.
///
/// # Errors
/// No access, no connection, or a pattern that matches nothing.
pub async fn plan(
    hub: &Hub,
    source: &Source,
    root: &Path,
    options: &FetchOptions,
    observer: &dyn Observer,
) -> Result<Plan, FetchError> {
    let (repo, commit) = resolve(hub, source, observer).await?;
    let all = hub.files(source.kind, &repo, &commit, observer).await?;
    let selection = source.select(&all, options.only, &repo, &commit)?;
    let cache = Cache::new(root, source.kind, &repo);
    let archives: Vec<PlannedArchive> = selection
        .archives
        .into_iter()
        .map(|(name, parts, unpack)| {
            let mut archive = PlannedArchive { name, parts, unpack, done: None };
            let (id, into) = (archive.id(), root.join(&archive.unpack.into));
            archive.done = described(&archive, &id, &into).unpacked();
            archive
        })
        .collect();
    let missing = |file: &HubFile| {
        let blob = cache.blob(&file.oid);
        if cache.holds(file) { 0 } else { file.size - partly_there(&blob, file.size) }
    };
    let of = |files: &[HubFile]| distinct(files).iter().map(|file| missing(file)).sum::<u64>();
    let open: Vec<&PlannedArchive> = archives.iter().filter(|archive| archive.done.is_none()).collect();
    let loose = of(&selection.files);
    // Rows that hold their pictures are a file and an archive at once.
    let is_archive_alone = |part: &&HubFile| !selection.files.contains(part);
    let parts = |archive: &PlannedArchive| -> Vec<HubFile> {
        archive.parts.iter().filter(is_archive_alone).cloned().collect()
    };
    let packed: Vec<u64> = open.iter().map(|archive| of(&parts(archive))).collect();
    // One archive is downloaded while the one before is unpacked.
    let kept = if options.delete_archives {
        packed.iter().max().map_or(0, |largest| largest.saturating_mul(2)).min(packed.iter().sum())
    } else {
        packed.iter().sum()
    };
    let unpacked: u64 = open.iter().map(|archive| archive.bytes()).sum();
    let total = selection.files.iter().map(|file| file.size).sum::<u64>()
        + archives.iter().flat_map(parts).map(|part| part.size).sum::<u64>();
    Ok(Plan {
        repo,
        commit,
        total,
        missing: loose + packed.iter().sum::<u64>(),
        needed: loose + kept + unpacked,
        files: selection.files,
        archives,
    })
}

/// Folder of a model that the hub has under `OWNER/NAME`, at a revision (branch, tag or commit), with the tokenizer that an
/// engine in this process needs. What the cache holds whole is not asked for again.
///
/// # Errors
/// As [`plan`] and [`fetch`]; the model is not here and the environment forbids to ask the hub.
pub async fn model(id: &str, revision: &str, observer: &Arc<dyn Observer>) -> Result<PathBuf, FetchError> {
    let source = Source::model(id, revision)?;
    let root = home().ok_or_else(|| FetchError::invalid("HF_HOME", "neither it nor HOME is set"))?;
    let cached = Cache::new(&root, RepoType::Model, id).model(revision);
    // No engine here reads pickled weights.
    let is_readable = |folder: &PathBuf| folder.join("tokenizer.json").is_file() && has_weights(folder);
    if let Some(folder) = cached.filter(is_readable) {
        return Ok(folder);
    }
    if is_offline() {
        return Err(FetchError::Offline { what: format!("{id}@{revision}") });
    }
    let (hub, options) = (Hub::of_environment(&root, Retries::default())?, FetchOptions::default());
    let plan = plan(&hub, &source, &root, &options, &**observer).await?;
    Ok(fetch(&hub, &source, &plan, &root, &options, observer).await?.snapshot)
}

/// The first of the repositories that exists, at the revision's commit.
async fn resolve(
    hub: &Hub,
    source: &Source,
    observer: &dyn Observer,
) -> Result<(String, String), FetchError> {
    let mut first = None;
    for repo in &source.repos {
        match hub.commit(source.kind, repo, &source.revision, observer).await {
            Ok(commit) => return Ok((repo.clone(), commit)),
            // Without a token the hub says of a repository that does not exist that it is not public.
            Err(error @ (FetchError::NotFound { .. } | FetchError::Access { .. })) => {
                first = first.or(Some(error))
            }
            Err(error) => return Err(error),
        }
    }
    Err(first.unwrap_or_else(|| FetchError::invalid(&source.name, "no repository is named")))
}

fn described<'a>(archive: &'a PlannedArchive, id: &'a str, into: &'a Path) -> Archive<'a> {
    let Unpack { flatten, pictures, .. } = &archive.unpack;
    Archive { name: &archive.name, id, into, flatten: *flatten, pictures: pictures.as_deref() }
}

/// Files of which none has the bytes of another: a blob is downloaded once.
fn distinct(files: &[HubFile]) -> Vec<&HubFile> {
    let mut seen = HashSet::new();
    files.iter().filter(|file| seen.insert(&file.oid)).collect()
}

/// Fetches what a plan lists below the data root. Dropping the future stops it; the next call resumes it.
///
/// # Errors
/// No access, no connection, wrong hashes, a full disk. Refused members are not errors.
pub async fn fetch(
    hub: &Hub,
    source: &Source,
    plan: &Plan,
    root: &Path,
    options: &FetchOptions,
    observer: &Arc<dyn Observer>,
) -> Result<Fetched, FetchError> {
    disk::check(root, plan.needed)?;
    let (files, missing, total) = (plan.files.len(), plan.missing, plan.total);
    let (repo, commit) = (plan.repo.clone(), plan.commit.clone());
    observer.event(Event::Planned { repo, commit, files: files + plan.archives.len(), missing, total });
    let cache = Cache::new(root, source.kind, &plan.repo);
    let slots = Semaphore::new(options.jobs.max(1));
    let work = Work {
        plan,
        root,
        options,
        observer,
        cache: &cache,
        downloader: Downloader {
            hub,
            kind: source.kind,
            repo: &plan.repo,
            commit: &plan.commit,
            cache: &cache,
            slots: &slots,
            jobs: options.jobs,
            range: options.range.max(1),
            observer: &**observer,
        },
    };
    work.files(&plan.files).await?;
    let fetched = work.archives().await?;
    cache.set_ref(&source.revision, &plan.commit)?;
    Ok(fetched)
}

struct Work<'a> {
    plan: &'a Plan,
    root: &'a Path,
    options: &'a FetchOptions,
    observer: &'a Arc<dyn Observer>,
    cache: &'a Cache,
    downloader: Downloader<'a>,
}

type Unpacking<'a> = (&'a PlannedArchive, JoinHandle<Result<Unpacked, FetchError>>);

impl<'a> Work<'a> {
    async fn files(&self, files: &[HubFile]) -> Result<(), FetchError> {
        let downloads = futures::stream::iter(distinct(files)).map(|file| self.downloader.file(file));
        downloads.buffer_unordered(self.options.jobs.max(1)).try_collect::<Vec<()>>().await?;
        files.iter().try_for_each(|file| self.cache.link(&self.plan.commit, file))
    }

    async fn archives(&self) -> Result<Fetched, FetchError> {
        let snapshot = self.cache.snapshot(&self.plan.commit);
        let (repo, commit) = (self.plan.repo.clone(), self.plan.commit.clone());
        let mut fetched = Fetched { repo, commit, snapshot, refused: Vec::new(), members: 0 };
        let mut unpacking: Option<Unpacking<'a>> = None;
        for archive in &self.plan.archives {
            if let Some(done) = &archive.done {
                self.note(archive, done.clone(), &mut fetched)?;
                continue;
            }
            self.files(&archive.parts).await?;
            if let Some(before) = unpacking.take() {
                self.finish(before, &mut fetched).await?;
            }
            unpacking = Some((archive, self.start(archive)));
        }
        if let Some(last) = unpacking {
            self.finish(last, &mut fetched).await?;
        }
        Ok(fetched)
    }

    fn start(&self, archive: &PlannedArchive) -> JoinHandle<Result<Unpacked, FetchError>> {
        self.observer.event(Event::Unpacking { archive: archive.name.clone() });
        let parts: Vec<PathBuf> = archive.parts.iter().map(|part| self.cache.blob(&part.oid)).collect();
        let (archive, into) = (archive.clone(), self.root.join(&archive.unpack.into));
        tokio::task::spawn_blocking(move || unpack(&described(&archive, &archive.id(), &into), &parts))
    }

    async fn finish(&self, (archive, task): Unpacking<'a>, fetched: &mut Fetched) -> Result<(), FetchError> {
        let unpacked = task.await.map_err(|error| FetchError::Archive {
            archive: archive.name.clone(),
            message: format!("unpacking ended early: {error}"),
        })??;
        self.note(archive, unpacked, fetched)
    }

    /// Whether a file, or an archive after this one, has the same bytes: they lie in the cache once.
    fn is_needed_after(&self, archive: &PlannedArchive, part: &HubFile) -> bool {
        let after = self.plan.archives.iter().skip_while(|other| *other != archive).skip(1);
        let mut files = after.flat_map(|later| &later.parts).chain(&self.plan.files);
        files.any(|file| file.oid == part.oid)
    }

    fn note(
        &self,
        archive: &PlannedArchive,
        unpacked: Unpacked,
        fetched: &mut Fetched,
    ) -> Result<(), FetchError> {
        let (name, members, refused) = (archive.name.clone(), unpacked.members, unpacked.refused.len());
        self.observer.event(Event::Unpacked { archive: name, members, refused });
        fetched.members += members;
        fetched.refused.extend(unpacked.refused.into_iter().map(|refused| (archive.name.clone(), refused)));
        let lies_there = archive.parts.iter().any(|part| self.cache.blob(&part.oid).exists());
        if self.options.delete_archives && refused == 0 && lies_there {
            for part in archive.parts.iter().filter(|part| !self.is_needed_after(archive, part)) {
                self.cache.delete(&self.plan.commit, part)?;
            }
            self.observer.event(Event::Deleted { archive: archive.name.clone() });
        }
        Ok(())
    }
}
