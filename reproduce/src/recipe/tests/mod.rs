//! Recipes from their text to their graph.

mod served;

use paravt_suite::evaluate::RunConfig;

use super::Recipe;
use crate::driver::Evaluation;
use crate::error::RecipeError;
use crate::graph::{Graph, Stage};
use crate::options::GraphOptions;
use crate::stages::Reinforcement;

fn graph(name: &str, options: &GraphOptions) -> Graph {
    Recipe::load(name).unwrap().graph(options).unwrap()
}

fn out() -> GraphOptions {
    GraphOptions::new("out")
}

fn plan_of(text: &str) -> String {
    Recipe::parse("my.toml", text).unwrap().graph(&out()).unwrap().plan(&|_| true)
}

fn refused(text: &str) -> String {
    Recipe::parse("my.toml", text).unwrap_err().to_string()
}

fn configs(graph: &Graph) -> Vec<(&str, &Evaluation)> {
    graph.evaluations().map(|(stage, asked, _)| (stage.name(), asked)).collect()
}

/// Folders of the results, by the names of their stages.
fn folders(graph: &Graph) -> Vec<String> {
    let folders = graph.stages().iter().filter_map(Stage::folder);
    folders.map(|folder| folder.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

fn folder(graph: &Graph, name: &str) -> std::path::PathBuf {
    let stage = graph.stages().iter().find(|stage| stage.name() == name).unwrap();
    stage.folder().unwrap().to_owned()
}

const MINE: &str = "extends = \"served\"\nname = \"mine\"\ntitle = \"t\"\nmodel = \"o/m\"\nserve.engine = \"vllm\"\n\
    [matrix]\nrun = [\"a\", { name = \"b\", published = false }]\nsplit = [\"mlvu\"]\n";

#[test]
fn a_variant_of_four_lines_has_the_plan_of_what_it_extends_but_for_its_field() {
    let mine = plan_of("extends = \"paravt-8b\"\nname = \"mine\"\n[evaluate]\nmax_turns = 4\n");
    let theirs = graph("paravt-8b", &out()).plan(&|_| true);
    assert_eq!(mine.lines().count(), theirs.lines().count());
    for (mine, theirs) in mine.lines().zip(theirs.lines()).filter(|(mine, theirs)| mine != theirs) {
        let is_of_name = mine.replace("mine", "paravt-8b") == theirs;
        let is_of_turns = mine.replace("up to 4 turns", "up to 3 turns") == theirs;
        assert!(is_of_name || is_of_turns || mine.contains("output   out/stages/"), "{mine}\n{theirs}");
    }
    assert_eq!(mine.matches("up to 4 turns").count(), 7);
    // Without tools there are no turns, yet they are part of what is asked.
    assert_eq!(mine.matches("fetch-c28c6280c4ad").count(), 1);
}

#[test]
fn a_recipe_extends_a_file_beside_it_and_never_itself() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let load = |name: &str| Recipe::load(folder.path().join(name).to_str().unwrap());
    write("one.toml", MINE);
    write("two.toml", "extends = \"one.toml\"\nmodel = \"o/other\"\n");
    let two = load("two.toml").unwrap();
    assert_eq!((two.name.as_str(), two.title.as_str(), two.model.as_deref()), ("two", "t", Some("o/other")));
    write("one.toml", "extends = \"two.toml\"\n");
    let error = load("two.toml").unwrap_err().to_string();
    assert!(error.contains("goes round in a circle") && error.contains("one.toml -> "), "{error}");
    write("two.toml", "extends = \"paravt-8\"\n");
    let error = load("two.toml").unwrap_err().to_string();
    assert!(error.contains("no recipe `paravt-8`") && error.contains("did you mean `paravt-8b`?"), "{error}");
}

#[test]
fn a_field_that_is_wrong_is_named_with_its_neighbour() {
    let gone = "tests = [{ figure = \"kappa\", a = \"gone\", b = \"rl\", holds = { above = 0.5 }, fails = { below = 0 } }]";
    let gone = format!("[[predictions]]\ntitle = \"t\"\n{gone}");
    for (of, text, words) in [
        ("paravt-8b", "evaluate.max_turn = 3", "did you mean `max_turns`?"),
        ("paravt-8b", "evaluate.max_turn = 3", "my.toml: line 2: [evaluate] unknown field `max_turn`"),
        ("paravt-8b", "modl = \"o/m\"", "line 2"),
        ("paravt-8b", "modl = \"o/m\"", "did you mean `model`?"),
        ("paravt-8b", "serve.engine = \"tgi\"", "expected vllm, sglang, transformers or candle"),
        ("paravt-8b", "matrix.run = [{ name = \"a\", protocol = \"conann\" }]", "found `conann`"),
        ("paravt-8b", "matrix.run = [{ name = \"a\", filled = \"sage\" }]", "expected one of paravt+"),
        ("paravt-8b", "stages = [{ name = \"data\", inputs = [\"fecth\"] }]", "did you mean `fetch`?"),
        (
            "paravt-8b",
            "stages = [{ name = \"fetch\", inputs = [\"data\"] }]",
            "`fetch` builds on `data`, which",
        ),
        ("paravt-8b", "stages = [{ name = \"far\" }]", "stage `far`: missing field `does`"),
        ("paravt-8b", "stages = [{ name = \"far\", does = \"fli\" }]", "unknown variant `fli`"),
        ("paravt-8b", "stages = [{ name = \"a\", does = \"base\", matrix = [\"x\"] }]", "no axis `x`"),
        (
            "paravt-8b",
            "stages = [{ name = \"data\", split = \"mlvu\" }]",
            "stage `data`: unknown field `split`",
        ),
        ("paravt-8b", "fetch.enabled = \"no\"", "enabled: invalid type: string"),
        ("paravt-8b", "evaluate.published = 1", "published: invalid type: integer"),
        ("paravt-nano", "evaluate.splits = \"mlvu\"", "splits: invalid type: string"),
        ("paravt-nano", "evaluate.protocol = \"conan\"", "protocol conan is of a served model"),
        ("paravt-8b", "serve = { engine = \"sglang\", flags = \"--x\" }", "give the command"),
        ("paravt-8b", "matrix.runs = [\"a\"]", "`runs` is an axis of no stage\ndid you mean `run`?"),
        ("paravt-8b", "matrix.exclude = [{ splits = \"mlvu\" }]", "did you mean `split`?"),
        ("paravt-8b", "kind = \"served\"", "write `extends = \"served\"`"),
        ("paravt-nano", "stages = [{ name = \"no-tool\", model = \"{gone}/final\" }]", "`gone`"),
        ("paravt-nano", "stages = [{ name = \"no-tool\", model = \"{grpo}/final\" }]", "`full = true`"),
        (
            "paravt-nano",
            "stages = [{ name = \"grpo\", rollout = { group_size = 0 } }]",
            "`rl.rollout.group_size` is 0",
        ),
        ("paravt-nano", "rl.rollout.think_prefx = true", "did you mean `think_prefix`?"),
        ("paravt-nano", "sft.save_every = 0", "`sft.save_every` is 0"),
        ("paravt-nano", "rl.prompts_per_step = 0", "`rl.prompts_per_step` is 0"),
        ("paravt-nano", "data.rows = 0", "`data.rows` is 0"),
        ("paravt-nano", "world.videos = 0", "`world.videos` is 0"),
        ("paravt-nano", "evaluate.max_tokens = 0", "`evaluate.max_tokens` is 0"),
        ("paravt-nano", "evaluate.splits = []", "`splits` is empty"),
        ("paravt-nano", "comparisons = [{ title = \"t\", a = \"gone\", b = \"no-tool\" }]", "names `gone`"),
        ("paravt-nano", &gone, "kappa of `gone`, which is not a reinforcement learning"),
        ("paravt-8b-train", "sft.setps = 3", "did you mean `steps`?"),
        ("paravt-8b-train", "sft.stop_after = 450", "step 450 has no checkpoint"),
        ("paravt-8b-train", "rl.trainers = 3", "prompts = 7 cannot be shared by trainers = 3"),
        ("paravt-8b-train", "rl.pick = 55", "pick = 55 has no checkpoint"),
        ("paravt-8b-train", "engines.watch.stall_seconds = -1.0", "stall_seconds = -1"),
    ] {
        let error = refused(&format!("extends = \"{of}\"\n{text}\n"));
        assert!(error.starts_with("my.toml: ") && error.contains(words), "{text}: {error}");
    }
    assert!(refused("title = \"x\"\n").contains("no [[stages]]: write `extends = \"served\"`"));
}

#[test]
fn names_that_cannot_be_folders_are_refused() {
    for name in [".", "..", "../../up", "/abs", "a/b", ".hidden", "a b", "ü"] {
        for (field, text) in [
            ("name", format!("name = \"{name}\"")),
            ("[[stages]] name", format!("stages = [{{ name = \"{name}\", does = \"base\" }}]")),
        ] {
            let error = refused(&format!("extends = \"paravt-8b\"\n{text}\n"));
            assert!(error.contains(&format!("{field} `{name}` cannot be the name of a folder")), "{error}");
        }
    }
    assert!(refused("extends = \"paravt-8b\"\nmatrix.run = [\"a\", \"a\"]\n").contains("used twice"));
}

#[test]
fn a_name_that_is_neither_built_in_nor_a_readable_file_is_an_error() {
    let error = Recipe::load("nothing").unwrap_err();
    assert!(error.to_string().contains("paravt-8b"), "{error}");
    assert!(Recipe::load("served").is_err(), "a base can only be extended");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recipe.toml");
    std::fs::write(&path, b"\xff\xfe not text").unwrap();
    let error = Recipe::load(&path.to_string_lossy()).unwrap_err();
    assert!(matches!(error, RecipeError::Unreadable { .. }), "{error}");

    // Neither waits for a writer nor reads without end.
    let pipe = folder.path().join("pipe.toml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let endless = folder.path().join("endless.toml");
    std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
    for path in [pipe, endless] {
        let error = Recipe::load(&path.to_string_lossy()).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}

#[test]
fn variants_of_the_training_share_its_sft() {
    let full = graph("paravt-8b-train", &out());
    for name in ["paravt-8b-grpo", "paravt-8b-anchoring", "paravt-8b-gating"] {
        let variant = graph(name, &out());
        assert_eq!(folder(&variant, "merge"), folder(&full, "merge"));
        for stage in ["rl", "pick", "with-tool-mlvu"] {
            assert_ne!(folder(&variant, stage), folder(&full, stage), "{name} {stage}");
        }
        let row = Recipe::load(name).unwrap().paper_row;
        let rows = configs(&variant).into_iter().filter(|(_, asked)| asked.config.paper_row == row);
        assert_eq!(rows.count(), 4);
    }
    for name in ["paravt-8b-no-tool-reward", "paravt-8b-no-penalty"] {
        let error = Recipe::load(name).unwrap_err();
        assert!(
            matches!(&error, RecipeError::Missing { missing, .. } if missing.contains("no switch")),
            "{error}"
        );
    }
}

#[test]
fn without_sft_reinforcement_learning_starts_from_the_published_model() {
    let graph = graph("paravt-8b-train", &GraphOptions { skip_sft: true, ..out() });
    assert!(!graph.stages().iter().any(|stage| ["sft", "merge"].contains(&stage.name())));
    let plan = graph.plan(&|_| true);
    assert!(plan.contains("PARAVT_BASE_MODEL=mwxely/ParaVT-8B-SFT"), "{plan}");
    assert!(plan.contains("model:mwxely/ParaVT-8B-SFT"), "{plan}");
}

#[test]
fn training_takes_the_gpus_that_this_process_may_use() {
    let gpus: Vec<String> = (2..10).map(|gpu: usize| gpu.to_string()).collect();
    let plan = |gpus: &[String]| {
        graph("paravt-8b-train", &GraphOptions { gpus: gpus.to_vec(), ..out() }).plan(&|_| true)
    };
    let given = plan(&gpus);
    for text in
        ["SGLang on GPU 2, 7 trainers", "CUDA_VISIBLE_DEVICES=2 ", "CUDA_VISIBLE_DEVICES=3,4,5,6,7,8,9"]
    {
        assert!(given.contains(text), "{text}: {given}");
    }
    // The preflight refuses a machine with fewer; the plan counts from 0.
    assert!(plan(&gpus[..1]).contains("SGLang on GPU 0, 7 trainers"));
}

#[test]
fn media_that_are_allowed_to_be_missing_are_a_deviation() {
    let plan =
        |allow_missing| graph("paravt-8b-train", &GraphOptions { allow_missing, ..out() }).plan(&|_| true);
    assert!(plan(true).contains("deviates --allow-missing") && !plan(false).contains("--allow-missing"));
}

/// A user's finished stages stay valid as long as these names do: other names mean that everything is made again, and
/// are right only where what a stage makes changes.
#[test]
fn stages_keep_their_names() {
    let expected = [
        "base-421a56789cf7", "world-92290bc053ee", "data-e1060842add0", "sft-c8ae96398781",
        "rl-c15e4637447a", "grpo-88e3181c9940", "no-think-prefix-623a16b7c002", "no-anchoring-6ebc999f1344",
        "no-gating-423c93de31c8", "pyvision-e2e487ab15f4", "with-tool-5208d2564b06", "no-tool-0c80f4f3272d",
        "sequential-ba2d9ba9a12b", "sft-with-tool-bf4c04b56c7e", "sft-no-tool-009c89805b61",
        "grpo-with-tool-6e92d633ad7d", "pyvision-with-tool-e7c5f8b8a005",
    ];
    assert_eq!(folders(&graph("paravt-nano-study", &GraphOptions { full: true, ..out() })), expected);
}

#[test]
fn every_seed_has_its_own_trainings_and_evaluations() {
    let graph = graph("paravt-nano", &GraphOptions { seeds: vec![0, 1], full: true, ..out() });
    let of = |seed| graph.stages().iter().filter(|stage| stage.seed() == seed).count();
    assert_eq!((of(None), of(Some(0)), of(Some(1))), (3, 15, 15));
    let seed = |stage: &Stage| stage.kind::<Reinforcement>().map(|training| training.config.seed);
    assert!(graph.stages().iter().all(|stage| seed(stage).is_none_or(|seed| stage.seed() == Some(seed))));
}

#[test]
fn variants_of_the_miniature_change_what_they_name_and_nothing_else() {
    let graph = graph("paravt-nano", &GraphOptions { full: true, ..out() });
    let config = |name: &str| {
        let stage = graph.stages().iter().find(|stage| stage.name() == name).unwrap();
        *stage.kind::<Reinforcement>().unwrap().config.clone()
    };
    let (full, vanilla) = (config("rl"), config("grpo"));
    assert!(!vanilla.rollout.think_prefix && !vanilla.reward.answer_suffix && full.reward.answer_suffix);
    assert_eq!((vanilla.steps, &vanilla.optimizer), (full.steps, &full.optimizer));
    for name in ["no-think-prefix", "no-anchoring", "no-gating", "pyvision"] {
        assert_ne!(config(name), full, "{name}");
    }
}

#[test]
fn the_study_of_the_paradox_has_its_priors_frames_and_predictions() {
    let recipe = Recipe::load("paravt-paradox").unwrap();
    assert_eq!(recipe.predictions.len(), 11, "as in its design");
    let graph = recipe.graph(&GraphOptions { full: true, ..out() }).unwrap();
    let names: Vec<&str> = graph.stages().iter().map(Stage::name).collect();
    assert!(["strong-sft", "weak-sft", "weak-para-measured"].iter().all(|name| names.contains(name)));
    let frames = configs(&graph).into_iter().filter(|(name, _)| name.starts_with("cold-no-tool-"));
    let frames: Vec<usize> = frames.map(|(_, asked)| asked.config.nframes()).collect();
    assert_eq!(frames, [4, 8, 16, 32, 64]);
}

#[test]
fn the_small_recipe_trains_two_steps_everywhere() {
    let graph = Recipe::load("paravt-paradox").unwrap().small().graph(&GraphOptions { full: true, ..out() });
    let graph = graph.unwrap();
    let trainings: Vec<_> = graph.stages().iter().filter_map(Stage::kind::<Reinforcement>).collect();
    assert!(trainings.len() == 9 && trainings.iter().all(|training| training.config.steps == 2));
    assert!(graph.table().contains("cold-start SFT, 2 steps") && !graph.table().contains("600 steps"));
}

/// What would be read as something else, or read by nothing, is refused with its field and a remedy.
#[test]
fn silent_misreadings_are_refused() {
    let nano = |text: &str| refused(&format!("extends = \"paravt-nano\"\n{text}"));
    let served = |text: &str| refused(&format!("{MINE}{text}"));
    let evaluation = "[[stages]]\nname = \"z\"\ndoes = \"evaluate\"\nmode = \"native\"\n";
    for (message, words) in [
        (nano(&format!("{evaluation}model = \"{{sft}}/final\"\n")), "give it `matrix = [\"seed\"]`"),
        (
            nano(&format!(
                "{evaluation}model = \"{{rl}}/final\"\nmatrix = [\"n\", \"seed\"]\n[matrix]\nn = [4]\n"
            )),
            "`seed` must be the first axis",
        ),
        (nano(&format!("{evaluation}matrix = [\"seed\"]\nmodel = 5\n")), "`model`: expected a path"),
        (
            nano(&format!("{evaluation}matrix = [\"seed\"]\nmodel = \"{{rl/final\"\n")),
            "`model`: expected a path",
        ),
        (nano(&format!("{evaluation}matrix = [\"seed\"]\nmodel = \"{{rl}}/../x\"\n")), "leads out of"),
        (nano(&format!("{evaluation}matrix = [\"seed\"]\n{evaluation}")), "`z` is used twice"),
        (nano("[sft]\nseed = 7\n"), "--seed and --seeds"),
        (nano("[matrix]\nseed = [1, 2]\n"), "--seed and --seeds"),
        (served("exclude = [{}]\n"), "excludes everything"),
        (served("exclude = [{ split = \"mlvuu\" }]\n"), "`split` has no value \"mlvuu\""),
        (
            refused(&MINE.replace("\"b\", published", "\"b\", split = [\"lvbench\"], published")),
            "`split` has no value",
        ),
        (
            refused(&MINE.replace("\"b\", published", "\"b\", enabled = false, published")),
            "leave the value out",
        ),
        (
            refused(&MINE.replace("\"b\", published", "\"b\", model = \"o/n\", published")),
            "`model`: an evaluation asks",
        ),
        (refused(&MINE.replace("name = \"b\", published", "published")), "needs a text"),
        (
            refused(&MINE.replace("run = [\"a\", { name = \"b\", published = false }]", "run = []")),
            "has no values",
        ),
        (served("[evaluate]\nnframes = 0\n"), "`evaluate.nframes` is 0"),
        (served("[[stages]]\nname = \"serve2\"\ndoes = \"serve\"\n"), "a recipe has once"),
        (refused("extends = \"paravt-8b\"\n[serve]\nmodel = \"o/m\"\n"), "at the top of the recipe"),
        (
            refused("extends = \"paravt-8b-grpo\"\nmodel = \"o/m\"\n"),
            "`serve` serves a model that another stage makes",
        ),
        (nano("model = \"o/m\"\n"), "`model` is read by no stage"),
        (nano("[serve]\nengine = \"vllm\"\n"), "[serve] is read by no stage"),
        (served("[rl]\nsteps = 2\n"), "[rl] is read by no stage"),
        (served("[evaluate]\npaper_row = \"ParaVT-9B\"\n"), "has no row `ParaVT-9B`"),
        (nano("[rl.optimizer]\nlearning_rate = \"high\"\n"), "optimizer.learning_rate: invalid type"),
        (nano("[evaluate]\nnframes = \"many\"\n"), "nframes: invalid type"),
    ] {
        assert!(message.contains(words), "{words}: {message}");
    }
}

#[test]
fn values_of_a_matrix_are_small_too() {
    let text = "extends = \"paravt-nano\"\n[[stages]]\nname = \"rl\"\nmatrix = [\"seed\"]\n[[stages]]\n\
                name = \"rl-{steps}\"\ndoes = \"rl\"\nmatrix = [\"seed\", \"steps\"]\n\
                [matrix]\nsteps = [30, 40, { name = \"long\", steps = 60 }]\n";
    let graph = Recipe::parse("my.toml", text).unwrap().small().graph(&out()).unwrap();
    let steps = graph
        .stages()
        .iter()
        .filter_map(|stage| Some((stage.name(), stage.kind::<Reinforcement>()?.config.steps)));
    let steps: Vec<_> = steps.filter(|(name, _)| name.starts_with("rl-")).collect();
    assert_eq!(steps, [("rl-30", 2), ("rl-40", 2), ("rl-long", 2)]);
}

#[test]
fn what_a_stage_reads_elsewhere_is_part_of_its_result() {
    let of = |text: &str| {
        let text = format!("extends = \"paravt-nano\"\n[[stages]]\nname = \"with-tool\"\n{text}");
        folder(&Recipe::parse("my.toml", &text).unwrap().graph(&out()).unwrap(), "with-tool")
    };
    let usual = of("");
    assert_eq!(of("model = \"{rl}/final\"\n"), usual);
    let others = ["{rl}/step-4", "/data/a", "/data/b"].map(|model| of(&format!("model = \"{model}\"\n")));
    let all: std::collections::BTreeSet<_> = others.iter().chain([&usual]).collect();
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(others.iter().all(|folder| !folder.to_string_lossy().contains("data")), "no path of a machine");
}

#[test]
fn values_of_an_axis_are_inputs_and_settings_of_their_stage() {
    let text = "extends = \"paravt-nano\"\n[[stages]]\nname = \"e-{ck}\"\ndoes = \"evaluate\"\n\
        matrix = [\"seed\", \"ck\"]\n[matrix]\n\
        ck = [{ name = \"a\", model = \"{sft}/final\", mode = \"native\" }, { name = \"b\", model = \"{rl}/final\", mode = \"native\" }]\n";
    let graph = |steps: usize| {
        let text = format!("{text}[sft]\nsteps = {steps}\n");
        Recipe::parse("my.toml", &text).unwrap().graph(&out()).unwrap()
    };
    assert_ne!(folder(&graph(300), "e-b"), folder(&graph(301), "e-b"));
    let unknown = refused(&text.replace("{sft}", "{sftt}"));
    assert!(unknown.contains("builds on `sftt`"), "{unknown}");
}

#[test]
fn a_table_asks_each_row_as_its_own_recipe_does() {
    let table = graph("table1", &out());
    let of_rows = configs(&table);
    let names = ["paravt-8b", "qwen2.5-vl-7b", "video-thinker-7b", "longvt-rft-7b"];
    for name in names {
        let alone = graph(name, &out());
        let own = of_rows
            .iter()
            .filter_map(|(stage, asked)| Some((stage.strip_prefix(&format!("{name}."))?, asked)));
        let own: Vec<(&str, &&Evaluation)> = own.collect();
        assert_eq!(own.len(), configs(&alone).len(), "{name}");
        for ((stage, asked), (alone, expected)) in own.iter().zip(configs(&alone)) {
            let label = asked.config.label.clone();
            assert!(label.as_ref().is_some_and(|label| label.starts_with(&format!("{name} "))), "{label:?}");
            let config = RunConfig { label, ..expected.config.clone() };
            assert_eq!((*stage, &asked.settings, &asked.config), (alone, &expected.settings, &config));
        }
    }
    assert!(of_rows.iter().all(|(stage, _)| *stage != "video-thinker-7b.with-tool-lvbench"));
    let count = |name: &str| table.stages().iter().filter(|stage| stage.name() == name).count();
    assert_eq!(["preflight", "fetch", "data", "environments", "report"].map(count), [1; 5]);
    // Every row of the published table but those of closed models.
    let rows: std::collections::BTreeSet<&str> =
        of_rows.iter().filter_map(|(_, asked)| asked.config.paper_row.as_deref()).collect();
    let paper = paravt_reports::PaperNumbers::embedded().unwrap();
    let left: Vec<&str> = paper.models().into_iter().filter(|row| !rows.contains(row)).collect();
    assert_eq!(left, ["GPT-4o", "Gemini 1.5 Pro"]);
}

#[test]
fn what_is_not_a_table_is_refused() {
    let of = |text: &str| refused(&format!("title = \"t\"\n{text}"));
    assert!(of("rows = [\"paravt-8b\", \"paravt-8b\"]").contains("paravt-8b twice"));
    assert!(of("rows = [\"paravt-nano\"]").contains("is the recipe of one model that is served"));
    assert!(of("rows = [\"table1\"]").contains("is the recipe of one model that is served"));
    assert!(of("rows = [\"paravt-8b\"]\n[evaluate]\nlimit = 3").contains("stands in their recipes"));
    // A table of itself ends.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    std::fs::write(&file, "title = \"t\"\nrows = [\"own.toml\"]").unwrap();
    let error = Recipe::load(file.to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("is the recipe of one model that is served"), "{error}");
    let options = GraphOptions { rows: vec!["conan".to_owned()], ..out() };
    let error = Recipe::load("table1").unwrap().graph(&options).unwrap_err().to_string();
    assert!(error.contains("no row `conan`") && error.contains("did you mean `conan-7b`?"), "{error}");
}
