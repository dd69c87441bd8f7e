//! The embedded reproduction from end to end, in small: generate, train, evaluate, report.

use std::path::Path;
use std::process::Output;

const RECIPE: &str = r#"
title = "small"
comparisons = [{ title = "Tools?", a = "no-tool", b = "with-tool", paper = "+3", at_least = 15.0 }]

[world]
videos = 1
questions = 2
seed = 1

[data]
videos = 2
rows = 8
prompts = 4

[sft]
steps = 3
pack_tokens = 1024
packs_per_step = 1
save_every = 2

[rl]
steps = 2
prompts_per_step = 2
micro_batch_tokens = 1024
save_every = 1

[rl.rollout]
semantics = "paper"
group_size = 2
max_new_tokens = 96
frame_budgets = [4]

[evaluate]
profile = "strict"
nframes = 4
max_turns = 2
max_parallel = 5
max_tokens = 96
splits = ["lvbench", "charades"]

[[runs]]
name = "with-tool"
model = "rl"
mode = "native"

[[runs]]
name = "no-tool"
model = "rl"
mode = "direct"
"#;

fn reproduce(folder: &Path, extra: &[&str]) -> Output {
    let mut command = crate::common::bench();
    command.current_dir(folder).args(["reproduce", "small.toml", "--out", "out"]).args(extra);
    command.output().unwrap()
}

/// The folder of a stage: its name, a hyphen and twelve hexadecimal digits.
fn stage(folder: &Path, name: &str) -> std::path::PathBuf {
    let entries = std::fs::read_dir(folder.join("out/stages")).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |path: &std::path::PathBuf| {
        let found = path.file_name().unwrap().to_string_lossy().into_owned();
        found.strip_prefix(name).is_some_and(|rest| rest.len() == 13 && rest.starts_with('-'))
    };
    entries.into_iter().find(is_it).unwrap()
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn stages_run_once_to_the_report_and_again_from_a_named_one() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), RECIPE).unwrap();
    let plan = reproduce(folder.path(), &["--plan"]);
    assert!(plan.status.success() && !folder.path().join("out").exists());
    for stage in ["base", "world", "data", "sft", "rl", "with-tool", "no-tool", "report"] {
        assert!(told(&plan).contains(&format!(". {stage}")), "{stage}: {}", told(&plan));
    }

    let first = reproduce(folder.path(), &[]);
    assert!(first.status.success(), "{}", told(&first));
    let page = std::fs::read_to_string(folder.path().join("out/report/index.html")).unwrap();
    assert!(page.contains("f_tau") && page.contains("LVBench"), "curves and scores are in the page");
    assert!(page.contains("Tools?"), "the recipe's question is in the page");
    assert!(told(&first).contains("Tools?: with-tool against no-tool, 1 seed"), "{}", told(&first));
    let study = std::fs::read_to_string(folder.path().join("out/report/tables/study.csv")).unwrap();
    assert_eq!(study.lines().count(), 1 + 3, "the mean and two splits: {study}");
    let curves = std::fs::read_to_string(folder.path().join("out/report/tables/curves.csv")).unwrap();
    assert!(curves.contains("rl,PARA-GRPO,f_tau,1"), "{curves}");

    let second = reproduce(folder.path(), &[]);
    assert_eq!(told(&second).matches("(done before)").count(), 7, "{}", told(&second));

    let again = reproduce(folder.path(), &["--from", "with-tool"]);
    assert_eq!(told(&again).matches("(done before)").count(), 5, "{}", told(&again));

    // What a training is a training of, beside its curves.
    let run = stage(folder.path(), "with-tool").join("lvbench");
    let identity: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("training.json")).unwrap()).unwrap();
    assert_eq!((identity["recipe"].as_str(), identity["protocol"].as_str()), (Some("small"), Some("nano")));
    assert!(identity["parameters"].as_u64().unwrap() > 1_000_000 && run.join("training.jsonl").is_file());

    // A finished training that lost a file, as one of an older version may have, is done again.
    let sft = stage(folder.path(), "sft");
    std::fs::remove_file(sft.join("final/config.json")).unwrap();
    let mended = reproduce(folder.path(), &[]);
    assert!(mended.status.success(), "{}", told(&mended));
    assert!(told(&mended).contains("final/config.json is missing"), "{}", told(&mended));
    assert_eq!(told(&mended).matches("(done before)").count(), 6, "{}", told(&mended));
    assert!(sft.join("final/config.json").is_file());

    // So is one that other code made, unless that is accepted.
    let mark = sft.join("stage.json");
    let text = std::fs::read_to_string(&mark).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&text).unwrap();
    other["code"] = "0123".into();
    std::fs::write(&mark, other.to_string()).unwrap();
    let kept = reproduce(folder.path(), &["--keep-stages"]);
    assert_eq!(told(&kept).matches("(done before)").count(), 7, "{}", told(&kept));
    let redone = reproduce(folder.path(), &[]);
    assert!(told(&redone).contains("another version of the code"), "{}", told(&redone));
    assert_eq!(told(&redone).matches("(done before)").count(), 6, "{}", told(&redone));

    // One process at a time.
    let lock = std::fs::File::open(folder.path().join("out/.lock")).unwrap();
    lock.lock().unwrap();
    let locked = reproduce(folder.path(), &[]);
    assert!(!locked.status.success() && told(&locked).contains("another process"), "{}", told(&locked));
    drop(lock);

    let wrong = reproduce(folder.path(), &["--from", "evaluate"]);
    assert!(!wrong.status.success() && told(&wrong).contains("there are base, world"), "{}", told(&wrong));
}

#[test]
fn a_recipe_of_the_base_alone_trains_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let start = RECIPE.find("[data]").unwrap();
    let end = RECIPE.find("[evaluate]").unwrap();
    let text = format!("{}{}", &RECIPE[..start], &RECIPE[end..]).replace("\"rl\"", "\"base\"");
    std::fs::write(folder.path().join("small.toml"), text).unwrap();
    let plan = told(&reproduce(folder.path(), &["--plan"]));
    assert!(!plan.contains(". sft") && plan.contains("  5. report"), "{plan}");
}

#[test]
fn an_unknown_field_of_a_recipe_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = RECIPE.replace("prompts_per_step", "prompt_per_step");
    std::fs::write(folder.path().join("small.toml"), text).unwrap();
    let output = reproduce(folder.path(), &["--plan"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("did you mean `prompts_per_step`"), "{}", told(&output));
}

#[test]
fn an_invalid_recipe_is_refused_before_any_stage() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, named) in [
        ("name = \"with-tool\"", "name = \"../../../up\"", "[[runs]] name"),
        ("name = \"with-tool\"", "name = \"/abs\"", "[[runs]] name"),
        ("save_every = 2", "save_every = 0", "`sft.save_every` is 0"),
        ("packs_per_step = 1", "packs_per_step = 0", "`sft.packs_per_step` is 0"),
        ("prompts_per_step = 2", "prompts_per_step = 0", "`rl.prompts_per_step` is 0"),
        ("micro_batch_tokens = 1024", "micro_batch_tokens = 0", "`rl.micro_batch_tokens` is 0"),
        ("splits = [\"lvbench\", \"charades\"]", "splits = [\"nothing\"]", "nothing"),
        ("title = \"small\"", "title = \"small\"\nkind = \"served\"", "small.toml"),
    ] {
        std::fs::write(folder.path().join("small.toml"), RECIPE.replacen(from, to, 1)).unwrap();
        let output = reproduce(folder.path(), &[]);
        assert_eq!(output.status.code(), Some(2), "{to}: {}", told(&output));
        assert!(told(&output).contains(named), "{to}: {}", told(&output));
        assert!(!folder.path().join("out").exists(), "{to}");
    }
    std::fs::write(folder.path().join("small.toml"), b"\xff\xfe").unwrap();
    let output = reproduce(folder.path(), &[]);
    assert!(output.status.code() == Some(2) && told(&output).contains("small.toml"), "{}", told(&output));
}
