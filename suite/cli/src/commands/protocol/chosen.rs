//! Which protocol a run has: by its command line and the run that it continues, never by what the machine has imported.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use paravt_reproduce::Recipe;
use paravt_suite::agent::Bound;
use paravt_suite::journal::{self, PROTOCOL};
use paravt_suite::protocol::file::FROM_FILE;
use paravt_suite::protocol::{Protocol, native};
use paravt_suite::task::{Benchmark, Task as _};

use super::{ProtocolChoice, choose, imported, named, of_name};

/// The protocol of a command, and why it is that one.
pub(crate) struct Chosen {
    /// Its texts, and whose rules it follows.
    pub(crate) bound: Bound,
    pub(crate) why: Why,
}

/// Why a run has its protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Why {
    /// Nothing names one.
    Default,
    /// `--protocol`.
    Asked,
    /// `--paper-row`.
    Row(String),
    /// `--resume`: that of the run in the folder.
    Run(PathBuf),
    Recipe,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default"),
            Self::Asked => f.write_str("asked for (--protocol)"),
            Self::Row(row) => write!(f, "that of the row {row}"),
            Self::Run(dir) => write!(f, "that of the run in {}", dir.display()),
            Self::Recipe => f.write_str("the recipe's"),
        }
    }
}

impl Chosen {
    fn new(protocol: impl Into<Arc<Protocol>>, why: Why) -> anyhow::Result<Self> {
        Ok(Self { bound: paravt_agents::bind(protocol)?, why })
    }

    /// The protocol that `--protocol` names, else the suite's own for these tasks.
    pub(crate) fn by_flag(choice: Option<&ProtocolChoice>, tasks: &[&Benchmark]) -> anyhow::Result<Self> {
        match choice {
            Some(choice) => Self::new(choose(choice)?, Why::Asked),
            None if tasks.iter().any(|task| task.is_about_images()) => {
                Self::new(native::images(), Why::Default)
            }
            None => Self::new(native::protocol(), Why::Default),
        }
    }

    /// The protocol of an evaluation of a recipe: the one that it names, else that of the command line.
    pub(crate) fn of_recipe(name: Option<&str>, choice: &ProtocolChoice) -> anyhow::Result<Self> {
        let protocol = match name {
            Some(name) => Arc::new(named(name).map_err(anyhow::Error::msg).and_then(of_name)?),
            None => choose(choice)?,
        };
        let is_asked = name.is_none() && !choice.is_imported();
        Self::new(protocol, if is_asked { Why::Asked } else { Why::Recipe })
    }

    /// The protocol of a published row.
    pub(crate) fn of_row(row: &str) -> anyhow::Result<Self> {
        let name = Recipe::protocol_of_row(row).with_context(|| {
            format!(
                "--paper-row {row}: this build has not the protocol of its authors; name one with --protocol"
            )
        })?;
        let protocol = named(&name).map_err(anyhow::Error::msg).and_then(of_name);
        let protocol = protocol.with_context(|| format!("--paper-row {row}"))?;
        Self::new(protocol, Why::Row(row.to_owned()))
    }

    /// The protocol of the runs that these folders hold; `None` without any.
    pub(crate) fn of_runs(dirs: &[PathBuf]) -> anyhow::Result<Option<Self>> {
        let mut found: Option<(Protocol, &Path)> = None;
        for dir in dirs {
            let Some(protocol) = of_run(dir)? else { continue };
            match &found {
                Some((other, first)) if other.hash() != protocol.hash() => bail!(
                    "{} has protocol {}, {} has {}: name one with --protocol, or resume them one by one",
                    first.display(),
                    other.name,
                    dir.display(),
                    protocol.name
                ),
                Some(_) => {}
                None => found = Some((protocol, dir)),
            }
        }
        found.map(|(protocol, dir)| Self::new(protocol, Why::Run(dir.to_owned()))).transpose()
    }

    /// Name, reason and origin: `paravt, asked for (--protocol); imported from EvolvingLMMs-Lab/ParaVT at cf55249`.
    pub(crate) fn describe(&self) -> String {
        let Protocol { name, source, .. } = &*self.bound.protocol;
        let origin = match source.repository.as_str() {
            "paravt-bench" => "this suite's own texts".to_owned(),
            FROM_FILE => {
                let files: Vec<&str> = source.files.keys().map(String::as_str).collect();
                format!("the file {}", files.join(", "))
            }
            repository => format!("imported from {repository} at {}", source.commit),
        };
        format!("{name}, {}; {origin}", self.why)
    }

    /// How to ask in the reference's words, for a user who has imported them and got native without a word.
    pub(crate) fn notice(&self) -> Option<String> {
        let reference = imported().ok()?.filter(|_| self.why == Why::Default)?;
        Some(format!("{} is imported and not used: --protocol {0} asks in its words", reference.name))
    }
}

/// The texts of the run in a folder, as it was begun; `None` where there is none, or it cannot be read: why is said where
/// the run is continued.
fn of_run(dir: &Path) -> anyhow::Result<Option<Protocol>> {
    let Ok(manifest) = journal::read_manifest(dir) else { return Ok(None) };
    let file = dir.join(PROTOCOL);
    let stored = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice::<Protocol>(&text).ok());
    if let Some(protocol) = stored.filter(|protocol| protocol.hash() == manifest.protocol_hash) {
        return Ok(Some(protocol));
    }
    let by_name = named(&manifest.protocol).map_err(anyhow::Error::msg).and_then(of_name);
    let protocol = by_name.with_context(|| {
        format!(
            "{}: not the texts of the run (protocol {}); name its protocol with --protocol",
            file.display(),
            manifest.protocol
        )
    })?;
    Ok(Some(protocol))
}
