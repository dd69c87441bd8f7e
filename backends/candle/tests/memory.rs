//! What a pass allocates, counted byte by byte, and what the plan says before.
#![allow(clippy::unwrap_used)]

mod counting;

use std::process::Command;

use candle_core::Device;
use paravt_backend_candle::{ComposedOps, CpuOps};
use paravt_qwen_vl::config::Config;
use paravt_qwen_vl::engine::{MemoryPlan, Options};
use paravt_qwen_vl::model::{KvCache, Model, Rows};
use paravt_qwen_vl::ops::{Ops, PassLimits, Precision};
use paravt_qwen_vl::positions::Grid;
use paravt_qwen_vl::processor::Scale;
use paravt_qwen_vl::weights::Weights;

use counting::peak;

/// A random model of some width.
fn model(text: &str, vision: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let python = std::env::var_os("PARAVT_PYTHON").expect("PARAVT_PYTHON: run ci/setup, then ci/test");
    let ci = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci");
    let script = format!(
        "import sys, torch, tiny_qwen3vl as tiny\ntokenizer = tiny.make_tokenizer()\n\
         tiny.make_model(tokenizer, text={text}, vision={vision}).to(torch.bfloat16).save_pretrained(sys.argv[1])"
    );
    let made =
        Command::new(python).current_dir(ci).args(["-c", &script]).arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder
}

struct Pass {
    name: &'static str,
    counted: usize,
    planned: u64,
}

/// A pass of the vision tower, a prompt's first and last pass, and the logits after it.
fn passes<O: Ops>(ops: O, folder: &std::path::Path, options: &Options, keys: usize) -> Vec<Pass> {
    let (config, weights) = (Config::read(folder).unwrap(), Weights::open(folder).unwrap());
    let plan = MemoryPlan::new(&config, &weights, options);
    assert_eq!(plan.pass, options.pass);
    let model = Model::load(ops, config, &weights).unwrap();
    let mut cache = KvCache::new(&model.ops, &model.config.text, keys).unwrap();
    let grid = Grid { t: 1, h: 16, w: options.pass.patches / 16 };
    let shape = [grid.patches(), model.config.vision.patch_values()];
    let bytes = vec![7; shape[0] * shape[1]];
    let scale = Scale { mean: [127.0; 3], std: [64.0; 3] };
    let encode = || {
        let patches = model.ops.upload_patches(&bytes, scale, shape).unwrap();
        model.encode(patches, &[grid]).unwrap()
    };
    // Once for what is allocated a single time, as threads and tables.
    encode();
    let (features, counted) = peak(encode);
    let mut found = vec![Pass { name: "vision", counted, planned: plan.activations }];
    let mut start = 0;
    while start < keys {
        let rows = options.pass.tokens.min(keys - start);
        let visual: Vec<u32> = (0..(grid.patches() / 4).min(rows) as u32).collect();
        let features = features.map(|tensor| model.ops.narrow(tensor, 0, 0, visual.len())).unwrap();
        let (ids, positions) = (vec![1; rows], vec![[start as u32; 3]; rows]);
        let (_, counted) = peak(|| {
            let rows = Rows {
                ids: &ids,
                positions: &positions,
                visual: &visual,
                features: Some(&features),
                cache: Some(&mut cache),
                shared: 0..0,
                last_only: true,
            };
            let hidden = model.hidden(&mut [rows]).unwrap();
            model.ops.download(&model.logits(&hidden).unwrap()).unwrap()
        });
        start += rows;
        let planned = plan.activations + plan.per_key * start as u64;
        found.push(Pass { name: "prefill", counted, planned });
    }
    found
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn a_pass_takes_at_most_what_is_planned() {
    for (heads, key_heads) in [(8, 2), (6, 6)] {
        let text = format!(
            "{{'hidden_size': 256, 'intermediate_size': 1024, 'num_attention_heads': {heads}, 'num_key_value_heads': \
             {key_heads}, 'head_dim': 64, 'vocab_size': 1000, 'rope_scaling': {{'rope_type': 'default', \
             'mrope_section': [16, 8, 8], 'mrope_interleaved': True}}}}"
        );
        let folder = model(&text, "{'hidden_size': 128, 'intermediate_size': 512, 'out_hidden_size': 256}");
        within_the_plan(folder.path());
    }
}

/// Of prompts from one pass to many, by the kernels of a CPU and by candle's own operations.
fn within_the_plan(folder: &std::path::Path) {
    for precision in [Precision::F32, Precision::Bf16] {
        for (scores, composed) in [(0, false), (1 << 20, true), (1 << 18, true)] {
            let pass = PassLimits { tokens: 512, patches: 1024, scores };
            let options = Options { precision, pass, batch: 1, ..Options::new(folder.to_owned()) };
            let found = if composed {
                let ops = ComposedOps::new(Device::Cpu, precision).with_scores(scores);
                passes(ops, folder, &options, 2048)
            } else {
                passes(CpuOps::new(precision), folder, &options, 2048)
            };
            for Pass { name, counted, planned } in found {
                println!("{precision:?} scores {scores} {name}: {counted} of {planned} bytes");
                assert!(counted as u64 <= planned, "{name} takes {counted} bytes, {planned} are planned");
            }
        }
    }
}
