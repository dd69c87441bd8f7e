//! Recipes of a served model: rows of the published tables, and models in their place.

use paravt_suite::evaluate::RunConfig;
use paravt_suite::plan::{Channel, CropMode};
use paravt_suite::profile::Profile;
use paravt_suite::protocol::PromptMode;
use serde_json::json;

use super::{MINE, configs, graph, out, plan_of};
use crate::driver::Evaluation;
use crate::host::Check;
use crate::servers::Engine;
use crate::{GraphOptions, Recipe};

#[test]
fn a_published_row_has_the_protocol_of_the_recipe_that_evaluates_it() {
    for (row, protocol) in [
        ("ParaVT-8B", Some("paravt")),
        ("Conan-7B", Some("paravt")),
        ("Conan-7B (by its authors)", Some("conan")),
        ("VideoZoomer-7B", Some("paravt+videozoomer")),
        ("PyVision-Video-7B (by its authors)", Some("pyvision-video")),
        ("PyVision-Image-7B (by its authors)", Some("pyvision-image")),
        ("A: + SFT cold-start", Some("paravt")),
        ("a closed model of the table", Some("paravt")),
        ("ReWatch-R1-7B (by its authors)", None),
    ] {
        assert_eq!(Recipe::protocol_of_row(row).as_deref(), protocol, "{row}");
    }
}

/// A report compares the model of a run with that of its row.
#[test]
fn reports_know_the_models_of_all_rows() {
    let settings: toml::Table =
        toml::from_str(include_str!("../../../../reports/data/settings.toml")).unwrap();
    let models = settings["models"].as_array().unwrap();
    let mut rows = 0;
    for name in Recipe::names() {
        let recipe = Recipe::load(&name).unwrap();
        let Some(row) = recipe.paper_row.as_ref().filter(|_| !recipe.is_launched()) else { continue };
        let by_authors = row.strip_suffix(" (by its authors)");
        let model = by_authors.unwrap_or(row);
        let is_row = |entry: &&toml::Value| {
            entry["rows"].as_array().unwrap().iter().any(|known| known.as_str() == Some(model))
        };
        let known = models.iter().find(is_row).and_then(|entry| entry.get("id")?.as_str());
        assert_eq!(known, recipe.model.as_deref(), "{row}");
        let least = if by_authors.is_some() { 1 } else { 4 };
        assert!(recipe.graph(&out()).unwrap().evaluations().count() >= least, "{name}");
        rows += 1;
    }
    assert_eq!(rows, 13 + 2 + 4 + 15, "of Table 1 and 2, agents by their authors, and Qwen's");
}

#[test]
fn rows_change_their_fields_and_nothing_else() {
    let splits = |name: &str| -> Vec<String> {
        let graph = graph(name, &out());
        let mut splits: Vec<_> = graph.evaluations().flat_map(|(_, asked, _)| asked.splits.clone()).collect();
        splits.dedup();
        splits
    };
    let four = ["videomme", "videomme_wsub", "lvbench", "mlvu"];
    assert_eq!(
        [splits("paravt-8b-sequential"), splits("paravt-8b-sft")],
        [four, four],
        "the columns of Table 2"
    );
    for (name, calls) in [("paravt-8b-sequential", 1), ("paravt-8b-sft", 5)] {
        let graph = graph(name, &out());
        assert!(configs(&graph).iter().all(|(_, asked)| asked.config.max_parallel() == calls), "{name}");
    }
    let graph = graph("video-thinker-7b", &out());
    assert_eq!(configs(&graph).len(), 6);
    for (_, Evaluation { config, .. }) in configs(&graph) {
        let mode = Some(PromptMode::named("reasoning"));
        assert_eq!((config.mode.clone(), config.max_turns(), config.nframes()), (mode, 1, 64));
        assert_eq!((config.max_tokens, config.paper_row.as_deref()), (Some(2048), Some("Video-Thinker-7B")));
    }
}

#[test]
fn a_row_with_authors_is_run_under_both_protocols() {
    for (name, filled, row, splits) in [
        ("conan-7b", None, "Conan-7B", 4),
        ("videozoomer-7b", Some("paravt+videozoomer"), "VideoZoomer-7B", 4),
        ("longvt-rft-7b", Some("paravt+longvt"), "LongVT-RFT-7B", 5),
        ("sage-7b", Some("paravt+sage"), "SAGE-7B", 0),
    ] {
        let graph = graph(name, &out());
        let (table, authors): (Vec<_>, Vec<_>) =
            configs(&graph).into_iter().partition(|(stage, _)| stage.starts_with("as-in-the-table-"));
        assert_eq!((table.len(), authors.len()), (7, splits), "{name}");
        assert!(table.iter().all(|(_, asked)| asked.protocol.as_deref() == filled));
        assert!(table.iter().all(|(_, asked)| asked.config.paper_row.as_deref() == Some(row)));
        let own = format!("{row} (by its authors)");
        assert!(authors.iter().all(|(_, asked)| asked.config.paper_row.as_ref() == Some(&own)));
        let of = filled.and_then(|filled| filled.strip_prefix("paravt+")).unwrap_or("conan");
        assert!(authors.iter().all(|(_, asked)| asked.protocol.as_deref() == Some(of)));
    }
}

#[test]
fn the_built_in_recipe_is_the_reference_protocol() {
    let graph = graph("paravt-8b", &out());
    assert_eq!(configs(&graph).len(), 14);
    for (stage, Evaluation { config, splits, .. }) in configs(&graph) {
        let grounding = splits[0] == "charades";
        assert_eq!(config.channel() == Channel::Video, grounding, "{stage}");
        let mode = match (&config.paper_row, grounding) {
            (None, _) => "direct",
            (Some(_), true) => "agentic_minimal",
            (Some(_), false) => "agentic_general",
        };
        assert_eq!(config.mode, Some(PromptMode::named(mode)), "{stage}");
        assert_eq!((config.nframes(), config.max_turns(), config.max_parallel()), (64, 3, 5));
        let crop = config.crop.unwrap_or(CropMode::Frames);
        assert_eq!((crop, config.max_tokens), (CropMode::Frames, Some(2048)));
        assert_eq!(config.profile(), Profile::Paper);
        assert_eq!(config.profile().switches().video_channel_frames, 32);
    }
}

#[test]
fn a_model_of_ones_own_needs_no_row_and_deviates_from_nothing() {
    let of = |text: &str, protocol: Option<&str>| {
        let options = GraphOptions { protocol: protocol.map(str::to_owned), ..out() };
        Recipe::parse("mine.toml", text).unwrap().graph(&options).unwrap()
    };
    let mine = of(MINE, Some("nano"));
    let strict = |config: &RunConfig| (&config.paper_row, config.profile()) == (&None, Profile::Strict);
    assert!(configs(&mine).len() == 2 && configs(&mine).iter().all(|(_, asked)| strict(&asked.config)));
    let plan = format!("{}{}", mine.table(), mine.plan(&|_| true));
    assert!(plan.contains("the prompt texts of protocol nano") && !plan.contains("import"), "{plan}");
    assert!(!plan.contains("deviates") && !plan.contains("otherwise than"), "{plan}");

    let published = of(&format!("paper_row = \"ParaVT-8B\"\n{MINE}"), None);
    let rows = configs(&published).into_iter().map(|(_, asked)| asked.config.paper_row.is_some());
    assert_eq!(rows.collect::<Vec<_>>(), [true, false]);
    let is_paper = |config: &RunConfig| config.profile() == Profile::Paper;
    assert!(configs(&published).iter().all(|(_, asked)| is_paper(&asked.config)), "one profile for all");
    let plan = published.plan(&|_| true);
    assert!(plan.contains("imported from") && plan.contains("deviates"), "{plan}");
}

#[test]
fn flags_that_change_answers_change_the_folders_of_evaluations() {
    let limited = graph("paravt-8b", &GraphOptions { selection: json!({"limit": 2}), ..out() });
    let whole = graph("paravt-8b", &out());
    let pairs: Vec<_> = whole.evaluations().zip(limited.evaluations()).collect();
    assert!(pairs.len() == 14 && pairs.iter().all(|(a, b)| a.2 != b.2));
}

#[test]
fn another_engine_than_the_releases_is_a_deviation() {
    let deviations = |options: GraphOptions| {
        let graph = graph("paravt-8b", &options);
        let serve = graph.stages().iter().find(|stage| stage.name() == "serve").unwrap();
        serve.deviations().join("\n")
    };
    let with = |engine| GraphOptions { engine: Some(engine), ..out() };
    assert!(!deviations(out()).contains("vLLM"));
    let candle = deviations(with(Engine::Candle));
    assert!(candle.contains("by candle") && !candle.contains("servers"), "{candle}");
    assert!(deviations(with(Engine::Sglang)).contains("served by sglang"));
    assert!(deviations(GraphOptions { own_engine: true, ..out() }).contains("the one of this machine"));
    // The command of the one is not that of the other, in a file either.
    let plan = plan_of("extends = \"paravt-8b\"\nserve.engine = \"sglang\"\n");
    assert!(plan.contains("sglang.launch_server") && !plan.contains("vllm serve"), "{plan}");
}

#[test]
fn another_model_stands_beside_no_published_row_and_that_is_said_first() {
    let with = |model: &str| {
        let graph = graph("qwen3-vl-8b", &GraphOptions { model: Some(model.to_owned()), ..out() });
        let rows = configs(&graph).iter().filter(|(_, asked)| asked.config.paper_row.is_some()).count();
        (graph.table(), rows)
    };
    let first = |table: &str| {
        let (_, deviations) = table.split_once("deviations from the published code").unwrap();
        deviations.lines().nth(1).unwrap_or_default().to_owned()
    };
    let (table, rows) = with("Qwen/Qwen3-VL-4B-Instruct");
    let place = "Qwen/Qwen3-VL-4B-Instruct in the place of Qwen/Qwen3-VL-8B-Instruct;";
    assert!(table.starts_with(place), "{table}");
    assert!(first(&table).contains("the model is Qwen/Qwen3-VL-4B-Instruct in the place of"), "{table}");
    assert!(rows == 0 && !table.contains("beside the published row"), "{table}");
    // As where a recipe of one's own names it.
    let mine = super::plan_of("extends = \"qwen3-vl-8b\"\nmodel = \"Qwen/Qwen3-VL-4B-Instruct\"\n");
    assert!(mine.starts_with(place) && !mine.contains("beside the published row"), "{mine}");
    let row = super::plan_of("extends = \"qwen3-vl-8b\"\nmodel = \"o/m\"\npaper_row = \"ParaVT-8B\"\n");
    assert!(row.contains("beside the published row ParaVT-8B") && !row.contains("in the place of"), "{row}");
    let (table, rows) = with("/models/mine");
    assert!(first(&table).contains("the model is mine in the place of"), "{table}");
    assert_eq!(rows, 7, "its name does not say what it is");
    let (table, rows) = with("/models/Qwen3-VL-8B-Instruct");
    assert!(rows == 7 && !table.contains("the model is"), "{table}");
}

#[test]
fn deleted_archives_need_less_disk() {
    let space = |delete_archives| {
        let graph = graph("paravt-8b", &GraphOptions { delete_archives, ..out() });
        let preflight = graph.stages().iter().find_map(|stage| match stage.kind() {
            Some(Check::Machine(preflight)) => Some(preflight),
            _ => None,
        });
        let preflight = preflight.unwrap();
        preflight.needs_for(&preflight.fetch.items).disk_gib["data"].refuse.unwrap()
    };
    // 628 GB of benchmarks and 18 of the model: archives beside their members, or one after the other.
    assert_eq!((space(false), space(true)), (1187, 658));
}
