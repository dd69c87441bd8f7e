//! Times steps of supervised training on given conversations: `sft_step MODEL CONVERSATIONS.json PACKS STEPS`.
//!
//! The file holds a list of conversations, as `generate` reads them. They are dealt out to PACKS packs of
//! one step. Printed as JSON: tokens of a step, the loss of each step and its seconds. The peer is
//! `ci/bench/trainer.py`.

use std::path::Path;
use std::time::Instant;

use paravt_suite::conversation::parse_conversation;
use paravt_train::Compute;
use paravt_train::example::Example;
use paravt_train::learner::Learner;
use paravt_train::optimizer::{AdamW, AdamWConfig};
use paravt_train::sft;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // As the command settles them: candle by itself takes its number from the environment.
    let cores = std::thread::available_parallelism()?.get();
    rayon::ThreadPoolBuilder::new().num_threads(cores).build_global()?;
    let [model, conversations, packs, steps] = &std::env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("see the head of this file".into());
    };
    let (packs, steps): (usize, usize) = (packs.parse()?, steps.parse()?);
    let learner = Learner::load(Path::new(model), &Compute::cpu())?;
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&std::fs::read(conversations)?)?;
    let examples = rows
        .iter()
        .map(|row| Ok(Example::of_conversation(learner.prompter(), &parse_conversation(row)?)?))
        .collect::<Result<Vec<_>, Box<dyn std::error::Error>>>()?;
    let tokens: usize = examples.iter().map(|example| example.ids.len()).sum();
    let packs: Vec<Vec<Example>> =
        examples.chunks(examples.len().div_ceil(packs)).map(<[Example]>::to_vec).collect();
    let mut optimizer = AdamW::new(AdamWConfig::default(), learner.parameters().all());
    let (mut losses, mut seconds) = (Vec::new(), Vec::new());
    for _ in 0..steps {
        let started = Instant::now();
        let (loss, gradients) = sft::gradients(&learner, &packs)?;
        optimizer.step(&gradients, 1.0)?;
        seconds.push(started.elapsed().as_secs_f64());
        losses.push(loss);
    }
    println!("{}", serde_json::json!({ "tokens": tokens, "losses": losses, "seconds": seconds }));
    Ok(())
}
