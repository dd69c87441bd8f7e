//! `paravt-bench check`: the regression gate.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use paravt_reports::gate::{
    self, Baseline, Entry, Estimate, History, Rule, ScoreRule, Status, append, json, junit, markdown,
    read_estimates, terminal,
};
use paravt_reports::{Run, find_runs, page};

use crate::exit::Exit;
use crate::output::Printed;

const EXIT_CODES: &str = "\
Every run is judged against the entry of its split in the baseline. Speed is judged by the history of checks on
machines of one kind, once it has enough entries; until then it fails nothing.

Exit code 0: pass; 1: fail; 4: undecided (another measurement, a split that only the runs or only the baseline
have, an incomplete run, or an interval on both sides of the limit).";

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
    /// Make the runs the baseline instead of checking them. Refused for runs that are incomplete, or of
    /// which more than 0.5 % failed or lost their frames.
    #[arg(long)]
    write: bool,
    /// With --write: points that a score may drop, 0 to below 100.
    #[arg(long, requires = "write", default_value_t = 1.0, value_name = "POINTS")]
    drop_points: f64,
    /// With --write: judge a deterministic run (temperature 0, the same model) by its answers instead, of
    /// which N may differ in a split [default: none, scores are judged].
    #[arg(long, requires = "write", conflicts_with = "drop_points", value_name = "N")]
    changed: Option<usize>,
    /// With --write: the runs are trainings of one recipe from several seeds, three at least; another
    /// training is judged by their spread.
    #[arg(long, requires = "write", conflicts_with_all = ["drop_points", "changed"])]
    seeds: bool,
    /// With --write: the model may be another one, e.g. in another folder [default with --seeds].
    #[arg(long, requires = "write")]
    any_model: bool,
    /// With --write: errors beyond the baseline's that are accepted.
    #[arg(long, requires = "write", default_value_t = Rule::default().more_errors, value_name = "N")]
    more_errors: usize,
    /// With --write: samples without their frames beyond the baseline's that are accepted.
    #[arg(long, requires = "write", default_value_t = Rule::default().more_lost, value_name = "N")]
    more_lost: usize,
    /// Folder of criterion's estimates (target/criterion) to judge with the runs [default: none].
    #[arg(long, value_name = "DIR")]
    criterion: Option<PathBuf>,
    /// File for a summary in Markdown, for a pull request [default: none].
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// File for JUnit XML [default: none].
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// File of JSON lines by which speed is judged and to which the outcome is appended; the page over
    /// all of them goes beside it [default: none].
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

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let runs = find_runs(&args.runs)?;
    let estimates = args.criterion.as_deref().map(read_estimates).transpose()?;
    if args.write {
        Baseline::of(&runs, args.rule(), estimates.unwrap_or_default())?.write(&args.baseline)?;
        println!("{}: baseline of {} runs", args.baseline.display(), runs.len());
        return Ok(Exit::Ok);
    }
    judge(args, &runs, estimates.as_deref())
}

fn judge(args: &Args, runs: &[Run], estimates: Option<&[Estimate]>) -> anyhow::Result<Exit> {
    let baseline = Baseline::read(&args.baseline)?;
    let history = args.history.as_deref().map(gate::read_history).transpose()?;
    if let Some((path, History { torn_bytes: bytes @ 1.., .. })) = args.history.as_ref().zip(history.as_ref())
    {
        eprintln!("{}: a torn last line of {bytes} bytes is cut off", path.display());
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
        write(Some(&path.with_extension("html")), || Ok(page::history(&history.entries)?))?;
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
