//! `paravt-bench protocol`: import and show the texts around a sample.

pub(crate) mod chosen;
pub(crate) mod show;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use clap::Subcommand;
use paravt_agents::driver_modes::{FILLED, Filled};
use paravt_agents::releases;
use paravt_suite::data::sha256_file;
use paravt_suite::nearest;
use paravt_suite::protocol::{PromptMode, Protocol, cache, file, native};
use paravt_suite::task::Task as _;
use paravt_upstream::import::{self, Release};
use paravt_upstream::paravt;

use crate::exit::{Exit, OrPreflight as _};
use crate::failure;
use crate::launch;
use crate::signals::{self, Arrivals, Signal};

/// Flags of `protocol`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Extract the prompt texts of a release from its files.
    ///
    /// They are kept in $PARAVT_BENCH_CACHE, else ~/.cache/paravt-bench, for runs that name the protocol (--protocol, a
    /// recipe, --paper-row). `protocol list` names the repository of each.
    Import {
        /// Protocol: paravt, or an agent's own, e.g. conan.
        #[arg(default_value = "paravt", value_name = "NAME", value_parser = release)]
        name: &'static Release,
        /// Checkout or git directory of the release's repository, or a URL that git can clone; read at the pinned commit.
        #[arg(long, value_name = "PATH|URL")]
        from: String,
    },
    /// List protocols with their modes and the hash of their texts.
    List,
    /// Print a protocol as JSON, in the format of a protocol file.
    Export {
        /// Protocol: native, nano, an imported one, e.g. paravt, or a protocol file.
        #[arg(value_name = "NAME|FILE")]
        protocol: ProtocolChoice,
    },
    /// Print the texts that a model receives for one sample.
    Show(Box<show::Args>),
}

/// Which texts a run uses.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum ProtocolChoice {
    Named(Named),
    /// A file of the user's.
    File(PathBuf),
}

/// The protocols that have names.
#[derive(Clone, Copy)]
pub(crate) enum Named {
    /// The imported texts of a release.
    Imported(&'static Release),
    /// Those of ParaVT with the text of an agent in one of its placeholders.
    Filled(&'static Filled),
    /// The suite's own.
    Native,
    /// The suite's own about images.
    Images,
    /// The generated world's, in few words.
    Nano,
}

impl Named {
    fn name(self) -> &'static str {
        match self {
            Self::Imported(release) => release.name,
            Self::Filled(filled) => filled.name,
            Self::Native => "native",
            Self::Images => "images",
            Self::Nano => "nano",
        }
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Named {}

/// All protocols with names, that of the first release first.
fn all() -> impl Iterator<Item = Named> {
    let mut imported = releases().map(Named::Imported);
    let first = imported.next();
    let filled = FILLED.iter().copied().map(Named::Filled);
    first.into_iter().chain([Named::Native, Named::Images, Named::Nano]).chain(imported).chain(filled)
}

fn named(name: &str) -> Result<Named, String> {
    if name == "auto" {
        return Err("`auto` depended on what this machine had imported and is gone: name the protocol, e.g. paravt; without \
                    a name it is native"
            .to_owned());
    }
    all().find(|known| known.name() == name).ok_or_else(|| {
        let known: Vec<&str> = all().map(Named::name).collect();
        let hint = nearest::hint(nearest::nearest(name, known.iter().copied()));
        format!("unknown protocol `{name}`; use one of {}{hint}", known.join(", "))
    })
}

/// A release by the name of its protocol.
fn release(name: &str) -> Result<&'static Release, String> {
    releases().find(|release| release.name == name).ok_or_else(|| {
        let known: Vec<&str> = releases().map(|release| release.name).collect();
        let hint = nearest::hint(nearest::nearest(name, known.iter().copied()));
        format!("no release `{name}` can be imported; use one of {}{hint}", known.join(", "))
    })
}

impl ProtocolChoice {
    /// The name, or that of the file.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Named(named) => named.name().to_owned(),
            Self::File(path) => {
                path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
            }
        }
    }

    /// What answers depend on: the name, and of a file the SHA-256 of its content.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::File(path) => match sha256_file(path) {
                Ok(hash) => format!("{} {hash}", self.name()),
                Err(_) => self.name(),
            },
            _ => self.name(),
        }
    }

    /// Whether the upstream texts are wanted, and no others.
    pub(crate) fn is_imported(&self) -> bool {
        *self == Self::Named(Named::Imported(&paravt::import::RELEASE))
    }
}

impl FromStr for ProtocolChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_file = |end: &&str| text.to_ascii_lowercase().ends_with(*end);
        if [".toml", ".json"].iter().any(is_file) {
            Ok(Self::File(text.into()))
        } else {
            let or_file = |problem| format!("{problem}\nfor a file, give a name that ends in .toml or .json");
            named(text).map(Self::Named).map_err(or_file)
        }
    }
}

/// Where an import is to be cached.
fn cache_to_write() -> anyhow::Result<PathBuf> {
    paravt_files::cache_dir().context(
        "no folder for imported protocols: neither $PARAVT_BENCH_CACHE nor $XDG_CACHE_HOME nor $HOME is set",
    )
}

/// The imported texts of the reference, if there are any.
pub(crate) fn imported() -> anyhow::Result<Option<Protocol>> {
    stored(&paravt::import::RELEASE)
}

/// The imported protocol of a release, if there is one.
pub(crate) fn stored(release: &Release) -> anyhow::Result<Option<Protocol>> {
    // Without a place for them there are none.
    let Some(dir) = paravt_files::cache_dir() else { return Ok(None) };
    Ok(release.stored(&dir)?)
}

fn of_name(name: Named) -> anyhow::Result<Protocol> {
    match name {
        Named::Native => Ok(native::protocol()),
        Named::Images => Ok(native::images()),
        Named::Nano => Ok(paravt_nano::protocol()),
        Named::Filled(filled) => {
            let of = |release: &'static Release| of_name(Named::Imported(release));
            let (driver, agent) = (of(&paravt::import::RELEASE)?, of(filled.agent)?);
            let lacks = || format!("protocol {} has no text for the placeholder of mode {}", agent.name, filled.mode);
            filled.make(driver, &agent).with_context(lacks)
        }
        Named::Imported(release) => stored(release)?.with_context(|| {
            let (name, repository) = (release.name, release.repository);
            format!(
                "protocol {name} is not imported; run `paravt-bench protocol import{} --from PATH|URL` with a checkout or the URL of {repository}, or use --protocol native",
                argument(release)
            )
        }),
    }
}

/// How `protocol import` is given a release: the first one is meant without a name.
fn argument(release: &Release) -> String {
    if release.name == paravt::import::RELEASE.name { String::new() } else { format!(" {}", release.name) }
}

pub(crate) fn choose(choice: &ProtocolChoice) -> anyhow::Result<Arc<Protocol>> {
    let protocol = match choice {
        ProtocolChoice::Named(name) => of_name(*name)?,
        ProtocolChoice::File(path) => {
            let base =
                |base: &str| named(base).and_then(|name| of_name(name).map_err(|error| format!("{error:#}")));
            let kind_of = |split: &str| Some(paravt_tasks::named(split)?.spec().metric.empty_gold().kind());
            file::read(path, base, &kind_of)?
        }
    };
    Ok(Arc::new(protocol))
}

/// Imports the texts of upstream files into the cache: the protocol and its file.
fn store(release: &Release, files: &import::Files) -> anyhow::Result<(Protocol, PathBuf)> {
    let protocol = release.import(files)?;
    let path = cache::store(&cache_to_write()?, &protocol)?;
    Ok((protocol, path))
}

/// Imports the texts of the reference from a repository, where they are not imported yet.
pub(crate) fn provide(from: &str) -> anyhow::Result<()> {
    provide_from(&paravt::import::RELEASE, from)
}

/// Imports the texts of an agent from the repository of its authors, where they are not imported yet.
pub(crate) fn provide_agent(name: &str) -> anyhow::Result<()> {
    let release = release(name).map_err(anyhow::Error::msg)?;
    provide_from(release, &format!("https://github.com/{}", release.repository))
}

fn provide_from(release: &Release, from: &str) -> anyhow::Result<()> {
    if stored(release)?.is_none() {
        launch::note(&format!("importing the prompt texts from {}", paravt_suite::redact::urls(from)));
        // Without them the recipe ends: the user has asked for that.
        let hinted = |error| {
            let hint = format!(
                "without a network, `paravt-bench protocol import{} --from PATH` takes them from a checkout of {}; then \
                 repeat the command",
                argument(release),
                release.repository
            );
            failure::with_hint(error, hint)
        };
        let Some(files) = read_files(release, from).map_err(hinted)? else { return Ok(()) };
        store(release, &files)?;
    }
    Ok(())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.action {
        Action::Import { name, from } => {
            let Some(files) = read_files(name, from)? else { return Ok(Exit::Interrupted) };
            let (protocol, path) = store(name, &files)?;
            println!(
                "imported {} at {} into {}",
                protocol.source.repository,
                protocol.source.commit,
                path.display()
            );
            describe(&protocol);
        }
        Action::List => {
            describe(&native::protocol());
            describe(&native::images());
            describe(&of_name(Named::Nano)?);
            for release in releases() {
                match stored(release)? {
                    Some(protocol) => describe(&protocol),
                    None => println!(
                        "{}: not imported (`paravt-bench protocol import{} --from PATH|URL`, {})",
                        release.name,
                        argument(release),
                        release.repository
                    ),
                }
            }
        }
        Action::Export { protocol } => {
            println!("{}", serde_json::to_string_pretty(&*choose(protocol)?)?);
        }
        Action::Show(args) => show::run(args)?,
    }
    Ok(Exit::Ok)
}

/// The upstream files; `None` when Ctrl-C came first. The handler lets the temporary clone be removed.
fn read_files(release: &Release, from: &str) -> anyhow::Result<Option<import::Files>> {
    let runtime = launch::runtime()?;
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    let mut arrivals = runtime.block_on(async { Arrivals::new(&Signal::ALL) })?;
    runtime.spawn(async move {
        arrivals.next().await;
        flag.store(true, Ordering::Relaxed);
    });
    let files = import::read_files_until(release, from, &|| stopped.load(Ordering::Relaxed));
    if stopped.load(Ordering::Relaxed) {
        eprintln!("interrupted: nothing was imported");
        signals::stop();
        return Ok(None);
    }
    match files {
        // A repository that does not answer is a precondition, a path that is not there a mistake.
        Err(error @ import::ImportError::Unreadable { .. }) if from.contains("://") => {
            Err(anyhow::Error::from(error)).or_preflight()
        }
        files => Ok(Some(files?)),
    }
}

fn describe(protocol: &Protocol) {
    let modes: Vec<&str> = protocol.system.keys().map(PromptMode::as_str).collect();
    let with_tool: Vec<&str> = protocol.tool.modes.iter().map(PromptMode::as_str).collect();
    println!("{}: {}", protocol.name, protocol.hash());
    println!("  modes {}", modes.join(", "));
    if !with_tool.is_empty() {
        println!("  with the tool {}: {}", protocol.tool.name, with_tool.join(", "));
    }
    if let Some(agent_loop) = &protocol.agent {
        println!("  a loop of its own, {} turns: {}", agent_loop.turns(), agent_loop.fidelity.as_str());
    }
    for (file, hash) in &protocol.source.files {
        let pinned = protocol.source.pinned || releases().any(|release| release.is_pinned(file, hash));
        println!("  {file} {hash}{}", if pinned { "" } else { " (not the pinned file)" });
    }
}
