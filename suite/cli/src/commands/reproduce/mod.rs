//! `paravt-bench reproduce`: runs a recipe.

mod cluster;
mod host;
mod notify;
mod progress;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::{Context as _, bail, ensure};
use clap::CommandFactory as _;
use paravt_backends::BackendKind;
use paravt_fetch::FetchError;
use paravt_reproduce::driver::{self, Options, Outcome};
use paravt_reproduce::graph::Stage;
use paravt_reproduce::servers::Engine;
use paravt_reproduce::{Cards, GraphOptions, Recipe};
use paravt_train::Compute;

use crate::command_line;
use crate::commands::protocol::ProtocolChoice;
use crate::commands::run::DispatchArgs;
use crate::engines;
use crate::exit::{Exit, OrPreflight as _};
use crate::failure;
use crate::launch;
use crate::limits;
use crate::logging;
use crate::registry::{BackendArgs, DataArgs};
use crate::signals;
use cluster::{ClusterArgs, Launcher};
use host::Host;
use notify::Notify;
use progress::StageProgress;

/// Printed below the flags; lines of at most 80 columns, since clap breaks them without their indent.
const RECIPES: &str = "\
Recipes:
  paravt-nano        generate data, train and evaluate a small model; no network,
                     no GPU
  paravt-nano-study  the same with longer trainings; --full adds its variants
  paravt-nano-base   train the checkpoint that paravt-nano starts from
  paravt-paradox     what GRPO and PARA-GRPO make of a fragile format and a
                     strong tool prior in the same small model
  paravt-paradox-release
                     the same under defects of the released trainer
  pyvision-tool-reward
                     PyVision-RL's training with its reward of calls and without
  paravt-8b          evaluate the published model, with and without tools
  paravt-8b-train    SFT and PARA-GRPO by the release's programs on eight GPUs,
                     then the evaluation
  paravt-8b-grpo, paravt-8b-grpo-lost, paravt-8b-anchoring, paravt-8b-gating
                     the same with a variant of the training
  paravt-8b-sft, paravt-8b-sequential
                     evaluate without reinforcement learning, or with one call at
                     a time
  table1, table2     evaluate all rows of a table that need no training, each
                     model served once; --rows takes some
  qwen2.5-vl-7b, video-r1-7b, videochat-r1-7b, videorft-7b, time-r1-7b,
  rewatch-r1-7b, video-thinker-7b, qwen3-vl-8b, conan-7b, longvt-rft-7b,
  videozoomer-7b, sage-7b
                     evaluate another row of the published table
  authors            evaluate models as their authors run them, and Qwen's by
                     their cards; its rows are recipes too (authors --plan)
  pyvision-video-7b, pyvision-image-7b
                     evaluate a model that writes code over its video
                     (VSI-Bench) or image (V*, HR-Bench); needs --code-python

Stages are cached by a hash of their inputs: repeat a command to continue it.

Examples:
  paravt-bench reproduce paravt-nano
  paravt-bench reproduce paravt-8b --plan
  paravt-bench reproduce paravt-8b --out runs/8b --limit 20";

/// Flags of `reproduce`.
#[derive(clap::Args)]
#[command(mut_arg("from", |from| from.value_name("RUN|STAGE").help(FROM)), after_long_help = RECIPES)]
pub(crate) struct Args {
    /// Recipe: one of those listed below, or a TOML file.
    recipe: String,
    /// The recipe, read once: threads are settled by its kind before the command runs.
    #[arg(skip)]
    read: OnceLock<Recipe>,
    /// Print the stages with hours, sizes and deviations and run nothing; with -v commands and folders, with --only those
    /// stages and the files that they generate.
    #[arg(long)]
    plan: bool,
    /// With --plan: also whether the servers fit on these GPUs, with which flags, and about how long the evaluations take
    /// there, e.g. 8xH100, 4xL40S, H200 [default: none].
    #[arg(long, value_name = "NxCARD", requires = "plan")]
    cards: Option<Cards>,
    /// Output folder [default: runs/RECIPE].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Stop after this stage [default: run all].
    #[arg(long, value_name = "STAGE")]
    until: Option<String>,
    /// Run only these stages, or the evaluations of these splits, separated by commas; the stages that they depend on
    /// must be done [default: all].
    #[arg(long, value_delimiter = ',', value_name = "STAGE|TASK")]
    only: Vec<String>,
    /// Of a recipe of several rows, such as table1, run these in this order, separated by commas [default: all].
    #[arg(long, value_delimiter = ',', value_name = "ROW")]
    rows: Vec<String>,
    /// Redo these stages, or the evaluations of these splits, and what builds on them, as far as --until; the earlier
    /// results are moved to OUT/discarded [default: none].
    #[arg(long, value_delimiter = ',', value_name = "STAGE|TASK")]
    redo: Vec<String>,
    /// Redo hours of work without being asked to confirm it.
    #[arg(long)]
    yes: bool,
    /// Shell command to run when a stage fails and when the recipe ends; it gets PARAVT_RECIPE, PARAVT_OUT,
    /// PARAVT_OUTCOME (complete, incomplete, failed, interrupted), PARAVT_STAGE and PARAVT_MESSAGE [default: none].
    #[arg(long, value_name = "COMMAND")]
    notify: Option<String>,
    /// Serving engine: vllm, sglang, transformers or candle [default: the recipe's].
    #[arg(long = "engine", id = "serving", value_name = "ENGINE", value_parser = Engine::named)]
    serving: Option<Engine>,
    /// Start reinforcement learning from the published SFT model instead of training one.
    #[arg(long)]
    skip_sft: bool,
    /// Train even if media of the training rows are missing or do not open; the released loaders skip such rows.
    #[arg(long)]
    allow_missing: bool,
    /// Delete each downloaded archive after all its members are unpacked and verified.
    #[arg(long)]
    delete_archives: bool,
    /// Continue even if the preflight refuses this machine.
    #[arg(long)]
    skip_preflight: bool,
    /// Serve with the engine on PATH instead of installing one from the release's lock file.
    #[arg(long)]
    own_engine: bool,
    /// Keep the results of stages that another version of this program made, instead of redoing them.
    #[arg(long)]
    keep_stages: bool,
    /// Protocol of a served recipe: paravt (imported), native (not comparable to the paper), nano, or a protocol file.
    #[arg(long, default_value = "paravt", value_name = "NAME|FILE")]
    protocol: ProtocolChoice,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    nano: NanoArgs,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    dispatch: DispatchArgs,
}

/// Help of the flag `--from`, which two parts of the command read.
const FROM: &str = "Stage to redo, with all stages that build on it; with --backend replay, the run directory whose answers \
are returned [default: none; replay needs one]";

/// Flags of the embedded recipes.
#[derive(clap::Args)]
#[command(next_help_heading = "Embedded recipes (paravt-nano, paravt-paradox)")]
pub(crate) struct NanoArgs {
    /// Seed of data and training.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Number of seeds, counted up from --seed [default: 1; 3 with --full].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    seeds: Option<u8>,
    /// Run all comparisons of the recipe, with variants of the training and three seeds; one to two hours.
    #[arg(long)]
    full: bool,
    /// Make everything as small as it gets: shows in a minute or two that all stages run; its numbers mean nothing.
    #[arg(long)]
    small: bool,
}

impl Args {
    /// Whether a model is trained in this process; `false` for a recipe that cannot be read, whose error `run` gives.
    pub(crate) fn trains(&self) -> bool {
        !self.plan && self.recipe().is_ok_and(Recipe::is_in_process)
    }

    /// The stage that `--from` names; with `--backend replay` it names a recorded run.
    fn stage(&self) -> Option<&str> {
        let from = self.backend.replay.from.as_deref().and_then(Path::to_str);
        from.filter(|_| self.backend.backend != BackendKind::Replay)
    }

    fn recipe(&self) -> anyhow::Result<&Recipe> {
        if let Some(recipe) = self.read.get() {
            return Ok(recipe);
        }
        let mut recipe = Recipe::load(&self.recipe)?;
        if recipe.is_embedded() && self.nano.small {
            recipe = recipe.small();
        }
        Ok(self.read.get_or_init(|| recipe))
    }

    fn options(&self, recipe: &Recipe, compute: &Compute) -> GraphOptions {
        let name = Path::new(&self.recipe).file_stem().unwrap_or_default();
        let out = self.out.clone().unwrap_or_else(|| Path::new("runs").join(name));
        let seeds = self.nano.seeds.unwrap_or(if self.nano.full { 3 } else { 1 });
        let seeds = (0..seeds.into()).map_while(|number| self.nano.seed.checked_add(number)).collect();
        // What another device or number type made is kept apart.
        let stages = match compute.to_string() {
            name if name == Compute::cpu().to_string() => "stages".to_owned(),
            name => format!("stages-{name}"),
        };
        let selection =
            if recipe.is_in_process() { serde_json::Value::Null } else { host::selection(self, None) };
        GraphOptions {
            out,
            stages,
            seeds,
            full: self.nano.full,
            selection,
            rows: self.rows.clone(),
            limit: self.dispatch.limit().filter(|_| !self.dispatch.is_shard()),
            protocol: Some(&self.protocol).filter(|choice| !choice.is_imported()).map(ProtocolChoice::name),
            backend: self.backend.own(),
            model: self.backend.model().map(ToOwned::to_owned),
            gpus: gpus(),
            own_engine: self.own_engine,
            engine: self.serving,
            environment: self.data.environment(),
            skip_sft: self.skip_sft,
            allow_missing: self.allow_missing,
            delete_archives: self.delete_archives,
        }
    }
}

/// The GPUs of this process, as `CUDA_VISIBLE_DEVICES` names them.
pub(crate) fn gpus() -> Vec<String> {
    let count = paravt_devices::cuda().map(|cuda| cuda.gpus.len()).unwrap_or_default();
    let named = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let named: Vec<String> = named.split(',').map(|name| name.trim().to_owned()).collect();
    let name = |number: usize| named.get(number).filter(|name| !name.is_empty()).cloned();
    (0..count).map(|number| name(number).unwrap_or_else(|| number.to_string())).collect()
}

/// Whether the disk has filled up with results. A download asks for room before it begins.
fn is_full(error: &anyhow::Error) -> bool {
    let is_full =
        |error: &std::io::Error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let is_download = error.downcast_ref::<FetchError>().is_some();
    !is_download && error.chain().any(|cause| cause.downcast_ref().is_some_and(is_full))
}

/// Why an embedded recipe reads no flag of a server or of a served model.
pub(crate) const EMBEDS: &str = "an embedded recipe trains and asks its own model in this process";

/// All flags that an embedded recipe reads, by their ids.
const EMBEDDED: [&str; 22] = [
    "plan", "out", "until", "only", "redo", "from", "yes", "notify", "keep_stages", "seed", "seeds", "full",
    "small", "launcher", "device", "dtype", "decode_timeout", "allow_partial", "dry_run", "verbose", "quiet",
    "color",
];

/// Flags of embedded recipes, of jobs, of the servers that a recipe starts and of training, by their ids.
const NANO: [&str; 4] = ["seed", "seeds", "full", "small"];
const JOBS: [&str; 4] = ["shards", "node_gpus", "sbatch_option", "cpu_option"];
const SERVERS: [&str; 2] = ["serving", "own_engine"];
const TRAINING: [&str; 2] = ["skip_sft", "allow_missing"];

/// Refuses flags, by their ids, that this command would ignore.
fn refuse(is_ignored: impl Fn(&str) -> bool, why: &str) -> anyhow::Result<()> {
    let given = command_line::given(&crate::Cli::command(), std::env::args_os());
    match given.into_iter().find(|(id, _)| is_ignored(id)) {
        Some((_, flag)) => bail!("{flag} changes nothing here: {why}; leave it out"),
        None => Ok(()),
    }
}

/// Refuses what a recipe would ignore.
fn check_flags(args: &Args, recipe: &Recipe) -> anyhow::Result<()> {
    if args.cluster.launcher == Launcher::Local {
        if recipe.is_embedded() {
            refuse(|id| !EMBEDDED.contains(&id), EMBEDS)?;
        }
        refuse(|id| JOBS.contains(&id), "it is for the jobs of --launcher slurm")?;
    }
    if !recipe.is_embedded() {
        refuse(|id| NANO.contains(&id), "it is for the embedded recipes (paravt-nano, paravt-paradox)")?;
    }
    if recipe.has_rows() {
        let why = format!("{} asks a model for each row; take the recipe of the row", args.recipe);
        refuse(|id| ["model", "base_url", "backend"].contains(&id), &why)?;
    } else {
        refuse(|id| id == "rows", &format!("{} is one row", args.recipe))?;
    }
    if !recipe.is_in_process() && !recipe.is_launched() {
        refuse(|id| TRAINING.contains(&id), &format!("{} trains nothing", args.recipe))?;
        if let Some(own) = args.backend.own() {
            args.backend.check()?;
            refuse(
                |id| SERVERS.contains(&id),
                &format!("no server is started, since {own} says what answers"),
            )?;
        }
    }
    Ok(())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let recipe = args.recipe()?;
    check_flags(args, recipe)?;
    args.backend.configure()?;
    let compute =
        if recipe.is_in_process() { engines::compute(&args.backend.engine)? } else { Compute::cpu() };
    let options = args.options(recipe, &compute);
    let graph = recipe.graph(&options)?;
    let frames = Arc::new(args.dispatch.frames());
    let selected = Options {
        any_code: args.keep_stages,
        from: args.stage().map(ToOwned::to_owned),
        redo: args.redo.clone(),
        yes: args.yes,
        until: args.until.clone(),
        only: args.only.clone(),
        frames: Arc::clone(&frames) as Arc<_>,
        compute: compute.clone(),
        command: launch::command(),
    };
    selected.check(&graph)?;
    // A split that does not exist is known before an hour of training, and in the plan.
    for (_, evaluation, _) in graph.evaluations() {
        paravt_tasks::select(&evaluation.splits).with_context(|| format!("recipe {}", args.recipe))?;
    }
    let is_slurm = args.cluster.launcher == Launcher::Slurm;
    if args.plan {
        if args.only.is_empty() && !logging::is_verbose() {
            print!("{}", graph.table());
        } else {
            print!("{}", graph.plan(&|stage| stage.is_among(&args.only)));
        }
        if let Some(cards) = &args.cards {
            ensure!(!recipe.is_in_process(), "--cards: for recipes of a served model");
            let imported = |name: &str| {
                let release = paravt_agents::releases().find(|release| release.name == name)?;
                super::protocol::stored(release).ok()?
            };
            print!("{}", graph.on_cards(cards, &args.data.root()?, &imported));
        }
        print!("{}", graph.standing(args.keep_stages));
        if is_slurm {
            cluster::plan(args, recipe, &graph)?;
        }
        return Ok(Exit::Ok);
    }
    if is_slurm {
        return cluster::submit(args, recipe, &graph);
    }
    if let Some(count) = args.cluster.merge_shards {
        let exit = cluster::merge_shards(args, recipe, &graph, &options, count)?;
        if exit != Exit::Ok {
            return Ok(exit);
        }
    }
    let mut host = Host::new(args, recipe, &graph, compute, frames);
    if args.dispatch.is_dry_run() {
        ensure!(!recipe.is_in_process(), "--dry-run: for recipes of a served model; --plan lists the stages");
        return host.dry_run();
    }
    let _log = logging::to(&graph.out);
    limits::raise_open_files();
    signals::exit_on_unhandled_signals()?;
    let (recipe, out) = (&graph.recipe, &graph.out);
    let notify = args.notify.clone().map(|command| {
        Arc::new(Notify { command, recipe: recipe.clone(), out: out.clone(), stage: Mutex::default() })
    });
    let mut progress = StageProgress::new(notify.clone());
    let outcome = driver::run(&graph, &selected, &mut host, &mut progress);
    let outcome = outcome.map_err(|error| match error {
        paravt_reproduce::Error::Host(error) => error,
        paravt_reproduce::Error::Journal(error) => error.into(),
        error => error.into(),
    });
    if let Some(notify) = notify {
        match &outcome {
            Ok(outcome) => notify.tell(outcome.as_str(), "the command has ended"),
            Err(error) => notify.tell("failed", &failure::causes(error)),
        }
    }
    let outcome = match outcome {
        Err(error) if error.downcast_ref().is_some_and(paravt_reproduce::Error::is_precondition) => {
            Err(error).or_preflight()
        }
        Err(error) if is_full(&error) => {
            let error = failure::with_hint(error, "free some space, then repeat the command".to_owned());
            if !graph.stages().iter().filter_map(Stage::folder).any(Path::exists) {
                return Err(error).or_preflight();
            }
            failure::print(&error);
            return Ok(Exit::Incomplete);
        }
        outcome => outcome,
    };
    let outcome = outcome?;
    match outcome {
        Outcome::Incomplete if !progress.given_up().is_empty() => {
            let (rows, out) = (progress.given_up().join(", "), paravt_files::quote_path(out));
            eprintln!(
                "failed: {rows}; `paravt-bench status {out}` says why, the same command asks what is left"
            );
        }
        Outcome::Complete | Outcome::Incomplete => {}
        Outcome::Down => eprintln!("no further evaluation was begun; after a repair, repeat the command"),
        Outcome::Interrupted => eprintln!("stopped; repeat the command to continue"),
    }
    Ok(match outcome {
        Outcome::Complete => Exit::Ok,
        Outcome::Incomplete | Outcome::Down => Exit::Incomplete,
        Outcome::Interrupted => Exit::Interrupted,
    })
}
