//! The lists of deviations beside the release's own scripts and configurations: each difference is declared, and each declared
//! one is there. Needs a checkout of the release, which `ci/target8/train` gives.
#![allow(clippy::unwrap_used)]

mod released_code {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::PathBuf;
    use std::process::Command;

    use paravt_engines::Job;
    use paravt_reproduce::graph::{Graph, Stage};
    use paravt_reproduce::servers::Fleet;
    use paravt_reproduce::stages::Launch;
    use paravt_reproduce::{GraphOptions, Recipe};
    use paravt_suite::plan::Channel;
    use serde_json::Value;

    type Values = BTreeMap<String, String>;

    fn checkout() -> PathBuf {
        std::env::var_os("PARAVT_TARGET8_CHECKOUT").expect("set by ci/target8/train").into()
    }

    fn source(path: &str) -> String {
        std::fs::read_to_string(checkout().join(path)).unwrap()
    }

    /// The leaves of YAML texts by their dotted names; those of a later text replace earlier ones.
    fn yaml(texts: &[String]) -> Values {
        const READ: &str =
            "import json, sys, yaml; print(json.dumps([yaml.safe_load(text) for text in sys.argv[1:]]))";
        let mut python = Command::new(std::env::var("PARAVT_PYTHON").expect("set by ci/env.sh"));
        let output = python.args(["-c", READ]).args(texts).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut leaves = Values::new();
        for value in serde_json::from_slice::<Vec<Value>>(&output.stdout).unwrap() {
            flatten("", &value, &mut leaves);
        }
        leaves
    }

    fn flatten(prefix: &str, value: &Value, into: &mut Values) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, value) in fields {
                    flatten(
                        &format!("{prefix}{}{name}", if prefix.is_empty() { "" } else { "." }),
                        value,
                        into,
                    );
                }
            }
            Value::String(text) => drop(into.insert(prefix.to_owned(), text.clone())),
            value => drop(into.insert(prefix.to_owned(), value.to_string())),
        }
    }

    /// `NAME was THEIRS, is OURS` for each that differs; `-` where there is none. A value of the release with a variable in it
    /// is filled in by whoever runs it.
    fn differences(theirs: &Values, ours: &Values) -> Vec<String> {
        let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
        let of = |values: &Values, name: &str| values.get(name).cloned().unwrap_or_else(|| "-".to_owned());
        let same = |a: &str, b: &str| match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => a == b,
            _ => a == b || a.contains("${"),
        };
        let pairs = names.into_iter().map(|name| (name, of(theirs, name), of(ours, name)));
        pairs.filter(|(_, a, b)| !same(a, b)).map(|(name, a, b)| format!("{name} was {a}, is {b}")).collect()
    }

    /// Each difference begins as one of `known`, whose second text is in a deviation or, where it is empty, which is the
    /// place of a file; each of `known` meets a difference.
    fn declared(deviations: &[String], differences: &[String], known: &[(&str, &str)]) {
        let (mut met, mut open) = (BTreeSet::new(), Vec::new());
        for difference in differences {
            match known.iter().find(|(start, _)| difference.starts_with(start)) {
                Some((start, text)) if deviations.iter().any(|deviation| deviation.contains(text)) => {
                    met.insert(*start);
                }
                _ => open.push(difference),
            }
        }
        assert!(open.is_empty(), "not declared: {open:#?}");
        let unmet: Vec<_> = known.iter().filter(|(start, _)| !met.contains(start)).collect();
        assert!(unmet.is_empty(), "declared, and as in the release: {unmet:?}");
    }

    fn graph(name: &str) -> Graph {
        let gpus = (0..8).map(|gpu| gpu.to_string()).collect();
        Recipe::load(name).unwrap().graph(&GraphOptions { gpus, ..GraphOptions::new("out") }).unwrap()
    }

    fn stage<'a>(graph: &'a Graph, name: &str) -> &'a Stage {
        graph.stages().iter().find(|stage| stage.name() == name).unwrap()
    }

    /// Words of a command with the values of those that are `NAME=VALUE` or `--NAME VALUE`.
    fn flags(words: &[String]) -> Values {
        let mut values = Values::new();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            match word.split_once('=') {
                Some((name, value)) => drop(values.insert(name.to_owned(), value.to_owned())),
                None if word.starts_with('-') => {
                    let value = words.next_if(|next| !next.starts_with('-') && !next.contains('='));
                    values.insert(word.clone(), value.cloned().unwrap_or_default());
                }
                None => drop(values.insert(word.clone(), String::new())),
            }
        }
        values
    }

    /// The commands of a launched stage and the names of their variables.
    fn launched(stage: &Stage) -> (Vec<Values>, Values) {
        let launch = stage.kind::<Launch>().unwrap();
        let shown = launch.job.print_commands(stage.folder().unwrap());
        let commands = shown.iter().map(|shown| flags(&shlex::split(&shown.line).unwrap())).collect();
        let variables =
            shown.iter().flat_map(|shown| &shown.environment).map(|text| text.split_once('=').unwrap());
        (commands, variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Variables of ours that no file of the release sets.
    fn new_variables(ours: &Values, files: &[&str]) -> Vec<String> {
        let texts: String = files.iter().map(|file| source(file)).collect();
        let is_set =
            |name: &str| [format!("{name}="), format!("\"{name}\"")].iter().any(|text| texts.contains(text));
        ours.keys().filter(|name| !is_set(name)).map(|name| format!("variable {name}")).collect()
    }

    #[test]
    #[ignore = "needs the release: run by ci/target8/train"]
    fn sft_differs_from_the_release_as_declared() {
        let graph = graph("paravt-8b-train");
        let sft = stage(&graph, "sft");
        let (commands, variables) = launched(sft);
        let script = source("scripts/run_sft.sh");
        let command = &script[script.find("exec torchrun").unwrap() + "exec ".len()..];
        let command = command.replace("\\\n", " ").replace("\"${OVERRIDES[@]}\"", "").replace("\"$@\"", "");
        let mut theirs = flags(&shlex::split(&command).unwrap());
        theirs.extend(yaml(&[source("paravt/sft/configs/qwen3vl_8b.yaml")]));
        let mut all = differences(&theirs, &commands[0]);
        all.extend(new_variables(&variables, &["scripts/run_sft.sh"]));
        declared(
            sft.deviations(),
            &all,
            &[
                ("-m was lmms_engine.launch.cli", "then runs lmms_engine.launch.cli"),
                ("out/stages/", "an entry file"),
                // That of the environment.
                ("torchrun was", ""),
                ("out/env/sft/bin/torchrun", ""),
                ("--log-dir", "--log-dir"),
                ("--tee", "--tee"),
                ("hydra.run.dir", "hydra.run.dir"),
                ("trainer_args.print_batch_input_steps", "print_batch_input_steps -1"),
                ("trainer_args.report_to", "report_to none"),
                ("trainer_args.save_total_limit was 30, is 3", "the last 3"),
                // Written out: the defaults of transformers.
                ("trainer_args.dataloader_pin_memory was -, is true", ""),
                ("trainer_args.use_cpu was -, is false", ""),
                ("variable FORCE_QWENVL_VIDEO_READER", "FORCE_QWENVL_VIDEO_READER=decord"),
                ("variable HF_DATASETS_CACHE", "HF_DATASETS_CACHE"),
                ("variable HF_HUB_OFFLINE", "HF_HUB_OFFLINE=1"),
                ("variable NCCL_DEBUG", "NCCL_DEBUG"),
                ("variable OMP_NUM_THREADS", "OMP_NUM_THREADS"),
                ("variable PARAVT_STEPS", "writes each step as a line of JSON"),
                // A deviation of its environment.
                ("variable PYTHONPATH", ""),
                ("variable TOKENIZERS_PARALLELISM", "TOKENIZERS_PARALLELISM"),
                ("variable TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
            ],
        );
    }

    #[test]
    #[ignore = "needs the release: run by ci/target8/train"]
    fn reinforcement_learning_differs_from_the_release_as_declared() {
        let graph = graph("paravt-8b-train");
        let rl = stage(&graph, "rl");
        let (_, variables) = launched(rl);
        let Job::Rl(job) = &rl.kind::<Launch>().unwrap().job else { panic!("reinforcement learning") };
        let configs = ["_base", "paragrpo_8b"].map(|name| source(&format!("paravt/rl/configs/{name}.yaml")));
        let theirs = yaml(&configs);
        let mut ours = theirs.clone();
        ours.retain(|name, _| !name.starts_with("defaults"));
        for set in job.overrides(rl.folder().unwrap()).unwrap() {
            let (name, value) = set.split_once('=').unwrap();
            flatten(name, &serde_json::from_str(value).unwrap(), &mut ours);
        }
        let mut all = differences(&theirs, &ours);
        let set =
            ["scripts/run_rl.sh", "paravt/rl/areal/utils/launcher.py", "paravt/rl/areal/launcher/local.py"];
        all.extend(new_variables(&variables, &set));
        declared(
            rl.deviations(),
            &all,
            &[
                ("defaults", "merged into one file"),
                ("stats_logger.tensorboard.path", "stats_logger.tensorboard"),
                ("total_train_steps was -, is 55", "ends after 55 steps"),
                // A folder of the run.
                ("trial_name", ""),
                ("variable CUDA_VISIBLE_DEVICES", "started here and not by areal.launcher.local"),
                ("variable FORCE_QWENVL_VIDEO_READER", "FORCE_QWENVL_VIDEO_READER"),
                ("variable HF_DATASETS_CACHE", "HF_DATASETS_CACHE"),
                ("variable HF_HUB_OFFLINE", "HF_HUB_OFFLINE=1"),
                ("variable NO_PROXY", "no_proxy"),
                ("variable no_proxy", "no_proxy"),
                ("variable PARAVT_STEPS", "writes each step as a line of JSON"),
                // Read by the release's configuration.
                ("variable PARAVT_", ""),
                ("variable PYTHONHASHSEED", "PYTHONHASHSEED=0"),
                ("variable WANDB_MODE", "WANDB_MODE=disabled"),
            ],
        );
        // What the variables of the shell make of the released launcher, off here.
        assert_eq!(variables["SGLANG_DISABLE_CUDNN_CHECK"], "0");
        assert!(source("scripts/run_rl.sh").contains("${SGLANG_DISABLE_CUDNN_CHECK:-1}"));
    }

    #[test]
    #[ignore = "needs the release: run by ci/target8/train"]
    fn serving_and_asking_differ_from_the_release_as_declared() {
        let graph = graph("paravt-8b");
        let serve = stage(&graph, "serve");
        let fleet = serve.kind::<Fleet>().unwrap();
        let python = source("paravt/eval/utils.py");
        let start = python.find("        cmd = [").unwrap();
        let list = &python[start..start + python[start..].find("]\n").unwrap()];
        let word = |line: &str| match line.trim().trim_end_matches(',') {
            "model" => "ParaVT/ParaVT-8B".to_owned(),
            "str(max_num_batched_tokens)" => "131072".to_owned(),
            "str(base_port + gpu)" => "{port}".to_owned(),
            "sys.executable" => "python".to_owned(),
            word => word.trim_matches(['"', '\'']).to_owned(),
        };
        assert!(python.contains("max_num_batched_tokens: int = 131072,"));
        let theirs: Vec<String> = list.lines().skip(1).map(word).collect();
        let ours = shlex::split(&fleet.command_line().unwrap()).unwrap();
        let compact = |mut values: Values| {
            values.values_mut().for_each(|value| value.retain(|char| char != ' '));
            values
        };
        let mut all = differences(&compact(flags(&theirs)), &compact(flags(&ours)));
        all.extend(fleet.serve.environment.keys().map(|name| format!("variable {name}")));
        let started = "started as `vllm serve MODEL`";
        declared(
            serve.deviations(),
            &all,
            &[
                (" was", ""),
                ("--host was -, is 127.0.0.1", "listen on 127.0.0.1"),
                ("--model", started),
                ("-m was vllm.entrypoints.openai.api_server", started),
                ("ParaVT/ParaVT-8B", started),
                ("python", started),
                ("serve", started),
                ("vllm", started),
                ("variable HF_HUB_OFFLINE", "HF_HUB_OFFLINE=1"),
            ],
        );

        for (run, file) in [("with-tool", "withtool"), ("no-tool", "notool")] {
            let theirs = yaml(&[source(&format!("paravt/eval/configs/{file}.yaml"))]);
            let splits: Vec<&str> = theirs["datasets"].split(',').collect();
            let asked: Vec<_> = graph.evaluations().filter(|(stage, ..)| stage.is_called(run)).collect();
            for (stage, evaluation, _) in &asked {
                let config = &evaluation.config;
                let mode = config.mode.as_ref().unwrap().as_str();
                if !splits.contains(&evaluation.splits[0].as_str()) {
                    // By its flags, as the header of run_eval.sh shows them.
                    assert!(
                        evaluation.splits == ["charades"]
                            && source("scripts/run_eval.sh")
                                .contains("--datasets charades --video_channel video_url")
                    );
                    continue;
                }
                let ours = [config.nframes(), config.max_parallel()].map(|number| number.to_string());
                let same = [&theirs["main_nframes"], &theirs["max_parallel"]];
                assert_eq!(
                    (mode, ours.each_ref()),
                    (theirs["prompt_mode"].as_str(), same),
                    "{}",
                    stage.name()
                );
                assert!(theirs["video_channel"] == "image_url" && config.channel() == Channel::Image);
                // Without tools there is one turn, whatever the number.
                assert!(mode == "direct" || config.max_turns().to_string() == theirs["max_turns"]);
                assert!(stage.deviations().iter().any(|text| text.contains("failed request")));
            }
            assert_eq!(asked.len(), splits.len() + 1);
        }
    }
}
