//! `paravt-bench status`: how far a recipe is, or runs.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use paravt_files::quote_path;
use paravt_reports::terminal::{Text, Tone};
use paravt_reports::{Damaged, Progress, readable_runs};
use paravt_reproduce::status::{self, Reached, StageStatus, Status};

use crate::exit::Exit;
use crate::output;

/// Columns of an error that are shown; all of it is in the file that the last line names.
const ERROR: usize = 300;

/// Flags of `status`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Output folder of a recipe, a run directory, or a folder of runs.
    #[arg(value_name = "OUT|RUN")]
    out: PathBuf,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let out = args.out.display();
    ensure!(args.out.exists(), "{out}: no such folder");
    let Some(status) = status::read(&args.out)? else {
        return of_runs(args);
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        output::show(&text(&status, &args.out));
    }
    let is_well = |stage: &StageStatus| matches!(stage.state, Reached::Done | Reached::Running);
    Ok(if status.is_running || status.stages.iter().all(is_well) { Exit::Ok } else { Exit::Incomplete })
}

/// Of runs that no recipe made.
fn of_runs(args: &Args) -> anyhow::Result<Exit> {
    let read = readable_runs(std::slice::from_ref(&args.out));
    let out = args.out.display();
    let (runs, damaged) =
        read.with_context(|| format!("{out}: neither the --out of `paravt-bench reproduce` nor runs"))?;
    let now = chrono::Utc::now().timestamp_millis() as f64 / 1e3;
    let all: Vec<Progress> = runs.iter().map(|run| Progress::of(run, now)).collect();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        let mut text = Text::default();
        all.iter().for_each(|progress| progress.show(&mut text));
        for Damaged { run, why } in &damaged {
            text.toned("", run, Tone::Bad, &format!(": {why}"));
        }
        let (recorded, expected) =
            all.iter().fold((0, 0), |sum, one| (sum.0 + one.recorded, sum.1 + one.expected));
        if all.len() > 1 {
            text.line(format!("{} runs: {recorded} of {expected} samples", all.len()));
        }
        text.whole(&format!("in a browser: paravt-bench report --serve {}", quote_path(&args.out)));
        output::show(&text);
    }
    let is_well = |one: &Progress| one.rest() == 0 && one.errors.is_empty();
    Ok(if damaged.is_empty() && all.iter().all(is_well) { Exit::Ok } else { Exit::Incomplete })
}

fn text(status: &Status, out: &Path) -> Text {
    let mut text = Text::default();
    let done = status.stages.iter().filter(|stage| stage.state == Reached::Done).count();
    let now = if status.is_running { "running" } else { "not running" };
    let (recipe, stages) = (&status.recipe, status.stages.len());
    text.line(format!("{recipe} in {}: {done} of {stages} stages are done, {now}", out.display()));
    text.line("");
    let header = row("stage", "began (UTC)", "time", "GPU h", "reached");
    text.line(format!("{:<10} {header}", "state"));
    for stage in &status.stages {
        text.append(line(stage));
    }
    let hours: f64 = status.stages.iter().map(gpu_hours).sum();
    let seconds: f64 = status.stages.iter().map(|stage| stage.seconds).sum();
    let sum = row("sum", "", &in_words(seconds), &format!("{hours:.1}"), "");
    text.line(format!("{:<10} {sum}", ""));
    if let Some((least, most)) = status.left {
        let at = |seconds: f64| day(chrono::Utc::now().timestamp() as f64 + seconds);
        let until = match status.is_running {
            true => format!(", until {} to {} (UTC)", at(least), at(most)),
            false => String::new(),
        };
        text.line(format!(
            "left of the evaluations: {} to {}, at the pace of those so far{until}",
            in_words(least),
            in_words(most)
        ));
    }
    for stage in status.stages.iter().filter(|stage| stage.state != Reached::Done) {
        let Some(error) = &stage.error else { continue };
        let shown: String = error.chars().take(ERROR).collect();
        let more = if shown.len() < error.len() { " …" } else { "" };
        text.line("");
        text.toned(
            "",
            &stage.name,
            Tone::Bad,
            &format!(": {}{more}", shown.lines().next().unwrap_or_default()),
        );
        shown.lines().skip(1).for_each(|line| text.line(format!("  {line}")));
    }
    let open = status.stages.iter().rfind(|stage| stage.state != Reached::Done && !stage.logs.is_empty());
    if let Some(stage) = open {
        text.line("");
        text.line(format!("logs of {}:", stage.name));
        stage.logs.iter().for_each(|log| text.whole(&format!("  {}", quote_path(&out.join(log)))));
    }
    let shard = out.join("slurm/shard-1");
    if shard.is_dir() {
        text.line("");
        text.line("each shard of a Slurm array has a folder of its own:");
        text.whole(&format!("  paravt-bench status {}", quote_path(&shard)));
    }
    if !status.is_running {
        text.line("");
        let (command, open) = next(status, out);
        text.whole(&format!("next: {command}"));
        open.iter().for_each(|open| text.line(format!("      {open}")));
    }
    text
}

/// The columns after the first; 80 with it.
fn row(name: &str, began: &str, time: &str, hours: &str, reached: &str) -> String {
    format!("{name:<24} {began:<11} {time:>6} {hours:>5} {reached}").trim_end().to_owned()
}

fn line(stage: &StageStatus) -> Text {
    let tone = match stage.state {
        Reached::Done => Tone::Good,
        Reached::Failed | Reached::Killed => Tone::Bad,
        Reached::Incomplete | Reached::Interrupted => Tone::Open,
        Reached::Running | Reached::NotBegun => Tone::Plain,
    };
    let time = in_words(stage.seconds);
    let hours = gpu_hours(stage);
    let columns = row(
        &stage.name,
        &stage.began.map(day).unwrap_or_default(),
        if stage.attempts > 0 { &time } else { "" },
        &if hours > 0.0 { format!("{hours:.1}") } else { String::new() },
        stage.progress.as_deref().unwrap_or_default(),
    );
    let state = stage.state.as_str();
    let mut text = Text::default();
    text.toned("", state, tone, &format!("{:1$} {columns}", "", 10usize.saturating_sub(state.len())));
    text
}

fn gpu_hours(stage: &StageStatus) -> f64 {
    stage.seconds / 3600.0 * stage.gpus as f64
}

/// A time in at most six columns.
fn in_words(seconds: f64) -> String {
    match seconds {
        0.0..100.0 => format!("{seconds:.0} s"),
        100.0..6000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// Month, day and time of seconds since 1970.
fn day(seconds: f64) -> String {
    let time = chrono::DateTime::from_timestamp(seconds as i64, 0);
    time.map(|time| time.format("%m-%d %H:%M").to_string()).unwrap_or_default()
}

/// The command that goes on, or the page; then the flags that have to be given to it again.
fn next(status: &Status, out: &Path) -> (String, Option<String>) {
    let page = out.join("report/index.html");
    if status.stages.iter().all(|stage| stage.state == Reached::Done) && page.is_file() {
        return (format!("open {} in a browser", page.display()), None);
    }
    let (command, open) = status.resume_command(out);
    let open = (!open.is_empty())
        .then(|| format!("with {} as before: paths and secrets are not kept", open.join(", ")));
    (command, open)
}
