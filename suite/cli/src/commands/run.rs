//! `paravt-bench run`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use paravt_suite::frames::CachedFrames;
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{PromptMode, Protocol};
use paravt_suite::record::SampleErrorClass;
use paravt_suite::run::{Channel, CropMode, RunPlan};
use paravt_suite::runner::Ended;
use paravt_suite::settings::ToolDialect;
use paravt_suite::task::Task as _;

use crate::commands::protocol::{ProtocolChoice, choose};
use crate::exit::{Exit, OrPreflight as _};
use crate::launch::{self, Common, Launch, Select};
use crate::registry::{self, BackendArgs, DataArgs};
use crate::request::RequestArgs;

/// Flags of `run`.
#[derive(clap::Args)]
pub struct Args {
    /// Splits to run (`tasks` lists them), or `all`.
    #[arg(required = true)]
    tasks: Vec<String>,
    /// Folder for the run directories, DIR/TASK for each split.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// What reports call these runs [default: mode and model].
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    protocol: PlanArgs,
    #[command(flatten)]
    dispatch: DispatchArgs,
}

/// How samples are put to the model.
#[derive(clap::Args)]
#[command(next_help_heading = "Protocol")]
pub struct PlanArgs {
    /// Rules: `release` (the released code, quirk for quirk), `paper` (the only one to hold beside
    /// the paper's table) or `strict` (corrected).
    #[arg(long, default_value = "paper")]
    profile: Profile,
    /// Prompt mode: direct, reasoning, agentic_general, agentic_minimal or native [default:
    /// agentic_general with imported texts, native without].
    #[arg(long)]
    mode: Option<PromptMode>,
    /// Where the prompt texts come from.
    #[arg(long, default_value = "auto")]
    protocol: ProtocolChoice,
    /// How the overview, the frames of the whole video, reaches the model.
    #[arg(long, value_enum, default_value = "image")]
    channel: ChannelArg,
    /// Frames of the overview on the image channel, evenly spaced; rounded to an even number.
    #[arg(long, default_value_t = 64, value_name = "N")]
    nframes: usize,
    /// Turns in which the model may call the tool before it is made to answer (agentic modes).
    #[arg(long, default_value_t = 3, value_name = "N")]
    max_turns: usize,
    /// Tool calls that are run per turn, the others are dropped and counted; 0 runs all, 1 is
    /// sequential dispatch.
    #[arg(long, default_value_t = 5, value_name = "N")]
    max_parallel: usize,
    /// What a tool call returns of its window of the video.
    #[arg(long, value_enum, default_value = "frames")]
    crop: CropArg,
    /// Most tokens of one reply [default: the protocol's, 2048 in both].
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u32>,
    /// Sampling temperature; 0 is greedy.
    #[arg(long, default_value_t = 0.0, value_name = "T")]
    temperature: f64,
    /// Seed sent with every request [default: none is sent].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Which samples, how many at once.
#[derive(clap::Args)]
#[command(next_help_heading = "Samples")]
pub struct DispatchArgs {
    /// Only the first N samples of each split [default: all].
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Only the samples of these uids or ids, separated by commas [default: all].
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    ids: Option<Vec<String>>,
    /// Only shard I of N, counted from 1, e.g. 2/8; `merge` joins shards [default: all samples].
    #[arg(long, value_parser = parse_shard, value_name = "I/N")]
    shard: Option<(usize, usize)>,
    /// Samples that are worked on at once.
    #[arg(long, default_value_t = 16, value_name = "N")]
    concurrency: usize,
    /// Continue the run in the run directory; samples that failed for a cause outside the run (model
    /// calls, missing videos, lost frames) are run again. Without it, a directory that holds a run is an
    /// error.
    #[arg(long)]
    resume: bool,
    /// With --resume: run failed samples of these classes again, separated by commas; without a value,
    /// all failed ones [default: video_missing,frame_loss,api,api_in_loop].
    #[arg(long, value_name = "CLASS", value_delimiter = ',', num_args = 0.., require_equals = true, requires = "resume")]
    retry_errors: Option<Vec<SampleErrorClass>>,
    /// Print how many calls and tokens there would be, and the first sample's texts; send nothing.
    #[arg(long)]
    dry_run: bool,
    /// Exit with 0 instead of 4 when samples failed.
    #[arg(long)]
    allow_partial: bool,
}

impl DispatchArgs {
    /// Nothing is to be sent.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Classes of errors that are run again, where they were given.
    fn retry(&self) -> Option<Vec<SampleErrorClass>> {
        let given = self.retry_errors.clone()?;
        Some(if given.is_empty() { SampleErrorClass::ALL.into() } else { given })
    }
}

/// See [`Channel`].
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum ChannelArg {
    /// Frames sampled here, sent as JPEG images.
    Image,
    /// The file by a file:// URL that the server must be able to read; the server samples.
    Video,
}

/// See [`CropMode`].
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum CropArg {
    /// Its frames, at most 16, one for each second.
    Frames,
    /// A text summary of its frames by a sub-agent, the same model in a conversation of its own.
    Subagent,
}

fn parse_shard(text: &str) -> Result<(usize, usize), String> {
    let (index, count) = text.split_once('/').ok_or("write it as I/N, e.g. 2/8")?;
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("expected a number, got `{text}`"));
    let (index, count) = (number(index)?, number(count)?);
    if index == 0 || index > count {
        return Err(format!("shard must be between 1 and {count}, got `{text}`"));
    }
    Ok((index - 1, count))
}

impl PlanArgs {
    /// The flags as one plan, and the texts that go with it.
    pub fn plan(&self, request: &RequestArgs) -> anyhow::Result<(RunPlan, Arc<Protocol>)> {
        let protocol = choose(self.protocol, self.mode)?;
        let native = protocol.name == "native";
        let mode = self.mode.unwrap_or(if native { PromptMode::Native } else { PromptMode::AgenticGeneral });
        ensure!(
            protocol.system.contains_key(&mode),
            "protocol {} has no mode {mode}; it has {}",
            protocol.name,
            protocol.system.keys().map(|mode| mode.as_str()).collect::<Vec<_>>().join(", ")
        );
        ensure!(self.nframes >= 2, "--nframes: at least 2");
        ensure!(self.temperature >= 0.0 && self.temperature.is_finite(), "--temperature: 0 or more");
        ensure!(
            request.dialect() != ToolDialect::Native || !mode.is_agentic() || protocol.chat_tools.is_some(),
            "--tool-dialect native: protocol {} defines no tool for the chat API; use --tool-dialect auto, or \
             --protocol native",
            protocol.name
        );
        let plan = RunPlan {
            profile: self.profile,
            switches: self.profile.switches(),
            mode,
            channel: match self.channel {
                ChannelArg::Image => Channel::Image,
                ChannelArg::Video => Channel::Video,
            },
            nframes: self.nframes,
            max_turns: self.max_turns,
            max_parallel: self.max_parallel,
            crop: match self.crop {
                CropArg::Frames => CropMode::Frames,
                CropArg::Subagent => CropMode::Subagent,
            },
            max_tokens: self.max_tokens.unwrap_or(protocol.max_tokens),
            temperature: self.temperature,
            seed: self.seed,
            dialect: request.dialect(),
            request: request.settings()?,
        };
        Ok((plan, protocol))
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let wanted = registry::select_tasks(&args.tasks)?;
    let (plan, protocol) = args.protocol.plan(args.backend.request())?;
    let launches: Vec<Launch<'_>> = wanted
        .into_iter()
        .map(|task| Launch {
            dir: args.out.join(&task.spec().name),
            task,
            plan: plan.clone(),
            protocol: Arc::clone(&protocol),
            label: args.label.clone(),
            paper_row: None,
        })
        .collect();
    execute(&launches, &args.data, &args.backend, &args.dispatch)
}

/// Runs several splits one after the other; the worst exit code counts.
pub fn execute(
    launches: &[Launch<'_>],
    data: &DataArgs,
    backend: &BackendArgs,
    dispatch: &DispatchArgs,
) -> anyhow::Result<Exit> {
    let root = data.root()?;
    let select = Select { limit: dispatch.limit, ids: dispatch.ids.clone(), shard: dispatch.shard };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let (sender, stop) = tokio::sync::watch::channel(false);
    let common = Common {
        root: &root,
        select: &select,
        gpus: backend.gpus(),
        concurrency: dispatch.concurrency,
        resume: dispatch.resume,
        retry: dispatch.retry(),
        allow_partial: dispatch.allow_partial,
        stop,
        frames: Arc::new(CachedFrames::default()),
    };
    if dispatch.dry_run {
        for launch in launches {
            launch::dry_run(launch, &common)?;
        }
        return Ok(Exit::Ok);
    }
    runtime.spawn(stop_on_ctrl_c(sender));
    let prepared = launches.iter().map(|launch| launch::prepare(launch, &common));
    let prepared = prepared.collect::<anyhow::Result<Vec<_>>>()?;
    runtime.block_on(async {
        let mut engines = Vec::new();
        for launch in launches {
            // One for each: a plan that its backend cannot honour is an error before the first split runs.
            engines.push(backend.build(&launch.task.spec().name, Some(&launch.plan)).await.or_preflight()?);
        }
        let mut worst = Exit::Ok;
        for (prepared, engine) in prepared.into_iter().zip(engines) {
            let (exit, ended) = launch::run(prepared, &common, engine).await?;
            worst = worst.worse(exit);
            if ended != Ended::Finished {
                break;
            }
        }
        Ok(worst)
    })
}

/// The first Ctrl-C lets samples in flight finish, the second ends the process.
pub async fn stop_on_ctrl_c(sender: tokio::sync::watch::Sender<bool>) {
    if tokio::signal::ctrl_c().await.is_ok() {
        eprintln!("\nfinishing samples in flight; Ctrl-C again to drop them (nothing finished is lost)");
        let _ = sender.send(true);
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(Exit::Interrupted as i32);
        }
    }
    // Keeps the channel open where there are no signals.
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::parse_shard;

    #[test]
    fn shards_are_counted_from_one() {
        assert_eq!(parse_shard("1/8"), Ok((0, 8)));
        assert_eq!(parse_shard("8/8"), Ok((7, 8)));
        for wrong in ["0/8", "9/8", "x/8", "3", "1/0"] {
            assert!(parse_shard(wrong).is_err(), "{wrong}");
        }
    }
}
