//! `paravt-bench check`: the regression gate.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use paravt_reports::gate::{
    Baseline, Entry, Rule, Status, append, check, junit, markdown, read_estimates, terminal,
};
use paravt_reports::{find_runs, page};

use crate::exit::Exit;

const EXIT_CODES: &str = "Exit code 0: pass; 1: fail; 4: undecided (another measurement, an incomplete run, \
                          or an interval on both sides of the limit).";

/// Flags of `check`.
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    /// Run directories, or folders of them.
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The baseline.
    #[arg(long, value_name = "FILE")]
    baseline: PathBuf,
    /// Make the runs the baseline instead of checking them.
    #[arg(long)]
    write: bool,
    /// With --write: points that a score may drop.
    #[arg(long, requires = "write", default_value_t = Rule::default().drop_points, value_name = "POINTS")]
    drop_points: f64,
    /// With --write: ratio of times that is no slowdown yet; 0 does not look at times.
    #[arg(long, requires = "write", default_value_t = Rule::default().slower.unwrap_or_default(), value_name = "RATIO")]
    slower: f64,
    /// With --write: errors beyond the baseline's that are accepted.
    #[arg(long, requires = "write", default_value_t = Rule::default().more_errors, value_name = "N")]
    more_errors: usize,
    /// Folder of criterion's estimates (target/criterion) to hold against the baseline's [default: none].
    #[arg(long, value_name = "DIR")]
    criterion: Option<PathBuf>,
    /// File for a summary in Markdown, for a pull request [default: none].
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// File for JUnit XML [default: none].
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// File of JSON lines to append the outcome to; the page over all of them goes beside it
    /// [default: none].
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let runs = find_runs(&args.runs)?;
    let estimates = args.criterion.as_deref().map(read_estimates).transpose()?;
    if args.write {
        let slower = Some(args.slower).filter(|ratio| *ratio > 0.0);
        let rule = Rule { drop_points: args.drop_points, slower, more_errors: args.more_errors };
        Baseline::of(&runs, rule, estimates.unwrap_or_default()).write(&args.baseline)?;
        println!("{}: baseline of {} splits", args.baseline.display(), runs.len());
        return Ok(Exit::Ok);
    }
    let verdict = check(&Baseline::read(&args.baseline)?, &runs, estimates.as_deref())?;
    print!("{}", terminal(&verdict));
    write(args.markdown.as_deref(), || Ok(markdown(&verdict)))?;
    write(args.junit.as_deref(), || Ok(junit(&verdict)?))?;
    if let Some(path) = &args.history {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs_f64());
        let commit = runs.first().map(|run| run.manifest.binary.clone()).unwrap_or_default();
        let entries = append(path, &Entry::of(&verdict, &commit, now.unwrap_or_default()))?;
        write(Some(&path.with_extension("html")), || Ok(page::history(&entries)?))?;
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
