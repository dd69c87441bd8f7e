//! What is read from the hub: the repositories that hold it, and whether it is on this machine.

use std::path::{Path, PathBuf};

use paravt_fetch::{Cache, RepoType, Source, Unpack, is_offline, training};
use paravt_suite::data::DataRoot;
use paravt_suite::media::Depth;
use paravt_suite::task::{Benchmark, DataCheck, Finding, Task as _};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Repositories that a recipe reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Fetch {
    pub items: Vec<Item>,
    /// Whether archives are deleted once they are unpacked.
    #[serde(skip)]
    pub deletes: bool,
}

/// One thing to fetch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Item {
    pub target: Target,
    /// Its published size in GB.
    pub gb: u64,
}

/// Something that can be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Rows and videos of a split.
    Task(String),
    /// Rows and media of the training.
    Training,
    /// A model by its id on the hub.
    Model(String),
}

/// Upper bound of the size of a published archive.
const LARGEST_ARCHIVE_GB: u64 = 30;

impl Fetch {
    /// The published size of everything, in GB.
    pub fn gb(&self) -> u64 {
        self.items.iter().map(|item| item.gb).fold(0, u64::saturating_add)
    }

    /// GB on the disk until everything is unpacked.
    pub fn disk_gb(&self) -> u64 {
        let copies = |item: &Item| if self.deletes { 1 } else { item.target.copies() };
        let all = self.items.iter().map(|item| item.gb.saturating_mul(copies(item)));
        // One archive is downloaded while the one before is unpacked.
        let is_archive = |item: &Item| item.gb > 0 && item.target.copies() > 1;
        let passing =
            if self.deletes && self.items.iter().any(is_archive) { 2 * LARGEST_ARCHIVE_GB } else { 0 };
        all.fold(passing, u64::saturating_add)
    }

    /// The first of what was fetched that is no longer on this machine, without asking the hub.
    ///
    /// # Errors
    /// No such split.
    pub fn gone(&self, root: &DataRoot) -> Result<Option<String>, Error> {
        for Item { target, .. } in &self.items {
            let gone = match target {
                Target::Training if training_rows(root).is_some() && training_media(root).is_some() => None,
                Target::Training => Some("rows or media are not here".to_owned()),
                Target::Task(_) | Target::Model(_) => target.missing(root)?,
            };
            if let Some(what) = gone {
                return Ok(Some(format!("{}: {what}", target.name())));
            }
        }
        Ok(None)
    }

    /// This and another, each item once.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let further = other.items.iter().filter(|item| !self.items.contains(item));
        Self { items: self.items.iter().chain(further).cloned().collect(), ..*self }
    }

    /// The command that fetches the same.
    pub fn command(&self) -> String {
        let names: Vec<String> = self.items.iter().map(|item| item.target.name()).collect();
        format!("paravt-bench data fetch {}", names.join(" "))
    }
}

impl Target {
    /// As `data fetch` takes it.
    pub fn name(&self) -> String {
        match self {
            Self::Task(name) => name.clone(),
            Self::Training => "training".to_owned(),
            Self::Model(id) => format!("model:{id}"),
        }
    }

    /// The target of a name of `data fetch`.
    pub fn named(name: &str) -> Self {
        match name.strip_prefix("model:") {
            Some(id) => Self::Model(id.to_owned()),
            None if name == "training" => Self::Training,
            None => Self::Task(name.to_owned()),
        }
    }

    /// Bytes on the disk for each byte that is published: archives lie beside their members until they are deleted.
    pub fn copies(&self) -> u64 {
        match self {
            Self::Task(_) | Self::Training => 2,
            Self::Model(_) => 1,
        }
    }

    /// Its repositories, and what is wanted of each.
    ///
    /// # Errors
    /// No such split, or a model that is not `OWNER/NAME`.
    pub fn sources(&self) -> Result<Vec<Source>, Error> {
        Ok(match self {
            Self::Training => training(),
            Self::Model(id) => vec![Source::model(id, "main")?],
            Self::Task(name) => paravt_tasks::select(&[name])?.into_iter().map(of_task).collect(),
        })
    }

    /// What of it is not on this machine; `None` where all of it is.
    ///
    /// # Errors
    /// No such split.
    pub fn missing(&self, root: &DataRoot) -> Result<Option<String>, Error> {
        Ok(match self {
            Self::Task(name) => {
                let tasks = paravt_tasks::select(&[name])?;
                tasks.into_iter().find_map(|task| absent(&task.check(root, &Depth::Header)))
            }
            Self::Model(id) => {
                let is_here = Path::new(id).is_dir() || model(id, root).is_some();
                (!is_here).then(|| "not in the cache".to_owned())
            }
            // Only the hub knows whether all archives were unpacked; without it, what is here has to do.
            Self::Training if is_offline() && training_rows(root).is_some() => None,
            Self::Training => Some("to be compared with the hub".to_owned()),
        })
    }
}

/// Folder of a model that is on this machine, by its id on the hub.
pub fn model(id: &str, root: &DataRoot) -> Option<PathBuf> {
    root.candidates().find_map(|base| Cache::new(base, RepoType::Model, id).model("main"))
}

/// Folder of the training rows as they were published.
pub fn training_rows(root: &DataRoot) -> Option<PathBuf> {
    let repos = training().into_iter().next()?.repos;
    repos.iter().find_map(|repo| {
        root.candidates().find_map(|base| Cache::new(base, RepoType::Dataset, repo).current("main"))
    })
}

/// Folder of the unpacked training media.
pub fn training_media(root: &DataRoot) -> Option<PathBuf> {
    let archives: Vec<Unpack> = training().into_iter().flat_map(|source| source.archives).collect();
    root.candidates()
        .find_map(|base| archives.iter().map(|unpack| base.join(&unpack.into)).find(|folder| folder.is_dir()))
}

/// What a split needs, from its description: archives go where its layout looks first.
fn of_task(task: &Benchmark) -> Source {
    let (spec, layout) = (task.spec(), task.layout());
    let mut source = Source {
        name: spec.name.clone(),
        kind: RepoType::Dataset,
        repos: spec.hub.repos.clone(),
        revision: spec.hub.revision.clone().unwrap_or_else(|| "main".to_owned()),
        annotations: vec![spec.hub.annotations.clone()],
        loose: Vec::new(),
        archives: Vec::new(),
    };
    for media in &spec.hub.media {
        let folders = if media.contains("subtitle") { &layout.subtitles } else { &layout.videos };
        let is_archive = layout.pictures.is_some()
            || media.ends_with(".zip")
            || media.ends_with(".tar")
            || media.contains(".tar.");
        let files = placeholders_as_pattern(media);
        match folders.first().filter(|_| is_archive) {
            Some(into) => {
                let (flatten, pictures) = (!layout.archive_folders, layout.pictures.clone());
                source.archives.push(Unpack { files, into: into.into(), flatten, pictures })
            }
            None => source.loose.push(files),
        }
    }
    source
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

/// What a split lacks to be evaluated; `None` where it lacks nothing. Fewer rows than published are not missing files.
fn absent(check: &DataCheck) -> Option<String> {
    let counted = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    check.findings.iter().find_map(|finding| match finding {
        Finding::AnnotationsMissing { provider, .. } => Some(format!("no {provider}")),
        Finding::VideosMissing { count, .. } => Some(format!("{} missing", counted(*count, "video"))),
        Finding::ArchivesPacked { archives, .. } => {
            Some(format!("{} to unpack", counted(archives.len(), "archive")))
        }
        // Some videos have none.
        Finding::Subtitles { found: 0, .. } => Some("no subtitles".to_owned()),
        _ => None,
    })
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
        for (name, into, flatten) in [
            ("mlvu", "MLVU/video", true),
            ("vsibench", "vsibench", false),
            ("video_mmmu_adaptation", "video_mmmu", false),
            ("video_holmes", "video_holmes/videos_cropped", true),
        ] {
            let first = source(name).archives.remove(0);
            assert_eq!((first.into, first.flatten), (into.into(), flatten), "{name}");
        }
        let subtitles = source("videomme_v2_wsub").archives.pop().unwrap();
        assert_eq!(
            (subtitles.files.as_str(), subtitles.into),
            ("subtitle.zip", "videomme_v2/subtitle".into())
        );
    }
}
