//! `paravt-bench run`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::builder::NonEmptyStringValueParser;
use paravt_backends::RequestFlags;
use paravt_reports::terminal::counted;
use paravt_reports::{PaperNumbers, Prices};
use paravt_suite::backend::Backend;
use paravt_suite::code::CodeTool;
use paravt_suite::data::DataRoot;
use paravt_suite::evaluate::{self, Evaluation, Forecast, Prepared, RunConfig, RunError, Shard, Workspace};
use paravt_suite::frames::CachedFrames;
use paravt_suite::journal;
use paravt_suite::plan::{Channel, CropMode, RunPlan};
use paravt_suite::probe::Probe;
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{PromptMode, Protocol};
use paravt_suite::record::SampleErrorClass;
use paravt_suite::task::{Benchmark, Task as _};
use paravt_upstream::pyvision;

use crate::commands::asked;
use crate::commands::data::fetch::model_folder;
use crate::commands::protocol::ProtocolChoice;
use crate::commands::protocol::chosen::Chosen;
use crate::exit::{Exit, OrPreflight as _};
use crate::failure::Continue;
use crate::launch::{self, Ending};
use crate::registry::{BackendArgs, DataArgs, TaskFiles};
use crate::signals::Signal;

/// Flags of `run`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Splits (`paravt-bench tasks` lists them), or `all` [default: those of --task].
    #[arg(required_unless_present = "task_files")]
    tasks: Vec<String>,
    #[command(flatten)]
    files: TaskFiles,
    /// Output folder; each split gets the run directory DIR/TASK.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Name of these runs in reports [default: mode and model].
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    label: Option<String>,
    /// Row of the published table to compare these runs with, e.g. `ParaVT-8B`; the default profile is then `paper`, the
    /// default protocol that of the row [default: none].
    #[arg(long, value_name = "MODEL")]
    paper_row: Option<String>,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    protocol: PlanArgs,
    #[command(flatten)]
    asked: AskedArgs,
    #[command(flatten)]
    dispatch: DispatchArgs,
}

/// What is taken away from the samples, and how often they are asked.
#[derive(clap::Args)]
#[command(next_help_heading = "Probes and repetitions")]
struct AskedArgs {
    /// Ask the same samples with something taken away: blind (no frames), shuffle:SEED (options in another order),
    /// none-right (no option is right but `None`), freeze (the middle frame throughout), reverse (the video runs
    /// backwards) or half-frames; the report sets such a run against the one without [default: nothing].
    #[arg(long, value_name = "PROBE")]
    probe: Option<Probe>,
    /// Ask each sample N times, with --seed raised by one each time; the report shows mean, pass@k, majority and
    /// agreement [default: 1].
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,
}

/// How samples are put to the model.
#[derive(clap::Args)]
#[command(next_help_heading = "Protocol")]
pub(crate) struct PlanArgs {
    /// Profile: `release` (as the released code, quirk for quirk), `paper` (comparable to the paper's table) or `strict`
    /// (corrected) [default: strict; paper with `run --paper-row`; that of the run with `run --resume`].
    #[arg(long)]
    profile: Option<Profile>,
    /// Prompt mode; `paravt-bench protocol list` lists them [default: the protocol's: agentic_general for paravt, native
    /// for native].
    #[arg(long)]
    mode: Option<PromptMode>,
    /// Protocol, the prompt texts: native (this suite's own), paravt (the reference's, imported), nano (short texts for
    /// the miniature), another imported one, or a protocol file [default: native; that of the row with `run
    /// --paper-row`; that of the run with `run --resume`].
    #[arg(long, value_name = "NAME|FILE")]
    protocol: Option<ProtocolChoice>,
    /// How the overview (frames of the whole video) is sent [default: image; an agent's own].
    #[arg(long, value_enum)]
    channel: Option<Channel>,
    /// Frames of the overview that are sampled here, evenly spaced; an odd number is rounded to an even one [default: 64].
    #[arg(long, value_name = "N")]
    nframes: Option<usize>,
    /// Most kB of a frame as it is sent, for servers that limit images or requests: one with more is JPEG of a lower
    /// quality, down to 25 [default: no limit].
    #[arg(long, value_name = "KB", value_parser = clap::value_parser!(u32).range(1..))]
    max_image_kb: Option<u32>,
    /// Turns in which the model may call the tool, before an answer is forced; for modes with the tool [default: 3].
    #[arg(long, value_name = "N")]
    max_turns: Option<usize>,
    /// Tool calls to run per turn; further calls are dropped and counted. 0 runs all, 1 is sequential dispatch [default:
    /// 5].
    #[arg(long, value_name = "N")]
    max_parallel: Option<usize>,
    /// What a tool call returns for its window of the video [default: frames].
    #[arg(long, value_enum)]
    crop: Option<CropMode>,
    /// Maximum tokens of one reply [default: the protocol's; 2048 in paravt and native].
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// Sampling temperature; 0 is greedy [default: 0; an agent's own].
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f64>,
    /// Seed sent with every request [default: none is sent].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Which samples, how many at once.
#[derive(clap::Args)]
#[command(next_help_heading = "Samples")]
pub(crate) struct DispatchArgs {
    /// Run only the first N samples of each split [default: all].
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Run only the samples with these uids or ids, separated by commas [default: all].
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    ids: Option<Vec<String>>,
    /// Run only shard I of N, counted from 1, e.g. 2/8; `paravt-bench merge` joins shards [default: all samples].
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Samples in flight at once [default: 16].
    #[arg(long, value_name = "N")]
    concurrency: Option<usize>,
    /// Continue the runs in the output folder, with more samples if --limit or --ids now name more, and redo samples
    /// that failed from outside causes (model calls, missing videos, lost frames). Without this flag a directory that
    /// holds a run is an error.
    #[arg(long)]
    resume: bool,
    /// With --resume: classes of failed samples to redo, separated by commas; all classes without a value [default:
    /// video_missing,frame_loss,api,api_in_loop,code_tool].
    #[arg(long, value_name = "CLASS", value_delimiter = ',', num_args = 0.., require_equals = true, requires = "resume")]
    retry_errors: Option<Vec<SampleErrorClass>>,
    /// Print the number of calls and tokens and the first sample's texts; send nothing.
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: TOML file with prices of a million tokens by model, as of `report --prices`; adds what the run may cost
    /// [default: none].
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    prices: Option<PathBuf>,
    /// Seconds that decoding one video may take for a sample, which then has lost its frames [default: 600].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    decode_timeout: Option<u64>,
    /// Interpreter for protocols whose model writes Python, e.g. pyvision-video: it runs in a jail and needs decord,
    /// matplotlib, numpy and pillow [default: none, such a protocol is refused].
    #[arg(long, value_name = "PATH")]
    code_python: Option<PathBuf>,
    /// Exit with code 0 instead of 4 if samples failed.
    #[arg(long)]
    allow_partial: bool,
}

impl DispatchArgs {
    /// Nothing is to be sent.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Samples of each split that are run at most.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// Only a shard is to be run.
    pub(crate) fn is_shard(&self) -> bool {
        self.shard.is_some()
    }

    /// Frames of this process, within the time that a video may take.
    pub(crate) fn frames(&self) -> CachedFrames {
        self.decode_timeout
            .map_or_else(CachedFrames::default, |seconds| CachedFrames::within(Duration::from_secs(seconds)))
    }

    /// That there is an interpreter where the protocol runs code of the model, and that it works in a jail.
    pub(crate) fn check_code_tool(&self, protocol: &Protocol) -> anyhow::Result<()> {
        if protocol.code().is_none() || self.dry_run {
            return Ok(());
        }
        let missing = || RunError::NoCodeTool { protocol: protocol.name.clone() };
        let python = self.code_python.as_ref().ok_or_else(missing)?;
        pyvision::Tool::new(python).map(drop).context("--code-python").or_preflight()
    }

    /// Who runs the code of the model: none where no protocol has code, or nothing is sent.
    fn code_tool(&self, runs: &[Evaluation<'_>]) -> anyhow::Result<Option<Arc<dyn CodeTool>>> {
        let wanted = runs.iter().any(|run| run.protocol.code().is_some()) && !self.dry_run;
        let Some(python) = self.code_python.as_ref().filter(|_| wanted) else { return Ok(None) };
        let tool = pyvision::Tool::new(python).context("--code-python").or_preflight()?;
        Ok(Some(Arc::new(tool)))
    }

    /// The configuration with what these flags set.
    pub(crate) fn applied_to(&self, config: RunConfig) -> RunConfig {
        let classes = |given: &Vec<SampleErrorClass>| {
            if given.is_empty() { SampleErrorClass::ALL.into() } else { given.clone() }
        };
        RunConfig {
            limit: self.limit.or(config.limit),
            ids: self.ids.clone().or(config.ids),
            shard: self.shard.or(config.shard),
            concurrency: self.concurrency.or(config.concurrency),
            resume: self.resume || config.resume,
            retry_errors: self.retry_errors.as_ref().map(classes).or(config.retry_errors),
            ..config
        }
    }
}

impl PlanArgs {
    pub(crate) fn config(&self, request: &RequestFlags) -> anyhow::Result<RunConfig> {
        Ok(RunConfig {
            profile: self.profile,
            mode: self.mode.clone(),
            channel: self.channel,
            nframes: self.nframes,
            max_image_kb: self.max_image_kb,
            max_turns: self.max_turns,
            max_parallel: self.max_parallel,
            crop: self.crop,
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            seed: self.seed,
            dialect: request.dialect(),
            request: request.settings()?,
            ..RunConfig::default()
        })
    }

    /// Says which of the flags the plan does not follow.
    pub(crate) fn warn(&self, plan: &RunPlan, protocol: &Protocol) {
        let say = |flag: &str, why: &str| launch::warn(&format!("{flag}: {why}"));
        match (self.nframes, plan.overview_frames(protocol)) {
            (Some(_), None) => say("--nframes", "changes nothing, since no overview is sampled here"),
            (Some(given), Some(sent)) if given != sent => {
                say(
                    &format!("--nframes {given}"),
                    &format!("{sent} frames are sent, since they stand in pairs"),
                );
            }
            _ => {}
        }
        let sends_none = plan.channel == Channel::Video || protocol.code().is_some();
        if self.max_image_kb.is_some() && sends_none {
            say("--max-image-kb", "changes nothing, since no frame is encoded here");
        }
        let has_tool = protocol.agent.is_some() || protocol.offers_tool(&plan.mode);
        let shows_no_result = protocol.agent.is_none() && plan.max_turns == 0;
        for (flag, is_given) in [
            ("--max-turns", self.max_turns.is_some()),
            ("--max-parallel", self.max_parallel.is_some()),
            ("--crop", self.crop.is_some()),
        ] {
            if is_given && !has_tool {
                say(flag, &format!("changes nothing, since mode {} offers no tool", plan.mode));
            } else if is_given && shows_no_result && flag != "--max-turns" {
                say(
                    flag,
                    "changes no answer, since with --max-turns 0 no call's result is shown to the model",
                );
            }
        }
    }

    /// The protocol that `--protocol` names, else the suite's own for these tasks.
    pub(crate) fn chosen(&self, tasks: &[&Benchmark]) -> anyhow::Result<Chosen> {
        Chosen::by_flag(self.protocol.as_ref(), tasks)
    }
}

/// The protocol of the runs, which those of the output folder and the row have where no flag names it.
fn chosen(args: &Args, wanted: &[&Benchmark]) -> anyhow::Result<Chosen> {
    if args.protocol.protocol.is_none() {
        let dirs: Vec<PathBuf> = wanted.iter().map(|task| args.out.join(&task.spec().name)).collect();
        if args.dispatch.resume
            && let Some(chosen) = Chosen::of_runs(&dirs)?
        {
            return Ok(chosen);
        }
        if let Some(row) = &args.paper_row {
            return Chosen::of_row(row);
        }
    }
    args.protocol.chosen(wanted)
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let wanted = args.files.and(&args.tasks)?;
    args.backend.check_run()?;
    let config = args.protocol.config(&args.backend.request)?;
    if let Some(row) = &args.paper_row {
        let paper = PaperNumbers::embedded()?;
        wanted
            .iter()
            .try_for_each(|task| paper.value(row, &task.spec().name).map(drop))
            .context("--paper-row")?;
    }
    let chosen = chosen(args, &wanted)?;
    let protocol = &chosen.bound.protocol;
    let AskedArgs { probe, repeat } = args.asked;
    let named = RunConfig { label: args.label.clone(), paper_row: args.paper_row.clone(), ..config };
    let config = args.dispatch.applied_to(RunConfig { probe, repeat, ..named });
    ensure!(
        args.dispatch.code_python.is_none() || protocol.code().is_some(),
        "--code-python: protocol {} runs no code of the model; leave it out",
        protocol.name
    );
    // With all flags, before anything is read or asked.
    let plan = config.plan(protocol)?;
    args.protocol.warn(&plan, protocol);
    launch::warn_without_effect(&args.backend, &plan);
    let is_new = |task: &&Benchmark| journal::read_manifest(&args.out.join(&task.spec().name)).is_err();
    if args.dispatch.resume && wanted.iter().all(is_new) {
        launch::warn(&format!("--resume: {} holds none of these runs yet; they begin", args.out.display()));
    }
    let root = args.data.root_of(&wanted)?;
    let runs: Vec<Evaluation<'_>> = wanted
        .into_iter()
        .map(|task| {
            let name = &task.spec().name;
            let config = match args.backend.recorded(name)? {
                Some(recorded) => sampled_as(config.clone(), &recorded)?,
                None => config.clone(),
            };
            Ok(Evaluation::new(task, config, chosen.bound.clone(), args.out.join(name)))
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(execute(&runs, &chosen, root, &args.backend, &args.dispatch, Continue::Resume)?.exit)
}

/// The configuration with the sampling of a recorded run, whose answers were drawn so.
fn sampled_as(config: RunConfig, recorded: &RunPlan) -> anyhow::Result<RunConfig> {
    let given = [
        ("--temperature", config.temperature.is_some_and(|given| given != recorded.temperature)),
        ("--seed", config.seed.is_some() && config.seed != recorded.seed),
        ("--max-tokens", config.max_tokens.is_some_and(|given| given != recorded.max_tokens)),
        ("settings of requests", !config.request.is_empty() && config.request != recorded.request),
    ];
    if let Some((flag, _)) = given.iter().find(|(_, is_other)| *is_other) {
        bail!(
            "{flag}: --backend replay returns answers as they were drawn, and these were drawn otherwise; leave it out"
        );
    }
    Ok(RunConfig {
        temperature: Some(recorded.temperature),
        seed: recorded.seed,
        max_tokens: Some(recorded.max_tokens),
        request: recorded.request.clone(),
        ..config
    })
}

/// Runs several splits on the backend that the flags name.
pub(crate) fn execute(
    runs: &[Evaluation<'_>],
    chosen: &Chosen,
    root: DataRoot,
    backend: &BackendArgs,
    dispatch: &DispatchArgs,
    then: Continue,
) -> anyhow::Result<Ending> {
    let backends = backend.open(model_folder, launch::note);
    let start = async |run: &Prepared| backends.build(run.task(), Some(run.plan())).await.or_preflight();
    let workspace = launch::workspace(root, backend.gpus());
    let code = dispatch.code_tool(runs)?;
    let workspace = Workspace { frames: Arc::new(dispatch.frames()), code, ..workspace };
    execute_on(runs, chosen, workspace, start, dispatch, then)
}

/// Runs several splits one after the other, each on the backend that `start` gives it; the worst exit code counts.
pub(crate) fn execute_on(
    runs: &[Evaluation<'_>],
    chosen: &Chosen,
    mut workspace: Workspace,
    start: impl AsyncFn(&Prepared) -> anyhow::Result<Arc<dyn Backend>>,
    dispatch: &DispatchArgs,
    then: Continue,
) -> anyhow::Result<Ending> {
    let runtime = launch::runtime()?;
    if dispatch.dry_run {
        let prices = dispatch.prices.as_deref().map(Prices::read).transpose()?;
        for run in runs {
            let forecast = evaluate::forecast(run, &workspace)?;
            forecast.warnings.iter().for_each(|warning| launch::warn(warning));
            print_forecast(run, chosen, &forecast, prices.as_ref());
        }
        return Ok(Exit::Ok.into());
    }
    workspace.stop = launch::stopped(
        &runtime,
        &[Signal::Interrupt],
        "stopping after the samples in flight; press Ctrl-C again to abort them (completed samples are saved)",
    );
    let prepared = launch::prepare(runs, &workspace)?;
    runtime.block_on(async {
        let mut engines = Vec::new();
        for run in &prepared {
            // One for each: a plan that its backend cannot honour is an error before the first split runs.
            engines.push(start(run).await?);
        }
        launch::note_text(&asked::block(&prepared, &engines, chosen, &workspace.data));
        launch::warn_of(&prepared);
        launch::run_all(prepared.into_iter().zip(engines), dispatch.allow_partial, then).await
    })
}

/// What a run may cost, for each model of the prices.
fn cost_lines(forecast: &Forecast, prices: &Prices) -> Vec<String> {
    let Forecast { prompt_tokens: (prompt, most_prompt), completion_tokens: (reply, most_reply), .. } =
        *forecast;
    let least = prices.of_tokens([prompt, reply]);
    let most = most_prompt
        .zip(most_reply)
        .map(|(prompt, reply)| prices.of_tokens([prompt, reply]).collect::<Vec<_>>());
    let range = |(index, (model, least)): (usize, (&str, f64))| {
        let most = match &most {
            Some(most) => {
                format!("to {:.2} {}, every turn and reply used to its limit", most[index].1, prices.currency)
            }
            None => format!("{} or more: nothing limits the turns", prices.currency),
        };
        format!("cost by {model}: {least:.2} {most}")
    };
    least.enumerate().map(range).collect()
}

/// `--dry-run`: what would be sent.
fn print_forecast(run: &Evaluation<'_>, chosen: &Chosen, forecast: &Forecast, prices: Option<&Prices>) {
    let Forecast { plan, samples, .. } = forecast;
    let calls = match forecast.calls {
        (fewest, Some(most)) => format!("{fewest} to {most}"),
        (fewest, None) => format!("{fewest} or more (no limit on the tool calls of a turn)"),
    };
    println!("{}: {} into {}", run.task.spec().name, counted(*samples, "sample"), run.dir.display());
    println!("  protocol {} ({})", chosen.describe(), forecast.protocol_hash);
    println!(
        "  profile {}, mode {}, crop {}, at most {} tokens a turn",
        plan.profile(),
        plan.mode,
        format!("{:?}", plan.crop).to_lowercase(),
        plan.max_tokens
    );
    if let Some(probe) = plan.probe {
        println!("  probe {probe}");
    }
    if plan.repeat > 1 {
        println!("  each sample {} times", plan.repeat);
    }
    println!("  model calls: {calls}");
    println!(
        "  first turns: about {} text tokens, {} visual tokens in {} frames",
        forecast.text_tokens, forecast.visual_tokens, forecast.frames
    );
    for line in prices.into_iter().flat_map(|prices| cost_lines(forecast, prices)) {
        println!("  {line}");
    }
    if forecast.without_frames > 0 {
        println!(
            "  {} without usable frames (missing, damaged or too short video)",
            counted(forecast.without_frames, "sample")
        );
    }
    println!("\n--- system ---\n{}", forecast.system);
    println!("--- user (sample {}) ---\n{}\n", forecast.first_uid, forecast.first_user);
}
