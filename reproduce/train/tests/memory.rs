//! The memory of a training step, counted byte by byte, and what is planned for it.
#![allow(clippy::unwrap_used)]

#[path = "../../../backends/candle/tests/counting/mod.rs"]
mod counting;

use paravt_qwen_vl::ops::{Device, Precision};
use paravt_qwen_vl::prompt::Prompt;
use paravt_train::Compute;
use paravt_train::example::Example;
use paravt_train::learner::Learner;

use counting::peak;

fn text(tokens: u32, learned_from: u32) -> Example {
    let prompt = Prompt::of_ids((0..tokens).map(|at| 10 + at * 3 % 50).collect());
    Example::of_prompt(prompt, (0..tokens).map(|at| at >= learned_from).collect())
}

/// Tokens of a sequence: few, so that the scores of attention, whose room is planned apart, are next to nothing.
const LENGTH: u32 = 64;

/// Bytes of the gradients of one pass of so many sequences.
fn pass(learner: &Learner, sequences: usize) -> usize {
    let example = text(LENGTH, LENGTH / 4);
    let batch = vec![&example; sequences];
    let gradients = || {
        let mean = |logprobs: &candle_core::Tensor, _: &candle_core::Tensor| Ok((logprobs.mean_all()?, ()));
        learner.gradients(&batch, 1.0, mean).unwrap()
    };
    // Once for what is allocated a single time.
    gradients();
    peak(gradients).1
}

#[test]
fn a_step_takes_at_most_what_is_planned() {
    let folder = tempfile::tempdir().unwrap();
    paravt_nano::write_model(folder.path(), 1).unwrap();
    // As on a GPU: no kernel takes bf16 on the CPU, candle composes.
    let compute = Compute::new(Device::Cpu, Precision::Bf16).unwrap();
    let plain = Learner::load(folder.path(), &compute).unwrap();
    let learner = Learner::load(folder.path(), &compute.recomputing(1 << 16)).unwrap();
    let plan = learner.memory();
    let (few, many) = (4, 24);
    let counted = [few, many].map(|sequences| pass(&learner, sequences));
    let tokens = [few, many].map(|sequences| sequences * LENGTH as usize);
    for (tokens, counted) in tokens.into_iter().zip(counted) {
        let planned = plan.bytes(tokens);
        println!("{tokens} tokens: {counted} bytes, {planned} planned");
        assert!(counted as u64 <= planned, "{tokens} tokens take {counted} bytes, {planned} are planned");
    }
    let by_token = ((counted[1] - counted[0]) / (tokens[1] - tokens[0])) as u64;
    let planned = plan.kept + plan.layer;
    println!("a token: {by_token} bytes, {planned} planned");
    assert!(by_token <= planned, "a token takes {by_token} bytes, {planned} are planned");
    let at_once = pass(&plain, many);
    println!("{} tokens without recomputation: {at_once} bytes", tokens[1]);
    assert!(4 * at_once > 5 * counted[1], "{at_once} bytes, {} with recomputation", counted[1]);
}
