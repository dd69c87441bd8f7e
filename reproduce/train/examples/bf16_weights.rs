//! The released SFT recipe in miniature, with f32 weights and with bfloat16 ones: `bf16_weights OUT [STEPS] [RATE]`.
//!
//! Trains the embedded base model on generated rows twice, with the loader, the learning rate and the schedule of the
//! release and with f32 or bfloat16 weights, gradients and moments; activations are f32. Printed as JSON: losses, and
//! the share of weights whose value changed (`suite/docs/training.md`, pure-bf16).

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use paravt_nano::{TrainingSizes, make_training, write_base};
use paravt_train::Compute;
use paravt_train::data::SftRows;
use paravt_train::optimizer::{AdamWConfig, Numbers};
use paravt_train::release::Layout;
use paravt_train::schedule::Schedule;
use paravt_train::sft::{self, SftConfig};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    rayon::ThreadPoolBuilder::new().num_threads(cores).build_global()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let out = Path::new(arguments.first().ok_or("see the head of this file")?);
    let steps = arguments.get(1).map_or(Ok(60), |steps| steps.parse())?;
    let learning_rate = arguments.get(2).map_or(Ok(2e-5), |rate| rate.parse())?;
    let (world, base) = (out.join("world"), out.join("base"));
    if !base.exists() {
        make_training(&world, 0, &TrainingSizes { videos: 40, rows: 400, prompts: 1 })?;
        write_base(&base)?;
    }
    let rows = Arc::new(SftRows::read(&[world.join("paravt_sft_nano.parquet")], &world)?);
    let mut ends = Vec::new();
    for (name, numbers) in [("f32", Numbers::F32), ("bf16", Numbers::Bf16)] {
        let config = SftConfig {
            optimizer: AdamWConfig { learning_rate, numbers, ..AdamWConfig::default() },
            schedule: Schedule::Cosine { warmup_ratio: 0.05 },
            steps,
            pack_tokens: 2048,
            packs_per_step: 4,
            save_every: steps,
            release: Some(Layout { ranks: 2, workers: 2 }),
            ..SftConfig::default()
        };
        let folder = out.join(format!("{name}-{learning_rate}"));
        let mut losses = Vec::new();
        sft::train(&base, &folder, Arc::clone(&rows) as _, &config, &Compute::cpu(), |step| {
            losses.push(step.loss);
        })?;
        let (before, after) = (weights(&base)?, weights(&folder.join("final"))?);
        let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
        let end = losses.len().saturating_sub(10);
        println!(
            "{}",
            serde_json::json!({
                "numbers": name, "learning_rate": learning_rate, "steps": steps, "moved": moved(&before, &after, numbers)?,
                "moved_as_bf16": moved(&before, &after, Numbers::Bf16)?,
                "loss_first_10": mean(&losses[..10.min(losses.len())]), "loss_last_10": mean(&losses[end..]),
                "losses": losses,
            })
        );
        ends.push(after);
    }
    let base = weights(&base)?;
    let (f32, bf16) = (length(&base, &ends[0], Numbers::F32)?, length(&base, &ends[1], Numbers::Bf16)?);
    println!("{}", serde_json::json!({ "way_of_f32": f32, "way_of_bf16": bf16, "ratio": bf16 / f32 }));
    Ok(())
}

fn weights(folder: &Path) -> Result<HashMap<String, Tensor>> {
    let loaded = candle_core::safetensors::load(folder.join("model.safetensors"), &Device::Cpu)?;
    loaded.into_iter().map(|(name, tensor)| Ok((name, tensor.to_dtype(DType::F32)?))).collect()
}

/// Share of all weights whose value, rounded to that type, changed.
fn moved(before: &HashMap<String, Tensor>, after: &HashMap<String, Tensor>, numbers: Numbers) -> Result<f64> {
    let (mut moved, mut all) = (0.0, 0);
    for (name, tensor) in before {
        let differs = rounded(tensor, numbers)?.ne(&rounded(&after[name], numbers)?)?;
        moved += f64::from(differs.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()?);
        all += tensor.elem_count();
    }
    Ok(moved / all as f64)
}

/// Values as numbers of that type.
fn rounded(tensor: &Tensor, numbers: Numbers) -> Result<Tensor> {
    let dtype = if numbers == Numbers::F32 { DType::F32 } else { DType::BF16 };
    Ok(tensor.to_dtype(dtype)?.to_dtype(DType::F32)?)
}

/// Euclidean distance between the weights that a training began with and those it ended with.
fn length(
    before: &HashMap<String, Tensor>,
    after: &HashMap<String, Tensor>,
    numbers: Numbers,
) -> Result<f64> {
    let mut sum = 0.0;
    for (name, tensor) in before {
        let way = after[name].sub(&rounded(tensor, numbers)?)?;
        sum += f64::from(way.sqr()?.sum_all()?.to_scalar::<f32>()?);
    }
    Ok(sum.sqrt())
}
