//! `paravt-bench export`: runs as files of other harnesses.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use paravt_interop::export::{Format, FrameImages, Options, export};
use paravt_reports::terminal::counted;
use paravt_reports::{Run, find_runs};

use crate::exit::Exit;
use crate::registry::{DataArgs, TaskFiles};
use crate::thumbnails;

/// Flags of `export`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run directories, or folders of them.
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Format of the files: logs of inspect_ai 0.3 (JSON, or .eval), results and samples of lmms-eval or
    /// lm-evaluation-harness, Every Eval Ever 0.3.0, or predictions for VLMEvalKit.
    #[arg(long, value_name = "FORMAT", required = true, value_parser = formats())]
    to: Format,
    /// Folder of the files.
    #[arg(short, long, value_name = "DIR", required = true)]
    out: PathBuf,
    /// Name of the model in the files, e.g. as on the hub [default: the name in the run].
    #[arg(long, value_name = "ORG/NAME", value_parser = model_name)]
    model: Option<String>,
    /// With inspect formats: small frames of every sample's overview and crops as images. Videos are read from the data
    /// root; without this an image is a line with its time.
    #[arg(long)]
    frames: bool,
    #[command(flatten)]
    files: TaskFiles,
    #[command(flatten)]
    data: DataArgs,
}

/// Reads the name of a model, whose parts are names of folders, too.
fn model_name(name: &str) -> Result<String, String> {
    match name.split('/').any(|part| part.trim().is_empty()) {
        true => Err("expected NAME or ORG/NAME, no part of it empty".to_owned()),
        false => Ok(name.to_owned()),
    }
}

/// The formats by their names.
fn formats() -> impl clap::builder::TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::as_str)).try_map(|name| name.parse::<Format>())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.frames && !args.to.has_images() {
        bail!("--frames: the format {} holds no images; leave it out", args.to.as_str());
    }
    if !args.frames {
        args.data.check_unused(&args.files, "--frames")?;
    }
    let runs = find_runs(&args.runs)?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder for frames")?;
    let frames = args.frames.then(|| frames(args, &runs, folder.path())).transpose()?;
    let options = Options { format: args.to, model: args.model.as_deref(), frames: frames.as_ref() };
    let exported = export(&runs, options, &args.out)?;
    exported.notes.iter().for_each(|note| eprintln!("{note}"));
    exported.files.iter().for_each(|file| println!("{}", file.display()));
    Ok(Exit::Ok)
}

/// Small frames of the runs' videos, written below a folder.
fn frames(args: &Args, runs: &[Run], dir: &Path) -> anyhow::Result<FrameImages> {
    let root = args.data.root()?;
    let tasks = [paravt_tasks::all(), &args.files.and(&[])?].concat();
    let thumbnails = thumbnails::write(runs, &root, &tasks, dir)?;
    if thumbnails.unreadable > 0 {
        eprintln!("{} cannot be read: no images of these", counted(thumbnails.unreadable, "video"));
    }
    if thumbnails.unknown > 0 {
        let videos = counted(thumbnails.unknown, "video");
        eprintln!("{videos} not in the data root: no images of these; name the root with --data");
    }
    Ok(FrameImages::new(thumbnails, dir))
}
