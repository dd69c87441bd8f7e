//! The memory of a training step, counted byte by byte, and what is planned for it.
//!
//! Alone in its program: another test's allocations would be counted.
#![allow(clippy::unwrap_used, unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use paravt_qwen_vl::ops::{Device, Precision};
use paravt_qwen_vl::prompt::Prompt;
use paravt_train::Compute;
use paravt_train::example::Example;
use paravt_train::learner::Learner;

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Bytes that `work` has at its peak beyond what there was before.
fn peak<R>(work: impl FnOnce() -> R) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work();
    PEAK.load(Ordering::Relaxed).saturating_sub(before)
}

fn text(tokens: u32, learned_from: u32) -> Example {
    let prompt = Prompt {
        text: String::new(),
        ids: (0..tokens).map(|at| 10 + at * 3 % 50).collect(),
        positions: (0..tokens).map(|at| [at; 3]).collect(),
        next_position: tokens,
        media: Vec::new(),
    };
    Example::of_prompt(prompt, (0..tokens).map(|at| at >= learned_from).collect())
}

/// Bytes of the gradients of one pass of so many tokens.
fn pass(learner: &Learner, tokens: u32) -> usize {
    let example = text(tokens, tokens / 4);
    let gradients = || {
        let mean = |logprobs: &candle_core::Tensor, _: &candle_core::Tensor| Ok((logprobs.mean_all()?, ()));
        learner.gradients(&[&example], 1.0, mean).unwrap()
    };
    // Once for what is allocated a single time.
    gradients();
    peak(gradients)
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
    let (few, many) = (256, 2048);
    let counted = [few, many].map(|tokens| pass(&learner, tokens));
    for (tokens, counted) in [few, many].into_iter().zip(counted) {
        let at_once = pass(&plain, tokens);
        let planned = plan.bytes(tokens as usize);
        println!("{tokens} tokens: {counted} bytes, {at_once} without recomputation, {planned} planned");
        assert!(counted as u64 <= planned, "{tokens} tokens take {counted} bytes, {planned} are planned");
    }
    // What grows with the tokens beside the scores, whose room is planned apart.
    let (by_token, planned) = ((counted[1] - counted[0]) / (many - few) as usize, plan.kept + plan.layer);
    println!("a token: {by_token} bytes, {planned} planned");
    assert!(pass(&plain, many) > 2 * counted[1]);
}
