//! `paravt-bench reproduce paravt-nano`: from generated videos to a report, on this machine alone.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use paravt_reports::study::{Arm, Question, Study, Trained};
use paravt_reports::{Training, find_runs};
use paravt_reproduce::nano::{self, Comparison, NanoRecipe, NanoRun, Step, Told, Work, identity};
use paravt_reproduce::stage::State;
use paravt_suite::evaluate::{self, Evaluation, RunConfig, Workspace};
use paravt_suite::frames::{CachedFrames, FrameSource};
use paravt_suite::task::{DataRoot, Task as _};
use paravt_train::log::FILE as TRAINING;
use paravt_train::{Compute, durable};

use super::Args;
use crate::commands::report;
use crate::exit::Exit;
use crate::{engines, launch, registry};

/// Samples in flight: what decodes together.
const CONCURRENCY: usize = 32;

/// Runs the command.
pub fn run(args: &Args, recipe: &NanoRecipe, out: &Path) -> anyhow::Result<Exit> {
    let seeds: Vec<u64> = (args.nano.seed..).take(if args.nano.full { 3 } else { 1 }).collect();
    let compute = args.backend.compute()?;
    // What another device or number type made is kept apart.
    let stages = match compute.to_string() {
        name if name == Compute::cpu().to_string() => "stages".to_owned(),
        name => format!("stages-{name}"),
    };
    let steps = nano::steps(recipe, &out.join(stages), &seeds, args.nano.full)?;
    if args.plan {
        println!("{}", recipe.title);
        for (number, step) in steps.iter().enumerate() {
            println!("{:>3}. {}", number + 1, line(step));
        }
        println!("{:>3}. report             {}", steps.len() + 1, out.join("report/index.html").display());
        return Ok(Exit::Ok);
    }
    // A split that does not exist is known before an hour of training.
    registry::select_tasks(&recipe.evaluate.splits)?;
    let _lock = args.lock(out)?;
    if let Some(stage) = args.backend.from() {
        forget_from(&steps, &stage.to_string_lossy())?;
    }
    let started = Instant::now();
    let frames = Arc::new(CachedFrames::default());
    let mut worst = Exit::Ok;
    let world =
        steps.iter().find(|step| matches!(step.work, Work::World)).context("the recipe has no world")?;
    for (number, step) in steps.iter().enumerate() {
        match step.stage.state(args.nano.keep_stages) {
            State::Done => {
                eprintln!("{} (done before)", line(step));
                continue;
            }
            State::Unusable(why) => {
                eprintln!("{}: the result that is there is not used: {why}; doing it again", line(step));
                forget(step)?;
            }
            State::New | State::Begun => {}
        }
        step.stage.begin().with_context(|| format!("cannot write {}", step.stage.folder().display()))?;
        let began = Instant::now();
        let bar = ProgressBar::new_spinner().with_style(
            ProgressStyle::with_template("{spinner} {prefix} {msg} [{elapsed_precise}]")
                .context("a progress line")?,
        );
        bar.set_prefix(line(step));
        bar.enable_steady_tick(Duration::from_millis(200));
        let exit = match &step.work {
            Work::Evaluate { run, model } => {
                bar.finish_and_clear();
                eprintln!("{}", line(step));
                evaluate_checkpoint(recipe, run, step, model, world.stage.folder(), &frames, &compute)?
            }
            _ => {
                let source = Arc::clone(&frames) as Arc<dyn FrameSource>;
                step.execute(recipe, &steps[..number], &source, &compute, |told| {
                    bar.set_message(message(&told));
                })?;
                Exit::Ok
            }
        };
        bar.finish_and_clear();
        worst = worst.worse(exit);
        if exit == Exit::Interrupted {
            return Ok(exit);
        }
        if let Work::Evaluate { model, .. } = &step.work {
            show_training(model, step, recipe)?;
        }
        if exit == Exit::Ok {
            step.stage.finish().with_context(|| format!("cannot write {}", step.stage.folder().display()))?;
        }
        eprintln!("{} in {:.0} s", line(step), began.elapsed().as_secs_f64());
    }
    let runs = steps.iter().filter(|step| matches!(step.work, Work::Evaluate { .. }));
    let runs: Vec<_> = runs.map(|step| step.stage.folder().to_owned()).collect();
    let study = study(recipe, &steps)?;
    let told = paravt_reports::study::terminal(&study);
    let root = DataRoot::new(world.stage.folder());
    let exit = report::write(&runs, None, &out.join("report"), Some(&root), Some(study))?;
    print!("{told}");
    eprintln!(
        "report: {} ({:.1} min in all)",
        out.join("report/index.html").display(),
        started.elapsed().as_secs_f64() / 60.0
    );
    Ok(worst.worse(exit))
}

/// What the recipe asks of its runs, and what they say.
fn study(recipe: &NanoRecipe, steps: &[Step]) -> anyhow::Result<Study> {
    let (mut arms, mut trainings) = (Vec::new(), Vec::new());
    for step in steps {
        let (name, folder) = (step.stage.name().to_owned(), step.stage.folder());
        match &step.work {
            Work::Evaluate { .. } => {
                let (seed, runs) = (step.seed.unwrap_or_default(), find_runs(&[folder.to_owned()])?);
                arms.push(Arm { name, seed, runs });
            }
            Work::Rl { title, paper, .. } => {
                let curves = Training::read(folder).context("the curves of a training")?;
                trainings.push(Trained { name, title: title.clone(), paper: paper.clone(), curves });
            }
            _ => {}
        }
    }
    let question = |asked: &Comparison| {
        let Comparison { title, a, b, paper, at_least } = asked.clone();
        Question { title, a, b, paper, at_least }
    };
    let questions: Vec<Question> = recipe.comparisons.iter().map(question).collect();
    Ok(Study::of(&questions, &arms, &trainings)?)
}

fn line(step: &Step) -> String {
    let seed = step.seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
    format!("{:<19}{}{seed}", step.stage.name(), step.title())
}

fn message(told: &Told<'_>) -> String {
    match told {
        Told::Sft(step, all) => {
            format!("step {}/{all}, loss {:.3}, {:.0} tokens/s", step.step, step.loss, step.tokens_per_second)
        }
        Told::Rl(step, all) => {
            let figure = |name: &str| step.figures.get(name).copied().unwrap_or_default();
            format!(
                "step {}/{all}, reward {:.2}, accuracy {:.2}, f_tau {:.2}, kappa {:.2}",
                step.step,
                figure("reward"),
                figure("reward_accuracy"),
                figure("f_tau"),
                figure("kappa")
            )
        }
    }
}

fn forget_from(steps: &[Step], name: &str) -> anyhow::Result<()> {
    let Some(first) = steps.iter().position(|step| step.stage.name() == name) else {
        let mut known: Vec<&str> = steps.iter().map(|step| step.stage.name()).collect();
        known.dedup();
        bail!("--from: no stage `{name}`; there are {}", known.join(", "));
    };
    steps[first..].iter().try_for_each(forget)
}

fn forget(step: &Step) -> anyhow::Result<()> {
    step.stage.forget().with_context(|| format!("cannot remove {}", step.stage.folder().display()))
}

/// Puts a checkpoint's training curves, and what they are of, beside its first split, where the report finds
/// them.
fn show_training(model: &Path, step: &Step, recipe: &NanoRecipe) -> anyhow::Result<()> {
    let Some(split) = recipe.evaluate.splits.first() else { return Ok(()) };
    for name in [TRAINING, identity::FILE] {
        let from = model.with_file_name(name);
        if from.is_file() {
            let to = step.stage.folder().join(split).join(name);
            let copied = std::fs::read(&from).and_then(|bytes| durable::write(&to, &bytes));
            copied.with_context(|| format!("cannot write {}", to.display()))?;
        }
    }
    Ok(())
}

/// Runs all splits on one checkpoint; goes on where it was stopped.
fn evaluate_checkpoint(
    recipe: &NanoRecipe,
    run: &NanoRun,
    step: &Step,
    model: &Path,
    world: &Path,
    frames: &Arc<CachedFrames>,
    compute: &Compute,
) -> anyhow::Result<Exit> {
    let wanted = registry::select_tasks(&recipe.evaluate.splits)?;
    let runtime = launch::runtime()?;
    let gpus = u32::from(!compute.device().is_cpu());
    let workspace = Workspace {
        frames: Arc::clone(frames) as Arc<_>,
        stop: launch::stopped_by_ctrl_c(&runtime),
        ..launch::workspace(DataRoot::new(world), Some(gpus))
    };
    let engine = engines::start_candle(model, CONCURRENCY, compute)?;
    let protocol = Arc::new(paravt_nano::protocol());
    let reference = paravt_upstream::reference(&protocol)?;
    let config = RunConfig {
        concurrency: CONCURRENCY,
        resume: true,
        label: Some(format!("{}, seed {}", step.stage.name(), step.seed.unwrap_or_default())),
        ..recipe.config(run)
    };
    let prepared = wanted.into_iter().map(|task| {
        let dir = step.stage.folder().join(&task.spec().name);
        let run = Evaluation::new(task, config.clone(), Arc::clone(&protocol), reference, dir);
        evaluate::prepare(&run, &workspace)
    });
    let prepared = prepared.collect::<Result<Vec<_>, _>>()?;
    let runs = prepared.into_iter().map(|prepared| (prepared, Arc::clone(&engine)));
    runtime.block_on(launch::run_all(runs, false))
}
