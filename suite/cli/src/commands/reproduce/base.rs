//! `paravt-bench reproduce paravt-nano-base`: the checkpoint that the embedded recipe starts from.

use std::path::Path;
use std::time::Instant;

use paravt_reproduce::nano::base;
use paravt_train::sft::SftConfig;

use super::Args;
use crate::exit::Exit;
use crate::{engines, launch};

/// Rows of each kind that the finished checkpoint is asked.
const EXAM: usize = 50;

/// Trains it from random weights; about an hour on two cores.
pub fn run(args: &Args, config: &SftConfig, out: &Path) -> anyhow::Result<Exit> {
    if args.plan {
        println!("  1. fresh    a model of random weights with its tokenizer");
        println!(
            "  2. base     {} steps on the endless curriculum, to {}",
            config.steps,
            out.join("final").display()
        );
        return Ok(Exit::Ok);
    }
    let _lock = args.lock(out)?;
    let (started, compute) = (Instant::now(), args.backend.compute()?);
    base::train(out, config, &compute, |step| {
        if step.step % 50 == 0 || step.step == config.steps {
            let minutes = started.elapsed().as_secs_f64() / 60.0;
            eprintln!(
                "base: step {} of {}, loss {:.4}, {:.0} tokens/s, {minutes:.1} min",
                step.step, config.steps, step.loss, step.tokens_per_second
            );
        }
    })?;
    let model = out.join("final");
    let backend = engines::start_candle(&model, EXAM, &compute)?;
    println!("answers right to the letter, on rows it was not trained on:");
    for (kind, right) in launch::runtime()?.block_on(base::examine(backend.as_ref(), EXAM))? {
        println!("  {kind:<8} {right:>3} of {EXAM}");
    }
    println!("{}", model.display());
    Ok(Exit::Ok)
}
