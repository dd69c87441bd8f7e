//! `paravt-bench protocol`: import and show the texts around a sample.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use clap::Subcommand;
use paravt_suite::data::sha256_file;
use paravt_suite::message::Part;
use paravt_suite::nearest;
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{Clips, CodeRules, PromptMode, Protocol, cache, file, native, render};
use paravt_suite::sample::{Question, Sample};
use paravt_suite::task::{Task as _, TaskSpec};
use paravt_upstream::import::{self, Release};
use paravt_upstream::paravt::filled::{FILLED, Filled};
use paravt_upstream::{RELEASES, paravt};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Exit, OrPreflight as _};
use crate::failure;
use crate::launch;
use crate::registry::DataArgs;
use crate::signals;

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
    /// They are kept in $PARAVT_BENCH_CACHE, else ~/.cache/paravt-bench, and used by later runs. `protocol list` names the
    /// repository of each.
    Import {
        /// Protocol: paravt, or an agent's own, e.g. conan.
        #[arg(default_value = "paravt", value_name = "NAME", value_parser = release)]
        name: &'static Release,
        /// Checkout or git directory of the release's repository, or a URL that git can clone; read at the pinned commit.
        #[arg(long, value_name = "PATH|URL")]
        from: String,
        /// Accept files that differ from the pinned ones, uncommitted edits included; records of runs with them are
        /// marked.
        #[arg(long)]
        unpinned: bool,
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
    Show(Box<Show>),
}

#[derive(clap::Args)]
struct Show {
    /// Prompt mode; `paravt-bench protocol list` lists them.
    mode: PromptMode,
    /// Split; `paravt-bench tasks` lists them.
    task: String,
    /// Profile: `release` (as the released code), `paper` (comparable to the paper's table) or `strict` (corrected).
    #[arg(long, default_value_t)]
    profile: Profile,
    /// Protocol: auto, native, nano, an imported one, e.g. paravt, or a protocol file.
    #[arg(long, default_value = "auto", value_name = "NAME|FILE")]
    protocol: ProtocolChoice,
    /// Row of the split, counted from 0; needs its data [default: none, an invented sample].
    #[arg(long, value_name = "N")]
    row: Option<usize>,
    #[command(flatten)]
    data: DataArgs,
}

/// Which texts a run uses.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum ProtocolChoice {
    /// Imported where there is an import that has the mode, else native.
    Auto,
    /// One by its name.
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
    /// The generated world's, in few words.
    Nano,
}

impl Named {
    fn name(self) -> &'static str {
        match self {
            Self::Imported(release) => release.name,
            Self::Filled(filled) => filled.name,
            Self::Native => "native",
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
    let (first, others) = RELEASES.split_at(1);
    let imported = |releases: &'static [&'static Release]| releases.iter().copied().map(Named::Imported);
    let filled = FILLED.iter().copied().map(Named::Filled);
    imported(first).chain([Named::Native, Named::Nano]).chain(imported(others)).chain(filled)
}

fn named(name: &str) -> Result<Named, String> {
    all().find(|known| known.name() == name).ok_or_else(|| {
        let known: Vec<&str> = all().map(Named::name).collect();
        let hint = nearest::hint(nearest::nearest(name, known.iter().copied()));
        format!("unknown protocol `{name}`; use one of {}{hint}", known.join(", "))
    })
}

/// A release by the name of its protocol.
fn release(name: &str) -> Result<&'static Release, String> {
    RELEASES.iter().copied().find(|release| release.name == name).ok_or_else(|| {
        let known: Vec<&str> = RELEASES.iter().map(|release| release.name).collect();
        let hint = nearest::hint(nearest::nearest(name, known.iter().copied()));
        format!("no release `{name}` can be imported; use one of {}{hint}", known.join(", "))
    })
}

impl ProtocolChoice {
    /// The name, or that of the file.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
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
        if text == "auto" {
            Ok(Self::Auto)
        } else if [".toml", ".json"].iter().any(is_file) {
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
fn stored(release: &Release) -> anyhow::Result<Option<Protocol>> {
    // Without a place for them there are none.
    let Some(dir) = paravt_files::cache_dir() else { return Ok(None) };
    Ok(release.stored(&dir)?)
}

/// The protocol of a name.
fn of_name(name: Named) -> anyhow::Result<Protocol> {
    match name {
        Named::Native => Ok(native::protocol()),
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

/// The protocol for a choice and a mode.
pub(crate) fn choose(choice: &ProtocolChoice, mode: Option<&PromptMode>) -> anyhow::Result<Arc<Protocol>> {
    let protocol = match choice {
        ProtocolChoice::Named(name) => of_name(*name)?,
        ProtocolChoice::File(path) => file::read(path, |base| {
            named(base).and_then(|name| of_name(name).map_err(|error| format!("{error:#}")))
        })?,
        ProtocolChoice::Auto => {
            let lacks = |protocol: &Protocol| mode.is_some_and(|mode| protocol.system_text(mode).is_err());
            match imported()? {
                Some(protocol) if !lacks(&protocol) || lacks(&native::protocol()) => protocol,
                _ => native::protocol(),
            }
        }
    };
    Ok(Arc::new(protocol))
}

/// Imports the texts of upstream files into the cache: the protocol and its file.
fn store(release: &Release, files: &import::Files, unpinned: bool) -> anyhow::Result<(Protocol, PathBuf)> {
    let protocol = release.import(files, unpinned)?;
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
        let Some(files) = read_files(release, from, false).map_err(hinted)? else { return Ok(()) };
        store(release, &files, false)?;
    }
    Ok(())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.action {
        Action::Import { name, from, unpinned } => {
            let Some(files) = read_files(name, from, *unpinned)? else { return Ok(Exit::Interrupted) };
            let (protocol, path) = store(name, &files, *unpinned)?;
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
            describe(&of_name(Named::Nano)?);
            for release in RELEASES {
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
            println!("{}", serde_json::to_string_pretty(&*choose(protocol, None)?)?);
        }
        Action::Show(show_args) => show(show_args)?,
    }
    Ok(Exit::Ok)
}

/// The upstream files; `None` when Ctrl-C came first. The handler lets the temporary clone be removed.
fn read_files(release: &Release, from: &str, unpinned: bool) -> anyhow::Result<Option<import::Files>> {
    let runtime = launch::runtime()?;
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    let mut interrupt = runtime.block_on(async { signal(SignalKind::interrupt()) })?;
    let mut terminate = runtime.block_on(async { signal(SignalKind::terminate()) })?;
    runtime.spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        flag.store(true, Ordering::Relaxed);
    });
    let files = import::read_files_until(release, from, unpinned, &|| stopped.load(Ordering::Relaxed));
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
    if let Some(own) = &protocol.agent {
        println!("  a loop of its own, {} turns: {}", own.turns, own.fidelity.as_str());
    }
    for (file, hash) in &protocol.source.files {
        let pinned = protocol.source.pinned || RELEASES.iter().any(|release| release.is_pinned(file, hash));
        println!("  {file} {hash}{}", if pinned { "" } else { " (not the pinned file)" });
    }
}

fn show(args: &Show) -> anyhow::Result<()> {
    let task = paravt_tasks::select(&[&args.task])?[0];
    let protocol = choose(&args.protocol, Some(&args.mode))?;
    paravt_upstream::reference(&protocol)?;
    let sample = match args.row {
        Some(row) => {
            let dataset = task.load(&args.data.root()?, args.profile)?;
            dataset.samples.into_iter().find(|sample| sample.row == row).with_context(|| {
                format!("--row {row}: {} has no such row under the profile {}", args.task, args.profile)
            })?
        }
        None => example_sample(task.spec()),
    };
    let name = sample.video_name();
    let switches = args.profile.switches();
    let user = render::user_text(&protocol, &sample, &args.mode, &switches, &name, None)?;
    println!("--- protocol {} {} ---", protocol.name, protocol.hash());
    show_system(&protocol, &args.mode)?;
    if let Some((own, rules)) = protocol.code() {
        println!("--- user ---\n{}", render::code_opening(own, &user, "{video_info}")?);
        return show_code(rules);
    }
    println!("--- user (after the overview) ---");
    // What needs the video itself, its length or size, is not shown.
    let given = ["fps", "count", "duration", "file_duration"].map(by_name);
    let opening =
        protocol.agent.as_ref().map(|own| render::opening(own, &sample, &user, (None, &given), Vec::new()));
    match opening {
        Some(Ok(parts)) => print_texts(&parts),
        _ => println!("{user}"),
    }
    let Some(own) = &protocol.agent else {
        let force = render::force(&protocol, sample.gold.kind())?;
        println!("--- forced answer ({} tokens) ---\n{}", force.max_tokens, force.text);
        return Ok(());
    };
    if let Some(again) = own.continued(&sample) {
        let (after, limit) = (&again.after, again.max_tokens);
        println!(
            "--- behind the last {after} of the reply, continued ({limit} tokens) ---\n{}",
            again.opening
        );
    }
    if let Some(clips) = &own.clips {
        return show_clips(&protocol, clips);
    }
    for turn in 1..own.turns {
        let prompt = render::later_question(&protocol, own, turn, &sample, &args.mode, &switches)?;
        let parts = render::own_response(&protocol, own, &prompt, turn, (0.0, 0.0), Vec::new())?;
        if parts.is_empty() {
            println!("--- later turns: frames or an error alone, up to {} turns in all ---", own.turns);
            break;
        }
        println!("--- turn {turn}, around the frames of the calls ---");
        print_texts(&parts);
    }
    Ok(())
}

fn print_texts(parts: &[Part]) {
    for part in parts {
        if let Part::Text(text) = part {
            println!("{text}");
        }
    }
}

/// A slot with its name for a value.
fn by_name(slot: &'static str) -> (&'static str, String) {
    (slot, format!("{{{slot}}}"))
}

/// The texts of an agent that is shown a video for each call.
fn show_clips(protocol: &Protocol, clips: &Clips) -> anyhow::Result<()> {
    let given = ["turn", "start", "end", "fps", "count", "frames", "reason"].map(by_name);
    let given: Vec<(&str, &str)> = given.iter().map(|(slot, value)| (*slot, value.as_str())).collect();
    for (title, text) in [
        ("a call's video", &protocol.crop_response),
        ("a call that shows nothing", &protocol.crop_error),
        ("the last turn's video", &clips.last_response),
        ("the same without one", &clips.last_error),
    ] {
        println!("--- {title} ---\n{}", text.render(&given)?);
    }
    println!("--- chat template ---\n{}", clips.chat_template);
    Ok(())
}

/// The system text, or those of the tries of an agent that begins afresh.
fn show_system(protocol: &Protocol, mode: &PromptMode) -> anyhow::Result<()> {
    let tries = protocol.agent.as_ref().and_then(|own| Some((own, own.frames?)));
    let of_tries = tries.filter(|(own, _)| !own.tries.system.is_empty());
    let Some((own, frames)) = of_tries else {
        println!("--- system ---\n{}", protocol.system_text(mode)?);
        return Ok(());
    };
    for number in 0..own.tries.count {
        let text = render::system_of_try(own, &frames, number)?.unwrap_or_default();
        println!("--- system of try {} of {} ---\n{text}", number + 1, own.tries.count);
    }
    Ok(())
}

/// The texts of an agent that writes code.
fn show_code(rules: &CodeRules) -> anyhow::Result<()> {
    let texts = &rules.texts;
    let given = ["width", "height", "frames", "fps"].map(by_name);
    println!(
        "--- {{video_info}} ---\n{}",
        texts.video.render(&given.each_ref().map(|(slot, text)| (*slot, &**text)))?
    );
    let figure = texts.figure.render(&[("index", "0"), ("figure", "[image]")])?;
    let shown = texts.heading.clone() + &figure;
    println!("--- after code ---\n{}", texts.result.render(&[("stdout", "{stdout}"), ("figures", &shown)])?);
    for reason in [texts.raised.render(&[("reason", "{reason}")])?, texts.neither.clone()] {
        println!(
            "--- after an error, where the conversation goes on ---\n{}",
            texts.error.render(&[("reason", &reason)])?
        );
    }
    Ok(())
}

/// A sample that shows a template without data.
fn example_sample(spec: &TaskSpec) -> Sample {
    let gold = spec.metric.empty_gold();
    let (stem, options) = if gold.interval().is_some() {
        ("a person opens the red door.", Vec::new())
    } else {
        ("Which door is opened last?", vec!["The red one".to_owned(), "The green one".to_owned()])
    };
    let question = Question { stem: stem.into(), letters: "AB".into(), options, subtitles: None };
    Sample::new(&spec.name, "example".into(), 0, "example.mp4".into(), question, gold)
}
