//! Runs splits through the library's front door: prints what it reports and turns how it ends into an
//! exit code.

use std::sync::Arc;

use anyhow::Context as _;
use clap::CommandFactory as _;
use paravt_reports::terminal::{Text, percent};
use paravt_suite::backend::Backend;
use paravt_suite::data::DataRoot;
use paravt_suite::evaluate::{self, Evaluation, Prepared, RunError, RunOutcome, WholeTime, Workspace};
use paravt_suite::plan::RunPlan;
use paravt_suite::runner::{self, Ended};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::command_line;
use crate::exit::Exit;
use crate::failure::{self, Continue};
use crate::logging;
use crate::output;
use crate::progress::{RunProgress, in_words};
use crate::registry::BackendArgs;
use crate::signals::{self, Arrivals, Signal, SignalGuard};

const BINARY: &str = concat!("paravt-bench ", env!("CARGO_PKG_VERSION"), " ", env!("PARAVT_BENCH_COMMIT"));

/// Variable with the number of threads of conversations.
const WORKERS: &str = "TOKIO_WORKER_THREADS";

/// The threads that a command's conversations run on.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    // tokio reads the variable too, and panics where it is not one.
    if let Some(value) = std::env::var_os(WORKERS) {
        let workers =
            value.to_str().and_then(|value| value.parse().ok()).filter(|&workers: &usize| workers > 0);
        let found = value.to_string_lossy();
        builder.worker_threads(
            workers.with_context(|| format!("{WORKERS}: expected a number > 0, got `{found}`"))?,
        );
    }
    builder.enable_all().build().context("cannot start threads")
}

/// A line about a backend that was started.
pub(crate) fn note(line: &str) {
    if !output::is_quiet() {
        eprintln!("{line}");
    }
}

/// Lines about a run that begins.
pub(crate) fn note_text(text: &Text) {
    if !output::is_quiet() {
        output::show_error(text);
    }
}

/// The command line of this process, without secrets and paths.
pub(crate) fn command() -> Vec<String> {
    command_line::mask_argv(&crate::Cli::command(), std::env::args_os())
}

/// The workspace of this process.
pub(crate) fn workspace(data: DataRoot, gpus: Option<u32>) -> Workspace {
    Workspace { gpus, binary: BINARY.to_owned(), command: command(), ..Workspace::new(data) }
}

pub(crate) fn prepare(runs: &[Evaluation<'_>], workspace: &Workspace) -> Result<Vec<Prepared>, RunError> {
    runs.iter().map(|run| evaluate::prepare(run, workspace)).collect()
}

/// Says what a user should know of data and settings before the first sample.
pub(crate) fn warn_of(prepared: &[Prepared]) {
    let mut said = Vec::new();
    for warning in prepared.iter().flat_map(Prepared::warnings) {
        // One of the settings is that of every split.
        if !said.contains(&warning) {
            warn(&warning);
            said.push(warning);
        }
    }
}

/// Says which flags of the backend change nothing for a plan.
pub(crate) fn warn_without_effect(backend: &BackendArgs, plan: &RunPlan) {
    for (flag, channel) in backend.without_effect(plan.channel) {
        warn(&format!("{flag}: changes nothing, since it is for --channel {channel}"));
    }
}

/// A warning before a run.
pub(crate) fn warn(warning: &str) {
    eprintln!("warning: {warning}");
}

/// How splits ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ending {
    /// The worst code.
    pub exit: Exit,
    /// What further splits would fail from as well.
    pub obstacle: Option<Obstacle>,
}

/// What ended a split before its last sample, and would end the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The server fails every request, or answers what cannot be read.
    Server,
    /// Records cannot be written.
    Disk,
}

impl From<Exit> for Ending {
    fn from(exit: Exit) -> Self {
        Self { exit, obstacle: None }
    }
}

/// Runs prepared splits one after the other; the worst exit code counts. Where the user, the server or
/// the disk ended one, the next would fare no better and is not begun.
pub(crate) async fn run_all(
    runs: impl IntoIterator<Item = (Prepared, Arc<dyn Backend>)>,
    allow_partial: bool,
    then: Continue,
) -> anyhow::Result<Ending> {
    let mut worst = Exit::Ok;
    for (prepared, backend) in runs {
        let task = prepared.task().to_owned();
        let under = format!("protocol {}, mode {}", prepared.protocol().name, prepared.plan().mode);
        let _log = logging::to(prepared.dir());
        let progress = Arc::new(RunProgress::default());
        let ended = prepared.run(backend, Arc::clone(&progress) as Arc<_>).await;
        // Clears the line, before anything else is printed.
        drop(progress);
        let outcome = match ended {
            Ok(outcome) => outcome,
            Err(RunError::NotWritten(error)) => {
                eprintln!("error: {error}");
                eprintln!("hint: after a repair, {then}");
                let exit = worst.worse(Exit::Incomplete);
                return Ok(Ending { exit, obstacle: Some(Obstacle::Disk) });
            }
            Err(error) => return Err(error.into()),
        };
        println!("{}", closing_line(&task, &under, &outcome));
        outcome.summary.unread.iter().for_each(|unread| println!("{task}: {unread}"));
        outcome.whole.iter().for_each(|whole| println!("{task}: {}", whole_line(whole)));
        worst = worst.worse(conclude(&outcome, allow_partial, then));
        let obstacle = match outcome.ended {
            Ended::Finished => continue,
            Ended::Interrupted => None,
            Ended::BackendDown | Ended::Unreadable | Ended::OtherModel { .. } => Some(Obstacle::Server),
        };
        return Ok(Ending { exit: worst, obstacle });
    }
    Ok(worst.into())
}

/// The line at the end of a split that was asked `under` a protocol and mode.
fn closing_line(task: &str, under: &str, outcome: &RunOutcome) -> String {
    let RunOutcome { summary, records, expected, .. } = outcome;
    let mark = if summary.complete { "" } else { "  INCOMPLETE" };
    let headline = summary.headline();
    let score = match summary.is_over_groups() {
        _ if *records == 0 || summary.n == 0 => "-".to_owned(),
        false => percent(headline.value),
        true => format!(
            "{} {}, {} over samples",
            percent(headline.value),
            headline.name,
            percent(summary.over_samples().value)
        ),
    };
    let by_agent = summary.agent_score.as_ref().map_or_else(String::new, |score| {
        format!(", by the agent's own extraction {} ({})", percent(score.value), score.fidelity.as_str())
    });
    let short = match summary.n_short_prompts {
        0 => String::new(),
        n => format!(", prompts that the server may have cut {n}"),
    };
    format!(
        "{task}: {score}{by_agent} ({under}, N {}, recorded {records} of {expected}, unparsed {}, \
         errors {}, frame loss {}{short}){mark}",
        summary.n, summary.n_unparsed, summary.n_errors, summary.n_frame_loss
    )
}

/// What a whole split would take, after a part of it.
fn whole_line(whole: &WholeTime) -> String {
    let [least, most] = [whole.least, whole.most].map(in_words);
    format!("at this rate all {} take {least} to {most} (95 %, from {} of them)", whole.answers, whole.timed)
}

/// Prints how to continue, where there is something to do.
fn conclude(outcome: &RunOutcome, allow_partial: bool, then: Continue) -> Exit {
    match &outcome.ended {
        Ended::Interrupted => {
            // A recipe says it once, at its own end.
            if then == Continue::Resume {
                eprintln!("stopped; {then}");
            }
            Exit::Interrupted
        }
        Ended::BackendDown => {
            eprintln!(
                "the server failed {} samples in a row: stopped, calls in flight were dropped",
                runner::MAX_CONSECUTIVE_API_ERRORS
            );
            say_last_error(outcome);
            let advice = advice(outcome, then);
            eprintln!("hint: {}", advice.unwrap_or_else(|| format!("repair the server, then {then}")));
            Exit::Incomplete
        }
        Ended::Unreadable => {
            eprintln!("none of the first {} replies could be read: stopped", runner::FIRST_REPLIES);
            say_last_error(outcome);
            let other = match then {
                Continue::Resume => "; other flags require a new --out",
                Continue::Repeat => "",
            };
            eprintln!("hint: repair the server, then {then}{other}");
            Exit::Incomplete
        }
        Ended::OtherModel { before, now } => {
            eprintln!(
                "the server answers as {now}, and the earlier replies of this run are of {before}: stopped"
            );
            eprintln!(
                "hint: a router or a restarted server may have changed the model: serve {before} again, then {then}; \
                 another model needs a run of its own"
            );
            Exit::Incomplete
        }
        Ended::Finished if outcome.failed > 0 && !allow_partial => {
            eprintln!("{} of {} samples failed: the run is incomplete", outcome.failed, outcome.expected);
            say_last_error(outcome);
            let again = match then {
                Continue::Resume => {
                    "--resume redoes failed model calls, missing videos and lost frames; --retry-errors also redoes other failures"
                }
                Continue::Repeat => {
                    "repeat the command: it redoes failed model calls, missing videos and lost frames; with --resume --retry-errors also other failures"
                }
            };
            advice(outcome, then).iter().for_each(|hint| eprintln!("hint: {hint}"));
            eprintln!("hint: {again}");
            Exit::Incomplete
        }
        Ended::Finished if outcome.records < outcome.expected => {
            eprintln!(
                "{} of {} samples are recorded: another program changed the journal during the run; {then}",
                outcome.records, outcome.expected
            );
            Exit::Incomplete
        }
        Ended::Finished => Exit::Ok,
    }
}

/// The remedy of the latest failure.
fn advice(outcome: &RunOutcome, then: Continue) -> Option<String> {
    let record = outcome.last_failed.as_ref()?;
    match record.failed_call() {
        Some(error) => failure::in_run(error, then),
        None => failure::of_sample(record.error.as_ref()?.class, &record.sample.task),
    }
}

/// The latest failure, which usually is that of the others.
fn say_last_error(outcome: &RunOutcome) {
    if let Some(error) = outcome.last_failed.as_ref().and_then(|record| record.error.as_ref()) {
        eprintln!("  the latest: {}: {}", error.step, error.message);
    }
}

/// Turns true on the first of these signals, with a message; the second ends the process.
pub(crate) fn stopped(
    runtime: &Runtime,
    signals: &'static [Signal],
    message: &'static str,
) -> watch::Receiver<bool> {
    let (sender, stop) = watch::channel(signals::is_stopped());
    let _inside = runtime.enter();
    // Listens before the guard says so.
    let arrivals = Arrivals::new(signals);
    let taken = SignalGuard::new(signals);
    runtime.spawn(async move {
        let _taken = taken;
        if let Ok(mut arrivals) = arrivals {
            arrivals.next().await;
            eprintln!("\n{message}");
            signals::stop();
            let _ = sender.send(true);
            arrivals.next().await;
            std::process::exit(Exit::Interrupted as i32);
        }
        // Keeps the channel open where there are no signals.
        std::future::pending::<()>().await;
    });
    stop
}
