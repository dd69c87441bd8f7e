//! `paravt-bench check`: the regression gate.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use paravt_files::write_atomic;
use paravt_reports::gate::{
    self, Baseline, Entry, Estimate, History, Rule, ScoreRule, Status, append, json, junit, markdown,
    read_estimates, terminal,
};
use paravt_reports::terminal::counted;
use paravt_reports::{Run, find_runs, page};

use crate::exit::Exit;
use crate::output::Printed;

const AFTER_HELP: &str = "\
Each run is compared with the entry of its split in the baseline. Speed is
compared with earlier checks on machines of the same kind (--history); with
fewer than eight of them it never fails.

Examples:
  paravt-bench check runs/mine --baseline base.json --write
  paravt-bench check runs/next --baseline base.json --junit junit.xml

Exit codes:
  0    pass
  1    fail
  4    undecided: settings differ, a split is missing on one side, a run is
       incomplete, or the interval crosses the limit";

/// Flags of `check`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Run directories, or folders of them.
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Baseline file; --write creates it.
    #[arg(long, value_name = "FILE")]
    baseline: PathBuf,
    /// Write these runs as the baseline instead of checking them. Refused for an incomplete run and for one with more
    /// than 0.5 % of samples failed or without frames.
    #[arg(long, conflicts_with_all = ["markdown", "junit", "history", "json"])]
    write: bool,
    /// With --write: fail a later run whose score drops by more points than this, 0 to below 100.
    #[arg(long, requires = "write", default_value_t = 1.0, value_name = "POINTS")]
    drop_points: f64,
    /// With --write: for deterministic runs (temperature 0), compare answers instead of scores; at most N answers of a
    /// split may differ [default: none, scores are compared].
    #[arg(long, requires = "write", conflicts_with = "drop_points", value_name = "N")]
    changed: Option<usize>,
    /// With --write: the runs are trainings of one recipe with at least three seeds; a later training is compared with
    /// their spread.
    #[arg(long, requires = "write", conflicts_with_all = ["drop_points", "changed"])]
    seeds: bool,
    /// With --write: a later run may have another model, e.g. in another folder; implied by --seeds.
    #[arg(long, requires = "write")]
    any_model: bool,
    /// With --write: additional failed samples to accept in a later run.
    #[arg(long, requires = "write", default_value_t = Rule::default().more_errors, value_name = "N")]
    more_errors: usize,
    /// With --write: additional samples without frames to accept in a later run.
    #[arg(long, requires = "write", default_value_t = Rule::default().more_lost, value_name = "N")]
    more_lost: usize,
    /// Folder of criterion's estimates (target/criterion) to check as well [default: none].
    #[arg(long, value_name = "DIR")]
    criterion: Option<PathBuf>,
    /// Write a summary in Markdown to FILE, e.g. for a pull request [default: none].
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write JUnit XML to FILE [default: none].
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// File of earlier checks (JSON lines) to compare speed with; this check is appended, and a page of all of them is
    /// written beside it [default: none].
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    #[command(flatten)]
    printed: Printed,
}

impl Args {
    fn rule(&self) -> Rule {
        let score = match self.changed {
            _ if self.seeds => ScoreRule::Seeds,
            Some(changed) => ScoreRule::Exact { changed },
            None => ScoreRule::Interval { drop_points: self.drop_points },
        };
        let (more_errors, more_lost) = (self.more_errors, self.more_lost);
        Rule { score, more_errors, more_lost, any_model: self.any_model || self.seeds }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let runs = find_runs(&args.runs)?;
    let estimates = args.criterion.as_deref().map(read_estimates).transpose()?;
    if args.write {
        let baseline = Baseline::of(&runs, args.rule(), estimates.unwrap_or_default())?;
        let replaced = if args.baseline.exists() { ", in the place of the one that was there" } else { "" };
        if let Some(folder) = args.baseline.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        baseline.write(&args.baseline)?;
        println!("{}: baseline of {}{replaced}", args.baseline.display(), counted(runs.len(), "run"));
        return Ok(Exit::Ok);
    }
    judge(args, &runs, estimates.as_deref())
}

fn judge(args: &Args, runs: &[Run], estimates: Option<&[Estimate]>) -> anyhow::Result<Exit> {
    let baseline = Baseline::read(&args.baseline)?;
    let history = args.history.as_deref().map(gate::read_history).transpose()?;
    if let Some((path, History { torn_bytes: bytes @ 1.., .. })) = args.history.as_ref().zip(history.as_ref())
    {
        eprintln!("{}: the last line is incomplete ({bytes} bytes) and is cut off", path.display());
    }
    let past = history.as_ref().map(|history| history.entries.as_slice());
    let verdict = gate::check(&baseline, runs, estimates, past)?;
    args.printed.print(|detail| terminal(&verdict, detail), || json(&verdict));
    write(args.markdown.as_deref(), || Ok(markdown(&verdict)))?;
    write(args.junit.as_deref(), || Ok(junit(&verdict)?))?;
    if let Some(path) = &args.history {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs_f64());
        let commit = runs.first().map(|run| run.manifest.binary.clone()).unwrap_or_default();
        let history = append(path, &Entry::of(&verdict, &commit, now.unwrap_or_default()))?;
        let page = path.with_extension("html");
        write_atomic(&page, page::history(&history.entries)?.as_bytes())
            .with_context(|| format!("cannot write {}", page.display()))?;
    }
    Ok(match verdict.status() {
        Status::Pass | Status::Skipped => Exit::Ok,
        Status::Fail => Exit::Finding,
        Status::Undecided => Exit::Incomplete,
    })
}

fn write(path: Option<&Path>, text: impl FnOnce() -> anyhow::Result<String>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, text()?).with_context(|| format!("cannot write {}", path.display()))
}
