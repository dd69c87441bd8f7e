//! Processor, prefill and decode of a 50M-parameter Qwen3-VL on the CPU: cargo bench -p paravt-backend-candle
//!
//! Needs PARAVT_PYTHON (ci/setup) to save the model.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use criterion::{Criterion, Throughput};
use paravt_backend_candle::start;
use paravt_qwen_vl::config::Config;
use paravt_qwen_vl::engine::{Engine, Options};
use paravt_qwen_vl::ops::{Device, Precision};
use paravt_qwen_vl::prompt::Prompter;
use paravt_suite::backend::{Backend as _, CallId, Generation, Request};
use paravt_suite::message::{Image, Message, Part, Role};

const FRAMES: usize = 16;

fn make_model(folder: &Path) {
    let python = std::env::var_os("PARAVT_PYTHON").expect("PARAVT_PYTHON: run ci/setup");
    let ci = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/bench");
    let script = "import sys, pathlib, engines; engines.make_model(pathlib.Path(sys.argv[1]), '50m')";
    let made =
        Command::new(python).current_dir(ci).args(["-c", script]).arg(folder).output().expect("python");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// 16 frames of 512 by 256: 2,048 visual tokens.
fn frames() -> Vec<Part> {
    let frame = |number: usize| {
        let rgb: Vec<u8> = (0..512 * 256 * 3).map(|i| ((i / 96 * 31 + number * 17) % 251) as u8).collect();
        let frame = paravt_media::Frame { index: number, time_us: 0, width: 512, height: 256, rgb };
        let jpeg = paravt_media::encode_jpeg(&frame, 85).expect("a JPEG");
        Part::Image(Arc::new(Image::new("image/jpeg", jpeg, 512, 256, None)))
    };
    (0..FRAMES).map(frame).collect()
}

/// A conversation that shares nothing with the ones before: the number comes first.
fn request(frames: &[Part], number: usize, max_tokens: u32) -> Request {
    let mut parts = vec![Part::Text(format!("{number}: what is shown?"))];
    parts.extend_from_slice(frames);
    Request {
        id: CallId::new(number.to_string(), "turn0"),
        messages: vec![Message::parts(Role::User, parts)],
        generation: Generation::greedy(max_tokens),
        tools: None,
        chat_template: None,
    }
}

fn answer(engine: &Engine, request: &Request) {
    futures::executor::block_on(engine.complete(request)).expect("an answer");
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    make_model(folder.path());
    let frames = frames();
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();

    let config = Config::read(folder.path()).expect("config");
    let prompter = Prompter::read(folder.path(), &config).expect("prompter");
    let mut group = criterion.benchmark_group("qwen3-vl-50m");
    group.throughput(Throughput::Elements(FRAMES as u64));
    let conversation = request(&frames, 0, 1).messages;
    group.bench_function("processor, frames", |b| {
        b.iter(|| prompter.prompt(&conversation).expect("a prompt"))
    });

    let options = Options {
        precision: Precision::F32,
        memory: 4 << 30,
        narrow_weights: true,
        ..Options::new(folder.path().to_owned())
    };
    let engine = start(options, Device::Cpu).expect("an engine");
    let tokens = prompter.prompt(&conversation).expect("a prompt").ids.len() as u64;
    let mut number = 0;
    group.throughput(Throughput::Elements(tokens));
    group.bench_function("prefill, prompt tokens", |b| {
        b.iter(|| {
            number += 1;
            answer(&engine, &request(&frames, number, 1));
        });
    });
    // The prompt is held after the first call: what is left is one token of it and 65 new ones.
    group.throughput(Throughput::Elements(65));
    group.bench_function("decode, new tokens", |b| b.iter(|| answer(&engine, &request(&frames, 0, 65))));
    group.finish();
    criterion.final_summary();
}
