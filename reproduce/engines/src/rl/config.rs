//! The configuration of AReaL as one complete file: what the release's `_base.yaml` and `paragrpo_8b.yaml` amount to
//! (ParaVT cf55249 paravt/rl/configs), without variables of the shell.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Job, Settings, experiments};
use crate::error::{Error, Result};

/// Name of the experiment in the folders of AReaL.
pub(crate) const EXPERIMENT: &str = "paravt";

/// Names of experiment and trial, which each part of AReaL's configuration repeats.
#[derive(Debug, Clone, Serialize)]
struct Trial {
    experiment_name: &'static str,
    trial_name: String,
}

/// How often something is done.
#[derive(Debug, Clone, Serialize)]
struct Timer {
    #[serde(flatten)]
    owner: Trial,
    fileroot: String,
    freq_epochs: Option<usize>,
    freq_steps: Option<usize>,
    freq_secs: Option<usize>,
}

/// How often AReaL saves its recovery state.
#[derive(Debug, Clone, Serialize)]
struct Recover {
    mode: &'static str,
    retries: usize,
    #[serde(flatten)]
    timer: Timer,
}

/// A file of rows.
#[derive(Debug, Clone, Serialize)]
struct Rows {
    batch_size: usize,
    shuffle: bool,
    pin_memory: bool,
    num_workers: usize,
    path: String,
    r#type: &'static str,
}

/// The server of SGLang.
#[derive(Debug, Clone, Serialize)]
struct Sglang {
    model_path: String,
    random_seed: u64,
    skip_tokenizer_init: bool,
    dtype: &'static str,
    max_running_requests: usize,
    context_length: usize,
    mem_fraction_static: f64,
    enable_multimodal: bool,
    attention_backend: &'static str,
    disable_cuda_graph: bool,
    torch_compile_max_bs: usize,
    sampling_backend: &'static str,
}

/// Generation.
#[derive(Debug, Clone, Serialize)]
struct Generation {
    n_samples: usize,
    min_new_tokens: usize,
    max_new_tokens: usize,
    greedy: bool,
    temperature: f64,
}

/// The agent of a rollout.
#[derive(Debug, Clone, Serialize)]
struct Agent {
    max_turns: usize,
    enable_subagents: &'static str,
    subagents_kwargs: Value,
    nframes: usize,
    fps: usize,
    max_pixels: usize,
    min_pixels: usize,
    max_frames: usize,
}

/// Generation of rollouts.
#[derive(Debug, Clone, Serialize)]
struct Rollout {
    #[serde(flatten)]
    owner: Trial,
    max_concurrent_rollouts: usize,
    queue_size: Option<usize>,
    consumer_batch_size: usize,
    max_head_offpolicyness: usize,
    enable_rollout_tracing: bool,
    scheduling_spec: Value,
    fileroot: String,
    tokenizer_path: String,
    dump_to_file: bool,
}

/// The optimiser.
#[derive(Debug, Clone, Serialize)]
struct Optimizer {
    r#type: &'static str,
    lr: f64,
    weight_decay: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    lr_scheduler_type: &'static str,
    gradient_clipping: f64,
    warmup_steps_proportion: f64,
}

/// A model that is trained, or the reference of the KL term.
#[derive(Debug, Clone, Serialize)]
struct Engine {
    #[serde(flatten)]
    owner: Trial,
    path: String,
    init_from_scratch: bool,
    attn_impl: &'static str,
    disable_dropout: bool,
    dtype: &'static str,
    mb_spec: Value,
    optimizer: Option<Optimizer>,
    scheduling_spec: Value,
}

/// The model that is trained.
#[derive(Debug, Clone, Serialize)]
struct Actor {
    #[serde(flatten)]
    engine: Engine,
    gradient_checkpointing: bool,
    eps_clip: f64,
    temperature: f64,
    reward_scaling: f64,
    reward_bias: f64,
    kl_ctl: f64,
    ppo_n_minibatches: usize,
    recompute_logprob: bool,
    use_decoupled_loss: bool,
    behav_imp_weight_cap: f64,
    reward_norm: Value,
    adv_norm: Value,
    max_new_tokens: usize,
}

/// The reference of the KL term.
#[derive(Debug, Clone, Serialize)]
struct Reference {
    #[serde(flatten)]
    engine: Engine,
    scheduling_strategy: Value,
}

/// The whole configuration.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Config {
    #[serde(flatten)]
    owner: Trial,
    seed: u64,
    enable_offload: bool,
    total_train_epochs: usize,
    total_train_steps: usize,
    tokenizer_path: String,
    cluster: Value,
    allocation_mode: String,
    scheduler: Value,
    rollout: Rollout,
    gconfig: Generation,
    hierarchical_agent: Agent,
    actor: Actor,
    r#ref: Reference,
    sglang: Sglang,
    train_dataset: Rows,
    valid_dataset: Rows,
    saver: Timer,
    recover: Recover,
    evaluator: Timer,
    stats_logger: Value,
    perf_tracer: Value,
    paravt: Value,
}

impl Config {
    /// The configuration of a training in `folder` of which `offset` steps are behind, from the weights in `model`.
    pub(crate) fn of(job: &Job, folder: &Path, model: &Path, offset: usize) -> Self {
        let settings = &job.settings;
        let trial = super::state::trial(offset);
        let owner = || Trial { experiment_name: EXPERIMENT, trial_name: trial.clone() };
        let root = experiments(folder).display().to_string();
        let actor = path(model);
        let timer = |freq_steps| Timer {
            owner: owner(),
            fileroot: root.clone(),
            freq_epochs: Some(1),
            freq_steps,
            freq_secs: None,
        };
        let rows = |shuffle| Rows {
            batch_size: settings.prompts,
            shuffle,
            pin_memory: true,
            num_workers: 4,
            path: path(&job.paths.rl_rows),
            r#type: "rl",
        };
        Self {
            owner: owner(),
            seed: settings.seed,
            enable_offload: false,
            total_train_epochs: 100,
            total_train_steps: settings.steps.saturating_sub(offset),
            tokenizer_path: actor.clone(),
            cluster: json!({
                "n_nodes": 1,
                "n_gpus_per_node": settings.trainers + 1,
                "fileroot": root,
                "name_resolve": { "type": "nfs", "nfs_record_root": format!("{root}/name_resolve") },
            }),
            allocation_mode: format!("sglang:d1p1t1+d{}p1t1", settings.trainers),
            scheduler: json!({ "type": "local" }),
            rollout: rollout(settings, owner(), &root, &actor),
            gconfig: Generation {
                n_samples: settings.samples,
                min_new_tokens: 0,
                max_new_tokens: settings.max_new_tokens,
                greedy: false,
                temperature: settings.temperature,
            },
            hierarchical_agent: agent(settings),
            actor: trained(settings, owner(), &actor),
            r#ref: Reference {
                engine: engine(settings, owner(), path(&job.model), None),
                scheduling_strategy: json!({ "type": "colocation", "target": "actor" }),
            },
            sglang: sglang(settings, &actor),
            train_dataset: rows(true),
            valid_dataset: rows(false),
            saver: timer(Some(settings.save_every)),
            recover: Recover { mode: "auto", retries: 3, timer: timer(Some(settings.save_every)) },
            evaluator: timer(None),
            stats_logger: json!({
                "experiment_name": EXPERIMENT,
                "trial_name": trial,
                "fileroot": root,
                "wandb": { "mode": "disabled", "project": EXPERIMENT, "entity": null, "name": trial },
                "tensorboard": { "path": folder.join("scratch/tensorboard").display().to_string() },
            }),
            perf_tracer: json!({
                "experiment_name": EXPERIMENT,
                "trial_name": trial,
                "fileroot": root,
                "enabled": false,
                "session_tracer": { "enabled": true },
            }),
            paravt: method(settings),
        }
    }

    /// As YAML.
    pub(crate) fn yaml(&self) -> Result<String> {
        crate::yaml::to_string(self)
            .map_err(|error| Error::Setting { section: "rl", message: format!("cannot be written: {error}") })
    }
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// What a worker of AReaL's own schedulers would get; its local launcher reads the variables alone.
fn scheduling() -> Value {
    json!([{
        "task_type": "worker", "port_count": 2, "gpu": 1, "cpu": 4, "mem": 32,
        "cmd": "python3 -m areal.scheduler.rpc.rpc_server", "env_vars": {},
    }])
}

fn rollout(settings: &Settings, owner: Trial, root: &str, tokenizer: &str) -> Rollout {
    Rollout {
        owner,
        max_concurrent_rollouts: settings.concurrent,
        queue_size: None,
        consumer_batch_size: settings.prompts,
        max_head_offpolicyness: settings.off_policy,
        enable_rollout_tracing: true,
        scheduling_spec: scheduling(),
        fileroot: root.to_owned(),
        tokenizer_path: tokenizer.to_owned(),
        dump_to_file: true,
    }
}

fn agent(settings: &Settings) -> Agent {
    Agent {
        max_turns: settings.max_turns,
        enable_subagents: "crop_video",
        subagents_kwargs: json!({ "crop_video": { "timeout": 120, "debug_mode": true } }),
        nframes: 64,
        fps: settings.fps,
        max_pixels: settings.max_pixels,
        min_pixels: settings.min_pixels,
        max_frames: settings.max_frames,
    }
}

fn engine(settings: &Settings, owner: Trial, path: String, optimizer: Option<Optimizer>) -> Engine {
    Engine {
        owner,
        path,
        init_from_scratch: false,
        attn_impl: "sdpa",
        disable_dropout: true,
        dtype: "bfloat16",
        mb_spec: json!({ "max_tokens_per_mb": settings.micro_batch_tokens }),
        optimizer,
        scheduling_spec: scheduling(),
    }
}

fn trained(settings: &Settings, owner: Trial, path: &str) -> Actor {
    let optimizer = Optimizer {
        r#type: "adam",
        lr: settings.learning_rate,
        weight_decay: settings.weight_decay,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        lr_scheduler_type: "constant",
        gradient_clipping: 1.0,
        warmup_steps_proportion: 0.0,
    };
    let norm = |level: &str| json!({ "mean_level": level, "std_level": level });
    let mut reward_norm = norm("group");
    reward_norm["group_size"] = settings.samples.into();
    Actor {
        engine: engine(settings, owner, path.to_owned(), Some(optimizer)),
        gradient_checkpointing: true,
        eps_clip: settings.clip,
        temperature: settings.temperature,
        reward_scaling: 10.0,
        reward_bias: -0.2,
        kl_ctl: settings.kl,
        ppo_n_minibatches: 1,
        recompute_logprob: true,
        use_decoupled_loss: true,
        behav_imp_weight_cap: 5.0,
        reward_norm,
        adv_norm: norm("batch"),
        max_new_tokens: settings.max_new_tokens,
    }
}

fn sglang(settings: &Settings, model: &str) -> Sglang {
    Sglang {
        model_path: model.to_owned(),
        random_seed: settings.seed,
        skip_tokenizer_init: true,
        dtype: "bfloat16",
        max_running_requests: settings.server_requests,
        context_length: settings.context,
        mem_fraction_static: settings.server_memory,
        enable_multimodal: true,
        attention_backend: "flashinfer",
        disable_cuda_graph: true,
        torch_compile_max_bs: 0,
        sampling_backend: "pytorch",
    }
}

fn method(settings: &Settings) -> Value {
    json!({
        "constrained": settings.constrained,
        "gating": { "nframes_gating": settings.nframes_gating },
        "anchoring": { "weight": settings.anchor_weight },
        "reward": { "mode": settings.reward, "format_weight": settings.format_weight },
    })
}
