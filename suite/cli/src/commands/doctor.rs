//! `paravt-bench doctor`: what this machine has, and what each backend can use of it.

use std::path::{Path, PathBuf};

use anyhow::bail;
use paravt_backends::HAS_CUDA;
use paravt_devices::{Cuda, Gpu, Host, Library};
use paravt_reproduce::driver::Check;
use paravt_reproduce::preflight::{Level, Report};
use paravt_reproduce::servers::Engine;
use paravt_reproduce::{GraphOptions, Recipe};
use serde_json::json;

use crate::commands::{preflight, protocol, reproduce};
use crate::exit::Exit;
use crate::registry::{DataArgs, TaskFiles};

/// Flags of `doctor`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Check the requirements of a recipe: what was found, and what to do about it [default: none, describe the machine].
    #[arg(long = "for", value_name = "RECIPE")]
    recipe: Option<String>,
    /// Output folder of the recipe, whose disk is checked [default: runs/RECIPE].
    #[arg(long, value_name = "DIR", requires = "recipe")]
    out: Option<PathBuf>,
    /// Serving engine to check for: vllm, sglang, transformers or candle [default: the recipe's].
    #[arg(long, value_name = "ENGINE", value_parser = Engine::named, requires = "recipe")]
    engine: Option<Engine>,
    /// Model to check for: with --for a folder, or `owner/name` on the hub [default: the recipe's]; without it a folder,
    /// whose memory in this process is planned.
    #[arg(long, value_name = "NAME|DIR")]
    model: Option<String>,
    /// Interpreter to check for the code tool [default: python3 on the search path].
    #[arg(long, value_name = "PROGRAM", default_value = "python3", hide_default_value = true)]
    code_python: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataArgs,
}

/// Codecs that the benchmarks' videos come in.
const CODECS: [&str; 4] = ["h264", "hevc", "vp9", "av1"];

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(recipe) = &args.recipe {
        return for_recipe(args, recipe);
    }
    args.data.check_unused(&TaskFiles::default(), "--for")?;
    let host = paravt_devices::host();
    let cuda = paravt_devices::cuda();
    let nccl = paravt_devices::nccl().map(|(major, minor, patch)| format!("{major}.{minor}.{patch}"));
    let ffmpeg = paravt_media::ffmpeg_version();
    let (decoders, missing): (Vec<_>, Vec<_>) =
        CODECS.into_iter().partition(|codec| paravt_media::can_decode(codec));
    let upstream = match protocol::imported() {
        Ok(Some(protocol)) => format!("imported as {}, {}", protocol.name, protocol.hash()),
        Ok(None) => "not imported (`paravt-bench protocol import`); --protocol paravt needs it".to_owned(),
        Err(error) => format!("unreadable: {error:#}"),
    };
    let backends = paravt_backends::doctor();
    let code_tool = paravt_jail::doctor(&args.code_python);
    let plans = args.model.as_deref().map(|folder| paravt_backends::plans(Path::new(folder))).transpose()?;
    let plans = plans.unwrap_or_default();
    if args.json {
        let gpu = |gpu: &Gpu| {
            json!({
                "ordinal": gpu.ordinal, "name": gpu.name, "memory": gpu.memory, "free": gpu.free,
                "compute_capability": format!("{}.{}", gpu.capability.0, gpu.capability.1), "bf16": gpu.has_bf16(),
                "mig": gpu.mig, "bandwidth": gpu.bandwidth, "matrix_rate": gpu.matrix_rate,
            })
        };
        let description = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "commit": env!("PARAVT_BENCH_COMMIT"),
            "cores": host.cores,
            "memory": host.memory,
            "memory_available": host.available,
            "ffmpeg": ffmpeg,
            "decoders": decoders,
            "cuda": cuda.as_ref().ok().map(|cuda| json!({
                "version": format!("{}.{}", cuda.version.0, cuda.version.1), "driver": cuda.driver,
                "gpus": cuda.gpus.iter().map(gpu).collect::<Vec<_>>(),
            })),
            "no_cuda_because": cuda.as_ref().err(),
            "built_with_cuda": HAS_CUDA,
            "cuda_libraries": paravt_devices::cuda_libraries().into_iter()
                .map(|library| (library.name.to_owned(), json!(library.found)))
                .collect::<serde_json::Map<_, _>>(),
            "nccl": nccl,
            "upstream_protocol": upstream,
            "code_tool": code_tool,
            "model_memory": plans.iter().map(|(device, dtype, plan)| json!({
                "device": device, "dtype": dtype, "weights": plan.weights, "activations": plan.activations,
                "per_token": plan.per_token + plan.per_key, "cache_tokens": plan.cache_tokens, "free": plan.limit,
            })).collect::<Vec<_>>(),
            "backends": backends.iter().map(|(name, ability)| ((*name).to_owned(), json!(ability)))
                .collect::<serde_json::Map<_, _>>(),
        });
        println!("{description:#}");
        return Ok(Exit::Ok);
    }
    println!("paravt-bench {} ({})", env!("CARGO_PKG_VERSION"), env!("PARAVT_BENCH_COMMIT"));
    println!("machine    {}", host_line(&host));
    for line in cuda_lines(&cuda) {
        println!("{line}");
    }
    if HAS_CUDA || cuda.is_ok() {
        println!("CUDA libs  {}", library_line(&paravt_devices::cuda_libraries()));
    }
    println!("NCCL       {}", nccl.as_deref().unwrap_or("not found (only needed for several GPUs)"));
    let lacks =
        if missing.is_empty() { String::new() } else { format!("; cannot decode {}", missing.join(", ")) };
    if decoders.is_empty() {
        println!("FFmpeg     {ffmpeg}");
    } else {
        println!("FFmpeg     {ffmpeg}, decodes {}{lacks}", decoders.join(", "));
    }
    println!("protocol   {upstream}");
    println!("code tool  {code_tool}");
    for (name, ability) in backends {
        println!("{name:10} {ability}");
    }
    for (device, dtype, plan) in plans {
        let fits = plan.check_weights().map_or_else(|error| error.to_string(), |()| plan.to_string());
        println!("model      {device} in {dtype}: {fits}");
    }
    Ok(Exit::Ok)
}

/// Compares this machine with what a recipe needs.
fn for_recipe(args: &Args, name: &str) -> anyhow::Result<Exit> {
    let stem = Path::new(name).file_stem().unwrap_or_default();
    let out = args.out.clone().unwrap_or_else(|| Path::new("runs").join(stem));
    let options = GraphOptions {
        engine: args.engine,
        model: args.model.clone(),
        gpus: reproduce::gpus(),
        ..GraphOptions::new(&out)
    };
    let graph = Recipe::load(name)?.graph(&options)?;
    let preflight = graph.stages().iter().find_map(|stage| match stage.kind() {
        Some(Check::Machine(preflight)) => Some(preflight),
        _ => None,
    });
    let (report, machine) = match preflight {
        Some(preflight) => {
            let (report, machine) = preflight::examine(preflight, &out, &args.data.root()?, None)?;
            (report, Some(machine))
        }
        None if args.engine.is_some() => {
            bail!("--engine: changes nothing here: {}; leave it out", reproduce::EMBEDS)
        }
        None if args.model.is_some() => {
            bail!("--model: changes nothing here: {}; leave it out", reproduce::EMBEDS)
        }
        None if args.json => (Report { recipe: name.to_owned(), findings: Vec::new() }, None),
        None => {
            println!("recipe {name} needs nothing of this machine beyond this program");
            return Ok(Exit::Ok);
        }
    };
    if args.json {
        println!(
            "{:#}",
            json!({ "recipe": report.recipe, "level": report.level(), "findings": report.findings, "machine": machine })
        );
    } else {
        print!("{}", report.page());
    }
    Ok(if report.level() == Level::Refuse { Exit::Preflight } else { Exit::Ok })
}

fn host_line(host: &Host) -> String {
    let memory = match (host.memory, host.available) {
        (Some(memory), Some(available)) => format!("{} of {} available", gib(available), gib(memory)),
        (Some(memory), None) => gib(memory),
        _ => "unknown".to_owned(),
    };
    format!("{} cores, memory {memory}", host.cores)
}

fn cuda_lines(cuda: &Result<Cuda, String>) -> Vec<String> {
    let cuda = match cuda {
        Ok(cuda) => cuda,
        Err(reason) => return vec![format!("GPU        none: {reason}")],
    };
    let driver = cuda.driver.as_deref().map(|version| format!(", driver {version}")).unwrap_or_default();
    let mut lines = vec![format!("CUDA       {}.{}{driver}", cuda.version.0, cuda.version.1)];
    lines.extend(cuda.gpus.iter().map(|gpu| {
        let (major, minor) = gpu.capability;
        let bf16 = if gpu.has_bf16() { "" } else { ", no bf16" };
        let tera = |rate: Option<u64>, unit: &str| {
            rate.map(|rate| format!(", {:.1} {unit}", rate as f64 / 1e12)).unwrap_or_default()
        };
        let rates = tera(gpu.bandwidth, "TB/s") + &tera(gpu.matrix_rate, "TFLOP/s in bf16");
        let mig = if gpu.mig { ", MIG on: memory is of the whole GPU" } else { "" };
        format!(
            "GPU {}      {}, {} of {} free, compute capability {major}.{minor}{bf16}{rates}{mig}",
            gpu.ordinal,
            gpu.name,
            gib(gpu.free),
            gib(gpu.memory)
        )
    }));
    lines
}

/// The libraries that a program with CUDA starts with, or those that are missing.
fn library_line(libraries: &[Library]) -> String {
    let missing: Vec<&Library> = libraries.iter().filter(|library| library.found.is_none()).collect();
    if missing.is_empty() {
        let found: Vec<&str> = libraries.iter().filter_map(|library| library.found.as_deref()).collect();
        return found.join(", ");
    }
    let names: Vec<&str> = missing.iter().map(|library| library.name).collect();
    let mut packages: Vec<&str> = missing.iter().map(|library| library.package).collect();
    packages.dedup();
    format!(
        "{} not found: a program with CUDA does not start without (pip install {})",
        names.join(", "),
        packages.join(" ")
    )
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_one_line() {
        let gpu = Gpu {
            ordinal: 0,
            name: "X1".into(),
            capability: (7, 5),
            memory: 16 << 30,
            free: 8 << 30,
            bandwidth: Some(320_064_000_000),
            ..Gpu::default()
        };
        let cuda = Ok(Cuda { version: (12, 4), driver: Some("550.1".into()), gpus: vec![gpu] });
        assert_eq!(
            cuda_lines(&cuda),
            [
                "CUDA       12.4, driver 550.1",
                "GPU 0      X1, 8.0 GiB of 16.0 GiB free, compute capability 7.5, no bf16, 0.3 TB/s"
            ]
        );
        assert_eq!(cuda_lines(&Err("no driver".into())), ["GPU        none: no driver"]);
    }

    #[test]
    fn missing_libraries_are_named_with_their_packages() {
        let library =
            |name, package, found: Option<&str>| Library { name, package, found: found.map(str::to_owned) };
        let mut libraries = vec![
            library("libcublas", "nvidia-cublas", None),
            library("libcublasLt", "nvidia-cublas", None),
            library("libcurand", "nvidia-curand", Some("libcurand.so.10")),
        ];
        assert_eq!(
            library_line(&libraries),
            "libcublas, libcublasLt not found: a program with CUDA does not start without (pip install nvidia-cublas)"
        );
        libraries.drain(..2);
        assert_eq!(library_line(&libraries), "libcurand.so.10");
    }
}
